"""Tokens per second of batches, and the same by transformers on the same weights when asked for."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from structgen.bench import Report
from structgen.bench.workload import PROMPTS
from structgen.console import working
from structgen.errors import ModelError, RequestError

if TYPE_CHECKING:
    import argparse

    from structgen.engine.llm import LLM

Run = Callable[[int], int]  # batch size -> tokens generated


def measure(args: argparse.Namespace) -> Report:
    """Runs every batch size ``--repeat`` times; rivals take turns, so that a busy moment hits each."""
    from structgen.cli import load

    sizes = _sizes(args.batch)
    llm = load(args)
    runs: dict[str, Run] = {"structgen": _ours(llm, args.tokens)}
    if args.vs == "transformers":
        with working("loading transformers", quiet=args.quiet):
            runs["transformers"] = _transformers(llm, args)
    rows = []
    for size in sizes:
        with working(f"batch {size}", quiet=args.quiet):
            speeds = _take_turns(runs, size, args.repeat)
        row: dict[str, Any] = {"batch": size, **{f"{name}_tok/s": median(v) for name, v in speeds.items()}}
        if "transformers" in speeds:
            row["ratio"] = median(speeds["structgen"]) / median(speeds["transformers"])
        rows.append(row)
    notes = [f"{args.model}, greedy, {args.tokens} tokens a request, medians of {args.repeat}; prompts included"]
    return Report("Throughput", rows, notes, {"model": args.model, "tokens": args.tokens})


def _sizes(text: str) -> list[int]:
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1:
        raise RequestError(f"--batch is {text!r}; allowed: numbers from 1, separated by commas")
    return sizes


def _take_turns(runs: dict[str, Run], size: int, repeat: int) -> dict[str, list[float]]:
    speeds: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run(size)  # not counted: first calls compile and allocate
    for _ in range(repeat):
        for name, run in runs.items():
            start = time.perf_counter()
            tokens = run(size)
            speeds[name].append(tokens / (time.perf_counter() - start))
    return speeds


def _prompts(size: int) -> list[str]:
    return [PROMPTS[i % len(PROMPTS)] for i in range(size)]


def _ours(llm: LLM, tokens: int) -> Run:
    from structgen.engine.config import SamplingParams

    params = SamplingParams(max_tokens=tokens, temperature=0.0, ignore_eos=True)

    def run(size: int) -> int:
        return sum(len(o.outputs[0].token_ids) for o in llm.generate(_prompts(size), params))

    return run


def _transformers(llm: LLM, args: argparse.Namespace) -> Run:
    """The same file, read by transformers, in the type that our engine computes in."""
    import torch
    import transformers

    from structgen.engine.resolve import resolve_model

    library: Any = transformers  # untyped in parts
    library.utils.logging.set_verbosity_error()
    library.utils.logging.disable_progress_bar()
    path = Path(resolve_model(args.model))
    where: dict[str, Any] = {"pretrained_model_name_or_path": str(path)}
    if path.is_file():
        where = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
        if hasattr(library, "GgufConfig"):  # older versions always unpack the weights
            where["quantization_config"] = library.GgufConfig(dequantize=True)
    try:
        tokenizer = library.AutoTokenizer.from_pretrained(
            path.parent if path.is_file() else path, gguf_file=where.get("gguf_file")
        )
        model = library.AutoModelForCausalLM.from_pretrained(**where, dtype=llm.dtype).eval()
    except (OSError, ValueError, ImportError) as error:
        raise ModelError(f"transformers cannot load {args.model}: {error}") from error
    tokenizer.padding_side = "left"
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token

    def run(size: int) -> int:
        batch = tokenizer(_prompts(size), return_tensors="pt", padding=True)
        with torch.inference_mode(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = model.generate(
                **batch, max_new_tokens=args.tokens, min_new_tokens=args.tokens, do_sample=False,
                pad_token_id=tokenizer.pad_token_id,
            )  # fmt: skip
        return int(out[:, batch["input_ids"].shape[1] :].numel())

    return run
