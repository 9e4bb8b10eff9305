"""Token tries: T0, that of all tokens, and the suffix tries of what is left of tokens behind something. What is left
behind a JSON string's closing quote is a trie of some hundred nodes. Equal tries are the same object."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from structgen.grammars import disk_store, walk
from structgen.grammars.walk_store import WalkStore

if TYPE_CHECKING:
    from structgen.grammars.residual import Store

_ids = count()
MAX_TOKEN_BYTES = 4096
LEAST_STORED = 1 << 14  # tokens; smaller tries are built about as fast as they are read
FEW = 64  # tokens of a part that is copied rather than kept beside others
ANY_FIRST: NDArray[np.uint8] = np.ones(256, dtype=np.uint8)


class Part:
    """A set of token ids, kept as a tuple when they are few, as a list (int32) or, when that is smaller, as a mask row
    (uint32)."""

    __slots__ = ("_tokens", "count", "few", "row")

    def __init__(self, tokens: Sequence[int] | NDArray[np.int32], words: int) -> None:
        self.count = len(tokens)
        self.few: tuple[int, ...] | None = None
        self.row: NDArray[np.uint32] | None = None
        self._tokens: NDArray[np.int32] | None = None
        if self.count <= FEW:
            self.few = tuple(tokens.tolist() if isinstance(tokens, np.ndarray) else tokens)
            return
        ids = np.asarray(tokens, dtype=np.int32)
        if self.count > words:
            self.row = np.zeros(words, dtype=np.uint32)
            walk.set_bits(self.row, ids)
        else:
            self._tokens = ids

    def add_to(self, row: NDArray[np.uint32]) -> None:
        """Set the bits of these tokens in ``row``."""
        if self.row is not None:
            np.bitwise_or(row, self.row, out=row)
        else:
            walk.set_bits(row, self.ids())

    def ids(self) -> NDArray[np.int32]:
        """The token ids, int32."""
        if self._tokens is not None:
            return self._tokens
        return row_ids(self.row) if self.row is not None else np.array(self.few, dtype=np.int32)


def joined(parts: Collection[Part], words: int) -> tuple[Part, ...]:
    """The parts, those of few tokens put together to one."""
    if len(parts) < 2:
        return tuple(parts)
    large: list[Part] = []
    tokens: list[int] = []
    for part in parts:
        if part.few is None:
            large.append(part)
        else:
            tokens += part.few
    if len(parts) - len(large) < 2:
        return tuple(parts)
    large.append(Part(tokens, words))
    return tuple(large)


def row_ids(row: NDArray[np.uint32]) -> NDArray[np.int32]:
    """The ids whose bits are set in a mask row, ascending, int32."""
    return np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).astype(np.int32)


class _Shared:
    """What all tries of one vocabulary share: scratch buffers and the table of distinct tries."""

    def __init__(self, data: Sequence[bytes | None], nodes: int, words: int, max_len: int) -> None:
        self.tokens = data
        self.words = words
        self.longest = max_len
        """Length in bytes of the longest token."""
        self.stay = np.zeros(len(data) + 1, dtype=np.int32)
        self.end_nodes = np.zeros(nodes + 1, dtype=np.int32)
        self.end_states = np.zeros(nodes + 1, dtype=np.int32)
        self.stack = np.zeros(max_len + 2, dtype=np.int32)
        self.words_state = np.zeros((max_len + 2) * walk.WORD_FIELDS, dtype=np.int64)
        self.at = np.zeros(4, dtype=np.int64)
        self.cursor = np.zeros(2 * max_len + 4, dtype=np.int32)
        self.by_content: dict[tuple[bytes, bytes, bytes, bytes], Trie] = {}


Kids = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint8]]
"""The children of every node, see ``walk.children``."""


def kids_of(byte: NDArray[np.uint8], depth: NDArray[np.int32], end: NDArray[np.int32]) -> Kids:
    size = len(byte)
    made = np.empty(size + 1, dtype=np.int32), np.empty(size, dtype=np.int32), np.empty(size, dtype=np.uint8)
    walk.children(depth, end, byte, *made)
    return made


class Shape:
    """The tree that several tries share: a trie is the subtree of one of its nodes.

    Attributes:
        kids: the children of every node.
        inside: see ``walk.inside_of``; empty for small trees, where a look at every node is as fast.
    """

    __slots__ = ("inside", "kids")

    def __init__(self, byte: NDArray[np.uint8], depth: NDArray[np.int32], end: NDArray[np.int32]) -> None:
        self.kids = kids_of(byte, depth, end)
        self.inside = walk.inside_of(byte, self.kids) if len(byte) >= LARGE else NOT_KNOWN


LARGE = 1_000
NOT_KNOWN: NDArray[np.uint64] = np.zeros(0, dtype=np.uint64)


class Trie:
    """A set of (suffix, token id) pairs: the subtree of node ``root`` in flat arrays (layout: ``walk``).

    Attributes:
        here: tokens whose suffix is empty.
        deeper: some suffix is not empty.
        stored: for a whole vocabulary its stored walks; else None.
    """

    __slots__ = (
        "_views", "byte", "deeper", "depth", "end", "here", "id", "inside", "kids", "root",
        "shape", "shared", "start", "stored", "tokens",
    )  # fmt: skip

    def __init__(
        self,
        shared: _Shared,
        byte: NDArray[np.uint8],
        depth: NDArray[np.int32],
        end: NDArray[np.int32],
        start: NDArray[np.int32],
        tokens: NDArray[np.int32],
        root: int,
        views: dict[int, Trie] | None = None,
        shape: Shape | None = None,
    ) -> None:
        self.id = next(_ids)
        self.shared = shared
        self.byte, self.depth, self.end, self.start, self.tokens = byte, depth, end, start, tokens
        self.root = root
        self._views: dict[int, Trie] = {} if views is None else views
        self._views[root] = self
        last = int(end[root])
        self.deeper = last > root + 1
        self.shape = Shape(byte, depth, end) if shape is None else shape
        self.kids, self.inside = self.shape.kids, self.shape.inside
        self.stored: WalkStore | None = None
        here = tokens[start[root] : start[root + 1]]
        self.here: Part | None = Part(here, shared.words) if len(here) else None

    @classmethod
    def of_tokens(cls, tokens: Sequence[bytes | None], words: int, key: str | None = None) -> Trie:
        """The trie of a vocabulary: ``tokens[i]`` are the bytes of id i (None or empty: left out).

        Args:
            words: uint32 words of a mask row.
            key: a name for these tokens in the on-disk store (a hash of them); None: not stored.
        """
        arrays = None if key is None else disk_store.load("trie", key)
        if arrays is None:
            arrays = _laid_out(tokens)
            if key is not None and len(tokens) >= LEAST_STORED:
                disk_store.save("trie", key, arrays)
        byte, depth, end, start, ids = (arrays[name] for name in ("byte", "depth", "end", "start", "ids"))
        shared = _Shared(tokens, len(byte), words, int(depth.max(initial=0)))
        made = cls(shared, byte, depth, end, start, ids, 0)
        if key is not None and len(tokens) >= LEAST_STORED and disk_store.folder() is not None:
            made.stored = WalkStore(key)
        return made

    def view(self, node: int) -> Trie:
        """The subtree of ``node``, sharing the arrays."""
        found = self._views.get(node)
        if found is None:
            found = Trie(
                self.shared, self.byte, self.depth, self.end, self.start, self.tokens, node, self._views,
                self.shape,
            )
        return found

    @property
    def is_large(self) -> bool:
        """Whether a walk takes long."""
        return int(self.end[self.root]) - self.root >= LARGE

    def child(self, node: int, byte: int) -> int:
        """The child of ``node`` for a byte; -1 if there is none."""
        found: int = walk.child(*self.kids, node, byte)
        return found

    def union(self, roots: NDArray[np.int32], first: NDArray[np.uint8] = ANY_FIRST) -> Trie:
        """The suffixes below any of the nodes ``roots``, less those whose first byte b has ``first[b]`` 0."""
        if len(roots) == 1 and first is ANY_FIRST:
            return self.view(int(roots[0]))
        nodes, tokens = walk.room(self.byte, self.end, self.start, roots, first)
        out = _buffers(nodes, tokens)
        n, t = walk.merge(self.byte, self.end, self.start, self.tokens, roots, first, nodes, *out)
        return self._interned(n, t, *out)

    def fill_at(self, store: Store, node: int) -> None:
        """Build the transition to ``node`` at which ``walk.count`` has stopped."""
        missing = store.rows[int(self.shared.stack[self.depth[node] - self.depth[self.root] - 1])]
        assert missing is not None
        store.fill(missing, int(self.byte[node]))

    def _interned(
        self, n: int, t: int, byte: NDArray[np.uint8], depth: NDArray[np.int32], end: NDArray[np.int32],
        start: NDArray[np.int32], tokens: NDArray[np.int32],
    ) -> Trie:  # fmt: skip
        byte, depth, end = byte[:n].copy(), depth[:n].copy(), end[:n].copy()
        start, tokens = start[: n + 1].copy(), tokens[:t].copy()
        key = (byte.tobytes(), end.tobytes(), start.tobytes(), tokens.tobytes())
        found = self.shared.by_content.get(key)
        if found is None:
            found = self.shared.by_content[key] = Trie(self.shared, byte, depth, end, start, tokens, 0)
        return found

    def path(self, node: int) -> bytes:
        """The bytes from the root to ``node``: read off the first token below it."""
        first = int(self.start[node])
        at = int(self.start.searchsorted(np.int32(first), side="right")) - 1  # an int would have it all converted
        data = self.shared.tokens[int(self.tokens[first])]
        base = int(self.depth[self.root])
        suffix = data[len(data) - (int(self.depth[at]) - base) :]  # type: ignore[index, arg-type]
        return bytes(suffix[: int(self.depth[node]) - base])

    def part(self, ids: Iterable[int] | NDArray[np.int32]) -> Part:
        """A set of tokens of this vocabulary."""
        return Part(np.array(ids, dtype=np.int32), self.shared.words)


def _buffers(
    nodes: int, tokens: int
) -> tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    return (
        np.empty(nodes, dtype=np.uint8),
        np.empty(nodes, dtype=np.int32),
        np.empty(nodes, dtype=np.int32),
        np.empty(nodes + 1, dtype=np.int32),
        np.empty(tokens, dtype=np.int32),
    )


def _laid_out(tokens: Sequence[bytes | None]) -> dict[str, NDArray[Any]]:
    """The arrays of the trie of a vocabulary."""
    kept = [id for id, data in enumerate(tokens) if data]
    kept.sort(key=tokens.__getitem__)  # type: ignore[arg-type]
    strings: list[bytes] = [tokens[id] for id in kept]  # type: ignore[misc]
    lengths = np.fromiter(map(len, strings), dtype=np.int64, count=len(strings))
    if int(lengths.max(initial=0)) > MAX_TOKEN_BYTES:
        raise ValueError(f"a token of the vocabulary is longer than {MAX_TOKEN_BYTES} bytes")
    new = np.ones(len(strings), dtype=bool)
    new[1:] = [a != b for a, b in pairwise(strings)]
    firsts = np.flatnonzero(new)
    joined = np.frombuffer(b"".join([strings[i] for i in firsts.tolist()]), dtype=np.uint8).copy()
    offsets = np.zeros(len(firsts) + 1, dtype=np.int64)
    np.cumsum(lengths[new], out=offsets[1:])
    room = len(joined) + 1
    byte = np.zeros(room, dtype=np.uint8)
    depth = np.zeros(room, dtype=np.int32)
    end = np.zeros(room, dtype=np.int32)
    at = walk.build(joined, offsets, byte, depth, end)
    nodes, at = int(at[-1]), at[:-1]
    sizes = np.zeros(nodes + 1, dtype=np.int32)
    sizes[at + 1] = np.diff(np.append(firsts, len(strings)))
    return {
        "byte": byte[:nodes].copy(),
        "depth": depth[:nodes].copy(),
        "end": end[:nodes].copy(),
        "start": np.cumsum(sizes, dtype=np.int32),
        "ids": np.array(kept, dtype=np.int32),
    }
