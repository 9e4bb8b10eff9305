"""``split`` for expressions that remember what was read (see lifted.py): without a state for each text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from structgen.grammars.expr import ALL_BYTES, EPSILON, NEVER, UNSURE_OUTCOME, Expr
from structgen.grammars.lifted import only_unsure
from structgen.grammars.residual import State, Store
from structgen.grammars.split import Walked, walked
from structgen.grammars.trie import Part, Trie

_SMALL = 24  # subtrees of so few nodes are read byte by byte: no twin is worth a walk there


class _Found:
    """Tokens that stay inside, and the nodes at which the expression ends, by outcome."""

    def __init__(self) -> None:
        self.stay: list[NDArray[np.int32]] = []
        self.ends: dict[int, list[NDArray[np.int32]]] = {}

    def end(self, outcome: int, where: NDArray[np.int32]) -> None:
        self.ends.setdefault(outcome, []).append(where)


def walk_remembering(state: State, loose: Expr, trie: Trie) -> Walked:
    """``walked`` for an expression that remembers its text: that of its loose twin, and below the nodes where the twin
    is unsure one derivative a byte, without states."""
    found = _Found()
    _split(state.store, state.expr, loose, trie, found)
    tokens = np.concatenate(found.stay) if found.stay else None
    nodes = tuple(
        (where[0] if len(where) == 1 else np.sort(np.concatenate(where)), outcome)
        for outcome, where in found.ends.items()
    )
    stay = None if tokens is None else Part(tokens, trie.shared.words)
    return Walked(stay, nodes, (ALL_BYTES,) * len(nodes))


def _split(store: Store, expr: Expr, loose: Expr, trie: Trie, found: _Found) -> None:
    twin = store.state(loose)
    if twin is None:
        return
    base = walked(twin, trie)
    if base.stay is not None:
        kept = _sifted(expr, twin, base.stay, trie)
        dead = [id for id, suffix in _doubtful(twin, trie, base.stay) if not _alive(expr, suffix)]
        found.stay.append(kept[~np.isin(kept, dead)] if dead else kept)
    read: dict[bytes, Expr] = {b"": expr}
    for where, outcome in base.nodes:
        if outcome != UNSURE_OUTCOME:
            found.end(outcome, where)
            continue
        for node in where.tolist():
            at = _after(expr, trie.path(node), read)
            if at is not NEVER:
                _look_below(store, at, node, trie, found)


class _Suffixes(NamedTuple):
    """What tokens hold behind the root of a trie.

    Attributes:
        ids: int32 [n], tokens whose suffixes are whole characters, spelled plainly.
        codes: their code points, int32; those of ``ids[i]`` are ``codes[offsets[i]:offsets[i+1]]``.
        odd: the others, with their suffixes.
    """

    ids: NDArray[np.int32]
    codes: NDArray[np.int32]
    offsets: NDArray[np.int64]
    odd: tuple[tuple[int, bytes], ...]


def _sifted(expr: Expr, twin: State, stay: Part, trie: Trie) -> NDArray[np.int32]:
    """The tokens among ``stay`` with which ``expr`` itself goes on."""
    none = np.zeros(1, dtype=np.int64)
    if expr.sift(none[:0].astype(np.int32), none) is None:
        return stay.ids()
    table = _suffixes(twin, trie, stay)
    kept = table.ids[expr.sift(table.codes, table.offsets)]
    odd = [id for id, suffix in table.odd if _alive(expr, suffix)]
    return np.unique(np.append(kept, np.array(odd, dtype=np.int32))) if odd else kept


def _alive(expr: Expr, suffix: bytes) -> bool:
    for byte in suffix:
        expr = expr.derive(byte)
        if expr is NEVER:
            return False
    return True


_BROKEN = re.compile(rb"(?:[\xc0-\xff]|[\xe0-\xff][\x80-\xbf]|[\xf0-\xff][\x80-\xbf]{2})\Z|\\[^\\]{0,10}\Z|\\\Z")
_partial: dict[int, tuple[Trie, NDArray[np.int32], list[bytes]]] = {}
_unsure: dict[tuple[int, int], tuple[Part, list[tuple[int, bytes]]]] = {}


def _doubtful(twin: State, trie: Trie, stay: Part) -> list[tuple[int, bytes]]:
    """Tokens among ``stay`` (with their suffixes) that end within a character with which the twin is unsure."""
    known = _unsure.get((twin.id, trie.id))
    if known is not None and known[0] is stay:
        return known[1]
    partial = _partial.get(trie.id)
    if partial is None:
        cut = [each for each in _each(trie) if _BROKEN.search(each[1])]
        if len(_partial) >= 256:
            _partial.pop(next(iter(_partial)))
        partial = _partial[trie.id] = (trie, np.array([id for id, _ in cut], dtype=np.int32), [data for _, data in cut])
    found = []
    for i in np.flatnonzero(_among(partial[1], stay)).tolist():
        expr = twin.expr
        for byte in partial[2][i]:
            expr = expr.derive(byte)
        if only_unsure(expr):
            found.append((int(partial[1][i]), partial[2][i]))
    if len(_unsure) >= 1024:
        _unsure.pop(next(iter(_unsure)))
    _unsure[twin.id, trie.id] = (stay, found)
    return found


def _among(ids: NDArray[np.int32], part: Part) -> NDArray[np.bool_]:
    """Which of the ids are in a set of tokens."""
    row = part.row
    if row is None:
        return np.isin(ids, part.ids())
    found: NDArray[np.bool_] = (row[ids >> 5] >> (ids & 31).astype(np.uint32) & 1).astype(np.bool_)
    return found


def _each(trie: Trie) -> Iterator[tuple[int, bytes]]:
    """The suffixes of a trie, with their tokens."""
    begin, end = trie.root, int(trie.end[trie.root])
    counts = np.diff(trie.start[begin : end + 1])
    sizes = np.repeat(trie.depth[begin:end] - trie.depth[begin], counts).tolist()
    for id, size in zip(trie.tokens[trie.start[begin] : trie.start[end]].tolist(), sizes, strict=True):
        data = trie.shared.tokens[id]
        if size:
            assert data is not None
            yield id, data[len(data) - size :]


_tables: dict[tuple[int, int], tuple[Part, _Suffixes]] = {}


def _suffixes(twin: State, trie: Trie, stay: Part) -> _Suffixes:
    known = _tables.get((twin.id, trie.id))
    if known is not None and known[0] is stay:
        return known[1]
    plain: list[int] = []
    texts: list[str] = []
    odd: list[tuple[int, bytes]] = []
    suffixes = list(_each(trie))
    chosen = _among(np.array([id for id, _ in suffixes], dtype=np.int32), stay)
    for i in np.flatnonzero(chosen).tolist():
        id, suffix = suffixes[i]
        try:
            text = suffix.decode()
        except UnicodeDecodeError:
            odd.append((id, suffix))
            continue
        if "\\" in text:
            odd.append((id, suffix))
        else:
            plain.append(id)
            texts.append(text)
    codes = np.frombuffer("".join(texts).encode("utf-32-le"), dtype=np.int32)
    offsets = np.zeros(len(texts) + 1, dtype=np.int64)
    np.cumsum([len(text) for text in texts], out=offsets[1:])
    made = _Suffixes(np.array(plain, dtype=np.int32), codes.copy(), offsets, tuple(odd))
    if len(_tables) >= 32:
        _tables.pop(next(iter(_tables)))
    _tables[twin.id, trie.id] = (stay, made)
    return made


def _after(expr: Expr, path: bytes, read: dict[bytes, Expr]) -> Expr:
    """``expr`` derived by ``path``, whose last character alone is unsure. ``read`` holds what was derived before."""
    if b"\\" not in path:
        last = len(path) - 1
        while last > 0 and path[last] & 0xC0 == 0x80:
            last -= 1
        jumped = expr.jump(path[:last].decode())
        if jumped is not None:
            for byte in path[last:]:
                jumped = jumped.derive(byte)
            return jumped
    known = len(path)
    while path[:known] not in read:
        known -= 1
    at = read[path[:known]]
    for i in range(known, len(path)):
        at = read[path[: i + 1]] = at.derive(path[i])
    return at


def _look_below(store: Store, expr: Expr, node: int, trie: Trie, found: _Found) -> None:
    """What lies below ``node``, up to which ``expr`` has been read."""
    queue = [(node, expr)]
    while queue:
        node, expr = queue.pop()
        here = trie.tokens[trie.start[node] : trie.start[node + 1]]
        last = int(trie.end[node])
        if not expr.remembers:
            state = store.state(expr)
            if state is None:
                continue
            if len(here) and state.live:
                found.stay.append(here)
            for outcome in state.outcomes:
                found.end(outcome, np.array([node], dtype=np.int32))
            if state.live and last > node + 1:
                split = walked(state, trie.view(node))
                if split.stay is not None:
                    found.stay.append(split.stay.ids())
                for where, outcome in split.nodes:
                    found.end(outcome, where)
            continue
        if len(here):
            found.stay.append(here)  # what remembers is followed by something
        for outcome in expr.outcomes:
            found.end(outcome, np.array([node], dtype=np.int32))
        if last - node > _SMALL and (loose := expr.loose(EPSILON)) is not None:
            _split(store, expr, loose, trie.view(node), found)
            continue
        below = node + 1
        while below < last:
            left = expr.derive(int(trie.byte[below]))
            if left is not NEVER:
                queue.append((below, left))
            below = int(trie.end[below])
