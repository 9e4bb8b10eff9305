"""The engine as several callers use it at once: prompts in, steps by whoever waits, results out to their groups.

There is no engine thread. A caller that waits steps the core, and with it everybody's requests, so callers on several
threads are one batch. New requests and aborts go through an inbox that the next step empties; nobody has to wait for
a step to hand one in.
"""

from __future__ import annotations

import itertools
import numbers
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from structgen.engine.beam import BeamSearch, BeamSearchParams
from structgen.engine.config import EngineConfig, SamplingParams
from structgen.engine.constraints import Constraint, GrammarCompiler
from structgen.engine.core import EngineCore, Runner, Update
from structgen.engine.detokenize import Detokenizer
from structgen.engine.group import Group
from structgen.engine.metrics import now_s
from structgen.engine.outputs import RequestOutput, StreamEvent
from structgen.engine.request import Request
from structgen.engine.stops import StopStrings
from structgen.engine.tokenizer import Tokenizer
from structgen.errors import GrammarTooComplex, RequestError

Prompt = str | Sequence[int]

# While another thread steps, its results may be ours: look again after this time.
_LOOK_AGAIN_S = 0.005


class Front:
    """Turns prompts into requests, steps the core, hands updates to their groups. Thread-safe."""

    def __init__(self, config: EngineConfig, runner: Runner, tokenizer: Tokenizer) -> None:
        self.config = config
        self.runner = runner
        self.tokenizer = tokenizer
        self.vocabulary = tokenizer.vocabulary_of_size(runner.vocab_size)
        self.core = EngineCore(
            runner,
            config.scheduler_config(num_blocks=runner.num_blocks, max_model_len=runner.max_model_len),
            eos_token_ids=tokenizer.eos_token_ids,
            num_token_ids=tokenizer.vocabulary.size,
            decode_token=self._decode_token,
        )
        self.compiler = GrammarCompiler(self.vocabulary)
        self.is_closed = False
        self._lock = threading.Lock()
        self._groups: dict[str, Group] = {}
        self._inbox: deque[tuple[str, Group]] = deque()
        self._names = itertools.count()

    def _decode_token(self, token: int) -> str:
        """Text of one token; nothing for ids that only pad the model's logits."""
        known = token < self.tokenizer.vocabulary.size
        return self.tokenizer.decode([token], skip_special_tokens=False) if known else ""

    # -- prompts to groups ---------------------------------------------------------------------------------

    def next_id(self) -> str:
        return str(next(self._names))

    def prepare(
        self,
        prompt: Prompt,
        params: SamplingParams,
        grammar: object = None,
        *,
        on_event: Callable[[StreamEvent], None] | None = None,
        on_done: Callable[[], None] | None = None,
        priority: int = 0,
        timeout_s: float | None = None,
        cache_salt: str | None = None,
    ) -> Group:
        """A group for a prompt; `submit` hands it in.

        Raises:
            RequestError: the prompt, the grammar or an option is of no use.
        """
        if self.is_closed:
            raise RequestError("this LLM has been shut down; make a new one")
        if not isinstance(params, SamplingParams):
            raise RequestError(f"params is {params!r}; allowed: SamplingParams")
        deadline = check_serving(priority, timeout_s, cache_salt)
        self._check_bias(params)
        token_ids = self.encode(prompt)
        group_id = self.next_id()
        compiled = None if grammar is None else self.compiler.submit(grammar)
        leader: Request | None = None
        requests: list[Request] = []
        for index in range(params.num_sequences):
            request = Request(
                request_id=group_id if params.num_sequences == 1 else f"{group_id}.{index}",
                group_id=group_id,
                token_ids=list(token_ids),
                params=params,
                index=index,
                cache_salt=cache_salt or "",
                priority=priority,
                deadline=deadline,
                decoder=Detokenizer(self.vocabulary, skip_special_tokens=params.skip_special_tokens),
                stops=StopStrings(params.stop, params.include_stop_str_in_output) if params.stop else None,
                leader=leader,
            )
            if compiled is not None:
                request.constraint = Constraint(grammar, compiled, self.config.grammar_timeout_s)
            leader = leader or request
            requests.append(request)
        return Group(
            group_id,
            prompt if isinstance(prompt, str) else None,
            token_ids,
            requests,
            convert=_converter(grammar),
            on_event=on_event,
            on_done=on_done,
        )

    def beam_search(self, prompt: Prompt, params: BeamSearchParams, grammar: object = None) -> BeamSearch:
        """A search for a prompt; its rounds are prepared and submitted like any prompt.

        Raises:
            RequestError: the prompt is of no use.
        """
        token_ids = self.encode(prompt)
        self.core.scheduler.refuse_too_long(len(token_ids))
        return BeamSearch(
            prompt if isinstance(prompt, str) else None,
            token_ids,
            params,
            grammar,
            eos_token_ids=self.tokenizer.eos_token_ids,
            num_token_ids=self.tokenizer.vocabulary.size,
            max_length=self.core.config.max_tokens_per_sequence,
        )

    def beam_output(self, search: BeamSearch) -> RequestOutput:
        """What a search found, when it is done."""

        def decode(token_ids: Sequence[int]) -> str:
            decoder = Detokenizer(self.vocabulary, skip_special_tokens=search.params.skip_special_tokens)
            return "".join(map(decoder.push, token_ids))

        return search.output(self.next_id(), decode, _converter(search.grammar))

    def _check_bias(self, params: SamplingParams) -> None:
        for token in params.logit_bias or ():
            if token >= self.runner.vocab_size:
                raise RequestError(f"logit_bias names token {token}; allowed: 0 to {self.runner.vocab_size - 1}")

    def encode(self, prompt: Prompt) -> list[int]:
        """A prompt as token ids; an empty text is the start token alone.

        Raises:
            RequestError: neither text nor token ids, an id outside the vocabulary, or nothing to start from.
        """
        if isinstance(prompt, str):
            token_ids = self.tokenizer.encode(prompt)
            if not token_ids and self.tokenizer.bos_token_id is not None:
                token_ids = [self.tokenizer.bos_token_id]
        else:
            token_ids = self._checked_ids(prompt)
        if not token_ids:
            raise RequestError(
                "the prompt is empty, and the model has no start token to begin from; allowed: at least one token"
            )
        return token_ids

    def _checked_ids(self, prompt: Any) -> list[int]:
        if isinstance(prompt, (bytes, dict)) or not isinstance(prompt, Sequence):
            raise RequestError(f"a prompt is {prompt!r}; allowed: a text or a list of token ids")
        for token in prompt:
            if isinstance(token, bool) or not isinstance(token, numbers.Integral):
                raise RequestError(f"a prompt holds {token!r}; allowed: a text or a list of token ids")
            if not 0 <= int(token) < self.runner.vocab_size:
                raise RequestError(
                    f"a prompt holds the token id {token}; allowed: 0 to {self.runner.vocab_size - 1}"
                )
        return [int(token) for token in prompt]

    # -- steps ---------------------------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        return bool(self._inbox) or self.core.has_work

    def submit(self, group: Group) -> None:
        """Hand a group in; the next step takes it."""
        self._inbox.append(("add", group))

    def cancel(self, group: Group) -> None:
        """Ask the next step to abort a group."""
        self._inbox.append(("abort", group))

    def abort(self, groups: Sequence[Group]) -> None:
        """Abort groups now, and see to it that their blocks are free."""
        with self._lock:
            for group in groups:
                self.cancel(group)
            self._empty_inbox()
            self.core.recover()

    def step(self) -> None:
        """One step for everybody.

        Raises:
            Exception: the step itself broke (not a request): all requests have failed with it by then.
        """
        with self._lock:
            self._step()

    def run_until(self, is_ready: Callable[[], object]) -> None:
        """Step, or let another thread step, until ``is_ready()``."""
        while not is_ready():
            if self._lock.acquire(timeout=_LOOK_AGAIN_S):
                try:
                    if not is_ready():
                        self._step()
                finally:
                    self._lock.release()

    def _step(self) -> None:
        self._empty_inbox()
        try:
            result = self.core.step()
        except Exception as error:
            for update in self.core.fail_all(error):
                self._deliver(update)
            raise
        overdue = False
        for update in result.updates:
            overdue = overdue or isinstance(update.request.error, GrammarTooComplex)
            self._deliver(update)
        if overdue:
            self.compiler.replace_stuck_worker()

    def _empty_inbox(self) -> None:
        while self._inbox:
            verb, group = self._inbox.popleft()
            if verb == "add":
                self._groups[group.group_id] = group
                updates = self.core.add_all(group.requests)
            else:
                updates = [made for request in group.requests if (made := self.core.abort(request)) is not None]
            for update in updates:
                self._deliver(update)

    def _deliver(self, update: Update) -> None:
        group = self._groups.get(update.request.group_id)
        if group is None:
            return
        group.take(update)
        if group.is_done:
            del self._groups[group.group_id]

    def close(self) -> None:
        """Abort everything and end the compile thread; again is harmless."""
        self.is_closed = True
        self.abort(list(self._groups.values()))
        self.compiler.shutdown()


def check_serving(priority: object, timeout_s: object, cache_salt: object) -> float | None:
    """Check what says how a request is served; return its deadline in ``time.perf_counter`` seconds.

    Raises:
        RequestError: the message names the option, the value and what is allowed.
    """
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise RequestError(f"priority is {priority!r}; allowed: an integer, smaller ones are served first")
    if cache_salt is not None and not isinstance(cache_salt, str):
        raise RequestError(f"cache_salt is {cache_salt!r}; allowed: a text or None")
    if timeout_s is None:
        return None
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)) or not timeout_s > 0:
        raise RequestError(f"timeout_s is {timeout_s!r}; allowed: a number of seconds above 0, or None")
    return now_s() + timeout_s


def _converter(grammar: Any) -> Callable[[str], Any] | None:
    """How a text of the grammar becomes a value: ``grammar.value``, also through a compiled grammar."""
    for owner in (grammar, getattr(grammar, "grammar", None)):
        convert = getattr(owner, "value", None)
        if callable(convert):
            return convert  # type: ignore[no-any-return]
    return None
