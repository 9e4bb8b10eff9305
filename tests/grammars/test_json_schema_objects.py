"""JSON Schema objects: what all keys or some key must hold, how many keys there are, and unevaluated members."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
from typing import Any

import jsonschema
import jsonschema_rs
import pytest
from brute import check_walk
from conftest import SYNTHETIC_EOS, synthetic_tokens
from random_schemas import evaluating_root, keyed, members, walk
from reference import reference_matches

from structgen.errors import GrammarError, GrammarTooComplex, UnsatisfiableGrammar
from structgen.grammars import Grammar, Vocabulary
from structgen.grammars import machine as m
from structgen.grammars.json_schema import machine
from structgen.grammars.schema.contents import Contents
from structgen.grammars.schema.document import Document
from structgen.grammars.schema.literals import accepts

ROUNDS = int(os.environ.get("STRUCTGEN_RANDOM_ROUNDS", "250")) // 4
D2019, D2020 = "https://json-schema.org/draft/2019-09/schema", "https://json-schema.org/draft/2020-12/schema"


def takes(made: m.Machine, data: Any) -> bool:
    threads = m.read(m.start(made), json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode())
    return bool(threads) and m.can_end(threads)


def check(schema: Any, accept: list[Any], reject: list[Any], **options: Any) -> None:
    """By the machine, by the reference, and by the judge of values."""
    options = {"whitespace": "compact", "order": "any", **options}
    made, _ = machine(schema, **options)
    root = Document(Contents(schema), None, None, True).root
    for data, verdict in [*((data, True) for data in accept), *((data, False) for data in reject)]:
        assert takes(made, data) == verdict, data
        assert reference_matches(made, json.dumps(data, separators=(",", ":"))) == verdict, data
        assert accepts(root, data) == verdict, data


def objects(keys: str, values: tuple[Any, ...], most: int = 3) -> list[dict[str, Any]]:
    """Every object of at most ``most`` of these one-letter keys, with these values."""
    found = []
    for n in range(most + 1):
        for chosen in itertools.combinations(keys, n):
            found += [dict(zip(chosen, each, strict=True)) for each in itertools.product(values, repeat=n)]
    return found


def check_all(schema: Any, keys: str = "abc", values: tuple[Any, ...] = (1, "s"), most: int = 3) -> int:
    """Every small object has the validators' verdict, and no walk gets stuck. Returns how many are valid."""
    one, two = jsonschema.Draft202012Validator(schema), jsonschema_rs.Draft202012Validator(schema)
    root = Document(Contents(schema), None, None, True).root
    valid = 0
    try:
        made = machine(schema, order="any", whitespace="compact")[0]
    except UnsatisfiableGrammar:
        made = None
    for data in objects(keys, values, most):
        verdict = one.is_valid(data)
        assert verdict == two.is_valid(data)
        assert (made is not None and takes(made, data)) == verdict, (schema, data)
        assert accepts(root, data) == verdict, (schema, data)
        valid += verdict
    for order in ("any", "schema") if made is not None else ():
        in_order, _ = machine(schema, order=order, whitespace="compact")
        rng = random.Random()
        for _ in range(6):
            text = walk(rng, in_order)
            if text is not None and not re.search(r"[0-9.eE+-]{13}|[0-9][eE]", text):
                assert one.is_valid(json.loads(text)), (order, text)
    return valid


INTEGERS = {"additionalProperties": {"type": "integer"}}


