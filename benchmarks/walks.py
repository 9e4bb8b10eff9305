"""Random walks over the masks of real schemas: every text that is finished must be valid, and none may get stuck.

    python benchmarks/walks.py --data SCHEMAS.jsonl --tokenizer T [--schemas 1000] [--walks 20] [--seed 0] [--jobs 1]

SCHEMAS has a JSON object with ``name`` and ``schema`` a line. A walk takes 150 random legal tokens, uniformly, or
(every other walk) with a preference for what opens something: brackets, quotes, digits, backslashes, blanks. Then
the shortest completion leads it to an end, without help of the engine. Schemas are taken in the fixed and in any
order of keys in turns. Every document is checked by jsonschema and by jsonschema_rs; they read formats with the
package's own checkers, and where they differ the document counts as doubtful and is listed.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import platform
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal, getcontext
from pathlib import Path
from typing import Any

import numpy as np

import structgen as sg
from structgen.grammars.distance import Steering

HERE = Path(__file__).resolve().parent
STEPS = 150
SLOW_S = 1.0  # a mask that takes longer is listed
MAX_STEERED = 20_000  # tokens of the way to the end
OPENERS = b'{["\\0123456789 \n\t'


@dataclass
class Tally:
    """What came of some walks. Times in microseconds."""

    schemas: int = 0
    walks: int = 0
    finished: int = 0
    valid: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    wrong: list[dict[str, Any]] = field(default_factory=list)
    doubtful: list[dict[str, Any]] = field(default_factory=list)
    dead: list[dict[str, Any]] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    searches: list[float] = field(default_factory=list)
    slow: list[dict[str, Any]] = field(default_factory=list)
    undecided: int = 0

    def add(self, other: Tally) -> None:
        for name, value in vars(other).items():
            if isinstance(value, (list, Counter)):
                mine = getattr(self, name)
                mine.extend(value) if isinstance(value, list) else mine.update(value)
            else:
                setattr(self, name, getattr(self, name) + value)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="a .jsonl file of schemas")
    parser.add_argument("--tokenizer", required=True, help="anything that Vocabulary.from_tokenizer takes")
    parser.add_argument("--schemas", type=int, default=1000)
    parser.add_argument("--walks", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", help="names of schemas, separated by commas")
    parser.add_argument("--out", default=str(HERE / "results" / "walks.json"))
    args = parser.parse_args()
    total, started = Tally(), time.perf_counter()
    tasks = list(chosen(args))
    if args.jobs > 1:
        with multiprocessing.Pool(args.jobs, prepare, (args.tokenizer,)) as pool:
            for done, tally in enumerate(pool.imap_unordered(walk_schema, tasks), start=1):
                total.add(tally)
                show(done, len(tasks), total, tally)
    else:
        prepare(args.tokenizer)
        for done, task in enumerate(tasks, start=1):
            tally = walk_schema(task)
            total.add(tally)
            show(done, len(tasks), total, tally)
    print(file=sys.stderr)
    report = summary(total, args, time.perf_counter() - started)
    print(table(report))
    Path(args.out).write_text(json.dumps(report, indent=1, ensure_ascii=True) + "\n", encoding="utf-8")
    return 1 if total.wrong or total.dead or total.errors else 0


def chosen(args: argparse.Namespace) -> Iterator[tuple[dict[str, Any], int, int, str]]:
    """(schema and name, walks, seed, order): a random choice, the same for the same seed."""
    with open(args.data, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    if args.only:
        names = set(args.only.split(","))
        rows = [row for row in rows if row["name"] in names]
    else:
        random.Random(args.seed).shuffle(rows)
        rows = rows[: args.schemas]
    for i, row in enumerate(rows):
        yield row, args.walks, args.seed, ("schema", "any")[i % 2]


_vocabulary: sg.Vocabulary
_openers: np.ndarray[Any, np.dtype[np.bool_]]


def prepare(tokenizer: str) -> None:
    global _vocabulary, _openers
    getcontext().prec = 5_000
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)
    _vocabulary = sg.Vocabulary.from_tokenizer(tokenizer)
    _openers = np.array([bool(data) and data[0] in OPENERS for data in _vocabulary.tokens], dtype=bool)


# ------------------------------------------------------------------------------------------------ walks


def walk_schema(task: tuple[dict[str, Any], int, int, str]) -> Tally:
    """All walks over one schema."""
    row, walks, seed, order = task
    tally = Tally()
    name, schema = row["name"], row["schema"]
    try:
        compiled = sg.Grammar.from_json_schema(schema, order=order).compile(_vocabulary)
    except sg.GrammarError as error:
        tally.refused[type(error).__name__] += 1
        return tally
    tally.schemas = 1
    oracles = Oracles(schema)
    for i in range(walks):
        rng = random.Random(f"{seed}/{name}/{i}")
        what = {"schema": name, "walk": i, "order": order, "kind": ("uniform", "adversarial")[i % 2]}
        try:
            walk(compiled, rng, i % 2 == 1, what, oracles, tally)
        except Exception as error:
            tally.errors.append({**what, "error": f"{type(error).__name__}: {error}"[:300]})
    return tally


def walk(
    compiled: sg.CompiledGrammar,
    rng: random.Random,
    adversarial: bool,
    what: dict[str, Any],
    oracles: Oracles,
    tally: Tally,
) -> None:
    """One walk to the end of a text."""
    matcher = compiled.matcher()
    ends = set(_vocabulary.eos_token_ids)
    row = np.zeros(compiled.words, dtype=np.uint32)
    data = b""
    tally.walks += 1
    for step in range(STEPS + MAX_STEERED):
        started = time.perf_counter()
        matcher.fill_bitmask(row)
        elapsed = time.perf_counter() - started
        if elapsed > SLOW_S:
            tally.slow.append({**what, "after": step, "mask_s": round(elapsed, 2), "text": shown(data)})
        if not row.any():
            tally.dead.append({**what, "after": step, "text": shown(data)})
            return
        if step < STEPS:
            token = choose(np.unpackbits(row.view(np.uint8), bitorder="little").view(bool), rng, adversarial)
        else:
            if step == STEPS:
                steering = Steering(matcher)
                searched = time.perf_counter()
                if matcher.shortest_completion() is None:
                    tally.undecided += 1
                tally.searches.append((time.perf_counter() - searched) * 1e6)
            found = steering.next_token()
            if found is None:
                tally.errors.append({**what, "error": "no way to the end is known", "text": shown(data)})
                return
            token = found
            if not int(row[token >> 5]) >> (token & 31) & 1:
                tally.errors.append({**what, "error": f"the way's token {token} is masked", "text": shown(data)})
                return
        started = time.perf_counter()
        if not matcher.accept(token):
            tally.errors.append({**what, "error": f"token {token} is in the mask and refused", "text": shown(data)})
            return
        if step < STEPS:
            tally.steps.append((elapsed + time.perf_counter() - started) * 1e6)
        if token in ends:
            break
        data += _vocabulary.tokens[token] or b""
    else:
        tally.errors.append({**what, "error": "steering does not end", "text": shown(data)})
        return
    tally.finished += 1
    verdicts = oracles(data)
    if all(verdicts.values()):
        tally.valid += 1
    elif not any(verdicts.values()):
        tally.wrong.append({**what, "text": data.decode("utf-8", "replace")[:4000], "verdicts": verdicts})
    else:
        tally.doubtful.append({**what, "text": data.decode("utf-8", "replace")[:4000], "verdicts": verdicts})


def choose(mask: Any, rng: random.Random, adversarial: bool) -> int:
    """A legal token; an end only where nothing else is legal, or one time in ten."""
    ends = [token for token in _vocabulary.eos_token_ids if mask[token]]
    mask[list(_vocabulary.eos_token_ids)] = False
    size = len(_openers)
    legal = int(np.count_nonzero(mask[:size]))
    if not legal or (ends and rng.random() < 0.1):
        return ends[0]
    if adversarial and rng.random() < 0.8:
        openers = np.flatnonzero(mask[:size] & _openers)
        if len(openers):
            return int(openers[rng.randrange(len(openers))])
    return int(np.flatnonzero(mask[:size])[rng.randrange(legal)])


def shown(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    return text if len(text) <= 300 else f"{text[:100]} ... {text[-200:]}"


# ------------------------------------------------------------------------------------------------ oracles


class Oracles:
    """jsonschema and jsonschema_rs with the package's own reading of formats (each library leaves some out)."""

    def __init__(self, schema: Any) -> None:
        import jsonschema
        import jsonschema_rs

        from structgen.grammars import formats
        from structgen.grammars.encoding import UTF8
        from structgen.grammars.expr import matches

        def is_format(name: str) -> Any:
            def check(value: Any) -> bool:
                return not isinstance(value, str) or matches(formats.expr(name, UTF8), value.encode("utf-8", "replace"))

            return check

        names = formats_of(schema)
        checker = jsonschema.FormatChecker(formats=())
        known: dict[str, Any] = {}
        for name in names:
            try:
                formats.expr(name, UTF8)
            except Exception:
                continue
            known[name] = is_format(name)
            checker.checks(name)(known[name])
        kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        self._first = kind(schema, format_checker=checker)
        exact = json.loads(json.dumps(schema), parse_float=Decimal)
        self._exact = _exact_kind(kind)(exact, format_checker=checker)
        try:
            self._second = jsonschema_rs.validator_for(schema, formats=known, validate_formats=True)
        except Exception:
            self._second = None

    def __call__(self, data: bytes) -> dict[str, bool]:
        """Each oracle's verdict."""
        try:
            value = json.loads(data)
        except ValueError as error:
            return {f"json ({type(error).__name__})": False}
        verdicts = {}
        try:
            verdicts["jsonschema"] = self._first.is_valid(value)
        except OverflowError:  # it divides as floats; decimals are exact
            verdicts["jsonschema"] = self._exact.is_valid(json.loads(data, parse_float=Decimal, parse_int=Decimal))
        if self._second is not None and is_finite(value):
            verdicts["jsonschema_rs"] = self._second.is_valid(value)
        return verdicts


