"""What callers may give to the verbs of `LLM` and `AsyncLLM`: one or many prompts, and for each its options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from structgen.engine.config import SamplingParams
from structgen.engine.front import Prompt
from structgen.engine.outputs import RequestOutput
from structgen.errors import RequestError

Prompts = Prompt | Sequence[Prompt]
Message = Mapping[str, Any]
T = TypeVar("T")

# How a request is served, whatever is sampled.
SERVING = ("priority", "timeout_s", "cache_salt")


def is_single(prompts: Any) -> bool:
    """A text, or a non-empty list of token ids."""
    if isinstance(prompts, str):
        return True
    return isinstance(prompts, Sequence) and bool(prompts) and not isinstance(prompts[0], (str, Sequence))


def as_list(prompts: Any) -> list[Any]:
    if isinstance(prompts, (bytes, Mapping)) or not isinstance(prompts, (str, Sequence)):
        raise RequestError(
            f"prompts is {type(prompts).__name__}; allowed: a text, a list of token ids, or a list of these"
        )
    return [prompts] if is_single(prompts) else list(prompts)


def one_each(name: str, given: T | Sequence[T], count: int) -> list[T]:
    if not isinstance(given, (list, tuple)):
        return [given] * count  # type: ignore[list-item]
    if len(given) != count:
        raise RequestError(f"{name} is a list of {len(given)} for {count} prompts; allowed: one for all, or one each")
    return list(given)


def params_of(given: Any, kind: type = SamplingParams) -> Any:
    """What is given as params, or the default. Raises RequestError for what is neither of ``kind`` nor a list."""
    if given is None:
        return kind()
    for params in given if isinstance(given, (list, tuple)) else [given]:
        if not isinstance(params, kind):
            name = kind.__name__
            raise RequestError(f"params is {params!r}; allowed: {name}(...), or a list with one a prompt")
    return given


def grammar_of(grammar: Any, schema: Any) -> Any:
    if schema is None:
        return grammar
    if grammar is not None:
        raise RequestError("grammar and schema are given together; give one")
    from structgen.grammars.grammar import Grammar

    # One spelling a character: small models wander off once they have begun to write \\u escapes.
    if isinstance(schema, (dict, bool)):
        return Grammar.from_json_schema(schema, escapes="canonical")
    return Grammar.from_type(schema, escapes="canonical")


def raise_failure(output: RequestOutput) -> None:
    if output.error is not None and any(one.finish_reason == "error" for one in output.outputs):
        raise output.error


def jobs_of(
    prompts: Prompts, params: Any, options: Mapping[str, Any], kind: type = SamplingParams
) -> list[tuple[Any, Any, dict[str, Any]]]:
    """Each prompt with its params and its own value of every option.

    Raises:
        RequestError: a list of another length than the prompts.
    """
    given = as_list(prompts)
    every_params = one_each("params", params_of(params, kind), len(given))
    every_option = {name: one_each(name, value, len(given)) for name, value in options.items()}
    return [
        (prompt, every_params[index], {name: values[index] for name, values in every_option.items()})
        for index, prompt in enumerate(given)
    ]


def refuse_streamed(params: SamplingParams) -> None:
    """Raise RequestError for choices that are ranked at the end, and so cannot be streamed."""
    if params.num_sequences > params.n:
        raise RequestError(
            f"best_of is {params.num_sequences} with n={params.n}: the best are known at the end only. Use generate, "
            "or stream with best_of=None"
        )
