"""JSON Schema documents: references of every kind, vocabularies, drafts, OpenAPI, and the report."""

from __future__ import annotations

import json
import random
from typing import Any, ClassVar

import jsonschema_rs
import pytest
import referencing
import referencing.jsonschema as known
from random_schemas import root as random_schema

from structgen.errors import GrammarError, GrammarTooComplex, UnsatisfiableGrammar, UnsupportedGrammar
from structgen.grammars import machine as m
from structgen.grammars.json_schema import machine
from structgen.grammars.schema.expand import expand
from structgen.grammars.schema.resources import joined

D2019, D2020 = "https://json-schema.org/draft/2019-09/schema", "https://json-schema.org/draft/2020-12/schema"
D7, D4 = "http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-04/schema#"


def verdicts(schema: Any, texts: list[Any], **options: Any) -> list[bool]:
    made, _ = machine(schema, order="any", whitespace="any", **options)
    read = [m.read(m.start(made), json.dumps(text).encode()) for text in texts]
    return [bool(threads) and m.can_end(threads) for threads in read]


def check(schema: Any, accept: list[Any], reject: list[Any], **options: Any) -> None:
    said = verdicts(schema, accept + reject, **options)
    assert said == [True] * len(accept) + [False] * len(reject), list(zip(accept + reject, said, strict=True))


def registry(**documents: Any) -> Any:
    """Documents under http://host/NAME, with ``__`` for a slash."""
    pairs = [(f"http://host/{name.replace('__', '/')}", contents) for name, contents in documents.items()]
    return referencing.Registry().with_contents(pairs, default_specification=known.DRAFT202012)


