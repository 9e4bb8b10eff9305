"""Numbers in schemas that are longer or farther than Python's: typed errors with a pointer, or they work."""

from __future__ import annotations

import itertools
import json
from decimal import Decimal
from typing import Any

import pytest

from structgen.errors import GrammarError, GrammarTooComplex
from structgen.grammars.grammar import Grammar

FAR = ["1e99999999999999999999", "-1e99999999999999999999", "2.5e-99999999999999999999"]
LONG = ["1e999999999", "-1e999999999", "1e-999999999", "1e100000000", "9" * 5000, "0." + "9" * 5000, "1e5000", "1e400"]
BOUNDS = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]
COUNTS = ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"]
PLACES = ["{%s}", '{"properties": {"a": {%s}}}', '{"items": {"anyOf": [{"not": {%s}}, {"type": "string"}]}}']
NUMBERS = ["plain", "any"]


def _asked(schema: Any, numbers: str) -> Grammar | GrammarError:
    try:
        grammar = Grammar.from_json_schema(schema, numbers=numbers)
    except GrammarError as error:
        return error
    for text in ("1", "-1", "1e3", "0.001", '"a"', "[1]", '{"a": 1}'):
        grammar.matches(text)
    return grammar


@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("keyword", [*BOUNDS, *COUNTS, "const"])
def test_far_numbers_are_refused_where_they_count(keyword: str, place: str, numbers: str) -> None:
    for number in FAR:
        found = _asked(place % f'"{keyword}": {number}', numbers)
        assert isinstance(found, GrammarTooComplex)
        assert found.pointer is not None
        assert found.pointer.endswith(f"/{keyword}")
        assert number in str(found)


@pytest.mark.parametrize("number", [*FAR, *LONG, "NaN"])
@pytest.mark.parametrize("keyword", ["default", "x-note", "title", "examples"])
def test_numbers_of_annotations_do_not_matter(keyword: str, number: str) -> None:
    grammar = Grammar.from_json_schema(f'{{"type": "integer", "{keyword}": {number}}}')
    assert grammar.matches("1")
    assert not grammar.matches("true")
    assert list(grammar.report.annotations) == [f"#/{keyword}"]


@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("keyword", [*BOUNDS, *COUNTS, "const"])
@pytest.mark.parametrize("number", LONG)
def test_long_numbers_work_or_are_refused(number: str, keyword: str, place: str, numbers: str) -> None:
    written = place % f'"{keyword}": {number}'
    for schema in (written, json.loads(written, parse_float=Decimal, parse_int=Decimal)):
        found = _asked(schema, numbers)
        if isinstance(found, GrammarError):
            assert found.pointer is not None
            assert keyword in found.pointer
        elif keyword == "const" and place == "{%s}":
            assert found.matches(str(Decimal(number)))
            assert not found.matches("1")


@pytest.mark.parametrize("number", [10**5000, -(10**5000), 10**4299, 10**4300], ids=["5000", "-5000", "4299", "4300"])
def test_integers_that_python_does_not_write(number: int) -> None:
    spelled = f"{Decimal(number):f}"
    bound = "maximum" if number > 0 else "minimum"
    for schema in ({"const": number}, {"enum": ["x", {"a": number}, number]}, {bound: number, "type": "integer"}):
        grammar = Grammar.from_json_schema(schema)
        assert grammar.matches(spelled)
        assert not grammar.matches(f"{spelled}0")
        assert grammar.matches(spelled[:-1]) == (bound in schema)
    assert Grammar.from_json_schema({"enum": [{"a": number}]}).matches(f'{{"a": {spelled}}}')
    for schema in ({"type": number}, {"required": [number]}, {"required": (number,)}, {"pattern": {"a": number}}):
        with pytest.raises(GrammarError) as caught:
            Grammar.from_json_schema(schema)
        assert caught.value.pointer is not None


@pytest.mark.parametrize("value", [Decimal("NaN"), Decimal("sNaN"), Decimal("-Infinity"), float("nan"), float("inf")])
@pytest.mark.parametrize("keyword", [*BOUNDS, *COUNTS, "const"])
def test_what_is_no_number_is_refused(keyword: str, value: Any) -> None:
    inside = {"enum": [1, {"a": [value]}]} if keyword == "const" else {keyword: value}
    for schema, pointer in (({keyword: value}, f"#/{keyword}"), ({"items": inside}, f"#/items/{next(iter(inside))}")):
        with pytest.raises(GrammarError) as caught:
            Grammar.from_json_schema(schema)
        assert caught.value.pointer is not None
        assert caught.value.pointer.startswith(pointer)


def test_a_far_value_that_is_excluded() -> None:
    """Its digits are counted, not written out."""
    grammar = Grammar.from_json_schema('{"type": "number", "not": {"enum": [1e10050, -2.50e-10050, 7]}}')
    for text, far in (("1" + "0" * 10050, True), ("-0." + "0" * 10049 + "25", True), ("7", True), ("8", False)):
        for end in ("", "0") if "." in text else ("", ".0"):
            assert grammar.matches(text + end) != far
        assert grammar.matches(text + ("1" if "." in text else ".01"))


def test_zero_has_any_exponent() -> None:
    for zero, numbers in itertools.product(("0e99999999999999999999", "-0.0E-99999999999999999999"), NUMBERS):
        grammar = Grammar.from_json_schema(f'{{"maximum": {zero}, "type": "number"}}', numbers=numbers)
        assert grammar.matches("0")
        assert not grammar.matches("1")
