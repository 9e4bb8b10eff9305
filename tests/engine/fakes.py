"""Stand-ins for the model, the grammar and the text side, small enough to be obviously right."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from structgen.engine.batch import Batch
from structgen.engine.config import SamplingParams, SchedulerConfig
from structgen.engine.constraints import Constraint, GrammarCompiler
from structgen.engine.core import EngineCore
from structgen.engine.request import Request
from structgen.errors import StructgenError

VOCAB = 100
EOS = 99


def sequence_logits(tokens: Sequence[int], vocab_size: int = VOCAB) -> np.ndarray:
    """Logits [vocab_size] that depend on every token of the sequence and on their order."""
    digest = hashlib.blake2b(np.array(tokens, np.int64).tobytes(), digest_size=8).digest()
    return np.random.default_rng(int.from_bytes(digest, "little")).normal(0, 2, vocab_size).astype(np.float32)


class FakeRunner:
    """A model whose KV cache stores token ids: each wanted row reads its whole sequence back through the block table,
    so a wrong slot, table, position or length changes the output. Garbage and foreign tokens are seen as such."""

    def __init__(
        self,
        num_blocks: int = 32,
        block_size: int = 4,
        max_model_len: int = 64,
        logits: Callable[[Sequence[int]], np.ndarray] = sequence_logits,
        vocab_size: int = VOCAB,
    ) -> None:
        self.vocab_size = vocab_size
        self.max_model_len = max_model_len
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._cache = np.full(num_blocks * block_size, -1, np.int64)
        self._logits = logits
        self.steps: list[int] = []

    def forward(self, batch: Batch) -> torch.Tensor:
        starts = batch.query_starts.numpy()
        total = int(starts[-1])
        self.steps.append(total)
        assert batch.token_ids.shape == batch.positions.shape == batch.slots.shape == (total,)
        slots = batch.slots.numpy()
        assert len(set(slots.tolist())) == total, "two tokens write one slot"
        self._cache[slots] = batch.token_ids.numpy()
        tables = batch.block_tables.numpy()
        assert tables.shape[0] == len(starts) - 1
        rows = []
        for wanted in batch.logits_rows.tolist():
            seq = int(np.searchsorted(starts, wanted, side="right")) - 1
            length = int(batch.context_lens[seq]) - (int(starts[seq + 1]) - 1 - wanted)
            assert int(batch.positions[wanted]) == length - 1
            positions = np.arange(length)
            where = tables[seq, positions // self.block_size] * self.block_size + positions % self.block_size
            rows.append(self._logits(self._cache[where].tolist()))
        if not rows:
            return torch.empty(0, self.vocab_size)
        return torch.from_numpy(np.stack(rows))


class FakeGrammar:
    """``allowed(history)`` gives the legal token ids after the accepted ones; EOS among them means "may end"."""

    def __init__(
        self, allowed: Callable[[list[int]], set[int]], *, error: Exception | None = None, vocab_size: int = VOCAB
    ) -> None:
        self.allowed = allowed
        self.error = error
        self.vocab_size = vocab_size
        self.compiled = 0

    def compile(self, vocabulary: Any) -> FakeGrammar:
        self.compiled += 1
        if self.error is not None:
            raise self.error
        return _Compiled(self)  # type: ignore[return-value]

    def value(self, text: str) -> Any:
        return ("value", text)


class _Compiled:
    def __init__(self, grammar: FakeGrammar) -> None:
        self.grammar = grammar

    def matcher(self) -> FakeMatcher:
        return FakeMatcher(self.grammar, [])


class FakeMatcher:
    def __init__(self, grammar: FakeGrammar, history: list[int]) -> None:
        self._grammar = grammar
        self.history = history

    def _allowed(self) -> set[int]:
        return set() if self.is_finished else self._grammar.allowed(self.history)

    @property
    def is_finished(self) -> bool:
        return bool(self.history) and self.history[-1] == EOS

    def can_end(self) -> bool:
        return EOS in self._allowed()

    def fill_bitmask(self, row: Any) -> None:
        row.fill(0)
        for token in self._allowed():
            row[token >> 5] |= np.uint32(1 << (token & 31))

    def accept(self, token_id: int) -> bool:
        if token_id not in self._allowed():
            return False
        self.history = [*self.history, token_id]
        return True

    def verify(self, token_ids: Sequence[int]) -> int:
        probe = self.fork()
        for count, token in enumerate(token_ids):
            if not probe.accept(token):
                return count
        return len(token_ids)

    def fork(self) -> FakeMatcher:
        return FakeMatcher(self._grammar, self.history)

    def rollback(self, count: int) -> None:
        self.history = self.history[: len(self.history) - count]


class FakeDecoder:
    """Token ``i`` is the letter ``chr(97 + i % 26)``."""

    def push(self, token_id: int) -> str:
        return letter(token_id)

    def reset(self) -> None:
        pass


def letter(token_id: int) -> str:
    return chr(97 + token_id % 26)


def make_core(runner: FakeRunner | None = None, **limits: Any) -> EngineCore:
    runner = runner or FakeRunner()
    settings: dict[str, Any] = {
        "num_blocks": runner.num_blocks,
        "block_size": runner.block_size,
        "max_model_len": runner.max_model_len,
        "max_num_seqs": 16,
        "max_num_batched_tokens": 64,
        "long_prefill_token_threshold": 0,
    }
    settings.update(limits)
    return EngineCore(runner, SchedulerConfig(**settings), eos_token_ids=(EOS,))


def make_request(
    prompt: Sequence[int],
    *,
    grammar: object = None,
    compiler: GrammarCompiler | None = None,
    leader: Request | None = None,
    index: int = 0,
    timeout_s: float = 10.0,
    **params: Any,
) -> Request:
    params.setdefault("temperature", 0.0)
    params.setdefault("max_tokens", 8)
    constraint = None
    if grammar is not None:
        compiler = compiler or GrammarCompiler(None)
        constraint = Constraint(grammar, compiler.submit(grammar), timeout_s)
    return Request(
        request_id="r",
        group_id="r",
        token_ids=list(prompt),
        params=SamplingParams(**params),
        constraint=constraint,
        decoder=FakeDecoder(),
        leader=leader,
        index=index,
    )


def run(core: EngineCore, requests: Sequence[Request], *, each_step: Callable[[int], None] | None = None) -> None:
    """Add the requests and step until all are over; the books are checked after every step."""
    for request in requests:
        core.add(request)
    for step in range(10_000):
        if not core.has_work:
            break
        core.step()
        core.scheduler.check()
        if each_step is not None:
            each_step(step)
    assert not core.has_work
    core.scheduler.pool.check()


def greedy_oracle(
    prompt: Sequence[int],
    max_tokens: int,
    allowed: Callable[[list[int]], set[int]] | None = None,
    *,
    ignore_eos: bool = False,
) -> list[int]:
    """What greedy decoding must give, computed without an engine."""
    tokens, out = list(prompt), []
    while len(out) < max_tokens:
        logits = sequence_logits(tokens)
        legal = range(VOCAB) if allowed is None else sorted(allowed(out))
        best = max(legal, key=lambda token: logits[token])
        tokens.append(best)
        out.append(best)
        if best == EOS and not ignore_eos:
            break
    return out


def error_text(request: Request) -> str:
    assert isinstance(request.error, StructgenError)
    return str(request.error)
