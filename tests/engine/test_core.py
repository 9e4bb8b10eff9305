from __future__ import annotations

import random
import time
from typing import Any

import numpy as np
import pytest
from fakes import (
    EOS,
    VOCAB,
    FakeGrammar,
    FakeRunner,
    error_text,
    greedy_oracle,
    letter,
    make_core,
    make_request,
    run,
)

from structgen.engine.constraints import GrammarCompiler
from structgen.engine.core import EngineCore
from structgen.errors import GrammarError, GrammarTooComplex, RequestError


def even(history: list[int]) -> set[int]:
    """Even tokens; the end is legal after three."""
    return {*range(0, VOCAB, 2), *({EOS} if len(history) >= 3 else ())}


def scripted(*tokens: int) -> FakeRunner:
    """A model that says ``tokens`` after a prompt of length 1, then the end."""

    def logits(sequence: Any) -> np.ndarray:
        values = np.zeros(VOCAB, np.float32)
        at = len(sequence) - 1
        values[tokens[at] if at < len(tokens) else EOS] = 5
        return values

    return FakeRunner(logits=logits)


class SimpleStops:
    """Finds one stop string; holds nothing back but a beginning of it."""

    def __init__(self, stop: str) -> None:
        self.stop = stop
        self.held = ""

    def feed(self, text: str) -> tuple[str, str | None]:
        text, self.held = self.held + text, ""
        if self.stop in text:
            return text[: text.index(self.stop)], self.stop
        for size in range(min(len(self.stop) - 1, len(text)), 0, -1):
            if self.stop.startswith(text[-size:]):
                text, self.held = text[:-size], text[-size:]
                break
        return text, None

    def finish(self) -> str:
        held, self.held = self.held, ""
        return held

    def reset(self) -> None:
        self.held = ""


def test_greedy_equals_the_oracle():
    core = make_core()
    requests = [make_request([i, 2, 3], max_tokens=12) for i in range(10)]
    run(core, requests)
    for i, request in enumerate(requests):
        assert request.output_token_ids == greedy_oracle([i, 2, 3], 12)
        ended = request.output_token_ids[-1] == EOS
        assert request.finish_reason == ("stop" if ended else "length")
        kept = request.output_token_ids[:-1] if ended else request.output_token_ids
        assert request.text == "".join(map(letter, kept))


def test_metrics_of_a_request():
    core = make_core(max_num_batched_tokens=16)
    request = make_request(list(range(40)), max_tokens=5, ignore_eos=True)
    run(core, [request])
    metrics = request.clock.freeze()
    assert metrics.forward_passes == 3 + 4
    assert len(metrics.itl_s) == 4
    assert metrics.queue_s is not None
    assert metrics.ttft_s is not None
    assert 0 <= metrics.queue_s <= metrics.ttft_s <= metrics.e2e_s
    assert metrics.ttft_s + sum(metrics.itl_s) == pytest.approx(metrics.e2e_s, abs=0.05)
    assert core.metrics.generated_tokens == 5
    assert core.metrics.computed_tokens == 44
    again = make_request(list(range(40)), max_tokens=1)
    run(core, [again])
    assert again.clock.freeze().num_cached_tokens == 36


def test_grammar_is_followed_and_its_value_waits_for_the_end():
    core = make_core()
    requests = [make_request([i], grammar=FakeGrammar(even), max_tokens=20) for i in range(6)]
    run(core, requests)
    for i, request in enumerate(requests):
        assert request.output_token_ids == greedy_oracle([i], 20, even)
        assert request.incomplete is (request.finish_reason == "length" and request.num_output < 3)
        assert request.clock.masks == request.num_output


def test_length_inside_a_grammar_is_incomplete():
    core = make_core(scripted(2, 4, 6, 8))
    cut = make_request([0], grammar=FakeGrammar(even), max_tokens=2)
    whole = make_request([0], grammar=FakeGrammar(even), max_tokens=3)
    run(core, [cut, whole])
    assert (cut.finish_reason, cut.incomplete) == ("length", True)
    assert (whole.finish_reason, whole.incomplete) == ("length", False)


def test_broken_grammars_fail_alone():
    core = make_core()
    compiler = GrammarCompiler(None)

    def breaks(history: list[int]) -> set[int]:
        if len(history) == 2:
            raise ZeroDivisionError("a bug")
        return even(history)

    good = [make_request([i], max_tokens=6) for i in range(3)]
    bad = make_request([5], grammar=FakeGrammar(even, error=GrammarError("no such rule")), compiler=compiler)
    odd = make_request([5], grammar=FakeGrammar(even, error=KeyError("x")), compiler=compiler)
    late = make_request([6], grammar=FakeGrammar(breaks), compiler=compiler)
    fine = make_request([7], grammar=FakeGrammar(even), compiler=compiler, max_tokens=6)
    run(core, [good[0], bad, odd, late, fine, *good[1:]])
    assert isinstance(bad.error, GrammarError)
    assert error_text(bad) == "no such rule"
    assert isinstance(odd.error, RequestError)
    assert "KeyError" in error_text(odd)
    assert (late.finish_reason, late.num_output) == ("error", 2)
    assert "ZeroDivisionError: a bug" in error_text(late)
    assert {bad.finish_reason, odd.finish_reason} == {"error"}
    assert fine.output_token_ids == greedy_oracle([7], 6, even)
    for i, request in enumerate(good):
        assert request.output_token_ids == greedy_oracle([i], 6)


