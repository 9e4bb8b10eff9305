"""What was made lately, kept for the next one who wants the same."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """The values that were used last, by key. Bounded in their number and in their total weight; a value that weighs
    more than a quarter of that is not kept. Safe for threads.

    Args:
        most: how many values are kept.
        weight: of all of them; the unit is the caller's (bytes, say).
    """

    def __init__(self, most: int, weight: int) -> None:
        self.most = most
        self.weight = weight
        self._held = 0
        self._values: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> T | None:
        """The value of ``key``, which counts as used; None where there is none any more."""
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, value: T, weight: int) -> None:
        """Keep ``value``, and let those go that were not used for the longest time."""
        if 4 * weight > self.weight:
            return
        with self._lock:
            before = self._values.pop(key, None)
            self._held += weight - (0 if before is None else before[1])
            self._values[key] = value, weight
            while len(self._values) > self.most or self._held > self.weight:
                self._held -= self._values.popitem(last=False)[1][1]

    def clear(self) -> None:
        """Let everything go."""
        with self._lock:
            self._values.clear()
            self._held = 0

    def __len__(self) -> int:
        return len(self._values)
