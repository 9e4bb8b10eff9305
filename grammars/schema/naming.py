"""Names in schemas: what an unknown one may be meant for, and why a known one counts for nothing."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from decimal import Decimal
from functools import lru_cache
from typing import Any

from structgen.grammars import formats
from structgen.grammars.schema.dialects import Draft
from structgen.grammars.schema.document import Place
from structgen.grammars.schema.keywords import READERS, STRUCTURE

ANNOTATIONS = frozenset(
    (
        "title",
        "description",
        "default",
        "examples",
        "example",
        "$comment",
        "deprecated",
        "readOnly",
        "writeOnly",
        "xml",
        "externalDocs",
    )
)
"""Keywords that nobody takes for a demand."""

_CONTENT = ("contentEncoding", "contentMediaType", "contentSchema")
_OPENAPI = ("nullable", "discriminator")
_KNOWN = (*READERS, *STRUCTURE, *ANNOTATIONS, *_CONTENT, *_OPENAPI, "format")
_SPELLED = {Draft.D4: "4", Draft.D6: "6", Draft.D7: "7", Draft.D2019: "2019-09", Draft.D2020: "2020-12"}


def near(name: str, known: Iterable[str]) -> str | None:
    """The name among ``known`` that ``name`` is probably meant for."""
    by_case = {each.lower(): each for each in known}
    if name.lower() in by_case:
        return by_case[name.lower()]
    found = difflib.get_close_matches(name.lower(), by_case, 1, 0.75)
    return by_case[found[0]] if found else None


@lru_cache(maxsize=1024)
def _near_keyword(keyword: str) -> str | None:
    return near(keyword, _KNOWN)


def shown(value: Any, most: int = 40) -> str:
    """A JSON value for a message, cut when it is long."""
    text = json.dumps(value, ensure_ascii=False, default=lambda each: float(each) if isinstance(each, Decimal) else "?")
    return text if len(text) <= most else text[: most - 3] + "..."


def annotation(place: Place, keyword: str) -> tuple[str, str, str] | None:
    """Why ``keyword``, an annotation at ``place``, is worth a lint: its kind, what is so, and what to do. None for
    titles and the like, and for extensions (``x-...``)."""
    draft = place.scope.draft
    if keyword in ANNOTATIONS or keyword.startswith("x-"):
        return None
    if draft <= Draft.D7 and "$ref" in place.contents:
        return (
            "not enforced",
            f"{keyword} stands beside $ref, where draft {_SPELLED[draft]} ignores it",
            'put the $ref into "allOf", or read as draft 2019-09 or later',
        )
    value = place.contents[keyword]
    if keyword == "format":
        return _format(place, value)
    if keyword == "nullable":
        if value is False:
            return None
        return "not enforced", "nullable is OpenAPI's and adds nothing here: null is no value of this", _null(place)
    if keyword == "discriminator":
        return None  # its branches are looked at instead
    if keyword in _CONTENT:
        return "not enforced", f"{keyword} is an annotation: what the string holds is not checked", "add a pattern"
    if keyword in place.scope.dialect.left_out:
        return "not enforced", f"the metaschema's $vocabulary leaves {keyword} out", "add its vocabulary there"
    span = READERS[keyword][1] if keyword in READERS else STRUCTURE.get(keyword)
    if span is not None and not span[0] <= draft <= span[1]:
        first, last = (_SPELLED[each] for each in span)
        drafts = f"draft {first}" if first == last else f"drafts {first} to {last}"
        return "not enforced", f"{keyword} belongs to {drafts}; this is read as draft {_SPELLED[draft]}", "set $schema"
    if span is not None:
        return "not enforced", f"{keyword} demands nothing without the keyword that it goes with", _partner(keyword)
    meant = _near_keyword(keyword)
    if meant is not None:
        return "unknown keyword", f"{keyword} is no keyword of JSON Schema", f"did you mean {meant}?"
    return "unknown keyword", f"{keyword} is no keyword of JSON Schema", "x-... marks it as your own"


def _format(place: Place, value: Any) -> tuple[str, str, str]:
    if not place.document.assert_formats:
        return "not enforced", "formats are annotations by option", "format_assertion=True"
    meant = near(str(value), formats.FORMATS)
    advice = f"did you mean {meant!r}?" if meant else "add a pattern"
    return "format unknown", f"format {value!r} is none of JSON Schema's; nothing is checked", advice


def _null(place: Place) -> str:
    kind = place.contents.get("type")
    return f'"type": ["{kind}", "null"]' if isinstance(kind, str) else '"anyOf": [..., {"type": "null"}]'


def _partner(keyword: str) -> str:
    partner = {"then": "if", "else": "if", "minContains": "contains", "maxContains": "contains"}.get(keyword)
    if partner is None:
        partner = "an array of items" if keyword == "additionalItems" else "m" + keyword.removeprefix("exclusiveM")
    return f"add {partner}, or take it out"


def anchors(pattern: str) -> tuple[bool, bool]:
    """Whether an ECMA pattern is tied to the start, and to the end, of the text in every alternative. Where that is
    hard to see (an anchor inside a group), it may be so and count as not."""
    pattern = _without_group(pattern)
    parts = _alternatives(pattern)
    starts = all(part.startswith(("^", r"\A")) for part in parts)
    ends = all(part.endswith("$") and not _escaped(part, len(part) - 1) for part in parts)
    if len(parts) == 1 or (starts and ends):
        return starts, ends
    inner = [anchors(part) if _without_group(part) != part else None for part in parts]
    if all(inner):
        return all(each is not None and each[0] for each in inner), all(each is not None and each[1] for each in inner)
    return starts, ends


def _without_group(pattern: str) -> str:
    """The inside of a pattern that is one group."""
    while pattern.startswith("(") and pattern.endswith(")") and not _escaped(pattern, len(pattern) - 1):
        begin = 3 if pattern.startswith("(?:") else 1
        if pattern[begin : begin + 1] == "?" or _depth_zero_inside(pattern):
            break
        pattern = pattern[begin:-1]
    return pattern


def _escaped(text: str, at: int) -> bool:
    before = at
    while before and text[before - 1] == "\\":
        before -= 1
    return (at - before) % 2 == 1


def _depths(pattern: str) -> Iterable[tuple[int, str, int]]:
    """Index, character and depth of groups before it, outside classes and escapes."""
    depth, at, in_class = 0, 0, False
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 2
            continue
        if in_class:
            in_class = char != "]"
        elif char == "[":
            in_class = True
        else:
            if char == ")":
                depth -= 1
            yield at, char, depth
            if char == "(":
                depth += 1
        at += 1


def _depth_zero_inside(pattern: str) -> bool:
    """Whether the first group ends before the pattern does."""
    return any(char == ")" and depth == 0 and at < len(pattern) - 1 for at, char, depth in _depths(pattern))


def _alternatives(pattern: str) -> list[str]:
    cuts = [at for at, char, depth in _depths(pattern) if char == "|" and depth == 0]
    return [pattern[i + 1 : j] for i, j in zip([-1, *cuts], [*cuts, len(pattern)], strict=True)]