class TestDynamicReferences:
    TREE: ClassVar[dict[str, Any]] = {
        "$id": "http://host/tree",
        "$dynamicAnchor": "node",
        "type": "object",
        "properties": {"data": True, "children": {"type": "array", "items": {"$dynamicRef": "#node"}}},
    }

    def test_extension(self) -> None:
        """The example of 2020-12 core, appendix C."""
        strict = {
            "$schema": D2020,
            "$id": "http://host/strict",
            "$dynamicAnchor": "node",
            "$ref": "tree",
            "propertyNames": {"enum": ["data", "children"]},
        }
        deep, wrong = {"children": [{"children": [{"data": 1}]}]}, {"children": [{"children": [{"daat": 1}]}]}
        check(strict, [{}, deep], [wrong], registry=registry(tree=self.TREE))
        check(self.TREE, [{}, deep, wrong], [{"children": {}}])
        # Without an anchor of its own it extends its root alone.
        del strict["$dynamicAnchor"]
        check(strict, [{}, deep, wrong], [{"daat": 1}], registry=registry(tree=self.TREE))

    def test_recursive_extension(self) -> None:
        """The example of 2019-09 core, appendix C."""
        tree = {
            "$schema": D2019,
            "$id": "http://host/tree",
            "$recursiveAnchor": True,
            "type": "object",
            "properties": {"children": {"type": "array", "items": {"$recursiveRef": "#"}}},
        }
        strict = {
            "$schema": D2019,
            "$id": "http://host/strict",
            "$recursiveAnchor": True,
            "$ref": "tree",
            "propertyNames": {"const": "children"},
        }
        deep, wrong = {"children": [{"children": []}]}, {"children": [{"x": 1}]}
        check(strict, [{}, deep], [wrong], registry=registry(tree=tree))
        check({**strict, "$recursiveAnchor": False}, [deep, wrong], [{"x": 1}], registry=registry(tree=tree))
        check(strict, [deep, wrong], [{"x": 1}], registry=registry(tree={**tree, "$recursiveAnchor": False}))

    def test_one_subschema_by_two_ways(self) -> None:
        schema = {
            "$schema": D2020,
            "$id": "http://host/root",
            "type": "object",
            "properties": {"n": {"$ref": "numbers"}, "s": {"$ref": "strings"}, "l": {"$ref": "list"}},
            "$defs": {
                "numbers": {
                    "$id": "numbers",
                    "$ref": "list",
                    "$defs": {"item": {"$dynamicAnchor": "item", "type": "number"}},
                },
                "strings": {
                    "$id": "strings",
                    "$ref": "list",
                    "$defs": {"item": {"$dynamicAnchor": "item", "type": "string"}},
                },
                "list": {
                    "$id": "list",
                    "type": "array",
                    "items": {"$dynamicRef": "#item"},
                    "$defs": {"any": {"$dynamicAnchor": "item"}},
                },
            },
        }
        check(schema, [{"n": [1], "s": ["x"], "l": [1, "x", None]}], [{"n": ["x"]}, {"s": [1]}, {"l": 1}])
        # A plain anchor of that name, or a pointer, is no dynamic anchor: the reference is an ordinary one.
        for target, reference in (({"$anchor": "item"}, "#item"), ({"$dynamicAnchor": "item"}, "#/$defs/any")):
            schema["$defs"]["list"]["$defs"]["any"] = target  # type: ignore[index]
            schema["$defs"]["list"]["items"] = {"$dynamicRef": reference}  # type: ignore[index]
            check(schema, [{"n": ["x"], "s": [1], "l": [None]}], [{"n": 1}])

    @pytest.mark.parametrize(
        ("schema", "pointer"),
        [
            ({"$dynamicRef": "#a"}, "#/$dynamicRef"),
            ({"$dynamicRef": 3}, "#/$dynamicRef"),
            ({"$schema": D2019, "$recursiveRef": "#/a"}, "#/$recursiveRef"),
        ],
    )
    def test_malformed(self, schema: Any, pointer: str) -> None:
        with pytest.raises(GrammarError) as caught:
            machine(schema)
        assert caught.value.pointer == pointer

    @pytest.mark.parametrize("recursive", [False, True])
    def test_random_resources(self, recursive: bool) -> None:
        """Random resources that refer to each other, against jsonschema_rs. 2019-09 only with anchors everywhere or
        nowhere: mixed, it stops at the first resource without one, where section 8.2.4.2 takes the outermost that
        has one."""
        rng = random.Random(random.random())
        compared = accepted = 0
        for _ in range(60):
            schema = _random_resources(rng, recursive)
            validator = jsonschema_rs.validator_for(schema)
            documents = [_random_document(rng, 3) for _ in range(12)]
            try:
                said = verdicts(schema, documents)
            except UnsatisfiableGrammar:
                assert not any(validator.is_valid(each) for each in documents)
                continue
            for document, verdict in zip(documents, said, strict=True):
                assert verdict == validator.is_valid(document), (schema, document)
                accepted += verdict
                compared += 1
        assert compared > 300
        assert 30 < accepted < compared

    def test_many_anchors_have_a_limit(self) -> None:
        """Resources with an anchor each, from any to any: the dynamic scopes are their subsets."""
        n = 40
        everywhere = {"properties": {f"p{i}": {"$ref": f"r{i}"} for i in range(n)}}
        schema = {
            "$schema": D2020,
            "$id": "http://host/",
            **everywhere,
            "$defs": {f"r{i}": {"$id": f"r{i}", "$dynamicAnchor": f"a{i}", **everywhere} for i in range(n)},
        }
        with pytest.raises(GrammarTooComplex, match="dynamic anchors"):
            machine(schema)


def _random_resources(rng: random.Random, recursive: bool) -> Any:
    """Up to four resources in one document. References stand in properties, so that none is circular."""
    n, always = rng.randint(2, 4), rng.random() < 0.5
    resources = []
    for i in range(n):
        properties: dict[str, Any] = {}
        for key in "ab":
            properties[key] = rng.choice(
                [
                    {"$ref": f"r{rng.randrange(n)}"},
                    {"$recursiveRef": "#"} if recursive else {"$dynamicRef": f"#{rng.choice('xy')}"},
                    {"type": rng.choice(["string", "integer", "null"])},
                    {"type": "array", "items": {"$recursiveRef": "#"} if recursive else {"$dynamicRef": "#x"}},
                ]
            )
        made: dict[str, Any] = {"$id": f"r{i}", "properties": properties}
        if rng.random() < 0.5:
            made["required"] = [rng.choice("ab")]
        if rng.random() < 0.5:
            made["type"] = "object"
        if i + 1 < n and rng.random() < 0.4:
            made["allOf"] = [{"$ref": f"r{rng.randrange(i + 1, n)}"}]
        if recursive:
            if always:
                made["$recursiveAnchor"] = True
        else:
            kind = {name: rng.choice(["$dynamicAnchor", "$dynamicAnchor", "$anchor"]) for name in "xy"}
            if rng.random() < 0.3:
                made[kind.pop("x")] = "x"
            kinds = [{"type": "string"}, {"type": "integer"}, {"$ref": f"r{rng.randrange(n)}"}]
            made["$defs"] = {name: {keyword: name, **rng.choice(kinds)} for name, keyword in kind.items()}
        resources.append(made)
    root = {**resources[0], "$schema": D2019 if recursive else D2020, "$id": "http://host/r0"}
    inside = {f"r{i}": each for i, each in enumerate(resources) if i}
    return {**root, "$defs": {**root.get("$defs", {}), **inside}}


