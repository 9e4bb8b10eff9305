"""Other engines on the same weights, prompts and tokens, for ``structgen bench throughput --vs``."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from structgen.errors import ModelError, StructgenError

if TYPE_CHECKING:
    from structgen.engine.llm import LLM

NAMES = ("transformers", "llama-cpp")


@dataclass(frozen=True, slots=True)
class Served:
    """What a batch was like for its requests. Times in seconds, of each request since the batch began.

    Attributes:
        tokens: generated, all requests together.
        first: until the first token.
        gaps: between tokens, those of all requests.
        ends: until the last token.
    """

    tokens: int
    first: Sequence[float]
    gaps: Sequence[float]
    ends: Sequence[float]

    @classmethod
    def in_step(cls, requests: int, begin: float, stamps: Sequence[float]) -> Served:
        """All requests get a token at each of the stamps."""
        times = [stamp - begin for stamp in stamps]
        gaps = [after - before for before, after in pairwise(times)]
        return cls(requests * len(times), times[:1] * requests, gaps * requests, times[-1:] * requests)


Run = Callable[[Sequence[str]], Served]


def open_rival(name: str, llm: LLM, model: str, tokens: int) -> Run:
    """What serves a batch of prompts with that many tokens each. A name may say which file to read: "llama-cpp=FILE".

    Raises:
        ModelError, StructgenError: it is not installed, or cannot read the model.
    """
    engine, _, file = name.partition("=")
    return (_transformers if engine == "transformers" else _llama_cpp)(llm, file or model, tokens)


def _transformers(llm: LLM, model_name: str, tokens: int) -> Run:
    """The same file, read by transformers, in the type that our engine computes in (bfloat16 beside int8)."""
    import torch
    import transformers

    from structgen.engine.resolve import resolve_model

    library: Any = transformers  # untyped in parts
    library.utils.logging.set_verbosity_error()
    library.utils.logging.disable_progress_bar()
    path = Path(resolve_model(model_name))
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
        raise ModelError(f"transformers cannot load {model_name}: {error}") from error
    tokenizer.padding_side = "left"
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token

    def run(prompts: Sequence[str]) -> Served:
        stamps: list[float] = []

        def stamp(_ids: Any, scores: Any) -> Any:
            stamps.append(time.perf_counter())
            return scores

        begin = time.perf_counter()
        batch = tokenizer(list(prompts), return_tensors="pt", padding=True)
        with torch.inference_mode(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.generate(
                **batch, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False,
                pad_token_id=tokenizer.pad_token_id, logits_processor=library.LogitsProcessorList([stamp]),
            )  # fmt: skip
        return Served.in_step(len(prompts), begin, stamps)

    return run


def _llama_cpp(llm: LLM, model_name: str, tokens: int) -> Run:
    """The same GGUF file, all prompts in one llama.cpp batch."""
    from structgen.engine.resolve import resolve_model

    try:
        import llama_cpp as library
    except ImportError as error:
        raise StructgenError("--vs llama-cpp needs llama.cpp: pip install llama-cpp-python") from error
    path = Path(resolve_model(model_name))
    if path.suffix != ".gguf":
        raise ModelError(f"llama.cpp reads .gguf files; {model_name!r} is a folder")
    import numpy as np
    import torch

    lib: Any = library
    lib.llama_backend_init()
    model_params = lib.llama_model_default_params()
    model_params.n_gpu_layers = 0
    weights = lib.llama_model_load_from_file(str(path).encode(), model_params)
    width = int(lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(weights)))

    def run(prompts: Sequence[str]) -> Served:
        begin = time.perf_counter()
        ids = [llm.tokenizer.encode(prompt) for prompt in prompts]
        params = lib.llama_context_default_params()
        params.n_seq_max = len(ids)
        params.n_ctx = sum(map(len, ids)) + (tokens + 64) * len(ids)
        params.n_batch = max(sum(map(len, ids)), 512)
        params.n_threads = params.n_threads_batch = torch.get_num_threads()
        params.kv_unified = True
        context = lib.llama_init_from_model(weights, params)
        batch = lib.llama_batch_init(params.n_batch, 0, len(ids))
        stamps: list[float] = []
        lengths = [0] * len(ids)
        news = ids
        while len(stamps) < tokens:
            ends = _fill(batch, news, lengths)
            if lib.llama_decode(context, batch) != 0:
                raise StructgenError("llama.cpp could not decode the batch")
            rows = (np.ctypeslib.as_array(lib.llama_get_logits_ith(context, end), (width,)) for end in ends)
            news = [[int(row.argmax())] for row in rows]
            stamps.append(time.perf_counter())
        lib.llama_batch_free(batch)
        lib.llama_free(context)
        return Served.in_step(len(prompts), begin, stamps)

    return run


def _fill(batch: Any, news: Sequence[Sequence[int]], lengths: list[int]) -> list[int]:
    """Put each sequence's new tokens into the batch; returns where each ends. ``lengths`` grow."""
    at, ends = 0, []
    for sequence, tokens in enumerate(news):
        for token in tokens:
            batch.token[at], batch.pos[at], batch.n_seq_id[at] = token, lengths[sequence], 1
            batch.seq_id[at][0], batch.logits[at] = sequence, False
            lengths[sequence] += 1
            at += 1
        batch.logits[at - 1] = True
        ends.append(at - 1)
    batch.n_tokens = at
    return ends
