"""Functions as types: the schema of the arguments, and calls from texts."""

# No `from __future__ import annotations`: one function below has text for annotations on purpose.
import dataclasses
import datetime as dt
import functools
import json
import random
import typing
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pydantic
import pytest
import typing_extensions as te
from pydantic import BaseModel, Field
from random_schemas import walk

from structgen import Grammar
from structgen.errors import GrammarError, OutputValidationError
from structgen.grammars.pytypes.signatures import bind
from structgen.grammars.types import schema_of, value_of


class Point(BaseModel):
    x: float
    y: float = 0.0


class Extras(te.TypedDict, total=False):
    unit: te.Required[Literal["c", "f"]]
    digits: int


@dataclasses.dataclass
class Weather:
    place: str

    def forecast(self, days: Annotated[int, Field(ge=1, le=7)] = 3, *, at: Point | None = None) -> Any:
        """Not read."""
        return self.place, days, at

    @classmethod
    def make(cls, place: str) -> Any:
        return cls(place)

    @staticmethod
    def units(kind: Literal["c", "f"]) -> Any:
        return kind


def everything(
    a: int, /, b: "str" = "x", *args: float, c: Annotated[int, Field(gt=2, description="third")],
    d: int = Field(7, lt=10), e: Annotated[str, Field(alias="E")] = "q", json: bool = False, _x: int = 1,
    model_config: int = 2, **kw: dt.date,
) -> Any:  # fmt: skip
    return a, b, args, c, d, e, json, _x, model_config, kw


def positional(a: int, b: int = 2, /, c: int = 3) -> Any:
    return a, b, c


def unpacked(place: str, **options: te.Unpack[Extras]) -> Any:
    return place, options


def bare(x, y=3):  # type: ignore[no-untyped-def]
    return x, y


async def later(when: dt.datetime, items: list[Point]) -> Any:
    return when, items


def call(function: Callable[..., Any], text: str) -> Any:
    bound = bind(function, value_of(function, text))
    return function(*bound.args, **bound.kwargs)


def test_the_schema_of_arguments() -> None:
    schema = schema_of(everything)
    assert list(schema["properties"]) == ["a", "b", "args", "c", "d", "E", "json", "_x", "model_config"]
    assert schema["required"] == ["a", "c"]
    assert schema["additionalProperties"] == {"type": "string", "format": "date"}
    assert schema["properties"]["c"] == {"type": "integer", "exclusiveMinimum": 2, "description": "third"}
    assert schema["properties"]["args"]["items"] == {"type": "number"}
    assert schema["properties"]["d"] == {"type": "integer", "exclusiveMaximum": 10, "default": 7}
    assert "description" not in schema_of(Weather("x").forecast)
    assert schema_of(Weather("x").forecast)["additionalProperties"] is False
    assert schema_of(Weather.units)["properties"] == {"kind": {"enum": ["c", "f"], "type": "string"}}
    assert schema_of(bare) == {
        "type": "object", "title": "bare", "properties": {"x": {}, "y": {"default": 3}}, "required": ["x"],
        "additionalProperties": False,
    }  # fmt: skip
    assert schema_of(unpacked)["required"] == ["place", "unit"]


def test_values_and_calls() -> None:
    text = '{"a": 1, "args": [1, 2.5], "c": 3, "E": "w", "model_config": 4, "z": "2020-01-01"}'
    assert value_of(everything, text) == {
        "a": 1, "args": (1.0, 2.5), "c": 3, "d": 7, "e": "w", "model_config": 4, "z": dt.date(2020, 1, 1),
    }  # fmt: skip
    date = dt.date(2020, 1, 1)
    assert call(everything, text) == (1, "x", (1.0, 2.5), 3, 7, "w", False, 1, 4, {"z": date})
    assert call(everything, '{"a": 1, "c": 3}') == (1, "x", (), 3, 7, "q", False, 1, 2, {})
    assert call(positional, '{"a": 1}') == (1, 2, 3)
    assert call(positional, '{"a": 1, "c": 5}') == (1, 2, 5)
    assert call(positional, '{"a": 1, "b": 9}') == (1, 9, 3)
    assert call(unpacked, '{"place": "x", "unit": "c"}') == ("x", {"unit": "c"})
    assert call(Weather("here").forecast, '{"at": {"x": 1}}') == ("here", 3, Point(x=1))
    assert call(Weather.make, '{"place": "there"}') == Weather("there")
    assert call(functools.partial(everything, 1, c=4), '{"d": 2}')[:5] == (1, "x", (), 4, 2)
    assert value_of(later, '{"when": "2020-01-01T10:00:00Z", "items": [{"x": 1}]}')["items"] == [Point(x=1)]
    assert value_of(bare, '{"x": [1, null]}') == {"x": [1, None]}