def _exact_kind(kind: Any) -> Any:
    """``kind``, in which a decimal without a fraction is an integer."""
    import jsonschema

    def is_integer(_: Any, value: Any) -> bool:
        whole = isinstance(value, Decimal) and value == value.to_integral_value()
        return whole or (isinstance(value, int) and not isinstance(value, bool))

    return jsonschema.validators.extend(kind, type_checker=kind.TYPE_CHECKER.redefine("integer", is_integer))


def is_finite(value: Any) -> bool:
    """Whether every number fits a float: jsonschema_rs reads no others."""
    if isinstance(value, dict):
        return all(map(is_finite, value.values()))
    if isinstance(value, list):
        return all(map(is_finite, value))
    return not isinstance(value, (int, float)) or (abs(value) < 1e300 and math.isfinite(value))


def formats_of(schema: Any) -> set[str]:
    found: set[str] = set()
    queue = [schema]
    while queue:
        at = queue.pop()
        if isinstance(at, dict):
            if isinstance(at.get("format"), str):
                found.add(at["format"])
            queue += at.values()
        elif isinstance(at, list):
            queue += at
    return found


# ------------------------------------------------------------------------------------------------ figures


def show(done: int, of: int, total: Tally, last: Tally) -> None:
    """A progress bar, and what went wrong in the last schema."""
    for each in (*last.wrong, *last.doubtful, *last.dead, *last.errors, *last.slow):
        print(f"\n{json.dumps(each)[:600]}", file=sys.stderr)
    bad = len(total.wrong) + len(total.dead) + len(total.errors)
    bar = "#" * (30 * done // of)
    print(f"\r[{bar:<30}] {done}/{of} schemas, {total.walks} walks, {bad} bad ", end="", file=sys.stderr, flush=True)


def quantiles(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        name: round(ordered[min(int(q * len(ordered)), len(ordered) - 1)], 1)
        for name, q in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0))
        if ordered
    }


