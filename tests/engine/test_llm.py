from __future__ import annotations

import asyncio
import inspect
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field

from structgen.engine.async_llm import AsyncLLM
from structgen.engine.config import EngineConfig, SamplingParams
from structgen.engine.llm import LLM
from structgen.engine.outputs import parse_partial
from structgen.errors import GrammarError, OutputValidationError, RequestError
from structgen.grammars.grammar import Grammar


class Point(BaseModel):
    """Bounded, so that a random model comes to its end."""

    x: int = Field(ge=0, le=99)
    name: str = Field(max_length=3)


GREEDY = SamplingParams(temperature=0.0, max_tokens=12)
DIGITS = r"[0-9]{3,6}"


@pytest.fixture(scope="module")
def llm(tiny_model: Callable[..., Path]) -> Iterator[LLM]:
    with LLM(str(tiny_model("llama")), dtype="float32", device="cpu", kv_cache_tokens=2048) as made:
        yield made
        assert_idle(made)


def assert_idle(llm: LLM) -> None:
    assert not llm._front.has_work
    llm._front.core.scheduler.check()
    llm._front.core.scheduler.pool.check()


class Broken:
    def compile(self, vocabulary: Any) -> Any:
        raise GrammarError("rule 'x' is not defined", line=1, column=3)


# -- generate


def test_prompt_forms(llm: LLM):
    ids = llm.tokenizer.encode("the cat")
    by_text, by_ids = llm.generate("the cat", GREEDY), llm.generate(ids, GREEDY)
    both = llm.generate(["the cat", ids], GREEDY)
    assert by_text[0].prompt == "the cat"
    assert by_ids[0].prompt is None
    assert by_text[0].prompt_token_ids == by_ids[0].prompt_token_ids == tuple(ids)
    assert {output.outputs[0].token_ids for output in (*by_text, *by_ids, *both)} == {by_text[0].outputs[0].token_ids}
    assert len({output.request_id for output in (*by_text, *by_ids, *both)}) == 4
    assert llm.generate([], GREEDY) == []


def test_outputs_are_in_order_with_params_and_grammar_each(llm: LLM):
    params = [SamplingParams(temperature=0.0, max_tokens=n) for n in (3, 9, 5)]
    grammar = [None, Grammar.from_regex(DIGITS), None]
    outputs = llm.generate(["a", "b", "c"], params, grammar=grammar)
    assert [len(output.outputs[0].token_ids) for output in outputs][::2] == [3, 5]
    middle = outputs[1].outputs[0]
    assert middle.finish_reason == "stop"
    assert middle.text.isdigit()
    assert 3 <= len(middle.text) <= 6
    assert outputs[1].metrics.masks == len(middle.token_ids) > 0
    assert outputs[0].metrics.masks == 0
    for name, value in (("params", params), ("grammar", grammar)):
        with pytest.raises(RequestError, match=f"{name} is a list of 3 for 2 prompts"):
            llm.generate(["a", "b"], **{name: value})


def test_a_schema_gives_a_value_at_any_temperature(llm: LLM):
    grammar = Grammar.from_type(Point)
    params = [SamplingParams(temperature=1.0, seed=seed, max_tokens=120) for seed in range(8)]
    outputs = llm.generate(["{"] * 8, params, grammar=grammar)
    finished = [output.outputs[0] for output in outputs if output.outputs[0].finish_reason == "stop"]
    assert finished
    for completion in finished:
        assert not completion.incomplete
        assert isinstance(completion.value, Point)
        assert json.loads(completion.text) == {"x": completion.value.x, "name": completion.value.name}
    for output in outputs:
        if output.outputs[0].finish_reason == "length":
            assert output.outputs[0].incomplete
            assert output.outputs[0].value is None


def test_one_bad_request_of_a_batch_fails_alone(llm: LLM):
    limit = llm.max_model_len
    prompts = ["fine", [1] * limit, "fine", [], [10**6], "fine", 3.5]
    grammar = [None, None, Broken(), None, None, "not a grammar", None]
    outputs = llm.generate(prompts, GREEDY, grammar=grammar)
    assert [output.outputs[0].finish_reason == "error" for output in outputs] == [False] + [True] * 6
    messages = [str(output.error) for output in outputs]
    assert outputs[0].error is None
    assert f"the prompt has {limit} tokens" in messages[1]
    assert messages[2] == "line 1, column 3: rule 'x' is not defined"
    assert isinstance(outputs[2].error, GrammarError)
    assert "empty" in messages[3]
    assert "1000000; allowed: 0 to" in messages[4]
    assert "allowed: a structgen Grammar" in messages[5]
    assert "3.5; allowed: a text or a list of token ids" in messages[6]
    assert outputs[0].outputs[0].token_ids == llm.generate("fine", GREEDY)[0].outputs[0].token_ids


