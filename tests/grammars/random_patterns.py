"""Random regular expressions and texts that bring them to their edges."""

from __future__ import annotations

import random
import sys

LEAVES = ["a", "b", "ab", r"\n", ".", "[ab]", "[^a]", r"[^\n]", r"\w", r"\W", r"\s", r"\d", "c", "[a-c]", "é", "K", "-"]
QUANTIFIERS = ["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?", "+?", "??", "{1,2}?"]
ANCHORS = ["^", "$", r"\A", r"\Z", "(?m:^)", "(?m:$)"]
BEHIND = ["a", "b", "ab", r"\w", "[^a]", r"\n", "^a", ".", "(?<!b)a"]
ALPHABET = "aab bc\nkK\u212aéÉ1-A"


def pattern(rng: random.Random, depth: int, *, anchors: bool = False, looks: bool = False) -> str:
    """A pattern of the Python dialect (possibly one that ``re`` refuses)."""

    def inner() -> str:
        return pattern(rng, depth - 1, anchors=anchors, looks=looks)

    kind = rng.random()
    if depth <= 0 or kind < 0.25:
        return rng.choice(LEAVES)
    if kind < 0.45:
        return "".join(inner() for _ in range(rng.randint(2, 3)))
    if kind < 0.58:
        return "(?:" + "|".join(inner() if rng.random() > 0.1 else "" for _ in range(rng.randint(2, 3))) + ")"
    if kind < 0.75:
        return rng.choice(["(?:", "("]) + inner() + ")" + rng.choice(QUANTIFIERS)
    if kind < 0.8 and sys.version_info >= (3, 11):
        leaf = rng.choice(LEAVES)
        return rng.choice([f"(?>{inner()})", f"(?:{leaf})*+", f"(?:{leaf}){{1,2}}+"]) if looks else leaf + "?"
    if kind < 0.86 and anchors:
        return rng.choice(ANCHORS)
    if kind < 0.94 and looks:
        way = rng.random()
        if way < 0.25:
            return rng.choice([r"\b", r"\B"])
        if way < 0.6:
            return rng.choice(["(?=", "(?!"]) + inner() + ")"
        return rng.choice(["(?<=", "(?<!"]) + rng.choice(BEHIND) + ")"
    return rng.choice(["(?i:", "(?s:", "(?a:"]) + inner() + ")"


def text(rng: random.Random, most: int = 7) -> str:
    few = ALPHABET[: rng.choice([3, 6, len(ALPHABET)])]
    return "".join(rng.choice(few) for _ in range(rng.randint(0, most)))
