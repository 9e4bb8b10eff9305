"""How large a language is: whether keys can run out."""

from __future__ import annotations

from functools import lru_cache

from structgen.errors import GrammarTooComplex
from structgen.grammars.expr import NEVER, Expr
from structgen.grammars.residual import store

MAX_STATES = 5_000
MANY = 1_000_000
"""From here on a language counts as endless: no text has so many keys."""


@lru_cache(maxsize=1024)
def size(expr: Expr) -> int:
    """The number of strings in the language, at most ``MANY`` (also for infinite ones)."""
    short = _count(expr.clamped(12)) if not expr.boolean else 0
    return short if short >= MANY else _count(expr)


def _count(expr: Expr) -> int:
    alive = store().state
    counts: dict[Expr, int] = {}
    on_path: set[Expr] = set()
    stack: list[tuple[Expr, list[tuple[Expr, int]]]] = []

    def enter(at: Expr) -> None:
        on_path.add(at)
        counts[at] = 1 if at.outcomes else 0
        after = [(at.derive(byte), mask.bit_count()) for byte, mask in at.classes()]
        stack.append((at, [(each, n) for each, n in after if each is not NEVER and alive(each) is not None]))

    if expr is NEVER or alive(expr) is None:
        return 0
    enter(expr)
    while stack:
        at, left = stack[-1]
        if not left:
            stack.pop()
            on_path.discard(at)
            continue
        each, times = left[-1]
        if each in on_path:
            return MANY  # a loop through states that all lead to an end
        if each not in counts:
            if len(counts) >= MAX_STATES:
                raise GrammarTooComplex(
                    f"the property names allowed here need more than {MAX_STATES} states to count; "
                    "simplify their patterns"
                )
            enter(each)
            continue
        left.pop()
        counts[at] += times * counts[each]
        if counts[at] >= MANY:
            return MANY
    return counts[expr]


@lru_cache(maxsize=1024)
def endless(expr: Expr, fuel: int = 2_000) -> bool:
    """Whether every prefix of a string in the language leads to more strings than a text can use up. When in
    doubt, False."""
    if expr.boolean:
        return False
    seen, queue = {expr}, [expr]
    while queue:
        at = queue.pop()
        for byte, _ in at.classes():
            left = at.derive(byte)
            if left is not NEVER and left not in seen:
                seen.add(left)
                queue.append(left)
        if len(seen) > fuel:
            return False
    try:
        return all(_count(each) >= MANY for each in seen)
    except GrammarTooComplex:
        return False
