"""The official JSON Schema test suite and real schemas with instances, where they are at hand (sampled; set
``STRUCTGEN_ALL=1`` for all of them)."""

from __future__ import annotations

import json
import lzma
import os
import random
import tarfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import referencing
import referencing.jsonschema as known

from structgen.errors import GrammarError, GrammarTooComplex, UnsatisfiableGrammar, UnsupportedGrammar
from structgen.grammars import machine as m
from structgen.grammars.json_schema import machine

SHARED = Path(__file__).resolve().parents[2].parent / "shared"
SUITE = SHARED / "data" / "json_schema_test_suite.tar.xz"
REAL = SHARED / "data" / "maskbench_dev.jsonl.xz"
CASES = SHARED / "cases" / "cases.jsonl"
ALL = bool(os.environ.get("STRUCTGEN_ALL"))

DRAFTS = {
    "draft4": (known.DRAFT4, "http://json-schema.org/draft-04/schema#"),
    "draft6": (known.DRAFT6, "http://json-schema.org/draft-06/schema#"),
    "draft7": (known.DRAFT7, "http://json-schema.org/draft-07/schema#"),
    "draft2019-09": (known.DRAFT201909, "https://json-schema.org/draft/2019-09/schema"),
    "draft2020-12": (known.DRAFT202012, "https://json-schema.org/draft/2020-12/schema"),
}
REFUSED = {"draft4": 5, "draft6": 5, "draft7": 5, "draft2019-09": 83, "draft2020-12": 100}
"""Groups of required tests that may be refused so far."""


def takes(made: m.Machine, text: str) -> bool:
    threads = m.read(m.start(made), text.encode("utf-8", "surrogatepass"))
    return bool(threads) and m.can_end(threads)


def whole_floats(data: Any) -> bool:
    """Whether an integer is spelled 1.0 or 1e9, which numbers="plain" does not write."""
    if isinstance(data, float):
        return data.is_integer()
    if isinstance(data, dict):
        return any(whole_floats(each) for each in data.values())
    return isinstance(data, list) and any(whole_floats(each) for each in data)


@lru_cache(maxsize=1)
def suite() -> dict[str, Any]:
    if not SUITE.exists():
        pytest.skip(f"needs {SUITE.name}")
    found = {}
    with tarfile.open(SUITE) as archive:
        for member in archive:
            if member.isfile() and member.name.endswith(".json"):
                file = archive.extractfile(member)
                assert file is not None
                path = member.name[member.name.index("tests/" if "tests/" in member.name else "remotes/") :]
                found[path] = json.load(file)
    return found


def remotes() -> Any:
    resources = []
    for path, contents in suite().items():
        if path.startswith("remotes/"):
            name = path.removeprefix("remotes/")
            default = DRAFTS.get(name.split("/")[0], DRAFTS["draft2020-12"])[0]
            resource = referencing.Resource.from_contents(contents, default_specification=default)
            resources.append((f"http://localhost:1234/{name}", resource))
    return referencing.Registry().with_resources(resources)


def groups(draft: str) -> Iterator[tuple[str, Any]]:
    for path, contents in suite().items():
        if path.startswith(f"tests/{draft}/") and path.count("/") == 2:
            yield from ((f"{path}: {group['description']}", group) for group in contents)


@pytest.mark.parametrize("draft", list(DRAFTS))
def test_official_suite(draft: str) -> None:
    registry, refused, checked = remotes(), [], 0
    chosen = list(groups(draft))
    for where, group in chosen if ALL else random.sample(chosen, 60):
        schema = group["schema"]
        named = DRAFTS[draft][1] if not isinstance(schema, dict) or "$schema" not in schema else None
        try:
            made, _ = machine(
                schema,
                order="any",
                whitespace="any",
                registry=registry,
                draft=named,
                format_assertion="/format.json" not in where,
            )
        except UnsatisfiableGrammar:
            assert not any(test["valid"] for test in group["tests"]), where
            continue
        except UnsupportedGrammar:
            refused.append(where)
            continue
        for test in group["tests"]:
            verdict = takes(made, json.dumps(test["data"], ensure_ascii=False))
            if not (test["valid"] and whole_floats(test["data"])):
                assert verdict == test["valid"], (where, test)
                checked += 1
    assert checked > 100
    assert len(refused) <= REFUSED[draft], refused


def test_real_schemas() -> None:
    if not REAL.exists():
        pytest.skip(f"needs {REAL.name}")
    with lzma.open(REAL) as file:
        lines = file.readlines()
    refused = 0
    chosen = lines if ALL else random.sample(lines, 150)
    for line in chosen:
        case = json.loads(line)
        try:
            made, _ = machine(case["schema"], order="any", whitespace="any")
        except UnsatisfiableGrammar:
            assert not any(test["valid"] for test in case["tests"]), case["name"]
            continue
        except (UnsupportedGrammar, GrammarTooComplex):
            refused += 1
            continue
        for test in case["tests"]:
            if not (test["valid"] and whole_floats(test["data"])):
                text = json.dumps(test["data"], ensure_ascii=False)
                assert takes(made, text) == test["valid"], (case["name"], text)
    assert refused <= len(chosen) // 10


def _reported() -> list[Any]:
    if not CASES.exists():
        return []
    with CASES.open() as file:
        return [case for case in map(json.loads, file) if case["kind"] == "json_schema"]


@pytest.mark.skipif(not CASES.exists(), reason="needs the shared cases")
@pytest.mark.parametrize("case", _reported(), ids=lambda case: case["id"])
def test_reported_cases(case: Any) -> None:
    scope: dict[str, Any] = {}
    if case.get("form") == "python":
        exec(case["grammar"], scope)
    else:
        scope["G"] = json.loads(case["grammar"])
    expect = case["expect"]
    try:
        made, _ = machine(scope["G"], order="any" if "lenient" in case["note"] else "schema", whitespace="any")
    except UnsupportedGrammar:
        assert "compile error" in expect
        return
    except GrammarError as error:
        pointer = error.pointer
        assert "clear compile error" in expect
        assert pointer is not None
        return
    assert not expect.startswith("clear compile error")
    for text in case["accept"] + [eval(source, scope) for source in case.get("accept_py", [])]:
        if "lenient" not in expect:
            assert takes(made, text), text
    for text in case["reject"] + [eval(source, scope) for source in case.get("reject_py", [])]:
        assert not takes(made, text), text