@pytest.mark.parametrize(
    "function",
    [
        everything,
        positional,
        unpacked,
        bare,
        later,
        Weather("x").forecast,
        Weather.make,
        functools.partial(later, items=[]),
    ],
    ids=str,
)
def test_members_can_be_called(function: Callable[..., Any]) -> None:
    rng = random.Random()
    machine = Grammar.from_type(function).machine
    done = 0
    for _ in range(40):
        text = walk(rng, machine, 200)
        if text is None:
            continue
        values = value_of(function, text)
        bound = bind(function, values)
        if function is not later and not (isinstance(function, functools.partial) and function.func is later):
            function(*bound.args, **bound.kwargs)
        assert set(values) >= {name for name in json.loads(text) if name in bound.signature.parameters}
        done += 1
    assert done or function is later


def test_failures_name_the_argument() -> None:
    with pytest.raises(
        OutputValidationError, match=r"forecast refuses .*days: Input should be less than or equal to 7"
    ):
        value_of(Weather("x").forecast, '{"days": 9}')
    with pytest.raises(OutputValidationError, match=r"place: Field required"):
        value_of(Weather.make, "{}")
    with pytest.raises(OutputValidationError, match=r"q: Extra inputs"):
        value_of(Weather.make, '{"place": "x", "q": 1}')


class Options(typing.TypedDict):
    """Before 3.12 pydantic asks for the one of typing_extensions, and the two ``Unpack`` differ."""

    a: int


class Others(te.TypedDict):
    a: int


UNPACK: Any = getattr(typing, "Unpack", te.Unpack)  # new in 3.11


@pytest.mark.parametrize("options", [Options, Others])
@pytest.mark.parametrize("unpack", [UNPACK, te.Unpack], ids=["typing", "typing_extensions"])
def test_both_unpacks_of_both_typed_dicts(unpack: Any, options: Any) -> None:
    def function(b: str = "", **given: Any) -> None: ...

    function.__annotations__["given"] = unpack[options]
    grammar = Grammar.from_type(function)
    assert grammar.matches('{"a": 1}')
    assert grammar.matches('{"b": "x", "a": 1}')
    assert not grammar.matches('{"b": "x"}')
    assert not grammar.matches('{"a": 1, "c": 1}')


def spelled(**given: "UNPACK[Options]") -> None: ...


def test_an_unpack_that_is_text() -> None:
    assert schema_of(spelled)["required"] == ["a"]


def unusable(x: int, callback: Callable[[int], int]) -> None: ...


def unresolved(x: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821


class Thing:
    pass


def patterned(x: int, code: Annotated[str, Field(pattern="(?=a)")]) -> None: ...


def things(x: int, thing: Thing) -> None: ...


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (unusable, "unusable: parameter 'callback': a Callable has no JSON form"),
        (unresolved, "arguments of unresolved cannot be read: name 'Nowhere'"),
        (things, "arguments of things cannot be generated: pydantic cannot describe the class Thing"),
        (patterned, "arguments of patterned cannot be generated: code: pydantic cannot read the pattern (?=a)"),
        (len, "cannot be used as an output type"),
    ],
)
def test_unusable_functions_teach(function: Any, words: str) -> None:
    with pytest.raises(GrammarError) as caught:
        schema_of(function)
    assert words in str(caught.value)


def test_bind_refuses_what_does_not_fit() -> None:
    with pytest.raises(GrammarError, match="no parameter 'q'"):
        bind(positional, {"a": 1, "q": 2})
    with pytest.raises(GrammarError, match="'a'"):
        bind(positional, {})


def test_a_validated_function_is_a_function() -> None:
    checked = pydantic.validate_call(positional)
    assert schema_of(checked)["required"] == ["a"]
    assert call(checked, '{"a": 4}') == (4, 2, 3)
