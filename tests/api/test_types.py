"""Types to schemas and back: jsonschema and pydantic's own parser are the oracles."""

from __future__ import annotations

import base64
import datetime as dt
import enum
import functools
import ipaddress
import itertools
import json
import operator
import re
import time
import typing
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, NamedTuple, Optional, TypeVar
from uuid import UUID

import jsonschema
import pydantic
import pytest
import typing_extensions
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from structgen import Grammar
from structgen.errors import GrammarError, OutputValidationError, UnsatisfiableGrammar, UnsupportedGrammar
from structgen.grammars.types import schema_of, shown_schema_of, value_of


class Color(enum.Enum):
    red = "r"
    green = "g"


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog", "wolf"]
    friend: Pet | None = None


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]
Dog.model_rebuild()


class Zoo(BaseModel):
    pets: list[Pet]
    spare: Cat = Cat()


class Node(BaseModel):
    name: str
    children: list[Node] = []


@dataclass
class Point:
    x: float
    y: float = 0.0
    tags: list[str] = field(default_factory=list)


class Movie(typing.TypedDict):
    title: str
    year: typing_extensions.NotRequired[int]


class Pair(NamedTuple):
    a: int
    b: str = "x"


T = TypeVar("T")


class Box(BaseModel, Generic[T]):
    content: T


