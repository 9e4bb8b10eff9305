"""Backing out of dead ends: random automata with dead ends against a search for what can be completed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import EOS, VOCAB, FakeGrammar, FakeRunner, letter, make_core, make_request, run, sequence_logits

from structgen.engine import backout
from structgen.engine.config import EngineConfig, SamplingParams
from structgen.engine.constraints import GrammarCompiler
from structgen.engine.core import Update
from structgen.engine.detokenize import Detokenizer
from structgen.engine.request import Request
from structgen.engine.stops import StopStrings
from structgen.errors import GrammarTooComplex, UnsatisfiableGrammar

Allowed = Callable[[list[int]], set[int]]


class Automaton:
    """Random edges over a few letters; many nodes lead nowhere. ``lives``: a path of at most ``room`` tokens leads from
    the node to an end."""

    def __init__(self, seed: int, nodes: int = 12, letters: int = 4) -> None:
        rng = random.Random(seed)
        self.edges: list[dict[int, int]] = []
        for node in range(nodes):
            # Forward edges only: without loops the search is finite, and dead ends are deep.
            targets = range(node + 1, nodes)
            count = rng.choice([0, 1, 2, letters]) if node else letters
            self.edges.append({t: rng.choice(targets) for t in rng.sample(range(letters), count)} if targets else {})
        self.ends = {node for node in range(1, nodes) if rng.random() < 0.12}
        self.lives = [False] * nodes
        for node in reversed(range(nodes)):
            self.lives[node] = node in self.ends or any(self.lives[t] for t in self.edges[node].values())

    def node(self, history: Sequence[int]) -> int:
        at = 0
        for token in history:
            at = self.edges[at][token]
        return at

    def __call__(self, history: list[int]) -> set[int]:
        at = self.node(history)
        return {*self.edges[at], *({EOS} if at in self.ends else ())}

    def living(self, history: list[int]) -> set[int]:
        """The tokens after which the text can still be completed."""
        at = self.node(history)
        return {t for t, node in self.edges[at].items() if self.lives[node]} | ({EOS} if at in self.ends else set())


def oracle(prompt: Sequence[int], automaton: Automaton) -> list[int]:
    """Greedy decoding by somebody who sees all dead ends beforehand."""
    tokens, output = list(prompt), []
    while not output or output[-1] != EOS:
        logits = sequence_logits(tokens)
        output.append(max(sorted(automaton.living(output)), key=lambda token: logits[token]))
        tokens.append(output[-1])
    return output


class Consumer:
    """Follows the updates as a caller of a stream does."""

    def __init__(self) -> None:
        self.text = ""
        self.tokens: list[int] = []

    def take(self, update: Update) -> None:
        assert update.retracted <= len(self.text)
        self.text = self.text[: len(self.text) - update.retracted] + update.delta
        self.tokens = self.tokens[: len(self.tokens) - update.retracted_tokens] + list(update.token_ids)


def drive(core: Any, requests: Sequence[Request], preempt: random.Random | None = None) -> list[Consumer]:
    consumers = {request.serial: Consumer() for request in requests}
    for request in requests:
        core.add(request)
    for _ in range(20_000):
        if not core.has_work:
            break
        for update in core.step().updates:
            consumers[update.request.serial].take(update)
        running = core.scheduler.running
        if preempt and running and preempt.random() < 0.2:
            core.scheduler.preempt(preempt.choice(running))
        core.scheduler.check()
    assert not core.has_work
    core.scheduler.pool.check()
    return [consumers[request.serial] for request in requests]


@pytest.mark.parametrize(
    ("caching", "preempting", "block_size"), [(True, False, 4), (True, True, 2), (False, False, 1)]
)
def test_random_dead_ends(caching: bool, preempting: bool, block_size: int):
    backouts = unsatisfiable = proven = exact = 0
    for seed in range(30):
        automaton = Automaton(seed)
        core = make_core(
            FakeRunner(num_blocks=64, block_size=block_size), enable_prefix_caching=caching, block_size=block_size
        )
        compiler, grammar = GrammarCompiler(None), FakeGrammar(automaton)
        prompts = [[7, *range(seed % 5 + i)] for i in range(4)]
        held = [make_request(p, grammar=grammar, compiler=compiler, max_tokens=None) for p in prompts]
        free = [make_request(p, max_tokens=12) for p in prompts]
        consumers = drive(core, [*held, *free], random.Random(seed) if preempting else None)
        wanted = [make_request(p, max_tokens=12) for p in prompts]
        run(make_core(), wanted)
        assert [r.output_token_ids for r in free] == [r.output_token_ids for r in wanted]
        for prompt, request, consumer in zip(prompts, held, consumers, strict=False):
            if not automaton.lives[0]:
                unsatisfiable += 1
                assert isinstance(request.error, (UnsatisfiableGrammar, GrammarTooComplex))
                proven += isinstance(request.error, UnsatisfiableGrammar)
                assert "FakeGrammar" in str(request.error)
                continue
            assert (request.error, request.finish_reason, request.incomplete) == (None, "stop", False)
            if request.constraint and request.constraint.exclusions.jumps == 0:
                exact += 1
                assert request.output_token_ids == oracle(prompt, automaton)
            assert automaton.node(request.output_token_ids[:-1]) in automaton.ends
            assert consumer.text == request.text == "".join(map(letter, request.output_token_ids[:-1]))
            assert consumer.tokens == request.output_token_ids
            backouts += request.clock.num_backouts
            metrics = request.clock.freeze()
            assert len(metrics.itl_s) == request.num_output - 1
            assert metrics.ttft_s is not None
            assert metrics.ttft_s + sum(metrics.itl_s) == pytest.approx(metrics.e2e_s, abs=0.05)
        live = [request for request in held if request.error is None]
        if len(live) == len(held):
            assert core.metrics.num_backouts == sum(r.clock.num_backouts for r in held)
            assert core.metrics.num_retracted_tokens == sum(r.clock.num_retracted_tokens for r in held)
            assert core.metrics.generated_tokens - core.metrics.num_retracted_tokens == sum(
                r.num_output for r in [*held, *free]
            )
    assert backouts > 15
    assert exact > 25
    assert unsatisfiable > 5
    assert proven > unsatisfiable / 2


def test_sampled_choices_have_the_distribution_of_masked_sampling():
    """Two tokens, one of them a dead end three tokens later: the others keep their proportions."""

    def allowed(history: list[int]) -> set[int]:
        if not history:
            return {1, 2, 3}
        if history[0] == 1:
            return {4, 5} if len(history) < 3 else set()
        return {EOS}

    logits = np.full(VOCAB, -50, np.float32)
    logits[[1, 2, 3, 4, 5, EOS]] = np.log([0.6, 0.3, 0.1, 0.5, 0.5, 1.0])
    core = make_core(FakeRunner(num_blocks=400, logits=lambda _: logits), max_num_seqs=64)
    compiler, grammar = GrammarCompiler(None), FakeGrammar(allowed)
    requests = [make_request([9], grammar=grammar, compiler=compiler, temperature=1.0, seed=i) for i in range(1200)]
    run(core, requests)
    firsts = [request.output_token_ids[0] for request in requests]
    assert 1 not in firsts
    assert sum(request.clock.num_backouts for request in requests) > 1000  # 60 % meet it, each four times or so
    assert firsts.count(2) / 1200 == pytest.approx(0.75, abs=0.05)  # 4 sigma


@pytest.mark.parametrize("n", [1, 3])
def test_seeds_repeat(n: int):
    """Also when other requests have found the dead ends before."""
    automaton = next(a for a in map(Automaton, range(1000)) if a.lives[0] and len(a.living([])) < len(a([])) > 2)
    outputs = []
    core, compiler, grammar = make_core(), GrammarCompiler(None), FakeGrammar(automaton)
    for _ in range(2):
        leader = make_request([3, 4, 5], grammar=grammar, compiler=compiler, temperature=1.0, seed=5, n=n)
        rest = [
            make_request([3, 4, 5], grammar=grammar, compiler=compiler, temperature=1.0, seed=5, n=n, index=i,
                         leader=leader)
            for i in range(1, n)
        ]  # fmt: skip
        drive(core, [leader, *rest])
        outputs.append([request.output_token_ids for request in (leader, *rest)])
        drive(core, [make_request([3], grammar=grammar, compiler=compiler) for _ in range(3)])
    assert outputs[0] == outputs[1]
    assert all(automaton.node(tokens[:-1]) in automaton.ends for tokens in outputs[0])


def test_a_deep_narrow_dead_tree_is_left_before_it_is_exhausted():
    request = make_request([1], grammar=FakeGrammar(maze(3, 2, 12)), max_tokens=None)
    run(make_core(FakeRunner(logits=lambda _: -np.arange(VOCAB, dtype=np.float32))), [request])
    assert request.output_token_ids == [3, EOS]


def maze(good: int, width: int, depth: int) -> Allowed:
    """The first token decides; only ``good`` leads on, the others into trees of ``width`` ** ``depth`` dead leaves."""

    def allowed(history: list[int]) -> set[int]:
        if not history:
            return {*range(good + 1)}
        if history[0] == good:
            return {EOS}
        return set(range(width)) if len(history) < depth else set()

    return allowed


def test_a_large_dead_tree_is_left_before_it_is_exhausted():
    request = make_request([1], grammar=FakeGrammar(maze(60, 60, 6)), max_tokens=None)
    run(make_core(FakeRunner(logits=lambda _: -np.arange(VOCAB, dtype=np.float32))), [request])
    assert isinstance(request.error, GrammarTooComplex)  # 60 such trees are too many
    request = make_request([1], grammar=FakeGrammar(maze(1, 60, 6)), max_tokens=None)
    run(make_core(FakeRunner(logits=lambda _: -np.arange(VOCAB, dtype=np.float32))), [request])
    assert request.output_token_ids == [1, EOS]
    assert request.clock.num_backouts <= backout.MAX_BACKOUTS


def test_the_limit_fails_one_request_alone():
    core = make_core(FakeRunner(num_blocks=64, logits=lambda _: -np.arange(VOCAB, dtype=np.float32)))
    lost = make_request([1], grammar=FakeGrammar(maze(60, 3, 20)), max_tokens=None)
    fine = make_request([2], max_tokens=6, ignore_eos=True)
    lost_consumer, _ = drive(core, [lost, fine])
    assert isinstance(lost.error, GrammarTooComplex)
    assert "FakeGrammar" in str(lost.error)
    assert "100 and 1000" in str(lost.error)
    assert lost.clock.num_backouts <= backout.MAX_BACKOUTS
    assert lost_consumer.text == lost.text
    assert fine.output_token_ids == [0] * 6


def test_text_stops_and_logprobs_go_back():
    """Half characters, text held back for a stop string, and log probabilities."""
    tokens: list[bytes | None] = [b"a", b"\xc3", b"\xa9", b"xy", b"z", b"\xa8", None]

    class Vocabulary:
        strips_leading_space = False

        def __init__(self) -> None:
            self.special = {"<end>": 6}
            self.tokens = [*tokens, *[b"?"] * (VOCAB - len(tokens))]

    def allowed(history: list[int]) -> set[int]:
        tree: dict[tuple[int, ...], set[int]] = {
            (): {0}, (0,): {1}, (0, 1): {2, 5}, (0, 1, 2): {3}, (0, 1, 2, 3): {4}, (0, 1, 2, 3, 4): {3},
            (0, 1, 5): {3}, (0, 1, 5, 3): {EOS},
        }  # fmt: skip
        return tree.get(tuple(history), set())

    core = make_core(FakeRunner(logits=lambda _: -np.arange(VOCAB, dtype=np.float32)))
    request = make_request([1], grammar=FakeGrammar(allowed), logprobs=0, max_tokens=None)
    request.decoder = Detokenizer(Vocabulary())  # type: ignore[arg-type]
    request.stops = StopStrings(["xyQ", "zxyQ", "èxyQ"])
    shown = []
    consumer = Consumer()
    core.add(request)
    while core.has_work:
        for update in core.step().updates:
            consumer.take(update)
            shown.append((update.retracted, update.delta))
    assert request.text == consumer.text == "aèxy"
    assert request.output_token_ids == [0, 1, 5, 3, EOS]
    assert [list(entry) for entry in request.logprobs] == [[token] for token in request.output_token_ids]
    # "aéxyz" was shown but for "xy" and "zxy", which may begin a stop string; all after "a" is taken back.
    assert (3, "") in shown
    assert request.clock.num_backouts == 1
    assert request.clock.num_retracted_tokens == 4


def test_retracted_blocks_are_not_written_while_others_may_find_them():
    """The dead branch fills blocks; a later request with the retracted tokens in its prompt finds them."""

    def allowed(history: list[int]) -> set[int]:
        if not history:
            return {0, 1}
        if history[0] == 0:
            return {2, 3} if len(history) < 9 else set()
        return {4} if len(history) < 9 else {EOS}

    core = make_core(FakeRunner(num_blocks=64))
    prompt = next([5, i] for i in range(VOCAB) if np.diff(sequence_logits([5, i])[:2]) < 0)  # the model prefers 0
    dead = make_request(prompt, grammar=FakeGrammar(allowed), max_tokens=None)
    seen: list[list[int]] = []
    core.add(dead)
    while core.has_work:
        before = list(dead.token_ids)
        if any(update.retracted_tokens for update in core.step().updates):
            seen.append(before)
        core.scheduler.check()
    assert dead.output_token_ids[0] == 1
    again = [make_request([*tokens, 8], max_tokens=4) for tokens in seen[:3]]
    run(core, again)
    assert any(request.clock.num_cached_tokens for request in again)
    fresh = [make_request(request.token_ids[: request.num_prompt], max_tokens=4) for request in again]
    run(make_core(), fresh)
    assert [r.output_token_ids for r in again] == [r.output_token_ids for r in fresh]


class Dead:
    """``[ab]{2,5}`` is a text; ``[xyz]{3}`` ends where nothing follows."""

    def start(self, bottom: Any) -> Any:
        from structgen.grammars.expr import byte_set, rep, seq
        from structgen.grammars.machine import Thread
        from structgen.grammars.residual import state

        dead, good = state(rep(byte_set(b"xyz"), 3, 3)), state(seq(rep(byte_set(b"ab"), 2, 5)))
        assert dead is not None
        assert good is not None
        return (Thread(dead, bottom.push(Nothing())), Thread(good, bottom))


class Nothing:
    """Nothing follows."""

    view = "nothing"

    def follow(self, cell: Any, outcome: int, text: bytes | None) -> tuple[()]:
        return ()

    def resume(self, cell: Any) -> tuple[()]:
        return ()


def test_end_to_end_on_a_tiny_llama(tiny_model: Callable[..., Path]):
    from structgen.engine.llm import LLM
    from structgen.grammars.grammar import Grammar

    llm = LLM(str(tiny_model("llama")), dtype="float32", kv_cache_tokens=2048)
    grammar = Grammar(Dead(), source="a machine with dead ends")
    prompts = [f"{i} {'x' * i}" for i in range(12)]
    params = SamplingParams(temperature=1.0, max_tokens=40, seed=1)
    outputs = llm.generate(prompts, params, grammar=grammar)
    for output in outputs:
        assert output.error is None
        assert output.outputs[0].finish_reason == "stop"
        assert grammar.matches(output.outputs[0].text)
    assert llm.metrics.num_backouts > 0
    assert sum(output.metrics.num_backouts for output in outputs) == llm.metrics.num_backouts
    again = llm.generate(prompts, params, grammar=grammar)
    assert [output.outputs[0].text for output in again] == [output.outputs[0].text for output in outputs]
    shown = ""
    for event in llm.stream(prompts[3], params, grammar=grammar):
        shown = shown[: len(shown) - event.retracted] + event.delta
        assert shown == event.text
    assert shown == outputs[3].outputs[0].text
    assert isinstance(llm.config, EngineConfig)
    llm.shutdown()
