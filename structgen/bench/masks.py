"""Time to the first mask of a grammar, and between masks, over many schemas or Lark grammars, beside peers."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from structgen.bench import Report, machine, percentile
from structgen.bench.mask_engines import Ours, peers, version_of
from structgen.bench.mask_runs import Job, Processes, Survey, Times, prepare, race, survey
from structgen.bench.progress import progress
from structgen.bench.samples import Sample, built_in, read_grammars, read_samples, token_walks
from structgen.cli import UsageError
from structgen.console import working
from structgen.errors import StructgenError
from structgen.grammars.vocabulary import Vocabulary

if TYPE_CHECKING:
    import argparse

OURS = Ours.name
FIRST = 20  # schemas of a fresh process
Figures = dict[str, float | None]  # what was measured, with its unit -> value
_SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 1.0}


def measure(args: argparse.Namespace) -> Report:
    """Surveys each engine alone, then lets them take turns over what all of them compile, ``--repeat`` times."""
    rivals = peers(args.vs, args.grammars is not None)
    if args.chart is not None:
        from structgen.bench import chart

        chart.check(args.chart)
    for name, least in (("passes", 1), ("repeat", 1), ("limit", 1)):
        if getattr(args, name) < least:
            raise UsageError(f"--{name} {getattr(args, name)}: allowed are numbers from {least}")
    engines = (OURS, *rivals)
    source = _source(args)
    with working("reading the tokenizer", quiet=args.quiet):
        vocabulary = Vocabulary.from_tokenizer(source)
    where, found = _samples(args)
    listed = list(itertools.islice(found, args.limit))
    with working("reading the documents", quiet=args.quiet):
        samples = [(sample, token_walks(sample, vocabulary)) for sample in listed]
    base = Job(engines, source, samples, "off", args.passes, args.gc)
    surveys, runs, shared = _run(args, base)
    report = _report(engines, surveys, runs, shared, listed, vocabulary, where, args)
    if args.chart is not None:
        _draw(args.chart, report, engines)
    return report


def _source(args: argparse.Namespace) -> str:
    if args.tokenizer is not None:
        return str(args.tokenizer)
    from structgen.engine.resolve import resolve_model

    return str(resolve_model(args.model))


def _samples(args: argparse.Namespace) -> tuple[str, Iterator[Sample]]:
    where = args.data_option or args.data
    if args.grammars is not None:
        if where is not None:
            raise UsageError("give schemas or --grammars, not both")
        return Path(args.grammars).name, read_grammars(args.grammars)
    if where in (None, "builtin"):
        return "the built-in schemas", built_in()
    return Path(where).name, read_samples(where)


Run = tuple[dict[str, Times], float]


def _run(args: argparse.Namespace, base: Job) -> tuple[dict[str, Survey], list[Run], list[int]]:
    """Surveys, races, and the numbers of the samples that all engines compile."""
    surveys: dict[str, Survey] = {}
    runs: list[Run] = []
    total = len(base.samples)
    with Processes(args.timeout) as processes:
        for name in base.engines:
            with progress(f"{name}: verdicts and memory", total, quiet=args.quiet) as told:
                surveys[name] = processes.run(survey, _with(base, engines=(name,)), told)
        shared = [i for i in range(total) if not any(i in one.refused for one in surveys.values())]
        if not shared:
            refused = {name: dict(Counter(one.refused.values()).most_common(1)) for name, one in surveys.items()}
            raise StructgenError(f"nothing could be used by all of {', '.join(base.engines)}: {refused}")
        common = [base.samples[i] for i in shared]
        # The store is to hold what any start leaves in it, and nothing of these schemas.
        seed = processes.store("seed")
        processes.run(prepare, _with(base, engines=(OURS,), cache=seed))
        for turn in range(args.repeat):
            job = _with(base, samples=common, cache=processes.store(f"race{turn}", seed), turn=turn)
            with progress(f"race {turn + 1} of {args.repeat}", len(common), quiet=args.quiet) as told:
                runs.append(processes.run(race, job, told))
    return surveys, runs, shared


def _with(job: Job, **changes: Any) -> Job:
    return Job(**{**vars(job), **changes})


# ----------------------------------------------------------------------------------------------------- figures


def figures(times: Times, plain: Sequence[bool]) -> Figures:
    """The figures of one engine in one race; ``plain[i]`` says that schema i has no pattern."""
    made: Figures = {"TTFM avg": _mean(times.first)}
    made.update((f"TTFM {name}", percentile(times.first, share)) for name, share in _SHARES.items() if name != "p99.9")
    made.update((f"TTFM again {name}", percentile(times.again, _SHARES[name])) for name in ("p50", "p99"))
    for number, visit in enumerate(times.visits, 1):
        steps = [step for steps in visit for step in steps]
        made[f"TBM visit {number} avg"] = _mean(steps)
        made.update((f"TBM visit {number} {name}", percentile(steps, share)) for name, share in _SHARES.items())
        if number == 1:
            without = [step for steps, is_plain in zip(visit, plain, strict=True) if is_plain for step in steps]
            made["TBM visit 1, no patterns, p99"] = percentile(without, 0.99)
            made[f"TBM visit 1, first {FIRST} schemas, avg"] = _mean([s for steps in visit[:FIRST] for s in steps])
    return made


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def medians(found: Sequence[Figures]) -> Figures:
    """Each figure's median over the races."""
    made: Figures = {}
    for name in found[0]:
        values = [value for one in found if (value := one[name]) is not None]
        made[name] = median(values) if values else None
    return made