@pytest.mark.parametrize(
    ("prompt", "grammar", "kind"),
    [("", None, RequestError), ([1] * 600, None, RequestError), ("x", Broken(), GrammarError), ("x", 3, RequestError)],
)
def test_a_single_bad_request_raises(llm: LLM, prompt: Any, grammar: Any, kind: type[Exception]):
    with pytest.raises(kind):
        llm.generate(prompt, GREEDY, grammar=grammar)
    with pytest.raises(kind):
        list(llm.stream(prompt, GREEDY, grammar=grammar))
    assert_idle(llm)


def test_a_refused_value_is_an_error_beside_the_text(llm: LLM):
    class Picky:
        def __init__(self) -> None:
            self.compile = Grammar.from_regex("a{2}").compile

        def value(self, text: str) -> Any:
            raise OutputValidationError("not this one", text)

    (output,) = llm.generate("x", GREEDY, grammar=Picky())
    assert isinstance(output.error, OutputValidationError)
    assert (output.outputs[0].text, output.outputs[0].finish_reason, output.outputs[0].value) == ("aa", "stop", None)


def test_stop_strings_and_half_characters(llm: LLM):
    grammar = Grammar.from_regex("abcdef|é{3}")
    cut_off = SamplingParams(stop="cd", max_tokens=20, logprobs=0)
    stopped = llm.generate("x", cut_off, grammar=Grammar.from_regex("abcdef"))[0].outputs[0]
    assert (stopped.text, stopped.stop_reason, stopped.incomplete) == ("ab", "cd", True)
    assert len(stopped.logprobs or ()) == len(stopped.token_ids)
    shown = SamplingParams(stop=["zz", "ef"], max_tokens=20, include_stop_str_in_output=True)
    (whole,) = llm.generate("x", shown, grammar=Grammar.from_regex("abcdef"))
    assert (whole.outputs[0].text, whole.outputs[0].incomplete, whole.outputs[0].value) == ("abcdef", False, "abcdef")
    for length in range(1, 7):  # é is two tokens in this vocabulary
        cut = SamplingParams(max_tokens=length, temperature=1.0, seed=length)
        text = llm.generate("x", cut, grammar=grammar)[0].outputs[0].text
        assert "\ufffd" not in text
        assert "ééé".startswith(text) or "abcdef".startswith(text)


def test_choices(llm: LLM):
    prompt = "the cat and the dog and the cat and the dog"
    (output,) = llm.generate(prompt, SamplingParams(n=5, seed=1, max_tokens=8, temperature=1.0))
    assert [completion.index for completion in output.outputs] == [0, 1, 2, 3, 4]
    assert len({completion.token_ids for completion in output.outputs}) > 1
    (again,) = llm.generate([prompt], SamplingParams(n=5, seed=1, max_tokens=8, temperature=1.0))
    assert [c.token_ids for c in again.outputs] == [c.token_ids for c in output.outputs]
    (held,) = llm.generate(prompt, SamplingParams(n=3, max_tokens=8), grammar=Grammar.from_regex(DIGITS))
    assert all(completion.text.isdigit() for completion in held.outputs)


def test_prefix_cache_is_seen_in_the_metrics(llm: LLM):
    prompt = "0123456789" * 8
    (first,) = llm.generate(prompt, GREEDY)
    (second,) = llm.generate(prompt, GREEDY)
    assert second.outputs[0].token_ids == first.outputs[0].token_ids
    cached = second.metrics.num_cached_tokens
    assert cached >= 48
    assert cached % 16 == 0
    assert cached < len(second.prompt_token_ids)


def test_progress_goes_to_stderr(llm: LLM, capsys: pytest.CaptureFixture[str]):
    assert len(llm.generate(["a", "b"], GREEDY, progress=True)) == 2
    assert capsys.readouterr().out == ""


# -- interrupts and threads


