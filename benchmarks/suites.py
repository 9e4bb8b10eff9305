"""Verdicts on the official JSON Schema Test Suite and on schemas with judged documents.

    python benchmarks/suites.py [--suite JSON-Schema-Test-Suite] [--data SCHEMAS.jsonl] [--out FILE.json]

Everything is taken in any order of keys, any whitespace and any spelling of numbers; ``format.json``, which wants
annotations, with ``format_assertion=False``; remote documents from the suite's ``remotes``. SCHEMAS has a JSON object
with ``name``, ``schema`` and ``tests`` (``data``, ``valid``) a line. Lists each wrong verdict and each schema that is
refused although a valid document is known.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import referencing
import referencing.jsonschema as dialects

import structgen as sg

DRAFTS = {
    "draft4": ("4", "http://json-schema.org/draft-04/schema#", dialects.DRAFT4),
    "draft6": ("6", "http://json-schema.org/draft-06/schema#", dialects.DRAFT6),
    "draft7": ("7", "http://json-schema.org/draft-07/schema#", dialects.DRAFT7),
    "draft2019-09": ("2019-09", "https://json-schema.org/draft/2019-09/schema", dialects.DRAFT201909),
    "draft2020-12": ("2020-12", "https://json-schema.org/draft/2020-12/schema", dialects.DRAFT202012),
}
COLUMNS = ("schemas", "documents", "wrong_accepts", "wrong_rejects", "refused")
OPTIONS: dict[str, Any] = {"order": "any", "numbers": "any", "whitespace": "any"}


class Tally:
    """What came out, by part, and each fault in words."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {}
        self.faults: list[str] = []

    def judge(self, part: str, name: str, schema: Any, tests: list[Any], **options: Any) -> None:
        counts = self.counts.setdefault(part, Counter(dict.fromkeys(COLUMNS, 0)))
        counts["schemas"] += 1
        try:
            grammar = sg.Grammar.from_json_schema(schema, **OPTIONS, **options)
        except sg.GrammarError as error:
            if any(test["valid"] for test in tests):
                counts["refused"] += 1
                self.faults.append(f"refused: {part} {name}: {type(error).__name__}: {error}")
            return
        for test in tests:
            counts["documents"] += 1
            text = json.dumps(test["data"], ensure_ascii=False)
            if grammar.matches(text) != test["valid"]:
                kind = "wrong_rejects" if test["valid"] else "wrong_accepts"
                counts[kind] += 1
                self.faults.append(f"{kind}: {part} {name}: {test.get('description', text[:60])}")


def official(suite: Path, tally: Tally) -> None:
    resources = []
    for path in sorted((suite / "remotes").rglob("*.json")):
        name = path.relative_to(suite / "remotes").as_posix()
        dialect = DRAFTS.get(name.split("/")[0], ("", "", dialects.DRAFT202012))[2]
        contents = json.loads(path.read_text(encoding="utf-8"))
        resources.append((f"http://localhost:1234/{name}", dialect.create_resource(contents)))
    registry = referencing.Registry().with_resources(resources)
    for draft, (number, uri, _) in DRAFTS.items():
        folder = suite / "tests" / draft
        for path in sorted(folder.rglob("*.json")):
            name = path.relative_to(folder).as_posix()
            part = "format" if name.startswith("optional/format/") else "optional" if "/" in name else "required"
            for group in json.loads(path.read_text(encoding="utf-8")):
                schema, options = group["schema"], {"registry": registry, "format_assertion": name != "format.json"}
                if isinstance(schema, dict):
                    schema = {"$schema": uri, **schema}
                else:
                    options["draft"] = number
                tally.judge(f"{draft} {part}", f"{name}: {group['description']}", schema, group["tests"], **options)
        print(f"{draft} done", file=sys.stderr)


def judged(data: Path, tally: Tally) -> None:
    lines = data.read_text(encoding="utf-8").splitlines()
    for done, line in enumerate(lines, start=1):
        row = json.loads(line)
        tally.judge(data.stem, row["name"], row["schema"], row.get("tests", []))
        if done % 200 == 0:
            print(f"{done} of {len(lines)} schemas", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", type=Path, help="a checkout of JSON-Schema-Test-Suite")
    parser.add_argument("--data", type=Path, help="a .jsonl file of schemas with judged documents")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    tally, begun = Tally(), time.perf_counter()
    if args.suite:
        official(args.suite, tally)
    if args.data:
        judged(args.data, tally)
    print(f"{'':24}" + "".join(f"{name.replace('_', ' '):>15}" for name in COLUMNS))
    for part, counts in tally.counts.items():
        print(f"{part:24}" + "".join(f"{counts[name]:15,}" for name in COLUMNS))
    print(*tally.faults, sep="\n")
    print(f"{time.perf_counter() - begun:.0f} s", file=sys.stderr)
    if args.out:
        report = {"parts": {part: dict(counts) for part, counts in tally.counts.items()}, "faults": tally.faults}
        args.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return bool(tally.faults)


if __name__ == "__main__":
    raise SystemExit(main())