def _random_document(rng: random.Random, depth: int) -> Any:
    kind = rng.choice(["object", "object", "array", "leaf"]) if depth else "leaf"
    if kind == "object":
        return {key: _random_document(rng, depth - 1) for key in "ab" if rng.random() < 0.6}
    if kind == "array":
        return [_random_document(rng, depth - 1) for _ in range(rng.randrange(3))]
    return rng.choice(["s", 1, None, {}])


class TestVocabularies:
    @staticmethod
    def metaschema(draft: str, *names: str, **more: bool) -> Any:
        base = draft.removesuffix("schema") + "vocab/"
        return {
            "$schema": draft,
            "$id": "http://host/meta",
            "$vocabulary": {base + name: True for name in names} | more,
        }

    @pytest.mark.parametrize("draft", [D2019, D2020])
    def test_left_out(self, draft: str) -> None:
        schema = {
            "$schema": "http://host/meta",
            "type": "object",
            "properties": {"a": {"minimum": 10}, "b": False},
            "contains": {"const": 1},
            "minContains": 2,
        }
        only = registry(meta=self.metaschema(draft, "core", "applicator"))
        _, report = machine(schema, registry=only)
        check(schema, [{"a": 1}, 5, [1], {}], [{"b": 1}, []], registry=only)
        assert set(report.annotations) >= {"#/type", "#/properties/a/minimum", "#/minContains"}
        both = registry(meta=self.metaschema(draft, "core", "applicator", "validation"))
        check(schema, [{"a": 10}, {}], [{"b": 1}, {"a": 1}, 5], registry=both)
        only = registry(meta=self.metaschema(draft, "core", "validation"))
        check(schema, [{"a": 1, "b": 1}], [5, []], registry=only)

    def test_unevaluated(self) -> None:
        schema = {"$schema": "http://host/meta", "unevaluatedProperties": False}
        check(schema, [{"a": 1}], [], registry=registry(meta=self.metaschema(D2020, "core", "applicator")))
        check(schema, [{}], [{"a": 1}], registry=registry(meta=self.metaschema(D2020, "core", "unevaluated")))
        check(schema, [{}], [{"a": 1}], registry=registry(meta=self.metaschema(D2019, "core", "applicator")))

    def test_unknown(self) -> None:
        schema = {"$schema": "http://host/meta", "type": "null"}
        own = self.metaschema(D2020, "core", "validation", **{"http://host/vocab/mine": True})
        with pytest.raises(UnsupportedGrammar, match="http://host/vocab/mine") as caught:
            machine(schema, registry=registry(meta=own))
        assert caught.value.pointer == "#/$schema"
        own["$vocabulary"]["http://host/vocab/mine"] = False
        check(schema, [None], [1], registry=registry(meta=own))
        check({**schema, "$schema": "http://host/nowhere"}, [None], [1], draft="7")

    def test_formats_are_asserted_by_option_alone(self) -> None:
        schema = {"$schema": "http://host/meta", "format": "ipv4"}
        for names in (("core",), ("core", "format-annotation"), ("core", "format-assertion")):
            own = registry(meta=self.metaschema(D2020, *names))
            check(schema, ["127.0.0.1"], ["127.0.0.256"], registry=own)
            check(schema, ["127.0.0.256"], [], registry=own, format_assertion=False)

    def test_metaschema_of_a_metaschema(self) -> None:
        own = registry(meta={"$schema": "http://host/other"}, other={"$schema": D7})
        check({"$schema": "http://host/meta", "items": [{"const": 1}]}, [[1, 2]], [[2]], registry=own)
        for documents in ({}, {"meta": {}}, {"meta": {"$schema": "http://host/meta"}}, {"meta": True}):
            with pytest.raises(UnsupportedGrammar, match="draft") as caught:
                machine({"$schema": "http://host/meta"}, registry=registry(**documents))
            assert caught.value.pointer == "#/$schema"
        with pytest.raises(GrammarError, match="vocabulary"):
            machine({"$schema": "http://host/meta"}, registry=registry(meta={"$schema": D2020, "$vocabulary": ["x"]}))


