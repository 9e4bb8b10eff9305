"""Beam search over the engine's ordinary requests: a round asks for one token of each beam, with its likeliest tokens.

Beams share the blocks of what they have in common through the prefix cache, and each forks the state of its grammar.
The rules are those of transformers' `generate(num_beams=...)`: of the candidates of a round, ordered by the sum of
their log probabilities, those that end are kept as finished when they are among the first ``beam_width``, and the best
others go on; a finished text scores sum / length ** length_penalty, its end token counted.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from structgen.engine.config import SamplingParams
from structgen.engine.constraints import Matcher, as_request_error
from structgen.engine.group import Group
from structgen.engine.metrics import RequestMetrics, now_s
from structgen.engine.outputs import CompletionOutput, RequestOutput
from structgen.errors import RequestError, UnsatisfiableGrammar

if TYPE_CHECKING:
    from structgen.engine.constraints import CompiledGrammar

_MAX_WIDTH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class BeamSearchParams:
    """How a beam search goes. The words are vLLM's, ``early_stopping`` is transformers'.

    Attributes:
        beam_width: beams that go on, and texts that are given back; 1 to 64.
        max_tokens: most tokens of a text.
        length_penalty: texts are ranked by sum of log probabilities / length ** this; above 0 favours longer ones.
        early_stopping: True: end with ``beam_width`` finished texts; False: and no beam is better at its present
            length; "never": and no beam can become better.
        ignore_eos: go on at the model's end tokens.
        skip_special_tokens: leave special tokens out of the text.

    Raises:
        RequestError: a value is out of range.
    """

    beam_width: int = 4
    max_tokens: int = 64
    length_penalty: float = 1.0
    early_stopping: bool | Literal["never"] = False
    ignore_eos: bool = False
    skip_special_tokens: bool = True

    def __post_init__(self) -> None:
        width: object = self.beam_width
        if isinstance(width, bool) or not isinstance(width, int) or not 1 <= width <= _MAX_WIDTH:
            raise RequestError(f"beam_width is {width!r}; allowed: an integer from 1 to {_MAX_WIDTH}")
        penalty: object = self.length_penalty
        if isinstance(penalty, bool) or not isinstance(penalty, numbers.Real) or not math.isfinite(penalty):
            raise RequestError(f"length_penalty is {penalty!r}; allowed: a finite number")
        if not isinstance(self.early_stopping, bool) and self.early_stopping != "never":
            raise RequestError(f"early_stopping is {self.early_stopping!r}; allowed: True, False or 'never'")
        self.sampling(1)  # checks the rest
        SamplingParams(max_tokens=self.max_tokens)

    def sampling(self, num_candidates: int) -> SamplingParams:
        """What one round of one beam asks for."""
        return SamplingParams(
            max_tokens=1,
            temperature=0.0,
            logprobs=num_candidates,
            ignore_eos=self.ignore_eos,
            skip_special_tokens=self.skip_special_tokens,
        )


@dataclass(frozen=True, slots=True)
class Beam:
    """A beginning. ``matcher``: the state of the grammar behind it; None: at the start, or there is no grammar."""

    token_ids: tuple[int, ...] = ()
    logprob: float = 0.0
    matcher: Matcher | None = None

    def matcher_of(self, compiled: CompiledGrammar) -> Matcher:
        """A matcher of one's own, behind this beginning."""
        return compiled.matcher() if self.matcher is None else self.matcher.fork()


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A finished text. ``is_ended``: by an end token, not by the limit."""

    beam: Beam
    score: float
    is_ended: bool


@dataclass(slots=True)
class _Resumed:
    """A compiled grammar whose matchers start behind a beam."""

    beam: Beam
    compiled: CompiledGrammar

    def matcher(self) -> Matcher:
        return self.beam.matcher_of(self.compiled)


@dataclass(slots=True)
class BeamSearch:
    """One prompt's search: `round` says what to ask for, `take` takes the answers, until `is_done`.

    Args:
        prompt: its text; None when token ids were given.
        max_length: longest sequence that is served, prompt and output.
        num_token_ids: ids the tokenizer has; larger ones are never taken.
    """

    prompt: str | None
    prompt_token_ids: Sequence[int]
    params: BeamSearchParams
    grammar: object
    eos_token_ids: Collection[int]
    num_token_ids: int
    max_length: int

    beams: list[Beam] = field(default_factory=lambda: [Beam()])
    finished: list[Hypothesis] = field(default_factory=list)
    compiled: CompiledGrammar | None = None
    num_cached_tokens: int | None = None
    num_passes: int = 0
    started: float = field(default_factory=now_s)

    @property
    def is_done(self) -> bool:
        return not self.beams

    @property
    def max_tokens(self) -> int:
        return min(self.params.max_tokens, self.max_length - len(self.prompt_token_ids))

    @property
    def _num_candidates(self) -> int:
        """So many that ``beam_width`` are left if every other one ends."""
        return max(2, 1 + len(self.eos_token_ids)) * self.params.beam_width

    def round(self) -> list[tuple[list[int], SamplingParams, object]]:
        """For each beam: the tokens to continue, how, and under which grammar."""
        params = self.params.sampling(self._num_candidates)
        if self.grammar is not None:
            params = replace(params, logprobs_mode="masked")  # the likeliest of all tokens may be illegal
        return [
            (
                [*self.prompt_token_ids, *beam.token_ids],
                params,
                self.grammar if self.compiled is None else _Resumed(beam, self.compiled),
            )
            for beam in self.beams
        ]

    def take(self, groups: Sequence[Group]) -> None:
        """The answers of a round, one for each beam.

        Raises:
            StructgenError: a request failed. A beam without a legal token only ends.
        """
        candidates: list[tuple[float, int, int]] = []
        for index, group in enumerate(groups):
            output = group.output()
            self.num_passes += output.metrics.forward_passes
            if self.num_cached_tokens is None:
                self.num_cached_tokens = output.metrics.num_cached_tokens
            if (error := group.failure()) is not None:
                if isinstance(error, UnsatisfiableGrammar) and self.beams[index].token_ids:
                    continue
                raise error
            constraint = group.requests[0].constraint
            if constraint is not None and self.compiled is None:
                self.compiled = constraint.compiled
            (entry,) = output.outputs[0].logprobs or ({},)
            candidates += [
                (self.beams[index].logprob + each.logprob, index, token)
                for token, each in entry.items()
                if token < self.num_token_ids
            ]
        candidates.sort(key=lambda candidate: -candidate[0])
        self._advance(candidates[: self._num_candidates])

    def _advance(self, candidates: Sequence[tuple[float, int, int]]) -> None:
        """Split the candidates, best first, into finished texts and the beams that go on."""
        params, length = self.params, len(self.beams[0].token_ids) + 1
        is_full = len(self.finished) == params.beam_width
        going: list[Beam] = []
        for rank, (logprob, index, token) in enumerate(candidates):
            is_ended = token in self.eos_token_ids and not params.ignore_eos
            if not is_ended and length < self.max_tokens:
                if len(going) < params.beam_width:
                    going.append(self._grown(self.beams[index], token, logprob))
            elif rank < params.beam_width and not (is_full and params.early_stopping is True):
                beam = Beam((*self.beams[index].token_ids, token), logprob)
                if not is_ended:
                    beam = self._grown(self.beams[index], token, logprob)
                self.finished.append(Hypothesis(beam, logprob / length**params.length_penalty, is_ended))
        self.finished.sort(key=lambda one: -one.score)
        del self.finished[params.beam_width :]
        self.beams = going if self._can_improve(going, length) else []
        if not self.beams and not self.finished:
            raise RequestError("every beam of the search led to a place where the grammar allows no token")

    def _grown(self, beam: Beam, token: int, logprob: float) -> Beam:
        matcher = None
        if self.compiled is not None:
            matcher = beam.matcher_of(self.compiled)
            if not matcher.accept(token):
                raise RequestError(f"the grammar refuses token {token}, which its own mask allowed")
        return Beam((*beam.token_ids, token), logprob, matcher)

    def _can_improve(self, beams: Sequence[Beam], length: int) -> bool:
        params = self.params
        if len(self.finished) < params.beam_width or not beams:
            return True
        if params.early_stopping is True:
            return False
        if params.early_stopping == "never" and params.length_penalty > 0:
            length = self.max_tokens
        best: float = beams[0].logprob / length**params.length_penalty
        return best > self.finished[-1].score

    def output(
        self, request_id: str, decode: Callable[[Sequence[int]], str], convert: Callable[[str], Any] | None
    ) -> RequestOutput:
        """The texts, best first, when `is_done`."""
        metrics = RequestMetrics(
            e2e_s=now_s() - self.started,
            forward_passes=self.num_passes,
            num_cached_tokens=self.num_cached_tokens or 0,
        )
        outputs = tuple(
            self._completion(index, one, metrics, decode, convert) for index, one in enumerate(self.finished)
        )
        return RequestOutput(
            request_id=request_id,
            prompt=self.prompt,
            prompt_token_ids=tuple(self.prompt_token_ids),
            outputs=outputs,
            metrics=metrics,
            error=next((output.error for output in outputs if output.error is not None), None),
        )

    def _completion(
        self,
        index: int,
        one: Hypothesis,
        metrics: RequestMetrics,
        decode: Callable[[Sequence[int]], str],
        convert: Callable[[str], Any] | None,
    ) -> CompletionOutput:
        text = decode(one.beam.token_ids[:-1] if one.is_ended else one.beam.token_ids)
        matcher = one.beam.matcher
        incomplete = self.grammar is not None and not one.is_ended and not (matcher is not None and matcher.can_end())
        value, error = None, None
        if convert is not None and not incomplete:
            try:
                value = convert(text)
            except Exception as refused:
                error = as_request_error(refused, "the text could not be turned into a value")
        return CompletionOutput(
            index=index,
            text=text,
            token_ids=one.beam.token_ids,
            finish_reason="stop" if one.is_ended else "length",
            incomplete=incomplete,
            value=value,
            cumulative_logprob=one.beam.logprob,
            error=error,
            metrics=metrics,
        )
