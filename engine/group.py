"""One prompt as the caller sees it: its ``n`` sequences, the events they give, the output at the end. No torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from structgen.engine.constraints import as_request_error
from structgen.engine.metrics import RequestMetrics
from structgen.engine.outputs import CompletionOutput, RequestOutput, StreamEvent
from structgen.errors import StructgenError

if TYPE_CHECKING:
    from structgen.engine.core import Update
    from structgen.engine.request import Request


class Group:
    """Collects what the steps do to the sequences of one prompt.

    Args:
        group_id: name of the request.
        prompt: its text; None when token ids were given.
        prompt_token_ids: its tokens.
        requests: its sequences, by index.
        convert: text to value, from the grammar.
        on_event: called for every event, on the thread that steps the engine.
        on_done: called once, after the last event.
    """

    def __init__(
        self,
        group_id: str,
        prompt: str | None,
        prompt_token_ids: Sequence[int],
        requests: Sequence[Request],
        *,
        convert: Callable[[str], Any] | None = None,
        on_event: Callable[[StreamEvent], None] | None = None,
        on_done: Callable[[], None] | None = None,
    ) -> None:
        self.group_id = group_id
        self.prompt = prompt
        self.prompt_token_ids = tuple(prompt_token_ids)
        self.requests = tuple(requests)
        self._convert = convert
        self._on_event = on_event
        self._on_done = on_done
        self._done: dict[int, CompletionOutput] = {}

    @property
    def is_done(self) -> bool:
        return len(self._done) == len(self.requests)

    def take(self, update: Update) -> None:
        """What a step did to one of the sequences."""
        request = update.request
        completion = None
        if update.finish_reason is not None:
            completion = self._complete(request)
            self._done[request.index] = completion
        if self._on_event is not None:
            self._on_event(
                StreamEvent(
                    delta=update.delta,
                    text=request.text,
                    token_ids=update.token_ids,
                    finish_reason=update.finish_reason,
                    value=None if completion is None else completion.value,
                    index=request.index,
                    output=completion,
                    retracted=update.retracted,
                    retracted_tokens=update.retracted_tokens,
                )
            )
        if completion is not None and self.is_done and self._on_done is not None:
            self._on_done()

    def _complete(self, request: Request) -> CompletionOutput:
        value, error = None, request.error
        if self._convert is not None and not request.incomplete and request.finish_reason in ("stop", "length"):
            try:
                value = self._convert(request.text)
            except Exception as refused:
                error = as_request_error(refused, "the text could not be turned into a value")
        return CompletionOutput(
            index=request.index,
            text=request.text,
            token_ids=tuple(request.output_token_ids),
            finish_reason=request.finish_reason or "error",
            stop_reason=request.stop_reason,
            incomplete=request.incomplete,
            value=value,
            logprobs=None if request.params.logprobs is None else tuple(request.logprobs),
            cumulative_logprob=sum(request.token_logprobs) if request.params.reports_logprobs else None,
            error=error,
            metrics=request.clock.freeze(),
        )

    def output(self) -> RequestOutput:
        """The result, when `is_done`."""
        outputs = self._best()
        leader = self.requests[0]
        error = next((output.error for output in outputs if output.error is not None), None)
        return RequestOutput(
            request_id=self.group_id,
            prompt=self.prompt,
            prompt_token_ids=self.prompt_token_ids,
            outputs=outputs,
            metrics=outputs[0].metrics,
            error=error,
            prompt_logprobs=tuple(leader.prompt_logprobs) if leader.prompt_logprobs else None,
        )

    def _best(self) -> tuple[CompletionOutput, ...]:
        """The choices by index; with ``best_of`` the ``n`` likeliest, those that failed last."""
        outputs = [self._done[index] for index in sorted(self._done)]
        wanted = self.requests[0].params.n
        if len(outputs) == wanted:
            return tuple(outputs)
        outputs.sort(key=_rank)
        return tuple(replace(output, index=place) for place, output in enumerate(outputs[:wanted]))

    def failure(self) -> StructgenError | None:
        """The error of the first sequence that failed to generate (not of one whose value was refused)."""
        return next((output.error for output in self._done.values() if output.finish_reason == "error"), None)


def _rank(output: CompletionOutput) -> tuple[bool, bool, float]:
    """Sorts the whole before what is cut inside its grammar, and then by log probability per token, largest first."""
    mean = (output.cumulative_logprob or 0.0) / max(1, len(output.token_ids))
    return output.finish_reason == "error", output.incomplete, -mean


def failed_output(group_id: str, prompt: Any, error: StructgenError) -> RequestOutput:
    """The result of a prompt that was refused before it became a request."""
    completion = CompletionOutput(index=0, text="", token_ids=(), finish_reason="error", error=error)
    return RequestOutput(
        request_id=group_id,
        prompt=prompt if isinstance(prompt, str) else None,
        prompt_token_ids=(),
        outputs=(completion,),
        metrics=RequestMetrics(),
        error=error,
    )
