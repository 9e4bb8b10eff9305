"""Does a real, small model always keep the constraint? Fifty schemas and the SQL grammar on the demo model.

    python benchmarks/valid_outputs.py [--model smollm2] [--max-tokens 160] [--sql 200] [--json FILE]

Each schema runs greedily and with four seeds at temperature 1.0. A finished output must be valid by ``jsonschema``
(formats asserted); one cut by ``max_tokens`` must say so. SQL at temperature 1.0 must parse with lark.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import lark

import structgen as sg
from structgen.grammars import library

HERE = Path(__file__).parent
SQL_PROMPTS = [
    "Show the names of all customers in Paris.",
    "Count the orders of each customer.",
    "Delete the rows of log older than 2020.",
    "Raise the price of every product by ten percent.",
    "Which three employees earn most?",
    "Insert a new user called Ada.",
    "List products that were never ordered.",
    "Average salary by department, highest first.",
]


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("duplicate keys")
    return found


def check_schema(text: str, schema: Any) -> str | None:
    """None if ``text`` is a valid document, else what is wrong."""
    try:
        value = json.loads(text, object_pairs_hook=unique)
        jsonschema.validate(value, schema, format_checker=jsonschema.FormatChecker())
    except (ValueError, jsonschema.ValidationError) as error:
        return str(error).splitlines()[0]
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--max-tokens", type=int, default=160)
    parser.add_argument("--sql", type=int, default=200, help="number of SQL queries")
    parser.add_argument("--json", type=Path, help="write the figures here")
    args = parser.parse_args()
    llm = sg.LLM(model=args.model)
    wrong: list[str] = []
    started = time.perf_counter()

    cases = [json.loads(line) for line in (HERE / "schemas.jsonl").read_text("utf-8").splitlines()]
    prompts, params, grammars, schemas = [], [], [], []
    for case in cases:
        grammar = sg.Grammar.from_json_schema(case["schema"])
        messages = [{"role": "user", "content": f"{case['prompt']} Answer in JSON: {json.dumps(case['schema'])}"}]
        prompt = llm.tokenizer.apply_chat_template(messages)
        for seed in (None, 1, 2, 3, 4):
            prompts.append(prompt)
            temperature = 0.0 if seed is None else 1.0
            params.append(sg.SamplingParams(max_tokens=args.max_tokens, temperature=temperature, seed=seed))
            grammars.append(grammar)
            schemas.append(case["schema"])
    outputs = llm.generate(prompts, params, grammar=grammars)
    reasons: Counter[str] = Counter()
    for output, schema in zip(outputs, schemas, strict=True):
        got = output.outputs[0]
        reasons[str(got.finish_reason)] += 1
        if got.finish_reason == "stop":
            problem = check_schema(got.text, schema)
            if problem:
                wrong.append(f"{json.dumps(schema)[:100]} -> {got.text!r}: {problem}")
        elif got.finish_reason != "length":
            wrong.append(f"finish_reason {got.finish_reason}: {output.error}")
    print(f"schemas: {len(outputs)} outputs, finish reasons {dict(reasons)}, wrong {len(wrong)}", flush=True)

    text = library.find("sql")
    sql = lark.Lark(text, parser="lalr")
    grammar = sg.Grammar.from_lark(text)
    prompts = [
        llm.tokenizer.apply_chat_template([{"role": "user", "content": f"Write one SQL query. {q}"}])
        for q in (SQL_PROMPTS * (args.sql // len(SQL_PROMPTS) + 1))[: args.sql]
    ]
    settings = [
        sg.SamplingParams(max_tokens=args.max_tokens, temperature=1.0, seed=seed) for seed in range(len(prompts))
    ]
    sql_outputs = llm.generate(prompts, settings, grammar=grammar)
    sql_reasons: Counter[str] = Counter()
    sql_wrong = 0
    for output in sql_outputs:
        got = output.outputs[0]
        sql_reasons[str(got.finish_reason)] += 1
        if got.finish_reason == "stop":
            try:
                sql.parse(got.text)
            except lark.exceptions.LarkError as error:
                sql_wrong += 1
                wrong.append(f"sql {got.text!r}: {error}")
    print(f"sql: {len(sql_outputs)} outputs, finish reasons {dict(sql_reasons)}, wrong {sql_wrong}")
    for line in wrong:
        print("WRONG", line, file=sys.stderr)
    if args.json:
        figures = {
            "model": args.model,
            "max_tokens": args.max_tokens,
            "schemas": {"outputs": len(outputs), "finish_reasons": dict(reasons)},
            "sql": {"outputs": len(sql_outputs), "finish_reasons": dict(sql_reasons)},
            "wrong": wrong,
            "seconds": round(time.perf_counter() - started, 1),
        }
        args.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
