from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.engine.config import SamplingParams, SchedulerConfig
from structgen.engine.request import Request, Status
from structgen.engine.scheduler import Schedule, Scheduler
from structgen.errors import RequestError


def make(**limits: Any) -> Scheduler:
    values: dict[str, Any] = {
        "num_blocks": 16,
        "block_size": 4,
        "max_model_len": 64,
        "max_num_seqs": 4,
        "max_num_batched_tokens": 16,
        "long_prefill_token_threshold": 0,
    }
    return Scheduler(SchedulerConfig(**{**values, **limits}))


def request(length: int = 5, *, first: int = 0, leader: Request | None = None, salt: str = "") -> Request:
    tokens = [first, *range(1, length)]
    return Request("r", "r", tokens, SamplingParams(), leader=leader, cache_salt=salt)


def commit(scheduler: Scheduler, schedule: Schedule, token: int = 7) -> None:
    for chunk in schedule.chunks:
        scheduler.advance(chunk)
        if chunk.is_sampled:
            chunk.request.token_ids.append(token)
    scheduler.check()


def shares(schedule: Schedule) -> list[tuple[int, int, bool]]:
    return [(chunk.start, chunk.count, chunk.is_sampled) for chunk in schedule.chunks]


def test_imports_no_torch():
    code = (
        "import sys, structgen.engine.scheduler, structgen.engine.constraints, structgen.engine.outputs; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_prefill_is_chunked_and_decodes_go_on():
    scheduler = make()
    first, long = request(3), request(40, first=100)
    scheduler.add(first)
    scheduler.add(long)
    step = scheduler.schedule()
    assert shares(step) == [(0, 3, True), (0, 13, False)]
    commit(scheduler, step)
    step = scheduler.schedule()
    assert shares(step) == [(3, 1, True), (13, 15, False)]
    commit(scheduler, step)
    step = scheduler.schedule()
    assert shares(step) == [(4, 1, True), (28, 12, True)]


def test_a_long_prompt_first_in_line_leaves_a_token_for_each_other():
    scheduler = make(max_num_batched_tokens=8)
    long, short = request(40), request(2, first=100)
    scheduler.add(long)
    commit(scheduler, scheduler.schedule())
    scheduler.add(short)
    for _ in range(10):
        step = scheduler.schedule()
        assert {chunk.request for chunk in step.chunks} >= set(scheduler.running)
        commit(scheduler, step)
    assert short.num_output >= 3


def test_threshold_caps_one_request():
    scheduler = make(long_prefill_token_threshold=6)
    scheduler.add(request(20))
    scheduler.add(request(20, first=100))
    assert shares(scheduler.schedule()) == [(0, 6, False), (0, 6, False)]


def test_prefix_hit_skips_computed_blocks_but_never_the_last_token():
    scheduler = make()
    first = request(12)
    scheduler.add(first)
    commit(scheduler, scheduler.schedule())
    same, longer, other = request(12), request(14), request(12, first=100)
    for new in (same, longer, other):
        scheduler.add(new)
    step = scheduler.schedule()
    assert [chunk.start for chunk in step.chunks] == [12, 8, 12, 0]
    assert same.block_table[:2] == first.block_table[:2]
    assert same.block_table[2] != first.block_table[2]
    assert (same.clock.num_cached_tokens, other.clock.num_cached_tokens) == (8, 0)


def test_salt_separates_caches():
    scheduler = make()
    for salt, start in (("a", 0), ("b", 0), ("a", 8)):
        new = request(12, salt=salt)
        scheduler.add(new)
        step = scheduler.schedule()
        assert step.chunks[-1].start == start
        commit(scheduler, step)


@pytest.mark.parametrize("caching", [True, False])
def test_siblings_wait_for_the_prompt_and_share_its_blocks(caching: bool):
    scheduler = make(enable_prefix_caching=caching, max_num_batched_tokens=8)
    leader = request(13)
    siblings = [request(13, leader=leader) for _ in range(2)]
    stranger = request(4, first=100)
    for new in (leader, *siblings, stranger):
        scheduler.add(new)
    step = scheduler.schedule()
    assert shares(step) == [(0, 8, False)]
    commit(scheduler, step)
    step = scheduler.schedule()
    assert shares(step) == [(8, 5, True), (0, 3, False)]  # the stranger overtakes the waiting siblings
    commit(scheduler, step)
    step = scheduler.schedule()
    assert [chunk.start for chunk in step.chunks] == [13, 3, 12, 12]
    for sibling in siblings:
        assert sibling.block_table[:3] == leader.block_table[:3]
        assert sibling.block_table[3] != leader.block_table[3]
    scheduler.check()


def test_siblings_go_on_alone_when_the_leader_ends_early():
    scheduler = make()
    leader = request(13)
    sibling = request(13, leader=leader)
    scheduler.add(leader)
    scheduler.add(sibling)
    scheduler.schedule()
    scheduler.finish(leader, "abort")
    assert [chunk.request for chunk in scheduler.schedule().chunks] == [sibling]


def test_youngest_is_preempted_and_keeps_its_tokens():
    scheduler = make(num_blocks=4, max_model_len=16)
    old, young = request(4), request(4, first=100)
    scheduler.add(old)
    scheduler.add(young)
    seen = []
    for _ in range(40):
        step = scheduler.schedule()
        seen += step.preempted
        commit(scheduler, step)
        for running in list(scheduler.running):
            if running.num_output >= 9:
                scheduler.finish(running, "length")
    assert set(seen) == {young}
    assert young.clock.preemptions == len(seen) > 0
    assert old.finish_reason == young.finish_reason == "length"
    assert young.num_output == 9
    scheduler.pool.check()


@pytest.mark.parametrize(
    ("limits", "length", "word"),
    [({"max_model_len": 20}, 20, "max_model_len"), ({"num_blocks": 2}, 8, "kv_cache_tokens")],
)
def test_prompt_that_cannot_fit_is_refused_and_says_which_limit(limits: dict, length: int, word: str):
    scheduler = make(**limits)
    scheduler.add(request(length - 1))
    with pytest.raises(RequestError, match=rf"has {length} tokens.*at most {length - 1}.*{word}"):
        scheduler.add(request(length))
    with pytest.raises(RequestError, match="empty"):
        scheduler.add(Request("r", "r", [], SamplingParams()))
    assert len(scheduler.waiting) == 1


def test_parked_requests_join_at_their_place_by_arrival():
    scheduler = make(max_num_seqs=1)
    running, parked, late = request(3), request(3), request(3)
    scheduler.add(running)
    scheduler.add(parked, parked=True)
    scheduler.add(late)
    assert [chunk.request for chunk in scheduler.schedule().chunks] == [running]
    scheduler.unpark(parked)
    assert scheduler.waiting == [parked, late]


@pytest.mark.parametrize("state", list(Status))
def test_finish_works_in_every_state_and_twice(state: Status):
    scheduler = make()
    one = request(5)
    scheduler.add(one, parked=state is Status.PARKED)
    if state in (Status.RUNNING, Status.FINISHED):
        scheduler.schedule()
    if state is Status.FINISHED:
        scheduler.finish(one, "stop")
    scheduler.finish(one, "abort")
    scheduler.finish(one, "error")
    assert one.finish_reason == ("stop" if state is Status.FINISHED else "abort")
    assert scheduler.requests() == []
    scheduler.pool.check()


def test_budget_below_max_num_seqs_is_refused():
    with pytest.raises(RequestError, match="max_num_batched_tokens is 3"):
        make(max_num_batched_tokens=3)


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_random_arrivals_aborts_and_preemptions(data: st.DataObject):
    """After every step: the books agree, the budget holds, every running request got a token, positions follow on,
    and the oldest request is never preempted. At the end everything has finished and every block is back."""
    scheduler = make(
        num_blocks=data.draw(st.integers(6, 20), label="blocks"),
        max_model_len=24,
        max_num_seqs=data.draw(st.integers(1, 4), label="seqs"),
        max_num_batched_tokens=data.draw(st.integers(4, 20), label="budget"),
        long_prefill_token_threshold=data.draw(st.sampled_from([0, 3]), label="threshold"),
        enable_prefix_caching=data.draw(st.booleans(), label="caching"),
    )
    to_arrive = data.draw(st.integers(1, 8), label="arrivals")
    wanted: dict[Request, int] = {}
    steps = 0
    while to_arrive or scheduler.has_work or scheduler.parked:
        steps += 1
        assert steps < 2000, "the engine stands still"
        # After 300 steps nothing disturbs any more, so that the run ends.
        event = data.draw(st.sampled_from(["step", "arrive", "abort", "preempt", "unpark"])) if steps < 300 else "step"
        if to_arrive and (event == "arrive" or not scheduler.requests()):
            to_arrive -= 1
            new = request(data.draw(st.integers(1, 23)), first=data.draw(st.integers(0, 1)))
            if wanted and data.draw(st.booleans()):
                leader = list(wanted)[-1]
                new = Request("r", "r", leader.token_ids[: leader.num_prompt], SamplingParams(), leader=leader)
            wanted[new] = data.draw(st.integers(1, 10))
            scheduler.add(new, parked=data.draw(st.booleans()))
        elif event == "abort" and scheduler.requests():
            scheduler.finish(data.draw(st.sampled_from(scheduler.requests())), "abort")
        elif event == "preempt" and scheduler.running:
            scheduler.preempt(data.draw(st.sampled_from(scheduler.running)))
        elif scheduler.parked and (event == "unpark" or not scheduler.has_work):
            scheduler.unpark(next(iter(scheduler.parked.values())))
        scheduler.check()

        before = list(scheduler.running)
        step = scheduler.schedule()
        scheduler.check()
        assert sum(chunk.count for chunk in step.chunks) == step.num_tokens
        assert step.num_tokens <= scheduler.config.max_num_batched_tokens
        assert len(scheduler.running) <= scheduler.config.max_num_seqs
        assert {chunk.request for chunk in step.chunks} == set(scheduler.running)
        assert bool(step.chunks) == scheduler.has_work
        if before:
            assert before[0] not in step.preempted
        for chunk in step.chunks:
            assert chunk.start == chunk.request.num_computed
            assert chunk.count >= 1
            assert chunk.is_sampled == (chunk.start + chunk.count == len(chunk.request.token_ids))
            assert len(chunk.request.block_table) * 4 >= chunk.start + chunk.count
            assert len(chunk.request.block_table) <= scheduler.pool.blocks_for(chunk.start + chunk.count)
        commit(scheduler, step, token=data.draw(st.integers(0, 1)))
        for running in list(scheduler.running):
            if running.num_output >= wanted[running] or len(running.token_ids) >= 24:
                scheduler.finish(running, "length")
    assert all(done.finish_reason == "abort" or done.num_output for done in wanted)
    scheduler.pool.check()