class TestSomeKey:
    def test_not_additional_properties(self) -> None:
        check({"type": "object", "not": INTEGERS}, [{"a": "s"}, {"a": 1, "b": []}], [{}, {"a": 1}, {"a": 1, "b": 2}])
        check({"not": INTEGERS}, [{"a": "s"}], [{}, 1, [], {"a": 1}])
        closed = {"properties": {"a": {}, "b": {"type": "integer"}}, "additionalProperties": False}
        check({"not": closed}, [{"c": 1}, {"b": "s"}, {"a": 1, "z": 1}], [{}, {"a": 1}, {"b": 1}, 1])

    def test_not_pattern_properties(self) -> None:
        check(
            {"not": {"patternProperties": {"^x-": {"type": "integer"}}}},
            [{"x-a": "s"}, {"x-a": 1, "x-b": None}],
            [{}, {"a": "s"}, {"x-a": 1}],
        )

    def test_not_property_names(self) -> None:
        check({"not": {"propertyNames": {"maxLength": 2}}}, [{"abc": 1}, {"a": 1, "abc": 2}], [{}, {"ab": 1}])

    def test_double_negation(self) -> None:
        """``not not`` is nothing, also around what has become a wish in between."""
        rng = random.Random()
        for _ in range(ROUNDS // 2):
            schema = keyed(rng, 1)
            wrapped = {"not": {"not": {"type": ["object", "array"], "allOf": [schema]}}}
            plain = {"type": ["object", "array"], "allOf": [schema]}
            data = members(rng, 10)
            verdicts = []
            for each in (wrapped, plain, {"not": {"anyOf": [{"not": schema}, {"type": "string"}]}}):
                try:
                    made = machine(each, order="any", whitespace="compact")[0]
                    verdicts.append([takes(made, one) for one in data])
                except UnsatisfiableGrammar:
                    verdicts.append([False] * len(data))
            assert verdicts[0] == verdicts[1] == verdicts[2], schema

    @pytest.mark.parametrize(
        "other",
        [
            {},
            {"maxProperties": 1},
            {"minProperties": 2, "maxProperties": 2},
            {"required": ["a"], "maxProperties": 2},
            {"propertyNames": {"enum": ["a", "b"]}},
            {"propertyNames": {"pattern": "^[ab]$"}, "minProperties": 2},
            {"properties": {"a": {"type": "integer"}}, "propertyNames": {"maxLength": 1}},
            {"properties": {"a": {"type": "integer"}}, "additionalProperties": False},
            {"properties": {"a": {}, "b": {"type": "integer"}}, "additionalProperties": False, "maxProperties": 1},
            {"dependentRequired": {"b": ["c"], "c": ["a"]}, "maxProperties": 2},
            {"not": {"propertyNames": {"pattern": "c"}}},
            {"not": {"patternProperties": {"^[ab]$": {"const": 1}}}, "maxProperties": 1},
            {"not": {"additionalProperties": {"type": "string"}}, "maxProperties": 1},
            {"not": {"additionalProperties": {"type": "string"}}, "propertyNames": {"enum": ["a", "c"]}},
        ],
        ids=lambda other: json.dumps(other),
    )
    def test_together_with(self, other: Any) -> None:
        """The last key that may fulfil a wish is not given away, nor the last place for it."""
        check_all({"type": "object", "allOf": [{"not": INTEGERS}, other]})
        check_all({"type": "object", "allOf": [{"not": {"patternProperties": {"^[ab]$": {"type": "integer"}}}}, other]})
        check_all({"type": "object", "allOf": [{"not": {"propertyNames": {"enum": ["a"]}}}, other]})

    def test_one_key_for_two_wishes(self) -> None:
        """Two wishes that one value cannot fulfil need two keys."""
        strings = {"additionalProperties": {"type": "string"}}
        both = {"type": "object", "not": {"anyOf": [INTEGERS, strings]}}
        check(both, [{"a": None}, {"a": 1, "b": "s"}], [{}, {"a": 1}, {"a": "s"}, {"a": 1, "b": 2}])
        either = {"type": ["integer", "string"]}
        assert check_all({**both, "additionalProperties": either, "maxProperties": 1}) == 0
        assert check_all({**both, "additionalProperties": either, "maxProperties": 2}) == 6
        assert check_all({**both, "additionalProperties": either, "propertyNames": {"const": "a"}}) == 0

    def test_overlapping_branches(self) -> None:
        tagged = [
            {
                "type": "object",
                "properties": {"type": {"const": tag}, "size": {"type": "integer"}, **more},
                "required": ["size"],
                "additionalProperties": False,
            }
            for tag, more in (("a", {}), ("b", {"x": {}}), ("c", {"y": {"type": "string"}}))
        ]
        check(
            {"oneOf": tagged},
            [{"type": "a", "size": 1}, {"size": 1, "x": 1}, {"size": 1, "y": "s"}, {"type": "b", "size": 1, "x": []}],
            [{"size": 1}, {"type": "a", "size": 1, "x": 1}, {"size": 1, "y": 1}, {"type": "b"}],
        )

    def test_many_branches_stay_few(self) -> None:
        """Untagged closed branches: the wrong values of common properties are no alternatives."""
        branches = [
            {
                "type": "object",
                "properties": {"type": {"enum": [f"t{i}"]}, "label": {"type": "string", "maxLength": 9}, f"k{i}": {}},
                "additionalProperties": False,
            }
            for i in range(12)
        ]
        made, _ = machine({"oneOf": branches}, order="any", whitespace="compact")
        assert takes(made, {"type": "t3", "k3": 1, "label": "x"})
        assert takes(made, {"k3": 1})
        assert not takes(made, {"label": "x"})
        assert not takes(made, {"type": "t3", "k4": 1})

    def test_limit(self) -> None:
        refused = [{"patternProperties": {f"^{c}": {"minimum": i}}} for i, c in enumerate("abcdefgh")]
        with pytest.raises(GrammarTooComplex) as caught:
            machine({"type": "object", "allOf": [{"not": each} for each in refused]})
        assert caught.value.pointer is not None


class TestNumberOfKeys:
    @pytest.mark.parametrize(
        "dependents",
        [
            {"a": ["b"]},
            {"a": ["b", "c"], "b": ["a"]},
            {"a": ["b"], "b": ["a"], "c": ["d"], "d": ["c"]},
            {"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"]},
            {"a": ["b"], "b": ["a"], "c": ["a"]},
        ],
        ids=json.dumps,
    )
    @pytest.mark.parametrize("bounds", [(1, 1), (1, 2), (2, 2), (3, 3), (2, 3), (1, 3), (4, 4)])
    def test_dependencies_between_bounds(self, dependents: Any, bounds: tuple[int, int]) -> None:
        """Keys that need each other come together or not at all, so a size may be out of reach."""
        for closed in (True, False):
            schema: dict[str, Any] = {
                "type": "object",
                "dependentRequired": dependents,
                "minProperties": bounds[0],
                "maxProperties": bounds[1],
            }
            if closed:
                schema["propertyNames"] = {"enum": list("abcd")}
            check_all(schema, "abcd" if closed else "abcde", (1,), 4)

    def test_required_among_circles(self) -> None:
        circles = {"a": ["b"], "b": ["a"], "c": ["d", "e"], "d": ["c"], "e": ["d"]}
        schema = {"dependentRequired": circles, "propertyNames": {"enum": list("abcdef")}, "required": ["f"]}
        for lo, hi in itertools.combinations_with_replacement(range(1, 6), 2):
            check_all({"type": "object", **schema, "minProperties": lo, "maxProperties": hi}, "abcdef", (1,), 5)


