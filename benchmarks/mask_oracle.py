"""Masks against brute force over whole vocabularies: 200 grammars x vocabularies x random states.

    python benchmarks/mask_oracle.py --vocab NAME=PATH [--vocab ...] [--states 2] [--grammars 200] [--seed 0]

PATH is anything that ``Vocabulary.from_tokenizer`` takes (a tokenizer.json, a folder, a GGUF file). A synthetic
vocabulary with duplicate and byte-less tokens is always among them. Each state compares the mask row with the
reference matcher on every token, and ``allows`` with ``accept`` on a sample. The test suite samples the same product.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "grammars"))

from brute import check_walk  # noqa: E402

import structgen as sg  # noqa: E402
from structgen.grammars import library  # noqa: E402

REGEXES = [
    r"\d{4}-\d\d-\d\d", r"[a-z]+@[a-z]+\.(com|org)", r"(?i)yes|no|maybe", r"\w+", r"(ab|a|b){0,50}x", r"[^\n]{3,8}",
    r"-?(0|[1-9]\d*)(\.\d+)?", r"(a*)*b", r"\s*\S+\s*", r".*?end", r"[А-я]+", r"[\u4e00-\u9fff]{1,4}", r"(?s).{10}",
    r"#[0-9a-fA-F]{6}", r"(foo|bar|baz)(,(foo|bar|baz))*", r"[01]{8}", r'"(\\.|[^"\\])*"', r"\d+(?:,\d{3})*",
    r"a{3,700}", r"(?x) [A-Z]{3} \s [0-9]{1,4}",
]  # fmt: skip
LARKS = [
    'start: "a" start "b" | "c"',
    'start: expr\nexpr: expr "+" NUM | NUM\nNUM: /[0-9]+/\n%ignore " "',
    'start: "if" NAME "then" NAME\nNAME: /[a-z]+/\n%ignore " "',
    'start: item ("," item)*\nitem: /[a-z]/ "=" /[0-9]{1,3}/',
    'start: "(" start* ")" | WORD\nWORD: /[a-z]+/\n%ignore /[ \\n]+/',
    'start: NUM ".." NUM\nNUM: /[0-9]+/',
    'start: STR+\nSTR: /".*?"/\n%ignore " "',
    'start: pair{A, B}\npair{x, y}: x y | y x\nA: "a"\nB: "b"',
    'start: X~2..4\nX: "x" | "yy"',
    'start: LONG SHORT\nLONG: "ab" | "abc"\nSHORT: "c" | "d"',
    '%import common.ESCAPED_STRING\nstart: ESCAPED_STRING ("," ESCAPED_STRING)*',
    '%import common (INT, WS)\nstart: "[" [INT ("," INT)*] "]"\n%ignore WS',
]


def random_schema(rng: random.Random, depth: int = 0) -> Any:
    """A schema over the built keywords, satisfiable by construction."""
    kind = rng.choice(["string", "integer", "number", "boolean", "null", "enum", "any", "format", "pattern"]
                      + ["object", "object", "array", "anyOf"] * (depth < 3))  # fmt: skip
    if kind == "string":
        low = rng.randrange(4)
        return rng.choice(
            [{"type": "string"}, {"type": "string", "minLength": low, "maxLength": low + rng.randrange(9)}]
        )
    if kind == "integer":
        low = rng.randrange(-500, 500)
        return rng.choice(
            [{"type": "integer"}, {"type": "integer", "minimum": low, "maximum": low + rng.randrange(2000)}]
        )
    if kind == "number":
        low = rng.randrange(-50, 50) / 4
        return rng.choice([{"type": "number"}, {"type": "number", "minimum": low, "exclusiveMaximum": low + 7.25}])
    if kind in ("boolean", "null"):
        return {"type": kind}
    if kind == "enum":
        return {
            "enum": rng.sample(
                ["a", "ab", 'q"', "é", 1, 2.5, None, True, [1], {"k": "v"}, "", "\n"], rng.randrange(1, 5)
            )
        }
    if kind == "any":
        return rng.choice([True, {}, {"type": ["string", "integer", "null"]}])
    if kind == "format":
        return {
            "type": "string",
            "format": rng.choice(["date", "time", "date-time", "uuid", "email", "ipv4", "ipv6", "uri"]),
        }
    if kind == "pattern":
        return {"type": "string", "pattern": rng.choice(["^[a-z]+$", "b", "^a|z$", "^\\d{3}$", "^[^ ]*$", "^(x|yy)*$"])}
    if kind == "anyOf":
        return {"anyOf": [random_schema(rng, depth + 1) for _ in range(rng.randrange(2, 4))]}
    if kind == "array":
        schema: dict[str, Any] = {"type": "array", "items": random_schema(rng, depth + 1)}
        if rng.random() < 0.5:
            schema["minItems"] = rng.randrange(3)
            schema["maxItems"] = schema["minItems"] + rng.randrange(4)
        if rng.random() < 0.3:
            schema["prefixItems"] = [random_schema(rng, depth + 1)]
        return schema
    keys = rng.sample(["a", "b", "name", "id", "x y", "é", "long_key_name", 'q"k'], rng.randrange(1, 5))
    schema = {"type": "object", "properties": {key: random_schema(rng, depth + 1) for key in keys}}
    schema["required"] = rng.sample(keys, rng.randrange(len(keys) + 1))
    schema["additionalProperties"] = rng.choice([False, False, True, {"type": "integer"}])
    if rng.random() < 0.3:
        schema["patternProperties"] = {"^p[0-9]$": random_schema(rng, depth + 1)}
    return schema


def grammars(count: int, seed: int) -> Iterator[tuple[str, sg.Grammar]]:
    """``count`` grammars of every front end."""
    rng = random.Random(seed)
    made = 0
    fixed: list[tuple[str, Any]] = [(f"regex {p}", lambda p=p: sg.Grammar.from_regex(p)) for p in REGEXES]
    fixed += [(f"lark {t!r}", lambda t=t: sg.Grammar.from_lark(t)) for t in LARKS]
    fixed += [(f"library {n}", lambda n=n: sg.Grammar.from_lark(library.find(n))) for n in library.names()]
    fixed.append(("choices", lambda: sg.Grammar.from_choices(["yes", "no", "é", "yesterday", '"'])))
    for line in (HERE / "schemas.jsonl").read_text("utf-8").splitlines():
        schema = json.loads(line)["schema"]
        fixed.append((f"schema {json.dumps(schema)[:80]}", lambda s=schema: sg.Grammar.from_json_schema(s)))
    for name, make in fixed[:count]:
        made += 1
        yield name, make()
    while made < count:
        schema = random_schema(rng)
        options = {
            "order": rng.choice(["schema", "any"]),
            "whitespace": rng.choice(["bounded", "bounded", "compact", "any", "pretty"]),
            "escapes": rng.choice(["any", "any", "canonical"]),
        }
        made += 1
        yield f"schema {json.dumps(schema)} {options}", sg.Grammar.from_json_schema(schema, **options)


def synthetic(rng: random.Random) -> sg.Vocabulary:
    """Bytes, pieces of JSON and text, duplicates, and ids without bytes."""
    tokens: list[bytes | None] = [None, None, b""] + [bytes([i]) for i in range(256)]
    pieces = [
        b'"',
        b'":',
        b'","',
        b"{",
        b"}",
        b"[",
        b"]",
        b" ",
        b"\n",
        b"  ",
        b"\\",
        b"\\u00",
        b"a",
        b"ab",
        b"1",
    ]
    pieces += [
        b"12",
        b"-",
        b".",
        b"e",
        b"true",
        b"null",
        b"\xc3",
        b"\xa9",
        b"\xe6\x97",
        b"x",
        b"select",
        b"SELECT",
        b",",
    ]
    tokens += [b"".join(rng.choices(pieces, k=rng.randrange(1, 5))) for _ in range(3000)]
    return sg.Vocabulary.from_tokenizer(tokens, eos_token_ids=0, size=len(tokens) + 100)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocab", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--grammars", type=int, default=200)
    parser.add_argument("--states", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the figures here")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    vocabularies = {"synthetic": synthetic(rng)}
    for each in args.vocab:
        name, _, path = each.partition("=")
        vocabularies[name] = sg.Vocabulary.from_tokenizer(path)
    failures: list[str] = []
    compared = dict.fromkeys(vocabularies, 0)
    started = time.perf_counter()
    for i, (name, grammar) in enumerate(grammars(args.grammars, args.seed)):
        for which, vocab in vocabularies.items():
            try:
                walk_seed = rng.randrange(1 << 30)
                compared[which] += check_walk(
                    grammar, grammar.compile(vocab), random.Random(walk_seed), args.states, jump=rng.randrange(12)
                )
            except Exception as error:
                failures.append(f"{which}: {name}: {type(error).__name__}: {error}")
                print("FAIL", failures[-1], file=sys.stderr, flush=True)
        if i % 10 == 9:
            took = time.perf_counter() - started
            print(
                f"{i + 1} grammars, {sum(compared.values())} states, {took:.0f} s, failures {len(failures)}", flush=True
            )
    print(f"states compared: {compared}; failures: {len(failures)}")
    if args.json:
        figures = {"grammars": args.grammars, "states": compared, "failures": failures, "seed": args.seed}
        args.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
