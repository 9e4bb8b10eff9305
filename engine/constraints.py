"""Grammars inside the engine: compiled off the step, one matcher a request, mask rows for a step. No torch.

The engine sees a grammar only through the protocols here.
"""

from __future__ import annotations

import queue
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from structgen.engine.backout import DeadEnd, Exclusions
from structgen.engine.metrics import now_s
from structgen.errors import GrammarTooComplex, RequestError, StructgenError

if TYPE_CHECKING:
    from structgen.engine.request import Request

Words = npt.NDArray[np.uint32]
Ids = npt.NDArray[np.int64]

# Logits of more groups of 32 tokens than this cost one request of a batch of 16 half of what all of them do. [measured]
MAX_FEW = 128


class Matcher(Protocol):
    """One generation under a grammar."""

    def fill_bitmask(self, row: Any, /) -> Any:
        """Set the bits of the legal tokens in a uint32 row; end tokens' bits exactly when `can_end`."""

    def accept(self, token_id: int, /) -> bool:
        """Take a token; False, and nothing changed, when it is illegal."""

    def can_end(self) -> bool:
        """Whether the text so far is complete."""

    @property
    def is_finished(self) -> bool:
        """Whether an end token was accepted."""

    def verify(self, token_ids: Sequence[int], /) -> int:
        """How many leading tokens are legal in order; the state is unchanged."""

    def fork(self) -> Matcher:
        """An independent copy."""

    def rollback(self, count: int, /) -> None:
        """Take back the last ``count`` tokens."""


class CompiledGrammar(Protocol):
    """A grammar bound to a vocabulary; shared by requests."""

    def matcher(self) -> Matcher: ...


class Grammar(Protocol):
    """Anything that compiles itself for a vocabulary."""

    def compile(self, vocabulary: Any, /) -> CompiledGrammar: ...


class GrammarCompiler:
    """Compiles grammars on a thread of its own; each distinct grammar once.

    Args:
        vocabulary: given to ``grammar.compile``.
        max_entries: compiled grammars kept, least recently used dropped first.
    """

    def __init__(self, vocabulary: Any, max_entries: int = 64) -> None:
        self._vocabulary = vocabulary
        self._max_entries = max_entries
        # The grammar is kept beside its result: an id may be reused only after its object is gone.
        self._entries: OrderedDict[object, tuple[object, Future[CompiledGrammar]]] = OrderedDict()
        self._jobs: queue.SimpleQueue[tuple[Any, Future[CompiledGrammar]] | None] | None = None

    def submit(self, grammar: object) -> Future[CompiledGrammar]:
        """The compiled grammar, now or later; equal fingerprints, or the same object, share one compilation.

        Raises:
            RequestError: ``grammar`` is neither a grammar nor a compiled one.
        """
        if hasattr(grammar, "matcher"):
            done: Future[CompiledGrammar] = Future()
            done.set_result(grammar)
            return done
        if isinstance(grammar, type) or not callable(getattr(grammar, "compile", None)):
            raise RequestError(
                f"grammar is {grammar!r}; allowed: a structgen Grammar, a compiled one, "
                "or an object with compile(vocabulary)"
            )
        fingerprint = getattr(grammar, "fingerprint", None)
        key: object = fingerprint if isinstance(fingerprint, (str, bytes)) else id(grammar)
        entry = self._entries.get(key)
        if entry is not None and not _failed(entry[1]):
            self._entries.move_to_end(key)
            return entry[1]
        future: Future[CompiledGrammar] = Future()
        self._entries[key] = (grammar, future)
        while len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)
        self._queue().put((grammar, future))
        return future

    def _queue(self) -> queue.SimpleQueue[tuple[Any, Future[CompiledGrammar]] | None]:
        if self._jobs is None:
            self._jobs = queue.SimpleQueue()
            # A daemon: a compilation that hangs must not keep the process from ending.
            worker = threading.Thread(
                target=_compile_jobs, args=(self._jobs, self._vocabulary), name="structgen-compile", daemon=True
            )
            worker.start()
        return self._jobs

    def replace_stuck_worker(self) -> None:
        """Leave a worker behind that is past a deadline; what it had not begun is compiled by a new one."""
        if not any(future.running() for _, future in self._entries.values()):
            return
        stuck, self._jobs = self._jobs, None
        pending = [entry for entry in self._entries.values() if not entry[1].done()]
        if stuck is not None:
            stuck.put(None)
        for grammar, future in pending:
            if not future.running():
                self._queue().put((grammar, future))

    def shutdown(self) -> None:
        """End the worker."""
        if self._jobs is not None:
            self._jobs.put(None)
            self._jobs = None