class Aliased(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int = Field(validation_alias="inA", serialization_alias="outA")


class Numbers(pydantic.RootModel[list[int]]):
    pass


def takes(target: Any, text: str, *, closed: bool = False) -> bool:
    schema = schema_of(target, closed=closed)
    validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
    return validator.is_valid(json.loads(text))


CASES: list[tuple[Any, list[str], list[str]]] = [
    (int, ["3", "-4"], ['"3"', "1.5", "null"]),
    (Optional[int], ["3", "null"], ['"x"']),  # noqa: UP045
    (int | str, ["3", '"a"'], ["null", "1.5"]),
    (Literal["a", 1, None], ['"a"', "1", "null"], ['"b"', "2"]),
    (Color, ['"r"', '"g"'], ['"red"', '"x"']),
    (list[Color], ["[]", '["r", "g"]'], ['["x"]']),
    (tuple[int, str], ['[1, "a"]'], ["[1]", '[1, "a", 2]', '["a", 1]']),
    (tuple[int, ...], ["[]", "[1, 2]"], ['["a"]']),
    (set[int], ["[]", "[1, 2]"], ["[1, 1]"]),
    (dict[Annotated[str, Field(pattern="^x")], int], ['{"x": 1, "xa": 2}'], ['{"y": 1}', '{"x": "a"}']),
    (dict[str, int], ["{}", '{"a": 1}'], ['{"a": "x"}', "[]"]),
    (dict[int, str], ['{"1": "a", "-2": "b"}'], ['{"a": "x"}', '{"1.5.2": "x"}']),
    (dict[bool, int], ['{"true": 1}'], ['{"maybe": 1}']),
    (dict[Color, int], ['{"g": 1, "r": 2}'], ['{"x": 1}']),
    (dict[dt.date, int], ['{"2024-02-29": 1}'], ['{"2023-02-29": 1}', '{"x": 1}']),
    (Decimal, ["1.5", "0", '"1.25"', '"-3"', '"1E-7"', '"+.5"', '"7."'], ["null", '"abc"', '"1.2.3"', '""', '"."']),
    (
        Annotated[Decimal, Field(max_digits=5, decimal_places=2)],
        ["1", "123.45", "-999.99", '"123.45"', '"1.5"', '"1.5000"'],
        ["1000", "1.234", '"1.234"', '"1000"', '"x"', "true"],
    ),
    (Annotated[Decimal, Field(max_digits=3)], ["0.001", "999", "1.25"], ["1000", "0.0001"]),
    (Annotated[Decimal, Field(gt=0, le=10)], ["10", "0.5"], ["0", "-1", "11"]),
    (Annotated[Decimal, Field(ge=-5000, max_digits=3, decimal_places=0)], ["-999"], ["-1000", "0.5"]),
    (dt.datetime, ['"2024-02-29T10:00:00Z"'], ['"2024-02-30T10:00:00Z"', '"x"']),
    (pydantic.NaiveDatetime, ['"2024-02-28T10:00:00"'], ['"2024-02-28T10:00:00Z"', '"0000-01-01T00:00:00"']),
    (dt.date, ['"2024-02-29"', '"0100-01-01"'], ['"2023-02-29"']),
    (dt.time, ['"23:59:59Z"', '"10:00:00.25+05:30"'], ['"24:00:00Z"']),
    (UUID, ['"12345678-1234-1234-8234-123456789012"'], ['"12345678"']),
    (
        pydantic.UUID4,
        ['"12345678-1234-4234-8234-123456789012"'],
        ['"12345678-1234-1234-8234-123456789012"', '"12345678-1234-4234-0234-123456789012"'],
    ),
    (pydantic.Base64Bytes, ['"aGk="', '""'], ['"aGk"', '"!!!!"']),
    (bytes, ['"abc"'], ["1"]),
    (pydantic.HttpUrl, ['"https://example.org/x"'], ['"ftp://example.org"', '"http://"']),
    (ipaddress.IPv4Network, ['"10.0.0.0/8"', '"1.2.3.128/25"', '"1.2.3.4"'], ['"10.0.0.1/8"', '"1.2.3.4/33"']),
    (ipaddress.IPv4Interface, ['"10.0.0.1/8"'], ['"10.0.0.1/33"', '"x"']),
    (pydantic.IPvAnyAddress, ['"1.2.3.4"', '"::1"'], ['"x"']),
    (complex, ['"1+2j"', '"-1.5"'], ['"x"', '"1+2"']),
    (Point, ['{"x": 1.5}', '{"x": 1, "y": 2, "tags": ["a"]}'], ["{}", '{"x": "a"}']),
    (Movie, ['{"title": "a"}', '{"title": "a", "year": 3}'], ["{}", '{"title": 1}']),
    (list[Movie], ["[]", '[{"title": "a"}]'], ["[{}]"]),
    (Movie | None, ["null", '{"title": "a"}'], ["[]"]),
    (Annotated[list[Movie], Field(min_length=1)], ['[{"title": "a"}]'], ["[]"]),
    (Pair, ["[1]", '[1, "y"]'], ["[]", '[1, "y", 2]']),
    (Box[int], ['{"content": 1}'], ['{"content": "a"}']),
    (Box[Point], ['{"content": {"x": 1}}'], ['{"content": 1}']),
    (Aliased, ['{"inA": 1}'], ['{"outA": 1}', '{"a": 1}']),
    (Numbers, ["[1]"], ['["a"]']),
    (Node, ['{"name": "a", "children": [{"name": "b", "children": []}]}'], ['{"name": "a", "children": [{}]}']),
    (Pet, ['{"kind": "cat"}', '{"kind": "wolf", "friend": {"kind": "cat"}}'], ["{}", '{"kind": "cow"}']),
    (Zoo, ['{"pets": [{"kind": "dog"}]}', '{"pets": [], "spare": {}}'], ['{"pets": [{}]}', '{"spare": {}}']),
    (Annotated[str, Field(pattern=r"[A-Z]\d", max_length=5)], ['"B1"', '"xB1x"'], ['"b1"', '"xxxB1x"']),
    (pydantic.PositiveInt, ["1"], ["0"]),
]  # fmt: skip


@pytest.mark.parametrize(("target", "good", "bad"), CASES, ids=lambda value: str(value)[:40])
def test_schema_and_parser_agree(target: Any, good: list[str], bad: list[str]) -> None:
    for text in good:
        assert takes(target, text), f"the schema refuses {text}"
        value_of(target, text)
    for text in bad:
        assert not takes(target, text), f"the schema takes {text}"


@pytest.mark.parametrize(("target", "good", "bad"), CASES, ids=lambda value: str(value)[:40])
def test_the_grammar_agrees(target: Any, good: list[str], bad: list[str]) -> None:
    grammar = Grammar.from_type(target)
    assert [text for text in good if not grammar.matches(text)] == []
    assert [text for text in bad if grammar.matches(text)] == []


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([(None, None), (5, 2), (3, None), (None, 1), (6, 0)]),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**7), max_value=10**7, places=5)
    | st.integers(-(10**6), 10**6).map(Decimal)
    | st.integers(-(10**5), 10**5).map(lambda n: Decimal(n) / 100),
)
def test_decimals_as_numbers(limits: tuple[int | None, int | None], value: Decimal) -> None:
    """A number that the schema takes is a Decimal that the parser takes, and the other way round, unless only
    ``max_digits`` is given (the total of digits has no JSON Schema keyword)."""
    digits, places = limits
    target = Annotated[Decimal, Field(max_digits=digits, decimal_places=places)]
    text = f"{value:f}"
    try:
        value_of(target, text)
        parsed = True
    except OutputValidationError:
        parsed = False
    schema = schema_of(target, closed=True)
    exact = _exact(schema, Decimal(text))
    if parsed:
        assert exact
    elif digits is None or places is not None:
        assert not exact


