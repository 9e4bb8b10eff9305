"""`LLM`: a model, and the verbs generate, stream and chat."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields
from typing import Any

from structgen.engine.beam import BeamSearch, BeamSearchParams
from structgen.engine.config import EngineConfig, SamplingParams, SchedulingPolicy, refuse_unknown
from structgen.engine.core import Runner
from structgen.engine.front import Front, Prompt
from structgen.engine.group import Group, failed_output
from structgen.engine.metrics import EngineMetrics
from structgen.engine.outputs import RequestOutput, StreamEvent
from structgen.engine.prompts import (
    SERVING,
    Message,
    Prompts,
    grammar_of,
    is_single,
    jobs_of,
    params_of,
    raise_failure,
    refuse_streamed,
)
from structgen.engine.tokenizer import Tokenizer
from structgen.errors import RequestError, StructgenError


class LLM:
    """A model with an engine around it.

    >>> llm = LLM("smollm2")                                                          # doctest: +SKIP
    >>> llm.generate("The sky is", SamplingParams(max_tokens=8))[0].outputs[0].text   # doctest: +SKIP

    Calls from several threads are served as one batch. Use it as a context manager, or call `shutdown`, to give the
    requests in flight an end.

    Args:
        model: a folder, a GGUF file, a hub id, or "smollm2".
        dtype: "auto" | "float32" | "bfloat16".
        device: "auto" | "cpu" | "cuda".
        quantization: "int8": weights and inputs of products are rounded to 8 bits, on the CPU, several times as fast;
            None: as ``dtype`` says; "auto": "int8" for what is quantised already, unless ``dtype`` is given.
        max_model_len: longest sequence, prompt and output; default: what model and KV cache allow.
        kv_cache_tokens: tokens the KV cache holds.
        model_impl: "native": the models of this package; "transformers": transformers' own code over our KV cache;
            "auto": native where there is one.
        max_num_seqs: most requests running at once.
        max_num_batched_tokens: token budget of a step.
        block_size: tokens a KV block holds.
        enable_prefix_caching: reuse the KV cache of equal prompt beginnings.
        long_prefill_token_threshold: most prompt tokens one request computes in a step (0: no such limit), so that
            others' tokens keep coming.
        scheduling_policy: "fcfs" (by arrival) or "priority" (by ``priority=`` of the verbs, smaller first).
        max_waiting: most sequences in the queue; a request on top fails at once. None: no limit.
        speculative: "auto" or None; both mean none until it is built.
        batch_invariant, tensor_parallel_size: not built yet.
        grammar_timeout_s: a grammar that takes longer to compile fails its request.

    Raises:
        ModelError: the model cannot be found or loaded.
        RequestError: an option is out of range or not built yet.
        TypeError: an unknown option; the message names the nearest known one.
    """

    def __init__(
        self,
        model: str = "smollm2",
        *,
        dtype: str = "auto",
        device: str = "auto",
        quantization: str | None = "auto",
        max_model_len: int | None = None,
        kv_cache_tokens: int | None = None,
        model_impl: str = "auto",
        max_num_seqs: int = 64,
        max_num_batched_tokens: int = 512,
        block_size: int = 16,
        enable_prefix_caching: bool = True,
        long_prefill_token_threshold: int = 256,
        scheduling_policy: SchedulingPolicy = "fcfs",
        max_waiting: int | None = None,
        speculative: str | Sequence[str] | None = "auto",
        batch_invariant: bool = False,
        tensor_parallel_size: int = 1,
        grammar_timeout_s: float = 60.0,
        **unknown: Any,
    ) -> None:
        refuse_unknown("LLM", list(unknown), [field.name for field in fields(EngineConfig)])
        config = EngineConfig(
            model=model,
            dtype=dtype,
            device=device,
            quantization=quantization,
            max_model_len=max_model_len,
            kv_cache_tokens=kv_cache_tokens,
            model_impl=model_impl,
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=max_num_batched_tokens,
            block_size=block_size,
            enable_prefix_caching=enable_prefix_caching,
            long_prefill_token_threshold=long_prefill_token_threshold,
            scheduling_policy=scheduling_policy,
            max_waiting=max_waiting,
            speculative=speculative,
            batch_invariant=batch_invariant,
            tensor_parallel_size=tensor_parallel_size,
            grammar_timeout_s=grammar_timeout_s,
        )
        self._front = Front(config, *_load(config))

    @classmethod
    def from_parts(cls, runner: Runner, tokenizer: Tokenizer, config: EngineConfig | None = None) -> LLM:
        """An LLM around a runner that is there already."""
        made = cls.__new__(cls)
        made._front = Front(config or EngineConfig(block_size=runner.block_size), runner, tokenizer)
        return made

    # -- what it is ----------------------------------------------------------------------------------------

    @property
    def config(self) -> EngineConfig:
        return self._front.config

    @property
    def tokenizer(self) -> Tokenizer:
        return self._front.tokenizer

    @property
    def vocabulary(self) -> Any:
        """The `Vocabulary` that grammars are compiled for: as wide as the model's logits."""
        return self._front.vocabulary

    @property
    def runner(self) -> Any:
        """The model side: weights and KV cache."""
        return self._front.runner

    @property
    def dtype(self) -> Any:
        """The torch dtype of the weights."""
        return self._front.runner.dtype  # type: ignore[attr-defined]

    @property
    def max_model_len(self) -> int:
        """The longest sequence that is served, prompt and output."""
        return self._front.core.config.max_tokens_per_sequence

    @property
    def metrics(self) -> EngineMetrics:
        """Counters since the start."""
        return self._front.core.metrics

    # -- verbs ---------------------------------------------------------------------------------------------

    def generate(
        self,
        prompts: Prompts,
        params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        grammar: Any = None,
        priority: int | Sequence[int] = 0,
        timeout_s: float | Sequence[float | None] | None = None,
        cache_salt: str | Sequence[str | None] | None = None,
        progress: bool = False,
    ) -> list[RequestOutput]:
        """Complete prompts as they are (no chat template), all in one batch; results in the order given.

        Args:
            prompts: a text, a list of token ids, or a list of these.
            params: one for all, or one each; default ``SamplingParams()``.
            grammar: a Grammar (compiled once) or a compiled one, one for all, or a list with one each (None = free).
            priority: smaller ones are served first (``scheduling_policy="priority"``); one for all, or one each.
            timeout_s: seconds after which a request ends with what it has and ``finish_reason`` "timeout"; one for
                all, or one each.
            cache_salt: cached prompt beginnings are shared only between requests with the same one; one for all, or
                one each.
            progress: show a progress bar on standard error.

        Raises:
            StructgenError: the one prompt given (not in a list) failed. In a list, a failed request has its
                ``.error`` and ``finish_reason`` "error" in its result, and the others are served.
            RequestError: params is no SamplingParams (or list of them), or params or grammar are lists of another
                length than prompts.
        """
        results: list[RequestOutput | Group] = []
        options = {"grammar": grammar, "priority": priority, "timeout_s": timeout_s, "cache_salt": cache_salt}
        for prompt, own_params, own_options in jobs_of(prompts, params, options):
            try:
                results.append(self._front.prepare(prompt, own_params, **own_options))
            except StructgenError as error:
                results.append(failed_output(self._front.next_id(), prompt, error))
        self._run([result for result in results if isinstance(result, Group)], progress)
        outputs = [result.output() if isinstance(result, Group) else result for result in results]
        if is_single(prompts):
            raise_failure(outputs[0])
        return outputs

    def stream(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        grammar: Any = None,
        schema: Any = None,
        priority: int = 0,
        timeout_s: float | None = None,
        cache_salt: str | None = None,
    ) -> Iterator[StreamEvent]:
        """Complete one prompt, an event for each token. Leaving the loop early aborts the request.

        Args:
            prompt: a text or a list of token ids.
            params: default ``SamplingParams()``.
            grammar, priority, timeout_s, cache_salt: as in `generate`.
            schema: instead of a grammar: a type or a JSON Schema. ``event.partial`` is the value so far, and the last
                event's ``value`` the whole one.

        Raises:
            StructgenError: the request failed.
        """
        events: deque[StreamEvent] = deque()
        refuse_streamed(params_of(params))
        group = self._front.prepare(
            prompt,
            params_of(params),
            grammar_of(grammar, schema),
            on_event=events.append,
            priority=priority,
            timeout_s=timeout_s,
            cache_salt=cache_salt,
        )
        return self._events(group, events)

    def beam_search(
        self,
        prompts: Prompts,
        params: BeamSearchParams | Sequence[BeamSearchParams] | None = None,
        *,
        grammar: Any = None,
        priority: int | Sequence[int] = 0,
        cache_salt: str | Sequence[str | None] | None = None,
    ) -> list[RequestOutput]:
        """The ``beam_width`` best texts of each prompt, best first; all prompts in one batch.

        A round of a beam is a step that recomputes what the prefix cache does not hold: less than a block with
        ``enable_prefix_caching``, everything without.

        Args:
            params: one for all, or one each; default ``BeamSearchParams()``.
            prompts, grammar, priority, cache_salt: as in `generate`.

        Raises:
            StructgenError: as in `generate`.
        """
        results: list[RequestOutput | None] = []
        searches: dict[int, tuple[BeamSearch, dict[str, Any]]] = {}
        options = {"grammar": grammar, "priority": priority, "cache_salt": cache_salt}
        for prompt, own_params, own_options in jobs_of(prompts, params, options, BeamSearchParams):
            try:
                search = self._front.beam_search(prompt, own_params, own_options.pop("grammar"))
                searches[len(results)] = search, own_options
                results.append(None)
            except StructgenError as error:
                results.append(failed_output(self._front.next_id(), prompt, error))
        while searches:
            self._search_round(searches, results)
        outputs = [result for result in results if result is not None]
        if is_single(prompts):
            raise_failure(outputs[0])
        return outputs

    def _search_round(
        self, searches: dict[int, tuple[BeamSearch, dict[str, Any]]], results: list[RequestOutput | None]
    ) -> None:
        """One token of every beam of every search, in one batch; searches that end leave their result."""
        rounds: dict[int, list[Group]] = {}
        failures: dict[int, StructgenError] = {}
        for index, (search, options) in searches.items():
            try:
                rounds[index] = [self._front.prepare(*beam, **options) for beam in search.round()]
            except StructgenError as error:
                failures[index] = error
        self._run([group for groups in rounds.values() for group in groups], progress=False)
        for index, groups in rounds.items():
            search = searches[index][0]
            try:
                search.take(groups)
                if search.is_done:
                    results[index] = self._front.beam_output(search)
                    del searches[index]
            except StructgenError as error:
                failures[index] = error
        for index, failure in failures.items():
            search = searches.pop(index)[0]
            prompt = search.prompt_token_ids if search.prompt is None else search.prompt
            results[index] = failed_output(self._front.next_id(), prompt, failure)

    def chat(
        self,
        messages: Sequence[Message] | Sequence[Sequence[Message]],
        params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        schema: Any = None,
        grammar: Any = None,
        tools: Any = None,
        tool_choice: Any = None,
        progress: bool = False,
        **serving: Any,
    ) -> list[RequestOutput]:
        """Answer a conversation, or each of a list of conversations, through the model's chat template.

        Args:
            messages: dicts with ``role`` and ``content``.
            params, grammar: as in `generate`.
            schema: instead of a grammar: a type or a JSON Schema; ``.outputs[0].value`` is its value.
            tools, tool_choice: not built yet.
            serving: ``priority``, ``timeout_s`` and ``cache_salt``, as in `generate`.

        Raises:
            StructgenError: the one conversation given failed, or the template refuses the messages.
        """
        refuse_unknown("chat", list(serving), SERVING)
        prompts = self._chat_prompts(messages, tools, tool_choice)
        single = bool(messages) and isinstance(messages[0], Mapping)
        return self.generate(
            prompts[0] if single else prompts,
            params,
            grammar=grammar_of(grammar, schema),
            progress=progress,
            **serving,
        )

    def _chat_prompts(self, messages: Any, tools: Any, tool_choice: Any) -> list[Prompt]:
        for name, value in (("tools", tools), ("tool_choice", tool_choice)):
            if value is not None:
                raise RequestError(f"{name}= is not built yet; describe the call with schema= or grammar=")
        nested = isinstance(messages, Sequence) and bool(messages) and not isinstance(messages[0], (Mapping, str))
        conversations = messages if nested else [messages]
        return [self.tokenizer.chat_token_ids(conversation) for conversation in conversations]

    # -- running -------------------------------------------------------------------------------------------

    def _run(self, groups: Sequence[Group], progress: bool) -> None:
        for group in groups:
            self._front.submit(group)
        pending = deque(groups)

        def is_ready() -> bool:
            while pending and pending[0].is_done:
                pending.popleft()
            return not pending

        try:
            with _progress_bar(groups) if progress else nullcontext(None) as show:
                self._front.run_until(is_ready if show is None else lambda: show() or is_ready())
        except BaseException:  # Ctrl-C too: no request may stay behind
            self._front.abort(groups)
            raise

    def _events(self, group: Group, events: deque[StreamEvent]) -> Iterator[StreamEvent]:
        self._front.submit(group)
        try:
            while events or not group.is_done:
                self._front.run_until(lambda: events or group.is_done)
                while events:
                    yield events.popleft()
        finally:
            if not group.is_done:
                self._front.abort([group])
        if (error := group.failure()) is not None:
            raise error

    def shutdown(self) -> None:
        """Abort what is in flight and end the engine; again is harmless."""
        self._front.close()

    def __enter__(self) -> LLM:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()


def _load(config: EngineConfig) -> tuple[Runner, Tokenizer]:
    from structgen.engine.load import load_runner
    from structgen.engine.resolve import resolve_model

    path = resolve_model(config.model)
    tokenizer = Tokenizer.load(path)
    return load_runner(path, config), tokenizer


class _progress_bar:
    """A bar on standard error; the context gives a function that redraws it and returns False."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self._groups = groups

    def __enter__(self) -> Callable[[], bool]:
        from rich.console import Console
        from rich.progress import Progress

        self._bar = Progress(console=Console(stderr=True), transient=True)
        self._bar.start()
        task = self._bar.add_task("generating", total=len(self._groups))

        def show() -> bool:
            self._bar.update(task, completed=sum(group.is_done for group in self._groups))
            return False

        return show

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
