"""Greedy output does not depend on batch size, chunking, prefix cache or preemption.

On the fake model, whose logits need every KV slot to be right, over all combinations; on the tiny random model in f32.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from fakes import EOS, VOCAB, FakeGrammar, FakeRunner, greedy_oracle, make_core, make_request

from structgen.engine.config import SchedulerConfig
from structgen.engine.constraints import GrammarCompiler
from structgen.engine.core import EngineCore
from structgen.engine.request import Request


def thirds(history: list[int]) -> set[int]:
    return {*range(len(history) % 3, VOCAB, 3), *({EOS} if len(history) >= 6 else ())}


def drive(
    core: EngineCore, requests: Sequence[Request], *, batch: int, preempt_every: int, seed: int = 0
) -> None:
    """At most ``batch`` requests at a time; every few steps a random running one is preempted, if it has got a token
    since it last was (otherwise a chunk smaller than a block would never get anywhere)."""
    seen: dict[Request, int] = {}
    rng = random.Random(seed)
    queue = list(requests)
    for step in itertools.count(1):
        while queue and len(core.scheduler.requests()) < batch:
            core.add(queue.pop(0))
        if not queue and not core.has_work:
            break
        core.step()
        ready = [request for request in core.scheduler.running if request.num_output > seen.get(request, 0)]
        if preempt_every and step % preempt_every == 0 and ready:
            victim = rng.choice(ready)
            seen[victim] = victim.num_output
            core.scheduler.preempt(victim)
        core.scheduler.check()
    core.scheduler.pool.check()


@pytest.mark.parametrize("preempt_every", [0, 3])
@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize("batch", [1, 16])
def test_fake_model(batch: int, caching: bool, preempt_every: int):
    prompts = [[i % 4, *range(i * 3 % 30 + 1)] for i in range(16)]
    wanted = [greedy_oracle(p, 10, thirds if i % 2 else None) for i, p in enumerate(prompts)]
    for chunk in (1, 2, 3, 7, 16, 64):
        core = make_core(
            FakeRunner(num_blocks=64),
            max_num_batched_tokens=64,
            long_prefill_token_threshold=chunk,
            enable_prefix_caching=caching,
        )
        compiler = GrammarCompiler(None)
        grammar = FakeGrammar(thirds)
        requests = [
            make_request(p, max_tokens=10, grammar=grammar if i % 2 else None, compiler=compiler)
            for i, p in enumerate(prompts)
        ]
        drive(core, requests, batch=batch, preempt_every=preempt_every)
        assert [request.output_token_ids for request in requests] == wanted


def test_fake_model_short_of_blocks():
    """A pool so small that preemption happens by itself."""
    prompts = [[i, *range(12)] for i in range(12)]
    core = make_core(FakeRunner(num_blocks=12, max_model_len=40))
    requests = [make_request(p, max_tokens=20, ignore_eos=True) for p in prompts]
    drive(core, requests, batch=16, preempt_every=0)
    assert core.metrics.preemptions > 0
    for prompt, request in zip(prompts, requests, strict=True):
        assert request.output_token_ids == greedy_oracle(prompt, 20, ignore_eos=True)


def test_seeded_sampling_does_not_depend_on_scheduling_either():
    prompts = [[i, *range(12)] for i in range(8)]
    outputs = []
    for batch, chunk, preempt_every in ((1, 0, 0), (8, 5, 0), (8, 3, 2)):
        core = make_core(FakeRunner(num_blocks=64), long_prefill_token_threshold=chunk)
        requests = [make_request(p, temperature=1.0, seed=i, max_tokens=12) for i, p in enumerate(prompts)]
        drive(core, requests, batch=batch, preempt_every=preempt_every)
        outputs.append([request.output_token_ids for request in requests])
    assert outputs[0] == outputs[1] == outputs[2]


PROMPTS = ("Hello", "the cat and the dog", "a", '{"name": "' * 5, "x" * 70, "0 1 2 3 4 5 6 7")

TinyRun = Callable[[int, int, bool, int], list[list[int]]]


@pytest.fixture(scope="module", params=["float32", "int8"])
def tiny_run(request: pytest.FixtureRequest, tiny_model: Callable[..., Path]) -> TinyRun:
    """``tiny_run(batch, chunk, caching, preempt_every)`` on the real runners, a random model of two layers."""
    from structgen.engine.int8_runner import Int8Runner
    from structgen.engine.runner import Runner
    from structgen.engine.tokenizer import Tokenizer

    path = tiny_model("llama")
    tokenizer = Tokenizer.load(path)
    sizes = {"kv_cache_tokens": 4096, "max_num_batched_tokens": 512}
    runner: Runner | Int8Runner
    if request.param == "int8":
        runner = Int8Runner(path, **sizes)
    else:
        runner = Runner(path, dtype="float32", device="cpu", **sizes)
    prompts = [tokenizer.encode(f"{i} {text}") for i, text in zip(range(16), PROMPTS * 3, strict=False)]

    def tiny_run(batch: int, chunk: int, caching: bool, preempt_every: int) -> list[list[int]]:
        config = SchedulerConfig(
            num_blocks=runner.num_blocks,
            block_size=runner.block_size,
            max_model_len=runner.max_model_len,
            long_prefill_token_threshold=chunk,
            enable_prefix_caching=caching,
        )
        core = EngineCore(runner, config, eos_token_ids=tokenizer.eos_token_ids)
        requests = [make_request(p, max_tokens=12, ignore_eos=True) for p in prompts]
        drive(core, requests, batch=batch, preempt_every=preempt_every)
        return [request.output_token_ids for request in requests]

    return tiny_run


@pytest.fixture(scope="module")
def alone(tiny_run: TinyRun) -> list[list[int]]:
    """Each prompt whole and by itself."""
    return tiny_run(1, 0, False, 0)


@pytest.mark.parametrize("preempt_every", [0, 3])
@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize(("batch", "chunk"), [(1, 5), (16, 0), (16, 1), (16, 2), (16, 7), (16, 16), (16, 64)])
def test_tiny_model(
    tiny_run: TinyRun, alone: list[list[int]], batch: int, chunk: int, caching: bool, preempt_every: int
):
    assert tiny_run(batch, chunk, caching, preempt_every) == alone


@pytest.mark.parametrize("chunk", [4, 16, 64])
def test_a_prefix_is_computed_once(chunk: int):
    """Requests that come together, with one beginning: the others wait until the first has computed it."""
    prefix = [i % 7 for i in range(40)]
    prompts = [[*prefix, i, i + 1, i % 3] for i in range(8)] + [[9, 9, 9]]
    core = make_core(FakeRunner(num_blocks=64), max_num_batched_tokens=64, long_prefill_token_threshold=chunk)
    requests = [make_request(p, max_tokens=5) for p in prompts]
    drive(core, requests, batch=16, preempt_every=0)
    assert [request.output_token_ids for request in requests] == [greedy_oracle(p, 5) for p in prompts]
    size = core.config.block_size
    alone = 40 % size + 3  # of each prompt, what no full block of the prefix holds
    wanted = 40 + 3 + 7 * alone + 3 + sum(len(r.output_token_ids) - 1 for r in requests)
    assert core.metrics.computed_tokens == wanted


def test_who_waits_for_a_prefix_is_let_in_when_its_owner_goes():
    prefix = [i % 7 for i in range(40)]
    core = make_core(FakeRunner(num_blocks=64), long_prefill_token_threshold=8)
    first, second = make_request([*prefix, 1], max_tokens=3), make_request([*prefix, 2], max_tokens=3)
    for request in (first, second):
        core.add(request)
    core.step()
    assert core.scheduler.waiting == [second]
    core.abort(first)
    while core.has_work:
        core.step()
        core.scheduler.check()
    assert second.output_token_ids == greedy_oracle([*prefix, 2], 3)
