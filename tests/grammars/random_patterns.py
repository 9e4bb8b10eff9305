"""Random regular expressions and texts that bring them to their edges."""

from __future__ import annotations

import random
import signal
import sys
from collections.abc import Callable
from typing import Any, TypeVar

if sys.version_info >= (3, 11):
    from re import _constants as sre
    from re import _parser as sre_parse
else:
    import sre_constants as sre
    import sre_parse

T = TypeVar("T")

LEAVES = ["a", "b", "ab", r"\n", ".", "[ab]", "[^a]", r"[^\n]", r"\w", r"\W", r"\s", r"\d", "c", "[a-c]", "é", "K", "-"]
QUANTIFIERS = ["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?", "+?", "??", "{1,2}?"]
ANCHORS = ["^", "$", r"\A", r"\Z", "(?m:^)", "(?m:$)"]
BEHIND = ["a", "b", "ab", r"\w", "[^a]", r"\n", "^a", ".", "(?<!b)a", "a(?=b)", "a(?!b)", "b$", "(?=a|b).b"]
ALPHABET = "aab bc\nkK\u212aéÉ1-A"
FINITE = ["a", "b", "ab", "[ab]", "[a-c]", "a|b", "a|ab", "ab|a", "a?", "|b", "b{1,2}", "[ab]{2}", "k|b"]
FINITE += ["ab??", "(a)|b", "é"]


def pattern(
    rng: random.Random, depth: int, *, anchors: bool = False, looks: bool = False, captures: list[int] | None = None
) -> str:
    """A pattern of the Python dialect (possibly one that ``re`` refuses).

    Args:
        captures: with backreferences and conditionals; starts as ``[0]``, the number of groups so far.
    """

    def inner(deeper: int = depth - 1) -> str:
        return pattern(rng, deeper, anchors=anchors, looks=looks, captures=captures)

    if captures is not None:
        way = rng.random()
        if captures[0] and way < 0.15:
            number = rng.randint(1, captures[0])
            if way < 0.1:
                return rng.choice([f"\\{number}", f"\\{number}", f"(?i:\\{number})"])
            return f"(?({number}){inner()}{rng.choice(['', '|', '|' + rng.choice(LEAVES)])})"
        if depth > 0 and way < 0.3:
            captures[0] += 1
            body = rng.choice(FINITE) if rng.random() < 0.8 else inner()
            captures[0] += body.count("(") - body.count("(?") if body in FINITE else 0
            return f"({body}){rng.choice(['', '', '?', '??', '*', '+', '{1,2}'])}"
    kind = rng.random()
    if depth <= 0 or kind < 0.25:
        return rng.choice(LEAVES)
    if kind < 0.45:
        return "".join(inner() for _ in range(rng.randint(2, 3)))
    if kind < 0.58:
        return "(?:" + "|".join(inner() if rng.random() > 0.1 else "" for _ in range(rng.randint(2, 3))) + ")"
    if kind < 0.75:
        if captures is None and rng.random() < 0.5:
            return "(" + inner() + ")" + rng.choice(QUANTIFIERS)
        return "(?:" + inner() + ")" + rng.choice(QUANTIFIERS)
    if kind < 0.8 and sys.version_info >= (3, 11):
        leaf = rng.choice(LEAVES)
        possessive = f"(?:{inner()}){rng.choice(['*+', '++', '?+', '{1,2}+', '{2}+'])}"
        return rng.choice([f"(?>{inner()})", f"(?>{inner()})", possessive, f"(?:{leaf})*+"]) if looks else leaf + "?"
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


def near(rng: random.Random, source: str) -> str:
    """A text along a path through the pattern (lookaround left aside), often with a character changed."""
    held: dict[int, str] = {}
    made = _along(rng, sre_parse.parse(source), held)
    if rng.random() < 0.5:
        at = rng.randint(0, len(made))
        made = rng.choice([made[:at] + rng.choice(ALPHABET) + made[at:], made[:at] + made[at + 1 :], made + made[:at]])
    return made[:40]


