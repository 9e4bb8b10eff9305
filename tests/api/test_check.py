"""``structgen check``: verdicts with their place, lints, exit codes, and what scripts read."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.cli import main
from structgen.errors import UnsatisfiableGrammar
from structgen.grammars.grammar import Grammar
from structgen.grammars.schema.expectation import Probe
from structgen.grammars.schema.lints import Lint, Subject, lints
from structgen.grammars.schema.naming import anchors
from structgen.grammars.schema.position import position
from structgen.verdicts import judge

PERSON: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 5},
        "age": {"type": "integer", "minimum": 10, "maximum": 120},
        "color": {"enum": ["red", "blue", None]},
        "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$"}, "maxItems": 2},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.fixture
def person(tmp_path: Path) -> str:
    (tmp_path / "person.json").write_text(json.dumps(PERSON))
    return str(tmp_path / "person.json")


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["check", *words])
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return code, out, err


def checked(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    code, out, _ = run(capsys, "--json", *words)
    return code, json.loads(out)


class TestVerdicts:
    @pytest.mark.parametrize(
        ("text", "column", "pointer", "wrong", "expected", "demands"),
        [
            ('{"age": "x"}', 9, "/age", '"x" is not allowed here', "an integer", ["#/properties/age/type"]),
            ('{"age": 5}', 10, "/age", "5 is not allowed", "an integer", ["#/properties/age/minimum"]),
            ('{"age": 1500}', 11, "/age", "after 15 may come", "an integer", ["#/properties/age/maximum"]),
            ('{"color": "green"}', 12, "/color", '"green"', '"red", "blue" or null', ["#/properties/color/enum"]),
            ('{"name": "abcdef"}', 16, "/name", '"abcdef"', "a string", ["#/properties/name/maxLength"]),
            ('{"nme": 1}', 4, "", 'the key "nme" is not allowed', 'one of the keys "name", "age"', None),
            ('{"name": "a", "name": "b"}', 16, "", 'the key "name" stands twice', '"age", "color" or "tags"', None),
            ('{"name": "a"}', 13, "", 'lacks the key "age"', 'a comma and one of the keys "age"', ["#/required"]),
            ("{}", 2, "", 'lacks the keys "name", "age"', 'one of the keys "name"', ["#/required"]),
            ('{"age": 12, }', 13, "", "there is a comma before '}'", 'one of the keys "name"', None),
            ('{"tags": ["a", "B"]}', 17, "/tags/1", '"B"', "a string", ["#/properties/tags/items/pattern"]),
            ('{"tags": ["a", "b", "c"]}', 19, "/tags", "no more items", "the end of the array", None),
            ('{"age" 12}', 8, "/age", "'1' cannot stand here", "a colon", None),
            ('{"age": 12, "name": "x"} x', 26, "", "'x' cannot stand here", "the end of the text", []),
            ('{"age": 12, "name": "x"', 24, "", "the text ends too early", "the end of the object", []),
            ("", 1, "", "the text ends too early", "an object", []),
            ("[1]", 1, "", "'[' cannot stand here", "an object", ["#/type"]),
        ],
    )
    def test_place_and_words(
        self,
        capsys: pytest.CaptureFixture[str],
        person: str,
        text: str,
        column: int,
        pointer: str,
        wrong: str,
        expected: str,
        demands: list[str] | None,
    ) -> None:
        code, made = checked(capsys, person, text)
        (verdict,) = made["texts"]
        assert code == 1
        assert (verdict["line"], verdict["column"], verdict["pointer"]) == (1, column, pointer)
        assert wrong in verdict["wrong"]
        assert expected in verdict["expected"]
        if demands is not None:
            assert verdict["demands"] == demands

    def test_lines_bytes_and_carets(self, capsys: pytest.CaptureFixture[str], person: str, tmp_path: Path) -> None:
        (tmp_path / "ann.json").write_text('{\n  "name": "é",\n  "age": 7\n}\n', encoding="utf-8")
        code, out, err = run(capsys, person, str(tmp_path / "ann.json"))
        assert (code, err) == (1, "")
        assert f"refused   {tmp_path}/ann.json\n  line 3, column 11, byte 28, in /age: 7 is not allowed here" in out
        assert '\n  |   "age": 7\n  |          ~^\n  see #/properties/age/minimum: 10\n' in out

    def test_documents_are_files_or_texts(
        self, capsys: pytest.CaptureFixture[str], person: str, tmp_path: Path
    ) -> None:
        (tmp_path / "ann.json").write_text('{"name": "Ann", "age": 31}\n')
        code, made = checked(capsys, person, str(tmp_path / "ann.json"), '{"age": 31, "name": "Ann"}')
        assert code == 0
        assert [verdict["accepted"] for verdict in made["texts"]] == [True, True]
        assert "note" not in made["texts"][0]
        assert 'order="schema"' in made["texts"][1]["note"]
        code, _, err = run(capsys, person, str(tmp_path / "bob.json"))
        assert (code, err) == (2, f"structgen: there is no document file '{tmp_path}/bob.json'\n")

    def test_order_and_numbers(self, capsys: pytest.CaptureFixture[str], person: str) -> None:
        swapped, spelled = '{"age": 31, "name": "Ann"}', '{"name": "Ann", "age": 31.0}'
        code, made = checked(capsys, "--order", "schema", "--numbers", "plain", person, swapped, spelled)
        assert code == 1
        assert "--order any" in made["texts"][0]["note"]
        assert "--numbers any" in made["texts"][1]["note"]
        code, made = checked(capsys, person, spelled)
        assert code == 0
        assert 'numbers="plain"' in made["texts"][0]["note"]

    @settings(max_examples=60, deadline=None)
    @given(
        st.dictionaries(
            st.sampled_from(["name", "age", "color", "tags", "other"]),
            st.sampled_from(["a", "abcdef", 5, 12, 200, 1.5, None, True, "red", [], ["a"], ["a", "B"], ["a"] * 3, {}]),
            max_size=4,
        )
    )
    def test_verdicts_are_the_validators(self, document: dict[str, Any]) -> None:
        grammar = Grammar.from_json_schema(PERSON, order="any", whitespace="any", numbers="any")
        verdict = judge(grammar, json.dumps(document))
        errors = list(jsonschema.Draft202012Validator(PERSON).iter_errors(document))
        assert verdict.accepted == (not errors)
        if errors:
            paths = {"".join(f"/{each}" for each in error.absolute_path) for error in errors}
            assert verdict.pointer in paths
            assert verdict.what
            assert verdict.expected

    @settings(max_examples=60, deadline=None)
    @given(st.data())
    def test_positions(self, data: Any) -> None:
        """Every cut of a JSON text knows which value it is in."""
        leaf = st.one_of(st.none(), st.booleans(), st.integers(), st.text('ab"\\é', max_size=3))
        value = data.draw(
            st.recursive(
                leaf,
                lambda inner: (
                    st.lists(inner, max_size=3) | st.dictionaries(st.text('ab"/', max_size=2), inner, max_size=3)
                ),
                max_leaves=6,
            )
        )
        text = json.dumps(value, ensure_ascii=data.draw(st.booleans()))
        at = position(text[: data.draw(st.integers(0, len(text)))])
        inner = value
        for step in at.path:
            if isinstance(inner, list) and step == 0 and not inner:
                return  # an empty array, before its end
            inner = inner[step]
        if at.role in ("key", "next"):
            assert isinstance(inner, dict if at.container == "{" else list)
        if at.container == "{":
            assert len(set(at.keys)) == len(at.keys)
        assert at.start <= len(text)

    def test_words_are_legal(self) -> None:
        """Whatever literals and keys are named may really come, and no others of the schema."""
        for _ in range(20):
            values = random.sample(["a", "ab", "b", 'q"', 1, 12, 2.5, None, True, False], random.randint(1, 6))
            grammar = Grammar.from_json_schema({"enum": values}, whitespace="any")
            probe = Probe(grammar.machine, grammar.report.places)
            words = probe.expected(probe.start(), position(""))
            assert sorted(words) == sorted(json.dumps(value) for value in values)
            assert all(grammar.matches(word) for word in words)


def found(schema: Any, kind: str, whitespace: str = "bounded", **options: Any) -> dict[str, Lint]:
    grammar = Grammar.from_json_schema(schema, whitespace="any", **options)
    made = lints(Subject(grammar.report, grammar.machine.root, whitespace))  # type: ignore[attr-defined]
    assert all(lint.message and lint.advice and lint.pointer.startswith("#") for lint in made)
    return {lint.pointer: lint for lint in made if lint.kind == kind}


class TestLints:
    def test_a_tidy_schema_has_none(self) -> None:
        grammar = Grammar.from_json_schema(
            {**PERSON, "properties": {**PERSON["properties"], "tags": {"type": "array", "maxItems": 2, "items": False}}}
        )
        assert lints(Subject(grammar.report, grammar.machine.root)) == []  # type: ignore[attr-defined]

    @pytest.mark.parametrize(
        ("open_", "closed"),
        [
            ({"type": "string"}, {"type": "string", "maxLength": 3}),
            ({"type": "string", "minLength": 2}, {"type": "string", "pattern": "^a$"}),
            ({"type": "string"}, {"allOf": [{"type": "string"}, {"maxLength": 3}]}),
            ({"type": "array", "items": {"const": 1}}, {"type": "array", "items": {"const": 1}, "maxItems": 3}),
            ({"type": "array", "items": {"const": 1}}, {"type": "array", "items": False}),
            ({"type": "integer", "minimum": 3}, {"type": "integer", "minimum": 3, "maximum": 9}),
            ({"type": "number", "minimum": 0, "maximum": 1}, {"type": "number", "enum": [0.5]}),
            ({"type": "number", "minimum": 0}, {"type": "number", "maximum": 1, "minimum": 0, "multipleOf": 0.1}),
            ({"type": "object"}, {"type": "object", "additionalProperties": False}),
            (
                {"type": "object", "additionalProperties": {"const": 1}},
                {"type": "object", "additionalProperties": {"const": 1}, "maxProperties": 2},
            ),
            ({}, {"const": 1}),
        ],
    )  # fmt: skip
    def test_no_way_to_stop(self, open_: Any, closed: Any) -> None:
        for wrap, pointer in (
            (lambda each: each, "#"),
            (lambda each: {"type": "array", "items": each, "maxItems": 1}, "#/items"),
            (lambda each: {"anyOf": [{"type": "null"}, each]}, "#/anyOf/1"),
        ):
            said = found(wrap(open_), "no way to stop")
            assert list(said) == [pointer] or (open_ == {} and list(said) == ["#"])
            assert not found(wrap(closed), "no way to stop")

    def test_recursion(self) -> None:
        tree = {
            "type": "object",
            "properties": {"left": {"$ref": "#"}, "value": {"type": "boolean"}},
            "additionalProperties": False,
        }
        said = found(tree, "no way to stop")
        assert list(said) == ["#/properties/left/$ref"]
        assert "in time" not in said["#/properties/left/$ref"].advice
        tree["properties"]["left"] = {"$ref": "#/properties/value"}  # type: ignore[index]
        assert not found(tree, "no way to stop")

    def test_whitespace(self) -> None:
        assert not found(PERSON, "unbounded whitespace")
        assert list(found(PERSON, "unbounded whitespace", "any")) == ["#"]

    def test_unreachable(self) -> None:
        schema = {
            "type": "object",
            "properties": {
                "a": {"anyOf": [{"type": "string", "minLength": 2, "maxLength": 1}, {"const": 1}]},
                "b": {"type": "string", "enum": ["x", 1, None]},
                "c": {"allOf": [{"type": "string"}, {"type": "null"}]},
                "d": {"type": "integer", "oneOf": [{"minimum": 5}, {"type": "string"}, {"minimum": 3}]},
                "e": {"anyOf": [{"enum": [1, "x"], "type": "integer"}, {"type": "string"}]},
            },
        }
        assert set(found(schema, "unreachable")) == {
            "#/properties/a/anyOf/0",
            "#/properties/b/enum/1",
            "#/properties/b/enum/2",
            "#/properties/c",
            "#/properties/d/oneOf/0",
            "#/properties/d/oneOf/1",
            "#/properties/e/anyOf/0/enum/1",
        }

    def test_unreachable_agrees_with_brute_force(self) -> None:
        """An enum value is dead exactly when no text with it is accepted."""
        for _ in range(15):
            values = random.sample([0, 1, 2, 5, 10, "a", "abc", None, True], 5)
            part = random.choice(
                [{"minimum": 2}, {"maxLength": 1}, {"type": ["integer", "null"]}, {"not": {"const": 1}}]
            )
            schema = {"enum": values, "anyOf": [part, {"type": "boolean"}]}
            grammar = Grammar.from_json_schema(schema)
            said = found(schema, "unreachable")
            for i, value in enumerate(values):
                assert (f"#/enum/{i}" in said) == (not grammar.matches(json.dumps(value))), (schema, value)

    def test_alternatives_are_not_mixed(self) -> None:
        """The same key in several branches is no contradiction; with what holds beside them it may be one."""
        tags = [{"properties": {"t": {"const": tag}}, "required": ["t"]} for tag in "abc"]
        for keyword in ("oneOf", "anyOf"):
            assert not found({"type": "object", keyword: tags}, "unreachable")
            said = found({"type": "object", keyword: tags, "properties": {"t": {"enum": ["a", "b"]}}}, "unreachable")
            assert f"#/{keyword}/2" in said
            assert not {f"#/{keyword}/0", f"#/{keyword}/1", "#/properties/t"} & set(said)
        twice = {
            "properties": {"a": {"$ref": "#/$defs/x"}, "b": {"$ref": "#/$defs/x", "type": "string"}},
            "$defs": {"x": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        }
        assert not found(twice, "unreachable")  # dead under b, alive under a
        del twice["properties"]["a"]
        assert set(found(twice, "unreachable")) == {"#/$defs/x/anyOf/1"}

    def test_dead_branches_are_dead(self) -> None:
        parts: list[Any] = [{"minimum": 2}, {"maximum": 1}, {"type": "string"}, {"maxLength": 1}, {"type": "integer"}]
        parts += [{"not": {"type": "integer"}}, {"const": 2}, {"type": ["null", "string"], "minLength": 2}, False]
        pool: list[Any] = [0, 1, 2, 3, 1.5, "", "a", "ab", None, True, [], {}]
        dead = 0
        for _ in range(40):
            keyword = random.choice(["anyOf", "oneOf"])
            schema = {**random.choice(parts[:-1]), keyword: random.sample(parts, 3)}
            try:
                said = found(schema, "unreachable")
            except UnsatisfiableGrammar:
                continue
            valid = [each for each in pool if jsonschema.Draft202012Validator(schema).is_valid(each)]
            for i, branch in enumerate(schema[keyword]):
                if f"#/{keyword}/{i}" in said:
                    dead += 1
                    taken = [each for each in valid if jsonschema.Draft202012Validator(branch).is_valid(each)]
                    assert not taken, (schema, branch, taken)
        assert dead

    def test_keywords(self) -> None:
        schema = {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "title": "t",
            "x-mine": 1,
            "minlength": 3,
            "nullable": True,
            "dependentRequired": {},
            "then": {},
            "format": "datetime",
            "properties": {"a": {"$ref": "#/definitions/a", "maxLength": 2}},
            "definitions": {"a": {"type": "string"}},
        }
        unknown = found(schema, "unknown keyword")
        assert {pointer: lint.advice for pointer, lint in unknown.items()} == {"#/minlength": "did you mean minLength?"}
        ignored = found(schema, "not enforced")
        assert set(ignored) == {"#/nullable", "#/dependentRequired", "#/then", "#/properties/a/maxLength"}
        assert "drafts 2019-09 to 2020-12" in ignored["#/dependentRequired"].message
        assert "beside $ref" in ignored["#/properties/a/maxLength"].message
        assert "'date-time'" in found(schema, "format unknown")["#/format"].advice

    def test_required(self) -> None:
        schema = {"properties": {"age": {}}, "patternProperties": {"^p": {}}, "required": ["agee", "age", "pq"]}
        said = found(schema, "required, not described")
        assert {pointer: lint.advice for pointer, lint in said.items()} == {"#/required/0": "did you mean 'age'?"}
        schema = {"properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
        assert not found(schema, "required, not described")

    @pytest.mark.parametrize(
        ("pattern", "tied"),
        [
            ("^a$", True),
            ("^(a|b)$", True),
            ("^a|b$", False),
            ("^a$|^b$", True),
            ("(^a$)|(^b$)", True),
            ("(?:^a$)", True),
            ("a", False),
            ("^a", False),
            (r"^a\$", False),
            (r"^a\\$", True),
            ("^[|)]$", True),
        ],
    )
    def test_anchors(self, pattern: str, tied: bool) -> None:
        assert anchors(pattern) == (True, True) if tied else anchors(pattern) != (True, True)
        assert bool(found({"type": "string", "pattern": pattern}, "pattern not anchored")) != tied
        if not tied:  # and indeed, other text may stand around
            grammar = Grammar.from_json_schema({"type": "string", "pattern": pattern})
            assert any(grammar.matches(f'"{x}a{y}"') for x in ("", "#") for y in ("", "#", "$#", "b", "#b") if x or y)

    def test_large_schemas_in_part(self) -> None:
        schema = {"type": "object", "properties": {f"p{i}": {"const": i} for i in range(1100)}}
        assert list(found(schema, "not all looked at")) == ["#"]
        assert not found(PERSON, "not all looked at")

    def test_draft(self) -> None:
        (lint,) = found({"items": [{}]}, "draft guessed").values()
        assert "2019-09" in lint.message
        assert "#/items" in lint.message
        assert not found({"items": [{}]}, "draft guessed", draft="7")

    def test_discriminator(self) -> None:
        schema = {
            "oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}, {"$ref": "#/$defs/c"}],
            "discriminator": {"propertyName": "t", "mapping": {"a": "#/$defs/a"}},
            "$defs": {
                "a": {"type": "object", "properties": {"t": {"const": "a"}}, "required": ["t"]},
                "b": {"type": "object", "properties": {"t": {"type": "string", "maxLength": 1}}, "required": ["t"]},
                "c": {"type": "object", "properties": {"t": {"const": "c"}}},
            },
        }
        assert set(found(schema, "discriminator")) == {"#/oneOf/1", "#/oneOf/2"}
        assert not found(schema, "not enforced")


class TestCommand:
    def test_tables(self, capsys: pytest.CaptureFixture[str], person: str) -> None:
        code, out, err = run(capsys, person)
        assert (code, err) == (0, "")
        assert out.startswith(f"{person}: ok\ndraft 2020-12; keywords: 15 enforced, 0 gated, 0 annotation only\n")
        assert "maxLength" in out
        assert "\x1b" not in out  # no colours in a pipe
        assert all(line == line.rstrip() for line in out.splitlines())
        code, quiet, _ = run(capsys, person, "-q")
        assert len(quiet) < len(out)

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (['{"type": "objekt"}'], "at #/type"),
            (['{"allOf": [{"type": "null"}, {"type": "string"}]}'], "no value satisfies"),
            (['{"type": "object",\n "a": }'], "line 2, column 7"),
            (['{"$ref": "http://example.com/x"}'], "registry"),
            (["--regex", "[a"], "column"),
        ],
    )
    def test_bad_grammars(self, capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
        code, out, err = run(capsys, *words)
        assert (code, out) == (1, "")
        assert said in err
        code, made = checked(capsys, *words)
        assert code == 1
        assert made["ok"] is False
        assert made["error"]["message"]

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["missing.json"], "no schema file 'missing.json'"),
            (["missing.lark"], "no grammar file"),
            (["--order", "any", "sql.lark"], "--order belongs to JSON Schemas"),
            (["--draft", "7", "--regex", "a"], "--draft belongs to JSON Schemas"),
            (["--order", "some", "{}"], "invalid choice"),
            (["--registry", "missing.json", "{}"], "no schema file"),
        ],
    )
    def test_wrong_usage(self, capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
        code, out, err = run(capsys, *words)
        assert (code, out) == (2, "")
        assert said in err

    def test_registry(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        (tmp_path / "a.json").write_text('{"$id": "http://example.com/a", "type": "integer"}')
        (tmp_path / "b.json").write_text('{"type": "string", "maxLength": 1}')
        schema = '{"prefixItems": [{"$ref": "http://example.com/a"}, {"$ref": "urn:b"}], "type": "array"}'
        files = ["--registry", str(tmp_path / "a.json"), "--registry", f"urn:b={tmp_path}/b.json"]
        code, made = checked(capsys, *files, schema, '[1, "x"]', '["x"]', '[1, "xy"]')
        assert code == 1
        assert [verdict["accepted"] for verdict in made["texts"]] == [True, False, False]
        assert made["texts"][1]["demands"] == ["http://example.com/a#/type"]
        code, _, err = run(capsys, "--registry", str(tmp_path / "b.json"), "{}")
        assert code == 2
        assert "say by which URI" in err

    def test_draft_and_formats(self, capsys: pytest.CaptureFixture[str]) -> None:
        schema = '{"items": [{"format": "date"}], "additionalItems": false, "type": "array"}'
        assert checked(capsys, "--draft", "7", schema, '["2020-02-30"]')[0] == 1
        code, made = checked(capsys, "--draft", "7", "--no-format-assertion", schema, '["2020-02-30"]')
        assert code == 0
        assert made["report"]["draft"] == "7"
        assert made["report"]["draft_from"] == "argument"
        assert run(capsys, "--draft", "8", schema)[0] == 1

    def test_piped(self, person: str) -> None:
        command = [sys.executable, "-m", "structgen", "check", person, "--lines", "--json"]
        given = '{"name": "Ann", "age": 31}\n{"name": "Ann"}\n'
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, done.stderr) == (1, "")
        assert [verdict["accepted"] for verdict in json.loads(done.stdout)["texts"]] == [True, False]


def test_items_that_stand_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema, document = tmp_path / "s.json", tmp_path / "d.json"
    schema.write_text('{"type": "array", "uniqueItems": true}')
    document.write_text('["a", "\\u0061"]')
    assert main(["check", str(schema), str(document)]) == 1
    assert "see #/uniqueItems: true" in capsys.readouterr().out
