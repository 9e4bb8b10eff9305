"""Random schedules without a model: a cache of slots in which every token written says what came before it.

Each run draws its limits (tiny pools, few seats, small budgets), arrivals, choices that share a prompt, priorities,
aborts, deadlines, retracted tokens and preemptions. After every step: the pool's books agree; what a request has
computed stands in its blocks, token for token; a block that several use, or that the prefix cache knows, was not
changed; copies read blocks before anything is written; the first in line was served, and nobody displaced it. In the
end every request has ended and every block is back.

A few hundred runs with a fresh seed, printed when one fails; ``STRUCTGEN_SCHEDULES=10000`` for more,
``STRUCTGEN_SCHEDULES_SEED=N`` for the same again.
"""

from __future__ import annotations

import os
import random
import secrets
from typing import Any

import pytest

from structgen.engine.blocks import BlockId
from structgen.engine.config import SamplingParams, SchedulerConfig
from structgen.engine.request import Request, Status
from structgen.engine.scheduler import Chunk, Schedule, Scheduler

RUNS = int(os.environ.get("STRUCTGEN_SCHEDULES", "300"))
SEED = int(os.environ.get("STRUCTGEN_SCHEDULES_SEED", "0")) or secrets.randbits(32)
PARTS = 10
DISTURBED_STEPS = 120  # after these nothing interferes any more, so that a run has an end
MOST_STEPS = 3000
MAX_LEN = 24


def content(request: Request, position: int) -> int:
    """What a token's slot holds: it depends on the salt and on all tokens before it, as keys and values do."""
    return hash((request.cache_salt, *request.token_ids[: position + 1]))


