"""Random small Lark grammars and texts for them, and lark's verdict on a text."""

from __future__ import annotations

import random
from typing import Any

import lark
import lark.lexer

LETTERS = "abcé"
REPEATS = ("*", "+", "?", "*?", "+?", "??", "{1,2}", "{2}", "{0,2}?")
ANCHORS = (r"\b", r"\B", "$", r"\Z", "^", "(?<=a)", "(?<!a)", r"(?<!\w)", "(?m:^)", "(?m:$)")


def quiet_lark(text: str, **options: Any) -> lark.Lark:
    """``lark.Lark(text, parser="lalr")`` without its collision warnings, whose search takes seconds."""
    found, lark.lexer.has_interegular = lark.lexer.has_interegular, False
    try:
        return lark.Lark(text, parser="lalr", **options)
    finally:
        lark.lexer.has_interegular = found


def accepts(parser: lark.Lark, text: str) -> bool:
    try:
        parser.parse(text)
    except lark.exceptions.LarkError:
        return False
    return True


def atom(rng: random.Random, depth: int) -> str:
    kind = rng.randrange(12)
    if kind < 5 or depth <= 0:
        return rng.choice(LETTERS)
    if kind < 7:
        return rng.choice(["[ab]", "[^a]", r"\w", ".", "[b-c]", r"[^\w]", r"\s", r"\W"])
    if kind < 10:
        return f"(?:{pattern(rng, depth - 1)})"
    return f"(?:{pattern(rng, depth - 1)}|{pattern(rng, depth - 1)})"


def pattern(rng: random.Random, depth: int = 2) -> str:
    parts = []
    for _ in range(rng.randint(1, 3)):
        parts.append(atom(rng, depth) + rng.choice(["", "", "", "", *REPEATS]))
    return "".join(parts)


def looking(rng: random.Random) -> str:
    """An assertion."""
    inner = rng.choice(["a", "b", "[ab]", "ab", "b|ca", r"a\b", r"(?:ab|b)c", "a*b", r"b(?!c)", "(?=a).b", "a+$"])
    return rng.choice([f"(?={inner})", f"(?!{inner})", f"(?!{inner})", *ANCHORS])


def terminal(rng: random.Random, looks: bool) -> str:
    kind = rng.randrange(10)
    if kind < 4:
        return '"' + "".join(rng.choices(LETTERS, k=rng.randint(1, 3))) + '"' + rng.choice(["", "", "", "i"])
    made = pattern(rng)
    if kind == 9:
        made = "|".join(pattern(rng, 1) for _ in range(3))
    if looks and rng.random() < 0.5:
        at = rng.randrange(3)
        body = f"(?:{made})"
        made = (looking(rng) + body, body + looking(rng), f"{body}{looking(rng)}(?:{pattern(rng, 1)})")[at]
    return f"/{made}/" + rng.choice(["", "", "", "i", "s"])


def grammar(rng: random.Random, looks: bool = False) -> str:
    """A random grammar; lark may well refuse it."""
    names = [f"T{i}" for i in range(rng.randint(1, 5))]
    lines = []
    for name in names:
        priority = rng.choice(["", "", "", ".2", ".-1"])
        lines.append(f"{name}{priority}: {terminal(rng, looks)}")
    rules = ["start", *[f"r{i}" for i in range(rng.randint(0, 3))]]
    for rule in rules:
        choices = []
        for _ in range(rng.randint(1, 3)):
            symbols = []
            for _ in range(rng.randint(0 if rule != "start" else 1, 3)):
                symbol = rng.choice(names) if rng.random() < 0.7 else rng.choice(rules[1:] or names)
                symbols.append(symbol + rng.choice(["", "", "", "", "*", "?", "+"]))
            choices.append(" ".join(symbols))
        lines.append(f"{rule}: " + " | ".join(choices))
    if rng.random() < 0.6:
        lines.append('%ignore " "')
    if rng.random() < 0.2:
        lines.append(f"%ignore {rng.choice(names)}")
    return "\n".join(lines) + "\n"


def texts(rng: random.Random, count: int) -> list[str]:
    alphabet = LETTERS + " A\n"
    weights = [4] * len(LETTERS) + [2, 1, 1]
    return ["".join(rng.choices(alphabet, weights, k=rng.randint(0, 9))) for _ in range(count)]
