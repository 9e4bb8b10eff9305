"""``split`` for expressions that remember what was read (see lifted.py): without a state for each text."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from structgen.grammars.expr import NEVER, UNSURE_OUTCOME, Expr
from structgen.grammars.residual import State
from structgen.grammars.trie import End, Part, Split, Trie, split_state


def split_remembering(state: State, loose: Expr, trie: Trie) -> Split:
    """``split`` for an expression that remembers its text: that of its loose twin, and below the nodes where the twin
    is unsure one derivative a node, without states."""
    twin = state.store.state(loose)
    assert twin is not None
    base = split_state(twin, trie)
    unsure = [where for where, outcome in base.nodes if outcome == UNSURE_OUTCOME]
    if not unsure:
        return base
    stay = [] if base.stay is None else [base.stay.ids()]
    ends = {outcome: [where] for where, outcome in base.nodes if outcome != UNSURE_OUTCOME}
    read: dict[bytes, Expr] = {b"": state.expr}
    for node in np.concatenate(unsure).tolist():
        path = trie.path(node)
        known = len(path)
        while path[:known] not in read:
            known -= 1
        expr = read[path[:known]]
        for i in range(known, len(path)):
            expr = read[path[: i + 1]] = expr.derive(path[i])
        if expr is not NEVER:
            _look_below(state, expr, node, trie, stay, ends)
    tokens = np.concatenate(stay) if stay else None
    nodes = tuple((np.unique(np.concatenate(where)), outcome) for outcome, where in ends.items())
    return Split(
        None if tokens is None else Part(tokens, trie.shared.words),
        tuple(End(outcome, trie.union(where)) for where, outcome in nodes),
        nodes,
    )


def _look_below(
    state: State, expr: Expr, node: int, trie: Trie, stay: list[NDArray[np.int32]],
    ends: dict[int, list[NDArray[np.int32]]],
) -> None:  # fmt: skip
    """Add the tokens that stay inside ``expr`` (read up to ``node``), and the nodes at which it ends."""
    queue = [(node, expr)]
    while queue:
        node, expr = queue.pop()
        here = trie.tokens[trie.start[node] : trie.start[node + 1]]
        if expr.remembers:
            # Not empty, and no ``_UNSURE`` part of a loose twin: something follows.
            if len(here):
                stay.append(here)
            for outcome in expr.outcomes:
                ends.setdefault(outcome, []).append(np.array([node], dtype=np.int32))
            below, last = node + 1, int(trie.end[node])
            while below < last:
                left = expr.derive(int(trie.byte[below]))
                if left is not NEVER:
                    queue.append((below, left))
                below = int(trie.end[below])
            continue
        at = state.store.state(expr)
        if at is None:
            continue
        if len(here) and at.live:
            stay.append(here)
        for outcome in at.outcomes:
            ends.setdefault(outcome, []).append(np.array([node], dtype=np.int32))
        if at.live and trie.end[node] > node + 1:
            split = at.split(trie.view(node))
            if split.stay is not None:
                stay.append(split.stay.ids())
            for where, outcome in split.nodes:
                ends.setdefault(outcome, []).append(where)
