"""The last walk over a generated schema: formats of pydantic's own, tags of unions, what is left out for writing.

There are three kinds of schema: for judging texts (all that the type takes), for writing them (``closed``: no second
spellings, no keys that the model ignores), and for showing to a language model (``shown``: as for writing, with
names of formats instead of long patterns).
"""

from __future__ import annotations

import functools
import sys
import zoneinfo
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Literal, cast

from structgen.errors import UnsupportedGrammar
from structgen.grammars.pytypes import texts
from structgen.grammars.pytypes.bounds import plain_number
from structgen.grammars.pytypes.fields import ALSO
from structgen.grammars.pytypes.generator import BYTES, DECIMAL, SET, SHOWN, TAGS, TEXT, with_patterns

Schema = dict[str, Any]
Purpose = Literal["judge", "write", "show"]

_SUBSCHEMA = ("items", "additionalProperties", "propertyNames", "contains", "not", "if", "then", "else")
_SUBSCHEMA_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_SUBSCHEMA_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_RAW = {
    "ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum", "multiple_of": "multipleOf",
}  # fmt: skip


def finish(schema: Schema, purpose: Purpose) -> Schema:
    """``schema`` without private keywords and without definitions that nothing needs."""
    return _Walk(schema, purpose).run()


class _Walk:
    def __init__(self, schema: Schema, purpose: Purpose) -> None:
        self.schema = schema
        self.purpose = purpose
        self.closed = purpose != "judge"
        self.definitions: Schema = dict(schema.get("$defs", {}))

    def run(self) -> Schema:
        made = cast(Schema, self.walk(self.schema))
        definitions = made.pop("$defs", {})
        used = _reachable(made, definitions)
        if used:
            made["$defs"] = {name: part for name, part in definitions.items() if name in used}
        return made

    def walk(self, node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        node = _bounded_union(node)
        made: Schema = {}
        for keyword, value in node.items():
            if keyword in _SUBSCHEMA_MAPS:
                made[keyword] = {name: self.walk(part) for name, part in value.items()}
            elif keyword in _SUBSCHEMA_LISTS:
                made[keyword] = [self.walk(part) for part in value]
            elif keyword in _SUBSCHEMA:
                made[keyword] = self.walk(value)
            elif keyword != SHOWN:
                made[keyword] = value
        made = self.at(made)
        if SHOWN in node and self.purpose == "show":
            made.pop("pattern", None)
            made.pop("allOf", None)
            made.update({key: value for key, value in node[SHOWN].items() if key not in made or key == "format"})
        return made

    def at(self, node: Schema) -> Schema:
        if TAGS in node:
            tags = node.pop(TAGS)
            if tags:
                node["anyOf"] = [self.tagged(branch, tags) for branch in node["anyOf"]]
        if DECIMAL in node:
            node = self.decimal(node)
        if BYTES in node:
            node = _bytes(node)
        if "format" in node:
            node = _formatted(node, self.purpose)
        node.pop(TEXT, None)
        if node.pop(SET, False) and self.closed and node.get("minItems", 0) <= 1 and not self.scalar(node["items"]):
            # An array or object that is one item already shows only at its end, too late to write another.
            node.pop("uniqueItems", None)
        also = node.pop(ALSO, ())
        if self.purpose == "show":
            for keyword, most in (("minimum", -sys.float_info.max), ("maximum", sys.float_info.max)):
                if node.get(keyword) == most:
                    del node[keyword]
        if self.closed:
            if "prefixItems" in node and "items" not in node and "maxItems" not in node:
                node["items"] = False
            for name in also:
                del node["properties"][name]
            if (
                node.get("type") == "object" and "properties" in node
                and "additionalProperties" not in node and "patternProperties" not in node
            ):  # fmt: skip
                node["additionalProperties"] = False
        return node

    def scalar(self, node: Any, depth: int = 0) -> bool:
        """Whether no array or object satisfies ``node``, as far as its types say."""
        if not isinstance(node, dict) or depth > 20:
            return False
        reference = str(node.get("$ref", ""))
        if reference.startswith("#/$defs/"):
            return self.scalar(self.definitions[reference.removeprefix("#/$defs/")], depth + 1)
        if "anyOf" in node:
            return all(self.scalar(part, depth + 1) for part in node["anyOf"])
        types = node.get("type", [])
        types = types if isinstance(types, list) else [types]
        return "enum" in node or "const" in node or (bool(types) and not {"array", "object"} & {*types})

    def decimal(self, node: Schema) -> Schema:
        """A Decimal: [numbers..., text]. The text is left out for writing."""
        numbers = node.pop(DECIMAL)
        if not self.closed:
            return node
        kept = node.pop("anyOf")[:numbers]
        return {**kept[0], **node} if len(kept) == 1 else {**node, "anyOf": kept}

    def tagged(self, branch: Schema, tags: list[str]) -> Schema:
        """``branch`` with its tag required: a tag with a default is optional in a model, never in a union."""
        reference = branch.get("$ref", "")
        target = branch
        if reference.startswith("#/$defs/") and len(branch) == 1:
            target = self.definitions[reference.removeprefix("#/$defs/")]
        if "anyOf" in target:
            if target is not branch:
                target = cast(Schema, self.walk(target))
            return {**target, "anyOf": [self.tagged(part, tags) for part in target["anyOf"]]}
        properties = target.get("properties", {})
        tag = next((name for name in tags if name in properties and name not in target.get(ALSO, ())), None)
        if tag is None or tag in target.get("required", ()):
            return branch
        if target is not branch:
            target = cast(Schema, self.walk(target))
        required = [n for n in target["properties"] if n == tag or n in target.get("required", ())]
        return {**target, "required": required}


def _bounded_union(node: Schema) -> Schema:
    """``Annotated[int | Decimal, Field(gt=3)]``: pydantic leaves ``gt`` on the union, a keyword that does not exist.
    Texts of decimals, which it would not reach, are left out."""
    raw = [key for key in _RAW if key in node and "anyOf" in node]
    if not raw:
        return node
    made = {key: value for key, value in node.items() if key not in raw}
    made.update({_RAW[key]: plain_number(node[key]) for key in raw if isinstance(node[key], (int, float, Decimal))})
    made["anyOf"] = [
        {**{key: value for key, value in part.items() if key != DECIMAL}, "anyOf": part["anyOf"][: part[DECIMAL]]}
        if isinstance(part, dict) and DECIMAL in part else part
        for part in node["anyOf"]
    ]  # fmt: skip
    return made


def _reachable(schema: Schema, definitions: Schema) -> set[str]:
    """Names of the definitions that ``schema`` needs."""
    found: set[str] = set()
    waiting: list[Any] = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            reference = node.get("$ref")
            if isinstance(reference, str):
                name = reference.removeprefix("#/$defs/")
                if name in definitions and name not in found:
                    found.add(name)
                    waiting.append(definitions[name])
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
    return found


# ------------------------------------------------------------------------------------------------ formats

_ENCODED = ("base64", "base64url")
_NO_RULES = ("path", "file-path", "directory-path", "new-path", "binary", "password")
_PATTERNS: dict[str, Callable[[], str]] = {
    "ipv4interface": lambda: texts.IPV4_INTERFACE,
    "ipv4network": texts.ipv4_networks,
    "ipv6interface": lambda: texts.IPV6_INTERFACE,
    "ipv6network": texts.ipv6_networks,
    "fraction": lambda: texts.FRACTION,
    "ipvanyaddress": lambda: f"(?:{texts.IPV4}|{texts.IPV6})",
    "ipvanyinterface": lambda: f"(?:{texts.IPV4_INTERFACE}|{texts.IPV6_INTERFACE})",
    "ipvanynetwork": lambda: f"(?:{texts.ipv4_networks()}|{texts.ipv6_networks()})",
}
_SHOWN = {
    "fraction": "like 1/3",
    "ipv4interface": "an IPv4 address with a prefix length, like 10.0.0.1/8",
    "ipv4network": "an IPv4 network, like 10.0.0.0/8",
    "ipv6interface": "an IPv6 address with a prefix length, like 2001:db8::1/32",
    "ipv6network": "an IPv6 network, like 2001:db8::/32",
    "ipvanyaddress": "an IPv4 or IPv6 address",
    "ipvanyinterface": "an IPv4 or IPv6 address with a prefix length",
    "ipvanynetwork": "an IPv4 or IPv6 network",
    "name-email": "like Jane Doe <jane.doe@example.org>",
}


def _formatted(node: Schema, purpose: Purpose) -> Schema:
    """Formats of pydantic's own, as keywords that a grammar can enforce."""
    name = node["format"]
    rest = {key: value for key, value in node.items() if key != "format"}
    if not isinstance(name, str):
        return node
    if name in _NO_RULES:
        return rest
    if name in _ENCODED:
        return _base64(rest, name, purpose)
    if purpose == "show" and name in _SHOWN:
        return {**rest, "description": rest.get("description", _SHOWN[name])}
    if name == "zoneinfo":
        return {**rest, "enum": list(_zones())} if purpose != "show" else {**rest, "description": "like Europe/Paris"}
    pattern = None
    if name in _PATTERNS:
        pattern = _PATTERNS[name]()
        rest.setdefault("type", "string")
    elif name.startswith("uuid") and name[4:].isdigit():
        if purpose == "show":
            return node
        pattern = texts.uuid(name[4:])
    elif name in ("email", "name-email") and purpose != "show":
        return _mail(rest, name)
    if pattern is None or "pattern" in rest:
        return node
    return {**rest, "pattern": f"^{pattern}$"}


def _bytes(node: Schema) -> Schema:
    """Bytes as text, whose lengths in ``node`` are numbers of bytes."""
    form, low, high = node.pop(BYTES)
    if node.get("format") in _ENCODED:  # Base64Bytes: lengths in node are those of what is decoded
        if form in ("base64", "hex"):
            raise UnsupportedGrammar(
                f"Base64Bytes where val_json_bytes={form!r} is encoded twice, which is not built; use bytes there"
            )
        inner = {"minLength": low} if low else {}
        inner.update({} if high is None else {"maxLength": high})
        return {**node, "allOf": [inner]} if inner else node
    low = max(low, node.pop("minLength", 0))
    highs = [most for most in (high, node.pop("maxLength", None)) if most is not None]
    high = min(highs, default=None)
    if form == "base64":
        patterns = [texts.base64(low, high, url=True, text=False)]
    elif form == "hex":
        patterns = [texts.hexadecimal(low, high)]
    else:  # UTF-8: only ASCII has one byte for each character
        patterns = [] if high is None else [texts.ASCII]
        node.update({"minLength": low} if low else {})
        node.update({} if high is None else {"maxLength": high})
    return with_patterns(node, [f"^{text}$" for text in patterns])


def _base64(rest: Schema, name: str, purpose: Purpose) -> Schema:
    # Lengths are those of what is decoded.
    low, high = rest.pop("minLength", 0), rest.pop("maxLength", None)
    text = rest.pop(TEXT, False)
    if purpose == "show":
        return {**rest, "contentEncoding": name}
    if "pattern" in rest:
        return rest
    return {**rest, "pattern": f"^{texts.base64(low, high, url=name == 'base64url', text=text)}$"}


@functools.lru_cache(maxsize=1)
def _zones() -> tuple[str, ...]:
    zones = tuple(sorted(zoneinfo.available_timezones()))
    if not zones:
        raise UnsupportedGrammar("ZoneInfo: no time zone data is installed; install the package tzdata")
    return zones


def _mail(rest: Schema, name: str) -> Schema:
    if "pattern" in rest:
        return {**rest, "format": "email"} if name == "email" else rest
    if name == "email":
        return {**rest, "pattern": f"^{texts.emails()}$"}
    return {**rest, "pattern": f"^{texts.named_emails()}$"}
