"""``generate``: one call from a prompt and a type to a value."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from structgen import chat as chats
from structgen.constraint import Constraint, constraint_of
from structgen.errors import IncompleteOutput, RequestError, StructgenError

if TYPE_CHECKING:
    from structgen.engine.llm import LLM
    from structgen.engine.outputs import CompletionOutput, RequestOutput

DEFAULT_MODEL = "smollm2"
DEFAULT_MAX_TOKENS = 512

# Sampling options that generate cannot pass on to its result.
_NEED_LLM = {
    "n": "several outputs a prompt",
    "logprobs": "log probabilities",
    "logprobs_mode": "log probabilities",
    "prompt_logprobs": "log probabilities",
}


def generate(
    prompt: str | Sequence[str],
    *,
    schema: Any = None,
    regex: Any = None,
    grammar: Any = None,
    choices: Iterable[str] | None = None,
    model: str | os.PathLike[str] | LLM = DEFAULT_MODEL,
    max_tokens: int | None = DEFAULT_MAX_TOKENS,
    temperature: float = 0.0,
    seed: int | None = None,
    chat: bool = True,
    system: str | None = None,
    show_schema: bool = True,
    return_exceptions: bool = False,
    tools: Any = None,
    **options: Any,
) -> Any:
    """Text, or a typed value, that satisfies one constraint at most.

    >>> generate("Name a colour of the sky.", choices=["blue", "plaid"])    # doctest: +SKIP
    'blue'

    Args:
        prompt: one prompt, or a list of prompts that are served as one batch; a list gives a list.
        schema: a type (pydantic model, dataclass, TypedDict, Enum, Literal, ``list[...]``, ...) whose value is
            returned, or a JSON Schema as a dict (plain JSON values are returned). Keys that a model would ignore
            are not generated.
        regex: a pattern, or ``re.compile(...)``; the whole output matches it.
        grammar: a Grammar, Lark text, the path of a ``.lark`` file, or a name of the grammar library
            (``"sql.lark"``).
        choices: the texts to choose from.
        model: a folder, a GGUF file, a hub id, ``"smollm2"``, or an LLM that is already there. A model is loaded once
            a process for each set of engine options.
        max_tokens: most tokens to generate; None: until the context is full.
        temperature: 0 is greedy.
        seed: makes sampling repeatable.
        chat: put the prompt into the model's chat template, when it has one; False: give it as it is.
        system: a system message before it.
        show_schema: tell the model the form of the answer in a few words: the schema, the choices, or the language that
            a Lark grammar names in its first comment line ("// SQL: ...").
        return_exceptions: with a list of prompts, put the error of a failed one in its place in the list. Otherwise
            the first error is raised, after the other prompts have been served.
        options: fields of SamplingParams (``top_p``, ``stop``, ...) and options of LLM (``dtype``, ``device``, ...).

    Raises:
        GrammarError: the constraint cannot be used.
        ModelError: the model cannot be loaded.
        IncompleteOutput: the output was cut (``max_tokens``, stop string) before it was complete; ``.text`` has it.
        OutputValidationError: the type's own validators refuse the value; ``.text`` and ``.errors`` say why.
        RequestError: an option is out of range, or the prompt does not fit the context.
        TypeError: an unknown option; the message names the nearest known one.
    """
    from structgen.engine.config import SamplingParams

    if tools is not None:
        raise RequestError("tools is not built yet; describe one call as a schema, or leave tools out")
    sampling, engine = split_options(options)
    prompts = _prompts(prompt)
    if system is not None and not isinstance(system, str):
        raise RequestError(f"system is {type(system).__name__}; allowed: a text or None")
    if system is not None and not chat:
        raise RequestError("system has no place without the chat template (chat=False); put it into the prompt")
    params = SamplingParams(max_tokens=max_tokens, temperature=temperature, seed=seed, **sampling)
    constraint = constraint_of(schema=schema, regex=regex, grammar=grammar, choices=choices)
    llm = engine_for(model, engine)
    shown = constraint if show_schema else Constraint()
    if chat:
        asked: list[str | list[int]] = [chat_prompt(llm, text, system=system, shown=shown) for text in prompts]
    else:
        asked = list(prompts)
    outputs = llm.generate(asked, params, grammar=constraint.grammar)
    results = [_result(output, constraint) for output in outputs]
    if isinstance(prompt, str):
        return _raised(results)[0]
    return results if return_exceptions else _raised(results)


def chat_prompt(llm: LLM, prompt: str, *, system: str | None, shown: Constraint) -> str | list[int]:
    """What the model reads for ``prompt``: in its chat template when it has one, and with the form of ``shown``."""
    messages = chats.messages_of(prompt, system=system, form=chats.form_of(shown))
    return chats.render(llm, messages)


def answer_of(output: CompletionOutput, constraint: Constraint) -> Any:
    """The value of one finished output.

    Raises:
        StructgenError: its own error, IncompleteOutput or OutputValidationError.
    """
    if output.finish_reason in ("error", "abort") and output.error is not None:
        raise output.error
    if constraint.grammar is None:
        return output.text
    if output.incomplete:
        raise IncompleteOutput(_why_cut(output), output.text)
    return constraint.value(output.text)


def _why_cut(output: CompletionOutput) -> str:
    tokens = len(output.token_ids)
    if output.finish_reason == "length":
        return (
            f"the output was cut after {tokens} tokens, before it was complete; raise max_tokens, or make the "
            "constraint shorter (maxLength, maxItems)"
        )
    if output.stop_reason is not None:
        return f"the output was cut at the stop {output.stop_reason!r}, before it was complete"
    if output.finish_reason == "timeout":
        return f"the output's time (timeout_s) was over after {tokens} tokens, before it was complete"
    return f"the output ended ({output.finish_reason}) before it was complete"


def _result(request: RequestOutput, constraint: Constraint) -> Any:
    if request.error is not None and not request.outputs:
        return request.error
    try:
        return answer_of(request.outputs[0], constraint)
    except StructgenError as error:
        return error


def _raised(results: list[Any]) -> list[Any]:
    for number, result in enumerate(results):
        if isinstance(result, StructgenError):
            if len(results) > 1:
                add_note(result, f"(prompt {number} of {len(results)}; return_exceptions=True keeps the others)")
            raise result
    return results


def add_note(error: BaseException, note: str) -> None:
    """``error.add_note`` where Python has it (3.11)."""
    if hasattr(error, "add_note"):
        error.add_note(note)


def _prompts(prompt: str | Sequence[str]) -> list[str]:
    if isinstance(prompt, str):
        return [prompt]
    if isinstance(prompt, (bytes, dict)) or not isinstance(prompt, Iterable):
        raise RequestError(f"prompt is {type(prompt).__name__}; allowed: a text or a list of texts")
    prompts = list(prompt)
    for number, text in enumerate(prompts):
        if not isinstance(text, str):
            raise RequestError(f"prompt {number} is {type(text).__name__}; allowed: texts (token ids: LLM.generate)")
    return prompts


# -------------------------------------------------------------------------------------------------- options, engines


def split_options(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(sampling options, engine options). Raises TypeError for an unknown name."""
    from structgen.engine.config import EngineConfig, SamplingParams, refuse_unknown

    of_sampling = {field.name for field in fields(SamplingParams)}
    of_engine = {field.name for field in fields(EngineConfig)} - {"model"}
    own = {"schema", "regex", "grammar", "choices", "model", "chat", "system", "show_schema", "return_exceptions"}
    known = of_sampling | of_engine | own
    _refuse_grammar_options({name: value for name, value in options.items() if name not in known})
    refuse_unknown("generate", list(options), sorted(known))
    for name, what in _NEED_LLM.items():
        if name in options:
            raise RequestError(f"{name}: generate returns one value a prompt; for {what} use LLM(...).generate")
    sampling = {name: value for name, value in options.items() if name in of_sampling}
    return sampling, {name: value for name, value in options.items() if name in of_engine}


