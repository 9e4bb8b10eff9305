"""The tree of exceptions.

    StructgenError
    |-- GrammarError (also ValueError)      a grammar, schema or regex cannot be used
    |   |-- UnsatisfiableGrammar            nothing can satisfy it
    |   |-- UnsupportedGrammar              a known feature that is not built
    |   `-- GrammarTooComplex               a limit was reached; the message names it
    |-- ModelError (also ValueError)        a model or tokenizer cannot be loaded
    `-- RequestError (also ValueError)      one request cannot be served; others go on
        |-- IncompleteOutput                cut before the constraint was complete
        `-- OutputValidationError           the type's own validators refuse the value

This module imports nothing, so every package may import it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class StructgenError(Exception):
    """Base of every error that structgen raises on purpose."""


class GrammarError(StructgenError, ValueError):
    """A grammar, schema or regex cannot be used.

    Attributes:
        pointer: JSON pointer of the place in a schema (``"#/properties/a"``), else None.
        line: 1-based line in a grammar or regex text, else None.
        column: 1-based column in that line, else None.
    """

    def __init__(
        self,
        message: str,
        *,
        pointer: str | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        place = ""
        if pointer is not None:
            place = f"at {pointer}: "
        elif line is not None:
            place = f"line {line}, column {column}: " if column is not None else f"line {line}: "
        super().__init__(place + message)
        self.pointer = pointer
        self.line = line
        self.column = column


class UnsatisfiableGrammar(GrammarError):
    """No text satisfies the grammar; the message names the conflict."""


class UnsupportedGrammar(GrammarError):
    """A known feature that structgen does not build yet; it is refused, never skipped."""


class GrammarTooComplex(GrammarError):
    """A limit on states, steps or size was reached; the message names which."""


class ModelError(StructgenError, ValueError):
    """A model or tokenizer cannot be found or loaded; the message says how to get one."""


class RequestError(StructgenError, ValueError):
    """One request cannot be served. Other requests of the batch go on."""


class IncompleteOutput(RequestError):
    """Generation was cut (``max_tokens``, stop string, abort) before the constraint was complete.

    Attributes:
        text: what was generated so far.
    """

    def __init__(self, message: str, text: str = "") -> None:
        super().__init__(message)
        self.text = text


class OutputValidationError(RequestError):
    """The text satisfies the schema, but the type's own validators refuse the value.

    Attributes:
        text: the generated text.
        errors: what the validators said.
    """

    def __init__(self, message: str, text: str = "", errors: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.text = text
        self.errors = list(errors)
