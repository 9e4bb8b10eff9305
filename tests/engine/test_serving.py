"""Priorities, deadlines, salts, the bounded queue, copies of blocks, ranked choices, scored prompts."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from fakes import (
    FakeGrammar,
    FakeRunner,
    error_text,
    greedy_oracle,
    make_core,
    make_request,
    run,
    sequence_logits,
)

from structgen.engine.config import SamplingParams
from structgen.engine.constraints import GrammarCompiler
from structgen.engine.group import Group
from structgen.engine.request import Request, Status
from structgen.errors import RequestError


def logprobs_of(tokens: Sequence[int]) -> torch.Tensor:
    return torch.from_numpy(sequence_logits(tokens)).log_softmax(-1)


def ranked(priority: int, prompt: Sequence[int], **params: Any) -> Request:
    request = make_request(prompt, **params)
    request.priority = priority
    request.order = (priority, request.serial)
    return request


# -- priority


def test_priorities_are_refused_where_they_have_no_effect():
    core, one = make_core(), ranked(1, [1])
    run(core, [one])
    assert "scheduling_policy='priority'" in error_text(one)


def test_smaller_numbers_first_then_by_arrival():
    core = make_core(scheduling_policy="priority", max_num_seqs=1)
    requests = [ranked(priority, [i], max_tokens=2, ignore_eos=True) for i, priority in enumerate((2, 0, 1, 0))]
    ended: list[Request] = []
    for request in requests:
        core.add(request)
    while core.has_work:
        ended += [update.request for update in core.step().updates if update.finish_reason]
    assert ended == [requests[1], requests[3], requests[2], requests[0]]


@pytest.mark.parametrize("limits", [{"max_num_seqs": 2}, {"num_blocks": 7}])
def test_an_urgent_request_takes_the_seat_or_the_blocks_of_the_least_urgent(limits: dict[str, int]):
    runner = FakeRunner(num_blocks=limits.get("num_blocks", 32), max_model_len=20)
    core = make_core(runner, scheduling_policy="priority", **limits)
    slow = [ranked(5, [i, *range(8)], max_tokens=8, ignore_eos=True) for i in range(2)]
    for request in slow:
        core.add(request)
    core.step()
    core.step()
    urgent = ranked(-1, [7, *range(7)], max_tokens=4, ignore_eos=True)
    core.add(urgent)
    core.step()
    assert urgent.status is Status.RUNNING
    assert slow[1].status is Status.WAITING
    run(core, [])
    assert urgent.clock.preemptions == 0
    assert slow[1].clock.preemptions > 0
    for request in (*slow, urgent):
        prompt = request.token_ids[: request.num_prompt]
        assert request.output_token_ids == greedy_oracle(prompt, request.num_output, ignore_eos=True)
        assert request.finish_reason == "length"


def test_equals_do_not_displace_each_other():
    core = make_core(scheduling_policy="priority", max_num_seqs=1)
    first, second = (ranked(3, [i], max_tokens=5, ignore_eos=True) for i in range(2))
    run(core, [first, second])
    assert first.clock.preemptions == second.clock.preemptions == 0


# -- deadlines and the queue


def test_deadlines_end_requests_in_every_state():
    class Slow(FakeGrammar):
        def compile(self, vocabulary: Any) -> FakeGrammar:
            time.sleep(0.2)
            return super().compile(vocabulary)

    core = make_core(max_num_seqs=1)
    parked = make_request([3], grammar=Slow(lambda _: {1}), compiler=GrammarCompiler(None))
    running, waiting, patient = (make_request([i], max_tokens=30, ignore_eos=True) for i in range(3))
    now = time.perf_counter()
    running.deadline, waiting.deadline, parked.deadline = now + 3600, now - 1, now - 1
    for request in (parked, running, waiting, patient):
        core.add(request)
    ended = {update.request: update.finish_reason for update in core.step().updates}
    assert ended == {parked: "timeout", waiting: "timeout", running: None}
    assert parked.incomplete
    got = running.num_output
    assert got > 0
    core._deadlines[0] = (now - 1, *core._deadlines[0][1:])
    core.step()
    assert (running.finish_reason, running.num_output) == ("timeout", got)
    run(core, [])
    assert patient.output_token_ids == greedy_oracle([2], 30, ignore_eos=True)


def test_a_full_queue_refuses_whole_requests():
    core = make_core(max_waiting=3)
    first = [make_request([1]), make_request([2])]
    assert core.add_all(first) == []
    choices = [make_request([3], index=i) for i in range(2)]
    refused = core.add_all(choices)
    assert [update.finish_reason for update in refused] == ["error"] * 2
    assert "2 sequences wait, and this request adds 2; allowed: 3 (max_waiting)" in error_text(choices[0])
    assert core.add_all([make_request([4])]) == []
    core.step()
    choices = [make_request([3], index=i) for i in range(3)]
    assert core.add_all(choices) == []
    run(core, [])
    assert all(request.finish_reason in ("stop", "length") for request in (*first, *choices))


# -- prompt blocks


def test_salts_keep_caches_apart():
    core, prompt = make_core(), list(range(12))
    cached = []
    for salt in ("", "a", "b", "a", ""):
        request = make_request(prompt, max_tokens=1)
        request.cache_salt = salt
        run(core, [request])
        cached.append(request.clock.num_cached_tokens)
    assert cached == [0, 0, 0, 8, 8]


class CopyingRunner(FakeRunner):
    def copy_blocks(self, pairs: Sequence[tuple[int, int]]) -> None:
        cache = self._cache.reshape(-1, self.block_size)
        for source, target in pairs:
            cache[target] = cache[source]


@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize("length", [1, 3, 4, 5, 8, 30])
def test_choices_copy_the_block_that_is_not_full(length: int, caching: bool):
    runner = CopyingRunner()
    core = make_core(runner, enable_prefix_caching=caching)
    prompt = list(range(1, length + 1))
    options = {"temperature": 1.0, "seed": 3, "n": 4, "ignore_eos": True}
    leader = make_request(prompt, **options)
    rest = [make_request(prompt, index=i, leader=leader, **options) for i in (1, 2, 3)]
    run(core, [leader, *rest])
    assert sum(runner.steps) == length + 3 * 1 + 4 * 7  # of each other choice the last prompt token alone
    for index, request in enumerate((leader, *rest)):
        alone = make_request(prompt, temperature=1.0, seed=3 + index, ignore_eos=True)
        run(make_core(), [alone])
        assert alone.output_token_ids == request.output_token_ids


# -- ranked choices, biases, scored prompts


def test_best_of_gives_the_likeliest_by_token():
    core = make_core(CopyingRunner())
    params = {"temperature": 1.0, "seed": 5, "n": 2, "best_of": 6, "max_tokens": 7}
    requests: list[Request] = []
    for index in range(6):
        requests.append(make_request([1, 2, 3], index=index, leader=requests[0] if requests else None, **params))
    group = Group("g", None, [1, 2, 3], requests)
    core.add_all(requests)
    while core.has_work:
        for update in core.step().updates:
            group.take(update)
    means = []
    for request in requests:
        total = sum(
            float(logprobs_of(request.token_ids[:at])[request.token_ids[at]])
            for at in range(3, len(request.token_ids))
        )
        means.append((total / request.num_output, total, tuple(request.output_token_ids)))
    means.sort(reverse=True)
    output = group.output()
    assert [choice.index for choice in output.outputs] == [0, 1]
    assert [choice.token_ids for choice in output.outputs] == [tokens for _, _, tokens in means[:2]]
    for choice, (_, total, _) in zip(output.outputs, means, strict=False):
        assert choice.cumulative_logprob == pytest.approx(total, abs=1e-4)
        assert choice.logprobs is None


def test_logit_bias_is_added_and_opens_nothing_that_is_masked():
    core = make_core()
    likely = greedy_oracle([1, 2], 1)[0]
    banned = make_request([1, 2], max_tokens=1, logit_bias={likely: -100})
    wanted = make_request([1, 2], max_tokens=1, logit_bias={"17": 100})
    held = make_request([1, 2], max_tokens=1, grammar=FakeGrammar(lambda _: {4, 6}), logit_bias={17: 100})
    run(core, [banned, wanted, held])
    logits = sequence_logits([1, 2])
    logits[likely] = -np.inf
    assert banned.output_token_ids == [int(logits.argmax())]
    assert wanted.output_token_ids == [17]
    assert held.output_token_ids == [max((4, 6), key=lambda token: logits[token])]


@pytest.mark.parametrize("budget", [5, 16, 64])
@pytest.mark.parametrize("preempt", [False, True])
def test_prompt_logprobs_equal_those_of_each_beginning(budget: int, preempt: bool):
    core = make_core(max_num_batched_tokens=budget, max_num_seqs=4)
    prompt = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7]
    run(core, [make_request(prompt, max_tokens=1)])  # its blocks are cached, and of no help
    scored = make_request(prompt, prompt_logprobs=2, max_tokens=4, ignore_eos=True)
    other = make_request([7, 7], max_tokens=6, ignore_eos=True)
    for request in (scored, other):
        core.add(request)
    core.step()
    if preempt:
        core.scheduler.preempt(scored)
    run(core, [])
    assert scored.output_token_ids == greedy_oracle(prompt, 4, ignore_eos=True)
    assert other.output_token_ids == greedy_oracle([7, 7], 6, ignore_eos=True)
    assert len(scored.prompt_logprobs) == len(prompt)
    assert scored.prompt_logprobs[0] is None
    for at, entry in enumerate(scored.prompt_logprobs[1:], 1):
        wanted = logprobs_of(prompt[:at])
        assert next(iter(entry)) == prompt[at]
        assert set(entry) == {prompt[at], *wanted.topk(2).indices.tolist()}
        for token, logprob in entry.items():
            assert logprob.logprob == pytest.approx(float(wanted[token]), abs=1e-5)
            assert logprob.rank == int((wanted > wanted[token]).sum()) + 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"best_of": 1, "n": 2}, "best_of is 1; allowed: at least n, which is 2"),
        ({"best_of": 2, "temperature": 0.0}, "gives 2 times the same"),
        ({"logit_bias": [1]}, "logit_bias is"),
        ({"logit_bias": {1: 101}}, r"logit_bias\[1\] is 101"),
        ({"logit_bias": {"x": 1}}, "a token id of logit_bias is 'x'"),
        ({"logit_bias": {1: math.nan}}, "logit_bias"),
        ({"prompt_logprobs": -1}, "prompt_logprobs is -1"),
    ],
)
def test_params_are_checked(options: dict[str, Any], message: str):
    with pytest.raises(RequestError, match=message):
        SamplingParams(**options)
