"""`AsyncLLM`: the verbs of `LLM` for asyncio, over one engine that a background thread steps."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from structgen.engine.beam import BeamSearchParams
from structgen.engine.config import SamplingParams, refuse_unknown
from structgen.engine.front import Prompt
from structgen.engine.group import Group, failed_output
from structgen.engine.llm import LLM
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
from structgen.errors import StructgenError


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
        priority: int | Sequence[int] = 0,
        timeout_s: float | Sequence[float | None] | None = None,
        cache_salt: str | Sequence[str | None] | None = None,
    ) -> list[RequestOutput]:
        """As `LLM.generate`."""
        options = {"grammar": grammar, "priority": priority, "timeout_s": timeout_s, "cache_salt": cache_salt}
        jobs = [self._complete(prompt, own, options) for prompt, own, options in jobs_of(prompts, params, options)]
        outputs = list(await asyncio.gather(*jobs))
        if is_single(prompts):
            raise_failure(outputs[0])
        return outputs

    async def _complete(self, prompt: Prompt, params: SamplingParams, options: dict[str, Any]) -> RequestOutput:
        grammar = options["grammar"]
        serving = {name: value for name, value in options.items() if name != "grammar"}
        try:
            return (await self._group(prompt, params, grammar, serving)).output()
        except StructgenError as error:
            return failed_output(self._front.next_id(), prompt, error)

    async def _group(
        self, prompt: Prompt, params: SamplingParams, grammar: Any, serving: dict[str, Any]
    ) -> Group:
        """A group that is done; it is aborted when the task is cancelled.

        Raises:
            StructgenError: the prompt or an option was refused.
        """
        done = asyncio.Event()
        group = self._front.prepare(prompt, params, grammar, on_done=_in_loop(done.set), **serving)
        self._tell(self._front.submit, group)
        try:
            await done.wait()
        finally:
            if not group.is_done:
                self._tell(self._front.cancel, group)
        return group

    async def beam_search(
        self,
        prompts: Prompts,
        params: BeamSearchParams | Sequence[BeamSearchParams] | None = None,
        *,
        grammar: Any = None,
        priority: int | Sequence[int] = 0,
        cache_salt: str | Sequence[str | None] | None = None,
    ) -> list[RequestOutput]:
        """As `LLM.beam_search`."""
        options = {"grammar": grammar, "priority": priority, "cache_salt": cache_salt}
        jobs = [self._search(*job) for job in jobs_of(prompts, params, options, BeamSearchParams)]
        outputs = list(await asyncio.gather(*jobs))
        if is_single(prompts):
            raise_failure(outputs[0])
        return outputs

    async def _search(self, prompt: Prompt, params: BeamSearchParams, options: dict[str, Any]) -> RequestOutput:
        serving = {name: value for name, value in options.items() if name != "grammar"}
        try:
            search = self._front.beam_search(prompt, params, options["grammar"])
            while not search.is_done:
                search.take(await asyncio.gather(*(self._group(*beam, serving) for beam in search.round())))
        except StructgenError as error:
            return failed_output(self._front.next_id(), prompt, error)
        return self._front.beam_output(search)

    async def stream(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        grammar: Any = None,
        schema: Any = None,
        priority: int = 0,
        timeout_s: float | None = None,
        cache_salt: str | None = None,
    ) -> AsyncIterator[StreamEvent]:
        """As `LLM.stream`."""
        events: asyncio.Queue[StreamEvent] = asyncio.Queue()
        put = _in_loop(events.put_nowait)
        refuse_streamed(params_of(params))
        group = self._front.prepare(
            prompt,
            params_of(params),
            grammar_of(grammar, schema),
            on_event=put,
            priority=priority,
            timeout_s=timeout_s,
            cache_salt=cache_salt,
        )
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
        **serving: Any,
    ) -> list[RequestOutput]:
        """As `LLM.chat`."""
        refuse_unknown("chat", list(serving), SERVING)
        prompts = self.llm._chat_prompts(messages, tools, tool_choice)
        single = bool(messages) and isinstance(messages[0], Mapping)
        held = grammar_of(grammar, schema)
        return await self.generate(prompts[0] if single else prompts, params, grammar=held, **serving)

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


def _in_loop(function: Callable[..., object]) -> Callable[..., None]:
    """``function``, to be called from the engine's thread, run in the present event loop."""
    loop = asyncio.get_running_loop()

    def call(*args: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more, and the engine must go on
            loop.call_soon_threadsafe(function, *args)

    return call
