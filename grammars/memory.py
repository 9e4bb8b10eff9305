"""``split`` for expressions that remember what was read (see lifted.py): without a state for each text."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from structgen.grammars.expr import EPSILON, NEVER, UNSURE_OUTCOME, Expr
from structgen.grammars.residual import State, Store
from structgen.grammars.trie import End, Part, Split, Trie, split_state

_SMALL = 24  # subtrees of so few nodes are read byte by byte: no twin is worth a walk there


class _Found:
    """Tokens that stay inside, and the nodes at which the expression ends, by outcome."""

    def __init__(self) -> None:
        self.stay: list[NDArray[np.int32]] = []
        self.ends: dict[int, list[NDArray[np.int32]]] = {}

    def end(self, outcome: int, where: NDArray[np.int32]) -> None:
        self.ends.setdefault(outcome, []).append(where)


def split_remembering(state: State, loose: Expr, trie: Trie) -> Split:
    """``split`` for an expression that remembers its text: that of its loose twin, and below the nodes where the twin
    is unsure one derivative a byte, without states."""
    found = _Found()
    _split(state.store, state.expr, loose, trie, found)
    tokens = np.concatenate(found.stay) if found.stay else None
    nodes = tuple(
        (where[0] if len(where) == 1 else np.sort(np.concatenate(where)), outcome)
        for outcome, where in found.ends.items()
    )
    return Split(
        None if tokens is None else Part(tokens, trie.shared.words),
        tuple(End(outcome, trie.union(where)) for where, outcome in nodes),
        nodes,
    )


def _split(store: Store, expr: Expr, loose: Expr, trie: Trie, found: _Found) -> None:
    twin = store.state(loose)
    if twin is None:
        return
    base = split_state(twin, trie)
    if base.stay is not None:
        found.stay.append(base.stay.ids())
    read: dict[bytes, Expr] = {b"": expr}
    for where, outcome in base.nodes:
        if outcome != UNSURE_OUTCOME:
            found.end(outcome, where)
            continue
        for node in where.tolist():
            at = _after(expr, trie.path(node), read)
            if at is not NEVER:
                _look_below(store, at, node, trie, found)


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
                split = state.split(trie.view(node))
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
