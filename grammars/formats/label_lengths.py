"""The lengths of many labels in Punycode at once: one compiled loop (see punycode.py for the readable one)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numba.core import types
from numba.core.types import Array, int32, int64
from numpy.typing import NDArray

_types: Any = types
_i32 = Array(int32, 1, "C")
_i64 = Array(int64, 1, "C")


@njit(_types.void(_i32, _i32, _i64, int64, _i32), cache=True, nogil=True)  # type: ignore[untyped-decorator]
def octets(
    text: NDArray[np.int32], codes: NDArray[np.int32], offsets: NDArray[np.int64], limit: int,
    lengths: NDArray[np.int32],
) -> None:  # fmt: skip
    """Octets of the A-labels of ``text`` continued by each ``codes[offsets[i]:offsets[i+1]]``.

    Args:
        text: code points, at most 64.
        limit: lengths above it are not told apart (``limit + 1``).
        lengths: int32, one for each continuation; filled.
    """
    label = np.zeros(64, dtype=np.int32)
    n = len(text)
    label[:n] = text
    for i in range(len(offsets) - 1):
        size = n + offsets[i + 1] - offsets[i]
        if size > 63 or size > limit:
            lengths[i] = limit + 1
            continue
        label[n:size] = codes[offsets[i] : offsets[i + 1]]
        basic = 0
        for j in range(size):
            if label[j] < 0x80:
                basic += 1
        if basic == size:
            lengths[i] = size
            continue
        total = 4 + basic + (1 if basic > 0 else 0)
        handled = basic
        bias = 72
        last = 0x80
        delta = 0
        first = True
        while handled < size and total <= limit:
            code = 0x7FFFFFFF
            for j in range(size):
                if last <= label[j] < code:
                    code = label[j]
            delta += (code - last) * (handled + 1)
            for j in range(size):
                if label[j] < code:
                    delta += 1
                elif label[j] == code:
                    q = delta
                    at = 36
                    while True:
                        total += 1
                        t = min(max(at - bias, 1), 26)
                        if q < t:
                            break
                        q = (q - t) // (36 - t)
                        at += 36
                    handled += 1
                    q = delta // 700 if first else delta // 2
                    first = False
                    q += q // handled
                    bias = 0
                    while q > 455:
                        q //= 35
                        bias += 36
                    bias += 36 * q // (q + 38)
                    delta = 0
            delta += 1
            last = code + 1
        lengths[i] = min(total, limit + 1)
