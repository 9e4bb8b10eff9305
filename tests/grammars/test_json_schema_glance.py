"""What a glance at a schema says is certain: the full look finds nothing against it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from random_schemas import in_draft, root

from structgen.errors import GrammarError, UnsatisfiableGrammar
from structgen.grammars import json_schema, regex
from structgen.grammars.encoding import JSON_ANY, UTF8
from structgen.grammars.expr import matches
from structgen.grammars.plain_pattern import is_plain, quick
from structgen.grammars.residual import state
from structgen.grammars.schema import glance
from structgen.grammars.schema.contents import Contents, private
from structgen.grammars.schema.dialects import Draft, draft_named, guessed_draft, newest_draft
from structgen.grammars.schema.document import Document
from structgen.grammars.schema.glance import Values
from structgen.grammars.schema.layout import LAYOUTS
from structgen.grammars.schema.nodes import Forest, Style, explore

SCHEMAS = Path(__file__).parents[2] / "benchmarks" / "schemas.jsonl"


def is_usable(schema: Any, draft: Draft) -> bool:
    return not glance.look(schema, draft) and glance.look(schema, draft) is not None


def look(schema: Any, draft: str | None, any_numbers: bool) -> tuple[int, int]:
    """Compare both looks at a schema: how many of its subschemas are seen to have values, of how many."""
    document = Document(Contents(schema), None if draft is None else draft_named(draft), None, True)
    if document.resources.root.dynamic or not is_usable(schema, document.resources.root.draft):
        return 0, 0
    places = json_schema._survey(document, any_numbers)
    with suppress(RecursionError):
        explore(Forest(Style(JSON_ANY, LAYOUTS["any"], False, any_numbers)).node([document.root]), 500)
    document.values = Values(schema, document.resources.root.draft)
    seen = [place for place in places if document.has_values(place)]
    document.values = None
    forest = Forest(Style(JSON_ANY, LAYOUTS["any"], False, any_numbers))
    for place in seen:
        assert forest.node([place]).satisfiable, (place, place.contents)
    return len(seen), len(places)


def test_random_schemas() -> None:
    rng = random.Random(random.SystemRandom().randrange(1 << 40))
    seen = places = 0
    for _ in range(400):
        draft = rng.choice(["4", "6", "7", "2019-09", "2020-12"])
        schema = in_draft(root(rng), draft)
        found = look(schema, draft, rng.random() < 0.5)
        seen, places = seen + found[0], places + found[1]
    assert seen > places // 3 > 50


def test_real_schemas() -> None:
    found = [look(schema, None, True) for schema in _real()]
    assert sum(seen > 0 for seen, _ in found) > len(found) // 2


def _real() -> Iterator[Any]:
    for line in SCHEMAS.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)["schema"]


CAUGHT = [
    {"type": "strin"},
    {"type": []},
    {"enum": "a"},
    {"enum": [float("nan")]},
    {"properties": {"a": 1}},
    {"properties": {"a": {"minLength": -1}}},
    {"required": ["a", 1]},
    {"minimum": "1"},
    {"multipleOf": 0},
    {"pattern": "("},
    {"pattern": "[b-a]"},
    {"pattern": "a{2,1}"},
    {"patternProperties": {"(": {}}},
    {"format": 1},
    {"anyOf": []},
    {"items": {"oneOf": [{"type": "string"}, {"maximum": False}]}},
    {"$ref": "#/$defs/a"},
    {"$ref": "#/$defs/a", "$defs": {"a": 1}},
    {"$ref": "other.json"},
    {"$ref": "#a"},
    {"$ref": "#"},
    {"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}},
    {"unevaluatedProperties": 1},
    {"dependentRequired": {"a": "b"}},
    {"maxItems": True},
    {"uniqueItems": 1},
    {"$schema": "https://example.com/unknown"},
    {"properties": {"a": {"$schema": "https://example.com/unknown", "$id": "x"}}},
]


@pytest.mark.parametrize("schema", CAUGHT, ids=json.dumps)
def test_malformed_schemas_are_left_to_the_full_look(schema: Any) -> None:
    assert not is_usable(schema, draft_named("2020-12")) or "$schema" in schema
    with pytest.raises(GrammarError):
        json_schema.machine(schema)


@pytest.mark.parametrize(("draft", "schema"), [
    ("4", {"if": {"patternProperties": 5}, "const": 1, "$id": 1}),
    ("7", {"not": {"$ref": "#/definitions/a", "patternProperties": 5, "oneOf": 1}, "definitions": {"a": False}}),
    ("6", {"then": 1, "unevaluatedItems": 1, "prefixItems": 1, "dependentRequired": 1, "$anchor": 1}),
], ids=repr)  # fmt: skip
def test_what_counts_in_no_way_may_have_any_shape(draft: str, schema: Any) -> None:
    assert is_usable(schema, draft_named(draft))
    json_schema.machine(schema, draft=draft)


NAMES = [
    (True, {"properties": {"a": {"$id": "http://example.com/a", "type": "null"}}}),
    (True, {"$id": "http://example.com/", "properties": {"a": {"$ref": "#"}}}),
    (True, {"properties": {"a": {"$id": "#a"}, "b": {"$ref": "#/properties/c"}, "c": {}}}),
    (True, {"properties": {"$id": {"type": "string"}, "a": {"$schema": "https://example.com/", "type": "null"}}}),
    (False, {"properties": {"a": {"$id": "http://example.com/a"}, "b": {"$ref": "#/properties/a"}}}),
    (False, {"properties": {"a": {"$id": "http://[", "type": "null"}}}),
    (False, {"items": {"$id": "x", "$schema": "http://json-schema.org/draft-04/schema#", "const": 1}}),
    (False, {"items": {"id": "x", "$schema": "http://json-schema.org/draft-04/schema#", "const": 1}}),
]


@pytest.mark.parametrize(("usable", "schema"), NAMES, ids=repr)
def test_resources_inside_are_left_to_the_full_look_where_they_matter(usable: bool, schema: Any) -> None:
    assert is_usable(schema, draft_named("2020-12")) is usable


def test_few_opposites_meet_where_branches_exclude_each_other() -> None:
    """Seven branches with keywords whose opposites are counted: fine where types or tags tell them apart."""
    others = {"type": "object", "patternProperties": {"^x": {}, "^y": {}}, "additionalProperties": {"type": "null"}}
    alike = {"oneOf": [{**others, "required": [str(i)]} for i in range(7)]}
    tagged = {
        "oneOf": [{**others, "required": ["t"], "properties": {"t": {"enum": [str(i)]}}} for i in range(7)]
    }
    assert not is_usable(alike, Draft.D2020)
    assert is_usable(tagged, Draft.D2020)
    assert is_usable({"oneOf": [others, {"type": ["null", "string"]}, {"type": "array"}]}, Draft.D2020)
    apart = {"type": "object", "properties": {str(i): {"oneOf": [others, {"required": ["a"]}]} for i in range(7)}}
    assert is_usable(apart, Draft.D2020)
    together = {"allOf": [{"oneOf": [{**others, "maxProperties": i}, {"minProperties": i}]} for i in range(7)]}
    assert not is_usable(together, Draft.D2020)
    below = {"allOf": [{"properties": {"a": each}} for each in together["allOf"]]}
    assert not is_usable(below, Draft.D2020)
    items = {"not": {"allOf": [{"items": {"maximum": i}, "minItems": i} for i in range(7)]}}
    assert not is_usable(items, Draft.D2020)
    looped = {"oneOf": [{**others, "properties": {"a": {"$ref": "#"}}}, {"required": ["b"]}]}
    assert is_usable(looped, Draft.D2020)


VALUES = [
    (True, {"enum": [[1, {"a": None}], {}]}),
    (True, {"const": {"a": [1.5]}}),
    (False, {"enum": [{}] * 101}),
    (False, {"const": [10**400]}),
    (False, {"not": {"const": [1]}}),
    (False, {"oneOf": [{"enum": [{}]}, {"enum": [1, []]}]}),
]


@pytest.mark.parametrize(("usable", "schema"), VALUES, ids=lambda each: str(each)[:40])
def test_values_that_are_arrays_and_objects(usable: bool, schema: Any) -> None:
    assert is_usable(schema, draft_named("2020-12")) is usable


EMPTY = [
    False,
    {"type": "object", "required": ["a"], "properties": {"a": False}},
    {"type": "object", "required": ["a"], "additionalProperties": False},
    {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}},
    {"type": "object", "required": ["a"], "patternProperties": {"^a": False}},
    {"type": "object", "required": ["a"], "propertyNames": {"maxLength": 0}},
    {"type": "object", "minProperties": 2, "properties": {"a": {}}, "additionalProperties": False},
    {"type": "object", "required": ["a", "b"], "maxProperties": 1},
    {"type": "array", "minItems": 1, "items": False},
    {"type": "array", "minItems": 2, "maxItems": 1},
    {"type": "array", "minItems": 2, "uniqueItems": True, "items": {"const": 1}},
    {"type": "string", "minLength": 2, "maxLength": 1},
    {"type": "string", "pattern": "^a$", "minLength": 2},
    {"type": "string", "pattern": "^[^\\s\\S]$"},
    {"type": "integer", "minimum": 0.1, "maximum": 0.9},
    {"type": "integer", "exclusiveMinimum": 1, "maximum": 1},
    {"type": "string", "enum": [1, None]},
    {"type": "string", "const": "\ud800"},
    {"enum": ["a"], "type": "string", "minLength": 2},
    {"enum": [1], "const": 2},
    {"oneOf": [{"type": "string"}, {"type": "string"}]},
    {"oneOf": [{}, {"type": "string"}], "type": "string"},
    {"allOf": [{"type": "string"}, {"type": "null"}]},
    {"type": "string", "anyOf": [{"type": "null"}]},
    {"type": "object", "required": ["\ud800"]},
]


@pytest.mark.parametrize("schema", EMPTY, ids=repr)
def test_what_nothing_satisfies_is_refused(schema: Any) -> None:
    with pytest.raises(UnsatisfiableGrammar):
        json_schema.machine(schema)


ATOMS = [
    *("a", "z", "A", "0", "9", "-", "-", "[", "[^", "]", "(", "(?:", ")", "|", "^", "$", ".", "*", "+", "?", "_"),
    *("{2}", "{1,3}", "{3,1}", "{0}", "{,2}", "{", "}", "a-z", "0-9", "z-a", "\\d", "\\D", "\\w", "\\W", "\\s", "\\S"),
    *("\\-", "\\_", "\\.", "\\n", "\\/", "\\]", "\\\\", "\\b", "\\1", "\\x", '"', " ", "\n", "(?=", "\\u0061"),
]


def test_plain_patterns_are_read_and_found_in_some_text() -> None:
    rng = random.Random(random.SystemRandom().randrange(1 << 40))
    plain = 0
    for _ in range(4_000):
        pattern = "".join(rng.choice(ATOMS) for _ in range(rng.randint(1, 9)))
        if is_plain(pattern):
            plain += 1
            expr = regex.lower(regex.parse(pattern, dialect="ecma"), JSON_ANY, search=True)
            assert state(expr) is not None, pattern
    assert plain > 200


def test_plain_patterns_are_found_alike_by_both_ways() -> None:
    rng = random.Random(random.SystemRandom().randrange(1 << 40))
    found = {False: 0, True: 0}
    for _ in range(6_000):
        pattern = "".join(rng.choice(ATOMS) for _ in range(rng.randint(1, 7)))
        made = quick(pattern)
        if made is None:
            continue
        expr = regex.lower(regex.parse(pattern, dialect="ecma"), UTF8, search=True)
        for _ in range(4):
            text = "".join(rng.choice('azA09-[]^|$.*+?_ "{}/\\') for _ in range(rng.randrange(6)))
            hit = made.search(text) is not None
            found[hit] += 1
            assert matches(expr, text.encode()) is hit, (pattern, text)
    assert min(found.values()) > 200


@pytest.mark.parametrize("pattern", ["(a*)*", "(a|b)+$", "a*a*a*a*", "[a--]", "[[]", "\\bx", "[a&&b]", "a*b*c*d{2,}"])
def test_patterns_that_may_differ_or_take_long_are_not_quick(pattern: str) -> None:
    assert quick(pattern) is None


PLAIN = ["", "^a", r"^\d{4}-\d\d$", "^[a-zA-Z0-9_.-]+$", "(a|b)+", "^(?:x{1,3}|y)?$", r"^\S+@\S+\.\S+$", "^$|^a$"]


@pytest.mark.parametrize("pattern", PLAIN)
def test_common_patterns_are_plain(pattern: str) -> None:
    assert is_plain(pattern)


@pytest.mark.parametrize("schema", [
    {"items": [{}]},
    {"properties": {"a": {"items": [{}]}}},
    {"default": {"items": [{}]}},
    {"exclusiveMinimum": True},
    {"allOf": [{"exclusiveMaximum": False}, {"items": [1]}]},
    {"exclusiveMinimum": 1},
    {"x": [[{"items": []}]]},
    True,
], ids=json.dumps)  # fmt: skip
def test_the_draft_is_guessed_alike(schema: Any) -> None:
    assert newest_draft(schema) == guessed_draft(schema)[0]
    assert not private(schema).is_timeless or newest_draft(schema) == Draft.D2020


@pytest.mark.parametrize("anchor", ["$dynamicAnchor", "$recursiveAnchor"])
def test_dynamic_anchors_are_seen_wherever_they_stand(anchor: str) -> None:
    assert not private({"items": {"x": ["$dynamicAnchor"]}}).has_dynamic_anchors
    assert private({"items": {"x": [{anchor: "a"}]}}).has_dynamic_anchors
    assert private(json.dumps({"a": {"b": {anchor: True}}}).replace("$", "\\u0024")).has_dynamic_anchors
