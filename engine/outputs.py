"""What callers get back: frozen results, no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from structgen.engine.metrics import RequestMetrics
from structgen.engine.request import FinishReason
from structgen.errors import StructgenError


@dataclass(frozen=True, slots=True)
class Logprob:
    """Log probability (natural) of one token at one position.

    Attributes:
        logprob: in the distribution that ``SamplingParams.logprobs_mode`` names.
        rank: 1 is the likeliest token of that distribution.
        decoded_token: text of the token alone; a part of a character reads as U+FFFD here.
    """

    logprob: float
    rank: int
    decoded_token: str | None = None


@dataclass(frozen=True, slots=True)
class CompletionOutput:
    """One choice of a request.

    Attributes:
        index: which of the ``n`` choices.
        text: the output's text; never half a character. Without the stop string and without end tokens.
        token_ids: every token that was sampled, end tokens included.
        finish_reason: "stop" | "length" | "abort" | "timeout" (its time was over) | "error".
        stop_reason: the stop string or the stop token id that ended it; None for the model's own end token.
        incomplete: a grammar was given, and the text is only a beginning of what it describes.
        value: the parsed value, when the grammar carries a converter and the text is complete.
        logprobs: for each token, {token id: Logprob} with the sampled token first; None when not asked for.
        cumulative_logprob: sum of the log probabilities of its tokens; None unless ``logprobs``, ``best_of`` or a beam
            search asked for it.
        error: what made this choice fail, or why its ``value`` could not be made.
        metrics: what this choice cost.
    """

    index: int
    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    stop_reason: str | int | None = None
    incomplete: bool = False
    value: Any = None
    logprobs: tuple[dict[int, Logprob], ...] | None = None
    cumulative_logprob: float | None = None
    error: StructgenError | None = None
    metrics: RequestMetrics = field(default_factory=RequestMetrics)


@dataclass(frozen=True, slots=True)
class RequestOutput:
    """One request, finished.

    Attributes:
        prompt: the text given; None when token ids were given.
        outputs: the choices, by index; of ``best_of`` and of a beam search the best ones, best first.
        metrics: those of the first choice.
        error: the first error among the choices, else None. A failed request has ``finish_reason`` "error".
        prompt_logprobs: for each prompt token, {token id: Logprob} with itself first, and None for the first one, which
            nothing predicts; None when not asked for.
    """

    request_id: str
    prompt: str | None
    prompt_token_ids: tuple[int, ...]
    outputs: tuple[CompletionOutput, ...]
    metrics: RequestMetrics
    error: StructgenError | None = None
    prompt_logprobs: tuple[dict[int, Logprob] | None, ...] | None = None


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One piece of a streamed request.

    Attributes:
        delta: text that is new in this event (may be empty).
        text: all text of this choice so far.
        token_ids: tokens that are new in this event.
        finish_reason: None until the last event of this choice.
        value: the parsed value, in the last event, when the grammar carries a converter.
        index: which of the ``n`` choices.
        output: the whole choice, in its last event.
        retracted: characters at the end of the text shown before that are taken back, as the grammar led into a dead
            end; then ``delta`` follows. Rare, and never with schemas whose viability is decided; ``text`` is right in
            any case.
        retracted_tokens: tokens that are taken back with them.
    """

    delta: str
    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason | None = None
    value: Any = None
    index: int = 0
    output: CompletionOutput | None = None
    retracted: int = 0
    retracted_tokens: int = 0

    @property
    def partial(self) -> Any:
        """The value of the JSON text so far, or None while there is none.

        Open objects, lists and strings count as closed; a key without its value, an unfinished escape, and an
        unfinished ``true``, ``false`` or ``null`` are left out. A number at the very end may still grow.
        Computed on access.
        """
        return parse_partial(self.text)


def parse_partial(text: str) -> Any:
    """The longest beginning of ``text`` that is JSON, leniently; None when it is no JSON yet.

    >>> parse_partial('{"name": "Ann", "tags": ["a", "b')
    {'name': 'Ann', 'tags': ['a', 'b']}
    """
    from pydantic_core import from_json

    try:
        return from_json(text, allow_partial="trailing-strings")
    except ValueError:
        return None
