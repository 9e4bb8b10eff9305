"""Mask rows: one for each distinct mask of a vocabulary, whatever grammar it came from.

Most masks of most grammars are equal to some other. A row is looked up by the parts that it is put together from,
and, where those are new, by its content. Rows have ids, so that a device can keep a table of its own and get one
number for a position; the table here is bounded in bytes, least recently made rows go first.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.errors import GrammarError
from structgen.grammars import walk
from structgen.grammars.trie import Part

MAX_ROW_BYTES = 256 << 20
MAX_KEYS = 100_000  # combinations of parts that are remembered


class Row:
    """A mask row.

    Attributes:
        id: unique among all rows of the process; a row that was dropped and made again has a new one.
        words: uint32 [ceil(vocab.size / 32)], read-only; bit ``i & 31`` of word ``i >> 5`` says that id i is legal.
        data: the same memory, as bytes.
    """

    __slots__ = ("data", "id", "words")
    _ids = count()

    def __init__(self, words: NDArray[np.uint32]) -> None:
        words.flags.writeable = False
        self.id = next(self._ids)
        self.words = words
        self.data = memoryview(words).cast("B")  # type: ignore[arg-type]


class Rows:
    """The distinct rows of a vocabulary. Callers hold ``LOCK``.

    Args:
        words: uint32 words of a row.
        end: the row of the end tokens alone.
        max_bytes: of all rows together.
    """

    def __init__(self, words: int, end: NDArray[np.uint32], max_bytes: int = MAX_ROW_BYTES) -> None:
        self.words = words
        self.end = Row(end)
        self.max_rows = max(max_bytes // (4 * words), 16)
        self._scratch = np.zeros(words, dtype=np.uint32)
        self._by_content: dict[int, Row] = {}
        self._by_parts: dict[tuple[frozenset[Part], bool], Row] = {}

    def __len__(self) -> int:
        return len(self._by_content)

    def of(self, parts: Iterable[Part], may_end: bool, more: Iterable[int] = ()) -> Row:
        """The row of the tokens of all parts, of single tokens, and of the end tokens if the text may end."""
        key = (frozenset(parts), may_end)
        more = tuple(more)
        if not more and (known := self._by_parts.get(key)) is not None:
            return known
        row = self._scratch
        if may_end:
            row[:] = self.end.words
        else:
            row.fill(0)
        for part in key[0]:
            part.add_to(row)
        if more:
            walk.set_bits(row, np.array(more, dtype=np.int32))
        found = self._interned(row)
        if not more:
            if len(self._by_parts) >= MAX_KEYS:
                self._by_parts.clear()
            self._by_parts[key] = found
        return found

    def _interned(self, row: NDArray[np.uint32]) -> Row:
        hashed = walk.hash_row(row)
        found = self._by_content.get(hashed)
        if found is not None and np.array_equal(found.words, row):
            return found
        if len(self._by_content) >= self.max_rows:
            for old in list(self._by_content)[: self.max_rows // 4]:
                del self._by_content[old]
            self._by_parts.clear()
        made = self._by_content[hashed] = Row(row.copy())
        return made


def writable(row: Any, words: int) -> memoryview:
    """The bytes of a caller's mask row. Raises GrammarError for a wrong shape or type."""
    array = row if isinstance(row, np.ndarray) else None
    if array is None and hasattr(row, "numpy"):
        array = row.numpy()
    if array is None or array.dtype not in _TYPES or array.shape != (words,):
        given = f"{getattr(row, 'dtype', type(row).__name__)} {tuple(getattr(row, 'shape', ()))}"
        raise GrammarError(
            f"a mask row must be a uint32 or int32 array (numpy, or torch on the CPU) of shape ({words},); got {given}"
        )
    if not array.flags.c_contiguous:
        raise GrammarError("a mask row must be contiguous; give a row of an array, not a column")
    return memoryview(array).cast("B")  # type: ignore[arg-type]


_TYPES = (np.dtype(np.uint32), np.dtype(np.int32))
