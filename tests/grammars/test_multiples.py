"""Steps of plainly spelled numbers, against arithmetic on decimals."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest

from structgen.errors import GrammarTooComplex
from structgen.grammars.expr import NEVER, Expr
from structgen.grammars.schema.multiples import multiple_of
from structgen.grammars.schema.scalars import is_multiple

STEPS = [2, 3, 7, 0.5, 2.5, 0.01, 0.04, 10, 4, 20, 30, 1, 100, 0.3, 1.2, 6, 0.125, 13]
ROUNDS = 150


@pytest.mark.parametrize("seed", [0, random.randrange(10**9)])
def test_members_are_the_multiples(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(ROUNDS):
        wanted = [Decimal(str(each)) for each in rng.sample(STEPS, rng.choice([0, 1, 1, 2]))]
        others = [Decimal(str(each)) for each in rng.sample(STEPS, rng.choice([0, 0, 1, 2, 3]))]
        whole = rng.random() < 0.4
        made = multiple_of(wanted, others, whole=whole)
        for _ in range(60):
            text = _spelled(rng)
            value = Decimal(text)
            member = all(is_multiple(value, each) for each in wanted) and not any(
                is_multiple(value, each) for each in others
            )
            left = _after(made, text)
            accepted = bool(left.outcomes)
            assert accepted == (member and not (whole and "." in text)), (wanted, others, whole, text)
            assert left is NEVER or _ends_within(left, 4), (wanted, others, whole, text)


def test_what_excludes_every_multiple_is_nothing() -> None:
    assert multiple_of([Decimal(6)], [Decimal(3)], whole=False) is NEVER
    assert multiple_of([Decimal("0.5")], [Decimal(1)], whole=True) is NEVER
    assert multiple_of([Decimal("0.5")], [Decimal(1)], whole=False) is not NEVER
    assert multiple_of([], [Decimal("0.1")], whole=True) is NEVER


def test_too_many_steps_are_refused() -> None:
    primes = [n for n in range(2, 600) if all(n % d for d in range(2, n))]
    with pytest.raises(GrammarTooComplex, match="must fail"):
        multiple_of([], [Decimal(each) for each in primes[:101]], whole=True)
    made = multiple_of([Decimal(1)], [Decimal(each) for each in primes[:100]], whole=True)
    assert _after(made, "541").outcomes == ()
    assert _after(made, "547").outcomes == (0,)


def _spelled(rng: random.Random) -> str:
    text = rng.choice(["", "-"]) + rng.choice(["0", str(rng.randrange(1, 1000)), str(rng.randrange(1, 10**8))])
    if rng.random() < 0.5:
        text += "." + "".join(rng.choice("0055123456789") for _ in range(rng.randrange(1, 5)))
    return text


def _after(expr: Expr, text: str) -> Expr:
    for byte in text.encode():
        expr = expr.derive(byte)
    return expr


def _ends_within(expr: Expr, most: int) -> bool:
    """Whether a string of at most so many bytes is accepted; every state must have one, or masks lead nowhere."""
    reached = {expr}
    for _ in range(most + 1):
        if any(each.outcomes for each in reached):
            return True
        reached = {each.derive(byte) for each in reached for byte in b"0123456789."} - {NEVER}
    return False
