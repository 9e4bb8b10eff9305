"""Times and counts: what one request cost, and what the engine did."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

now_s = time.perf_counter


@dataclass(frozen=True, slots=True)
class RequestMetrics:
    """What one choice of a request cost. Times are in seconds.

    Attributes:
        queue_s: from arrival until the first step it took part in (grammar compilation included); None: never.
        ttft_s: from arrival to the first token; None: there was none.
        e2e_s: from arrival to the end.
        itl_s: time between each token and the one before it; one shorter than the output.
        mask_s: spent on filling grammar masks.
        masks: grammar masks filled.
        forward_passes: engine steps that computed tokens of this request.
        num_cached_tokens: prompt tokens that the prefix cache, or the request's sibling, had already.
        preemptions: times it gave its blocks back and was computed again.
        num_backouts: dead ends of the grammar that it backed out of.
        num_retracted_tokens: tokens taken back for that; they are in none of the other figures but
            ``forward_passes``, ``masks`` and their times.
    """

    queue_s: float | None = None
    ttft_s: float | None = None
    e2e_s: float = 0.0
    itl_s: tuple[float, ...] = ()
    mask_s: float = 0.0
    masks: int = 0
    forward_passes: int = 0
    num_cached_tokens: int = 0
    preemptions: int = 0
    num_backouts: int = 0
    num_retracted_tokens: int = 0


@dataclass(slots=True)
class RequestClock:
    """The running form of `RequestMetrics`, kept on a request. Stamps are ``time.perf_counter`` seconds."""

    arrival: float = field(default_factory=now_s)
    scheduled: float | None = None
    first_token: float | None = None
    last_token: float | None = None
    finished: float | None = None
    itl_s: list[float] = field(default_factory=list)
    mask_s: float = 0.0
    masks: int = 0
    forward_passes: int = 0
    num_cached_tokens: int | None = None
    preemptions: int = 0
    num_backouts: int = 0
    num_retracted_tokens: int = 0

    def token(self, stamp: float) -> None:
        """A token came out at ``stamp``."""
        if self.last_token is None:
            self.first_token = stamp
        else:
            self.itl_s.append(stamp - self.last_token)
        self.last_token = stamp

    def retract(self, count: int, everything: bool) -> None:
        """The last ``count`` tokens are taken back, as if they had never come out; ``everything``: none is left."""
        self.num_backouts += 1
        self.num_retracted_tokens += count
        if everything:
            self.first_token = self.last_token = None
            self.itl_s.clear()
        elif count and self.last_token is not None:
            self.last_token -= sum(self.itl_s[-count:])
            del self.itl_s[-count:]

    def freeze(self) -> RequestMetrics:
        end = self.finished if self.finished is not None else now_s()
        return RequestMetrics(
            queue_s=None if self.scheduled is None else self.scheduled - self.arrival,
            ttft_s=None if self.first_token is None else self.first_token - self.arrival,
            e2e_s=end - self.arrival,
            itl_s=tuple(self.itl_s),
            mask_s=self.mask_s,
            masks=self.masks,
            forward_passes=self.forward_passes,
            num_cached_tokens=self.num_cached_tokens or 0,
            preemptions=self.preemptions,
            num_backouts=self.num_backouts,
            num_retracted_tokens=self.num_retracted_tokens,
        )


@dataclass(slots=True)
class EngineMetrics:
    """Counters of one engine since it started.

    ``forward_s`` and ``mask_s`` are parts of ``step_s``; the rest of it is scheduling, sampling and text.
    ``generated_tokens`` counts tokens that were taken back later, too.
    """

    steps: int = 0
    computed_tokens: int = 0
    generated_tokens: int = 0
    cached_tokens: int = 0
    preemptions: int = 0
    num_backouts: int = 0
    num_retracted_tokens: int = 0
    finished_requests: int = 0
    failed_requests: int = 0
    step_s: float = 0.0
    forward_s: float = 0.0
    mask_s: float = 0.0