_PARTS = ["".join(digits) for n in range(4) for digits in itertools.product("09", repeat=n)]
_PLAIN = [whole + rest for whole in _PARTS for rest in ("", *(f".{part}" for part in _PARTS))]
_SPELLED = [sign + text for sign in ("", "-", "+") for text in _PLAIN]


@pytest.mark.parametrize("bound", [{}, {"ge": 0}, {"gt": -9}], ids=str)
@pytest.mark.parametrize(
    ("digits", "places"), [pair for pair in itertools.product([None, 0, 1, 2, 3], repeat=2) if pair != (None, None)]
)
def test_decimals_are_counted_as_the_parser_does(digits: int | None, places: int | None, bound: dict[str, int]) -> None:
    """Over all texts of up to three digits on each side of a point: zero, leading and trailing zeros, both forms."""
    target = Annotated[Decimal, Field(max_digits=digits, decimal_places=places, **bound)]
    if digits == 0:
        with pytest.raises(UnsatisfiableGrammar):
            Grammar.from_type(target)
        return
    parser, grammar = pydantic.TypeAdapter(target), Grammar.from_type(target)
    texts = [*_SPELLED, *(f'"{text}"' for text in _SPELLED)]
    parsed = [text for text in texts if _parses(parser, text)]
    taken = [text for text in texts if grammar.matches(text)]
    if bound:  # texts of bounded decimals have fewer spellings: no signs and zeros that say nothing
        assert set(taken) <= set(parsed)
        parsed, taken = ([text for text in found if text[0] != '"'] for found in (parsed, taken))
    assert taken == parsed


def _parses(parser: pydantic.TypeAdapter[Any], text: str) -> bool:
    try:
        parser.validate_json(text)
    except pydantic.ValidationError:
        return False
    return True


@pytest.mark.parametrize(("digits", "places"), [(16, None), (16, 0), (17, 1), (18, 3), (20, 2), (None, 400), (400, 2)])
def test_decimals_that_a_float_rounds(digits: int | None, places: int | None) -> None:
    """A JSON number is rounded to a float, which may have more digits."""
    target = Annotated[Decimal, Field(max_digits=digits, decimal_places=places)]
    parser, grammar = pydantic.TypeAdapter(target), Grammar.from_type(target)
    for whole, part in itertools.product(range(21), repeat=2):
        text = "9" * whole + ("." if part else "") + "9" * part if whole else "0." + "9" * part
        assert not grammar.matches(text) or _parses(parser, text), text
    assert grammar.matches("999.5") == _parses(parser, "999.5")


def test_bounds_beside_digits() -> None:
    assert not Grammar.from_type(Annotated[Decimal, Field(max_digits=3, ge=-1000)]).matches("-1000")
    assert Grammar.from_type(Annotated[Decimal, Field(max_digits=4, ge=-1000)]).matches("-1000")


def _twice(value: bytes) -> bytes:
    return value


_SHORT = Field(min_length=2, max_length=3)


