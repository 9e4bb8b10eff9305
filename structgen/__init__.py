"""structgen: structured generation on its own inference core.

The public names are those of ``__all__``. Each loads its module when it is first used, so that ``import structgen``
costs nothing and the grammar half never imports torch.

>>> import structgen as sg
>>> sg.Grammar.from_regex(r"[a-c]+").matches("abc")
True
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.1.0"

TYPE_CHECKING = False  # type checkers read it as true; importing typing would be most of this module's time
if TYPE_CHECKING:
    from typing import Any

    from structgen.api import generate
    from structgen.engine.async_llm import AsyncLLM
    from structgen.engine.beam import BeamSearchParams
    from structgen.engine.config import SamplingParams
    from structgen.engine.llm import LLM
    from structgen.engine.metrics import RequestMetrics
    from structgen.engine.outputs import CompletionOutput, RequestOutput, StreamEvent
    from structgen.errors import (
        GrammarError,
        GrammarTooComplex,
        IncompleteOutput,
        ModelError,
        OutputValidationError,
        RequestError,
        StructgenError,
        UnsatisfiableGrammar,
        UnsupportedGrammar,
    )
    from structgen.grammars.grammar import Grammar
    from structgen.grammars.matcher import CompiledGrammar, Matcher, fill_bitmasks
    from structgen.grammars.vocabulary import Vocabulary

__all__ = [
    "LLM",
    "AsyncLLM",
    "BeamSearchParams",
    "CompiledGrammar",
    "CompletionOutput",
    "Grammar",
    "GrammarError",
    "GrammarTooComplex",
    "IncompleteOutput",
    "Matcher",
    "ModelError",
    "OutputValidationError",
    "RequestError",
    "RequestMetrics",
    "RequestOutput",
    "SamplingParams",
    "StreamEvent",
    "StructgenError",
    "UnsatisfiableGrammar",
    "UnsupportedGrammar",
    "Vocabulary",
    "__version__",
    "fill_bitmasks",
    "generate",
]

_HOMES = {
    "structgen.api": ("generate",),
    "structgen.engine.async_llm": ("AsyncLLM",),
    "structgen.engine.beam": ("BeamSearchParams",),
    "structgen.engine.config": ("SamplingParams",),
    "structgen.engine.llm": ("LLM",),
    "structgen.engine.metrics": ("RequestMetrics",),
    "structgen.engine.outputs": ("CompletionOutput", "RequestOutput", "StreamEvent"),
    "structgen.errors": (
        "GrammarError",
        "GrammarTooComplex",
        "IncompleteOutput",
        "ModelError",
        "OutputValidationError",
        "RequestError",
        "StructgenError",
        "UnsatisfiableGrammar",
        "UnsupportedGrammar",
    ),
    "structgen.grammars.grammar": ("Grammar",),
    "structgen.grammars.matcher": ("CompiledGrammar", "Matcher", "fill_bitmasks"),
    "structgen.grammars.vocabulary": ("Vocabulary",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'structgen' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value  # the next use finds it without this function
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
