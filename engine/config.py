"""Settings of an engine and of a request: frozen, checked on construction, no torch."""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from structgen.errors import RequestError

LogprobsMode = Literal["raw", "masked"]
SchedulingPolicy = Literal["fcfs", "priority"]

_MAX_LOGPROBS = 1000
_MAX_N = 1024
_MAX_STOPS = 64


def refuse_unknown(where: str, given: Collection[str], allowed: Collection[str]) -> None:
    """Raise TypeError for the first name of ``given`` that is not in ``allowed``, with the nearest known name."""
    for name in given:
        if name not in allowed:
            near = difflib.get_close_matches(name, allowed, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known options: {', '.join(sorted(allowed))}"
            raise TypeError(f"{where} has no option {name!r}; {hint}")


def _integer(name: str, value: object, low: int, high: int | None = None) -> int:
    """``value`` as an int within ``[low, high]``; a bool or a float with a fraction is refused."""
    allowed = f"an integer >= {low}" if high is None else f"an integer from {low} to {high}"
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise RequestError(f"{name} is {value!r}; allowed: {allowed}")
    number = int(value)
    if number < low or (high is not None and number > high):
        raise RequestError(f"{name} is {value!r}; allowed: {allowed}")
    return number


def _real(name: str, value: object, low: float, high: float | None, *, low_open: bool = False) -> float:
    """``value`` as a finite float in ``[low, high]`` (``(low, high]`` with ``low_open``)."""
    upper = "and above" if high is None else f"to {high:g}"
    allowed = f"a number {'above' if low_open else 'from'} {low:g} {upper}"
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise RequestError(f"{name} is {value!r}; allowed: {allowed}")
    number = float(value)
    outside = number < low or (low_open and number == low) or (high is not None and number > high)
    if not math.isfinite(number) or outside:
        raise RequestError(f"{name} is {value!r}; allowed: {allowed}")
    return number


def _flag(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise RequestError(f"{name} is {value!r}; allowed: True or False")


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How one request is sampled, and when it ends. The words are vLLM's.

    >>> SamplingParams(temperature=0.0, max_tokens=64, stop="\\n\\n").stop
    ('\\n\\n',)

    The order of work on a row of logits: grammar mask, penalties, temperature, top-k, top-p, min-p.

    Attributes:
        max_tokens: most tokens to generate. None: until the context is full. The default is 256 (vLLM's 16
            cuts nearly every structured answer).
        temperature: 0 is greedy.
        top_p: keep the smallest set of likeliest tokens whose probability reaches this (1 = all). Tokens as
            likely as the last one kept stay too.
        top_k: keep this many likeliest tokens (0 or -1 = all); ties with the last one stay.
        min_p: keep tokens at least this times as likely as the likeliest.
        presence_penalty, frequency_penalty: subtracted once / per occurrence in the output, from -2 to 2.
        repetition_penalty: divides positive and multiplies negative logits of tokens seen in prompt or output.
        seed: makes a request reproducible, whatever its neighbours; choice ``i`` of ``n`` uses ``seed + i``.
        n: number of choices; they share the cache blocks of the prompt.
        best_of: generate this many choices and give back the ``n`` likeliest, by log probability per token.
        stop: strings that end the output, looked for once ``min_tokens`` are out. They are not grammar: when
            one cuts a constrained output before its grammar was complete, the output says ``incomplete``.
        stop_token_ids: tokens that end the output besides the model's own end tokens. Under a grammar, one that
            is no text is legal wherever the grammar may end.
        include_stop_str_in_output: keep the stop string or the text of the stop token.
        ignore_eos: do not stop at the model's end tokens. Under a grammar: end tokens are masked while anything
            else is legal; where only the end is legal, the grammar wins.
        min_tokens: end tokens and stop ids are masked before this many tokens (under a grammar: only while
            another token is legal), and stop strings are not looked for.
        logprobs: log probabilities of the sampled token and of this many likeliest ones (0: the sampled only).
        logprobs_mode: ``"raw"`` (default, as in vLLM): what the model said, before grammar mask and penalties;
            ``"masked"``: among the tokens the grammar allowed. Both before temperature and truncation.
        prompt_logprobs: log probabilities of each prompt token after the first, and of this many likeliest ones at
            its place (`RequestOutput.prompt_logprobs`). What the prefix cache knows is computed again for them.
        logit_bias: token id -> number from -100 to 100 that is added to its logit (-100: as good as never). It opens
            nothing that a grammar forbids.
        skip_special_tokens: leave special tokens out of the text.

    Raises:
        RequestError: a value is out of range; the message names the field, the value and what is allowed.
    """

    max_tokens: int | None = 256
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    n: int = 1
    best_of: int | None = None
    stop: str | Sequence[str] = ()
    stop_token_ids: Sequence[int] = ()
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    min_tokens: int = 0
    logprobs: int | None = None
    logprobs_mode: LogprobsMode = "raw"
    prompt_logprobs: int | None = None
    logit_bias: Mapping[int, float] | None = None
    skip_special_tokens: bool = True

    def __post_init__(self) -> None:
        put = object.__setattr__
        if self.max_tokens is not None:
            put(self, "max_tokens", _integer("max_tokens", self.max_tokens, 1))
        put(self, "temperature", _real("temperature", self.temperature, 0.0, None))
        put(self, "top_p", _real("top_p", self.top_p, 0.0, 1.0, low_open=True))
        put(self, "top_k", max(0, _integer("top_k", self.top_k, -1)))
        put(self, "min_p", _real("min_p", self.min_p, 0.0, 1.0))
        put(self, "presence_penalty", _real("presence_penalty", self.presence_penalty, -2.0, 2.0))
        put(self, "frequency_penalty", _real("frequency_penalty", self.frequency_penalty, -2.0, 2.0))
        put(
            self,
            "repetition_penalty",
            _real("repetition_penalty", self.repetition_penalty, 0.0, None, low_open=True),
        )
        if self.seed is not None:
            put(self, "seed", _integer("seed", self.seed, -(2**63), 2**64 - 1))
        put(self, "n", _integer("n", self.n, 1, _MAX_N))
        if self.best_of is not None:
            put(self, "best_of", self._best_of())
        put(self, "stop", self._stop_strings())
        put(self, "stop_token_ids", self._stop_ids())
        put(self, "min_tokens", _integer("min_tokens", self.min_tokens, 0))
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise RequestError(
                f"min_tokens is {self.min_tokens}; allowed: at most max_tokens, which is {self.max_tokens}"
            )
        if self.logprobs is not None:
            put(self, "logprobs", _integer("logprobs", self.logprobs, 0, _MAX_LOGPROBS))
        if self.prompt_logprobs is not None:
            put(self, "prompt_logprobs", _integer("prompt_logprobs", self.prompt_logprobs, 0, _MAX_LOGPROBS))
        put(self, "logit_bias", self._bias())
        if self.logprobs_mode not in ("raw", "masked"):
            raise RequestError(f"logprobs_mode is {self.logprobs_mode!r}; allowed: 'raw' or 'masked'")
        for name in ("include_stop_str_in_output", "ignore_eos", "skip_special_tokens"):
            _flag(name, getattr(self, name))

    def _best_of(self) -> int:
        count = _integer("best_of", self.best_of, 1, _MAX_N)
        if count < self.n:
            raise RequestError(f"best_of is {count}; allowed: at least n, which is {self.n}")
        if count > 1 and self.is_greedy:
            raise RequestError(
                f"best_of is {count} with temperature=0, which gives {count} times the same; allowed: a temperature "
                "above 0, or LLM.beam_search"
            )
        return count

    def _bias(self) -> Mapping[int, float] | None:
        given: Any = self.logit_bias
        if not given:
            return None
        if not isinstance(given, Mapping):
            raise RequestError(f"logit_bias is {given!r}; allowed: a dict of token ids to numbers from -100 to 100")
        # OpenAI's clients send the ids as JSON keys, which are strings.
        named = {int(key) if isinstance(key, str) and key.isdecimal() else key: value for key, value in given.items()}
        return {
            _integer("a token id of logit_bias", token, 0): _real(f"logit_bias[{token!r}]", value, -100.0, 100.0)
            for token, value in named.items()
        }

    def _stop_strings(self) -> tuple[str, ...]:
        given: Any = self.stop
        if given is None:
            return ()
        stops = (given,) if isinstance(given, str) else given
        allowed = f"a string or a list of at most {_MAX_STOPS} non-empty strings"
        if not isinstance(stops, Sequence) or len(stops) > _MAX_STOPS:
            raise RequestError(f"stop is {given!r}; allowed: {allowed}")
        if any(not isinstance(text, str) or not text for text in stops):
            raise RequestError(f"stop is {given!r}; allowed: {allowed}")
        return tuple(stops)

    def _stop_ids(self) -> tuple[int, ...]:
        given: Any = self.stop_token_ids
        if given is None:
            return ()
        allowed = "a list of token ids, integers >= 0"
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise RequestError(f"stop_token_ids is {given!r}; allowed: {allowed}")
        if any(isinstance(token, bool) or not isinstance(token, numbers.Integral) or token < 0 for token in given):
            raise RequestError(f"stop_token_ids is {given!r}; allowed: {allowed}")
        return tuple(int(token) for token in given)

    @property
    def num_sequences(self) -> int:
        """How many choices are generated."""
        return self.best_of or self.n

    @property
    def reports_logprobs(self) -> bool:
        """Whether the log probability of each sampled token is needed: to be told, or to rank by."""
        return self.logprobs is not None or self.num_sequences > self.n

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0.0

    @classmethod
    def from_options(cls, **options: Any) -> SamplingParams:
        """Build from keyword options; an unknown one is a TypeError that names the nearest known one."""
        refuse_unknown("SamplingParams", options, [field.name for field in fields(cls)])
        return cls(**options)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """Limits of one scheduler. ``num_blocks`` and ``max_model_len`` come from the runner.

    Attributes:
        num_blocks: KV blocks in the pool.
        block_size: tokens a block holds.
        max_model_len: most tokens a sequence may have, prompt and output together.
        max_num_seqs: most requests running at once.
        max_num_batched_tokens: token budget of one step; at least ``max_num_seqs``, so that each running
            request gets a token in every step.
        long_prefill_token_threshold: most prompt tokens one request takes of a step (0: no such limit).
        enable_prefix_caching: reuse blocks of equal prefixes.
        scheduling_policy: "fcfs" (by arrival) or "priority" (smaller numbers first, then by arrival; a waiting request
            takes seats and blocks from running ones of larger numbers).
        max_waiting: most sequences in the queue; what comes on top is refused. None: no limit.

    Raises:
        RequestError: a value is out of range.
    """

    num_blocks: int
    block_size: int = 16
    max_model_len: int = 2048
    max_num_seqs: int = 64
    max_num_batched_tokens: int = 512
    long_prefill_token_threshold: int = 256
    enable_prefix_caching: bool = True
    scheduling_policy: SchedulingPolicy = "fcfs"
    max_waiting: int | None = None

    def __post_init__(self) -> None:
        for name in ("num_blocks", "block_size", "max_num_seqs", "max_num_batched_tokens"):
            _integer(name, getattr(self, name), 1)
        _integer("max_model_len", self.max_model_len, 2)
        _integer("long_prefill_token_threshold", self.long_prefill_token_threshold, 0)
        _flag("enable_prefix_caching", self.enable_prefix_caching)
        if self.scheduling_policy not in ("fcfs", "priority"):
            raise RequestError(f"scheduling_policy is {self.scheduling_policy!r}; allowed: 'fcfs' or 'priority'")
        if self.max_waiting is not None:
            _integer("max_waiting", self.max_waiting, 1)
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise RequestError(
                f"max_num_batched_tokens is {self.max_num_batched_tokens}; allowed: at least max_num_seqs, "
                f"which is {self.max_num_seqs} (each running request needs a token in every step)"
            )

    @property
    def max_tokens_per_sequence(self) -> int:
        """The longest sequence: what the model takes and what the pool holds."""
        return min(self.max_model_len, self.num_blocks * self.block_size)


_DTYPES = ("auto", "float32", "bfloat16")
_DEVICES = ("auto", "cpu", "cuda")
_QUANTIZATIONS = ("auto", "int8", None)
_MODEL_IMPLS = ("auto", "native", "transformers")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Everything ``LLM(...)`` takes. See `LLM` for what each option does.

    Raises:
        RequestError: a value is out of range, or names something that is not built yet.
    """

    model: str = "smollm2"
    dtype: str = "auto"
    device: str = "auto"
    quantization: str | None = "auto"
    max_model_len: int | None = None
    kv_cache_tokens: int | None = None
    model_impl: str = "auto"
    max_num_seqs: int = 64
    max_num_batched_tokens: int = 512
    block_size: int = 16
    enable_prefix_caching: bool = True
    long_prefill_token_threshold: int = 256
    scheduling_policy: SchedulingPolicy = "fcfs"
    max_waiting: int | None = None
    speculative: str | Sequence[str] | None = "auto"
    batch_invariant: bool = False
    tensor_parallel_size: int = 1
    grammar_timeout_s: float = 60.0

    def __post_init__(self) -> None:
        if not isinstance(self.model, str) or not self.model:
            raise RequestError(f"model is {self.model!r}; allowed: a folder, a GGUF file, a hub id or 'smollm2'")
        if self.dtype not in _DTYPES:
            raise RequestError(f"dtype is {self.dtype!r}; allowed: {', '.join(_DTYPES)}")
        if self.device not in _DEVICES:
            raise RequestError(f"device is {self.device!r}; allowed: {', '.join(_DEVICES)}")
        if self.quantization not in _QUANTIZATIONS:
            raise RequestError(f"quantization is {self.quantization!r}; allowed: 'auto', 'int8', None")
        if self.quantization == "int8" and self.dtype != "auto":
            raise RequestError(f"quantization='int8' and dtype={self.dtype!r} exclude each other; give one of them")
        if self.max_model_len is not None:
            _integer("max_model_len", self.max_model_len, 2)
        if self.kv_cache_tokens is not None:
            _integer("kv_cache_tokens", self.kv_cache_tokens, self.block_size)
        if self.model_impl not in _MODEL_IMPLS:
            raise RequestError(f"model_impl is {self.model_impl!r}; allowed: {', '.join(map(repr, _MODEL_IMPLS))}")
        _real("grammar_timeout_s", self.grammar_timeout_s, 0.0, None, low_open=True)
        self.scheduler_config(num_blocks=1, max_model_len=2)  # checks the scheduler's own options
        self._refuse_unbuilt()

    def _refuse_unbuilt(self) -> None:
        """Options that are named in the API and not built yet raise, so that none is silently without effect."""
        _flag("batch_invariant", self.batch_invariant)
        _integer("tensor_parallel_size", self.tensor_parallel_size, 1)
        built: tuple[tuple[str, object, tuple[object, ...]], ...] = (
            ("speculative", self.speculative, ("auto", None)),
            ("batch_invariant", self.batch_invariant, (False,)),
            ("tensor_parallel_size", self.tensor_parallel_size, (1,)),
        )
        for name, value, allowed in built:
            if value not in allowed:
                choices = " or ".join(map(repr, allowed))
                raise RequestError(f"{name}={value!r} is not built yet; allowed for now: {choices}")

    def scheduler_config(self, *, num_blocks: int, max_model_len: int) -> SchedulerConfig:
        """The scheduler's part, for a runner with this many blocks and this context length."""
        return SchedulerConfig(
            num_blocks=num_blocks,
            block_size=self.block_size,
            max_model_len=max_model_len,
            max_num_seqs=self.max_num_seqs,
            max_num_batched_tokens=self.max_num_batched_tokens,
            long_prefill_token_threshold=self.long_prefill_token_threshold,
            enable_prefix_caching=self.enable_prefix_caching,
            scheduling_policy=self.scheduling_policy,
            max_waiting=self.max_waiting,
        )