@pytest.mark.parametrize("form", ["utf8", "base64", "hex"])
@pytest.mark.parametrize(
    "kind",
    [
        Annotated[bytes, _SHORT], Annotated[pydantic.SecretBytes, _SHORT], Annotated[pydantic.Secret[bytes], Field()],
        Annotated[bytes, pydantic.AfterValidator(_twice), _SHORT],
        Annotated[bytes, Field(min_length=1, max_length=3), pydantic.AfterValidator(_twice), Field(min_length=2)],
        Annotated[bytes, Field(max_length=2), pydantic.AfterValidator(_twice), Field(max_length=9)],
        pydantic.conbytes(max_length=3),
    ],
    ids=str,
)  # fmt: skip
def test_lengths_of_bytes_count_bytes(kind: Any, form: Any) -> None:
    class Holder(BaseModel):
        model_config = ConfigDict(val_json_bytes=form)
        a: kind

    parser, grammar = pydantic.TypeAdapter(Holder), Grammar.from_type(Holder)
    for count in range(7):
        raw = b"abcdef"[:count]
        text = {"utf8": raw.decode(), "hex": raw.hex(), "base64": base64.urlsafe_b64encode(raw).decode()}[form]
        assert grammar.matches(f'{{"a": "{text}"}}') == _parses(parser, f'{{"a": "{text}"}}')
        wide = "\u00e9" * count
        assert not grammar.matches(f'{{"a": "{wide}"}}') or _parses(parser, f'{{"a": "{wide}"}}')


def test_lengths_inside_and_outside_of_base64() -> None:
    inside = Annotated[bytes, Field(max_length=4), pydantic.EncodedBytes(encoder=pydantic.Base64Encoder)]
    for target in (inside, Annotated[inside, Field(max_length=2)], Annotated[pydantic.Base64Bytes, _SHORT]):
        parser, grammar = pydantic.TypeAdapter(target), Grammar.from_type(target)
        for count in range(8):
            text = json.dumps(base64.b64encode(bytes(count)).decode())
            assert grammar.matches(text) == _parses(parser, text)


def test_bytes_that_are_encoded_twice_are_refused() -> None:
    class Twice(BaseModel):
        model_config = ConfigDict(val_json_bytes="hex")
        a: pydantic.Base64Bytes

    with pytest.raises(UnsupportedGrammar, match="encoded twice"):
        Grammar.from_type(Twice)


def _exact(schema: dict[str, Any], value: Decimal) -> bool:
    """The number keywords in exact arithmetic (jsonschema computes in binary)."""
    bounds = {
        "minimum": lambda b: value >= b, "maximum": lambda b: value <= b,
        "exclusiveMinimum": lambda b: value > b, "exclusiveMaximum": lambda b: value < b,
        "multipleOf": lambda b: value % b == 0,
    }  # fmt: skip
    return all(check(Decimal(str(schema[key]))) for key, check in bounds.items() if key in schema)


def test_closed_leaves_out_what_the_model_ignores() -> None:
    assert takes(Point, '{"x": 1, "z": 2}')
    assert not takes(Point, '{"x": 1, "z": 2}', closed=True)

    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        a: int

    assert takes(Open, '{"a": 1, "z": 2}', closed=True)
    assert takes(dict[str, Any], '{"a": 1}', closed=True)
    assert not takes(set[int], "[1, 1]", closed=True)
    assert takes(Decimal, "1.5", closed=True)
    assert not takes(Decimal, '"1.5"', closed=True)


def test_values_have_their_types() -> None:
    assert value_of(Point, '{"x": 1}') == Point(1.0)
    assert value_of(Color, '"r"') is Color.red
    assert value_of(Movie, '{"title": "a"}') == {"title": "a"}
    assert value_of(list[Movie], '[{"title": "a"}]') == [{"title": "a"}]
    assert value_of(Pair, "[1]") == Pair(1, "x")
    assert value_of(set[int], "[1, 2]") == {1, 2}
    assert value_of(dict[int, str], '{"1": "a"}') == {1: "a"}
    assert value_of(Zoo, '{"pets": [{"kind": "cat"}]}').pets == [Cat()]
    assert value_of({"type": "object"}, '{"a": [1, null]}') == {"a": [1, None]}


def test_tag_with_a_default_is_required_only_in_the_union() -> None:
    schema = schema_of(Zoo)
    assert "oneOf" not in json.dumps(schema)
    assert "required" not in schema["$defs"]["Cat"]