def _failed(future: Future[CompiledGrammar]) -> bool:
    return future.done() and (future.cancelled() or future.exception() is not None)


def _compile_jobs(jobs: queue.SimpleQueue[tuple[Any, Future[CompiledGrammar]] | None], vocabulary: Any) -> None:
    while (job := jobs.get()) is not None:
        grammar, future = job
        if future.done() or future.running() or not future.set_running_or_notify_cancel():
            continue
        try:
            future.set_result(grammar.compile(vocabulary))
        except BaseException as error:  # handed to the request that waits
            future.set_exception(error)


class Constraint:
    """A request's grammar: first being compiled, then a matcher."""

    __slots__ = ("compiled", "deadline", "exclusions", "future", "grammar", "matcher", "timeout_s")

    def __init__(self, grammar: object, future: Future[CompiledGrammar], timeout_s: float) -> None:
        self.grammar = grammar
        self.future = future
        self.timeout_s = timeout_s
        self.deadline = now_s() + timeout_s
        self.compiled: CompiledGrammar | None = None
        self.matcher: Matcher | None = None
        self.exclusions = Exclusions()

    def is_ready(self) -> bool:
        """Whether there is a matcher; makes one as soon as the grammar is compiled.

        Raises:
            StructgenError: the grammar cannot be compiled, or not within its time.
        """
        if self.matcher is not None:
            return True
        if self.future.done():
            try:
                self.compiled = self.future.result()
                self.matcher = self.compiled.matcher()
            except StructgenError:
                raise
            except Exception as error:
                raise RequestError(
                    f"the grammar cannot be compiled: {type(error).__name__}: {error}"
                ) from error
            return True
        if now_s() > self.deadline:
            raise GrammarTooComplex(
                f"compiling the grammar took longer than {self.timeout_s:g} s (grammar_timeout_s); "
                "simplify it or raise the limit"
            )
        return False

    def is_complete(self) -> bool:
        """Whether the tokens so far are a whole text of the grammar."""
        return self.matcher is not None and (self.matcher.is_finished or self.matcher.can_end())

    def is_whole_text(self, text: str) -> bool:
        """Whether ``text``, which a stop string may have cut inside a token, is a whole text of the grammar."""
        matcher = None if self.compiled is None else self.compiled.matcher()
        accept_text = getattr(matcher, "accept_text", None)
        if matcher is None or accept_text is None:
            return False
        return bool(accept_text(text)) and matcher.can_end()


@dataclass(frozen=True, slots=True)
class MaskRows:
    """Masks of one step.

    Attributes:
        words: uint32 [C, ceil(vocab_size / 32)], bit set = legal; one row for each constrained position.
        rows: the row of logits each belongs to.
        keys: (request serial, position) each was made for; the sampler checks them, so that a row can never be
            applied to a neighbour.
        errors: by row of logits, what made a request fail here. Its mask is closed.
    """

    words: Words
    rows: tuple[int, ...]
    keys: tuple[tuple[int, int], ...]
    errors: dict[int, StructgenError]


def few_legal(words: Words) -> Ids | None:
    """Which words of a mask row have legal tokens, ascending; None when they are more than `MAX_FEW`."""
    found = np.flatnonzero(words)
    return found if len(found) <= MAX_FEW else None


