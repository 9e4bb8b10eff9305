"""Tokens per second of batches and what each request sees, beside other engines on the same weights when asked for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from structgen.bench import Report, percentile
from structgen.bench.rivals import NAMES, Run, Served, open_rival
from structgen.bench.workload import PROMPTS
from structgen.console import working
from structgen.errors import RequestError

if TYPE_CHECKING:
    import argparse

    from structgen.engine.llm import LLM

_Timed = list[tuple[Served, float]]  # with seconds


def measure(args: argparse.Namespace) -> Report:
    """Runs every batch size ``--repeat`` times; rivals take turns, so that a busy moment hits each."""
    from structgen.bench import chart
    from structgen.cli import load

    sizes, rivals = _sizes(args.batch), _rivals(args.vs)
    if args.chart is not None:
        chart.check(args.chart)
    llm = load(args)
    runs: dict[str, Run] = {"structgen": _ours(llm, args.tokens)}
    for name in rivals:
        with working(f"loading {name}", quiet=args.quiet):
            runs[name] = open_rival(name, llm, args.model, args.tokens)
    rows: list[dict[str, Any]] = []
    for size in sizes:
        with working(f"batch {size}", quiet=args.quiet):
            rows += _compare(_take_turns(runs, size, args.repeat), size)
    notes = [
        f"{args.model}, greedy, {args.tokens} tokens a request, prompts included; medians of {args.repeat}, taking "
        "turns; times in ms",
        "TTFT: to the first token; ITL: between tokens; TPOT: a request's mean ITL; e2e: to the last token",
    ]
    if args.chart is not None:
        _draw(args.chart, rows, notes)
    return Report("Throughput", rows, notes, {"model": args.model, "tokens": args.tokens})


def _sizes(text: str) -> list[int]:
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1:
        raise RequestError(f"--batch is {text!r}; allowed: numbers from 1, separated by commas")
    return sizes


def _rivals(text: str | None) -> list[str]:
    names = text.split(",") if text else []
    unknown = sorted({name.partition("=")[0] for name in names} - set(NAMES))
    if unknown:
        raise RequestError(f"--vs names {', '.join(unknown)}; allowed for throughput: {', '.join(NAMES)}")
    return names


def _take_turns(runs: dict[str, Run], size: int, repeat: int) -> dict[str, _Timed]:
    prompts = [PROMPTS[i % len(PROMPTS)] for i in range(size)]
    for run in runs.values():
        run(prompts)  # not counted: first calls compile and allocate
    timed: dict[str, _Timed] = {name: [] for name in runs}
    for _ in range(repeat):
        for name, run in runs.items():
            start = time.perf_counter()
            served = run(prompts)
            timed[name].append((served, time.perf_counter() - start))
    return timed


def _compare(timed: dict[str, _Timed], size: int) -> list[dict[str, Any]]:
    rows = [_row(name, size, runs) for name, runs in timed.items()]
    for row in rows:
        row["structgen_/_it"] = rows[0]["tokens/s"] / row["tokens/s"]
    return rows


def _row(name: str, size: int, timed: _Timed) -> dict[str, Any]:
    first = [value for served, _ in timed for value in served.first]
    gaps = [value for served, _ in timed for value in served.gaps]
    ends = [value for served, _ in timed for value in served.ends]
    own = [
        (end - start) / (served.tokens / size - 1)
        for served, _ in timed
        for start, end in zip(served.first, served.ends, strict=True)
        if served.tokens > size
    ]
    row: dict[str, Any] = {"engine": name, "batch": size}
    row["tokens/s"] = median(served.tokens / seconds for served, seconds in timed)
    for label, values in (("TTFT", first), ("ITL", gaps), ("TPOT", own), ("e2e", ends)):
        for share in (0.5, 0.99):
            value = percentile(values, share)
            row[f"{label}_p{share * 100:.0f}"] = None if value is None else value * 1000
    return row


def _draw(path: str, rows: Sequence[dict[str, Any]], notes: Sequence[str]) -> None:
    from structgen.bench.chart import draw

    panels: dict[str, dict[str, dict[str, float]]] = {}
    for title, key in (("tokens a second", "tokens/s"), ("TTFT p50, ms", "TTFT_p50"), ("ITL p50, ms", "ITL_p50")):
        panel = panels.setdefault(title, {})
        for row in rows:
            panel.setdefault(row["engine"], {})[f"batch {row['batch']}"] = row[key] or 0.0
    draw(path, panels, "Throughput", notes, unit="log scale")


def _ours(llm: LLM, tokens: int) -> Run:
    from structgen.engine.config import SamplingParams

    params = SamplingParams(max_tokens=tokens, temperature=0.0, ignore_eos=True)

    def run(prompts: Sequence[str]) -> Served:
        outputs = llm.generate(list(prompts), params)
        return Served(
            tokens=sum(len(output.outputs[0].token_ids) for output in outputs),
            first=[output.metrics.ttft_s for output in outputs if output.metrics.ttft_s is not None],
            gaps=[gap for output in outputs for gap in output.metrics.itl_s],
            ends=[output.metrics.e2e_s for output in outputs],
        )

    return run
