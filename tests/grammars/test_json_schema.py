"""JSON Schema: policies, drafts, references, errors, limits. (Keywords: see the random tests and the suites.)"""

from __future__ import annotations

import inspect
import json
import time
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
import referencing
import referencing.jsonschema
from reference import reference_matches

from structgen.errors import GrammarError, GrammarTooComplex, UnsatisfiableGrammar, UnsupportedGrammar
from structgen.grammars import machine as m
from structgen.grammars.grammar import Grammar
from structgen.grammars.json_schema import OPTIONS, machine

D4, D6 = "http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-06/schema#"
D7, D2019 = "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2019-09/schema"


def takes(made: m.Machine, text: str) -> bool:
    threads = m.read(m.start(made), text.encode("utf-8", "surrogatepass"))
    return bool(threads) and m.can_end(threads)


def check(schema: Any, accept: list[str], reject: list[str], **options: Any) -> None:
    made, _ = machine(schema, **options)
    for text in accept:
        assert takes(made, text), text
        if len(text) < 200:
            assert reference_matches(made, text), text
    for text in reject:
        assert not takes(made, text), text


POINT = {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "array"}}, "required": ["x"]}


class TestWhitespace:
    def test_bounded(self) -> None:
        check(
            POINT,
            ['{"x":1}', '{"x": 1, "y": [1, 2]}', '{\n  "x": 1,\r\n\t"y" : [ ]\n}', "{\n" + " " * 64 + '"x":1}'],
            ['{  "x":1}', '{"x":1}\n', ' {"x":1}', '{\n\n"x":1}', "{\n" + " " * 65 + '"x":1}', '{"x":\n' + " " * 200],
        )

    def test_compact(self) -> None:
        check(POINT, ['{"x":1,"y":[1,{}]}'], ['{"x": 1}', '{"x":1 }', '{ "x":1}'], whitespace="compact")

    def test_any(self) -> None:
        check(
            POINT,
            [' \n{ \t"x"\r\n\n:   1}  \n', '{"x":1}', "{\n" + " " * 200 + '"x":1}'],
            ['{"x":\u00a01}', '{"x":1}x'],
            whitespace="any",
        )

    @pytest.mark.parametrize("value", [{"x": 1}, {"x": 1, "y": []}, {"x": 2, "y": [[], {}, [1, [2, {"q": {"r": 1}}]]]}])
    def test_pretty(self, value: Any) -> None:
        text = json.dumps(value, indent=2)
        check(
            POINT,
            [text],
            [json.dumps(value), text + "\n", text.replace("  ", " "), text.replace(": ", ":")],
            whitespace="pretty",
        )


ORDERED = {"type": "object", "properties": {"b": {}, "a": {}}, "required": ["z", "a"]}


class TestOrder:
    def test_schema(self) -> None:
        check(
            ORDERED,
            ['{"b":1,"a":1,"z":1}', '{"a":1,"z":1,"q":1,"p":1}'],
            ['{"a":1,"b":1,"z":1}', '{"z":1,"a":1}', '{"a":1,"q":1,"z":1}', '{"a":1}', '{"a":1,"z":1,"b":2}'],
        )

    def test_any(self) -> None:
        check(
            ORDERED,
            ['{"a":1,"b":1,"z":1}', '{"q":0,"z":1,"p":0,"a":1}'],
            ['{"a":1}', '{"z":1,"a":1,"z":1}', '{"z":1,"q":1,"q":2,"a":1}'],
            order="any",
        )

    @pytest.mark.parametrize("order", ["schema", "any"])
    def test_no_key_twice_in_any_spelling(self, order: str) -> None:
        check(
            {"type": "object", "properties": {"é": {"type": "integer"}}},
            ['{"é":1,"e":2}', '{"\\u00e9":1}'],
            ['{"é":1,"\\u00E9":2}', '{"q":1,"\\u0071":2}', '{"\\u00e9":"s"}'],
            order=order,
        )