class Simulation:
    """One random schedule."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        size = rng.choice((1, 2, 4, 4, 5))
        seats = rng.randint(1, 6)
        self.config = SchedulerConfig(
            num_blocks=-(-MAX_LEN // size) + rng.choice((0, 0, 1, 3, 10)),
            block_size=size,
            max_model_len=MAX_LEN,
            max_num_seqs=seats,
            max_num_batched_tokens=seats + rng.choice((0, 1, 5, 20)),
            long_prefill_token_threshold=rng.choice((0, 0, 1, 3)),
            enable_prefix_caching=rng.random() < 0.7,
            scheduling_policy=rng.choice(("fcfs", "priority")),
        )
        self.scheduler = Scheduler(self.config, can_copy=rng.random() < 0.7)
        self.slots: dict[int, int] = {}
        self.wanted: dict[Request, int] = {}
        self.to_arrive = rng.randint(1, 12)
        self.num_steps = 0

    def run(self) -> None:
        scheduler = self.scheduler
        while self.to_arrive or scheduler.requests():
            self.num_steps += 1
            assert self.num_steps < MOST_STEPS, "the engine stands still"
            if self.num_steps < DISTURBED_STEPS:
                self.disturb()
            if self.to_arrive and (self.rng.random() < 0.3 or not scheduler.has_work):
                self.arrive()
            if scheduler.parked and (self.rng.random() < 0.5 or not scheduler.has_work):
                scheduler.unpark(self.rng.choice(list(scheduler.parked.values())))
            self.step()
        scheduler.pool.check()
        for request in self.wanted:
            assert request.is_finished
            assert request.block_table == []
            if request.finish_reason == "length":
                assert request.num_output >= 1

    # -- what happens from outside

    def arrive(self) -> None:
        rng = self.rng
        self.to_arrive -= 1
        prompt = [rng.randint(0, 1) for _ in range(rng.choice((1, 3, 8, 16, 23)))]
        priority = rng.randint(-2, 2) if self.config.scheduling_policy == "priority" else 0
        salt = rng.choice(("", "", "x"))
        params = SamplingParams(prompt_logprobs=0) if rng.random() < 0.2 else SamplingParams()
        leader: Request | None = None
        for index in range(rng.choice((1, 1, 1, 2, 4))):
            request = Request(
                "r", "r", list(prompt), params, index=index, leader=leader, priority=priority, cache_salt=salt
            )
            leader = leader or request
            self.wanted[request] = rng.randint(1, 12)
            self.scheduler.add(request, parked=rng.random() < 0.2)

    def disturb(self) -> None:
        rng, scheduler = self.rng, self.scheduler
        event = rng.random()
        if event < 0.08 and scheduler.requests():
            scheduler.finish(rng.choice(scheduler.requests()), rng.choice(("abort", "timeout", "error")))
        elif event < 0.16 and scheduler.running:
            scheduler.preempt(rng.choice(scheduler.running))
        elif event < 0.24:
            grown = [request for request in scheduler.running if request.num_output]
            if grown:
                request = rng.choice(grown)
                scheduler.retract(request, rng.randint(0, request.num_output))
        scheduler.check()

    # -- a step

    def step(self) -> None:
        scheduler = self.scheduler
        first = min(scheduler.running, key=lambda request: request.order, default=None)
        urgent = min((request.priority for request in scheduler.waiting), default=9)
        schedule = scheduler.schedule()
        scheduler.check()
        assert sum(chunk.count for chunk in schedule.chunks) == schedule.num_tokens
        assert schedule.num_tokens <= self.config.max_num_batched_tokens
        assert len(scheduler.running) <= self.config.max_num_seqs
        assert {chunk.request for chunk in schedule.chunks} == set(scheduler.running)
        assert bool(schedule.chunks) == scheduler.has_work, "work, and nothing of it was done"
        if first is not None and first.priority <= urgent:
            assert first not in schedule.preempted, "the first in line was displaced"
        self.forward(schedule)
        for chunk in schedule.chunks:
            self.commit(chunk)
        scheduler.check()
        for request in scheduler.running:
            self.assert_computed(request, request.num_computed)

    def forward(self, schedule: Schedule) -> None:
        """Write the step's tokens. No slot twice, and none of a block that somebody else reads."""
        size = self.config.block_size
        for source, target in schedule.copies:
            assert self.is_mine(target)
            for at in range(size):
                self.slots[target * size + at] = self.slots.get(source * size + at, -1)
        for chunk in schedule.chunks:
            self.assert_computed(chunk.request, chunk.start)
        written: set[int] = set()
        for chunk in schedule.chunks:
            request = chunk.request
            assert chunk.start == request.num_computed
            assert chunk.count >= 1
            assert chunk.is_sampled == (chunk.start + chunk.count == len(request.token_ids))
            for position in range(chunk.start, chunk.start + chunk.count):
                block = request.block_table[position // size]
                assert self.is_mine(block), f"block {block} is shared, and written"
                slot = block * size + position % size
                assert slot not in written
                written.add(slot)
                self.slots[slot] = content(request, position)

    def is_mine(self, block: BlockId) -> bool:
        return self.scheduler.pool.is_private(block)

    def assert_computed(self, request: Request, count: int) -> None:
        size, table = self.config.block_size, request.block_table
        held = [self.slots[table[at // size] * size + at % size] for at in range(count)]
        assert held == [content(request, at) for at in range(count)], "a block holds the tokens of another sequence"

    def commit(self, chunk: Chunk) -> None:
        request = chunk.request
        if chunk.is_scored:
            end = min(chunk.start + chunk.count + 1, request.num_prompt)
            assert chunk.start < len(request.prompt_logprobs), "logits were skipped that the scores need"
            request.prompt_logprobs += [{}] * (end - len(request.prompt_logprobs))
        self.scheduler.advance(chunk)
        if chunk.is_sampled:
            request.token_ids.append(self.rng.randint(0, 1))
            if request.num_output >= self.wanted[request] or len(request.token_ids) >= MAX_LEN:
                self.scheduler.finish(request, "length")
                assert not request.scores_prompt


@pytest.mark.parametrize("part", range(PARTS))
def test_random_schedules(part: int):
    for run in range(part, RUNS, PARTS):
        simulation = Simulation(SEED + run)
        try:
            simulation.run()
        except Exception as error:
            raise AssertionError(
                f"run again with STRUCTGEN_SCHEDULES=1 STRUCTGEN_SCHEDULES_SEED={SEED + run}: {simulation.config}"
            ) from error


@pytest.mark.parametrize("state", ["parked", "waiting", "running", "preempted", "decoding", "sibling"])
@pytest.mark.parametrize("can_copy", [True, False])
def test_an_abort_in_each_state_frees_all_blocks(state: str, can_copy: bool):
    config: dict[str, Any] = {"block_size": 4, "max_model_len": 24, "max_num_seqs": 4, "max_num_batched_tokens": 8}
    scheduler = Scheduler(SchedulerConfig(num_blocks=12, **config), can_copy=can_copy)
    leader = Request("r", "r", list(range(10)), SamplingParams())
    sibling = Request("r", "r", list(range(10)), SamplingParams(), index=1, leader=leader)
    scheduler.add(leader, parked=state == "parked")
    scheduler.add(sibling)
    steps = {"parked": 0, "waiting": 0, "running": 1, "preempted": 1, "decoding": 3, "sibling": 3}[state]
    for _ in range(steps):
        for chunk in scheduler.schedule().chunks:
            scheduler.advance(chunk)
            if chunk.is_sampled:
                chunk.request.token_ids.append(7)
    if state == "preempted":
        scheduler.preempt(leader)
    if state == "sibling":
        assert sibling.status is Status.RUNNING
        assert sibling.block_table[:2] == leader.block_table[:2]
    victims = [sibling, leader] if state == "sibling" else [leader, sibling]
    for victim in victims:
        scheduler.finish(victim, "abort")
        scheduler.check()
        assert victim.block_table == []
    scheduler.pool.check()
    assert scheduler.pool.num_used == 0
