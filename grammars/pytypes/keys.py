"""Keys of dicts: JSON has text there, whatever the type of the key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from typing import Any

from pydantic_core import SchemaValidator, ValidationError, core_schema

from structgen.errors import UnsupportedGrammar
from structgen.grammars.pytypes import texts
from structgen.grammars.pytypes.ranges import integers

Schema = dict[str, Any]

_STRINGS = frozenset({
    "date", "datetime", "time", "timedelta", "uuid", "url", "multi-host-url", "complex", "bytes", "function-plain",
    "is-instance",
})  # fmt: skip
_WRAPPERS = {
    "function-after": "schema", "function-before": "schema", "function-wrap": "schema", "default": "schema",
    "custom-error": "schema", "nullable": "schema", "json-or-python": "json_schema", "lax-or-strict": "lax_schema",
}  # fmt: skip


def bare(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """A core schema without what only wraps it."""
    while schema is not None:
        kind = schema["type"]
        if kind in _WRAPPERS:
            schema = schema[_WRAPPERS[kind]]
        elif kind == "chain":
            schema = schema["steps"][0]
        elif kind == "definitions":
            schema = schema["schema"]
        elif kind == "definition-ref" and schema["schema_ref"] in definitions:
            schema = definitions[schema["schema_ref"]]
        else:
            return schema
    return None


def text_keys(schema: Any, definitions: Mapping[str, Any]) -> bool:
    """Whether the keys are plain text, which pydantic describes itself."""
    inner = bare(schema, definitions)
    return inner is None or inner["type"] in ("str", "any")


def key_schema(schema: Any, definitions: Mapping[str, Any], described: Schema) -> Schema:
    """``propertyNames`` of keys that are no text in Python.

    Args:
        described: the schema of such a value where it stands as a value.

    Raises:
        UnsupportedGrammar: no text gives such a key.
    """
    inner = bare(schema, definitions)
    kind = inner["type"]
    if kind == "int":
        return _pattern(_integer_keys(inner))
    if kind == "float":
        return _pattern(texts.FLOAT)
    if kind == "bool":
        return {"enum": ["true", "false"]}
    if kind in ("literal", "enum"):
        return {"enum": _spelled(schema, inner)}
    if kind in ("union", "tagged-union"):
        choices = inner["choices"].values() if kind == "tagged-union" else inner["choices"]
        parts = []
        for choice in choices:
            core = choice[0] if isinstance(choice, tuple) else choice
            parts.append({} if text_keys(core, definitions) else key_schema(core, definitions, described))
        return {} if {} in parts else {"anyOf": parts}
    if kind == "decimal" or kind == "fraction":
        return next(part for part in described["anyOf"] if part.get("type") == "string")
    if described.get("type") == "string" or (kind in _STRINGS and "anyOf" in described):
        return described
    raise UnsupportedGrammar(f"dict keys of kind {kind!r} cannot be read from JSON; use str keys")


def _pattern(text: str) -> Schema:
    return {"pattern": f"^{text}$"}


def _integer_keys(schema: core_schema.IntSchema) -> str:
    low = _first([schema.get("ge"), None if schema.get("gt") is None else schema["gt"] + 1], max)
    high = _first([schema.get("le"), None if schema.get("lt") is None else schema["lt"] - 1], min)
    return integers(low, high) or "(?!)"


def _first(bounds: list[int | None], choose: Any) -> int | None:
    known = [int(Decimal(bound)) for bound in bounds if bound is not None]
    return choose(known) if known else None


def _spelled(schema: Any, inner: Any) -> list[str]:
    """The texts that give the members of a Literal or an Enum."""
    members = inner["expected"] if inner["type"] == "literal" else inner["members"]
    validator = SchemaValidator(core_schema.dict_schema(keys_schema=inner, values_schema=core_schema.any_schema()))
    found = []
    for member in members:
        value = member.value if isinstance(member, Enum) else member
        text = value if isinstance(value, str) else json.dumps(value) if isinstance(value, (bool, int, float)) else None
        try:
            if text is None:
                raise UnsupportedGrammar("")
            validator.validate_json(json.dumps({text: 0}))
        except (ValidationError, UnsupportedGrammar):
            raise UnsupportedGrammar(
                f"{member!r} as a key of a dict cannot be read from JSON, whose keys are text; use str keys"
            ) from None
        found.append(text)
    return found
