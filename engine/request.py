"""One sequence on its way through the engine: tokens, counters, blocks, text. No torch.

A request with ``n`` choices is ``n`` of these with one ``group_id``; the first is the leader of the others, which
wait until its prompt is computed and then share its full blocks and copy the one that is not full.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Literal, Protocol

from structgen.engine.blocks import BlockHash, BlockId, hash_block, root_hash
from structgen.engine.config import SamplingParams
from structgen.engine.metrics import RequestClock
from structgen.errors import StructgenError

if TYPE_CHECKING:
    from structgen.engine.constraints import Constraint
    from structgen.engine.outputs import Logprob

FinishReason = Literal["stop", "length", "abort", "timeout", "error"]

_serials = itertools.count()


class TextDecoder(Protocol):
    """Token ids to text, a token at a time; never half a character (engine/detokenize.py)."""

    def push(self, token_id: int, /) -> str: ...
    def reset(self) -> None: ...


class StopFinder(Protocol):
    """Looks for stop strings in a growing text and holds back what may become one (engine/stops.py)."""

    def feed(self, text: str, /) -> tuple[str, str | None]: ...
    def finish(self) -> str: ...
    def reset(self) -> None: ...


class Status(Enum):
    """Where a request is. PARKED: its grammar is being compiled."""

    PARKED = "parked"
    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"


@dataclass(slots=True, eq=False)
class Request:
    """A sequence and all that the engine keeps about it.

    Attributes:
        token_ids: prompt and output. The last one is sampled and not yet computed, once there is output.
        num_prompt: how many of them are the prompt.
        num_computed: tokens whose keys and values are in the cache. The request wants
            ``len(token_ids) - num_computed`` tokens computed; prefill and decode are this one number.
        block_table: blocks in order; append-only until it is cut.
        num_cuts: times it was cut: by preemption, or as tokens were taken back.
        num_registered: leading blocks already offered to the prefix cache.
        priority: smaller is served first, under the priority policy.
        deadline: ``time.perf_counter`` seconds at which the request ends, whatever state it is in.
        order: its place in every queue: by priority, then by arrival.
        token_logprobs: of each output token, where they were asked for or a ranking needs them.
        prompt_logprobs: of each prompt token scored so far, when asked for; the first token has None.
        seed: decides, with the position, every random choice of this sequence.
        leader: sibling whose prompt blocks this one shares when they are computed.
    """

    request_id: str
    group_id: str
    token_ids: list[int]
    params: SamplingParams
    index: int = 0
    cache_salt: str = ""
    constraint: Constraint | None = None
    decoder: TextDecoder | None = None
    stops: StopFinder | None = None
    leader: Request | None = None
    priority: int = 0
    deadline: float | None = None
    seed: int = field(default_factory=lambda: secrets.randbits(64))

    status: Status = Status.WAITING
    num_computed: int = 0
    num_registered: int = 0
    block_table: list[BlockId] = field(default_factory=list)
    num_cuts: int = 0
    clock: RequestClock = field(default_factory=RequestClock)
    text: str = ""
    logprobs: list[dict[int, Logprob]] = field(default_factory=list)
    token_logprobs: list[float] = field(default_factory=list)
    prompt_logprobs: list[dict[int, Logprob] | None] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None
    incomplete: bool = False
    error: StructgenError | None = None

    serial: int = field(default_factory=lambda: next(_serials))
    num_prompt: int = field(init=False)
    order: tuple[int, int] = field(init=False)
    _hashes: list[BlockHash] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.num_prompt = len(self.token_ids)
        self.order = (self.priority, self.serial)
        if self.params.prompt_logprobs is not None and self.index == 0:
            self.prompt_logprobs.append(None)
        if self.params.seed is not None:
            self.seed = self.params.seed + self.index

    @property
    def num_output(self) -> int:
        return len(self.token_ids) - self.num_prompt

    @property
    def output_token_ids(self) -> list[int]:
        return self.token_ids[self.num_prompt :]

    @property
    def is_finished(self) -> bool:
        return self.status is Status.FINISHED

    @property
    def scores_prompt(self) -> bool:
        """Whether prompt tokens still wait for their log probabilities."""
        return 0 < len(self.prompt_logprobs) < self.num_prompt

    @property
    def num_reusable(self) -> int:
        """Most leading tokens whose keys and values need not be computed again: those that no logits are wanted of."""
        return (len(self.prompt_logprobs) if self.scores_prompt else len(self.token_ids)) - 1

    @property
    def num_excluded(self) -> int:
        """How many tokens the request has tried in vain at its present position."""
        return 0 if self.constraint is None else len(self.constraint.exclusions.at(len(self.token_ids)))

    def forget_hashes(self, block_size: int) -> None:
        """Drop the hashes of blocks that are no longer full, after tokens were taken back."""
        del self._hashes[len(self.token_ids) // block_size :]

    def hashes(self, num_blocks: int, block_size: int) -> Sequence[BlockHash]:
        """Chained hashes of the first ``num_blocks`` full blocks of the sequence."""
        known = self._hashes
        while len(known) < num_blocks:
            start = len(known) * block_size
            parent = known[-1] if known else root_hash(self.cache_salt.encode())
            known.append(hash_block(parent, self.token_ids[start : start + block_size]))
        return known if len(known) == num_blocks else known[:num_blocks]