def _along(rng: random.Random, tree: Any, held: dict[int, str]) -> str:
    made = ""
    for op, argument in tree:
        name = str(op)
        if op is sre.LITERAL:
            made += chr(argument)
        elif op in (sre.IN, sre.ANY, sre.NOT_LITERAL):
            chars = [chr(a) for o, a in argument if o is sre.LITERAL] if op is sre.IN else []
            chars += [chr(a[0]) for o, a in argument if o is sre.RANGE] if op is sre.IN else []
            made += rng.choice(chars or list(ALPHABET)) if rng.random() < 0.8 else rng.choice(ALPHABET)
        elif op is sre.BRANCH:
            made += _along(rng, rng.choice(argument[1]), held)
        elif op is sre.SUBPATTERN:
            inner = _along(rng, argument[3], held)
            if argument[0] is not None:
                held[argument[0]] = inner
            made += inner
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            lo, hi, body = argument
            for _ in range(rng.randint(int(lo), min(int(hi), int(lo) + 2))):
                made += _along(rng, body, held)
        elif name == "ATOMIC_GROUP":
            made += _along(rng, argument, held)
        elif op is sre.GROUPREF:
            made += held.get(argument, "")
        elif op is sre.GROUPREF_EXISTS:
            made += _along(rng, (argument[1] if argument[0] in held else argument[2]) or (), held)
    return made


ECMA_LEAVES = [
    "a", "b", "ab", r"\n", ".", "[ab]", "[^a]", r"[^\n]", r"\w", r"\W", r"\s", r"\S", r"\d", "c", "[a-c]", "é", "K",
    "-", r"\x61", r"\u0062", r"\u{63}", "[^]", "[]", r"\/", r"[\w-]", r"[\b\-a]", r"\cJ", r"\p{L}", r"\P{Lu}",
    r"[\p{Ll}\d]", r"\p{Script=Latin}", r"\ud83d\ude00", "😀", "[a-😀]", r"\0", r"[^\d\s]",
]  # fmt: skip
ANNEX_B = [
    r"\_", r"\-", r"\ ", r"\:", r"\@", "{", "}", "]", "a{,2}", "x{", "{a}", r"[\w-.]", r"[a-\d]", r"\101", r"\8",
    r"[\1]", r"\12", "(?=a)*", "(?!b){2}", r"\c", r"[\c_]", r"[\c]", r"\377", r"[\_\-]", r"\é",
]  # fmt: skip
ECMA_BEHIND = ["a", "ab*", "a|bc", "(a|b)", r"\w+", "^", "b$", "a(?=b)", "(?<!a)b", r"(a|b)\1", r"\1(a|b)", "$", r"\b"]


def ecma_pattern(rng: random.Random, depth: int, captures: list[int], *, annex_b: bool = False) -> str:
    """A pattern of ECMA-262 (possibly a broken one). ``captures`` starts as ``[0]``, the number of groups so far."""

    def inner() -> str:
        return ecma_pattern(rng, depth - 1, captures, annex_b=annex_b)

    kind = rng.random()
    if annex_b and rng.random() < 0.15:
        return rng.choice(ANNEX_B)
    if depth <= 0 or kind < 0.22:
        return rng.choice(ECMA_LEAVES[:19] if annex_b or rng.random() < 0.6 else ECMA_LEAVES)
    if kind < 0.42:
        return "".join(inner() for _ in range(rng.randint(2, 3)))
    if kind < 0.54:
        return "(?:" + "|".join(inner() if rng.random() > 0.1 else "" for _ in range(rng.randint(2, 3))) + ")"
    if kind < 0.68:
        return "(?:" + inner() + ")" + rng.choice(QUANTIFIERS)
    if kind < 0.74:
        captures[0] += 1
        name = rng.choice(["", "", f"?<n{captures[0]}>"])
        body = rng.choice(FINITE[:10] if rng.random() < 0.8 else [inner()])
        return f"({name}{body}){rng.choice(['', '', '?', '*', '+', '{1,2}', '??'])}"
    if kind < 0.82 and captures[0]:
        return f"\\{rng.randint(1, captures[0])}{rng.choice(['', '', '', '?'])}"
    if kind < 0.88:
        return rng.choice(["^", "$", r"\b", r"\B"])
    if kind < 0.96:
        return rng.choice(["(?=", "(?!"]) + inner() + ")"
    body = rng.choice(ECMA_BEHIND)
    captures[0] += body.count("(") - body.count("(?")
    return rng.choice(["(?<=", "(?<!"]) + body + ")"


def patient(verdict: Callable[[], T], seconds: float = 2.0) -> T | None:
    """The oracle's verdict; None when it takes too long: a backtracking engine may need for ever. Counts processor
    time, so that pytest's own timer is left alone."""
    if not hasattr(signal, "setitimer"):
        return verdict()

    def give_up(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        return verdict()
    except TimeoutError:
        return None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