def _report(
    engines: Sequence[str], surveys: dict[str, Survey], runs: Sequence[Run], shared: Sequence[int],
    samples: Sequence[Sample], vocabulary: Vocabulary, where: str, args: argparse.Namespace,
) -> Report:  # fmt: skip
    plain = [not samples[i].has_pattern() for i in shared]
    each = {name: [figures(run[name], plain) for run, _ in runs] for name in engines}
    made = {name: medians(found) for name, found in each.items()}
    rows = [_row(f"{key}, us", {name: made[name][key] for name in engines}) for key in made[OURS]]
    sides: list[tuple[str, Callable[[Survey], float | None]]] = [
        ("memory a compiled schema, MB", lambda one: one.compiled_mb),
        ("memory a schema with its first visit, MB", lambda one: one.visited_mb),
        ("tokenizer side, s", lambda one: one.build_s),
        ("tokenizer side, MB", lambda one: one.build_mb),
    ]
    rows += [_row(key, {name: get(surveys[name]) for name in engines}) for key, get in sides]
    stored = {name: (median(s for _, s in runs) if name == OURS else None) for name in engines}
    rows.insert(len(rows) - 1, _row("tokenizer side from the store, s", stored))
    steps = sum(len(steps) for steps in runs[0][0][OURS].visits[0])
    what = "grammars" if args.grammars is not None else "schemas"
    notes = [
        f"{len(shared)} {what} of {where} that all compile (of {len(samples)}); {steps:,} steps; "
        f"vocabulary of {vocabulary.size:,} tokens; {', '.join(f'{n} {version_of(n)}' for n in engines)}",
        f"medians of {args.repeat} fresh processes, taking turns by schema; garbage collector "
        f"{'on' if args.gc else 'off'}; TTFM: from the schema to the first mask; TBM: mask and accept",
    ]
    for name, one in surveys.items():
        notes.append(
            f"{name}: {len(one.refused)} {what} refused, {len(one.wrong)} of {one.documents} documents judged wrongly"
        )
    details = _details(engines, surveys, each, samples, shared, vocabulary, where, args)
    for name in engines:
        details["engines"][name]["slowest"] = slowest(runs[0][0][name], [samples[i].name for i in shared])
    return Report("Masks", rows, notes, details)


def slowest(times: Times, names: Sequence[str], count: int = 5) -> dict[str, list[tuple[str, float]]]:
    """The schemas with the longest time to the first mask and the longest step of the first visit, in microseconds."""
    found = {"TTFM": times.first, "TBM visit 1": [max(steps, default=0.0) for steps in times.visits[0]]}
    return {
        what: sorted(zip(names, values, strict=True), key=lambda pair: -pair[1])[:count]
        for what, values in found.items()
    }


def _row(name: str, values: dict[str, float | None]) -> dict[str, Any]:
    row: dict[str, Any] = {"figure": name, **values}
    mine = values[OURS]
    for rival, value in values.items():
        if rival != OURS:
            row[f"/ {rival}"] = mine / value if mine is not None and value else None
    return row


def _details(
    engines: Sequence[str], surveys: dict[str, Survey], each: dict[str, list[Figures]], samples: Sequence[Sample],
    shared: Sequence[int], vocabulary: Vocabulary, where: str, args: argparse.Namespace,
) -> dict[str, Any]:  # fmt: skip
    def named(number: int) -> str:
        return samples[number].name

    return {
        "data": where,
        "schemas": len(samples),
        "shared": len(shared),
        "vocabulary": vocabulary.size,
        "passes": args.passes,
        "repeat": args.repeat,
        "gc": args.gc,
        "engines": {
            name: {
                "version": surveys[name].version,
                "refused": {named(i): why for i, why in surveys[name].refused.items()},
                "wrong_documents": [[named(i), why] for i, why in surveys[name].wrong],
                "documents": surveys[name].documents,
                "races": each[name],
            }
            for name in engines
        },
    }


def _draw(path: str, report: Report, engines: Sequence[str]) -> None:
    from structgen.bench.chart import draw

    found = {row["figure"].removesuffix(", us"): row for row in report.rows}
    titles = {"TTFM": "First mask, from the schema on", "TBM visit 1": "Mask and accept, first visit"}
    if "TBM visit 2 p50" in found:
        titles["TBM visit 2"] = "Mask and accept, second visit"
    panels = {
        title: {
            name: {p: found[f"{key} {p}"][name] for p in _SHARES if (found.get(f"{key} {p}") or {}).get(name)}
            for name in engines
        }
        for key, title in titles.items()
    }
    about = machine()
    load = "-" if about["load_average"] is None else f"{about['load_average']:.1f}"
    footer = [*report.notes[:2], f"{about['processor']}, {about['cores']} cores, load {load}, Python {about['python']}"]
    draw(path, panels, f"Masks: {', '.join(engines)}", footer)