def test_a_grammar_is_compiled_once_off_the_step_and_others_go_on():
    class Slow(FakeGrammar):
        def compile(self, vocabulary: Any) -> FakeGrammar:
            time.sleep(0.2)
            return super().compile(vocabulary)

    core, compiler = make_core(), GrammarCompiler(None)
    grammar = Slow(even)
    parked = [make_request([i], grammar=grammar, compiler=compiler) for i in range(2)]
    free = make_request([9], max_tokens=5, ignore_eos=True)
    for request in (*parked, free):
        core.add(request)
    assert len(core.scheduler.parked) == 2
    for _ in range(5):
        core.step()
    assert free.is_finished
    run(core, [])
    assert [request.output_token_ids for request in parked] == [greedy_oracle([i], 8, even) for i in range(2)]
    assert grammar.compiled == 1
    ready = make_request([3], grammar=grammar, compiler=compiler)
    core.add(ready)
    assert not core.scheduler.parked
    run(core, [])
    assert grammar.compiled == 1


def test_compilation_past_its_deadline_fails_and_the_next_grammar_gets_a_worker():
    class Stuck(FakeGrammar):
        def compile(self, vocabulary: Any) -> FakeGrammar:
            time.sleep(1.0)
            return super().compile(vocabulary)

    core, compiler = make_core(), GrammarCompiler(None)
    stuck = make_request([1], grammar=Stuck(even), compiler=compiler, timeout_s=0.1)
    behind = make_request([2], grammar=FakeGrammar(even), compiler=compiler, timeout_s=30)
    start = time.perf_counter()
    for request in (stuck, behind):
        core.add(request)
    while not stuck.is_finished:
        core.step()
    assert isinstance(stuck.error, GrammarTooComplex)
    assert "grammar_timeout_s" in error_text(stuck)
    compiler.replace_stuck_worker()
    run(core, [])
    assert time.perf_counter() - start < 0.9
    assert behind.output_token_ids == greedy_oracle([2], 8, even)


def test_not_a_grammar_is_refused():
    with pytest.raises(RequestError, match="allowed: a structgen Grammar"):
        GrammarCompiler(None).submit("root ::= x")


def test_stop_ids_and_the_models_ends():
    core = make_core(scripted(2, 4, 6))
    plain = make_request([0])
    stopped = make_request([0], stop_token_ids=[4])
    shown = make_request([0], stop_token_ids=[4], include_stop_str_in_output=True)
    ignoring = make_request([0], ignore_eos=True, max_tokens=6)
    run(core, [plain, stopped, shown, ignoring])
    assert (plain.output_token_ids, plain.text, plain.stop_reason) == ([2, 4, 6, EOS], "ceg", None)
    assert (stopped.output_token_ids, stopped.text, stopped.stop_reason) == ([2, 4], "c", 4)
    assert (shown.text, shown.finish_reason) == ("ce", "stop")
    assert (ignoring.output_token_ids[-3:], ignoring.finish_reason) == ([EOS] * 3, "length")


def test_stop_id_ends_a_grammar_only_where_it_may_end():
    core = make_core(scripted(2, 4, 51, 51))
    grammar = FakeGrammar(lambda history: {2, 4} if len(history) < 2 else {6, EOS})
    request = make_request([0], grammar=grammar, stop_token_ids=[51])
    run(core, [request])
    assert request.output_token_ids == [2, 4, 51]
    assert (request.finish_reason, request.stop_reason, request.incomplete) == ("stop", 51, False)
    core = make_core(scripted(2, 4))
    early = make_request([0], grammar=FakeGrammar(even), stop_token_ids=[4])
    run(core, [early])
    assert (early.finish_reason, early.stop_reason, early.incomplete) == ("stop", 4, True)


def test_stop_strings_hold_back_and_respect_min_tokens():
    core = make_core(scripted(0, 1, 2, 3, 1, 2, 3))  # abcdbcd
    stopped, late, held = (make_request([0], max_tokens=n, min_tokens=m) for n, m in ((9, 0), (9, 4), (2, 0)))
    for request in (stopped, late, held):
        request.stops = SimpleStops("bcd")
    run(core, [stopped, late, held])
    assert (stopped.text, stopped.finish_reason, stopped.stop_reason) == ("a", "stop", "bcd")
    assert stopped.output_token_ids == [0, 1, 2, 3]
    assert (late.text, late.stop_reason) == ("abcd", "bcd")
    assert (held.text, held.finish_reason) == ("ab", "length")  # what was held back comes out at the end


