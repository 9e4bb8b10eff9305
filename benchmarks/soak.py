"""Many mixed requests through the real engine: nothing leaks, nothing fails that should not.

Free and constrained text, sampled and greedy, several choices, log probabilities, deadlines, aborted streams, prompts
that share beginnings and prompts that do not, refused requests among them. Memory is read after every wave; after the
first tenth it must stay within ``--slack``.

    python benchmarks/soak.py [--requests 20000] [--model M] [--json OUT]
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

import structgen as sg

WAVE = 48
WORDS = ("the", "a", "of", "mill", "bridge", "clock", "river", "road", "letter", "storm", "harbour", "glass", "night")
SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"}},
     "required": ["name", "age"], "additionalProperties": False},
    {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "minItems": 1, "maxItems": 3},
    {"type": "object", "properties": {"kind": {"const": "x"}, "on": {"type": "boolean"}}, "required": ["kind"]},
]  # fmt: skip


def resident_mb() -> float:
    """Memory that the process holds now."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


def prompt(rng: random.Random) -> str:
    shared = "You are a helpful assistant. Answer briefly. " * rng.choice((0, 0, 1, 4))
    return shared + " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 40)))


def grammar(rng: random.Random, serial: int) -> Any:
    """None, one of a few, or one that is seen only once."""
    kind = rng.random()
    if kind < 0.4:
        return None
    if kind < 0.7:
        return sg.Grammar.from_json_schema(rng.choice(SCHEMAS), whitespace="compact")
    if kind < 0.8:
        return sg.Grammar.from_regex(r"[a-z]{1,8}( [a-z]{1,8}){0,3}")
    return sg.Grammar.from_choices([f"{rng.choice(WORDS)} {serial}", rng.choice(WORDS)])


def params(rng: random.Random) -> sg.SamplingParams:
    return sg.SamplingParams(
        max_tokens=rng.randint(1, 14),
        temperature=rng.choice((0.0, 0.7, 1.3)),
        top_p=rng.choice((1.0, 0.9)),
        n=rng.choice((1, 1, 1, 2)),
        seed=rng.choice((None, 7)),
        logprobs=rng.choice((None, None, 2)),
        ignore_eos=False,
    )


def run_wave(llm: sg.LLM, rng: random.Random, serial: int, counts: Counter[str]) -> None:
    """A batch, a stream that is left, and a request that must be refused."""
    jobs = [(prompt(rng), params(rng), grammar(rng, serial + i)) for i in range(WAVE - 2)]
    prompts, settings, grammars = (list(part) for part in zip(*jobs, strict=True))
    timeouts = [0.05 if rng.random() < 0.03 else None for _ in jobs]
    for output in llm.generate(prompts, settings, grammar=grammars, timeout_s=timeouts):
        for choice in output.outputs:
            counts[choice.finish_reason or "none"] += 1
            if choice.error is not None:
                counts[type(choice.error).__name__] += 1
    stream = llm.stream(prompt(rng), sg.SamplingParams(max_tokens=30, ignore_eos=True))
    for _, _event in zip(range(rng.randint(1, 5)), stream, strict=False):
        pass
    stream.close()
    counts["left"] += 1
    try:
        llm.generate(prompt(rng), sg.SamplingParams(max_tokens=5), grammar=sg.Grammar.from_regex("(" * 3))
    except sg.StructgenError:
        counts["refused"] += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--slack", type=float, default=0.05, help="growth of memory that passes, after the first tenth")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", metavar="OUT")
    args = parser.parse_args()
    rng, counts, memory = random.Random(args.seed), Counter[str](), list[float]()
    begin = time.perf_counter()
    with sg.LLM(args.model, kv_cache_tokens=8192) as llm, Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("requests", total=args.requests)
        for serial in range(0, args.requests, WAVE):
            run_wave(llm, rng, serial, counts)
            gc.collect()
            memory.append(resident_mb())
            progress.update(task, advance=WAVE, description=f"requests, {memory[-1]:.0f} MB")
    warm = memory[len(memory) // 10]
    growth = max(memory[len(memory) // 10 :]) / warm - 1
    report = {
        "requests": args.requests, "seconds": time.perf_counter() - begin, "ends": dict(counts),
        "memory_mb": {"first": memory[0], "warm": warm, "largest": max(memory), "last": memory[-1]}, "growth": growth,
    }  # fmt: skip
    print(json.dumps(report, indent=1))
    if args.json:
        Path(args.json).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    unexpected = set(counts) - {"stop", "length", "timeout", "abort", "left", "refused"}
    if unexpected or growth > args.slack:
        print(f"failed: growth {growth:.1%}, unexpected ends {sorted(unexpected)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
