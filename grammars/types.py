"""Python types to JSON Schema, and generated text back to values: the face of the ``pytypes`` package.

``schema_of(T)`` is pydantic's validation schema of ``T``, made tighter where pydantic's parser demands more than its
schema says (``Decimal`` strings, ``UUID4``, integer keys, tags with a default), so that a text that satisfies it is
one that the parser takes, validators written in Python aside. What the tight schema takes, pydantic's schema takes
too, where that one describes the type rightly (it does not for naive datetimes, durations with fractions, aliases
that are paths, lengths of base64). ``value_of(T, text)`` is the way back.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

import pydantic
from pydantic_core import SchemaError, ValidationError

from structgen.errors import GrammarError, OutputValidationError, UnsupportedGrammar
from structgen.grammars.pytypes import signatures
from structgen.grammars.pytypes.adapters import adapter
from structgen.grammars.pytypes.finish import Purpose, finish
from structgen.grammars.pytypes.generator import Tuned
from structgen.grammars.pytypes.reasons import USABLE, type_name, unusable

Schema = dict[str, Any]

__all__ = ["USABLE", "Schema", "schema_of", "shown_schema_of", "type_name", "value_of"]


def schema_of(target: Any, *, closed: bool = False) -> Schema:
    """The JSON Schema (draft 2020-12) that a Python type asks for; a dict is taken as a schema already.

    Args:
        target: the type, or a function: then the schema is an object of its arguments.
        closed: the schema for writing values, not for judging texts; ``structgen.generate`` uses it. Second
            spellings are left out: keys that a model ignores (``extra="ignore"``), ``Decimal`` as a string. A set
            of arrays or objects may name an element twice, where that does not change how the type takes it.

    Raises:
        GrammarError: the type cannot be described.
        UnsupportedGrammar: it can, but not so that a grammar could enforce it (``pydantic.Json``, ``Callable``).
    """
    return _schema(target, "write" if closed else "judge")


def shown_schema_of(target: Any) -> Schema:
    """The schema to show to a language model: ``schema_of(target, closed=True)`` with names of formats and examples
    where that has long patterns. It is not enforced; raises as ``schema_of`` does."""
    return _schema(target, "show")


def _schema(target: Any, purpose: Purpose) -> Schema:
    if isinstance(target, Mapping):
        return copy.deepcopy(dict(target))
    made_for = signatures.arguments_of(target).model if signatures.is_function(target) else target
    try:
        schema = adapter(made_for).json_schema(mode="validation", schema_generator=Tuned)
    except pydantic.errors.PydanticInvalidForJsonSchema as error:
        raise UnsupportedGrammar(f"{type_name(target)}: {_culprit(target)}{error.message}") from error
    except (pydantic.errors.PydanticUserError, SchemaError) as error:  # SchemaError: of a type built only now
        raise unusable(target, error, _culprit(target)) from error
    return finish(schema, purpose)


def _culprit(target: Any) -> str:
    """The first parameter of a function that cannot be described, for a message."""
    if signatures.is_function(target):
        arguments = signatures.arguments_of(target)
        for field, info in arguments.model.model_fields.items():
            try:
                adapter(info.annotation).json_schema(schema_generator=Tuned)
            except (pydantic.errors.PydanticUserError, GrammarError):
                return f"parameter {arguments.names[field]!r}: "
    return ""


def value_of(target: Any, text: str) -> Any:
    """The value of type ``target`` that the JSON text ``text`` spells; a dict schema gives plain JSON values, a
    function the dict of its arguments (``signatures.bind`` makes a call of it).

    Raises:
        OutputValidationError: the text is not JSON, or the type's own validators refuse it.
    """
    if isinstance(target, Mapping):
        try:
            return json.loads(text)
        except ValueError as error:
            raise OutputValidationError(f"the text is not JSON: {error}", text, [str(error)]) from error
    function = signatures.arguments_of(target) if signatures.is_function(target) else None
    try:
        value = adapter(target if function is None else function.model).validate_json(text)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        lines = "; ".join(f"{_path(p['loc'])}: {p['msg']}" if p["loc"] else p["msg"] for p in problems[:3])
        more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        message = f"{type_name(target)} refuses the generated value: {lines}{more}"
        raise OutputValidationError(message, text, problems) from error
    except Exception as error:  # whatever a validator or __post_init__ raises: one value fails, not the caller
        problem = f"{type(error).__name__}: {error}"
        message = f"{type_name(target)} refuses the generated value: its code raised {problem}"
        raise OutputValidationError(message, text, [problem]) from error
    return value if function is None else signatures.values(function, value)


def _path(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in location)