class TestStrings:
    def test_escapes(self) -> None:
        check({"enum": ["é/😀"]}, ['"é/😀"', '"\\u00E9\\/\\ud83d\\uDE00"'], ['"\\u00e8/😀"', '"\\ud83d"'])
        check({"enum": ["é/\n"]}, ['"é/\\n"'], ['"\\u00e9/\\n"', '"é\\/\\n"', '"é/\n"'], escapes="canonical")

    def test_lengths_are_code_points(self) -> None:
        check(
            {"type": "string", "minLength": 2, "maxLength": 2},
            ['"😀\\ud83d\\ude00"', '"\\n\\\\"'],
            ['"😀"', '"\\ud83d\\ude00"', '"\\ud83dx"', '"abc"'],
        )

    def test_pattern_with_format_and_length(self) -> None:
        check(
            {"type": "string", "pattern": "^[a-z0-9.@]+$", "maxLength": 12, "minLength": 6, "format": "email"},
            ['"ab@cd.ef"'],
            ['"abcdefgh"', '"AB@cd.ef"', '"abcdefghi@jk.lm"', '"a@b.c"'],
        )

    def test_formats_can_be_annotations(self) -> None:
        check({"type": "string", "format": "ipv4"}, ['"1.2.3.4"'], ['"1.2.3"'])
        check({"type": "string", "format": "ipv4"}, ['"1.2.3"'], ["1"], format_assertion=False)
        check({"type": "string", "format": "colour"}, ['"red"'], ["1"])


