"""Grammars that make tools of this kind explode: time and memory to the first mask, each in its own process.

    python benchmarks/traps.py [--vocab tokenizer.json] [--only NAME] [--out FILE.json]

A trap holds when it compiles and fills its first mask within 2 s and 500 MB (over an empty grammar on the same
vocabulary, so that imports and the vocabulary do not count), or is refused with a GrammarTooComplex.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MAX_SECONDS, MAX_MB = 2.0, 500


def _one_of(depth: int) -> Any:
    leaf: Any = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    for i in range(depth):
        leaf = {"oneOf": [leaf, {"type": "object", "properties": {f"k{i}": leaf}, "required": [f"k{i}"]}]}
    return leaf


def _overlapping_one_of(depth: int) -> Any:
    leaf: Any = {"type": "integer"}
    for i in range(depth):
        leaf = {"oneOf": [leaf, {"minimum": i}]}
    return leaf


def _doubling(n: int) -> Any:
    defs: dict[str, Any] = {"d0": {"type": "string"}}
    for i in range(1, n):
        ref = {"$ref": f"#/$defs/d{i - 1}"}
        defs[f"d{i}"] = {"type": "object", "properties": {"l": ref, "r": ref}, "required": ["l", "r"]}
    return {"$ref": f"#/$defs/d{n - 1}", "$defs": defs}


def _tools(n: int) -> Any:
    def tool(i: int) -> Any:
        return {
            "type": "object",
            "properties": {
                "name": {"const": f"tool_{i}"},
                "arguments": {
                    "type": "object",
                    "properties": {
                        "text": {"type": "string", "maxLength": 100_000},
                        "items": {"type": "array", "items": {"type": "string", "minLength": 1_000}, "maxItems": 10_000},
                        "n": {"type": "integer", "minimum": -(10**18), "maximum": 10**18},
                    },
                    "required": ["text"],
                    "additionalProperties": False,
                },
            },
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }

    return {"anyOf": [tool(i) for i in range(n)]}


def _large(megabytes: int) -> Any:
    """An object of many distinct properties whose text is about so large."""
    one = len(json.dumps({"k0000000": _property(0)}))
    n = megabytes * 1_000_000 // one
    return {"type": "object", "properties": {f"k{i:07d}": _property(i) for i in range(n)}}


def _property(i: int) -> Any:
    return {"type": "object", "properties": {"name": {"type": "string", "maxLength": i % 97}}, "description": "x" * 120}


SCHEMAS: dict[str, Callable[[], Any]] = {
    "nested oneOf, depth 12": lambda: _one_of(12),
    "overlapping oneOf, depth 12": lambda: _overlapping_one_of(12),
    "40 optional keys": lambda: {
        "type": "object", "properties": {f"key_{i}": {"type": ["string", "integer"]} for i in range(40)},
        "additionalProperties": False,
    },
    "40 keys, all required": lambda: {
        "type": "object", "properties": {f"key_{i}": {"type": "string"} for i in range(40)},
        "required": [f"key_{i}" for i in range(40)],
    },
    "40 dependent keys": lambda: {
        "type": "object", "properties": {f"key_{i}": True for i in range(40)},
        "dependentRequired": {f"key_{i}": [f"key_{i + 1}"] for i in range(39)}, "minProperties": 3, "maxProperties": 30,
    },
    "60 tools with big bounds": lambda: _tools(60),
    "enum of 10,000 strings": lambda: {"enum": [f"value {i * 7919 % 10_007}" for i in range(10_000)]},
    "enum of 10,000 numbers": lambda: {"enum": [i * 7919 for i in range(10_000)]},
    "refs that double, 40": lambda: _doubling(40),
    "a 4 MB schema": lambda: _large(4),
    "20 x anyOf of two in allOf": lambda: {
        "allOf": [{"anyOf": [{"required": [f"a{i}"]}, {"required": [f"b{i}"]}]} for i in range(20)], "type": "object",
    },
    "12 x if/then/else in allOf": lambda: {
        "type": "object",
        "allOf": [
            {"if": {"properties": {f"p{i}": {"const": 1}}, "required": [f"p{i}"]}, "then": {"required": [f"q{i}"]}}
            for i in range(12)
        ],
    },
    "uniqueItems of 1,000 objects": lambda: {
        "type": "array", "uniqueItems": True, "minItems": 1_000, "items": {"type": "object", "required": ["id"]},
    },
    "unevaluatedProperties over 10 anyOf": lambda: {
        "type": "object",
        "anyOf": [{"properties": {f"p{i}": {"type": "string"}}, "required": [f"p{i}"]} for i in range(10)],
        "unevaluatedProperties": False,
    },
    "pattern (a*)*b": lambda: {"type": "string", "pattern": "^(a*)*b$"},
    "pattern [ab]*a[ab]{40}": lambda: {"type": "string", "pattern": "^[ab]*a[ab]{40}$"},
    "maxLength 10,000,000": lambda: {"type": "string", "minLength": 9_000_000, "maxLength": 10_000_000},
    "pattern and lengths": lambda: {"type": "string", "pattern": "a.*b.*c", "minLength": 500, "maxLength": 1_000},
    "10 patternProperties": lambda: {
        "type": "object", "patternProperties": {f"{c}{{2}}": {"type": "integer"} for c in "abcdefghij"},
    },
    "items nested 200 deep": lambda: _nested(200),
    "multipleOf 0.000001 with bounds": lambda: {
        "type": "number", "multipleOf": 0.000001, "minimum": 0.5, "maximum": 123456.75,
    },
}

REGEXES = {
    "(a*)*b": "(a*)*b",
    "[ab]*a[ab]{40}": "[ab]*a[ab]{40}",
    "(a|aa)*{500}": "((a|aa)*){500}",
    "nested counters": "((a{0,1000}){0,1000}){0,1000}",
    "(x+x+)+y": "(x+x+)+y",
    "12 lookaheads": "".join(f"(?=.*{c})" for c in "abcdefghijkl") + ".*",
    "10,000 words": "|".join(f"word{i * 7919 % 10_007}" for i in range(4_000)),
    "(.*){50}": "(.*){50}",
}


def _nested(depth: int) -> Any:
    made: Any = {"type": "integer"}
    for _ in range(depth):
        made = {"type": "array", "items": made, "minItems": 1}
    return made


def _measure(kind: str, name: str, order: str, numbers: str, vocab: str, pipe: Any) -> None:
    import numpy as np

    import structgen as sg

    vocabulary = sg.Vocabulary.from_tokenizer(vocab)
    row = np.zeros((vocabulary.size + 31) // 32, dtype=np.uint32)
    sg.Grammar.from_json_schema({"type": "null"}).compile(vocabulary).matcher().fill_bitmask(row)
    what = SCHEMAS[name]() if kind == "schema" else REGEXES[name]
    text = json.dumps(what)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun, outcome = time.perf_counter(), "compiled"
    try:
        if kind == "schema":
            grammar = sg.Grammar.from_json_schema(json.loads(text), order=order, numbers=numbers)
        else:
            grammar = sg.Grammar.from_regex(what)
        grammar.compile(vocabulary).matcher().fill_bitmask(row)
    except sg.GrammarTooComplex as error:
        outcome = f"refused: {error}"
    except Exception as error:
        outcome = f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - begun
    mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    pipe.send((outcome, seconds, mb, len(text)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocab", default="smollm2")
    parser.add_argument("--only")
    parser.add_argument("--numbers", default="plain")
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    vocab = args.vocab
    if vocab == "smollm2":
        from structgen.engine.resolve import resolve_model

        vocab = str(resolve_model("smollm2"))
    context = multiprocessing.get_context("spawn")
    cases = [("schema", name, order) for name in SCHEMAS for order in ("schema", "any")]
    cases += [("regex", name, "") for name in REGEXES]
    rows, bad = [], 0
    print(f"{'trap':44} {'order':7} {'s':>6} {'MB':>6}  outcome")
    for kind, name, order in cases:
        if args.only and args.only not in name:
            continue
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(
            target=_measure, args=(kind, name, order or "schema", args.numbers, vocab, theirs), daemon=True
        )
        process.start()
        theirs.close()
        try:
            outcome, seconds, mb, size = ours.recv() if ours.poll(args.timeout) else ("no end", args.timeout, 0.0, 0)
        except EOFError:
            outcome, seconds, mb, size = "died", 0.0, 0.0, 0
        process.kill()
        process.join()
        fits = outcome.startswith(("compiled", "refused")) and seconds <= MAX_SECONDS and mb <= MAX_MB
        bad += not fits
        rows.append({"trap": name, "kind": kind, "order": order, "seconds": round(seconds, 3), "mb": round(mb),
                     "bytes": size, "outcome": outcome, "holds": fits})  # fmt: skip
        print(f"{name:44} {order:7} {seconds:6.2f} {mb:6.0f}  {'' if fits else 'TOO MUCH '}{outcome[:110]}", flush=True)
    print(f"{len(rows) - bad} of {len(rows)} hold")
    if args.out:
        args.out.write_text(json.dumps({"vocab": Path(vocab).name, "rows": rows}, indent=1) + "\n")
    return bool(bad)


if __name__ == "__main__":
    raise SystemExit(main())
