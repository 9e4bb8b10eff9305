"""Token tries, and ``split``: the one operation on them that masks are made of.

``split(T, r)`` says which tokens of the suffix trie T stay inside the residual r and, for those that end it, the
smaller suffix trie of what is left of them. It depends on (T, r) alone, so every grammar of the process shares
it. The trie of all tokens is T0; what is left of tokens after a JSON string's closing quote is a trie of some
hundred nodes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import count, pairwise
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from structgen.grammars import walk
from structgen.grammars.expr import ALL_BYTES, EPSILON, UNSURE_OUTCOME
from structgen.grammars.residual import LOCK, Checked, FreshKey, State

_ids = count()
MAX_TOKEN_BYTES = 4096
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


def row_ids(row: NDArray[np.uint32]) -> NDArray[np.int32]:
    """The ids whose bits are set in a mask row, ascending, int32."""
    return np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).astype(np.int32)


class End(NamedTuple):
    """Tokens that end a terminal.

    Attributes:
        outcome: how it ended.
        rest: what is left of those tokens.
    """

    outcome: int
    rest: Trie


class Split(NamedTuple):
    """What a residual makes of a trie: ``stay`` are tokens that end inside it (with more to come)."""

    stay: Part | None
    ends: tuple[End, ...]
    nodes: tuple[tuple[NDArray[np.int32], int], ...]
    """(nodes, outcome) at which the terminal ends; kept for ``split_fresh_key``."""


class _Shared:
    """What all tries of one vocabulary share: scratch buffers and the table of distinct tries."""

    def __init__(self, data: Sequence[bytes | None], nodes: int, words: int, max_len: int) -> None:
        self.tokens = data
        self.words = words
        self.stay = np.zeros(len(data) + 1, dtype=np.int32)
        self.end_nodes = np.zeros(nodes + 1, dtype=np.int32)
        self.end_states = np.zeros(nodes + 1, dtype=np.int32)
        self.stack = np.zeros(max_len + 2, dtype=np.int32)
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
        "_views", "byte", "deeper", "depth", "end", "here", "id", "key_ends", "max_len", "root",
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
        self.key_ends: WeakKeyDictionary[State, _KeyEnds] = WeakKeyDictionary()
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

    def union(self, roots: NDArray[np.int32], first: NDArray[np.uint8] = ANY_FIRST) -> Trie:
        """The suffixes below any of the nodes ``roots``, less those whose first byte b has ``first[b]`` 0."""
        if len(roots) == 1 and first is ANY_FIRST:
            return self.view(int(roots[0]))
        nodes, tokens = walk.room(self.byte, self.end, self.start, roots, first)
        out = _buffers(nodes, tokens)
        n, t = walk.merge(self.byte, self.end, self.start, self.tokens, roots, first, nodes, *out)
        return self._interned(n, t, *out)

    def _fill(self, state: State, node: int) -> None:
        missing = state.store.states[int(self.shared.stack[self.depth[node] - self.depth[self.root] - 1])]
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


def split_state(state: State, trie: Trie) -> Split:
    """``split`` for a DFA state. Counters larger than the longest suffix are clamped first, so that
    ``maxLength: 100000`` and ``maxLength: 90000`` share their answer."""
    state = state.clamped(trie.max_len)
    known = state.splits.get(trie.id)
    if known is not None:
        return known
    if (loose := state.expr.loose(EPSILON)) is not None:
        from structgen.grammars.memory import split_remembering

        with LOCK:
            made = state.splits[trie.id] = split_remembering(state, loose, trie)
            return made
    with LOCK:
        shared = trie.shared
        at = shared.at
        at[:] = (trie.root, trie.root + 1, 0, 0)
        shared.stack[0] = state.id
        last = int(trie.end[trie.root])
        store = state.store
        while True:
            j, n, m = walk.walk(
                store.delta, store.flags, trie.byte, trie.depth, trie.end, trie.start, trie.tokens, shared.stack, at,
                shared.stay, shared.end_nodes, shared.end_states,
            )  # fmt: skip
            if j >= last:
                break
            trie._fill(state, int(j))
            at[1], at[2], at[3] = j, n, m
        stay = Part(shared.stay[:n].copy(), shared.words) if n else None
        groups: dict[int, list[NDArray[np.int32]]] = {}
        firsts: dict[int, int] = {}
        end_nodes, end_states = shared.end_nodes[:m].copy(), shared.end_states[:m]
        distinct = np.unique(end_states)
        for id in distinct.tolist():
            ended = store.states[id]
            assert ended is not None
            where = end_nodes if len(distinct) == 1 else end_nodes[end_states == id]
            for outcome in ended.outcomes:
                groups.setdefault(outcome, []).append(where)
                firsts[outcome] = firsts.get(outcome, 0) | ended.expr.next_bytes(outcome)
        nodes = tuple((where[0] if len(where) == 1 else np.concatenate(where), o) for o, where in groups.items())
        # A word of a Lark grammar may end after each of its letters; the outcome says that no letter may follow.
        ends = tuple(
            End(o, trie.union(where, _first(firsts[o]) if len(where) > 1 else ANY_FIRST))
            for where, o in nodes if o != UNSURE_OUTCOME
        )  # fmt: skip
        made = Split(stay, ends, nodes)
        state.splits[trie.id] = made
        return made


@lru_cache(maxsize=4096)
def _first(allowed: int) -> NDArray[np.uint8]:
    """uint8 [256] of a bit set of bytes."""
    if allowed == ALL_BYTES:
        return ANY_FIRST
    return np.array([allowed >> byte & 1 for byte in range(256)], dtype=np.uint8)


def split_fresh_key(residual: FreshKey, trie: Trie) -> Split:
    """``split`` for a key that must be new: the answer of its own expression, less the tokens that would complete a
    key already taken."""
    split = residual.inner.split(trie)
    if not residual.taken:
        return split
    banned = _banned(residual, trie, split)
    if not banned:
        return split
    gone = np.array(sorted(banned), dtype=np.int32)
    kept = [(where[~np.isin(where, gone)], outcome) for where, outcome in split.nodes]
    ends = tuple(End(outcome, trie.union(where)) for where, outcome in kept if len(where))
    return Split(split.stay, ends, tuple(kept))


def split_checked(residual: Checked, trie: Trie) -> Split:
    """``split`` for a terminal whose text is checked when it ends: the answer of its own expression, less the tokens
    whose text fails."""
    split = residual.inner.split(trie)
    kept = []
    for where, outcome in split.nodes:
        if outcome == residual.outcome:
            passed = [residual.check(residual.read + trie.path(node)) for node in where.tolist()]
            where = where[np.array(passed, dtype=np.bool_)]
        if len(where):
            kept.append((where, outcome))
    return Split(split.stay, tuple(End(outcome, trie.union(where)) for where, outcome in kept), tuple(kept))


def _banned(residual: FreshKey, trie: Trie, split: Split) -> set[int]:
    """Nodes at which a taken key is complete. Where neither the text nor the token holds an escape, a key has one
    spelling, so it is looked up; what holds one is decoded."""
    known = trie.key_ends.get(residual.inner)
    if known is None:
        known = trie.key_ends[residual.inner] = _KeyEnds(trie, split)
    text, taken = residual.text, residual.taken
    opened = text.find(b'"')
    if opened < 0:
        by_key = known.by_key(residual)
        return {node for key in taken & by_key.keys() for node in by_key[key]}
    by_path = known.by_path
    if b"\\" in text:
        suspects = list(by_path)
    else:
        suspects = list(known.escaped)
        for key in taken:
            spelled = json.dumps(key, ensure_ascii=False).encode("utf-8", "surrogatepass")
            if spelled.startswith(text[opened:]):
                suspects.append(spelled[len(text) - opened :])
    return {
        node for path in suspects if path in by_path and residual.decode(text + path) in taken for node in by_path[path]
    }


class _KeyEnds:
    """The ends of a key in a trie, by the bytes that lead to them, and by the key where it begins there too."""

    def __init__(self, trie: Trie, split: Split) -> None:
        self.by_path: dict[bytes, list[int]] = {}
        for where, _ in split.nodes:
            for node in where.tolist():
                self.by_path.setdefault(trie.path(node), []).append(node)
        self.escaped = [path for path in self.by_path if b"\\" in path]
        self._by_key: dict[str, list[int]] | None = None

    def by_key(self, residual: FreshKey) -> dict[str, list[int]]:
        if self._by_key is None:
            self._by_key = {}
            for path, nodes in self.by_path.items():
                self._by_key.setdefault(residual.decode(path), []).extend(nodes)
        return self._by_key