def summary(total: Tally, args: argparse.Namespace, seconds: float) -> dict[str, Any]:
    return {
        "schemas": total.schemas,
        "refused": dict(total.refused),
        "walks": total.walks,
        "finished": total.finished,
        "valid": total.valid,
        "wrong": total.wrong,
        "doubtful": total.doubtful,
        "dead_ends": total.dead,
        "errors": total.errors,
        "slow_masks": total.slow,
        "undecided": total.undecided,
        "step_us": quantiles(total.steps),
        "completion_us": quantiles(total.searches),
        "seconds": round(seconds, 1),
        "seed": args.seed,
        "tokenizer": Path(args.tokenizer).name,
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "version": sg.__version__,
    }


def table(report: dict[str, Any]) -> str:
    lines = [
        f"{name:<40} {value}"
        for name, value in (
            ("schemas", report["schemas"]),
            ("refused schemas", sum(report["refused"].values())),
            ("walks", report["walks"]),
            ("finished texts", report["finished"]),
            ("valid by every oracle", report["valid"]),
            ("invalid by every oracle", len(report["wrong"])),
            ("oracles differ", len(report["doubtful"])),
            ("dead ends", len(report["dead_ends"])),
            ("errors", len(report["errors"])),
            (f"masks over {SLOW_S:g} s", len(report["slow_masks"])),
            ("mask and accept, us", report["step_us"]),
            ("shortest completion, us", report["completion_us"]),
        )
    ]
    for kind in ("wrong", "doubtful", "dead_ends", "errors", "slow_masks"):
        names = Counter(each["schema"] for each in report[kind])
        lines += [f"  {kind}: {name} ({n})" for name, n in names.most_common(40)]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