class TestNumbers:
    def test_decimals_are_exact(self) -> None:
        check(
            '{"minimum": 0.1, "maximum": 9007199254740993.5}',
            ["0.1", "0.10", "9007199254740993.50"],
            ["0.0999999999999999999999999", "9007199254740993.51"],
        )
        check(
            {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
            [str(2**63 - 1), str(-(2**63))],
            [str(2**63), str(-(2**63) - 1)],
        )
        check({"maximum": Decimal("0.3"), "type": "number"}, ["0.3"], ["0.30000000000000001"])

    def test_integers_are_plain(self) -> None:
        check({"type": "integer"}, ["0", "-12"], ["1.0", "1e2", "01", "+1", "1.5"])
        check({"type": "number"}, ["1.0", "1e2", "-0.5E-3"], ["01", ".5", "1."])

    def test_multiples(self) -> None:
        check({"type": "number", "multipleOf": 0.01}, ["0", "19.99", "-3.10", "7.000"], ["0.001", "1.015"])
        check({"type": "number", "multipleOf": 1.5, "minimum": 2, "maximum": 5}, ["3", "4.5", "3.0"], ["2", "5", "6"])
        check({"type": "integer", "multipleOf": 123456789012}, ["123456789012", "-246913578024"], ["123456789013"])
        with pytest.raises(UnsatisfiableGrammar):
            machine({"type": "integer", "multipleOf": 10, "minimum": 1, "maximum": 9})

    def test_equality(self) -> None:
        check({"enum": [1.0, False, [0]]}, ["1", "1.0", "false", "[0]"], ["true", "0", "[false]"])


class TestDrafts:
    def test_exclusive_minimum(self) -> None:
        check({"$schema": D4, "minimum": 3, "exclusiveMinimum": True}, ["4", "3.1"], ["3"])
        check({"minimum": 3, "exclusiveMinimum": True}, ["4"], ["3"])  # only draft 4 gives it a meaning
        check({"exclusiveMinimum": 3}, ["4"], ["3"])
        with pytest.raises(GrammarError, match="true or false") as caught:
            machine({"$schema": D4, "exclusiveMinimum": 3})
        assert caught.value.pointer == "#/exclusiveMinimum"

    def test_siblings_of_ref(self) -> None:
        schema = {
            "properties": {"n": {"$ref": "#/definitions/N", "maximum": 9}},
            "required": ["n"],
            "definitions": {"N": {"type": "integer", "minimum": 5}},
        }
        check({**schema, "$schema": D7}, ['{"n":10}'], ['{"n":4}'])
        check({**schema, "$schema": D2019}, ['{"n":9}'], ['{"n":10}', '{"n":4}'])
        check({**schema, "$schema": D7}, ['{"n":9}'], ['{"n":10}'], draft="2020-12")

    def test_tuples(self) -> None:
        old = {"items": [{"type": "string"}], "additionalItems": False}
        check(old, ["[]", '["a"]'], ["[1]", '["a",1]'])
        with pytest.raises(GrammarError, match="prefixItems"):
            machine(old, draft="2020-12")
        check({"prefixItems": [{"type": "string"}], "items": {"type": "null"}}, ["[]", '["a",null]'], ['["a",1]'])

    def test_keywords_of_other_drafts_are_annotations(self) -> None:
        check({"$schema": D4, "const": 1}, ["2"], [])
        check({"$schema": D6, "if": True, "then": False}, ["2"], [])

    def test_unknown(self) -> None:
        with pytest.raises(UnsupportedGrammar, match="names no known draft"):
            machine({"$schema": "https://example.org/mine"})
        with pytest.raises(GrammarError, match="2019-09"):
            machine({}, draft="5")


class TestReferences:
    def test_pointers(self) -> None:
        check({"$ref": "#/$defs/a~1b~0c%25", "$defs": {"a/b~c%": {"const": 1}}}, ["1"], ["2"])

    def test_anchor_and_relative_id(self) -> None:
        schema = {
            "$id": "https://example.org/root.json",
            "type": "array",
            "prefixItems": [{"$ref": "#here"}, {"$ref": "other.json#/$defs/n"}],
            "minItems": 2,
            "$defs": {
                "x": {"$anchor": "here", "type": "string"},
                "y": {"$id": "other.json", "$defs": {"n": {"type": "integer"}}},
            },
        }
        check(schema, ['["a",1]'], ["[1,1]", '["a","b"]', '["a"]'])

    def test_recursion(self) -> None:
        tree = {
            "type": "object",
            "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}},
            "additionalProperties": False,
        }
        check(tree, ['{"kids":[{"kids":[]},{}]}', '{"kids":[' * 300 + "{}" + "]}" * 300], ['{"kids":[1]}'])

    def test_remote_needs_a_registry(self) -> None:
        schema = {"$ref": "https://example.org/n.json"}
        with pytest.raises(GrammarError, match="registry=") as caught:
            machine(schema)
        assert caught.value.pointer == "#/$ref"
        resource = referencing.Resource.from_contents({"type": "integer"}, referencing.jsonschema.DRAFT202012)
        check(
            schema,
            ["1"],
            ['"a"'],
            registry=referencing.Registry().with_resource("https://example.org/n.json", resource),
        )

    def test_circles(self) -> None:
        for schema in ({"$ref": "#"}, {"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"$ref": "#"}}}):
            with pytest.raises(UnsatisfiableGrammar, match="only lead to each other"):
                machine(schema)
        check({"anyOf": [{"$ref": "#"}, {"type": "null"}]}, ["null"], ["1"])


class TestObjects:
    @pytest.mark.parametrize("order", ["schema", "any"])
    def test_patterns_join_declared_keys(self, order: str) -> None:
        check(
            {
                "properties": {"rank": {"type": "integer"}},
                "patternProperties": {"^r": {"minimum": 10}, "k$": {"maximum": 20}},
                "additionalProperties": False,
                "required": ["rank"],
                "type": "object",
            },
            ['{"rank":15}', '{"rank":15,"r":10,"bk":20,"rk":12}'],
            ['{"rank":5}', '{"rank":25}', '{"rank":15,"rk":21}', "{}"],
            order=order,
        )

    def test_keys_can_run_out(self) -> None:
        schema = {"type": "object", "patternProperties": {"^(a|ab|b)$": True}, "additionalProperties": False}
        check(schema, ["{}", '{"ab":1,"b":2,"a":3}'], ['{"a":1,"a":1}', '{"c":1}', '{"ab":1,"b":2,"a":3,'])
        check({**schema, "minProperties": 3}, ['{"ab":1,"b":2,"a":3}'], ['{"a":1,"b":1}'])
        with pytest.raises(UnsatisfiableGrammar):
            machine({**schema, "minProperties": 4})

    def test_impossible_patterns(self) -> None:
        check(
            {"type": "object", "patternProperties": {"^x": False, "a": {"type": "string"}, "b": {"type": "integer"}}},
            ['{"a":"","b":1,"y":[]}'],
            ['{"x":1}', '{"ab":1}', '{"ab":""}'],
        )

    @pytest.mark.parametrize("order", ["schema", "any"])
    def test_dependencies(self, order: str) -> None:
        check(
            {
                "type": "object",
                "dependentRequired": {"card": ["addr"], "addr": ["zip"]},
                "properties": {"card": {}, "addr": {}, "note": {}},
            },
            ["{}", '{"card":1,"addr":1,"zip":1}', '{"note":1}', '{"zip":1}'],
            ['{"card":1}', '{"card":1,"addr":1}', '{"addr":1}'],
            order=order,
        )
        check({"type": "object", "dependentRequired": {"a": ["b"]}, "properties": {"b": False}}, ["{}"], ['{"a":1}'])

    def test_only_the_needed_keys_fit(self) -> None:
        check(
            {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["b"], "maxProperties": 1},
            ['{"b":1}'],
            ['{"a":1', '{"b":1,', "{}"],
        )

    def test_a_tagged_union_is_one_thread(self) -> None:
        made, _ = machine(
            {
                "anyOf": [
                    {
                        "type": "object",
                        "properties": {"tool": {"const": f"t{i}"}, f"p{i}": {"type": "integer"}},
                        "required": ["tool", f"p{i}"],
                        "additionalProperties": False,
                    }
                    for i in range(40)
                ]
            }
        )
        threads = m.start(made)
        for byte in b'{"tool": "t17", "p17": 4}':
            threads = m.step(threads, byte)
            assert len(threads) == 1
        assert m.can_end(threads)


class TestCombinators:
    def test_one_of_overlapping(self) -> None:
        check({"oneOf": [{"minimum": 2}, {"type": "integer", "maximum": 5}]}, ["1", "6", "2.5", '"a"'], ["3", "1.5"])

    def test_tags_conditions_and_negations(self) -> None:
        schema = {
            "type": "object",
            "properties": {"mode": {"enum": ["hi", "lo"]}, "v": {"type": "integer"}},
            "required": ["mode"],
            "additionalProperties": False,
            "if": {"properties": {"mode": {"const": "hi"}}},
            "then": {"required": ["v"]},
            "else": {"not": {"required": ["v"]}},
        }
        check(schema, ['{"mode":"hi","v":1}', '{"mode":"lo"}'], ['{"mode":"hi"}', '{"mode":"lo","v":1}'])

    def test_contains(self) -> None:
        check(
            {"contains": {"const": 7}, "minContains": 2, "maxContains": 3, "type": "array", "maxItems": 4},
            ["[7,7]", "[1,7,7]", "[7,7,7,1]"],
            ["[7]", "[7,7,7,7]", "[1,1,7", "[1,1,7,7,1]"],
        )


class TestErrors:
    @pytest.mark.parametrize(
        ("schema", "pointer"),
        [
            ({"properties": {"d": {"type": "string", "required": True}}}, "#/properties/d/required"),
            ({"type": "strnig"}, "#/type"),
            ({"items": {"type": []}}, "#/items/type"),
            ({"anyOf": []}, "#/anyOf"),
            ({"properties": {"a/b": {"minLength": -1}}}, "#/properties/a~1b/minLength"),
            ({"properties": []}, "#/properties"),
            ({"properties": {"x": 3}}, "#/properties/x"),
            ({"multipleOf": 0}, "#/multipleOf"),
            ({"pattern": "("}, "#/pattern"),
            ({"patternProperties": {"[": {}}}, "#/patternProperties"),
            ({"enum": 3}, "#/enum"),
            ({"enum": [float("nan")]}, "#/enum"),
            ({"$ref": "#/nowhere"}, "#/$ref"),
            ({"$ref": 3}, "#/$ref"),
            ({"uniqueItems": 1}, "#/uniqueItems"),
        ],
    )
    def test_malformed(self, schema: Any, pointer: str) -> None:
        with pytest.raises(GrammarError) as caught:
            machine(schema)
        assert caught.value.pointer == pointer
        assert not isinstance(caught.value, (UnsatisfiableGrammar, UnsupportedGrammar))

    @pytest.mark.parametrize(
        ("schema", "pointer"),
        [
            ({"properties": {"a": {"pattern": r"^(.*)-\1$"}}}, "#/properties/a/pattern"),
            ({"$schema": "https://example.com/unknown"}, "#/$schema"),
        ],
    )
    def test_not_built(self, schema: Any, pointer: str) -> None:
        with pytest.raises(UnsupportedGrammar) as caught:
            machine(schema)
        assert caught.value.pointer == pointer

    @pytest.mark.parametrize(
        ("schema", "names"),
        [
            (False, ["#"]),
            ({"enum": []}, ["#/enum"]),
            ({"type": "integer", "enum": ["a"]}, ["#/type", "#/enum"]),
            ({"type": "integer", "minimum": 5, "maximum": 4}, ["#/minimum", "#/maximum"]),
            ({"properties": {"a": False}, "required": ["a"], "type": "object"}, ["#/properties/a"]),
            ({"allOf": [{"type": "string"}, {"type": "null"}]}, ["#/allOf/0/type", "#/allOf/1/type"]),
            ({"type": "object", "properties": {"x": {"$ref": "#"}}, "required": ["x"]}, ["#/type"]),
            ({"type": "array", "items": False, "minItems": 1}, ["#/items"]),
            ({"type": "string", "pattern": "^a+$", "maxLength": 0}, ["#/pattern", "#/maxLength"]),
        ],
    )
    def test_unsatisfiable(self, schema: Any, names: list[str]) -> None:
        with pytest.raises(UnsatisfiableGrammar) as caught:
            machine(schema)
        for name in names:
            assert name in str(caught.value)

    def test_options(self) -> None:
        for name, value in (
            ("order", "alphabetic"),
            ("whitespace", "none"),
            ("escapes", "all"),
            ("numbers", "x"),
            ("on_unsupported", "ignore"),
        ):
            with pytest.raises(GrammarError, match=name):
                machine({}, **{name: value})
        with pytest.raises(TypeError):
            machine({}, ordr="any")  # type: ignore[call-arg]
        for bad in (None, 3, [], "[1]", "{"):
            with pytest.raises(GrammarError):
                machine(bad)  # type: ignore[arg-type]

    @pytest.mark.parametrize(("method", "given"), [("from_json_schema", {}), ("from_type", int)])
    def test_unknown_options(self, method: str, given: Any) -> None:
        make = getattr(Grammar, method)
        for _ in range(2):  # the second time the grammar is remembered
            assert make(given, order="any").matches("1")
            with pytest.raises(TypeError, match=rf"Grammar.{method} has no option 'ordr'; did you mean 'order'\? It "):
                make(given, order="any", ordr="any")
            with pytest.raises(TypeError, match=r"no option 'known'; it has order, whitespace, escapes"):
                make(given, known=b"")

    @pytest.mark.parametrize(
        ("schema", "pointer", "said"),
        [
            (False, "#", "the schema is false"),
            ({"$ref": "#/$defs/a", "$defs": {"a": False}}, "#/$defs/a", "the schema is false"),
            ({"not": {}}, "#", "no value satisfies #/not"),
            ({"enum": []}, "#", "no value satisfies #/enum, which is empty"),
            ({"oneOf": [{}, {}]}, "#", "no value satisfies #/oneOf"),
            ({"type": "array", "minItems": 3, "maxItems": 2}, "#", "#/type, #/minItems, #/maxItems"),
            (
                {"type": "object", "properties": {"a": {}}, "required": ["b"], "additionalProperties": False},
                "#/additionalProperties",
                "#/additionalProperties (false), #/required",
            ),
            ({"type": "array", "items": False, "minItems": 1}, "#/items", "#/items (false), #/minItems"),
            ({"type": "array", "contains": False}, "#/contains", "the schema is false"),
            (
                {"type": "array", "contains": {"type": "integer"}, "items": {"type": "string"}},
                "#/items",
                "#/items/type, #/contains/type, #/contains",
            ),
            (
                {"type": "object", "required": ["x"], "properties": {
                    "x": {"type": "object", "allOf": [{"required": ["a"]}], "patternProperties": {"^a": False}}}},
                "#/properties/x/patternProperties/^a",
                "#/properties/x/patternProperties/^a (false), #/properties/x/allOf/0/required, #/required",
            ),
        ],
    )  # fmt: skip
    def test_all_that_contradicts_is_named(self, schema: Any, pointer: str, said: str) -> None:
        with pytest.raises(UnsatisfiableGrammar) as caught:
            Grammar.from_json_schema(schema)
        assert caught.value.pointer == pointer
        assert said in str(caught.value)
        assert ("contradict" in str(caught.value)) == (", #" in said)

    def test_every_option_is_named(self) -> None:
        keywords = {p.name for p in inspect.signature(machine).parameters.values() if p.kind is p.KEYWORD_ONLY}
        assert keywords - {"known"} == set(OPTIONS)

    def test_report(self) -> None:
        _, report = machine(
            {
                "title": "t",
                "type": "object",
                "properties": {"a/b": {"format": "mine", "x-y": 1, "minLength": 2}},
                "$defs": {"unused": {"type": "string"}},
            }
        )
        assert report.enforced == ("#/type", "#/properties", "#/properties/a~1b/minLength")
        assert report.annotations == ("#/title", "#/properties/a~1b/format", "#/properties/a~1b/x-y")
        assert report.draft == "2020-12"


def _nested(depth: int) -> Any:
    if depth == 0:
        return {"type": "string"}
    return {
        "oneOf": [
            {
                "type": "object",
                "properties": {f"k{i}": _nested(depth - 1)},
                "required": [f"k{i}"],
                "additionalProperties": False,
            }
            for i in range(2)
        ]
    }


DOUBLING = {
    "$ref": "#/$defs/d0",
    "$defs": {
        **{
            f"d{i}": {
                "type": "object",
                "properties": {k: {"$ref": f"#/$defs/d{i + 1}"} for k in "lr"},
                "required": ["l"],
                "additionalProperties": False,
            }
            for i in range(40)
        },
        "d40": {"type": "integer"},
    },
}
IN_PLACE = {
    "$ref": "#/$defs/d0",
    "$defs": {
        **{f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}, {"$ref": f"#/$defs/d{i + 1}"}]} for i in range(40)},
        "d40": {"type": "integer"},
    },
}