class TestRemoteReferences:
    def test_relative_to_ids(self) -> None:
        other = {"$id": "http://elsewhere/b", "$defs": {"c": {"$anchor": "c", "$ref": "d"}}}
        given = registry(a={"items": {"$ref": "folder/x"}}, folder__x={"type": "integer"}).with_contents(
            [("urn:other", other), ("http://elsewhere/d", {"type": "null"})], default_specification=known.DRAFT202012
        )
        check({"$ref": "http://host/a"}, [[1], "x"], [["x"]], registry=given)
        check({"$id": "http://host/z/", "$ref": "../a"}, [[1]], [["x"]], registry=given)
        check({"$id": "http://host/z", "$ref": "/a#/items"}, [1], ["x"], registry=given)
        for reference in ("urn:other#/$defs/c", "urn:other#c", "http://elsewhere/b#c", "http://elsewhere/b#/$defs/c"):
            check({"$ref": reference}, [None], [1], registry=given)

    def test_embedded(self) -> None:
        schema = {
            "$schema": D2020,
            "$id": "http://host/root",
            "properties": {
                "a": {"$ref": "inner/x#/$defs/y"},
                "b": {"$ref": "#/$defs/i/$defs/y"},
                "c": {"$ref": "urn:i"},
            },
            "$defs": {
                "i": {"$id": "inner/x", "$defs": {"y": {"$ref": "y"}}},
                "y": {"$id": "inner/y", "type": "integer"},
                "u": {"$id": "urn:i", "$defs": {"z": {"const": 2}}, "$ref": "#/$defs/z"},
            },
        }
        check(schema, [{"a": 1, "b": 1, "c": 2}], [{"a": "x"}, {"b": "x"}, {"c": 1}])
        # The same through a registry, with nothing of it entered yet.
        given = registry(root=schema)
        check({"$ref": "http://host/inner/x#/$defs/y"}, [1], ["x"], registry=given)
        check({"$ref": "urn:i"}, [2], [1], registry=given)

    def test_pointers(self) -> None:
        schema = {
            "$defs": {'a/b~c%d"é': {"type": "integer"}, "": {"": {"type": "null"}}, "l": {"x-list": [{"const": 1}]}},
            "properties": {
                "a": {"$ref": "#/$defs/a~1b~0c%25d%22é"},
                "b": {"$ref": "#/$defs//"},
                "c": {"$ref": "#/$defs/l/x-list/0"},
                "d": {"$ref": "#/$defs/a~1b~0c%25d%22%C3%A9"},
            },
        }
        check(schema, [{"a": 1, "b": None, "c": 1, "d": 2}], [{"a": "x"}, {"b": 1}, {"c": 2}, {"d": None}])
        for wrong in (
            "#/$defs/x",
            "#/$defs/l/x-list/1",
            "#/$defs/l/x-list/a",
            "#/$defs/l/x-list/²",
            "#l",
            "#/$defs/l/x-list/-1",
        ):
            with pytest.raises(GrammarError, match="leads nowhere"):
                machine({**schema, "items": {"$ref": wrong}})

    def test_identifiers_only_in_schemas(self) -> None:
        schema = {
            "const": {"$id": "http://host/x", "type": "null"},
            "x-own": {"$id": "http://host/x", "type": "integer"},
            "$defs": {"a": {"$id": "http://host/x", "type": "string"}},
        }
        check({"$ref": "http://host/x", "$defs": {"in": schema}}, ["s"], [1, None])

    def test_old_identifiers(self) -> None:
        schema = {"$schema": D7, "allOf": [{"$ref": "#here"}], "definitions": {"a": {"$id": "#here", "type": "null"}}}
        check(schema, [None], [1])
        schema = {"$schema": D4, "allOf": [{"$ref": "#here"}], "definitions": {"a": {"id": "#here", "type": "null"}}}
        check(schema, [None], [1])
        # A sibling of $ref counts for nothing, also not as a base.
        schema = {
            "$schema": D7,
            "$id": "http://host/root",
            "definitions": {"a": {"$id": "http://host/x/", "$ref": "y", "type": "string"}},
            "allOf": [{"$ref": "#/definitions/a"}],
        }
        check(schema, [1], ["x"], registry=registry(y={"type": "integer"}, x__y={"type": "null"}))

    def test_drafts_of_each_document(self) -> None:
        pairs = {"$schema": D2019, "items": [{"type": "integer"}], "prefixItems": [{"type": "null"}]}
        check({"$schema": D2020, "$ref": "http://host/a"}, [[1]], [[None]], registry=registry(a=pairs))
        del pairs["$schema"]  # read as its referrer
        check({"$schema": D2019, "$ref": "http://host/a"}, [[1]], [[None]], registry=registry(a=pairs))
        check({"$schema": D7, "$ref": "http://host/a"}, [[1]], [[None]], registry=registry(a=pairs))
        needs = {"$schema": D2019, "dependentRequired": {"a": ["b"]}}
        check({"$schema": D7, "$ref": "http://host/a"}, [{"a": 1, "b": 1}], [{"a": 1}], registry=registry(a=needs))
        # draft= is the document's, not its references'; unknown ones are read as it, too
        check({"$schema": "urn:odd", "$ref": "http://host/a"}, [{}], [{"a": 1}], draft=7, registry=registry(a=needs))
        inner = {"$id": "http://host/i", "$schema": D7, "allOf": [{"$ref": "#/definitions/n", "type": "string"}]}
        inner["definitions"] = {"n": {}}
        schema = {"$schema": D2020, "properties": {"a": {"$ref": "http://host/i"}}, "$defs": {"i": inner}}
        check(schema, [{"a": 1}], [])
        check({**schema, "$schema": D7}, [{"a": "x"}], [{"a": 1}], draft="2020-12")

    def test_never_the_network(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("socket.socket", lambda *_: pytest.fail("a socket is opened"))
        for schema in ({"$ref": "http://example.com/x"}, {"$schema": "http://example.com/x"}, {"$ref": "file:///x"}):
            with pytest.raises(GrammarError, match="registry"):
                machine(schema)

    def test_registries(self) -> None:
        with pytest.raises(GrammarError, match=r"referencing\.Registry"):
            machine({}, registry={"http://host/a": {}})

        def retrieve(uri: str) -> Any:
            if uri == "http://host/a":
                return known.DRAFT202012.create_resource({"type": "null"})
            raise OSError("no such file")

        own = referencing.Registry(retrieve=retrieve)  # type: ignore[call-arg]
        check({"$ref": "http://host/a"}, [None], [1], registry=own)
        with pytest.raises(GrammarError, match="no such file"):
            machine({"$ref": "http://host/b"}, registry=own)

    @pytest.mark.parametrize(
        ("base", "reference", "made"),
        [
            ("http://h/a/b", "c", "http://h/a/c"),
            ("own://h/a/b", "../c", "own://h/c"),
            ("own://h/a/b", "urn:x", "urn:x"),
            ("urn:a", "urn:b", "urn:b"),
            ("", "a", "a"),
        ],
    )
    def test_joined(self, base: str, reference: str, made: str) -> None:
        assert joined(base, reference) == made

    @pytest.mark.parametrize("draft", ["4", "6", "7", "2019-09", "2020-12"])
    def test_metaschemas_describe_themselves(self, draft: str) -> None:
        uri = {"4": D4, "6": "http://json-schema.org/draft-06/schema#", "7": D7, "2019-09": D2019, "2020-12": D2020}
        schema = {"$schema": uri[draft], "$ref": uri[draft]}
        wrong = [{"minLength": -1}, {"properties": {"a": {"type": "objekt"}}}, {"allOf": {}}]
        check(schema, [{}, {"properties": {"a": {"minLength": 1}}}], wrong, format_assertion=False)


class TestOpenAPI:
    def test_nullable_is_an_annotation(self) -> None:
        schema = {"type": "string", "nullable": True, "example": "x", "xml": {}, "externalDocs": {}, "deprecated": True}
        check(schema, ["x"], [None])
        _, report = machine(schema)
        assert [each.removeprefix("#/") for each in report.annotations] == list(schema)[1:]

    @pytest.mark.parametrize("keyword", ["oneOf", "anyOf"])
    def test_discriminator(self, keyword: str) -> None:
        """As many alternatives as tags, and the same language as without."""
        names = [f"kind{i}" for i in range(40)]
        schema = {
            keyword: [{"$ref": f"#/$defs/{name}"} for name in names],
            "discriminator": {"propertyName": "kind", "mapping": {name: f"#/$defs/{name}" for name in names}},
            "$defs": {
                name: {
                    "type": "object",
                    "properties": {"kind": {"enum": [name]}, "value": {"type": "string" if i % 2 else "integer"}},
                    "required": ["kind", "value"],
                }
                for i, name in enumerate(names)
            },
        }
        _, report = machine(schema)
        assert len(expand([report.places[0]])) == len(names)
        assert "#/discriminator" in report.annotations
        accept = [{"kind": "kind3", "value": "x"}, {"kind": "kind4", "value": 1}]
        check(
            schema, accept, [{"kind": "kind3", "value": 1}, {"kind": "kind4", "value": "x"}, {"kind": "k", "value": 1}]
        )

    def test_discriminator_neither_narrows_nor_loosens(self) -> None:
        branches = [{"properties": {"t": {"type": "string"}, "a": {"type": "integer"}}}, {"required": ["b"]}]
        documents = [{"t": "Cat", "a": 1}, {"t": "Cat", "b": 1}, {"t": "Dog", "a": "x", "b": 1}, {"a": "x"}, {}]
        said = {"propertyName": "t", "mapping": {"Cat": "#/oneOf/0"}}
        for keyword in ("oneOf", "anyOf"):
            plain = verdicts({keyword: branches}, documents)
            assert verdicts({keyword: branches, "discriminator": said}, documents) == plain


class TestReport:
    def test_every_keyword_is_somewhere(self) -> None:
        """Each keyword of each reachable subschema stands in exactly one list."""
        rng = random.Random(random.random())
        extra = {
            "title": "t",
            "$comment": "c",
            "x-a": 1,
            "then": {},
            "minContains": 1,
            "$anchor": "n",
            "nullable": True,
        }
        seen = 0
        for _ in range(150):
            schema = random_schema(rng)
            if isinstance(schema, dict) and rng.random() < 0.7:
                schema = {**schema, **dict(rng.sample(sorted(extra.items()), 3))}
            draft = rng.choice(["4", "6", "7", "2019-09", "2020-12"])
            try:
                _, report = machine(schema, draft=draft)
            except GrammarError:
                continue
            lists = [report.enforced, report.gated, report.annotations, report.structure]
            pointers = [pointer for each in lists for pointer in each]
            assert len(set(pointers)) == len(pointers)
            assert set(pointers) >= _keywords(schema, draft)
            assert sum(len(line.pointers) for line in report.lines) == len(pointers)
            seen += len(pointers)
        assert seen > 300

    def test_people_can_read_it(self) -> None:
        _, report = machine({"type": "string", "title": "t", "$id": "http://host/x"})
        lines = str(report).splitlines()
        assert lines[0] == (
            "draft 2020-12 (a guess: it has no $schema); keywords: 1 enforced, 0 gated, 1 annotation only"
        )
        assert [line.split() for line in lines[1:]] == [
            ["type", "enforced", "1", "#/type"],
            ["title", "annotations", "1", "#/title"],
            ["$id", "structure", "1", "#/$id"],
        ]
        from rich.console import Console

        console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
        console.print(report)
        assert "annotation only" in console.export_text()
        assert len(repr(report)) < 100

    def test_who_said_the_draft(self) -> None:
        assert machine({"$schema": D7})[1].draft_from == "$schema"
        assert machine({"$schema": D7}, draft="4")[1].draft_from == "argument"
        assert machine({})[1].draft_from == "guess"


def _keywords(schema: Any, draft: str) -> set[str]:
    """Pointers of the keywords of ``schema`` and of the subschemas that certainly count: those of its properties and
    items, and of allOf, anyOf and oneOf."""
    found: set[str] = set()
    stack = [(schema, "#")]
    while stack:
        at, pointer = stack.pop()
        if not isinstance(at, dict):
            continue
        found |= {f"{pointer}/{key}" for key in at}
        if "$ref" in at and draft in ("4", "6", "7"):
            continue
        stack += [(each, f"{pointer}/properties/{key}") for key, each in at.get("properties", {}).items()]
        if isinstance(at.get("items"), dict):
            stack.append((at["items"], f"{pointer}/items"))
        for keyword in ("allOf", "anyOf", "oneOf"):
            stack += [(each, f"{pointer}/{keyword}/{i}") for i, each in enumerate(at.get(keyword, []))]
    return found
