"""Choices: one of a list of texts."""

from __future__ import annotations

from collections.abc import Sequence

from structgen.errors import GrammarError, UnsatisfiableGrammar
from structgen.grammars.encoding import UTF8
from structgen.grammars.machine import Terminal
from structgen.grammars.residual import state


def machine(texts: Sequence[str]) -> Terminal:
    """The machine that accepts exactly the given texts; doubles do no harm.

    Raises:
        GrammarError: not a list of str, or a text that UTF-8 cannot spell (a lone surrogate).
        UnsatisfiableGrammar: the list is empty.
    """
    if isinstance(texts, (str, bytes)) or not isinstance(texts, Sequence):
        raise GrammarError(f"choices must be a list of str, not {type(texts).__name__}")
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise GrammarError(f"choice {i} must be a str, not {text!r}")
        if any(0xD800 <= ord(char) <= 0xDFFF for char in text):
            raise GrammarError(f"choice {i} holds a lone surrogate, which no text can: {text!r}")
    if not texts:
        raise UnsatisfiableGrammar("the list of choices is empty; give at least one text")
    found = state(UTF8.words(dict.fromkeys(texts, 0)))
    assert found is not None
    return Terminal(found)
