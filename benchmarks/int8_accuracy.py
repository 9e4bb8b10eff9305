"""How far int8 is from float32: next tokens and perplexity of the demo model, beside bfloat16 (and llama.cpp).

Teacher-forced: 50 prompts, each continued greedily for 64 tokens in float32; then every variant says the likeliest next
token at each of those positions, and the log likelihood of a text of another origin (this project's documentation).

    python benchmarks/int8_accuracy.py [--llama-cpp Q8_0.gguf ...] [--json OUT]
"""

from __future__ import annotations

import argparse
import json
import math
import platform
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from structgen import LLM, SamplingParams
from structgen.engine.batch import Batch
from structgen.engine.int8_runner import Int8Runner
from structgen.engine.resolve import resolve_model
from structgen.engine.runner import Runner
from structgen.engine.tokenizer import Tokenizer

SUBJECTS = (
    *("a lighthouse", "the water cycle", "a bicycle", "photosynthesis", "a long train journey"),
    *("inflation", "bread", "the moon", "a broken clock", "a good teacher"),
)
TASKS = (
    "Explain {} to a child.",
    "Write a short poem about {}.",
    "List five facts about {}.",
    "Describe {} in JSON with three fields.",
    "Write a Python function that models {}.",
)
CHAT = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
NEW, WINDOW, WINDOWS = 64, 512, 16
Logits = Callable[[list[int]], torch.Tensor]


def logits_of(runner: Any, tokens: list[int]) -> torch.Tensor:
    """float32 [len(tokens), vocab]."""
    count = len(tokens)
    blocks = -(-count // runner.block_size)
    positions = torch.arange(count)
    batch = Batch(
        token_ids=torch.tensor(tokens),
        positions=positions,
        slots=positions.clone(),
        query_starts=torch.tensor([0, count], dtype=torch.int32),
        context_lens=torch.tensor([count], dtype=torch.int32),
        block_tables=torch.arange(blocks, dtype=torch.int32)[None],
        logits_rows=positions.clone(),
    )
    result: torch.Tensor = runner.forward(batch).clone()
    return result


def continued(prompts: list[list[int]]) -> list[list[int]]:
    """Prompts with 64 tokens more, greedily, in float32."""
    with LLM(dtype="float32", kv_cache_tokens=8192) as llm:
        params = SamplingParams(temperature=0.0, max_tokens=NEW, ignore_eos=True)
        outputs = llm.generate(prompts, params)
    return [[*prompt, *output.outputs[0].token_ids] for prompt, output in zip(prompts, outputs, strict=True)]


def perplexity(logits: Any, windows: list[list[int]]) -> float:
    total, count = 0.0, 0
    for window in windows:
        rows = logits(window)[:-1].log_softmax(-1)
        total -= float(rows.gather(1, torch.tensor(window[1:])[:, None]).sum())
        count += len(window) - 1
    return math.exp(total / count)


def llama_cpp(path: str) -> Any:
    from llama_cpp import Llama

    model = Llama(path, n_ctx=1024, n_batch=1024, logits_all=True, verbose=False)

    def logits(tokens: list[int]) -> torch.Tensor:
        model.reset()
        model.eval(tokens)
        return torch.tensor(model.scores[: len(tokens)]).clone()

    return logits


def read_windows(tokenizer: Tokenizer) -> list[list[int]]:
    """This project's documentation in pieces of 512 tokens."""
    folder = Path(__file__).resolve().parent.parent / "docs"
    prose = "\n".join((folder / name).read_text(encoding="utf-8") for name in ("guide.md", "why.md", "performance.md"))
    ids = tokenizer.encode(prose)
    return [ids[at : at + WINDOW] for at in range(0, len(ids) - WINDOW, WINDOW)][:WINDOWS]


def of_runner(make: Callable[..., Any], **options: Any) -> Logits:
    runner = make(resolve_model("smollm2"), kv_cache_tokens=1024, max_num_batched_tokens=1024, **options)
    return lambda tokens: logits_of(runner, tokens)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama-cpp", nargs="*", default=[], metavar="GGUF", help="peers: files of the same model")
    parser.add_argument("--json", metavar="OUT")
    args = parser.parse_args()
    tokenizer = Tokenizer.load(resolve_model("smollm2"))
    prompts = [tokenizer.encode(CHAT.format(task.format(subject))) for task in TASKS for subject in SUBJECTS]
    texts, windows = continued(prompts), read_windows(tokenizer)
    loaders: dict[str, Callable[[], Logits]] = {
        "float32": lambda: of_runner(Runner, dtype="float32"),
        "bfloat16": lambda: of_runner(Runner, dtype="bfloat16"),
        "int8": lambda: of_runner(Int8Runner),
    }
    loaders |= {f"llama.cpp {Path(file).stem}": partial(llama_cpp, file) for file in args.llama_cpp}
    rows: dict[str, dict[str, float]] = {}
    wanted: list[torch.Tensor] = []
    for name, load in loaders.items():
        logits = load()
        likeliest = [
            logits(text)[-NEW - 1 : -1].argmax(-1) for text in track(texts, name, console=Console(stderr=True))
        ]
        wanted = wanted or likeliest
        same = sum(int((mine == other).sum()) for mine, other in zip(likeliest, wanted, strict=True))
        rows[name] = {"same": same / (len(texts) * NEW), "perplexity": perplexity(logits, windows)}
    title = f"{len(texts) * NEW} positions; {len(windows)} windows of {WINDOW}"
    table = Table("variant", "same next token", "perplexity", "/ float32", title=title)
    for name, row in rows.items():
        ratio = row["perplexity"] / rows["float32"]["perplexity"]
        table.add_row(name, f"{row['same']:.2%}", f"{row['perplexity']:.3f}", f"{ratio:.4f}")
    Console().print(table)
    if args.json:
        machine = {"processor": platform.processor() or platform.machine(), "torch": torch.__version__}
        Path(args.json).write_text(json.dumps({"rows": rows, "machine": machine}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