class MaskFiller:
    """Fills the mask rows of a step into one buffer that is reused.

    Args:
        vocab_size: width of the logits.
        eos_token_ids: the model's end tokens.
        max_rows: most constrained positions in a step.
    """

    def __init__(self, vocab_size: int, eos_token_ids: Sequence[int], max_rows: int) -> None:
        self._vocab_size = vocab_size
        self._eos = tuple(token for token in eos_token_ids if token < vocab_size)
        self._buffer: Words = np.zeros((max_rows, -(-vocab_size // 32)), np.uint32)

    def fill(self, requests: Sequence[Request]) -> MaskRows:
        """One mask for each request that has a grammar, in the order of the rows of logits."""
        rows: list[int] = []
        keys: list[tuple[int, int]] = []
        errors: dict[int, StructgenError] = {}
        buffer = self._buffer
        for index, request in enumerate(requests):
            constraint = request.constraint
            if constraint is None:
                continue
            start = now_s()
            words = buffer[len(rows)]
            words.fill(0)  # closed until filled
            try:
                self._fill_row(request, constraint, words, len(request.token_ids))
            except Exception as error:
                words.fill(0)
                errors[index] = as_request_error(error, "the grammar failed")
            rows.append(index)
            keys.append((request.serial, len(request.token_ids)))
            request.clock.mask_s += now_s() - start
            request.clock.masks += 1
        return MaskRows(buffer[: len(rows)], tuple(rows), tuple(keys), errors)

    def has_choice(self, request: Request, position: int) -> bool:
        """Whether a token is legal at ``position`` of the request's sequence, where its matcher is."""
        assert request.constraint is not None
        words = np.zeros_like(self._buffer[0])
        try:
            self._fill_row(request, request.constraint, words, position)
        except DeadEnd:
            return False
        return True

    def _fill_row(self, request: Request, constraint: Constraint, words: Words, position: int) -> None:
        matcher, params = constraint.matcher, request.params
        if matcher is None:
            raise RequestError("the request runs before its grammar was compiled")
        matcher.fill_bitmask(words)
        if params.stop_token_ids and matcher.can_end():
            # A stop id is an end like the model's own: legal where the grammar may end.
            for token in params.stop_token_ids:
                if token < self._vocab_size:
                    _set_bit(words, token)
        _clear(words, constraint.exclusions.at(position))
        if params.is_greedy or params.seed is None:
            # What other requests found out would change which token a seed's draw falls on.
            _clear(words, getattr(matcher, "dead_tokens", frozenset)())
        held_back: tuple[int, ...] = ()
        if position - request.num_prompt < params.min_tokens:
            held_back = (*self._eos, *(token for token in params.stop_token_ids if token < self._vocab_size))
        elif params.ignore_eos:
            held_back = self._eos
        if held_back:
            _hold_back(words, held_back)
        if not words.any():
            if matcher.can_end():
                raise RequestError(
                    "the text is complete, and the tokenizer has no end token to say so; give stop_token_ids"
                )
            raise DeadEnd("no token of the vocabulary continues the grammar here")


def _set_bit(words: Words, token: int) -> None:
    words[token >> 5] |= np.uint32(1 << (token & 31))


def _clear(words: Words, tokens: Iterable[int]) -> None:
    for token in tokens:
        words[token >> 5] &= np.uint32(0xFFFFFFFF ^ (1 << (token & 31)))


def _hold_back(words: Words, tokens: Sequence[int]) -> None:
    """Clear the bits of ``tokens``, unless nothing else is legal: then the grammar wins."""
    before = [(token >> 5, words[token >> 5]) for token in tokens]
    _clear(words, tokens)
    if not words.any():
        for word, value in before:
            words[word] = value


def as_request_error(error: Exception, what: str) -> StructgenError:
    if isinstance(error, StructgenError):
        return error
    wrapped = RequestError(f"{what}: {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped
