"""Numbers in every spelling against their exact values."""

from __future__ import annotations

import json
import math
import random
import re
import time
from collections import deque
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import jsonschema
import jsonschema_rs
import pytest
import test_json_schema_suites as suites
from brute import check_walk
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.errors import GrammarTooComplex, UnsatisfiableGrammar, UnsupportedGrammar
from structgen.grammars import Grammar, Vocabulary, any_number, numbers
from structgen.grammars.expr import NEVER, Expr, alt, literal, matches
from structgen.grammars.json_schema import machine
from structgen.grammars.schema.scalars import is_multiple, number_value_expr

SPELLING = re.compile(r"(-?)(0|[1-9]\d*)(?:\.(\d+))?(?:[eE]([+-]?\d+))?")
BEGUN = re.compile(r"-?(?:(?:0|[1-9]\d*)(?:\.(?:\d+(?:[eE](?:[+-]?\d*))?)?|[eE](?:[+-]?\d*))?)?")


class Conditions(NamedTuple):
    lo: Decimal | None = None
    hi: Decimal | None = None
    lo_open: bool = False
    hi_open: bool = False
    multiples: tuple[Decimal, ...] = ()
    not_multiples: tuple[Decimal, ...] = ()
    excluded: tuple[Decimal, ...] = ()

    def expr(self) -> Expr:
        return any_number.number(**self._asdict())

    def hold(self, value: Fraction) -> bool:
        """The reference: every condition by itself, on the exact value."""
        if self.lo is not None and (value < Fraction(self.lo) or (self.lo_open and value == Fraction(self.lo))):
            return False
        if self.hi is not None and (value > Fraction(self.hi) or (self.hi_open and value == Fraction(self.hi))):
            return False
        return (
            all((value / Fraction(step)).denominator == 1 for step in self.multiples)
            and not any((value / Fraction(step)).denominator == 1 for step in self.not_multiples)
            and value not in [Fraction(each) for each in self.excluded]
        )

    def take(self, text: str) -> bool:
        value = value_of(text)
        return value is not None and self.hold(value)


def value_of(text: str) -> Fraction | None:
    found = SPELLING.fullmatch(text)
    if found is None:
        return None
    sign, whole, behind, exponent = found.groups("")
    power = int(exponent or "0") - len(behind)
    if abs(power) > 2000:  # as good as any
        power = 2000 if power > 0 else -2000
    return int(sign + whole + behind) * Fraction(10) ** power


def respelled(rng: random.Random, value: Decimal) -> str:
    """Some spelling of ``value``, now and then of one near it."""
    if rng.random() < 0.4:
        value += Decimal(rng.choice((1, -1))).scaleb(-rng.randint(-1, 4))
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).lstrip("0")
    zeros = rng.choice((0, 0, 0, 1, 2, 5))
    text, exponent = text + "0" * zeros, exponent - zeros
    point = rng.choice((len(text) + exponent, rng.randint(-3, len(text) + 2), len(text)))
    exponent += len(text) - point
    if point <= 0:
        text = "0." + "0" * -point + (text or "0")
    else:
        text = text.ljust(point, "0")
        whole, behind = text[:point] or "0", text[point:]
        text = whole + ("." + behind if behind else "")
    if text.startswith("0") and not text.startswith("0."):
        text = text.lstrip("0") or "0"
        text = "0" + text if text.startswith(".") else text
    if exponent or rng.random() < 0.3:
        mark, plus = rng.choice("eE"), rng.choice(("", "+")) if exponent >= 0 else "-"
        text += mark + plus + "0" * rng.choice((0, 0, 1, 3)) + str(abs(exponent))
    if (sign and value) or (not value and rng.random() < 0.3):
        text = "-" + text
    return text


BOUNDS = ["0", "1", "-1", "5", "12", "99.5", "100", "101", "-0.5", "0.125", "0.05", "1e3", "-250", "1e-3", "7e2"]
STEPS = ["1", "0.01", "0.5", "2", "7", "1e1", "25", "0.3", "12", "1e-3", "4", "0.125", "64", "1.5", "100"]


def conditions(rng: random.Random) -> Conditions:
    def some(pool: list[str], most: int) -> tuple[Decimal, ...]:
        return tuple(Decimal(rng.choice(pool)) for _ in range(rng.choice([0, 0, *range(most + 1)])))

    def bound() -> Decimal | None:
        if rng.random() < 0.4:
            return None
        near = Decimal(rng.choice(BOUNDS))
        return near if rng.random() < 0.7 else near + Decimal(rng.randint(-30, 30)).scaleb(-rng.randint(0, 2))

    lo, hi = bound(), bound()
    if lo is not None and hi is not None and lo > hi and rng.random() < 0.9:
        lo, hi = hi, lo
    made = Conditions(lo, hi, rng.random() < 0.4, rng.random() < 0.4, some(STEPS, 2), some(STEPS, 2), some(BOUNDS, 3))
    if hi is not None and rng.random() < 0.3:
        made = made._replace(excluded=(*made.excluded, hi, Decimal(int(hi))))
    return made


seeds = st.integers(0, 2**60)


@given(seeds)
@settings(max_examples=300, deadline=None)
def test_values_decide(seed: int) -> None:
    rng = random.Random(seed)
    wanted = conditions(rng)
    made = wanted.expr()
    near = [each for each in (wanted.lo, wanted.hi, *wanted.excluded) if each is not None] or [Decimal(7)]
    near += [step * rng.randint(-40, 40) for step in (*wanted.multiples, *wanted.not_multiples)]
    near += [Decimal(rng.randint(-2000, 2000)).scaleb(-rng.randint(0, 3)), Decimal(0)]
    for _ in range(25):
        text = respelled(rng, rng.choice(near))
        assert SPELLING.fullmatch(text), text
        assert matches(made, text.encode()) == wanted.take(text), (wanted, text)
        if rng.random() < 0.2:
            at = rng.randint(0, len(text))
            text = text[:at] + rng.choice(("", "0", "-", "+", ".", "e", " ", "1", "E")) + text[at + rng.randint(0, 1) :]
            assert matches(made, text.encode()) == wanted.take(text), (wanted, text)


def completion(state: Expr, limit: int = 40_000) -> bytes | None:
    """A short text that ends ``state``; exponents first."""
    found: dict[Expr, bytes] = {state: b""}
    queue = deque([state])
    while queue and len(found) < limit:
        at = queue.popleft()
        if at.outcomes:
            return found[at]
        for byte, _ in at.classes():
            left = at.derive(byte)
            if left is not NEVER and left not in found:
                found[left] = found[at] + bytes([byte])
                if 0x30 <= byte <= 0x39:
                    queue.append(left)
                else:
                    queue.appendleft(left)
    return None


def completions(prefix: str) -> Iterator[str]:
    """Many spellings that begin with ``prefix``: with up to two digits, some with three, and small exponents."""
    tails = ["", *(str(n).zfill(size) for size in (1, 2) for n in range(10**size))]
    tails += [str(random.randrange(1000)).zfill(3) for _ in range(60)]
    if "e" in prefix.lower():
        signs = ["", "-", "+"] if prefix[-1] in "eE" else [""]
        yield from (prefix + sign + tail for sign in signs for tail in tails)
        return
    begins = [prefix + tail for tail in tails]
    if "." not in prefix:
        begins += [f"{prefix}.{tail}" for tail in tails]
        begins += [f"{prefix}{a}.{b}" for a in tails[:11] for b in tails[:11]]
    for begin in begins:
        if SPELLING.fullmatch(begin):
            yield from (f"{begin}e{power}" for power in range(-7, 8))


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_alive_exactly_when_a_completion_exists(seed: int) -> None:
    """Each prefix along some random spellings, and each that leaves them by one byte."""
    rng = random.Random(seed)
    wanted = conditions(rng)
    made = wanted.expr()
    near = [each for each in (wanted.lo, wanted.hi, *wanted.excluded, *wanted.multiples) if each is not None]
    text = respelled(rng, rng.choice([*near, Decimal(rng.randint(0, 999))]))
    state, searched = made, 0
    for at in range(len(text) + 1):
        for byte in "0123456789.eE-+" if at < len(text) else "":
            prefix = text[:at] + byte
            after = state.derive(ord(byte))
            mask = state.byte_class(ord(byte))
            assert mask >> ord(byte) & 1
            assert all(state.derive(b) is after for b in range(256) if mask >> b & 1)
            if after is not NEVER:
                if rng.random() > 0.15:
                    continue
                rest = completion(after)
                assert rest is not None, (wanted, prefix)
                assert wanted.take(prefix + rest.decode()), (wanted, prefix, rest)
            elif BEGUN.fullmatch(prefix) and searched < 3 and rng.random() < 0.3:
                searched += 1
                assert not any(map(wanted.take, completions(prefix))), (wanted, prefix)
        if at < len(text):
            state = state.derive(ord(text[at]))
            if state is NEVER:
                break


@given(seeds)
@settings(max_examples=150, deadline=None)
def test_multiples_in_a_range_are_all_found(seed: int) -> None:
    """Against a list of all values: a prefix of digits is alive iff one of them begins with it."""
    rng = random.Random(seed)
    step = Decimal(rng.choice(STEPS)) * rng.choice((1, 3, 11))
    lo, hi = sorted(Decimal(rng.randint(0, 40)) * step + rng.choice((0, Decimal("0.01"))) for _ in range(2))
    others = tuple(Decimal(rng.choice(STEPS)) for _ in range(rng.choice((0, 1, 2))))
    excluded = tuple(step * rng.randint(0, 40) for _ in range(rng.choice((0, 0, 3))))
    wanted = Conditions(lo, hi, rng.random() < 0.5, rng.random() < 0.5, (step,), others, excluded)
    values = [step * n for n in range(int(lo / step) - 1, int(hi / step) + 2) if wanted.hold(Fraction(step) * n)]
    made = wanted.expr()
    assert (made is NEVER) == (not values)
    begins = {"".join(map(str, value.as_tuple().digits)).lstrip("0").ljust(9, "0") for value in values}
    for _ in range(60):
        digits = str(rng.randint(1, 9999))
        if values and rng.random() < 0.5:
            digits = rng.choice(sorted(begins)).replace("0", "", 0)[: rng.randint(1, 6)] or "1"
        if int(digits) == 0:
            continue
        state = made
        for byte in digits.encode():
            state = state.derive(byte)
        assert (state is not NEVER) == any(each.startswith(digits) for each in begins), (wanted, digits)


def test_digits_that_change_nothing_share_a_state() -> None:
    def after(made: Expr, text: str) -> Expr:
        for byte in text.encode():
            made = made.derive(byte)
        return made

    whole = Conditions(multiples=(Decimal(1),)).expr()
    assert after(whole, "123") is after(whole, "7") is after(whole, "90001")
    assert after(whole, "120") is not after(whole, "123")
    assert after(whole, "1.25") is after(whole, "99.13")
    assert len({after(whole, str(n)) for n in range(1, 1000)}) == 3
    ranged = Conditions(Decimal(0), Decimal(10) ** 6, multiples=(Decimal(1),)).expr()
    assert len({after(ranged, str(n)) for n in range(100, 1000)}) <= 6
    assert Conditions(Decimal(0)).expr().derive(0x31) is Conditions().expr().derive(0x31)
    band = Conditions(Decimal("0.25"), Decimal("0.75")).expr()
    assert after(band, "0.3") is after(band, "0.51") is after(band, "0.7499")
    cents = Conditions(multiples=(Decimal("0.01"),)).expr()
    assert after(cents, "3.14") is after(cents, "12.34")


def test_enormous_exponents() -> None:
    began = time.process_time()
    whole, unit = Conditions(multiples=(Decimal(1),)).expr(), Conditions(Decimal(0), Decimal(1)).expr()
    for text, integer, small in (
        ("1e400", True, False),
        ("1e-99999999999", False, True),
        ("1e99999999999999999999999999999", True, False),
        ("0e99999999999999999999999999999", True, True),
        ("-0.0e-99999999999999999999999999999", True, True),
        ("1" + "0" * 5000 + "e-5000", True, True),
        ("1" + "0" * 5000 + "e-5001", False, True),
        ("1" + "0" * 5000 + "e-" + "0" * 5000 + "5000", True, True),
        ("0." + "0" * 4999 + "1e5000", True, True),
        ("0." + "0" * 4999 + "11e5000", False, False),
    ):
        assert matches(whole, text.encode()) == integer, text[:40]
        assert matches(unit, text.encode()) == small, text[:40]
    far = any_number.number(Decimal("1e99999999"), Decimal("1e999999999"), lo_open=True)
    assert matches(far, b"1.5e99999999")
    assert not matches(far, b"1e99999999")
    assert matches(far, b"0.1e1000000000")
    assert not matches(far, b"0.11e1000000000")
    assert time.process_time() - began < 5


def test_large_numbers_of_digits() -> None:
    began = time.process_time()
    step = Decimal("1e-900") * 7
    made = any_number.number(multiples=[step], not_multiples=[step * 11], hi=Decimal(10))
    assert matches(made, b"0." + b"0" * 899 + b"7")
    assert matches(made, b"21e-900")
    assert not matches(made, b"77e-900")
    assert not matches(made, b"22e-900")
    assert matches(made, b"700e-902")
    big = any_number.number(Decimal(-(10**2000)), Decimal(10**2000 - 1), multiples=[Decimal(1)], excluded=[Decimal(4)])
    assert matches(big, b"9" * 2000)
    assert not matches(big, b"9" * 2000 + b"e1")
    assert not matches(big, b"9" * 2001)
    assert not matches(big, b"1" + b"0" * 2000)
    assert matches(big, b"-1e2000")
    assert not matches(big, b"0.4e1")
    assert is_multiple(Decimal("1e999999999"), Decimal("0.0625"))
    assert not is_multiple(Decimal("1e-999999999"), Decimal("0.0625"))
    assert not is_multiple(Decimal("3e999999999"), Decimal(9))
    assert time.process_time() - began < 5
    with pytest.raises(GrammarTooComplex, match="multipleOf"):
        any_number.number(multiples=[Decimal("1e-1002")])
    with pytest.raises(GrammarTooComplex, match="digits"):
        any_number.number(hi=Decimal("1e1000000"), multiples=[Decimal(1)])
    for policy in ("plain", "any"):
        far = {"a": {"multipleOf": 1e-300, "maximum": 1}, "b": {"multipleOf": Decimal("1e-5000")}}
        with pytest.raises(GrammarTooComplex) as caught:
            machine({"properties": far}, numbers=policy)
        assert caught.value.pointer == "#/properties/b/multipleOf"


@given(seeds)
@settings(max_examples=150, deadline=None)
def test_listed_values(seed: int) -> None:
    rng = random.Random(seed)
    values = [Decimal(rng.choice([0, 1, -1, 12, 120, rng.randint(-500, 500)])).scaleb(-rng.randint(-1, 3))
              for _ in range(rng.randint(1, 8))]  # fmt: skip
    made = any_number.values(values)
    exact = {Fraction(value) for value in values}
    for _ in range(20):
        text = respelled(rng, rng.choice(values) * rng.choice((1, 1, 10)))
        assert matches(made, text.encode()) == (value_of(text) in exact), (values, text)
    one, plain = number_value_expr(values[0], True), number_value_expr(values[0], False)
    for _ in range(10):
        text = respelled(rng, values[0])
        assert matches(one, text.encode()) == (value_of(text) == Fraction(values[0]))
        assert matches(plain, text.encode()) == (value_of(text) == Fraction(values[0]) and "e" not in text.lower())
    state = made
    for byte in respelled(rng, rng.choice(values)).encode():
        state = state.derive(byte)
        if state is NEVER:
            break
        assert completion(state) is not None


@given(seeds)
@settings(max_examples=150, deadline=None)
def test_parts_of_a_union(seed: int) -> None:
    """Taking values out, and counting those there are."""
    rng = random.Random(seed)
    wanted = conditions(rng)
    other = literal(b'"1"') if rng.random() < 0.5 else NEVER
    made = alt(wanted.expr(), other)
    found, rest = any_number.parts(made)
    assert rest is other
    assert any_number.union(found) is wanted.expr()
    gone = tuple(Decimal(rng.choice([*BOUNDS, *STEPS])) for _ in range(3))
    left = wanted._replace(excluded=(*wanted.excluded, *gone))
    less = any_number.without(made, gone)
    assert matches(less, b'"1"') == (other is not NEVER)
    for _ in range(15):
        text = respelled(rng, rng.choice([*gone, Decimal(rng.randint(-9, 9))]))
        assert matches(less, text.encode()) == left.take(text), (wanted, gone, text)
    size, values = any_number.size(found, 10**6), any_number.members(found, 300)
    if values is None:
        assert size > 300
    else:
        assert size == len(values)
        assert any_number.values(values) is NEVER or matches(any_number.values(values), str(min(values)).encode())
        assert all(wanted.hold(Fraction(value)) for value in values)
        for _ in range(10):
            value = value_of(respelled(rng, Decimal(rng.choice([*BOUNDS, *STEPS]))))
            assert value is not None
            assert wanted.hold(value) == (value in {Fraction(each) for each in values}), (wanted, value)


