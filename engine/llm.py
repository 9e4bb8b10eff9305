"""`LLM` and `AsyncLLM`: a model, and the verbs generate, stream and chat."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import fields
from typing import Any, TypeVar

from structgen.engine.config import EngineConfig, SamplingParams, refuse_unknown
from structgen.engine.core import Runner
from structgen.engine.front import Front, Prompt
from structgen.engine.group import Group, failed_output
from structgen.engine.metrics import EngineMetrics
from structgen.engine.outputs import RequestOutput, StreamEvent
from structgen.engine.tokenizer import Tokenizer
from structgen.errors import RequestError, StructgenError

Prompts = Prompt | Sequence[Prompt]
Message = Mapping[str, Any]
T = TypeVar("T")


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
        quantization: "auto" or None; others are not built yet.
        max_model_len: longest sequence, prompt and output; default: what model and KV cache allow.
        kv_cache_tokens: tokens the KV cache holds.
        model_impl: "auto" or "native"; "transformers" is not built yet.
        max_num_seqs: most requests running at once.
        max_num_batched_tokens: token budget of a step.
        block_size: tokens a KV block holds.
        enable_prefix_caching: reuse the KV cache of equal prompt beginnings.
        long_prefill_token_threshold: most prompt tokens one request computes in a step (0: no such limit), so that
            others' tokens keep coming.
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
        progress: bool = False,
    ) -> list[RequestOutput]:
        """Complete prompts as they are (no chat template), all in one batch; results in the order given.

        Args:
            prompts: a text, a list of token ids, or a list of these.
            params: one for all, or one each; default ``SamplingParams()``.
            grammar: a Grammar (compiled once) or a compiled one, one for all, or a list with one each (None = free).
            progress: show a progress bar on standard error.

        Raises:
            StructgenError: the one prompt given (not in a list) failed. In a list, a failed request has its
                ``.error`` and ``finish_reason`` "error" in its result, and the others are served.
            RequestError: params is no SamplingParams (or list of them), or params or grammar are lists of another
                length than prompts.
        """
        given = _as_list(prompts)
        every_params = _one_each("params", _params_of(params), len(given))
        every_grammar = _one_each("grammar", grammar, len(given))
        results: list[RequestOutput | Group] = []
        for prompt, own_params, own_grammar in zip(given, every_params, every_grammar, strict=True):
            try:
                results.append(self._front.prepare(prompt, own_params, own_grammar))
            except StructgenError as error:
                results.append(failed_output(self._front.next_id(), prompt, error))
        self._run([result for result in results if isinstance(result, Group)], progress)
        outputs = [result.output() if isinstance(result, Group) else result for result in results]
        if _is_single(prompts):
            _raise_failure(outputs[0])
        return outputs

    def stream(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        grammar: Any = None,
        schema: Any = None,
    ) -> Iterator[StreamEvent]:
        """Complete one prompt, an event for each token. Leaving the loop early aborts the request.

        Args:
            prompt: a text or a list of token ids.
            params: default ``SamplingParams()``.
            grammar: as in `generate`.
            schema: instead of a grammar: a type or a JSON Schema. ``event.partial`` is the value so far, and the last
                event's ``value`` the whole one.

        Raises:
            StructgenError: the request failed.
        """
        events: deque[StreamEvent] = deque()
        group = self._front.prepare(prompt, _params_of(params), _grammar_of(grammar, schema), on_event=events.append)
        return self._events(group, events)

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
    ) -> list[RequestOutput]:
        """Answer a conversation, or each of a list of conversations, through the model's chat template.

        Args:
            messages: dicts with ``role`` and ``content``.
            params, grammar: as in `generate`.
            schema: instead of a grammar: a type or a JSON Schema; ``.outputs[0].value`` is its value.
            tools, tool_choice: not built yet.

        Raises:
            StructgenError: the one conversation given failed, or the template refuses the messages.
        """
        prompts = self._chat_prompts(messages, tools, tool_choice)
        single = bool(messages) and isinstance(messages[0], Mapping)
        return self.generate(
            prompts[0] if single else prompts,
            params,
            grammar=_grammar_of(grammar, schema),
            progress=progress,
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


class AsyncLLM:
    """`LLM` for asyncio: the same verbs, awaitable, over one engine that a background thread steps.

    Cancelling a task, or leaving an ``async for`` early (close the iterator: ``contextlib.aclosing``), aborts its
    request. Requests of all tasks are one batch.

    Args:
        model, options: as for `LLM`.
    """

    def __init__(self, model: str = "smollm2", **options: Any) -> None:
        self._start(LLM(model, **options))

    @classmethod
    def from_llm(cls, llm: LLM) -> AsyncLLM:
        """An asynchronous face for an LLM that is there already; do not step it from elsewhere."""
        made = cls.__new__(cls)
        made._start(llm)
        return made

    def _start(self, llm: LLM) -> None:
        self.llm = llm
        self._front = llm._front
        self._wake = threading.Condition()
        self._is_closing = False
        self._thread = threading.Thread(target=self._loop, name="structgen-engine", daemon=True)
        self._thread.start()

    def _loop(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._front.has_work or self._is_closing)
            if self._is_closing:
                return
            try:
                self._front.step()
            except Exception as error:
                # The requests have failed with it, and their callers were told.
                print(f"structgen: an engine step failed: {type(error).__name__}: {error}", file=sys.stderr)

    def _tell(self, verb: Callable[[Group], None], group: Group) -> None:
        with self._wake:
            verb(group)
            self._wake.notify()

    async def generate(
        self,
        prompts: Prompts,
        params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        grammar: Any = None,
    ) -> list[RequestOutput]:
        """As `LLM.generate`."""
        given = _as_list(prompts)
        every_params = _one_each("params", _params_of(params), len(given))
        every_grammar = _one_each("grammar", grammar, len(given))
        jobs = [
            self._complete(prompt, own_params, own_grammar)
            for prompt, own_params, own_grammar in zip(given, every_params, every_grammar, strict=True)
        ]
        outputs = list(await asyncio.gather(*jobs))
        if _is_single(prompts):
            _raise_failure(outputs[0])
        return outputs

    async def _complete(self, prompt: Prompt, params: SamplingParams, grammar: Any) -> RequestOutput:
        done = asyncio.Event()
        try:
            group = self._front.prepare(prompt, params, grammar, on_done=_in_loop(done.set))
        except StructgenError as error:
            return failed_output(self._front.next_id(), prompt, error)
        self._tell(self._front.submit, group)
        try:
            await done.wait()
        finally:
            if not group.is_done:
                self._tell(self._front.cancel, group)
        return group.output()

    async def stream(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        grammar: Any = None,
        schema: Any = None,
    ) -> AsyncIterator[StreamEvent]:
        """As `LLM.stream`."""
        events: asyncio.Queue[StreamEvent] = asyncio.Queue()
        put = _in_loop(events.put_nowait)
        group = self._front.prepare(prompt, _params_of(params), _grammar_of(grammar, schema), on_event=put)
        self._tell(self._front.submit, group)
        unfinished = len(group.requests)
        try:
            while unfinished:
                event = await events.get()
                unfinished -= event.finish_reason is not None
                yield event
        finally:
            if not group.is_done:
                self._tell(self._front.cancel, group)
        if (error := group.failure()) is not None:
            raise error

    async def chat(
        self,
        messages: Sequence[Message] | Sequence[Sequence[Message]],
        params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        schema: Any = None,
        grammar: Any = None,
        tools: Any = None,
        tool_choice: Any = None,
    ) -> list[RequestOutput]:
        """As `LLM.chat`."""
        prompts = self.llm._chat_prompts(messages, tools, tool_choice)
        single = bool(messages) and isinstance(messages[0], Mapping)
        return await self.generate(prompts[0] if single else prompts, params, grammar=_grammar_of(grammar, schema))

    def shutdown(self) -> None:
        """Abort what is in flight and end the engine and its thread."""
        with self._wake:
            self._is_closing = True
            self._wake.notify()
        self._thread.join()
        self.llm.shutdown()

    async def __aenter__(self) -> AsyncLLM:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.shutdown()


def _load(config: EngineConfig) -> tuple[Runner, Tokenizer]:
    from structgen.engine.resolve import resolve_model
    from structgen.engine.runner import Runner as ModelRunner

    path = resolve_model(config.model)
    tokenizer = Tokenizer.load(path)
    runner = ModelRunner(
        path,
        dtype=config.dtype,  # type: ignore[arg-type]
        device=config.device,  # type: ignore[arg-type]
        block_size=config.block_size,
        kv_cache_tokens=config.kv_cache_tokens,
        max_model_len=config.max_model_len,
        max_num_batched_tokens=config.max_num_batched_tokens,
        max_num_seqs=config.max_num_seqs,
    )
    return runner, tokenizer


def _is_single(prompts: Any) -> bool:
    """A text, or a non-empty list of token ids."""
    if isinstance(prompts, str):
        return True
    return isinstance(prompts, Sequence) and bool(prompts) and not isinstance(prompts[0], (str, Sequence))


def _as_list(prompts: Any) -> list[Any]:
    if isinstance(prompts, (bytes, Mapping)) or not isinstance(prompts, (str, Sequence)):
        raise RequestError(
            f"prompts is {type(prompts).__name__}; allowed: a text, a list of token ids, or a list of these"
        )
    return [prompts] if _is_single(prompts) else list(prompts)


def _one_each(name: str, given: T | Sequence[T], count: int) -> list[T]:
    if not isinstance(given, (list, tuple)):
        return [given] * count  # type: ignore[list-item]
    if len(given) != count:
        raise RequestError(f"{name} is a list of {len(given)} for {count} prompts; allowed: one for all, or one each")
    return list(given)


def _params_of(given: Any) -> Any:
    """What is given as params, or the default. Raises RequestError for what is neither SamplingParams nor a list."""
    if given is None:
        return SamplingParams()
    for params in given if isinstance(given, (list, tuple)) else [given]:
        if not isinstance(params, SamplingParams):
            raise RequestError(f"params is {params!r}; allowed: SamplingParams(...), or a list with one a prompt")
    return given


def _grammar_of(grammar: Any, schema: Any) -> Any:
    if schema is None:
        return grammar
    if grammar is not None:
        raise RequestError("grammar and schema are given together; give one")
    from structgen.grammars.grammar import Grammar

    # One spelling a character: small models wander off once they have begun to write \\u escapes.
    if isinstance(schema, (dict, bool)):
        return Grammar.from_json_schema(schema, escapes="canonical")
    return Grammar.from_type(schema, escapes="canonical")


def _raise_failure(output: RequestOutput) -> None:
    if output.error is not None and any(one.finish_reason == "error" for one in output.outputs):
        raise output.error


def _in_loop(function: Callable[..., object]) -> Callable[..., None]:
    """``function``, to be called from the engine's thread, run in the present event loop."""
    loop = asyncio.get_running_loop()

    def call(*args: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more, and the engine must go on
            loop.call_soon_threadsafe(function, *args)

    return call


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
