"""Drafts of JSON Schema, and dialects: a draft with the vocabularies that a metaschema switches on."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

from structgen.errors import GrammarError, UnsupportedGrammar


class Draft(IntEnum):
    D4 = 4
    D6 = 6
    D7 = 7
    D2019 = 2019
    D2020 = 2020

    @property
    def uri(self) -> str:
        return _URIS[self]


_URIS = {
    Draft.D4: "http://json-schema.org/draft-04/schema",
    Draft.D6: "http://json-schema.org/draft-06/schema",
    Draft.D7: "http://json-schema.org/draft-07/schema",
    Draft.D2019: "https://json-schema.org/draft/2019-09/schema",
    Draft.D2020: "https://json-schema.org/draft/2020-12/schema",
}
_NAMES = {"4": Draft.D4, "6": Draft.D6, "7": Draft.D7, "2019-09": Draft.D2019, "2020-12": Draft.D2020}
_KNOWN = ", ".join(repr(name) for name in _NAMES)
_BY_URI = {uri.replace("https://", "http://"): draft for draft, uri in _URIS.items()}


def draft_named(name: object) -> Draft:
    """The draft that a caller names: ``"7"``, ``7``, ``"draft-07"``, ``"draft7"`` or its URI."""
    text = str(name).rstrip("#")
    by_uri = draft_at(text)
    if by_uri is not None:
        return by_uri
    short = text.lower().removeprefix("draft").lstrip("-").lstrip("0")
    if short in _NAMES:
        return _NAMES[short]
    raise GrammarError(f"unknown draft {name!r}; known: {_KNOWN}")


def draft_at(uri: Any) -> Draft | None:
    """The draft whose metaschema has this URI (with or without ``#``, ``http`` or ``https``)."""
    return _BY_URI.get(uri.rstrip("#").replace("https://", "http://")) if isinstance(uri, str) else None


_VALIDATION = frozenset(
    (
        "type",
        "enum",
        "const",
        "multipleOf",
        "maximum",
        "exclusiveMaximum",
        "minimum",
        "exclusiveMinimum",
        "maxLength",
        "minLength",
        "pattern",
        "maxItems",
        "minItems",
        "uniqueItems",
        "maxContains",
        "minContains",
        "maxProperties",
        "minProperties",
        "required",
        "dependentRequired",
    )
)
_APPLICATOR = frozenset(
    (
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "then",
        "else",
        "dependentSchemas",
        "prefixItems",
        "items",
        "additionalItems",
        "contains",
        "properties",
        "patternProperties",
        "additionalProperties",
        "propertyNames",
    )
)
_UNEVALUATED = frozenset(("unevaluatedItems", "unevaluatedProperties"))
_NOTHING: frozenset[str] = frozenset()

# The keywords of each vocabulary that a metaschema may leave out. The core counts always; format is asserted by
# option, whatever the vocabulary (draft 2020-12 has one each for asserting and annotating).
_VOCABULARIES: dict[Draft, dict[str, frozenset[str]]] = {
    Draft.D2019: {
        "core": _NOTHING,
        "applicator": _APPLICATOR | _UNEVALUATED,
        "validation": _VALIDATION,
        "meta-data": _NOTHING,
        "format": _NOTHING,
        "content": _NOTHING,
    },
    Draft.D2020: {
        "core": _NOTHING,
        "applicator": _APPLICATOR,
        "unevaluated": _UNEVALUATED,
        "validation": _VALIDATION,
        "meta-data": _NOTHING,
        "format-annotation": _NOTHING,
        "format-assertion": _NOTHING,
        "content": _NOTHING,
    },
}


class Dialect(NamedTuple):
    """How a schema resource is read.

    Attributes:
        draft: its draft.
        left_out: keywords of vocabularies that its metaschema does not switch on; they are annotations.
    """

    draft: Draft
    left_out: frozenset[str] = frozenset()


def dialect_at(uri: Any, pointer: str, contents: Callable[[str], Any]) -> Dialect:
    """The dialect that ``$schema`` names: a draft, or a metaschema of somebody's own whose ``$schema`` leads to a
    draft and whose ``$vocabulary`` says what counts (2020-12 core, section 8.1.2).

    Args:
        uri: the value of ``$schema``.
        pointer: where it stands, for messages.
        contents: the document at a URI, or None where there is none.

    Raises:
        GrammarError: ``uri`` or the metaschema is malformed.
        UnsupportedGrammar: no draft is known by it, or it requires an unknown vocabulary.
    """
    seen: list[str] = []
    metaschema: Any = None
    at = uri
    while draft_at(at) is None:
        if not isinstance(at, str):
            raise GrammarError(f"$schema must be a string with a draft's URI, not {at!r}", pointer=pointer)
        found = None if at in seen else contents(at.rstrip("#"))
        seen.append(at)
        if not isinstance(found, dict) or "$schema" not in found:
            raise UnsupportedGrammar(_unknown(uri, seen, found), pointer=pointer)
        metaschema = found if metaschema is None else metaschema
        at = found["$schema"]
    draft = draft_at(at)
    assert draft is not None
    if metaschema is None or "$vocabulary" not in metaschema or draft not in _VOCABULARIES:
        return Dialect(draft)
    return Dialect(draft, _left_out(draft, uri, metaschema["$vocabulary"], pointer))


def _unknown(uri: str, seen: list[str], found: Any) -> str:
    if len(seen) > 1 or isinstance(found, dict):
        why = f"$schema {uri!r} leads to no known draft: the metaschema {seen[-1]!r} has no $schema that does"
    else:
        why = f"$schema {uri!r} names no known draft"
    return (
        f"{why}; known: {', '.join(_URIS.values())}. Give draft=... to read it as one of them, or registry= a "
        "referencing.Registry that holds its metaschema."
    )


def _left_out(draft: Draft, uri: str, vocabulary: Any, pointer: str) -> frozenset[str]:
    if not isinstance(vocabulary, dict) or not all(isinstance(each, bool) for each in vocabulary.values()):
        raise GrammarError(
            f"$vocabulary of the metaschema {uri!r} must be an object of true and false, not {vocabulary!r:.80}",
            pointer=pointer,
        )
    known = _VOCABULARIES[draft]
    base = f"{draft.uri.rpartition('/')[0]}/vocab/"
    on = set()
    for name, required in vocabulary.items():
        short = name.removeprefix(base)
        if short in known:
            on.add(short)
        elif required:
            raise UnsupportedGrammar(
                f"the metaschema {uri!r} requires the vocabulary {name!r}, which is unknown; known: "
                f"{base}{{{','.join(known)}}}. Where its keywords may be ignored, its $vocabulary says false.",
                pointer=pointer,
            )
    counted = frozenset[str]().union(*(known[each] for each in on))
    return frozenset[str]().union(*known.values()) - counted


_DATA = ("enum", "const", "default", "example", "examples")
"""Keywords whose values are no schemas."""


def newest_draft(schema: Any) -> Draft:
    """The newest draft in which a schema without ``$schema`` has a meaning (see ``guessed_draft``)."""
    draft = Draft.D2020
    stack = [schema]
    while stack:
        at = stack.pop()
        if isinstance(at, dict):
            for key, value in at.items():
                kind = type(value)
                if kind is bool:
                    if key in ("exclusiveMinimum", "exclusiveMaximum"):
                        return Draft.D4
                elif kind is not str and kind is not int and key not in _DATA:
                    if key == "items" and isinstance(value, list):
                        draft = Draft.D2019
                    stack.append(value)
        elif isinstance(at, list):
            stack += [each for each in at if type(each) is not str]
    return draft


def guessed_draft(schema: Any) -> tuple[Draft, str | None]:
    """The newest draft in which a schema without ``$schema`` has a meaning, and the pointer of what decided it: a
    boolean ``exclusiveMinimum`` is draft 4's, an array of ``items`` ended with 2019-09."""
    draft, reason = Draft.D2020, None
    queue = [(schema, "#")]
    while queue:
        at, pointer = queue.pop()
        if isinstance(at, dict):
            for key, value in at.items():
                if key in ("exclusiveMinimum", "exclusiveMaximum") and isinstance(value, bool):
                    return Draft.D4, f"{pointer}/{key}"
                if key == "items" and isinstance(value, list):
                    draft, reason = Draft.D2019, f"{pointer}/items"
                if key not in _DATA:
                    queue.append((value, f"{pointer}/{escaped(key)}"))
        elif isinstance(at, list):
            queue.extend((each, f"{pointer}/{i}") for i, each in enumerate(at))
    return draft, reason


def escaped(token: str) -> str:
    """A JSON pointer token (RFC 6901), for messages."""
    return token.replace("~", "~0").replace("/", "~1") if "~" in token or "/" in token else token