def test_ctrl_c_aborts_and_the_engine_goes_on(llm: LLM, monkeypatch: pytest.MonkeyPatch):
    wanted = llm.generate("hello", GREEDY)[0].outputs[0].token_ids
    real, steps = llm.runner.forward, []

    def interrupted(batch: Any) -> Any:
        steps.append(batch)
        if len(steps) == 4:
            raise KeyboardInterrupt
        return real(batch)

    monkeypatch.setattr(llm.runner, "forward", interrupted)
    with pytest.raises(KeyboardInterrupt):
        llm.generate(["hello", "you"] * 4, GREEDY)
    assert_idle(llm)
    assert llm.generate("hello", GREEDY)[0].outputs[0].token_ids == wanted


def test_a_broken_step_raises_and_the_engine_goes_on(llm: LLM, monkeypatch: pytest.MonkeyPatch):
    def broken(batch: Any) -> Any:
        raise MemoryError("too much")

    with monkeypatch.context() as patch:
        patch.setattr(llm.runner, "forward", broken)
        with pytest.raises(MemoryError):
            llm.generate(["hello", "you"], GREEDY)
    assert_idle(llm)
    assert llm.generate("hello", GREEDY)[0].error is None


def test_threads_share_the_engine(llm: LLM):
    prompts = [f"{i} the cat" for i in range(6)]
    wanted = [output.outputs[0].token_ids for output in llm.generate(prompts, GREEDY)]
    found: dict[int, Any] = {}

    def work(i: int) -> None:
        found[i] = llm.generate(prompts[i], GREEDY)[0].outputs[0].token_ids

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [found[i] for i in range(6)] == wanted
    assert_idle(llm)


# -- stream


def test_stream_adds_up_to_generate(llm: LLM):
    (output,) = llm.generate("the", GREEDY)
    events = list(llm.stream("the", GREEDY))
    assert "".join(event.delta for event in events) == events[-1].text == output.outputs[0].text
    assert sum((event.token_ids for event in events), ()) == output.outputs[0].token_ids
    assert [event.finish_reason for event in events[:-1]] == [None] * (len(events) - 1)
    assert events[-1].finish_reason == output.outputs[0].finish_reason
    assert events[-1].output is not None


def test_streams_interleave_and_leaving_one_aborts_it(llm: LLM):
    one, two = llm.stream("a", GREEDY), llm.stream("b", GREEDY)
    texts = ["", ""]
    for first, second in zip(one, two, strict=False):
        texts[0] += first.delta
        texts[1] += second.delta
        llm.generate("inside", SamplingParams(max_tokens=1))
    one.close()
    two.close()
    assert_idle(llm)
    alone = [output.outputs[0].text for output in llm.generate(["a", "b"], GREEDY)]
    assert [full.startswith(text) for full, text in zip(alone, texts, strict=True)] == [True, True]
    left = llm.stream("c", SamplingParams(max_tokens=200, ignore_eos=True))
    next(left)
    left.close()
    assert_idle(llm)


def test_stream_gives_partial_and_whole_values(llm: LLM):
    params = SamplingParams(temperature=1.0, seed=3, max_tokens=200)
    events = list(llm.stream("{", params, schema=Point))
    assert events[-1].finish_reason == "stop"
    assert isinstance(events[-1].value, Point)
    seen = [event.partial for event in events if event.partial is not None]
    assert seen[-1] == json.loads(events[-1].text)
    assert all(set(value) <= {"x", "name"} for value in seen)
    assert [len(value) for value in seen] == sorted(len(value) for value in seen)
    with pytest.raises(RequestError, match="give one"):
        llm.stream("x", schema=Point, grammar=Grammar.from_regex("a"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("nul", None),
        ("no json", None),
        ("[1, 2, ", [1, 2]),
        ('{"a": {"b": [1, {"c": "d', {"a": {"b": [1, {"c": "d"}]}}),
        ('{"a": 1, "b', {"a": 1}),
        ('{"a": 1, "b":', {"a": 1}),
        ('{"a": "x\\u00', {"a": "x"}),
        ('{"a": tr', {}),
        ('"é', "é"),
    ],
)
def test_parse_partial(text: str, value: Any):
    assert parse_partial(text) == value


# -- chat, options, life


def test_chat_needs_a_template_and_refuses_tools(llm: LLM):
    with pytest.raises(RequestError, match="chat template"):
        llm.chat([{"role": "user", "content": "hi"}])
    with pytest.raises(RequestError, match="tools= is not built yet"):
        llm.chat([{"role": "user", "content": "hi"}], tools=[{}])


