"""String formats: verdicts on the official suite's ``optional/format`` files, and the time to a first mask.

    python benchmarks/formats.py [--suite DIR] [--tokenizer T] [--json FILE]

DIR is an unpacked JSON Schema Test Suite (the folder that holds ``tests``). Each test runs as a whole schema through
``Grammar.matches``, with any order of keys; its verdict is right, a wrong accept, a wrong reject, or the schema is
refused. With a tokenizer, each format (and common company of it) is compiled and its first masks are timed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import structgen as sg
from structgen.grammars import formats

DRAFTS = ("draft4", "draft6", "draft7", "draft2019-09", "draft2020-12")
TOGETHER: tuple[dict[str, Any], ...] = (
    {"format": "date-time", "pattern": "Z$"},
    {"format": "date-time", "pattern": r"\+00:00$"},
    {"format": "date-time", "minLength": 20},
    {"format": "time", "pattern": r"^\d\d:00"},
    {"format": "uri", "pattern": "^https?://"},
    {"format": "uri", "maxLength": 2083},
    {"format": "email", "maxLength": 254},
    {"format": "email", "pattern": r"@example\.com$"},
    {"format": "hostname", "minLength": 3},
    {"format": "hostname", "pattern": r"\.com$"},
    {"format": "ipv6", "pattern": "^fe80:"},
    {"format": "regex", "minLength": 1},
    {"not": {"format": "date-time"}},
    {"not": {"format": "hostname"}},
    {"not": {"format": "regex"}},
)
BEGINNINGS = {
    "date-time": '"2024-', "time": '"12:', "email": '"joe@exam', "idn-email": '"joe@\u4e2d', "hostname": '"xn--9n2b',
    "idn-hostname": '"\u4e2d\u6587', "uri": '"http://', "uri-reference": '"a/', "iri": '"http://\u4e2d', "ipv6": '"1:',
    "iri-reference": '"a/', "uri-template": '"a{', "regex": '"([a', "json-pointer": '"/a', "uuid": '"123e',
}  # fmt: skip


def verdicts(suite: Path) -> dict[str, dict[str, dict[str, int]]]:
    """Draft -> file -> counts."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for draft in DRAFTS:
        for path in sorted((suite / "tests" / draft / "optional" / "format").glob("*.json")):
            counts: Counter[str] = Counter()
            for group in json.loads(path.read_text(encoding="utf-8")):
                try:
                    grammar = sg.Grammar.from_json_schema(group["schema"], order="any", draft=draft[5:])
                except sg.GrammarError:
                    counts["refused"] += len(group["tests"])
                    continue
                for test in group["tests"]:
                    accepted = grammar.matches(json.dumps(test["data"], ensure_ascii=False))
                    counts["right" if accepted == test["valid"] else f"wrong {'accept' if accepted else 'reject'}"] += 1
            found.setdefault(draft, {})[path.stem] = dict(counts)
    return found


def first_masks(tokenizer: str) -> dict[str, dict[str, float]]:
    """Schema -> milliseconds: compiling with the first mask, the mask inside the string, and one further on."""
    vocab = sg.Vocabulary.from_tokenizer(tokenizer)
    row = np.zeros((vocab.size + 31) // 32, dtype=np.uint32)
    sg.Grammar.from_regex("warm").compile(vocab).matcher().fill_bitmask(row)
    found = {}
    for keywords in [*({"format": name} for name in formats.FORMATS), *TOGETHER]:
        began = time.perf_counter()
        compiled = sg.Grammar.from_json_schema({"type": "string", **keywords}).compile(vocab)
        compiled.matcher().fill_bitmask(row)
        times = {"first": time.perf_counter() - began}
        further = BEGINNINGS.get(keywords["format"], '"1') if list(keywords) == ["format"] else '"a'
        for label, text in (("inside", '"'), ("further", further)):
            matcher = compiled.matcher()
            if matcher.accept_text(text):
                began = time.perf_counter()
                matcher.fill_bitmask(row)
                times[label] = time.perf_counter() - began
        found[json.dumps(keywords)] = {label: round(1000 * seconds, 2) for label, seconds in times.items()}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--suite", type=Path, help="folder of the JSON Schema Test Suite")
    parser.add_argument("--tokenizer", help="anything that Vocabulary.from_tokenizer takes")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    options = parser.parse_args()
    result: dict[str, Any] = {
        "python": platform.python_version(), "processor": platform.processor() or platform.machine(),
        "load": os.getloadavg()[0],
    }  # fmt: skip
    wrong = 0
    if options.suite is not None:
        result["verdicts"] = verdicts(options.suite)
        for draft, files in result["verdicts"].items():
            total = sum((Counter(counts) for counts in files.values()), Counter())
            print(f"{draft}: {dict(total)}")
            for name, counts in files.items():
                if set(counts) != {"right"}:
                    print(f"    {name}: {counts}")
            wrong += sum(total.values()) - total["right"]
    if options.tokenizer is not None:
        result["milliseconds"] = first_masks(options.tokenizer)
        for schema, times in result["milliseconds"].items():
            print(f"{schema:60}", *(f"{label} {value:8.1f} ms" for label, value in times.items()))
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