class TestUnevaluatedProperties:
    def test_through_references_and_all_of(self) -> None:
        check(
            {
                "$ref": "#/$defs/base",
                "allOf": [{"properties": {"b": {}}}],
                "properties": {"c": {}},
                "unevaluatedProperties": False,
                "$defs": {"base": {"properties": {"a": {}}, "patternProperties": {"^x": {}}}},
            },
            [{}, {"a": 1, "b": 2, "c": 3, "xy": 4}, 1],
            [{"d": 1}, {"a": 1, "d": 1}],
        )

    def test_any_of_evaluates_what_succeeds(self) -> None:
        check(
            {
                "anyOf": [
                    {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
                    {"properties": {"b": {"type": "integer"}}, "required": ["b"]},
                    {"maxProperties": 1},
                ],
                "unevaluatedProperties": {"type": "boolean"},
            },
            [{"a": 1}, {"a": 1, "b": 2}, {"b": 1, "a": True}, {"c": True}, {}],
            [{"a": 1, "b": "s"}, {"c": 1}, {"a": 1, "c": 1}, {"a": True, "b": False}],
        )

    def test_if_without_branches(self) -> None:
        check(
            {"if": {"required": ["a"], "properties": {"a": {}, "b": {}}}, "unevaluatedProperties": False},
            [{}, {"a": 1}, {"a": 1, "b": 1}],
            [{"b": 1}, {"a": 1, "c": 1}],
        )

    def test_cousins_and_nested(self) -> None:
        cousins = {"allOf": [{"properties": {"a": {}}}, {"unevaluatedProperties": False}]}
        check(cousins, [{}], [{"a": 1}])
        nested = {"allOf": [{"unevaluatedProperties": {"type": "integer"}}], "unevaluatedProperties": False}
        check(nested, [{"a": 1}, {}], [{"a": "s"}])
        check({"allOf": [{"additionalProperties": True}], "unevaluatedProperties": False}, [{"a": 1}], [])
        not_seen = {"not": {"not": {"properties": {"a": {}}}}, "unevaluatedProperties": False}
        check(not_seen, [{}], [{"a": 1}])

    def test_dependent_schemas(self) -> None:
        check(
            {
                "properties": {"a": {}},
                "dependentSchemas": {"a": {"properties": {"b": {}}, "required": ["b"]}},
                "unevaluatedProperties": False,
            },
            [{}, {"a": 1, "b": 2}],
            [{"b": 1}, {"a": 1}, {"a": 1, "b": 1, "c": 1}],
        )

    def test_recursive(self) -> None:
        tree = {
            "$ref": "#/$defs/tree",
            "unevaluatedProperties": False,
            "$defs": {
                "tree": {
                    "type": "object",
                    "properties": {"v": {"type": "integer"}, "next": {"$ref": "#"}},
                    "anyOf": [{"required": ["v"]}, {"properties": {"tag": {"const": "leaf"}}, "required": ["tag"]}],
                }
            },
        }
        check(
            tree,
            [{"v": 1}, {"tag": "leaf"}, {"v": 1, "next": {"v": 2, "next": {"tag": "leaf", "v": 3}}}],
            [{"v": 1, "x": 1}, {"v": 1, "tag": "x"}, {"v": 1, "next": {"v": 2, "x": 1}}, {}],
        )

    def test_opposite(self) -> None:
        schema = {
            "anyOf": [{"required": ["a"], "properties": {"a": {}}}, {"properties": {"b": {"type": "integer"}}}],
            "unevaluatedProperties": {"type": "string"},
        }
        assert check_all(schema, values=(1, "s")) + check_all({"not": schema}, values=(1, "s")) == len(
            objects("abc", (1, "s"))
        )
        check_all({"if": schema, "then": {"maxProperties": 1}, "else": {"minProperties": 2}})
        check_all({"oneOf": [schema, {"properties": {"a": {"type": "integer"}}, "unevaluatedProperties": False}]})

    def test_tagged_unions_stay_few(self) -> None:
        """Exclusive branches are not combined with each other, whatever their number."""
        branches = [
            {"properties": {"kind": {"const": i}, f"k{i}": {}}, "required": ["kind"]} for i in range(60)
        ]
        made, _ = machine(
            {"type": "object", "anyOf": branches, "unevaluatedProperties": False}, order="any", whitespace="compact"
        )
        assert takes(made, {"kind": 7, "k7": 1})
        assert not takes(made, {"kind": 7, "k8": 1})

    def test_limit(self) -> None:
        branches = [{"properties": {f"k{i}": {"type": "integer"}}} for i in range(14)]
        schema = {"properties": {"p": {"anyOf": branches, "unevaluatedProperties": False}}}
        with pytest.raises(GrammarTooComplex) as caught:
            machine(schema)
        assert caught.value.pointer == "#/properties/p"


class TestUnevaluatedItems:
    def test_prefixes(self) -> None:
        check(
            {
                "prefixItems": [{"type": "integer"}],
                "anyOf": [{"prefixItems": [{}, {"const": 1}]}, {"maxItems": 1}],
                "unevaluatedItems": {"type": "string"},
            },
            [[], [1], [1, 1], [1, 1, "s"]],
            [[1, 2], [1, 1, 1], ["s"], [1, "s"]],
        )
        check({"allOf": [{"items": True}], "unevaluatedItems": False}, [[1, 2]], [])

    def test_contains_evaluates_since_2020(self) -> None:
        body = {"contains": {"type": "integer"}, "unevaluatedItems": {"type": "string"}}
        check({"$schema": D2020, **body}, [[1], [1, "s", 2]], [["s"], [1, None]])
        none = {"$schema": D2020, "contains": {"const": 1}, "minContains": 0, "unevaluatedItems": False}
        check(none, [[], [1, 1]], [[2], [1, 2]])
        if_only = {"$schema": D2020, "if": {"contains": {"const": 1}}, "unevaluatedItems": False}
        check(if_only, [[], [1, 1]], [[2], [1, 2]])

    def test_contains_does_not_evaluate_in_2019(self) -> None:
        """Section 9.3.1.3 of its core speaks of items and additionalItems alone."""
        check(
            {"$schema": D2019, "items": [{}], "contains": {"const": 1}, "unevaluatedItems": {"type": "string"}},
            [[1], [1, "s"]],
            [[1, 1], ["s"], ["s", 1]],
        )

    def test_opposite(self) -> None:
        schema = {"prefixItems": [{}], "contains": {"const": 1}, "unevaluatedItems": {"type": "string"}}
        check(
            {"type": "array", "not": schema},
            [[], [2], [1, 2], ["s", 1, None], [1, 1, 2]],
            [[1], [1, "s"], ["s", 1], [2, 1, "t"]],
        )
        check({"type": "array", "not": {"prefixItems": [{}], "unevaluatedItems": False}}, [[1, 2]], [[], [1]])


def _oracles(draft: str, schema: Any) -> tuple[Any, Any]:
    if draft == "2020-12":
        return jsonschema.Draft202012Validator(schema), jsonschema_rs.Draft202012Validator(schema)
    return jsonschema.Draft201909Validator(schema), jsonschema_rs.Draft201909Validator(schema)


@pytest.mark.parametrize("kind", ["keys", "unevaluated 2020-12", "unevaluated 2019-09"])
def test_random(kind: str) -> None:
    """Verdicts of the machine and of the judge of values against two validators, and walks that never get stuck."""
    seed = random.SystemRandom().randrange(1 << 40)
    rng = random.Random(seed)
    refused = compared = finished = differ = 0
    draft = "2019-09" if "2019" in kind else "2020-12"
    for i in range(ROUNDS):
        schema = keyed(rng) if kind == "keys" else evaluating_root(rng, "items" if "2019" in kind else "prefixItems")
        order = "any" if i % 3 else "schema"
        where = f"seed {seed}, round {i}, order {order}, draft {draft}: {json.dumps(schema)}"
        made: m.Machine | None = None
        try:
            made, _ = machine(schema, order=order, whitespace="compact", numbers="any", draft=draft)
        except GrammarTooComplex:
            refused += 1
            continue
        except UnsatisfiableGrammar:
            pass
        one, two = _oracles(draft, schema)
        root = Document(Contents({"$schema": D2019 if "2019" in kind else D2020, **schema}), None, None, True).root
        for data in members(rng):
            verdict = one.is_valid(data)
            if verdict != two.is_valid(data):
                differ += 1
                continue
            assert accepts(root, data) == verdict, (where, data)
            if made is None or order == "any":
                assert (made is not None and takes(made, data)) == verdict, (where, data)
            compared += 1
        for _ in range(2 if made is not None else 0):
            assert made is not None
            text = walk(rng, made)
            if text is not None and not re.search(r"[0-9.eE+-]{13}|[0-9][eE]", text):
                finished += 1
                data = json.loads(text)
                assert accepts(root, data), (where, text)
                assert one.is_valid(data) or two.is_valid(data), (where, text)
    assert refused <= ROUNDS // 10
    assert compared > 8 * ROUNDS
    assert differ < compared // 20
    assert finished > ROUNDS // 2


CROSSING = [
    *(f'{a}"{v}{b}'.encode() for a in ("", "a", "ab", '"b') for v in (":1,", ":0,") for b in ('"', '"a', '"b":', "")),
    *(b'"a":1', b'"ab":1,"a', b'"b":1,"a":1}', b'{"a":1,', b'{"":1,"a', b'"a":"a","ab":1'),
]
"""Tokens that end a key, hold its value, and begin the next key."""


def test_masks() -> None:
    """Masks against brute force, where keys run out and where wishes are open."""
    tokens = [*synthetic_tokens()[:-2], *CROSSING, None, b""]
    vocabulary = Vocabulary.from_tokenizer(tokens, eos_token_ids=SYNTHETIC_EOS, size=len(tokens) + 21)
    seed = random.SystemRandom().randrange(1 << 40)
    rng, compared = random.Random(seed), 0
    schemas = [
        {"type": "object", "propertyNames": {"enum": ["a", "b", "ab"]}, "minProperties": 2},
        {"type": "object", "patternProperties": {"^(a|ab)$": {}}, "additionalProperties": False},
        {"type": "object", "propertyNames": {"maxLength": 2}, "not": INTEGERS},
        {"type": "object", "not": {"patternProperties": {"^(a|ab)$": {"type": "integer"}}}},
        {"type": "object", "not": {"propertyNames": {"enum": ["a", "b"]}}, "propertyNames": {"maxLength": 1}},
    ]
    while compared < 120:
        schema = schemas.pop() if schemas else rng.choice([keyed, evaluating_root])(rng)
        order = rng.choice(["any", "schema"])
        where = f"seed {seed}, order {order}: {json.dumps(schema)}"
        try:
            grammar = Grammar.from_json_schema(schema, order=order, whitespace="compact")
        except GrammarError:
            continue
        try:
            compared += check_walk(grammar, grammar.compile(vocabulary), rng, 12)
        except AssertionError as error:
            raise AssertionError(f"{where}: {error}") from error
