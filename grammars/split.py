"""``split``: the one operation on token tries that masks are made of.

``split(T, r)`` says which tokens of the suffix trie T stay inside the residual r and, for those that end it, the
smaller suffix trie of what is left of them. It depends on (T, r) alone, so every grammar of the process shares it.

Most residuals are taken apart instead of walked: a sequence that begins with a literal is its tail on the subtree of
that literal, one that begins with blanks is its tail on what is left behind blanks, an alternative is its parts. What
is left are words (one look along the trie), strings that count their characters (one walk serves all counters) and
the rest, a walk of the DFA. ``walked`` is that walk for every residual: the slow way, which the others must equal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate
from time import perf_counter
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from structgen.grammars import walk
from structgen.grammars.encoding import JSON_ANY
from structgen.grammars.expr import (
    ALL_BYTES,
    EPSILON,
    NEVER,
    UNSURE_OUTCOME,
    Alt,
    Expr,
    Literal,
    Out,
    Rep,
    Seq,
    Switch,
    Tagged,
    WordNode,
    Words,
    byte_set,
    is_code,
    literal,
    out,
    rep,
    seq,
    words,
)
from structgen.grammars.residual import LOCK, Checked, FreshKey, State, Store, state
from structgen.grammars.trie import ANY_FIRST, NOT_KNOWN, Kids, Part, Trie, joined, kids_of, row_ids
from structgen.grammars.walk_store import LEAST_S

MAX_PARTS = 24  # of an alternative that is taken apart
NARROW = 24  # bytes with which a part may begin
_BLANKS = 1 << 0x20 | 1 << 0x09 | 1 << 0x0A | 1 << 0x0D


class End(NamedTuple):
    """Tokens that end a terminal.

    Attributes:
        outcome: how it ended.
        rest: what is left of those tokens.
    """

    outcome: int
    rest: Trie


class Split(NamedTuple):
    """What a residual makes of a trie: ``stays`` are sets of tokens that end inside it (with more to come)."""

    stays: tuple[Part, ...]
    ends: tuple[End, ...]


class Walked(NamedTuple):
    """A split, with the nodes of the trie at which the terminal ends, by outcome."""

    stay: Part | None
    nodes: tuple[tuple[NDArray[np.int32], int], ...]
    firsts: tuple[int, ...]
    """For each of ``nodes`` the bytes that may follow (a bit set)."""


def split_state(state: State, trie: Trie) -> Split:
    """``split`` for a DFA state. Counters larger than the longest token are clamped first, so that
    ``maxLength: 100000`` and ``maxLength: 90000`` share their answer."""
    state = state.clamped(trie.shared.longest)
    known = state.splits.get(trie.id)
    if known is not None:
        return known
    with LOCK:
        made = _taken_apart(state, trie)
        if made is None:
            made = _from_walk(walked(state, trie), trie)
        state.splits[trie.id] = made
        return made


def _from_walk(found: Walked, trie: Trie) -> Split:
    # A word of a Lark grammar may end after each of its letters; the outcome says that no letter may follow.
    ends = tuple(
        End(outcome, trie.union(where, _first(first) if len(where) > 1 else ANY_FIRST))
        for (where, outcome), first in zip(found.nodes, found.firsts, strict=True) if outcome != UNSURE_OUTCOME
    )  # fmt: skip
    return Split(() if found.stay is None else (found.stay,), ends)


@lru_cache(maxsize=4096)
def _first(allowed: int) -> NDArray[np.uint8]:
    """uint8 [256] of a bit set of bytes."""
    if allowed == ALL_BYTES:
        return ANY_FIRST
    return np.array([allowed >> byte & 1 for byte in range(256)], dtype=np.uint8)


# ------------------------------------------------------------------------------------------------ the walk


def walked(state: State, trie: Trie) -> Walked:
    """The split of a state by a walk of its DFA over the whole trie."""
    state = state.clamped(trie.shared.longest)
    known = state.walks.get(trie.id)
    if known is not None:
        return known
    with LOCK:
        made = _from_store(state, trie) if trie.stored is not None else None
        if made is None:
            begin = perf_counter()
            made = _walk_somehow(state, trie)
            if trie.stored is not None and perf_counter() - begin > LEAST_S:
                _to_store(state, trie, made)
        state.walks[trie.id] = made
        return made


def _walk_somehow(state: State, trie: Trie) -> Walked:
    if (loose := state.expr.loose(EPSILON)) is not None:
        from structgen.grammars.memory import walk_remembering

        return walk_remembering(state, loose, trie)
    if isinstance(state.expr, Tagged) and trie.is_large and (body := state.store.state(state.expr.body)):
        return _walk_tagged(state, body, trie)
    return _walk(state, trie)


def _to_store(state: State, trie: Trie, made: Walked) -> None:
    assert trie.stored is not None
    stay = made.stay
    kept = _NONE if stay is None else stay.ids() if stay.row is None else stay.row.view(np.int32)
    arrays = [np.array([stay is not None and stay.row is not None], dtype=np.int32), kept]
    for (where, outcome), first in zip(made.nodes, made.firsts, strict=True):
        head = np.frombuffer(first.to_bytes(32, "little"), dtype=np.int32)
        arrays.append(np.concatenate([np.array([outcome], dtype=np.int32), head, where]))
    trie.stored.add("walk", state.expr, arrays)


def _within(numbers: NDArray[np.int32], size: int) -> bool:
    """What is read from a file must not lead out of arrays."""
    return not len(numbers) or (int(numbers.min()) >= 0 and int(numbers.max()) < size)


def _from_store(state: State, trie: Trie) -> Walked | None:
    assert trie.stored is not None
    found = trie.stored.find("walk", state.expr)
    if found is None:
        return None
    is_row, kept, *groups = found
    ids = row_ids(kept.view(np.uint32)) if is_row[0] else kept
    if not _within(ids, len(trie.shared.tokens)) or not all(_within(group[9:], len(trie.byte)) for group in groups):
        return None
    stay = Part(ids, trie.shared.words) if len(ids) else None
    nodes = tuple((group[9:], int(group[0])) for group in groups)
    return Walked(stay, nodes, tuple(int.from_bytes(group[1:9].tobytes(), "little") for group in groups))


def _walk(state: State, trie: Trie) -> Walked:
    n, nodes, states = _run(state, trie, trie.kids, trie.root, trie.inside, trie.end, trie.start)
    stay = Part(trie.shared.stay[:n].copy(), trie.shared.words) if n else None
    return _grouped(stay, state.store, nodes, states)


def _run(
    state: State, trie: Trie, kids: Kids, root: int, inside: NDArray[np.uint64], end: NDArray[np.int32],
    start: NDArray[np.int32],
) -> tuple[int, NDArray[np.int32], NDArray[np.int32]]:  # fmt: skip
    """Walk the DFA over a tree with the tokens of ``trie``. Returns how many of them stay inside (in the shared
    buffer), the nodes where the terminal ends, int32, and the rows of the states there, int32."""
    shared, store, (firsts, _, bytes_) = trie.shared, state.store, kids
    shared.at[:] = 0
    shared.stack[0] = store.row(state)
    shared.cursor[:2] = firsts[root : root + 2]
    while True:
        n, m = walk.walk(
            store.delta, store.flags, store.loops, *kids, end, inside, start, trie.tokens, shared.stack, shared.cursor,
            shared.at, shared.stay, shared.end_nodes, shared.end_states,
        )  # fmt: skip
        depth = int(shared.at[0])
        if depth < 0:
            return n, shared.end_nodes[:m].copy(), shared.end_states[:m].copy()
        missing = store.rows[int(shared.stack[depth])]
        assert missing is not None
        store.fill(missing, int(bytes_[shared.cursor[2 * depth]]))


def _grouped(stay: Part | None, store: Store, nodes: NDArray[np.int32], states: NDArray[np.int32]) -> Walked:
    """The ends of a walk by their outcomes."""
    groups: dict[int, list[NDArray[np.int32]]] = {}
    firsts: dict[int, int] = {}
    distinct = np.unique(states).tolist() if len(states) > 1 else states.tolist()
    for id in distinct:
        ended = store.rows[id]
        assert ended is not None
        where = nodes if len(distinct) == 1 else nodes[states == id]
        for outcome in ended.outcomes:
            groups.setdefault(outcome, []).append(where)
            firsts[outcome] = firsts.get(outcome, 0) | ended.expr.next_bytes(outcome)
    found = tuple((where[0] if len(where) == 1 else np.concatenate(where), o) for o, where in groups.items())
    return Walked(stay, found, tuple(firsts.values()))


# ------------------------------------------------------------------------------------------------ tagged


class _Endings:
    """The part of a trie that leads to some of its nodes.

    Attributes:
        kids, end, start: of this tree, as of ``Trie``; it has no tokens.
        nodes: the node of the trie for each node here, int32.
    """

    def __init__(self, trie: Trie, where: NDArray[np.int32]) -> None:
        first, last = trie.root, int(trie.end[trie.root])
        ends = np.zeros(last - first + 1, dtype=np.int32)
        ends[where - first + 1] = 1
        before = np.cumsum(ends, dtype=np.int32)
        kept = before[trie.end[first:last] - first] > before[:-1]
        kept[0] = True
        self.nodes = (np.flatnonzero(kept) + first).astype(np.int32)
        place = np.append(0, np.cumsum(kept, dtype=np.int32)).astype(np.int32)
        self.end = place[trie.end[self.nodes] - first]
        byte, depth = trie.byte[self.nodes], trie.depth[self.nodes]
        self.kids = kids_of(byte, depth, self.end)
        self.start = np.zeros(len(self.nodes) + 1, dtype=np.int32)


_endings: WeakKeyDictionary[State, dict[int, _Endings]] = WeakKeyDictionary()


def _walk_tagged(state: State, body: State, trie: Trie) -> Walked:
    """What stays inside is what stays inside the body; only at its ends the tags are asked."""
    plain = walked(body, trie)
    if not plain.nodes:
        return plain
    by_trie = _endings.setdefault(body, {})
    endings = by_trie.get(trie.id)
    if endings is None:
        endings = by_trie[trie.id] = _Endings(trie, np.unique(np.concatenate([where for where, _ in plain.nodes])))
    _, nodes, states = _run(state, trie, endings.kids, 0, NOT_KNOWN, endings.end, endings.start)
    return _grouped(plain.stay, state.store, endings.nodes[nodes], states)


# ------------------------------------------------------------------------------------------------ taken apart


def _taken_apart(state: State, trie: Trie) -> Split | None:
    """The split of a state by its structure; None if it has to be walked."""
    expr = state.expr
    if isinstance(expr, Words):
        return _of_words(expr, trie)
    if isinstance(expr, Seq):
        if isinstance(expr.head, Literal):
            return _behind(expr.head.data, state.store.state(expr.tail), trie)
        if isinstance(expr.head, Rep) and isinstance(expr.tail, Literal):
            return _counted(state, expr.head, expr.tail, trie)
        if is_blank(expr.head) and not expr.tail.outcomes:
            return _behind_blanks(state, expr, trie)
    elif isinstance(expr, Literal):
        return _behind(expr.data, state.store.state(out(expr.outcome)), trie)
    elif isinstance(expr, Alt) and len(expr.items) <= MAX_PARTS and all(map(_is_narrow, expr.items)):
        parts = [part.split(trie) for item in expr.items if (part := state.store.state(item)) is not None]
        return _union(parts, trie)
    return None


def _union(parts: Iterable[Split], trie: Trie) -> Split:
    stays: dict[Part, None] = {}
    ends: dict[End, None] = {}
    for part in parts:
        stays.update(dict.fromkeys(part.stays))
        ends.update(dict.fromkeys(part.ends))
    return Split(joined(stays, trie.shared.words), tuple(ends))


def _behind(path: bytes, tail: State | None, trie: Trie) -> Split | None:
    """Exactly ``path``, then ``tail``."""
    if tail is None or tail.expr.loose(EPSILON) is not None:
        return None
    node = trie.root
    stays: list[Part] = []
    for i in range(len(path)):
        node = trie.child(node, path[i])
        if node < 0:
            return Split(tuple(stays), ())
        if i < len(path) - 1 and trie.start[node] < trie.start[node + 1] and (here := trie.view(node).here) is not None:
            stays.append(here)
    return _union((Split(tuple(stays), ()), _inside(tail, trie.view(node), True)), trie)


def _inside(tail: State, rest: Trie, may_end: bool) -> Split:
    """``tail`` on what is left of tokens behind its beginning."""
    stays = (rest.here,) if tail.live and rest.here is not None else ()
    ends = tuple(End(outcome, rest) for outcome in tail.outcomes if outcome != UNSURE_OUTCOME) if may_end else ()
    if not rest.deeper or not tail.live:
        return Split(stays, ends)
    inner = tail.split(rest)
    return Split(stays + inner.stays, ends + inner.ends)


def _behind_blanks(state: State, expr: Seq, trie: Trie) -> Split | None:
    """Blanks, and then what begins with something else or may begin with blanks too: either way the union."""
    head, tail = state.store.state(expr.head), state.store.state(expr.tail)
    if head is None or tail is None or tail.expr.loose(EPSILON) is not None:
        return None
    blank = head.split(trie)
    parts = [Split(blank.stays, ())]
    parts += [_inside(tail, end.rest, False) for end in blank.ends]
    if head.outcomes:
        parts.append(tail.split(trie))
    return _union(parts, trie)


@lru_cache(maxsize=4096)
def is_blank(expr: Expr) -> bool:
    """Whether nothing but blanks can be read."""
    if isinstance(expr, Switch):
        return all(_BLANKS >> b & 1 for lo, hi, _ in expr.cases for b in range(lo, hi + 1)) and all(
            is_blank(rest) for _, _, rest in expr.cases
        )
    if isinstance(expr, Literal):
        return expr.outcome == 0 and not expr.data.strip(b" \t\r\n")
    if isinstance(expr, Seq):
        return is_blank(expr.head) and is_blank(expr.tail)
    if isinstance(expr, Rep):
        return is_blank(expr.body)
    if isinstance(expr, Alt):
        return all(map(is_blank, expr.items))
    return expr is EPSILON


@lru_cache(maxsize=4096)
def _is_narrow(expr: Expr) -> bool:
    """Whether few tokens begin as this does, or whether it is taken apart itself."""
    if isinstance(expr, (Words, Literal, Out)):
        return True
    if isinstance(expr, Switch):
        return sum(hi - lo + 1 for lo, hi, _ in expr.cases) <= NARROW
    if isinstance(expr, Rep):
        return _is_narrow(expr.body)
    if isinstance(expr, Alt):
        return all(map(_is_narrow, expr.items))
    if isinstance(expr, Seq):
        return _is_narrow(expr.head) and (not expr.head.outcomes or _is_narrow(expr.tail))
    return False


# ------------------------------------------------------------------------------------------------ words


_Flat = tuple[NDArray[np.int32], NDArray[np.int32], list[int]]
_NOTHING = np.zeros(0, dtype=np.uint8)
_NONE = np.zeros(0, dtype=np.int32)


def _of_words(expr: Words, trie: Trie) -> Split:
    found = _walk_words(expr, trie)
    return Split(
        () if found.stay is None else (found.stay,),
        tuple(End(outcome, trie.union(where, _first(first) if len(where) > 1 else ANY_FIRST))
              for (where, outcome), first in zip(found.nodes, found.firsts, strict=True)),
    )  # fmt: skip


def _walk_words(expr: Words, trie: Trie) -> Walked:
    shared = trie.shared
    is_json = expr.encoding is JSON_ANY
    codes, offsets, outcomes = _flat(expr.node, expr.encoding, is_json)
    n, m = walk.words(
        codes, offsets, is_json, expr.tail[0] if expr.tail else -1,
        np.array(list(expr.partial), dtype=np.uint8) if expr.partial else _NOTHING,
        *trie.kids, trie.start, trie.tokens, trie.root, shared.words_state, shared.cursor,
        shared.stay, shared.end_nodes, shared.end_states,
    )  # fmt: skip
    stay = Part(shared.stay[:n].copy(), shared.words) if n else None
    if not m:
        return Walked(stay, (), ())
    groups: dict[int, list[int]] = {}
    for node, word in zip(shared.end_nodes[:m].tolist(), shared.end_states[:m].tolist(), strict=True):
        groups.setdefault(outcomes[word], []).append(node)
    nodes = tuple((np.array(where, dtype=np.int32), outcome) for outcome, where in groups.items())
    return Walked(stay, nodes, tuple(out(outcome).next_bytes(outcome) for outcome in groups))


def _is_surrogate(char: str) -> bool:
    return "\ud800" <= char <= "\udfff"


def _flat(node: WordNode, encoding: Any, is_json: bool) -> _Flat:
    """The words one after the other, int32: code points, or bytes where each character has one spelling; where each
    begins, int32 [n + 1]; and the outcomes."""
    known: _Flat | None = node.flats.get(encoding)
    if known is not None:
        return known
    if is_json:
        items = [each for each in node.items if each[0].isascii() or not any(map(_is_surrogate, each[0]))]
        codes = np.frombuffer("".join([text for text, _ in items]).encode("utf-32-le"), dtype=np.int32).copy()
        lengths, outcomes = [len(text) for text, _ in items], [outcome for _, outcome in items]
    else:
        spelled: list[tuple[bytes, int]] = []
        for text, outcome in node.items:
            spellings = [encoding.spellings(char) for char in text]
            if all(spellings):
                spelled.append((b"".join([each[0] for each in spellings]), outcome))
        spelled.sort()
        codes = np.frombuffer(b"".join([data for data, _ in spelled]), dtype=np.uint8).astype(np.int32)
        lengths, outcomes = [len(data) for data, _ in spelled], [outcome for _, outcome in spelled]
    offsets = np.array([*accumulate(lengths, initial=0)], dtype=np.int32)
    made = node.flats[encoding] = (codes, offsets, outcomes)
    return made


# ------------------------------------------------------------------------------------------------ counted strings


class _Counts:
    """The walk of ``char* tail`` over a trie, with the number of characters at each of its tokens and ends.

    Attributes:
        stay: tokens that end inside, sorted by the characters that they begin; ``needs`` are those.
        nodes: nodes at which the tail has been read, sorted by the characters before it; ``counts`` are those.
    """

    __slots__ = ("_parts", "_rests", "counts", "needs", "nodes", "stay")

    def __init__(self, star: State, trie: Trie) -> None:
        self._parts: dict[int, Part] = {}
        self._rests: dict[tuple[int, int], Trie] = {}
        found = None if trie.stored is None else trie.stored.find("count", star.expr)
        if found is not None and len(found) == 4:
            self.stay, self.needs, self.nodes, self.counts = found
            if _within(self.stay, len(trie.shared.tokens)) and _within(self.nodes, len(trie.byte)):
                return
        self._walk(star, trie)
        if trie.stored is not None:
            trie.stored.add("count", star.expr, (self.stay, self.needs, self.nodes, self.counts))

    def _walk(self, star: State, trie: Trie) -> None:
        shared = trie.shared
        at, stack, counts = shared.at, shared.stack, np.zeros(len(shared.stack), dtype=np.int32)
        at[:] = (0, trie.root + 1, 0, 0)
        stack[0] = star.store.row(star)
        needs = np.empty(len(shared.stay), dtype=np.int32)
        store, last = star.store, int(trie.end[trie.root])
        while True:
            j, n = walk.count(
                store.delta, store.flags, star.row, trie.root, trie.byte, trie.depth, trie.end, trie.start, trie.tokens,
                stack, counts, at, shared.stay, needs, shared.end_nodes, shared.end_states,
            )  # fmt: skip
            if j >= last:
                break
            trie.fill_at(store, int(j))
        m = int(at[3])
        order = np.argsort(needs[:n], kind="stable")
        self.stay, self.needs = shared.stay[:n][order], needs[:n][order]
        order = np.argsort(shared.end_states[:m], kind="stable")
        self.nodes, self.counts = shared.end_nodes[:m][order], shared.end_states[:m][order]

    def split(self, lo: int, hi: int | None, outcome: int, trie: Trie) -> Split:
        """The split of ``char{lo,hi} tail``."""
        n = len(self.stay) if hi is None else int(self.needs.searchsorted(hi, "right"))
        first = int(self.counts.searchsorted(lo))
        last = len(self.nodes) if hi is None else int(self.counts.searchsorted(hi, "right"))
        stays: tuple[Part, ...] = ()
        if n:
            if n not in self._parts:
                self._parts[n] = Part(self.stay[:n], trie.shared.words)
            stays = (self._parts[n],)
        if first >= last:
            return Split(stays, ())
        if (first, last) not in self._rests:
            self._rests[first, last] = trie.union(np.sort(self.nodes[first:last]))
        return Split(stays, (End(outcome, self._rests[first, last]),))


_counts: WeakKeyDictionary[State, dict[int, _Counts]] = WeakKeyDictionary()


def _counted(state: State, head: Rep, tail: Literal, trie: Trie) -> Split | None:
    """A string of ``lo`` to ``hi`` characters and the one byte that closes it: tables of the string of any length."""
    if len(tail.data) > 1 or not is_code(head.body) or head.body.derive(tail.data[0]) is not NEVER:
        return None
    if not isinstance(head.body, Switch) or head.body.outcomes or not tail.data:
        return None
    star = state.store.state(seq(rep(head.body), tail))
    if star is None:
        return None
    by_trie = _counts.setdefault(star, {})
    table = by_trie.get(trie.id)
    if table is None:
        table = by_trie[trie.id] = _Counts(star, trie)
    return table.split(head.lo, head.hi, tail.outcome, trie)


# ------------------------------------------------------------------------------------------------ with a text


def split_fresh_key(residual: FreshKey, trie: Trie) -> Split:
    """``split`` for a key that must be new: the answer of its own expression, less the tokens that would complete a
    key already taken."""
    if not residual.clashes(trie):
        return residual.inner.split(trie)
    found = walked(residual.inner, trie)
    banned = _banned(residual, trie, found)
    if not banned:
        return residual.inner.split(trie)
    gone = np.array(sorted(banned), dtype=np.int32)
    kept = [(where[~np.isin(where, gone)], outcome) for where, outcome in found.nodes]
    return _kept(found.stay, kept, trie)


def closes(texts: Iterable[str], begun: bytes, trie: Trie) -> bool:
    """Whether a suffix of ``trie`` goes through the closing quote of a JSON string that is one of ``texts``, where
    ``begun`` has been read (blanks first). When in doubt, True."""
    opened = begun.find(b'"') + 1
    if not opened:
        return not _whole_strings(trie).isdisjoint(texts)
    if b"\\" in begun:
        return True
    known = begun[opened:].decode("utf-8", "ignore")
    left = {text[len(known) :]: 0 for text in texts if text.startswith(known)}
    if not left or begun[-1] >= 0x80:  # perhaps amid a character
        return bool(left)
    rest = words(left, JSON_ANY, b'"')
    return bool(_walk_words(rest, trie).nodes) if isinstance(rest, Words) else trie.child(trie.root, 0x22) >= 0


@lru_cache(maxsize=256)
def _whole_strings(trie: Trie) -> frozenset[str]:
    """The JSON strings that begin and end, behind blanks, in a suffix of ``trie``."""
    string = state(seq(rep(byte_set(b" \t\n\r")), literal(b'"'), JSON_ANY.any_text, literal(b'"')))
    assert string is not None
    return frozenset(json.loads(trie.path(node)) for where, _ in walked(string, trie).nodes for node in where.tolist())


def _kept(stay: Part | None, nodes: Iterable[tuple[NDArray[np.int32], int]], trie: Trie) -> Split:
    ends = tuple(End(outcome, trie.union(where)) for where, outcome in nodes if len(where))
    return Split(() if stay is None else (stay,), ends)


def split_checked(residual: Checked, trie: Trie) -> Split:
    """``split`` for a terminal whose text is checked when it ends: the answer of its own expression, less the tokens
    whose text fails."""
    found = walked(residual.inner, trie)
    kept = []
    for where, outcome in found.nodes:
        if outcome == residual.outcome:
            passed = [residual.check(residual.read + trie.path(node)) for node in where.tolist()]
            where = where[np.array(passed, dtype=np.bool_)]
        kept.append((where, outcome))
    return _kept(found.stay, kept, trie)


def _banned(residual: FreshKey, trie: Trie, found: Walked) -> set[int]:
    """Nodes at which a taken key is complete. Where neither the text nor the token holds an escape, a key has one
    spelling, so it is looked up; what holds one is decoded."""
    by_trie = _key_ends.setdefault(residual.inner, {})
    known = by_trie.get(trie.id)
    if known is None:
        known = by_trie[trie.id] = _KeyEnds(trie, found)
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

    def __init__(self, trie: Trie, found: Walked) -> None:
        self.by_path: dict[bytes, list[int]] = {}
        for where, _ in found.nodes:
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


_key_ends: WeakKeyDictionary[State, dict[int, _KeyEnds]] = WeakKeyDictionary()
