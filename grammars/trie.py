"""Token tries: T0, that of all tokens, and the suffix tries of what is left of tokens behind something. What is left
behind a JSON string's closing quote is a trie of some hundred nodes. Equal tries are the same object."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import count, pairwise

import numpy as np
from numpy.typing import NDArray

from structgen.grammars import walk
from structgen.grammars.residual import State

_ids = count()
MAX_TOKEN_BYTES = 4096
SMALL = 512  # tokens of a part that is copied rather than kept beside others
ANY_FIRST: NDArray[np.uint8] = np.ones(256, dtype=np.uint8)


class Part:
    """A set of token ids, kept as a list (int32) or, when that is smaller, as a mask row (uint32)."""

    __slots__ = ("count", "row", "tokens")

    def __init__(self, tokens: NDArray[np.int32], words: int) -> None:
        self.count = len(tokens)
        self.tokens: NDArray[np.int32] | None = tokens
        self.row: NDArray[np.uint32] | None = None
        if len(tokens) > words:
            self.row = np.zeros(words, dtype=np.uint32)
            walk.set_bits(self.row, tokens)
            self.tokens = None

    def add_to(self, row: NDArray[np.uint32]) -> None:
        """Set the bits of these tokens in ``row``."""
        if self.row is not None:
            np.bitwise_or(row, self.row, out=row)
        else:
            assert self.tokens is not None
            walk.set_bits(row, self.tokens)

    def ids(self) -> NDArray[np.int32]:
        """The token ids, int32."""
        if self.tokens is not None:
            return self.tokens
        assert self.row is not None
        return row_ids(self.row)


def joined(parts: Collection[Part], words: int) -> tuple[Part, ...]:
    """The parts, small ones put together to one."""
    if len(parts) < 2:
        return tuple(parts)
    small = [part.tokens for part in parts if part.tokens is not None and part.count <= SMALL]
    if len(small) < 2:
        return tuple(parts)
    large = [part for part in parts if part.tokens is None or part.count > SMALL]
    return (*large, Part(np.concatenate(small), words))


def row_ids(row: NDArray[np.uint32]) -> NDArray[np.int32]:
    """The ids whose bits are set in a mask row, ascending, int32."""
    return np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).astype(np.int32)


class _Shared:
    """What all tries of one vocabulary share: scratch buffers and the table of distinct tries."""

    def __init__(self, data: Sequence[bytes | None], nodes: int, words: int, max_len: int) -> None:
        self.tokens = data
        self.words = words
        self.stay = np.zeros(len(data) + 1, dtype=np.int32)
        self.end_nodes = np.zeros(nodes + 1, dtype=np.int32)
        self.end_states = np.zeros(nodes + 1, dtype=np.int32)
        self.stack = np.zeros(max_len + 2, dtype=np.int32)
        self.words_state = np.zeros((max_len + 2) * walk.WORD_FIELDS, dtype=np.int64)
        self.at = np.zeros(4, dtype=np.int64)
        self.by_content: dict[tuple[bytes, bytes, bytes, bytes], Trie] = {}


class Trie:
    """A set of (suffix, token id) pairs: the subtree of node ``root`` in flat arrays (layout: ``walk``).

    Attributes:
        here: tokens whose suffix is empty.
        deeper: some suffix is not empty.
        max_len: length in bytes of the longest suffix.
    """

    __slots__ = (
        "_views", "byte", "deeper", "depth", "end", "here", "id", "max_len", "root",
        "shared", "start", "tokens",
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
    ) -> None:
        self.id = next(_ids)
        self.shared = shared
        self.byte, self.depth, self.end, self.start, self.tokens = byte, depth, end, start, tokens
        self.root = root
        self._views: dict[int, Trie] = {} if views is None else views
        self._views[root] = self
        last = int(end[root])
        self.deeper = last > root + 1
        self.max_len = int(depth[root:last].max()) - int(depth[root])
        here = tokens[start[root] : start[root + 1]]
        self.here: Part | None = Part(here, shared.words) if len(here) else None

    @classmethod
    def of_tokens(cls, tokens: Sequence[bytes | None], words: int) -> Trie:
        """The trie of a vocabulary: ``tokens[i]`` are the bytes of id i (None or empty: left out)."""
        kept = [id for id, data in enumerate(tokens) if data]
        kept.sort(key=tokens.__getitem__)  # type: ignore[arg-type]
        strings: list[bytes] = [tokens[id] for id in kept]  # type: ignore[misc]
        lengths = np.fromiter(map(len, strings), dtype=np.int64, count=len(strings))
        longest = int(lengths.max(initial=0))
        if longest > MAX_TOKEN_BYTES:
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
        ids = np.array(kept, dtype=np.int32)
        sizes = np.zeros(nodes + 1, dtype=np.int32)
        sizes[at + 1] = np.diff(np.append(firsts, len(strings)))
        start = np.cumsum(sizes, dtype=np.int32)
        shared = _Shared(tokens, nodes, words, longest)
        return cls(shared, byte[:nodes].copy(), depth[:nodes].copy(), end[:nodes].copy(), start, ids, 0)

    def view(self, node: int) -> Trie:
        """The subtree of ``node``, sharing the arrays."""
        found = self._views.get(node)
        if found is None:
            found = Trie(
                self.shared, self.byte, self.depth, self.end, self.start, self.tokens, node, self._views
            )
        return found

    def child(self, node: int, byte: int) -> int:
        """The child of ``node`` for a byte; -1 if there is none."""
        found: int = walk.child(self.byte, self.end, node, byte)
        return found

    def union(self, roots: NDArray[np.int32], first: NDArray[np.uint8] = ANY_FIRST) -> Trie:
        """The suffixes below any of the nodes ``roots``, less those whose first byte b has ``first[b]`` 0."""
        if len(roots) == 1 and first is ANY_FIRST:
            return self.view(int(roots[0]))
        nodes, tokens = walk.room(self.byte, self.end, self.start, roots, first)
        out = _buffers(nodes, tokens)
        n, t = walk.merge(self.byte, self.end, self.start, self.tokens, roots, first, nodes, *out)
        return self._interned(n, t, *out)

    def fill(self, state: State, node: int) -> None:
        """Build the transition that a walk from ``state`` misses at ``node``."""
        missing = state.store.rows[int(self.shared.stack[self.depth[node] - self.depth[self.root] - 1])]
        assert missing is not None
        state.store.fill(missing, int(self.byte[node]))

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
