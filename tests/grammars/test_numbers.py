"""Number ranges against exact comparison."""

from __future__ import annotations

import json
import random
import re
import time
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.errors import GrammarError, GrammarTooComplex
from structgen.grammars import numbers
from structgen.grammars.expr import NEVER, is_empty, matches

NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?")
INTEGER = re.compile(r"-?(0|[1-9]\d*)")

decimals = st.one_of(
    st.decimals(-150, 150, places=0),
    st.decimals(-150, 150, places=3),
    st.decimals(-2, 2, places=7),
    st.sampled_from([Decimal(t) for t in ("0", "-0", "0.0", "1e3", "1e-7", "-1e2", "9.99", "99", "100", "0.10")]),
    st.integers(-(2**70), 2**70).map(Decimal),
    st.floats(-1e30, 1e30).map(numbers.parse_bound),
)


def numeral(rng: random.Random, bounds: list[Decimal]) -> str:
    """A text near one of the bounds, or something that is hardly a number."""
    near = rng.choice([*bounds, Decimal(rng.randint(-120, 120))])
    nudge = Decimal(rng.choice([0, 0, 0, 1, -1])).scaleb(-rng.randint(0, 9))
    text = format(near + nudge, "f")
    if rng.random() < 0.3:
        text += ("" if "." in text else ".") + "0" * rng.randint(1, 3)
    if rng.random() < 0.15:
        text += str(rng.randint(0, 9))
    if rng.random() < 0.1:
        text = rng.choice(["-", "0", "+", " "]) + text
    if rng.random() < 0.1:
        text = text[: rng.randint(0, len(text))]
    return text


@given(st.none() | decimals, st.none() | decimals, st.booleans(), st.booleans(), st.integers(0, 2**32))
@settings(max_examples=120, deadline=None)
def test_numbers(lo: Decimal | None, hi: Decimal | None, lo_open: bool, hi_open: bool, seed: int) -> None:
    rng = random.Random(seed)
    made = numbers.number(lo, hi, lo_open=lo_open, hi_open=hi_open)
    if lo is not None and hi is not None:
        assert (made is NEVER) == (lo > hi or (lo == hi and (lo_open or hi_open)))
    assert is_empty(made) == (made is NEVER)
    bounds = [bound for bound in (lo, hi) if bound is not None]
    for _ in range(12):
        text = numeral(rng, bounds)
        value = Decimal(text) if NUMBER.fullmatch(text) else None
        expected = (
            value is not None
            and (lo is None or value > lo or (value == lo and not lo_open))
            and (hi is None or value < hi or (value == hi and not hi_open))
        )
        assert matches(made, text.encode()) == expected, (lo, hi, lo_open, hi_open, text)


integers = st.integers(-30, 30) | st.integers(-1100, 1100) | st.integers(-(2**70), 2**70)


@given(st.none() | integers, st.none() | integers, st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_integers(lo: int | None, hi: int | None, seed: int) -> None:
    rng = random.Random(seed)
    made = numbers.integer(lo, hi)
    if lo is not None and hi is not None:
        assert (made is NEVER) == (lo > hi)
    bounds = [bound for bound in (lo, hi) if bound is not None]
    for _ in range(12):
        value = rng.choice([*bounds, 0, rng.randint(-1200, 1200)]) + rng.choice([0, 0, 1, -1, 10])
        text = rng.choice(["", "", "", "-", "0", "+"]) + str(value) + rng.choice(["", "", "", "0", ".0", "e1"])
        expected = bool(INTEGER.fullmatch(text)) and (lo is None or int(text) >= lo) and (hi is None or int(text) <= hi)
        assert matches(made, text.encode()) == expected, (lo, hi, text)


@pytest.mark.parametrize(("lo", "hi"), [(-12, 105), (0, 0), (99, 1001), (-5, -1), (10, 19)])
def test_every_small_integer(lo: int, hi: int) -> None:
    made = numbers.integer(lo, hi)
    for value in range(-1200, 1200):
        assert matches(made, str(value).encode()) == (lo <= value <= hi)


def test_zero_has_a_sign() -> None:
    for text in ("0", "-0"):
        assert matches(numbers.integer(0, 5), text.encode())
        assert matches(numbers.number(Decimal(-1), Decimal(0)), text.encode())
        assert not matches(numbers.number(Decimal(0), None, lo_open=True), text.encode())
    assert matches(numbers.number(Decimal(0), Decimal(1)), b"-0.00")


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers())
def test_unbounded_numbers_are_those_of_json(value: float) -> None:
    text = json.dumps(value)
    made = numbers.number(None, None, exponent=True)
    assert matches(made, text.encode())
    assert matches(made, text.upper().encode())
    assert matches(numbers.number(None, None), text.encode()) == ("e" not in text)
    for wrong in ("+" + text, "0" + text, text + ".", "." + text, text + "e", "-", ""):
        assert not matches(made, wrong.encode())


def test_enormous_bounds() -> None:
    began = time.process_time()
    big = 10**5000
    made = numbers.integer(-big, big)
    assert matches(made, b"1" + b"0" * 5000)
    assert not matches(made, b"1" + b"0" * 4999 + b"1")
    assert matches(numbers.integer(-(2**63), 2**63 - 1), b"9223372036854775807")
    assert not matches(numbers.integer(-(2**63), 2**63 - 1), b"9223372036854775808")
    tiny = numbers.number(Decimal("1e-400"), Decimal("1e400"))
    assert matches(tiny, b"0." + b"0" * 399 + b"1")
    assert not matches(tiny, b"0." + b"0" * 399 + b"09")
    assert time.process_time() - began < 3
    with pytest.raises(GrammarTooComplex, match="digits"):
        numbers.number(Decimal("1e1000000"), None)


def test_bounds_are_read_exactly() -> None:
    assert numbers.parse_bound(0.1) == Decimal("0.1")
    assert numbers.parse_bound(1e300) == Decimal(10) ** 300
    assert numbers.parse_bound(2**200 + 1) == 2**200 + 1
    assert numbers.parse_bound(Decimal("1.50")) == Decimal("1.5")
    for wrong in (float("nan"), float("inf"), Decimal("nan"), True, "1", None):
        with pytest.raises(GrammarError, match="bound"):
            numbers.parse_bound(wrong)  # type: ignore[arg-type]
