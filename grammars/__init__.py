"""Text -> automaton -> token mask. Imports neither torch nor the engine.

Names load when they are first used, so that ``import structgen.grammars`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from structgen.grammars.grammar import Grammar
    from structgen.grammars.matcher import CompiledGrammar, Matcher, fill_bitmasks
    from structgen.grammars.vocabulary import Vocabulary

__all__ = ["CompiledGrammar", "Grammar", "Matcher", "Vocabulary", "fill_bitmasks"]

_HOMES = {
    "CompiledGrammar": "matcher",
    "Grammar": "grammar",
    "Matcher": "matcher",
    "Vocabulary": "vocabulary",
    "fill_bitmasks": "matcher",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"structgen.grammars.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
