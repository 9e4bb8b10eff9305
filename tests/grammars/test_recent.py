"""Grammars that are remembered: by the content of a schema and all options, within bounds, and never for ever."""

from __future__ import annotations

import copy
import gc
import json
import pickle
import threading
import weakref
from collections import OrderedDict
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from typing import Any

import pytest
import referencing
import referencing.jsonschema

from structgen import Grammar, GrammarError, Vocabulary
from structgen.grammars import grammar as grammar_module
from structgen.grammars.recent import Recent

TOKENS = [bytes([i]) for i in range(128)]


def vocabulary() -> Vocabulary:
    return Vocabulary.from_tokenizer([*TOKENS, None], eos_token_ids=128)


def test_an_equal_schema_is_the_same_grammar() -> None:
    schema = {"type": "object", "properties": {"a": {"enum": [1, "b", None]}}, "required": ["a"]}
    first = Grammar.from_json_schema(schema, whitespace="compact")
    assert Grammar.from_json_schema(copy.deepcopy(schema), whitespace="compact") is first
    text = json.dumps(schema)
    assert Grammar.from_json_schema(text) is Grammar.from_json_schema("".join(list(text)))


@pytest.mark.parametrize(("one", "other", "text"), [
    ({"const": 1}, {"const": True}, "true"),
    ({"const": 1}, {"const": "1"}, '"1"'),
    ({"enum": [0]}, {"enum": [False]}, "false"),
    ({"const": None}, {"const": "null"}, '"null"'),
    ({"minimum": 0}, {"minimum": 0.5}, "0"),
    ({"required": ["a"]}, {"required": "a"}, None),
    ({"required": ["a"]}, {"required": ("a",)}, None),
    ({"properties": {"1": False}}, {"properties": {1: False}}, None),
    ({"const": [1]}, {"const": {"1": 1}}, '{"1": 1}'),
    ({"const": "a"}, {"const": b"a"}, None),
    ({"maximum": 1}, {"maximum": float("nan")}, None),
], ids=repr)  # fmt: skip
def test_schemas_that_differ_are_not_confused(one: Any, other: Any, text: str | None) -> None:
    first = Grammar.from_json_schema(one)
    if text is None:
        with pytest.raises(GrammarError):
            Grammar.from_json_schema(other)
    else:
        assert Grammar.from_json_schema(other).matches(text) is not first.matches(text)


def test_numbers_in_other_spellings_are_other_schemas() -> None:
    assert Grammar.from_json_schema({"const": 1}) is not Grammar.from_json_schema({"const": 1.0})
    assert Grammar.from_json_schema({"const": 0.0}) is not Grammar.from_json_schema({"const": -0.0})
    assert Grammar.from_json_schema({"multipleOf": 1}) is not Grammar.from_json_schema({"multipleOf": True * 1.0})


def test_the_order_of_keys_counts() -> None:
    a, b = {"a": {"type": "null"}, "b": {"type": "null"}}, {"b": {"type": "null"}, "a": {"type": "null"}}
    both = '{"a": null, "b": null}'
    assert Grammar.from_json_schema({"type": "object", "properties": a}).matches(both)
    assert not Grammar.from_json_schema({"type": "object", "properties": b}).matches(both)


def test_options_count() -> None:
    schema = {"type": "array"}
    assert Grammar.from_json_schema(schema, whitespace="any").matches("[ ]\n")
    assert not Grammar.from_json_schema(schema, whitespace="compact").matches("[ ]\n")
    assert Grammar.from_json_schema(schema, draft="7").report.draft == "7"
    assert Grammar.from_json_schema(schema, draft="2020-12").report.draft == "2020-12"
    with pytest.raises(GrammarError, match="unknown"):
        Grammar.from_json_schema(schema, whitespace=True)


def test_a_schema_may_be_changed_later() -> None:
    inner: dict[str, Any] = {"type": "string"}
    schema: dict[str, Any] = {"type": "object", "properties": {"a": inner, "b": inner}}
    grammar = Grammar.from_json_schema(schema)
    inner["type"] = "integer"
    schema["properties"]["c"] = False
    assert grammar.matches('{"a": "x"}')
    assert not grammar.matches('{"a": 1}')
    assert grammar.matches('{"c": 1}')
    changed = Grammar.from_json_schema(schema)
    assert changed.matches('{"a": 1, "b": 2}')
    assert not changed.matches('{"c": 1}')


class Level(IntEnum):
    LOW = 1