def test_chat_renders_the_template(llm: LLM, monkeypatch: pytest.MonkeyPatch):
    template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: "
    monkeypatch.setattr(llm.tokenizer, "chat_templates", {"default": template})
    message = [{"role": "user", "content": "hi"}]
    (output,) = llm.chat(message, GREEDY, grammar=Grammar.from_choices(["yes", "no"]))
    assert llm.tokenizer.decode(output.prompt_token_ids) == "user: hi\nassistant: "
    assert output.outputs[0].text in ("yes", "no")
    assert len(llm.chat([message, message], GREEDY)) == 2
    params = SamplingParams(temperature=1.0, seed=3, max_tokens=200)
    (output,) = llm.chat(message, params, schema={"type": "array", "items": {"type": "boolean"}, "maxItems": 3})
    assert isinstance(output.outputs[0].value, list)


def test_signature_and_config_agree():
    parameters = inspect.signature(LLM.__init__).parameters
    for field in fields(EngineConfig):
        assert parameters[field.name].default == field.default


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"modle": "x"}, TypeError, "did you mean 'model'"),
        ({"max_model_length": 5}, TypeError, "did you mean 'max_model_len'"),
        ({"dtype": "int3"}, RequestError, "dtype is 'int3'; allowed: auto, float32, bfloat16"),
        ({"device": "tpu"}, RequestError, "allowed: auto, cpu, cuda"),
        ({"max_num_seqs": 0}, RequestError, "max_num_seqs is 0"),
        ({"kv_cache_tokens": 3}, RequestError, "kv_cache_tokens is 3"),
        ({"quantization": "int3"}, RequestError, "quantization is .int3.; allowed: .auto., .int8., None"),
        ({"speculative": ["ngram"]}, RequestError, "is not built yet; allowed for now: 'auto' or None"),
        ({"model_impl": "vllm"}, RequestError, "allowed: .auto., .native., .transformers."),
        ({"tensor_parallel_size": 2}, RequestError, "is not built yet"),
        ({"batch_invariant": True}, RequestError, "is not built yet"),
    ],
)
def test_options_are_refused_by_name(options: dict[str, Any], kind: type[Exception], message: str):
    with pytest.raises(kind, match=message.replace("[", r"\[")):
        LLM(**options)


def test_after_shutdown(tiny_model: Callable[..., Path]):
    llm = LLM(str(tiny_model("llama")), dtype="float32", device="cpu", kv_cache_tokens=512)
    unfinished = llm.stream("a", SamplingParams(max_tokens=100, ignore_eos=True))
    next(unfinished)
    llm.shutdown()
    llm.shutdown()
    assert [event.finish_reason for event in unfinished][-1] == "abort"
    with pytest.raises(RequestError, match="shut down"):
        llm.generate("a")


# -- asyncio


def test_async_verbs(llm: LLM):
    prompts = ["a", "b", "c"]
    wanted = [output.outputs[0].text for output in llm.generate(prompts, GREEDY)]

    async def main() -> None:
        async with AsyncLLM.from_llm(LLM.from_parts(llm.runner, llm.tokenizer)) as engine:
            outputs = await engine.generate(prompts, GREEDY)
            assert [output.outputs[0].text for output in outputs] == wanted
            separate = await asyncio.gather(*(engine.generate(prompt, GREEDY) for prompt in prompts))
            assert [outputs[0].outputs[0].text for outputs in separate] == wanted
            events = [event async for event in engine.stream("a", GREEDY)]
            assert "".join(event.delta for event in events) == wanted[0]
            with pytest.raises(GrammarError):
                await engine.generate("a", GREEDY, grammar=Broken())
            with pytest.raises(RequestError):
                await engine.generate("", GREEDY)
            mixed = await engine.generate(["a", "b"], GREEDY, grammar=[Broken(), None])
            assert [output.error is None for output in mixed] == [False, True]

    asyncio.run(main())


def test_async_cancellation_aborts(llm: LLM):
    long = SamplingParams(max_tokens=300, ignore_eos=True)

    async def main() -> None:
        async with AsyncLLM.from_llm(LLM.from_parts(llm.runner, llm.tokenizer)) as engine:
            task = asyncio.create_task(engine.generate("a", long))
            async with aclosing(engine.stream("b", long)) as events:
                async for _ in events:
                    break
            await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            for _ in range(200):
                if not engine.llm._front.has_work:
                    break
                await asyncio.sleep(0.01)
            assert_idle(engine.llm)
            assert (await engine.generate("a", GREEDY))[0].error is None

    asyncio.run(main())
