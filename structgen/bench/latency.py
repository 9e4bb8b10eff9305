"""Time to the first token and between tokens, one request at a time, with and without a grammar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from structgen.bench import Report, percentile
from structgen.bench.workload import SCHEMAS, TASKS
from structgen.console import working

if TYPE_CHECKING:
    import argparse

    from structgen.engine.outputs import RequestOutput


def measure(args: argparse.Namespace) -> Report:
    """Runs each task alone, ``--repeat`` times."""
    from structgen.api import chat_prompt
    from structgen.cli import load
    from structgen.constraint import Constraint
    from structgen.engine.config import SamplingParams
    from structgen.grammars.grammar import Grammar

    llm = load(args)
    params = SamplingParams(max_tokens=args.tokens, temperature=0.0, ignore_eos=True)
    prompts = [chat_prompt(llm, text, system=None, shown=Constraint(schema=SCHEMAS[name])) for name, text in TASKS]
    grammars = [Grammar.from_json_schema(SCHEMAS[name]) for name, _ in TASKS]
    with working("warming up", quiet=args.quiet):
        llm.generate(prompts[:1], params, grammar=grammars[0])
    free: list[RequestOutput] = []
    held: list[RequestOutput] = []
    with working("measuring", quiet=args.quiet):
        for _ in range(args.repeat):
            for prompt, grammar in zip(prompts, grammars, strict=True):  # interleaved: a busy moment hits both
                free += llm.generate([prompt], params)
                held += llm.generate([prompt], params, grammar=grammar)
    rows = [_row("free text", free), _row("JSON Schema", held)]
    notes = [f"{args.model}, batch 1, greedy, at most {args.tokens} tokens; milliseconds"]
    return Report("Latency", rows, notes, {"model": args.model, "tokens": args.tokens})


def _row(name: str, outputs: list[RequestOutput]) -> dict[str, object]:
    first = [o.metrics.ttft_s for o in outputs if o.metrics.ttft_s is not None]
    gaps = [gap for o in outputs for gap in o.metrics.itl_s]
    tokens = sum(len(o.outputs[0].token_ids) for o in outputs)
    wall = sum(o.metrics.e2e_s for o in outputs)
    masks = sum(o.metrics.masks for o in outputs)
    mask_s = sum(o.metrics.mask_s for o in outputs)
    return {
        "requests": name,
        "ttft_p50": _ms(percentile(first, 0.5)),
        "ttft_p99": _ms(percentile(first, 0.99)),
        "itl_p50": _ms(percentile(gaps, 0.5)),
        "itl_p99": _ms(percentile(gaps, 0.99)),
        "tokens/s": tokens / wall if wall else None,
        "mask": _ms(mask_s / masks) if masks else None,
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000
