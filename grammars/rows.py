"""Mask rows: one for each distinct mask of a vocabulary, whatever grammar it came from.

Most masks of most grammars are equal to some other. A row is looked up by the parts that it is put together from,
and, where those are new, by its content. Rows have ids, so that a device can keep a table of its own and get one
number for a position; the table here is bounded in bytes, least recently made rows go first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structgen.errors import GrammarError
from structgen.grammars import walk
from structgen.grammars.trie import FEW, Part, row_ids

MAX_ROW_BYTES = 256 << 20
MAX_KEYS = 100_000  # combinations of parts that are remembered


class Row:
    """A mask row. One of few tokens stays a list until it is wanted again: many are met only once.

    Attributes:
        id: unique among all rows of the process; a row that was dropped and made again has a new one.
        tokens: the legal ids, ascending, int32, where they are few; else None.
    """

    __slots__ = ("_data", "_size", "_words", "address", "id", "tokens")
    _ids = count()

    def __init__(self, size: int, words: NDArray[np.uint32] | None, tokens: NDArray[np.int32] | None = None) -> None:
        self.id = next(self._ids)
        self.tokens = tokens
        self._size = size
        self._words = words
        if words is not None:
            words.flags.writeable = False
        self._data: memoryview | None = None
        self.address = 0
        """Of ``words`` in memory, as long as the row lives; 0 while there are none."""
        if words is not None:
            self.address = words.ctypes.data

    @property
    def words(self) -> NDArray[np.uint32]:
        """uint32 [ceil(vocab.size / 32)], read-only; bit ``i & 31`` of word ``i >> 5`` says that id i is legal."""
        if self._words is None or self._words is _SEEN:
            assert self.tokens is not None
            made = np.zeros(self._size, dtype=np.uint32)
            walk.set_bits(made, self.tokens)
            made.flags.writeable = False
            self._words = made
            self.address = made.ctypes.data
        return self._words

    def write(self, target: Target) -> None:
        """Write the row over a caller's."""
        if self._data is not None:
            target.data[:] = self._data
        elif self._words is None and self.tokens is not None:
            target.words.fill(0)
            walk.set_bits(target.words, self.tokens)
            self._words = _SEEN
        else:
            self._data = memoryview(self.words).cast("B")  # type: ignore[arg-type]
            target.data[:] = self._data


_SEEN = np.zeros(0, dtype=np.uint32)


class Rows:
    """The distinct rows of a vocabulary. Callers hold ``LOCK``.

    Args:
        words: uint32 words of a row.
        end: the row of the end tokens alone.
        max_bytes: of all rows together.
    """

    def __init__(self, words: int, end: NDArray[np.uint32], max_bytes: int = MAX_ROW_BYTES) -> None:
        self.words = words
        self.end = Row(words, end)
        self._end_tokens = row_ids(end).tolist()
        self.max_rows = max(max_bytes // (4 * words), 16)
        self._scratch = np.zeros(words, dtype=np.uint32)
        self._by_content: dict[int, Row] = {}
        self._by_tokens: dict[tuple[int, ...], Row] = {}
        self._by_parts: dict[tuple[frozenset[Part], bool], Row] = {}

    def __len__(self) -> int:
        return len(self._by_content)

    def of(self, parts: Iterable[Part], may_end: bool, more: Iterable[int] = ()) -> Row:
        """The row of the tokens of all parts, of single tokens, and of the end tokens if the text may end."""
        key = (frozenset(parts), may_end)
        more = tuple(more)
        if not more and (known := self._by_parts.get(key)) is not None:
            return known
        found = self._of_few(key[0], may_end, more) or self._of_many(key[0], may_end, more)
        if not more:
            if len(self._by_parts) >= MAX_KEYS:
                self._by_parts.clear()
            self._by_parts[key] = found
        return found

    def _of_few(self, parts: frozenset[Part], may_end: bool, more: tuple[int, ...]) -> Row | None:
        tokens = [*more, *self._end_tokens] if may_end else [*more]
        for part in parts:
            if part.few is None:
                return None
            tokens += part.few
        if len(tokens) > FEW:
            return None
        key = tuple(sorted(set(tokens)))
        found = self._by_tokens.get(key)
        if found is None:
            if len(self._by_tokens) >= MAX_KEYS:
                self._by_tokens.clear()
            found = self._by_tokens[key] = Row(self.words, None, np.array(key, dtype=np.int32))
        return found

    def _of_many(self, parts: frozenset[Part], may_end: bool, more: tuple[int, ...]) -> Row:
        row = self._scratch
        if may_end:
            row[:] = self.end.words
        else:
            row.fill(0)
        tokens = list(more)
        for part in parts:
            if part.few is None:
                part.add_to(row)
            else:
                tokens += part.few
        if tokens:
            walk.set_bits(row, np.array(tokens, dtype=np.int32))
        return self._interned(row)

    def _interned(self, row: NDArray[np.uint32]) -> Row:
        hashed = walk.hash_row(row)
        found = self._by_content.get(hashed)
        if found is not None and walk.equal(found.words, row):
            return found
        if len(self._by_content) >= self.max_rows:
            for old in list(self._by_content)[: self.max_rows // 4]:
                del self._by_content[old]
            self._by_parts.clear()
        made = self._by_content[hashed] = Row(self.words, row.copy())
        return made


def write_rows(rows: Sequence[Row], target: NDArray[np.uint32]) -> None:
    """Write mask rows into ``target``, uint32 [len(rows), words], in one call that lets other threads run."""
    addresses = np.array([row.address for row in rows], dtype=np.int64)
    few = [row.tokens for row in rows if not row.address and row.tokens is not None]
    sizes = [0 if row.address or row.tokens is None else len(row.tokens) for row in rows]
    offsets = np.array([*accumulate(sizes, initial=0)], dtype=np.int32)
    walk.fill_rows(addresses, np.concatenate(few) if few else _NONE, offsets, target)


_NONE = np.zeros(0, dtype=np.int32)


def as_words(rows: Any, shape: tuple[int, ...]) -> NDArray[np.uint32]:
    """The caller's mask rows, uint32, as numpy sees them. Raises GrammarError for a wrong shape or type."""
    array = rows if isinstance(rows, np.ndarray) else None
    if array is None and hasattr(rows, "numpy"):
        array = rows.numpy()
    if array is None or array.dtype not in _TYPES or array.shape != shape:
        given = f"{getattr(rows, 'dtype', type(rows).__name__)} {tuple(getattr(rows, 'shape', ()))}"
        what = "a mask row" if len(shape) == 1 else "rows of masks"
        raise GrammarError(
            f"{what} must be a uint32 or int32 array (numpy, or torch on the CPU) of shape {shape}; got {given}"
        )
    if not array.flags.c_contiguous:
        raise GrammarError("a mask row must be contiguous; give a row of an array, not a column")
    made: NDArray[np.uint32] = array.view(np.uint32)
    return made


class Target(NamedTuple):
    """A caller's mask row.

    Attributes:
        row: what the caller gave.
        words: uint32 view of it.
        data: the same memory, as bytes.
    """

    row: Any
    words: NDArray[np.uint32]
    data: memoryview

    @classmethod
    def of(cls, row: Any, words: int) -> Target:
        """Raises GrammarError for a wrong shape or type."""
        array = as_words(row, (words,))
        return cls(row, array, memoryview(array).cast("B"))  # type: ignore[arg-type]


_TYPES = (np.dtype(np.uint32), np.dtype(np.int32))
