"""Decides which tokens of which requests the next step computes. No torch, no model, no grammar.

There are no phases: a request wants its tokens computed up to the last one, and a step hands out a budget of tokens
so that it gets there. A prefill is a request that is far behind, a decode one that is one token behind; chunked
prefill, prefix hits, preemption and drafts are the same mechanism.

Order is by priority (always 0 under "fcfs") and then by arrival: ``waiting`` and ``running`` are kept in that order,
the last running request is the one preempted, and the first always gets its blocks, so the engine cannot stand still.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter

from structgen.engine.blocks import BlockId, BlockPool
from structgen.engine.config import SchedulerConfig
from structgen.engine.metrics import now_s
from structgen.engine.request import FinishReason, Request, Status
from structgen.errors import RequestError

_in_order = attrgetter("order")

# Logits of a whole chunk are wanted to score a prompt: 64 rows of 128,256 tokens are 33 MB.
_MAX_HELD = 64  # waiting requests that are looked at in a step
_MAX_SCORED = 64


@dataclass(frozen=True, slots=True)
class Chunk:
    """One request's share of a step: tokens ``start`` to ``start + count`` of its sequence, then its drafts.

    Attributes:
        draft_ids: proposed tokens after the sequence's last one; they live in this step only.
        is_sampled: the chunk reaches the sequence's last token, so the step samples its next one.
        is_scored: logits are wanted at every token of the chunk, to score the prompt.
    """

    request: Request
    start: int
    count: int
    is_sampled: bool
    draft_ids: tuple[int, ...] = ()
    is_scored: bool = False

    @property
    def num_logits(self) -> int:
        """How many of its last tokens logits are wanted of."""
        if self.is_scored:
            return self.count + len(self.draft_ids)
        return 1 + len(self.draft_ids) if self.is_sampled else 0


@dataclass(frozen=True, slots=True)
class Schedule:
    """The work of one step.

    Attributes:
        preempted: requests that gave up their blocks for it.
        copies: (block, its copy), to be made in this order before anything is written.
    """

    chunks: tuple[Chunk, ...] = ()
    num_tokens: int = 0
    preempted: tuple[Request, ...] = ()
    copies: tuple[tuple[BlockId, BlockId], ...] = ()


@dataclass(frozen=True, slots=True)
class _Prefix:
    """What is computed already of a sequence: full blocks to share, and one to copy that is not full."""

    blocks: list[BlockId]
    num_tokens: int
    partial: BlockId | None = None


class Scheduler:
    """Owns the queues and the block pool.

    Args:
        config: its limits.
        can_copy: whether blocks can be copied; otherwise what siblings share of a block is computed again.
    """

    def __init__(self, config: SchedulerConfig, *, can_copy: bool = False) -> None:
        self.config = config
        self._can_copy = can_copy
        self.pool = BlockPool(config.num_blocks, config.block_size, enable_caching=config.enable_prefix_caching)
        self.parked: dict[int, Request] = {}
        self.waiting: list[Request] = []
        self.running: list[Request] = []

    def add(self, request: Request, *, parked: bool = False) -> None:
        """Queue a request; ``parked``: it waits for `unpark` first.

        Raises:
            RequestError: its prompt leaves no room for output in the context or in the pool, or it has a priority
                where that is of no effect.
        """
        self.refuse_too_long(len(request.token_ids))
        if request.priority and self.config.scheduling_policy == "fcfs":
            raise RequestError(
                f"priority is {request.priority}, which has no effect under scheduling_policy='fcfs'; allowed: 0, or "
                "any number with LLM(..., scheduling_policy='priority')"
            )
        if parked:
            request.status = Status.PARKED
            self.parked[request.serial] = request
        else:
            request.status = Status.WAITING
            insort(self.waiting, request, key=_in_order)

    def refuse_too_long(self, length: int) -> None:
        """Raise RequestError for a prompt that leaves no room for output."""
        config = self.config
        if not length:
            raise RequestError("the prompt is empty; allowed: at least one token")
        if length < config.max_tokens_per_sequence:
            return
        pool_tokens = config.num_blocks * config.block_size
        if config.max_model_len <= pool_tokens:
            limit = f"the context of {config.max_model_len} tokens (max_model_len)"
        else:
            limit = f"the KV cache of {pool_tokens} tokens (kv_cache_tokens)"
        raise RequestError(
            f"the prompt has {length} tokens; allowed: at most {config.max_tokens_per_sequence - 1}, "
            f"so that one token of output fits into {limit}. Shorten the prompt or raise the limit"
        )

    def unpark(self, request: Request) -> None:
        """The grammar is ready: the request joins the queue at its place."""
        del self.parked[request.serial]
        request.status = Status.WAITING
        insort(self.waiting, request, key=_in_order)

    @property
    def has_work(self) -> bool:
        """Something is waiting or running (parked requests are not work yet)."""
        return bool(self.waiting or self.running)

    def requests(self) -> list[Request]:
        """All unfinished requests."""
        return [*self.running, *self.waiting, *self.parked.values()]

    # -- one step ------------------------------------------------------------------------------------------

    def schedule(self) -> Schedule:
        """Hand out the budget: running requests in order, then waiting ones while there is room."""
        chunks: list[Chunk] = []
        copies: list[tuple[BlockId, BlockId]] = []
        yielded = self._give_way()
        preempted: list[Request] = []
        budget = self._continue_running(chunks, preempted)
        if not preempted:
            budget = self._admit_waiting(chunks, copies, budget)
        num_tokens = self.config.max_num_batched_tokens - budget
        return Schedule(tuple(chunks), num_tokens, (*yielded, *preempted), tuple(copies))

    def _give_way(self) -> list[Request]:
        """Preempt running requests of less priority than the first waiting one, until it can be admitted."""
        yielded: list[Request] = []
        first = next((request for request in self.waiting[:_MAX_HELD] if not self._is_held(request)), None)
        while first is not None and self.running and self.running[-1].priority > first.priority:
            has_seat = len(self.running) < self.config.max_num_seqs
            if has_seat and self._has_room(first, self._computed_prefix(first)):
                break
            yielded.append(self.running[-1])
            self.preempt(self.running[-1])
        return yielded

    def _continue_running(self, chunks: list[Chunk], preempted: list[Request]) -> int:
        """Give every running request at least one token; return what is left of the budget."""
        budget = self.config.max_num_batched_tokens
        index = 0
        while index < len(self.running):
            request = self.running[index]
            reserved = len(self.running) - index - 1  # a token for each request after this one
            count = self._share(request, budget - reserved)
            if self._make_room(request, request.num_computed + count, preempted):
                chunks.append(self._chunk(request, count))
                budget -= count
                index += 1
        return budget

    def _make_room(self, request: Request, num_tokens: int, preempted: list[Request]) -> bool:
        """Extend the block table, preempting the last as needed; False when that is the request itself."""
        while not self.pool.extend(request.block_table, num_tokens):
            victim = self.running[-1]
            self.preempt(victim)
            preempted.append(victim)
            if victim is request:
                return False
        return True

    def _admit_waiting(self, chunks: list[Chunk], copies: list[tuple[BlockId, BlockId]], budget: int) -> int:
        index = 0
        while index < min(len(self.waiting), _MAX_HELD) and len(self.running) < self.config.max_num_seqs and budget > 0:
            request = self.waiting[index]
            if self._is_held(request):
                index += 1
                continue
            prefix = self._computed_prefix(request)
            if not self._has_room(request, prefix):
                break
            self.pool.share(prefix.blocks)
            request.block_table.extend(prefix.blocks)
            request.num_registered = len(prefix.blocks)
            request.num_computed = prefix.num_tokens
            if request.clock.num_cached_tokens is None:
                request.clock.num_cached_tokens = request.num_computed
                request.clock.scheduled = now_s()
            count = self._share(request, budget)
            if not self.pool.extend(request.block_table, request.num_computed + count):
                raise RuntimeError("admission was granted without room")
            if prefix.partial is not None:
                copies.append((prefix.partial, request.block_table[len(prefix.blocks)]))
            del self.waiting[index]
            request.status = Status.RUNNING
            insort(self.running, request, key=_in_order)
            chunks.append(self._chunk(request, count))
            budget -= count
        return budget

    def _share(self, request: Request, budget: int) -> int:
        """How many tokens the request gets of ``budget``."""
        wanted = min(len(request.token_ids) - request.num_computed, budget)
        if request.scores_prompt:
            wanted = min(wanted, _MAX_SCORED)
        threshold = self.config.long_prefill_token_threshold
        return min(wanted, threshold) if threshold else wanted

    def _chunk(self, request: Request, count: int) -> Chunk:
        start = request.num_computed
        is_sampled = start + count == len(request.token_ids)
        return Chunk(request, start, count, is_sampled, is_scored=request.scores_prompt)

    def _is_held(self, request: Request) -> bool:
        """Whether it pays to wait: another request is computing what comes next of this one's prompt."""
        return self._waits_for_leader(request) or self._waits_for_block(request)

    def _waits_for_block(self, request: Request) -> bool:
        """A running request computes the block behind what the prefix cache has of this prompt.

        It goes on in every step or leaves ``running``, so the wait ends.
        """
        if not self.config.enable_prefix_caching or not self.running:
            return False
        size = self.pool.block_size
        most = request.num_reusable // size
        hashes = request.hashes(most, size)
        index = self.pool.count_registered(hashes)
        return index < most and any(
            len(other.token_ids) // size > index
            and other.num_computed < (index + 1) * size
            and other.hashes(index + 1, size)[index] == hashes[index]
            for other in self.running
        )

    def _waits_for_leader(self, request: Request) -> bool:
        leader = request.leader
        return (
            leader is not None
            and leader.status is Status.RUNNING
            and leader.num_computed < leader.num_prompt
            and request.num_output == 0
        )

    def _computed_prefix(self, request: Request) -> _Prefix:
        """What is computed already of the sequence: in the prefix cache, or by its leader.

        At most all tokens but the last: that one must be computed to have logits.
        """
        size = self.pool.block_size
        most = request.num_reusable
        found: list[BlockId] = []
        if self.config.enable_prefix_caching:
            found = self.pool.lookup(request.hashes(most // size, size), request.token_ids)
        leader = request.leader
        if leader is not None and leader.status is Status.RUNNING:
            common = min(most, leader.num_computed, leader.num_prompt)
            full, rest = divmod(common, size)
            if rest and self._can_copy and full >= len(found):
                return _Prefix(leader.block_table[:full], common, leader.block_table[full])
            if full > len(found):
                found = leader.block_table[:full]
        return _Prefix(found, len(found) * size)

    def _has_room(self, request: Request, prefix: _Prefix) -> bool:
        """Whether the whole sequence fits beside the running ones.

        Not the first chunk only, and with a spare block for each running request: admitting a request that is
        preempted a few steps later costs its prefill twice.
        """
        missing = self.pool.blocks_for(len(request.token_ids)) - len(prefix.blocks)
        spare = min(len(self.running), self.config.num_blocks)
        return missing + self.pool.num_idle(prefix.blocks) + spare <= self.pool.num_available

    # -- after the forward pass ----------------------------------------------------------------------------

    def advance(self, chunk: Chunk, num_accepted_drafts: int = 0) -> None:
        """The chunk is computed: count it, and offer its full blocks to the prefix cache."""
        request, size = chunk.request, self.pool.block_size
        request.num_computed = chunk.start + chunk.count + num_accepted_drafts
        full = request.num_computed // size
        if full == request.num_registered or not self.config.enable_prefix_caching:
            return
        hashes = request.hashes(full, size)
        for index in range(request.num_registered, full):
            tokens = request.token_ids[index * size : (index + 1) * size]
            self.pool.register(request.block_table[index], hashes[index], tokens)
        request.num_registered = full

    def retract(self, request: Request, count: int) -> None:
        """Take the last ``count`` tokens of a running request back: from its sequence, its hashes and its blocks.

        The token that is the last one then is computed again, for its logits. A block that others use, or that the
        prefix cache knows with tokens that are gone, is not written again: its tokens are computed into another.
        """
        size = self.pool.block_size
        del request.token_ids[len(request.token_ids) - count :]
        request.forget_hashes(size)
        computed = min(request.num_computed, len(request.token_ids) - 1)
        if computed % size and not self.pool.is_private(request.block_table[computed // size]):
            computed -= computed % size
        self.pool.truncate(request.block_table, self.pool.blocks_for(computed))
        request.num_cuts += 1
        request.num_computed = computed
        request.num_registered = min(request.num_registered, computed // size)

    def preempt(self, request: Request) -> None:
        """Take a running request's blocks; it is computed again later. Tokens and grammar state stay.

        Its full blocks keep their hashes, so what nobody overwrites meanwhile is found again.
        """
        _remove(self.running, request)
        self._release(request)
        request.status = Status.WAITING
        request.clock.preemptions += 1
        insort(self.waiting, request, key=_in_order)

    def finish(self, request: Request, reason: FinishReason) -> None:
        """End a request in whatever state it is; again is harmless."""
        if request.status is Status.FINISHED:
            return
        if request.status is Status.RUNNING:
            _remove(self.running, request)
        elif request.status is Status.WAITING:
            _remove(self.waiting, request)
        else:
            self.parked.pop(request.serial, None)
        self._release(request)
        request.status = Status.FINISHED
        request.finish_reason = reason
        request.leader = None
        request.clock.finished = now_s()

    def _release(self, request: Request) -> None:
        self.pool.release(request.block_table)
        request.num_cuts += 1
        request.num_computed = 0
        request.num_registered = 0

    def check(self) -> None:
        """Raise RuntimeError when the books disagree: blocks against tables, queues against states."""
        self.pool.check(request.block_table for request in self.requests())
        for queue, status in ((self.running, Status.RUNNING), (self.waiting, Status.WAITING)):
            if any(request.status is not status for request in queue):
                raise RuntimeError(f"a request in the {status.value} queue has another state")
            if not _is_sorted(queue):
                raise RuntimeError(f"the {status.value} queue is out of order")
        if any(request.block_table or request.num_computed for request in self.waiting):
            raise RuntimeError("a waiting request holds blocks")


def _remove(queue: list[Request], request: Request) -> None:
    index = bisect_left(queue, request.order, key=_in_order)
    if index < len(queue) and queue[index] is request:
        del queue[index]


def _is_sorted(queue: Iterable[Request]) -> bool:
    places = [request.order for request in queue]
    return places == sorted(places)