def test_a_dict_schema_is_copied() -> None:
    given_schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    made = schema_of(given_schema)
    assert made == given_schema
    made["properties"]["a"]["type"] = "string"
    assert given_schema["properties"] == {"a": {"type": "integer"}}


def test_validators_of_the_type_speak() -> None:
    class Even(BaseModel):
        n: int

        @pydantic.field_validator("n")
        @classmethod
        def even(cls, value: int) -> int:
            if value % 2:
                raise ValueError("must be even")
            return value

    with pytest.raises(OutputValidationError, match=r"Even refuses the generated value: n: .*must be even") as caught:
        value_of(Even, '{"n": 3}')
    assert caught.value.text == '{"n": 3}'
    assert caught.value.errors[0]["loc"] == ("n",)
    with pytest.raises(OutputValidationError, match="not JSON"):
        value_of({"type": "object"}, '{"n": ')


class Plain:
    def __init__(self, x: int) -> None:
        self.x = x


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (Plain, "Plain cannot be used as an output type"),
        ("Plain", "not a type"),
        ('{"type": "object"}', "json.loads"),
        (5, "not a type"),
        (list["Nowhere"], "cannot be used"),  # type: ignore[name-defined]  # noqa: F821
        (list[Plain], "cannot describe the class Plain; make it a dataclass or a pydantic model"),
        (Plain(1), "an object of the class Plain, not a type"),
        ([1], "not a type; write list[...]"),
        ((int, str), "not a type; write tuple[...]"),
        (Cat(), "not a type; pass Cat itself"),
        (Point(1.0), "not a type; pass Point itself"),
        (Color.red, "not a type; pass Color itself"),
        (Field(), "not a type"),
        (json, "not a type"),
        (len, "built-in function"),
        ("".join, "built-in function"),
        (Literal, "needs types in brackets"),
        (typing.Iterator[int], "cannot describe typing.Iterator[int]"),
        (list[typing_extensions.Never], "cannot describe typing"),
        (Annotated[str, Field(pattern="^(?=a)")], 'pattern ^(?=a): look-around.*regex_engine="python-re"'),
        (Annotated[str, Field(pattern=r"(a)\1")], "backreferences.*pattern=re.compile"),
        (Annotated[str, Field(pattern="[")], "pattern [: unclosed character class"),
        (list[Annotated[str, Field(pattern="\n(")]], "pattern: unclosed group"),
        (Annotated[int, Field(ge="a")], "an option of int is wrong: 'ge' must be coercible to an integer"),
        (Annotated[list[int], Field(max_length=-1)], "an option of list is wrong"),
        (Annotated[str, Field(max_length="a")], "an option of str is wrong"),
    ],
    ids=str,
)  # fmt: skip
def test_unusable_types_teach(target: Any, words: str) -> None:
    with pytest.raises(GrammarError) as caught:
        Grammar.from_type(target)
    said = str(caught.value)
    assert re.search(".*".join(map(re.escape, words.split(".*"))), said)
    assert "Usable: pydantic models, dataclasses" in said
    assert "arbitrary_types_allowed" not in said
    assert said.count("\n") == 1


def test_fields_that_cannot_be_built_are_named() -> None:
    class Late(BaseModel):
        model_config = ConfigDict(defer_build=True)
        a: int
        b: list[Annotated[str, Field(pattern="(?=a)")]]

    with pytest.raises(GrammarError, match=r"Late cannot be used .*: b: pydantic cannot read the pattern \(\?="):
        Grammar.from_type(Late)


@pytest.mark.parametrize("pattern", [re.compile("^(?=a)[ab]+$"), re.compile(r"^(a|b)\1$"), "^(?=a)[ab]+$"], ids=str)
def test_the_way_out_that_is_named_for_patterns_works(pattern: Any) -> None:
    class Held(BaseModel):
        model_config = ConfigDict(regex_engine="python-re")
        x: Annotated[str, Field(pattern=pattern)]

    grammar = Grammar.from_type(Held)
    for text in ("ab", "ba", "bb", "aa", ""):
        assert grammar.matches(json.dumps({"x": text})) == bool(re.match(pattern, text))