@pytest.mark.parametrize("schema", [
    OrderedDict(type="array", maxItems=1, items={"type": "string"}),
    {"type": "array", "maxItems": Level.LOW, "items": {"type": "string"}},
    {"type": "array", "maxItems": Decimal(1), "items": {"type": "string"}},
], ids=repr)  # fmt: skip
def test_other_types_are_copied_too(schema: Any) -> None:
    grammar = Grammar.from_json_schema(schema)
    schema["items"]["type"] = "null"
    assert grammar.matches('["a"]')
    assert not grammar.matches('["a", "b"]')
    assert not Grammar.from_json_schema(schema).matches('["a"]')


def test_a_registry_may_change() -> None:
    def with_document(contents: Any) -> Any:
        return referencing.Registry().with_resource(
            "urn:x", referencing.Resource(contents, referencing.jsonschema.DRAFT202012)
        )

    schema = {"$ref": "urn:x"}
    assert Grammar.from_json_schema(schema, registry=with_document({"type": "null"})).matches("null")
    assert not Grammar.from_json_schema(schema, registry=with_document({"type": "string"})).matches("null")


def test_what_is_refused_is_refused_again() -> None:
    for _ in range(2):
        with pytest.raises(GrammarError) as caught:
            Grammar.from_json_schema({"properties": {"a": {"type": "strin"}}})
        assert caught.value.pointer == "#/properties/a/type"


def test_types_with_equal_schemas_keep_their_values() -> None:
    def made(bases: tuple[type, ...]) -> type:
        @dataclass
        class Point:
            x: int

        return type("Point", bases, {}) if bases else Point

    one, other = made(()), made(())
    first, second = Grammar.from_type(one), Grammar.from_type(other)
    assert Grammar.from_type(one) is first
    assert type(first.value('{"x": 1}')) is one
    assert type(second.value('{"x": 1}')) is other


def test_a_compiled_grammar_is_remembered_with_its_vocabulary() -> None:
    vocab, schema = vocabulary(), {"type": "boolean", "title": "remembered"}
    compiled = Grammar.from_json_schema(schema).compile(vocab)
    assert Grammar.from_json_schema(dict(schema)).compile(vocab) is compiled
    assert Grammar.from_json_schema(schema).compile(vocabulary()).vocab == vocab
    other = Vocabulary.from_tokenizer([*TOKENS, b"true", None], eos_token_ids=129)
    assert Grammar.from_json_schema(schema).compile(other) is not compiled


def test_a_vocabulary_is_let_go() -> None:
    vocab = Vocabulary.from_tokenizer([*TOKENS, b"let go", None], eos_token_ids=129)
    grammar = Grammar.from_json_schema({"type": "boolean"})
    grammar.compile(vocab).matcher()
    gone = weakref.ref(vocab)
    del vocab
    gc.collect()
    assert gone() is None
    assert Grammar.from_json_schema({"type": "boolean"}) is grammar


def test_a_vocabulary_with_compiled_grammars_can_be_sent() -> None:
    vocab = vocabulary()
    Grammar.from_json_schema({"type": "boolean"}).compile(vocab)
    assert pickle.loads(pickle.dumps(vocab)) == vocab
    assert copy.deepcopy(vocab) == vocab


def test_a_grammar_that_is_pushed_out_stays_the_same_for_its_holder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grammar_module, "MAX_RECENT", 2)
    vocab = Vocabulary.from_tokenizer([*TOKENS, b"few", None], eos_token_ids=129)
    first = Grammar.from_choices(["a"])
    compiled = first.compile(vocab)
    others = [Grammar.from_choices([str(i)]).compile(vocab) for i in range(4)]
    assert first.compile(vocab) is compiled
    gone = weakref.ref(others[0])
    del others
    gc.collect()
    assert gone() is None


class TestRecent:
    def test_the_one_not_used_for_the_longest_time_goes(self) -> None:
        recent: Recent[str] = Recent(2, 100)
        recent.put(1, "a", 1)
        recent.put(2, "b", 1)
        assert recent.get(1) == "a"
        recent.put(3, "c", 1)
        assert [recent.get(key) for key in (1, 2, 3)] == ["a", None, "c"]

    def test_weights_are_bounded(self) -> None:
        recent: Recent[str] = Recent(100, 100)
        recent.put(0, "too heavy", 26)
        assert len(recent) == 0
        for i in range(10):
            recent.put(i, "x", 20)
        assert len(recent) == 5
        for _ in range(3):
            recent.put(9, "y", 25)
        assert [recent.get(i) for i in range(5, 10)] == [None, "x", "x", "x", "y"]
        recent.clear()
        recent.put(1, "z", 25)
        assert len(recent) == 1

    def test_threads_share_it(self) -> None:
        recent: Recent[int] = Recent(50, 1_000)

        def work(start: int) -> None:
            for i in range(2_000):
                recent.put((start + i) % 80, i, 30)
                recent.get(i % 80)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(recent) == 33