@pytest.mark.parametrize(
    ("schema", "text", "limit"),
    [
        (_nested(9), '{"k0": {"k1": ', 3),
        (DOUBLING, '{"l": {"l": {', 1),
        (IN_PLACE, "12", 1),
        ({"enum": [f"ITEM-{i:05d}" for i in range(10_000)]}, '"ITEM-01234"', 2),
        (
            {"type": "object", "properties": {f"key{i}": {"type": "integer"} for i in range(200)}},
            '{"key7": 1, "key150": 2}',
            1,
        ),
        (
            {
                "anyOf": [
                    {
                        "type": "object",
                        "properties": {
                            "tool": {"const": f"t{i}"},
                            "text": {"type": "string", "maxLength": 65536},
                            "list": {"type": "array", "maxItems": 500},
                        },
                        "required": ["tool"],
                        "additionalProperties": False,
                    }
                    for i in range(60)
                ]
            },
            '{"tool": "t59", "text": "x", "list": [1]}',
            2,
        ),
        ({"type": "array", "maxItems": 1_000_000, "items": {"type": "integer"}}, "[1, 2, 3]", 1),
        ({"type": "string", "maxLength": 1_000_000}, '"abc"', 1),
        (
            {
                "allOf": [
                    {"if": {"properties": {"t": {"const": f"{i}"}}, "required": ["t"]}, "then": {"required": [f"k{i}"]}}
                    for i in range(40)
                ],
                "type": "object",
            },
            '{"t": "3", "k3": 1}',
            3,
        ),
    ],
    ids=["one-of", "refs", "refs-in-place", "enum", "optional", "tools", "items", "length", "ifs"],
)
def test_traps(schema: Any, text: str, limit: float) -> None:
    start = time.process_time()
    made, _ = machine(schema)
    assert m.read(m.start(made), text.encode())
    assert time.process_time() - start < limit