def test_items_that_differ_in_value() -> None:
    rng, taken, checked = random.Random(), 0, 0
    leaves: list[Any] = [
        {"type": "integer", "minimum": 0, "maximum": 3},
        {"type": "number", "multipleOf": 0.5, "minimum": -1, "maximum": 1},
        {"type": "integer"},
        {"enum": [0, 1, 2.5, "1"]},
        {"type": ["number", "string"], "maximum": 2},
        {"type": "number", "not": {"type": "integer"}},
    ]
    for _ in range(60):
        items = rng.choice(leaves)
        schema = {"type": "array", "items": items, "uniqueItems": True, "minItems": rng.choice((0, 2, 3))}
        if rng.random() < 0.3:
            schema["maxItems"] = 4
        made, _ = machine(schema, numbers="any", whitespace="compact")
        validator = jsonschema.Draft202012Validator(schema)
        for _ in range(8):
            values = [Decimal(rng.randint(-2, 6)) / 2 for _ in range(rng.randint(0, 4))]
            texts = [json.dumps("1") if rng.random() < 0.1 else respelled(rng, value) for value in values]
            document = [text[1:-1] if text.startswith('"') else float(value_of(text) or 0) for text in texts]
            expected = validator.is_valid(document)
            assert suites.takes(made, f"[{','.join(texts)}]") == expected, (schema, texts)
            taken += expected
            checked += 1
    assert taken > checked // 20


def test_many_listed_values() -> None:
    rng = random.Random()
    values = [rng.randint(-(10**9), 10**9) for _ in range(10_000)]
    began = time.process_time()
    made, _ = machine({"enum": values}, numbers="any")
    assert suites.takes(made, f"{values[77]}00e-2")
    assert not suites.takes(made, f"{values[77]}.5")
    assert time.process_time() - began < 2


def test_no_condition_is_a_plain_regular_expression() -> None:
    made = any_number.number()
    assert made is Conditions(multiples=(), excluded=()).expr()
    for text in ("0", "-0", "1.50e+07", "12E0", "0.0e-0"):
        assert matches(made, text.encode())
    for text in ("", "-", "01", "1.", ".5", "1e", "1e+", "+1", "1e1.5", "--1"):
        assert not matches(made, text.encode())


# -- schemas


def number_schema(rng: random.Random) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if rng.random() < 0.8:
        made["type"] = rng.choice(("integer", "number", "number", ["integer", "string"]))
    for keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        if rng.random() < 0.25:
            made[keyword] = rng.choice((rng.randint(-40, 40), rng.randint(-400, 400) / 8, 1e-3, 1000))
    if rng.random() < 0.3:
        made["multipleOf"] = rng.choice((1, 2, 3, 0.5, 0.25, 7, 10, 0.125, 100, 2.5))
    if rng.random() < 0.2:
        made["not"] = rng.choice(({"multipleOf": 3}, {"const": 4}, {"enum": [1, 2.5, 0]}, {"type": "integer"}))
    if rng.random() < 0.1:
        made["enum"] = [rng.choice((1, 2, 2.5, -4, 100, 0, 0.125)) for _ in range(4)]
    if rng.random() < 0.1:
        made["anyOf"] = [number_schema(rng), {"const": rng.randint(0, 20)}]
    return made


def test_schemas_like_the_validators() -> None:
    seed = random.SystemRandom().randrange(1 << 40)
    rng, checked, taken = random.Random(seed), 0, 0
    while checked < 4000:
        schema = number_schema(rng)
        slow, fast = jsonschema.Draft202012Validator(schema), jsonschema_rs.Draft202012Validator(schema)
        try:
            made, _ = machine(schema, numbers="any", whitespace="compact")
        except UnsatisfiableGrammar:
            made = None
        for _ in range(12):
            # Multiples of 1/8 and of small integers: floats are exact.
            value = Decimal(rng.choice((rng.randint(-30, 30), rng.randint(-400, 400) * Decimal("0.125"), 1000, 0)))
            text = respelled(rng, value)
            number = value_of(text)
            assert number is not None
            if Fraction(float(number)) != number:
                continue
            plain = int(number) if number.denominator == 1 else float(number)
            expected = slow.is_valid(plain)
            assert expected == fast.is_valid(plain)
            assert (made is not None and suites.takes(made, text)) == expected, (seed, schema, text)
            checked += 1
            taken += expected
    assert taken > 1000