def test_stop_string_in_a_grammar_says_incomplete():
    core = make_core(scripted(2, 4, 6, 8))
    request = make_request([0], grammar=FakeGrammar(even))
    request.stops = SimpleStops("g")
    run(core, [request])
    assert (request.text, request.finish_reason, request.incomplete) == ("ce", "stop", True)


def test_min_tokens_yields_to_a_finished_grammar():
    core = make_core()
    grammar = FakeGrammar(lambda history: {5} if not history else {EOS})
    request = make_request([1], grammar=grammar, min_tokens=6)
    run(core, [request])
    assert request.output_token_ids == [5, EOS]
    assert (request.finish_reason, request.incomplete) == ("stop", False)


def test_too_long_and_empty_prompts_fail_alone():
    core = make_core()
    long, empty, fine = make_request([1] * 64), make_request([]), make_request([1] * 63, max_tokens=9)
    run(core, [long, empty, fine])
    assert "the prompt has 64 tokens" in error_text(long)
    assert "empty" in error_text(empty)
    assert (fine.finish_reason, fine.num_output) in (("length", 1), ("stop", 1))


def test_choices_share_the_prompt_and_follow_their_seeds():
    runner = FakeRunner()
    core = make_core(runner)
    prompt = list(range(1, 31))
    leader = make_request(prompt, temperature=1.0, seed=3, n=4, ignore_eos=True)
    rest = [
        make_request(prompt, temperature=1.0, seed=3, n=4, index=i, leader=leader, ignore_eos=True) for i in (1, 2, 3)
    ]
    run(core, [leader, *rest])
    assert sum(runner.steps) == 30 + 3 * 2 + 4 * 7  # the last 2 of 30 prompt tokens are in an unfinished block
    assert len({tuple(request.output_token_ids) for request in (leader, *rest)}) == 4
    for index, request in enumerate((leader, *rest)):
        alone = make_request(prompt, temperature=1.0, seed=3 + index, ignore_eos=True)
        run(make_core(), [alone])
        assert alone.output_token_ids == request.output_token_ids


def test_a_broken_step_fails_all_and_leaves_a_usable_engine():
    class Breaks(FakeRunner):
        broken = False

        def forward(self, batch: Any) -> Any:
            if self.broken:
                raise MemoryError("too much")
            return super().forward(batch)

    runner = Breaks()
    core = make_core(runner)
    requests = [make_request([i] * 9) for i in range(3)]
    for request in requests:
        core.add(request)
    core.step()
    runner.broken = True
    with pytest.raises(MemoryError) as caught:
        core.step()
    updates = core.fail_all(caught.value)
    assert [update.finish_reason for update in updates] == ["error"] * 3
    core.scheduler.pool.check()
    runner.broken = False
    fresh = make_request([4, 5])
    run(core, [fresh])
    assert fresh.output_token_ids == greedy_oracle([4, 5], 8)


def test_recover_frees_blocks_that_an_interrupt_leaked():
    core = make_core()
    core.scheduler.pool.extend([], 20)  # as if interrupted before the table was kept
    core.recover()
    core.scheduler.pool.check()


@pytest.mark.parametrize("seed", range(6))
def test_random_aborts_in_every_state_free_all_blocks(seed: int):
    rng = random.Random(seed)
    core = make_core(FakeRunner(num_blocks=12, max_model_len=40), max_num_seqs=4, max_num_batched_tokens=12)
    compiler = GrammarCompiler(None)
    requests = []
    for i in range(25):
        grammar = FakeGrammar(even) if rng.random() < 0.4 else None
        prompt = [i % 3] * rng.randint(1, 39)
        requests.append(make_request(prompt, grammar=grammar, compiler=compiler, max_tokens=rng.randint(1, 20)))

    def disturb(_: int) -> None:
        for request in requests:
            if rng.random() < 0.03:
                was_finished = request.is_finished
                update = core.abort(request)
                assert (update is None) is was_finished
        core.scheduler.check()

    run(core, requests, each_step=disturb)
    reasons = {request.finish_reason for request in requests}
    assert "abort" in reasons
    assert reasons & {"stop", "length"}
    for request in requests:
        allowed = even if request.constraint else None
        expected = greedy_oracle(request.token_ids[: request.num_prompt], 40, allowed)
        assert request.output_token_ids == expected[: request.num_output]


def test_logprobs_reach_the_request():
    core = EngineCore(
        FakeRunner(), make_core().config, eos_token_ids=(EOS,), decode_token=lambda token: f"<{token}>"
    )
    request = make_request([1], logprobs=2, max_tokens=3, ignore_eos=True)
    run(core, [request])
    assert len(request.logprobs) == 3
    for token, entry in zip(request.output_token_ids, request.logprobs, strict=True):
        assert next(iter(entry)) == token
        assert len(entry) == 2  # greedy: the sampled one is the likeliest
        assert (entry[token].rank, entry[token].decoded_token) == (1, f"<{token}>")
