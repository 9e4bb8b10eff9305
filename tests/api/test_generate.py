"""generate: from a prompt and a constraint to a value, on a tiny model whose weights are random."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, field_validator

import structgen as sg
from structgen.api import engine_for
from structgen.chat import describe, form_of, messages_of, render
from structgen.constraint import Constraint, constraint_of

Short = Annotated[str, Field(max_length=5)]


class Person(BaseModel):
    name: Short
    age: Annotated[int, Field(ge=0, le=99)]


@dataclass
class Point:
    x: Annotated[int, Field(ge=0, le=9)]
    y: bool


class Color(Enum):
    red = "r"
    green = "g"


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        (Person, Person),
        (Point, Point),
        (Color, Color),
        (Literal["a", "b"], str),
        (Annotated[list[bool], Field(max_length=3)], list),
        (bool | None, (bool, type(None))),
        (set[Color], set),
        ({"type": "object", "properties": {"a": {"type": "boolean"}}, "additionalProperties": False}, dict),
    ],
    ids=lambda value: str(value)[:30],
)
@pytest.mark.parametrize("options", [{}, {"temperature": 1.0, "seed": 3}], ids=["greedy", "sampled"])
def test_values(tiny_llm: sg.LLM, schema: Any, kind: Any, options: dict[str, Any]) -> None:
    if schema == set[Color]:
        options = {**options, "return_exceptions": True}  # a set may repeat its elements for ever
        (made,) = sg.generate(["x"], schema=schema, model=tiny_llm, **options)
        assert isinstance(made, (set, sg.IncompleteOutput))
    else:
        assert isinstance(sg.generate("x", schema=schema, model=tiny_llm, **options), kind)


def test_texts(tiny_llm: sg.LLM) -> None:
    options: dict[str, Any] = {"model": tiny_llm, "temperature": 1.0, "seed": 1}
    assert re.fullmatch(r"\d{4}-\d\d", sg.generate("x", regex=r"\d{4}-\d\d", **options))
    assert re.fullmatch(r"[a-c]{3}", sg.generate("x", regex=re.compile("[A-C]{3}", re.IGNORECASE), **options).lower())
    assert sg.generate("x", choices=["yes", "no", "neither"], **options) in ("yes", "no", "neither")
    assert sg.generate("x", grammar='start: "a" | "bc"', **options) in ("a", "bc")
    assert sg.generate("x", grammar=sg.Grammar.from_choices(["q"]), **options) == "q"
    assert isinstance(sg.generate("x", max_tokens=4, **options), str)


def test_grammar_sources(tiny_llm: sg.LLM, tmp_path: Path) -> None:
    file = tmp_path / "mine.lark"
    file.write_text('start: "only this"')
    assert sg.generate("x", grammar=str(file), model=tiny_llm) == "only this"
    assert sg.generate("x", grammar=file, model=tiny_llm) == "only this"
    made = sg.generate("x", grammar="iso_datetime.lark", model=tiny_llm)
    assert re.match(r"\d{4}-\d\d-\d\d", made)
    for name in ("nothing.lark", "nothing", "a" * 500):
        with pytest.raises(sg.GrammarError, match=r"The library has: arithmetic.lark"):
            sg.generate("x", grammar=name, model=tiny_llm)
    with pytest.raises(sg.GrammarError):
        sg.generate("x", grammar="start: " + "(" * 300, model=tiny_llm)


def test_list_in_list_out(tiny_llm: sg.LLM) -> None:
    prompts = [f"prompt {n}" for n in range(5)]
    together = sg.generate(prompts, schema=Person, model=tiny_llm)
    assert together == [sg.generate(prompt, schema=Person, model=tiny_llm) for prompt in prompts]
    assert sg.generate([], schema=Person, model=tiny_llm) == []


def test_cut_is_an_error_with_its_text(tiny_llm: sg.LLM) -> None:
    with pytest.raises(sg.IncompleteOutput, match=r"cut after 3 tokens.*raise max_tokens") as caught:
        sg.generate("x", schema=Person, max_tokens=3, model=tiny_llm)
    assert caught.value.text
    assert sg.generate("x", max_tokens=3, model=tiny_llm)  # free text has no end that could be missed


def test_type_has_the_last_word(tiny_llm: sg.LLM) -> None:
    class Never(BaseModel):
        n: Annotated[int, Field(ge=0, le=9)]

        @field_validator("n")
        @classmethod
        def never(cls, value: int) -> int:
            raise ValueError("not this one")

    with pytest.raises(sg.OutputValidationError, match=r"Never refuses the .*n: .*not this one") as caught:
        sg.generate("x", schema=Never, model=tiny_llm)
    assert caught.value.errors


def test_one_bad_request_fails_alone(tiny_llm: sg.LLM) -> None:
    prompts = ["good", "long " * 2000, "good"]
    first, second, third = sg.generate(prompts, schema=Person, model=tiny_llm, return_exceptions=True)
    assert first == third
    assert isinstance(first, Person)
    assert isinstance(second, sg.RequestError)
    with pytest.raises(sg.RequestError) as caught:
        sg.generate(prompts, schema=Person, model=tiny_llm)
    notes = getattr(caught.value, "__notes__", ["prompt 1 of 3"])
    assert "prompt 1 of 3" in notes[0]


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"temprature": 1.0}, TypeError, "did you mean 'temperature'"),
        ({"schemas": Person}, TypeError, "did you mean 'schema'"),
        ({"block_sise": 3}, TypeError, "did you mean 'block_size'"),
        ({"schema": Person, "whitespace": "any"}, TypeError, r"grammar=Grammar.from_type\(T, whitespace='any'\)"),
        ({"grammar": "sql.lark", "start": "x"}, TypeError, r"grammar=Grammar.from_lark\(text, start='x'\)"),
        ({"schema": Person, "regex": "a"}, sg.RequestError, "schema and regex are given together"),
        ({"schema": sg.Grammar.from_regex("a")}, sg.RequestError, "pass it as grammar"),
        ({"choices": "abc"}, sg.RequestError, "a list of texts"),
        ({"choices": ["a", 1]}, sg.RequestError, "choices holds 1"),
        ({"regex": 5}, sg.RequestError, "regex is 5"),
        ({"grammar": 5}, sg.RequestError, "grammar is 5"),
        ({"tools": []}, sg.RequestError, "tools is not built yet"),
        ({"n": 2}, sg.RequestError, r"LLM\(...\).generate"),
        ({"logprobs": 2}, sg.RequestError, r"LLM\(...\).generate"),
        ({"max_tokens": 0}, sg.RequestError, "max_tokens is 0"),
        ({"temperature": -1.0}, sg.RequestError, "temperature is -1.0"),
        ({"chat": False, "system": "x"}, sg.RequestError, "system has no place"),
        ({"dtype": "float32"}, sg.RequestError, "has its options already"),
        ({"schema": object.__new__}, sg.GrammarError, "cannot be used as an output type"),
        ({"regex": "a(b"}, sg.GrammarError, "column"),
    ],
)
def test_refusals(tiny_llm: sg.LLM, options: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        sg.generate("x", model=tiny_llm, **options)


@pytest.mark.parametrize("prompt", [5, None, {"a": 1}, b"x", ["a", 5]])
def test_wrong_prompts(tiny_llm: sg.LLM, prompt: Any) -> None:
    with pytest.raises(sg.RequestError, match="allowed: "):
        sg.generate(prompt, model=tiny_llm)


def test_missing_model() -> None:
    with pytest.raises(sg.ModelError, match=r"no such model|not found|there is no"):
        sg.generate("x", model="./nowhere/model.gguf")


def test_engines_are_kept(tiny_folder: Path, tiny_llm: sg.LLM) -> None:
    first = engine_for(str(tiny_folder), {"dtype": "float32"})
    assert engine_for(str(tiny_folder), {"dtype": "float32"}) is first
    assert engine_for(str(tiny_folder), {"dtype": "float32", "max_num_seqs": 2}) is not first
    assert engine_for(tiny_llm) is tiny_llm


def test_what_the_model_reads(tiny_llm: sg.LLM) -> None:
    def shown(system: str | None = None, **constraint: Any) -> str:
        form = form_of(constraint_of(**constraint))
        made = render(tiny_llm, messages_of("Who?", system=system, form=form))
        assert isinstance(made, list)
        return tiny_llm.tokenizer.decode(made)

    assert shown() == "<user>Who?\n<assistant>"
    assert shown(system="Be brief.") == "<system>Be brief.\n<user>Who?\n<assistant>"
    form = 'Answer in JSON of this form: {"name": string, "age": integer}'
    assert shown(schema=Person) == f"<system>{form}\n<user>Who?\n<assistant>"
    assert shown(schema=Person, system="Be brief.") == f"<system>Be brief.\n\n{form}\n<user>Who?\n<assistant>"
    assert shown(choices=["a", "b"]) == "<system>Answer with one of: a, b\n<user>Who?\n<assistant>"
    assert shown(grammar="sql.lark") == "<system>Answer in SQL.\n<user>Who?\n<assistant>"
    assert shown(grammar='// a note without a name\nstart: "a"') == "<user>Who?\n<assistant>"
    assert shown(grammar='// Morse: dots.\nstart: "."') == "<system>Answer in Morse.\n<user>Who?\n<assistant>"


def test_templates_that_refuse_system_messages(tiny_llm: sg.LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    refusing = (
        "{% for m in messages %}{% if m['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}"
        "<{{ m['role'] }}>{{ m['content'] }}\n{% endfor %}"
    )
    monkeypatch.setattr(tiny_llm.tokenizer, "chat_templates", {"default": refusing})
    made = render(tiny_llm, messages_of("Who?", form=form_of(Constraint(choices=("a", "b")))))
    assert isinstance(made, list)
    assert tiny_llm.tokenizer.decode(made) == "<user>Answer with one of: a, b\n\nWho?\n"
    monkeypatch.setattr(tiny_llm.tokenizer, "chat_templates", {})
    assert render(tiny_llm, messages_of("Who?", system="Be brief.")) == "Be brief.\n\nWho?\n\n"


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "integer"}, "integer"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"enum": ["a", 1]}, '"a" | 1'),
        ({"const": None}, "null"),
        ({"type": "array", "items": {"type": "string", "format": "date"}}, "[date, ...]"),
        ({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]}, "[integer, string]"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "{any key: integer}"),
        ({"type": "object"}, "object"),
        (True, "any"),
        (
            {"type": "object", "properties": {"a": {"type": "string", "description": "in metres"}}, "required": ["a"]},
            '{"a": string (in metres)}',
        ),
        (
            {"$ref": "#/$defs/N", "$defs": {"N": {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}}}},
            '{"next"?: N}',
        ),
        ({"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/a~1b"}], "$defs": {"a/b": {"const": 2}}}, "integer | 2"),
    ],
)
def test_schemas_in_few_words(schema: Any, text: str) -> None:
    assert describe(schema) == text


def test_huge_schemas_stay_short() -> None:
    wide = {"type": "object", "properties": {f"property_number_{n}": {"type": "string"} for n in range(5000)}}
    assert len(describe(wide)) < 3100
    deep: Any = {"type": "integer"}
    for _ in range(500):
        deep = {"type": "object", "properties": {"inner": deep, "other": deep}}
    assert len(describe(deep)) < 3100


@pytest.mark.parametrize("model", [5, None, b"smollm2", ["smollm2"]])
def test_model_of_a_wrong_type(model: Any) -> None:
    with pytest.raises(sg.RequestError, match=r"model is \w+; allowed: a folder, a GGUF file"):
        sg.generate("a", model=model)


def test_model_is_a_path(tiny_folder: Path) -> None:
    assert engine_for(tiny_folder, {"dtype": "float32"}) is engine_for(str(tiny_folder), {"dtype": "float32"})


def test_system_is_refused_before_the_model_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("structgen.api.engine_for", lambda *_: pytest.fail("the model is loaded"))
    with pytest.raises(sg.RequestError, match="system is int; allowed: a text or None"):
        sg.generate("a", system=5)  # type: ignore[arg-type]
    with pytest.raises(sg.RequestError, match="system has no place"):
        sg.generate("a", system="x", chat=False)


@pytest.mark.parametrize("params", [{}, 0, "", {"n": 1}, [{}], [sg.SamplingParams(), None]], ids=repr)
def test_params_of_a_wrong_type(tiny_llm: sg.LLM, params: Any) -> None:
    prompts = ["a"] * (len(params) if isinstance(params, list) else 1)
    with pytest.raises(sg.RequestError, match=r"params is .*; allowed: SamplingParams"):
        tiny_llm.generate(prompts, params)
    with pytest.raises(sg.RequestError, match=r"params is .*; allowed: SamplingParams"):
        tiny_llm.stream("a", params)


def test_grammar_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "binary.lark").write_bytes(b"start: \xff")
    for path, cause in (
        (tmp_path / "nope.lark", "No such file"),
        (tmp_path, "Is a directory"),
        (tmp_path / "binary.lark", "not UTF-8 text: invalid start byte at byte 7"),
        (Path("a\0b"), "cannot be the name"),
    ):
        with pytest.raises(sg.GrammarError, match=cause) as caught:
            sg.Grammar.from_lark(path)
        assert repr(str(path)) in str(caught.value)
