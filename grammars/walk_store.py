"""Walks of a vocabulary that took long, kept on disk: what one process has walked, the next one need not.

An entry is found by a fingerprint of the expression, which is the same in every process. Entries are collected while a
process runs and written a few seconds later and when it ends, in one file a vocabulary, those used last first; the file
is bounded. Where two processes write at once, the entries of one of them are lost, which costs time and nothing else.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from typing import Any
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from structgen.grammars import disk_store
from structgen.grammars.expr import Alt, And, Expr, Literal, Never, Not, Out, Rep, Seq, Switch, Tagged, WordNode, Words
from structgen.grammars.lifted import UNSURE, Lifted, Loose, Reading
from structgen.grammars.residual import LOCK

KIND = "walks"
MAX_BYTES = 24 << 20  # of the entries of a vocabulary
LEAST_S = 4e-4  # walks that are faster are not worth an entry
DELAY_S = 5.0  # from a walk to the file
_MAX_KNOWN = 100_000

Entry = Sequence[NDArray[np.int32]]


class WalkStore:
    """The stored walks of one vocabulary. Callers hold ``LOCK``.

    Args:
        key: of the vocabulary, as in ``disk_store``.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._stored: dict[bytes, slice] | None = None
        self._data = _NOTHING
        self._used: dict[bytes, NDArray[np.int32]] = {}
        self._new = 0
        self._timer: threading.Timer | None = None
        _open_stores.add(self)

    @property
    def is_empty(self) -> bool:
        """Nothing is stored yet."""
        return not self._load() and not self._used

    def _load(self) -> dict[bytes, slice]:
        if self._stored is None:
            self._stored = {}
            arrays = disk_store.load(KIND, self._key)
            if arrays is not None:
                keys, self._data = arrays["keys"].tobytes(), arrays["data"]
                begin = 0
                for i, end in enumerate(arrays["ends"].tolist()):
                    self._stored[keys[16 * i : 16 * i + 16]] = slice(begin, end)
                    begin = end
        return self._stored

    def find(self, kind: str, expr: Expr) -> list[NDArray[np.int32]] | None:
        """The arrays that were added for an expression."""
        if not self._load():
            return None
        key = _key(kind, expr)
        if key is None or (where := self._load().get(key)) is None:
            return None
        found = self._used[key] = self._data[where]
        count = int(found[0])
        arrays, at = [], 1 + count
        for size in found[1 : 1 + count].tolist():
            arrays.append(found[at : at + size])
            at += size
        return arrays

    def add(self, kind: str, expr: Expr, arrays: Entry) -> None:
        """Keep arrays, int32, for an expression; nothing happens where it has no fingerprint."""
        key = _key(kind, expr)
        if key is None:
            return
        sizes = np.array([len(arrays), *map(len, arrays)], dtype=np.int32)
        self._used[key] = np.concatenate([sizes, *arrays]).astype(np.int32)
        self._new += 1
        if self._timer is None:
            self._timer = threading.Timer(DELAY_S, self.flush)
            self._timer.daemon = True
            self._timer.start()

    def flush(self) -> None:
        """Write what is new."""
        with LOCK:
            self._timer = None
            if not self._new:
                return
            self._new = 0
            stored = {key: self._data[where] for key, where in self._load().items()}
            entries = {**self._used, **{key: each for key, each in stored.items() if key not in self._used}}
        kept: dict[bytes, NDArray[np.int32]] = {}
        size = 0
        for key, each in entries.items():
            size += each.nbytes
            if size > MAX_BYTES:
                break
            kept[key] = each
        if kept:
            disk_store.save(KIND, self._key, {
                "keys": np.frombuffer(b"".join(kept), dtype=np.uint8),
                "ends": np.cumsum([len(each) for each in kept.values()], dtype=np.int64),
                "data": np.concatenate(list(kept.values())),
            })  # fmt: skip


_NOTHING = np.zeros(0, dtype=np.int32)
_open_stores: WeakSet[WalkStore] = WeakSet()


@atexit.register
def _flush_all() -> None:
    for each in list(_open_stores):
        each.flush()


# ------------------------------------------------------------------------------------------------ fingerprints

_EXPRS = (Never, Out, Switch, Literal, Seq, Alt, Rep, And, Not, Tagged, Words, Lifted, Reading, Loose)
"""Expressions that their fields alone determine, and fields that can be told in every process."""
_known: dict[int, bytes | None] = {}
"""By the numbers of expressions, which are never used twice."""


class _Untold(Exception):
    """Something has no fingerprint."""


def _key(kind: str, expr: Expr) -> bytes | None:
    try:
        found = _known[expr.uid]
    except KeyError:
        if len(_known) >= _MAX_KNOWN:
            _known.clear()
        try:
            found = _of_expr(expr)
        except (_Untold, RecursionError):
            found = None
        _known[expr.uid] = found
    return None if found is None else _digest(kind.encode(), found)


def _digest(*parts: bytes) -> bytes:
    return blake2b(b"\x00".join(parts), digest_size=16).digest()


def _of_expr(expr: Expr) -> bytes:
    known = _known.get(expr.uid)
    if known is not None:
        return known
    if type(expr) not in _EXPRS:
        raise _Untold
    if isinstance(expr, Seq):
        # A long sequence is a chain of tails.
        heads = []
        at: Expr = expr
        while isinstance(at, Seq):
            heads.append(_of_expr(at.head))
            at = at.tail
        made = _digest(b"Seq", *heads, _of_expr(at))
    elif isinstance(expr, (Alt, And)):  # whose items are in the order in which they were met
        made = _digest(type(expr).__name__.encode(), *sorted(map(_of_expr, expr.items)))
    else:
        values = (getattr(expr, name) for name in expr.fields)
        made = _digest(type(expr).__name__.encode(), *map(_of_value, values))
    _known[expr.uid] = made
    return made


def _of_value(value: Any) -> bytes:
    if isinstance(value, Expr):
        return _of_expr(value)
    if value is None or isinstance(value, (bool, int, str, bytes)):
        return repr(value).encode("utf-8", "surrogatepass")
    if isinstance(value, tuple):
        return _digest(b"tuple", *map(_of_value, value))
    if isinstance(value, frozenset):
        return _digest(b"frozenset", *sorted(map(_of_value, value)))
    if isinstance(value, WordNode):
        return _digest(b"words", repr(value.items).encode("utf-8", "surrogatepass"))
    if value is UNSURE:
        return b"unsure"
    if is_dataclass(value) and not isinstance(value, type):
        kind = f"{type(value).__module__}.{type(value).__qualname__}".encode()
        return _digest(kind, *(_of_value(getattr(value, each.name)) for each in fields(value)))
    name = getattr(value, "name", None)
    if isinstance(name, str) and hasattr(value, "spellings"):  # an encoding
        return name.encode()
    raise _Untold