def test_draft_4_spells_its_integers() -> None:
    for schema, right, wrong in (
        ({"type": "integer"}, ["1", "-0", "100"], ["1.0", "1e2", "10e-1"]),
        ({"type": "number"}, ["1", "1.0", "1e2"], []),
        ({"type": "integer", "enum": [1, 2]}, ["1"], ["1.0"]),
        ({"enum": [1, 2]}, ["1", "1.0", "0.2e1"], ["1.5"]),
        ({"type": "number", "not": {"type": "integer"}, "maximum": 5}, ["1.0", "1.5", "5e0"], ["1", "0", "5.5"]),
    ):
        made, _ = machine(schema, numbers="any", draft=4)
        for text in right:
            assert suites.takes(made, text), (schema, text)
        for text in wrong:
            assert not suites.takes(made, text), (schema, text)
    made, _ = machine({"type": "integer"}, numbers="any", draft=6)
    assert suites.takes(made, "1.0")


MASKED: list[Any] = [
    {"type": "integer"},
    {"type": "array", "items": {"type": "integer", "minimum": -3, "maximum": 120}, "minItems": 1},
    {"type": "number", "minimum": 0.5, "exclusiveMaximum": 120, "multipleOf": 0.5},
    {"enum": [1, 10, 2.5, 0, -12, "12"]},
    {"type": "array", "items": {"type": "number", "not": {"multipleOf": 1}}, "minItems": 2},
    {"type": "array", "items": {"type": "integer", "minimum": -1, "maximum": 1}, "uniqueItems": True, "minItems": 2},
]


@pytest.mark.parametrize("schema", MASKED, ids=lambda schema: json.dumps(schema)[:40])
def test_masks(schema: Any, synthetic_vocabulary: Vocabulary) -> None:
    rng = random.Random()
    grammar = Grammar.from_json_schema(schema, numbers="any", whitespace=rng.choice(("compact", "bounded")))
    compiled = grammar.compile(synthetic_vocabulary)
    assert sum(check_walk(grammar, compiled, rng, 14) for _ in range(3)) > 10


OPTIONAL = ("bignum", "float-overflow", "zeroTerminatedFloats")


@pytest.mark.parametrize("draft", list(suites.DRAFTS))
def test_official_suite(draft: str) -> None:
    """The tests with numbers in them, among them integers spelled 1.0."""
    floats = checked = 0
    for path, contents in suites.suite().items():
        required = path.startswith(f"tests/{draft}/") and path.count("/") == 2
        if not required and path not in [f"tests/{draft}/optional/{name}.json" for name in OPTIONAL]:
            continue
        for group in contents:
            text = json.dumps(group)
            if "$ref" in text or "http" in text.replace(suites.DRAFTS[draft][1], "") or not re.search(r"\d", text):
                continue
            named = suites.DRAFTS[draft][1]
            try:
                made, _ = machine(group["schema"], order="any", whitespace="any", numbers="any", draft=named)
            except UnsatisfiableGrammar:
                assert not any(test["valid"] for test in group["tests"]), (path, group["description"])
                continue
            except UnsupportedGrammar:
                continue
            if "unevaluated" in text or path.endswith("/format.json"):
                continue
            for test in group["tests"]:
                verdict = suites.takes(made, json.dumps(test["data"], ensure_ascii=False))
                assert verdict == test["valid"], (path, group["description"], test)
                floats += suites.whole_floats(test["data"])
                checked += 1
    assert checked > 300
    assert floats > 10


def test_ranges_of_numbers_agree_with_the_plain_policy() -> None:
    rng = random.Random()
    for _ in range(200):
        lo, hi = sorted(Decimal(rng.randint(-3000, 3000)).scaleb(-rng.randint(0, 2)) for _ in range(2))
        lo_open = rng.random() < 0.5
        plain, wide = numbers.number(lo, hi, lo_open=lo_open), any_number.number(lo, hi, lo_open=lo_open)
        whole = numbers.integer(math.ceil(lo), math.floor(hi))
        counted = any_number.number(lo, hi, multiples=[Decimal(1)])
        for _ in range(8):
            text = format(rng.choice((lo, hi)) + Decimal(rng.randint(-2, 2)).scaleb(-rng.randint(0, 3)), "f")
            assert matches(plain, text.encode()) == matches(wide, text.encode())
            text = text.split(".")[0]
            assert matches(whole, text.encode()) == matches(counted, text.encode())