def test_depth() -> None:
    check(True, ["[" * 5000 + "]" * 5000], ["[" * 5000 + "]" * 5001])
    schema: Any = {"type": "integer"}
    for _ in range(20_000):
        schema = {"type": "array", "items": schema, "minItems": 1}
    with suppress(GrammarTooComplex):
        machine(schema)
    with pytest.raises(GrammarTooComplex):
        machine('{"items":' * 60_000 + "true" + "}" * 60_000)


def test_what_json_cannot_hold_is_refused() -> None:
    circle: dict[str, object] = {"type": "array"}
    circle["items"] = circle
    ring: list[object] = []
    ring.append(ring)
    for schema, message in (
        (circle, r"#/items: the schema contains itself"),
        ({"const": ring}, r"#/const/0: the schema contains itself"),
        ({"properties": {1: {}}}, r"#/properties: the key 1 is no text"),
        ({"enum": ["a", b"b"]}, r"#/enum/1: b'b' \(bytes\) is no JSON value"),
        ({"const": Decimal("NaN")}, r"#/const: Decimal\('NaN'\) is no JSON value"),
    ):
        with pytest.raises(GrammarError, match=message):
            machine(schema)  # type: ignore[arg-type]


def test_large_enum_of_numbers() -> None:
    made, _ = machine({"enum": [*range(10_000), 0.5, None, "7x"]})
    for text, legal in (("7", True), ("9999", True), ("10000", False), ("0.5", True), ("null", True), ('"7x"', True)):
        assert reference_matches(made, text) == legal, text


def test_large_enum_of_arrays_is_refused() -> None:
    machine({"enum": [[i] for i in range(500)]})
    with pytest.raises(GrammarTooComplex, match=r"#/properties/a/enum: an enum of 501 arrays and objects"):
        machine({"properties": {"a": {"enum": [*([i] for i in range(501)), 1, "x"]}}})