def _refuse_grammar_options(options: dict[str, Any]) -> None:
    """Raise TypeError for an option that belongs to the making of a grammar."""
    from structgen.grammars import json_schema, lark_grammar

    for known, make in (
        (json_schema.OPTIONS, "Grammar.from_type(T, {}) or Grammar.from_json_schema(S, {})"),
        (("start", "parser", *lark_grammar.OPTIONS), "Grammar.from_lark(text, {})"),
    ):
        for name, value in options.items():
            if name in known:
                made = make.replace("{}", f"{name}={value!r}")
                raise TypeError(f"generate has no option {name!r}, which a grammar is made with: grammar={made}")


_ENGINES: dict[tuple[object, ...], LLM] = {}
_ENGINES_LOCK = threading.Lock()


def engine_for(model: str | os.PathLike[str] | LLM, options: dict[str, Any] | None = None) -> LLM:
    """The engine of a model and options: made at the first call, the same object after that.

    Raises:
        RequestError: model is something else, or an LLM together with options.
        ModelError: the model cannot be loaded.
    """
    from structgen.engine.llm import LLM

    options = options or {}
    if isinstance(model, LLM):
        if options:
            raise RequestError(f"{', '.join(sorted(options))}: the LLM given as model has its options already")
        return model
    if isinstance(model, os.PathLike):
        model = os.fspath(model)
    if not isinstance(model, str):
        raise RequestError(
            f"model is {type(model).__name__}; allowed: a folder, a GGUF file, a hub id, 'smollm2', or an LLM"
        )
    key = (model, *((name, repr(value)) for name, value in sorted(options.items())))
    with _ENGINES_LOCK:
        if key not in _ENGINES:
            _ENGINES[key] = LLM(model=model, **options)
        return _ENGINES[key]