def test_nothing_is_of_these_types() -> None:
    class Empty(enum.Enum):
        pass

    for target in (typing.NoReturn, typing_extensions.Never, Empty):
        with pytest.raises(UnsatisfiableGrammar):
            Grammar.from_type(target)
    assert Grammar.from_type(int | Empty).matches("1")


def test_an_adapter_is_a_type() -> None:
    strict = pydantic.TypeAdapter(list[dt.date], config=ConfigDict(str_max_length=3))
    grammar = Grammar.from_type(strict)
    assert grammar.value('["2024-02-29"]') == [dt.date(2024, 2, 29)]
    assert not grammar.matches('["2024-02-30"]')
    assert not Grammar.from_type(pydantic.TypeAdapter(str, config=ConfigDict(str_max_length=3))).matches('"abcd"')


@pytest.mark.parametrize(
    "target",
    [
        pydantic.Json[int], type[int], dict[None, int], dict[tuple[int, int], int], enum.Enum("Tuples", {"A": (1, 2)}),
        Literal[b"x"], Literal[Color.red, 1], dict[Literal[1], int], re.Pattern, pydantic.ImportString, set[list[int]],
        set[dict[str, int]], set[Zoo], enum.Enum("Decimals", {"A": Decimal(1)}), typing.Callable[[int], int],
        typing.Callable, list[typing.Callable[..., int]], type, type[Any],
        pydantic.TypeAdapter(Plain, config=ConfigDict(arbitrary_types_allowed=True)),
    ],
    ids=str,
)  # fmt: skip
def test_what_no_grammar_could_enforce_is_refused(target: Any) -> None:
    with pytest.raises(UnsupportedGrammar) as caught:
        schema_of(target)
    assert re.search("use |frozen=True|make it a", str(caught.value))  # a way out
    assert "\n" not in str(caught.value)


def test_whatever_a_type_raises_is_one_failed_value() -> None:
    @dataclass
    class Picky:
        x: int

        def __post_init__(self) -> None:
            raise LookupError("no such thing")

    with pytest.raises(OutputValidationError, match=r"Picky refuses .*LookupError: no such thing") as caught:
        value_of(Picky, '{"x": 1}')
    assert caught.value.text == '{"x": 1}'
    assert isinstance(caught.value.__cause__, LookupError)


class Shown(BaseModel):
    when: dt.datetime
    day: Annotated[dt.date, Field(ge=dt.date(2020, 1, 1))]
    site: pydantic.HttpUrl
    net: ipaddress.IPv6Network
    price: Decimal
    data: pydantic.Base64Bytes
    id: pydantic.UUID4


def test_what_is_shown_is_short_and_what_is_enforced_is_not() -> None:
    shown = shown_schema_of(Shown)
    assert len(json.dumps(shown)) < 1200
    assert shown["properties"]["when"] == {"type": "string", "format": "date-time"}
    assert shown["properties"]["day"] == {"type": "string", "format": "date", "minimum": "2020-01-01"}
    assert shown["properties"]["price"] == {"type": "number"}
    assert shown["required"] == schema_of(Shown, closed=True)["required"]
    assert "x-structgen" not in json.dumps([shown, schema_of(Shown), schema_of(Shown, closed=True)])


def test_schemas_of_many_models_are_quick() -> None:
    """Within a tenth of a second of pydantic's own time; three tries, for machines that are busy."""
    tools = [
        pydantic.create_model(
            f"Tool{n}", kind=(Literal[f"t{n}"], ...), a=(int, ...), b=(str | None, None), c=(list[float], []),
            d=(Annotated[Decimal, Field(gt=0, max_digits=8)], 1), when=(dt.datetime, ...), m=(dict[int, UUID], {}),
        )
        for n in range(60)
    ]  # fmt: skip
    union = functools.reduce(operator.or_, tools)
    many = Annotated[union, Field(discriminator="kind")]
    big = pydantic.create_model("Big", **{f"f{n}": ([int, str, list[str], dt.date][n % 4], ...) for n in range(200)})
    for target in (many, big):
        adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(target)
        schema_of(target)
        spent = []
        for _ in range(3):
            start = time.perf_counter()
            adapter.json_schema()
            middle = time.perf_counter()
            schema_of(target)
            spent.append(time.perf_counter() - middle - (middle - start))
        assert min(spent) < 0.2
