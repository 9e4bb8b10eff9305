"""One engine step: schedule, masks, forward, sample, commit, propose, emit."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from structgen.engine.backout import DeadEnd, back_out
from structgen.engine.batch import Batch
from structgen.engine.config import SchedulerConfig
from structgen.engine.constraints import Ids, MaskFiller, MaskRows, as_request_error, few_legal
from structgen.engine.metrics import EngineMetrics, now_s
from structgen.engine.outputs import Logprob
from structgen.engine.packer import Packer
from structgen.engine.request import FinishReason, Request
from structgen.engine.sampler import Sampler, Samples, TokenLogprobs, score
from structgen.engine.scheduler import Chunk, Schedule, Scheduler
from structgen.errors import RequestError


class Runner(Protocol):
    """The model side (engine/runner.py): weights, KV cache, forward pass.

    It may also have ``copy_blocks(pairs)``, which copies KV blocks, (from, to), one pair after the other: then the last
    block of a prompt, which is not full, is copied to the other choices of a request; else it is computed again.
    """

    @property
    def vocab_size(self) -> int: ...
    @property
    def max_model_len(self) -> int: ...
    @property
    def num_blocks(self) -> int: ...
    @property
    def block_size(self) -> int: ...
    def forward(self, batch: Batch) -> Tensor:
        """float32 logits [R, vocab_size] at ``batch.logits_rows``."""


@dataclass(frozen=True, slots=True)
class Update:
    """What a step did to one request.

    Attributes:
        delta: new text.
        token_ids: new tokens.
        finish_reason: set when the request is over.
        retracted, retracted_tokens: characters of the text shown and tokens that are taken back (before ``delta``).
    """

    request: Request
    delta: str = ""
    token_ids: tuple[int, ...] = ()
    finish_reason: FinishReason | None = None
    retracted: int = 0
    retracted_tokens: int = 0


@dataclass(frozen=True, slots=True)
class StepResult:
    """One step, done. ``num_tokens``: tokens computed, 0 when there was nothing to compute."""

    updates: tuple[Update, ...] = ()
    num_tokens: int = 0


class EngineCore:
    """The loop's body. Owns the scheduler, the sampler and the step's buffers; knows requests, not callers.

    Args:
        runner: the model.
        config: limits of the scheduler.
        eos_token_ids: the model's end tokens.
        num_token_ids: ids the tokenizer has; larger ones are never sampled. None: all of the logits' width.
        decode_token: text of one token, for log probabilities.
    """

    def __init__(
        self,
        runner: Runner,
        config: SchedulerConfig,
        *,
        eos_token_ids: Sequence[int] = (),
        num_token_ids: int | None = None,
        decode_token: Callable[[int], str] | None = None,
    ) -> None:
        self.runner = runner
        self.config = config
        self._copy_blocks = getattr(runner, "copy_blocks", None)
        self.scheduler = Scheduler(config, can_copy=self._copy_blocks is not None)
        self._deadlines: list[tuple[float, int, Request]] = []
        self.metrics = EngineMetrics()
        self._eos = frozenset(eos_token_ids)
        self._decode_token = decode_token
        self._sampler = Sampler(runner.vocab_size, num_token_ids=num_token_ids, eos_token_ids=tuple(eos_token_ids))
        self._masks = MaskFiller(runner.vocab_size, tuple(eos_token_ids), config.max_num_batched_tokens)
        self._packer = Packer(
            max_tokens=config.max_num_batched_tokens,
            max_seqs=config.max_num_seqs,
            max_blocks=self.scheduler.pool.blocks_for(config.max_tokens_per_sequence),
            block_size=config.block_size,
        )

    @property
    def has_work(self) -> bool:
        """Some request is unfinished."""
        return self.scheduler.has_work or bool(self.scheduler.parked)

    def add(self, request: Request) -> Update | None:
        """Queue a request; an Update when it is refused at once.

        A request with a grammar is parked until the grammar is compiled, which never happens in a step.
        """
        try:
            ready = request.constraint is None or request.constraint.is_ready()
            self.scheduler.add(request, parked=not ready)
        except Exception as error:
            return self._fail(request, error)
        if request.deadline is not None:
            heapq.heappush(self._deadlines, (request.deadline, request.serial, request))
        return None

    def add_all(self, requests: Sequence[Request]) -> list[Update]:
        """Queue the sequences of one prompt; all are refused together when the queue is full."""
        limit = self.config.max_waiting
        queued = len(self.scheduler.waiting) + len(self.scheduler.parked)
        if limit is not None and queued + len(requests) > limit:
            error = RequestError(
                f"the queue is full: {queued} sequences wait, and this request adds {len(requests)}; allowed: "
                f"{limit} (max_waiting). Send it again later, or raise the limit"
            )
            return [self._fail(request, error) for request in requests]
        return [update for request in requests if (update := self.add(request)) is not None]

    def abort(self, request: Request) -> Update | None:
        """End a request in whatever state it is; None when it was over already."""
        return None if request.is_finished else self._finish(request, "abort", "", ())

    def step(self) -> StepResult:
        """Compute one batch and commit what it sampled."""
        started = now_s()
        failed = (*self._expire(started), *self._unpark())
        schedule = self.scheduler.schedule()
        if not schedule.chunks:
            return StepResult(failed)
        sampled = [chunk.request for chunk in schedule.chunks if chunk.is_sampled]
        masks = self._fill_masks(sampled)
        logits = self._score_prompts(schedule, self._forward(schedule, self._few_legal(schedule, sampled, masks)))
        samples = self._sampler.sample(logits, sampled, masks) if sampled else Samples((), {}, {})
        updates = self._commit(schedule, sampled, samples)
        # propose: drafts for the next step will be made here; they live in its schedule only (Chunk.draft_ids).
        self.metrics.steps += 1
        self.metrics.step_s += now_s() - started
        return StepResult((*failed, *updates), schedule.num_tokens)

    # -- the stages ----------------------------------------------------------------------------------------

    def _unpark(self) -> tuple[Update, ...]:
        """Let requests in whose grammar is compiled; fail those whose grammar cannot be. Waits only when idle."""
        parked = self.scheduler.parked
        if not parked:
            return ()
        if not self.scheduler.has_work:
            futures = {request.constraint.future for request in parked.values() if request.constraint}
            wait(futures, timeout=0.05, return_when="FIRST_COMPLETED")
        failed: list[Update] = []
        for request in list(parked.values()):
            try:
                if request.constraint is None or request.constraint.is_ready():
                    self.scheduler.unpark(request)
            except Exception as error:
                failed.append(self._fail(request, error))
        return tuple(failed)

    def _expire(self, now: float) -> list[Update]:
        """End the requests whose deadline has passed, whatever state they are in."""
        updates: list[Update] = []
        while self._deadlines and (self._deadlines[0][0] <= now or self._deadlines[0][2].is_finished):
            request = heapq.heappop(self._deadlines)[2]
            if not request.is_finished:
                updates.append(self._finish(request, "timeout", "", ()))
        return updates

    def _score_prompts(self, schedule: Schedule, logits: Tensor) -> Tensor:
        """Keep the log probabilities of prompts that asked for them; return the logits [S, V] of the sampled tokens."""
        if not any(chunk.is_scored for chunk in schedule.chunks):
            return logits
        at, rows = 0, []
        for chunk in schedule.chunks:
            end = at + chunk.num_logits
            if chunk.is_scored:
                self._score_prompt(chunk, logits[at:end])
            if chunk.is_sampled:
                rows.append(end - 1)
            at = end
        return logits[rows]

    def _score_prompt(self, chunk: Chunk, logits: Tensor) -> None:
        """The row of a token holds the log probabilities of the one behind it."""
        request = chunk.request
        first = len(request.prompt_logprobs)
        tokens = request.token_ids[first : min(chunk.start + chunk.count + 1, request.num_prompt)]
        skipped = first - 1 - chunk.start  # computed again, after a preemption
        rows = logits[skipped : skipped + len(tokens)]
        scored = score(rows, tokens, request.params.prompt_logprobs or 0)
        request.prompt_logprobs += [self._decoded(entry) for entry in scored]

    def _few_legal(self, schedule: Schedule, sampled: Sequence[Request], masks: MaskRows) -> tuple[Ids | None, ...]:
        """What the forward pass may leave out of the logits: see `Batch.legal`."""
        if not masks.rows or any(chunk.is_scored for chunk in schedule.chunks):
            return ()
        few: list[Ids | None] = [None] * len(sampled)
        for words, row in zip(masks.words, masks.rows, strict=True):
            if not sampled[row].params.reports_logprobs:  # they are shares of the whole vocabulary
                few[row] = few_legal(words)
        return tuple(few)

    def _forward(self, schedule: Schedule, legal: tuple[Ids | None, ...]) -> Tensor:
        started = now_s()
        if schedule.copies and self._copy_blocks is not None:
            self._copy_blocks(schedule.copies)
        with torch.inference_mode():
            logits = self.runner.forward(self._packer.pack(schedule, legal))
        for chunk in schedule.chunks:
            chunk.request.clock.forward_passes += 1
        self.metrics.computed_tokens += schedule.num_tokens
        self.metrics.preemptions += len(schedule.preempted)
        self.metrics.forward_s += now_s() - started
        return logits

    def _fill_masks(self, sampled: Sequence[Request]) -> MaskRows:
        started = now_s()
        masks = self._masks.fill(sampled)
        self.metrics.mask_s += now_s() - started
        return masks

    def _commit(self, schedule: Schedule, sampled: Sequence[Request], samples: Samples) -> list[Update]:
        """Count what was computed, then take each sampled token. The one place that moves grammar state."""
        for chunk in schedule.chunks:
            self.scheduler.advance(chunk)
        updates: list[Update] = []
        stamp = now_s()
        for row, request in enumerate(sampled):
            error = samples.errors.get(row)
            try:
                if isinstance(error, DeadEnd):
                    updates.append(self._back_out(request))
                    continue
                if error is not None:
                    raise error
                updates.append(self._take(request, samples.token_ids[row], samples.logprobs.get(row), stamp))
            except Exception as error:
                updates.append(self._fail(request, error))
        return updates

    def _take(self, request: Request, token: int, logprobs: TokenLogprobs | None, stamp: float) -> Update:
        """Append a sampled token: grammar, stop ids, text, stop strings, length."""
        params = request.params
        ended = self._accept(request, token)
        request.token_ids.append(token)
        request.clock.token(stamp)
        self.metrics.generated_tokens += 1
        if logprobs is not None:
            request.token_logprobs.append(logprobs.logprobs[0])
            if params.logprobs is not None:
                request.logprobs.append(self._decoded(logprobs))
        if ended:
            delta = self._text(request, token, request.num_output)[0] if params.include_stop_str_in_output else ""
            return self._finish(request, "stop", delta, (token,))
        delta, stop = self._text(request, token, request.num_output)
        if stop is not None:
            request.stop_reason = stop
            return self._finish(request, "stop", delta, (token,))
        if self._is_full(request):
            return self._finish(request, "length", delta, (token,))
        request.text += delta
        return Update(request, delta, (token,))

    def _accept(self, request: Request, token: int) -> bool:
        """Move the grammar; whether the token ends the request. Sets the request's ``stop_reason``."""
        params, constraint = request.params, request.constraint
        is_stop = token in params.stop_token_ids
        if constraint is not None and constraint.matcher is not None:
            matcher = constraint.matcher
            accepted = matcher.accept(token)
            if not accepted and not (is_stop and matcher.can_end()):
                raise RequestError(f"the grammar refuses token {token}, which its own mask allowed")
            if accepted and matcher.is_finished:
                return True
        elif token in self._eos and not params.ignore_eos:
            return True
        if is_stop:
            request.stop_reason = token
        return is_stop

    def _text(self, request: Request, token: int, count: int) -> tuple[str, str | None]:
        """New text that may be shown after the ``count``-th token, and the stop string it completes."""
        delta = request.decoder.push(token) if request.decoder else ""
        # Text from before min_tokens is not searched.
        if request.stops is None or count <= request.params.min_tokens:
            return delta, None
        return request.stops.feed(delta)

    def _back_out(self, request: Request) -> Update:
        """Leave a dead end of the grammar: tokens, blocks and text go back to where another token is legal."""
        count = back_out(request, lambda position: self._masks.has_choice(request, position))
        self.scheduler.retract(request, count)
        self.metrics.num_backouts += 1
        self.metrics.num_retracted_tokens += count
        del request.logprobs[request.num_output :]
        del request.token_logprobs[request.num_output :]
        shown = len(request.text)
        request.text = self._replayed(request)
        return Update(request, retracted=shown - len(request.text), retracted_tokens=count)

    def _replayed(self, request: Request) -> str:
        """The text that was shown after the output's last token; decoder and stop strings are left there."""
        for reader in (request.decoder, request.stops):
            if reader is not None:
                reader.reset()
        return "".join(self._text(request, token, i)[0] for i, token in enumerate(request.output_token_ids, start=1))

    def _is_full(self, request: Request) -> bool:
        limit = request.params.max_tokens
        if limit is not None and request.num_output >= limit:
            return True
        return len(request.token_ids) >= self.config.max_tokens_per_sequence

    def _decoded(self, logprobs: TokenLogprobs) -> dict[int, Logprob]:
        decode = self._decode_token
        return {
            token: Logprob(value, rank, None if decode is None else decode(token))
            for token, value, rank in zip(logprobs.token_ids, logprobs.logprobs, logprobs.ranks, strict=True)
        }

    # -- ends ----------------------------------------------------------------------------------------------

    def _finish(self, request: Request, reason: FinishReason, delta: str, token_ids: tuple[int, ...]) -> Update:
        """Let out the text that was held back, free the blocks, and say how it ended."""
        # The decoder is not flushed: what it holds back is the beginning of a character that never came.
        if request.stops is not None and not isinstance(request.stop_reason, str):
            delta += request.stops.finish()
        request.text += delta
        if request.constraint is not None:
            if isinstance(request.stop_reason, str):
                request.incomplete = not request.constraint.is_whole_text(request.text)
            else:
                request.incomplete = not request.constraint.is_complete()
        self.scheduler.finish(request, reason)
        self.metrics.finished_requests += 1
        self.metrics.cached_tokens += request.clock.num_cached_tokens or 0
        return Update(request, delta, token_ids, reason)

    def _fail(self, request: Request, error: Exception) -> Update:
        """End one request with its error; the others go on."""
        request.error = as_request_error(error, "the request failed")
        request.incomplete = request.constraint is not None
        self.scheduler.finish(request, "error")
        self.metrics.failed_requests += 1
        return Update(request, "", (), "error")

    def fail_all(self, error: Exception) -> tuple[Update, ...]:
        """End every request after a step broke, and make the pool whole again whatever state it was left in."""
        updates = tuple(self._fail(request, error) for request in self.scheduler.requests())
        self.recover()
        return updates

    def recover(self) -> None:
        """At idle: check the books; start with an empty pool when an interrupt left them wrong."""
        if self.has_work:
            return
        try:
            self.scheduler.check()
        except RuntimeError:
            self.scheduler.pool.reset()

