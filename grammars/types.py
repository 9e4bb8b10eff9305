"""Python types to JSON Schema, and generated text back to values.

``schema_of(T)`` is pydantic's validation schema of ``T``, made tighter where pydantic's parser demands more
than its schema says (``Decimal`` strings, ``UUID4``, integer keys, tags with a default). What the tight
schema takes, pydantic's schema takes too; the one exception is naive datetimes, where those share no value.
``value_of(T, text)`` is the way back.
"""

from __future__ import annotations

import copy
import functools
import json
import operator
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, cast

import pydantic
import typing_extensions
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import ValidationError, core_schema

from structgen.errors import GrammarError, OutputValidationError, UnsupportedGrammar

Schema = dict[str, Any]

USABLE = (
    "pydantic models, dataclasses, TypedDict, NamedTuple, Enum, Literal, Optional and unions, list, tuple, "
    "set, dict, Annotated, str, int, float, bool, None, Decimal, datetime, date, time, timedelta, UUID, "
    "bytes and other types that pydantic can describe; or a JSON Schema as a dict"
)

_NUMBER_TEXT = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_KEYS = {
    "int": "^[+-]?[0-9]+$",
    "float": f"^{_NUMBER_TEXT}$",
    "decimal": f"^{_NUMBER_TEXT}$",
    "bool": "^(?:true|false)$",
}
_NAIVE_DATETIME = (
    r"^(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
    r"-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    r"|02-(?:0[1-9]|1[0-9]|2[0-8]))T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?$"
)
_BASE64 = "^(?:[{0}]{{4}})*(?:[{0}]{{2}}==|[{0}]{{3}}=)?$"
_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"


def schema_of(target: Any, *, closed: bool = False) -> Schema:
    """The JSON Schema (draft 2020-12) that a Python type asks for; a dict is taken as a schema already.

    Args:
        target: the type.
        closed: the schema for writing values, not for judging texts; ``structgen.generate`` uses it. Second
            spellings are left out: keys that a model ignores (``extra="ignore"``), ``Decimal`` as a string. A set
            may name an element twice, where that does not change how the type takes it.

    Raises:
        GrammarError: the type cannot be described.
        UnsupportedGrammar: it can, but not so that a grammar could enforce it (``pydantic.Json``).
    """
    if isinstance(target, Mapping):
        return copy.deepcopy(dict(target))
    adapter = _adapter(target)
    try:
        schema = adapter.json_schema(mode="validation", schema_generator=_Tuned)
    except pydantic.errors.PydanticUserError as error:
        raise _unusable(target, error) from error
    return _Tuner(schema, closed).run()


def value_of(target: Any, text: str) -> Any:
    """The value of type ``target`` that the JSON text ``text`` spells; a dict schema gives plain JSON values.

    Raises:
        OutputValidationError: the text is not JSON, or the type's own validators refuse it.
    """
    if isinstance(target, Mapping):
        try:
            return json.loads(text)
        except ValueError as error:
            raise OutputValidationError(f"the text is not JSON: {error}", text, [str(error)]) from error
    try:
        return _adapter(target).validate_json(text)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        lines = "; ".join(f"{_path(p['loc'])}: {p['msg']}" if p["loc"] else p["msg"] for p in problems[:3])
        more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        message = f"{type_name(target)} refuses the generated value: {lines}{more}"
        raise OutputValidationError(message, text, problems) from error


def type_name(target: Any) -> str:
    """A short name for messages."""
    return target.__name__ if isinstance(target, type) and not typing.get_args(target) else str(target)


def _path(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in location)


def _unusable(target: Any, error: Exception) -> GrammarError:
    reason = str(error).split("\n", 1)[0].strip()
    return GrammarError(f"{type_name(target)} cannot be used as an output type: {reason}\nUsable: {USABLE}.")


# ------------------------------------------------------------------------------------------- adapters


def _adapter(target: Any) -> pydantic.TypeAdapter[Any]:
    if isinstance(target, (str, bytes, int, float)):
        hint = " (a JSON Schema text must be parsed first: json.loads)" if isinstance(target, str) else ""
        raise GrammarError(f"{target!r} is not a type{hint}.\nUsable: {USABLE}.")
    try:
        hash(target)
    except TypeError:
        return _make_adapter(target)
    return _cached_adapter(target)


def _make_adapter(target: Any) -> pydantic.TypeAdapter[Any]:
    try:
        adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(_modern(target))
        adapter.core_schema  # noqa: B018  (a forward reference that cannot be resolved shows here)
    except (pydantic.errors.PydanticUserError, NameError, TypeError, AttributeError, RecursionError) as error:
        raise _unusable(target, error) from error
    return adapter


# Bounded: types made in a loop must not pile up.
_cached_adapter = functools.lru_cache(maxsize=256)(_make_adapter)


def _modern(target: Any) -> Any:
    """``typing.TypedDict`` classes made anew with ``typing_extensions``: pydantic asks for it before 3.12."""
    if sys.version_info >= (3, 12):
        return target
    if typing.is_typeddict(target) and type(target).__module__ == "typing":
        fields: dict[str, Any] = {}
        for name, hint in typing_extensions.get_type_hints(target, include_extras=True).items():
            required, bare = _requirement(hint)
            if required is None:  # no marker: total=True or False of its class
                required = name in target.__required_keys__
            marker: Any = typing_extensions.Required if required else typing_extensions.NotRequired
            fields[name] = marker[_modern(bare)]
        make: Any = typing_extensions.TypedDict
        made = make(target.__name__, fields)
        made.__doc__ = target.__doc__
        return made
    arguments = typing.get_args(target)
    origin = typing.get_origin(target)
    if not arguments or origin is typing.Literal or origin is None:
        return target
    modern = tuple(_modern(a) for a in arguments)
    if all(new is old for new, old in zip(modern, arguments, strict=True)):
        return target
    if origin is Annotated:
        return cast(Any, Annotated).__class_getitem__((modern[0], *target.__metadata__))
    if hasattr(target, "copy_with"):
        return target.copy_with(modern)
    return functools.reduce(operator.or_, modern) if isinstance(target, types.UnionType) else origin[modern]


def _requirement(hint: Any) -> tuple[bool | None, Any]:
    """Whether ``Required`` or ``NotRequired`` stands around ``hint`` (None: neither), and what is inside."""
    origin = typing.get_origin(hint)
    for module in (typing, typing_extensions):
        for name, required in (("Required", True), ("NotRequired", False)):
            if origin is not None and origin is getattr(module, name, None):
                return required, typing.get_args(hint)[0]
    return None, hint


# --------------------------------------------------------------------------- pydantic's generator, tuned


class _Tuned(GenerateJsonSchema):
    """pydantic's schema generator with the types whose schema is looser than their parser made tight."""

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Defaults that JSON cannot spell are of no interest here."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> Schema:
        number: Schema = {"type": "number"}
        for key, keyword in (
            ("ge", "minimum"), ("gt", "exclusiveMinimum"), ("le", "maximum"), ("lt", "exclusiveMaximum"),
            ("multiple_of", "multipleOf"),
        ):  # fmt: skip
            if schema.get(key) is not None:
                number[keyword] = _plain(schema[key])  # type: ignore[literal-required]
        digits, places = schema.get("max_digits"), schema.get("decimal_places")
        if places is None and digits is not None:
            places = digits
            whole: int | None = digits
        else:
            whole = None if digits is None or places is None else max(digits - places, 0)
        if places is not None and "multipleOf" not in number:
            number["multipleOf"] = _plain(f"1e-{places}") if places else 1
        if whole is not None:
            _bound(number, "exclusiveMinimum", "minimum", -(10**whole), max)
            _bound(number, "exclusiveMaximum", "maximum", 10**whole, min)
        text = _NUMBER_TEXT if places is None and whole is None else _plain_number(whole, places)
        return {"anyOf": [number, {"type": "string", "pattern": f"^{text}$"}], _DECIMAL: True}

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> Schema:
        if schema.get("tz_constraint") == "naive":
            return {"type": "string", "pattern": _NAIVE_DATETIME}
        return super().datetime_schema(schema)

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> Schema:
        # The tag alone chooses: anyOf says the same as oneOf, once every branch requires its tag (_Tuner).
        made = super().tagged_union_schema(schema)
        made["anyOf"] = made.pop("oneOf")
        made[_TAG] = made.pop("discriminator", {}).get("propertyName")
        return made

    def dict_schema(self, schema: core_schema.DictSchema) -> Schema:
        made = super().dict_schema(schema)
        if "patternProperties" in made:
            made.setdefault("additionalProperties", False)  # the type takes no key that its pattern refuses
        kind = _kind(schema.get("keys_schema"))
        pattern = _KEYS.get(kind)
        if pattern is not None:
            made["patternProperties"] = {pattern: made.pop("additionalProperties", True)}
            made["additionalProperties"] = False
        elif kind in ("none", "tuple", "list", "set", "frozenset", "dict", "bytes-like"):
            raise UnsupportedGrammar(f"dict keys of kind {kind!r} cannot be read from JSON; use str keys")
        return made

    def set_schema(self, schema: core_schema.SetSchema) -> Schema:
        return {**super().set_schema(schema), _SET: True}

    def frozenset_schema(self, schema: core_schema.FrozenSetSchema) -> Schema:
        return {**super().frozenset_schema(schema), _SET: True}

    def enum_schema(self, schema: core_schema.EnumSchema) -> Schema:
        for member in schema["members"]:
            value = member.value
            if not (value is None or isinstance(value, (str, int, float))):
                raise UnsupportedGrammar(
                    f"{member}: an Enum value of type {type(value).__name__} cannot be read back from "
                    "JSON; use str, int, float, bool or None values"
                )
        return super().enum_schema(schema)

    def json_schema(self, schema: core_schema.JsonSchema) -> Schema:
        raise UnsupportedGrammar("pydantic.Json (JSON in a JSON string) is not built; use the inner type")

    def is_subclass_schema(self, schema: core_schema.IsSubclassSchema) -> Schema:
        raise UnsupportedGrammar(f"type[{schema['cls'].__name__}] has no JSON form; use a Literal of names")

    def complex_schema(self, schema: core_schema.ComplexSchema) -> Schema:
        imaginary = _NUMBER_TEXT.removeprefix("[+-]?")
        return {"type": "string", "pattern": f"^{_NUMBER_TEXT}(?:[+-]{imaginary}j)?$"}

    def url_schema(self, schema: core_schema.UrlSchema) -> Schema:
        made = super().url_schema(schema)
        schemes = schema.get("allowed_schemes")
        if schemes and schemes != ["file"]:
            made["pattern"] = f"^(?:{'|'.join(sorted(schemes))})://[A-Za-z0-9]"
        return made


_DECIMAL = "x-structgen-decimal"
_SET = "x-structgen-set"
_TAG = "x-structgen-tag"


def _plain(number: Any) -> int | float:
    """A bound as JSON would spell it, so that it compares exactly as a decimal."""
    value = float(number)
    return int(value) if value.is_integer() and abs(value) < 1e15 else value


def _bound(number: Schema, keyword: str, other: str, value: int, tighter: Callable[..., Any]) -> None:
    known = number.get(keyword, number.get(other))
    if known is None or (tighter(known, value) == value and known != value):
        number.pop(other, None)
        number[keyword] = value


def _plain_number(whole: int | None, places: int | None) -> str:
    left = "[0-9]+" if whole is None else f"0*[0-9]{{1,{whole}}}" if whole else "0+"
    if places is None:
        return rf"[+-]?{left}(?:\.[0-9]*)?"
    return rf"[+-]?{left}(?:\.[0-9]{{0,{places}}}0*)?"


def _kind(schema: Any) -> str:
    """The type of a core schema, under what only wraps it."""
    while schema is not None and schema["type"] in ("function-after", "nullable", "default", "chain"):
        schema = schema["steps"][0] if schema["type"] == "chain" else schema["schema"]
    return "str" if schema is None else str(schema["type"])


# ------------------------------------------------------------------------------- after pydantic's generator


_SUBSCHEMA = ("items", "additionalProperties", "propertyNames", "contains", "not", "if", "then", "else")
_SUBSCHEMA_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_SUBSCHEMA_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")


class _Tuner:
    """One walk over a generated schema: private formats, tags of unions, closing."""

    def __init__(self, schema: Schema, closed: bool) -> None:
        self.schema = schema
        self.closed = closed
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
        made: Schema = {}
        for keyword, value in node.items():
            if keyword in _SUBSCHEMA_MAPS:
                made[keyword] = {name: self.walk(part) for name, part in value.items()}
            elif keyword in _SUBSCHEMA_LISTS:
                made[keyword] = [self.walk(part) for part in value]
            elif keyword in _SUBSCHEMA:
                made[keyword] = self.walk(value)
            else:
                made[keyword] = value
        return self.finish(made)

    def finish(self, node: Schema) -> Schema:
        if _TAG in node:
            tag = node.pop(_TAG)
            if tag is not None:
                node["anyOf"] = [self.tagged(branch, tag) for branch in node["anyOf"]]
        if node.pop(_DECIMAL, False) and self.closed:
            number = node.pop("anyOf")[0]
            node = {**number, **node}
        if "format" in node:
            node = _formatted(node)
        if node.pop(_SET, False) and self.closed and node.get("minItems", 0) <= 1:
            node.pop("uniqueItems", None)
        if (
            self.closed and node.get("type") == "object" and "properties" in node
            and "additionalProperties" not in node and "patternProperties" not in node
        ):  # fmt: skip
            node["additionalProperties"] = False
        return node

    def tagged(self, branch: Schema, tag: str) -> Schema:
        """``branch`` with its tag required: a tag with a default is optional in a model, never in a union."""
        reference = branch.get("$ref", "")
        target = branch
        if reference.startswith("#/$defs/") and len(branch) == 1:
            target = self.definitions[reference.removeprefix("#/$defs/")]
        if "anyOf" in target:
            if target is not branch:
                target = cast(Schema, self.walk(target))
            return {**target, "anyOf": [self.tagged(part, tag) for part in target["anyOf"]]}
        if tag not in target.get("properties", {}) or tag in target.get("required", ()):
            return branch
        if target is not branch:
            target = cast(Schema, self.walk(target))
        required = [n for n in target["properties"] if n == tag or n in target.get("required", ())]
        return {**target, "required": required}


def _reachable(schema: Schema, definitions: Schema) -> set[str]:
    """Names of the definitions that ``schema`` needs."""
    found: set[str] = set()
    waiting: list[Any] = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            name = str(node.get("$ref", "")).removeprefix("#/$defs/")
            if name in definitions and name not in found:
                found.add(name)
                waiting.append(definitions[name])
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
    return found


def _formatted(node: Schema) -> Schema:
    """Formats of pydantic's own, as keywords that a grammar can enforce."""
    name = node["format"]
    rest = {key: value for key, value in node.items() if key != "format"}
    if name in ("ipvanyaddress", "ipvanyinterface", "ipvanynetwork"):
        rest.pop("type", None)
        return {**rest, "anyOf": [{"type": "string", "format": "ipv4"}, {"type": "string", "format": "ipv6"}]}
    if name in ("ipv6interface", "ipv6network"):
        return {**rest, "format": "ipv6"}  # an address alone is a /128
    if name in ("path", "file-path", "directory-path", "new-path", "binary", "password"):
        return rest
    pattern = None
    if name.startswith("uuid") and name[4:].isdigit():
        h = "[0-9a-fA-F]"
        pattern = f"^{h}{{8}}-{h}{{4}}-{name[4:]}{h}{{3}}-[89abAB]{h}{{3}}-{h}{{12}}$"
    elif name == "base64":
        pattern = _BASE64.format("A-Za-z0-9+/")
    elif name == "base64url":
        pattern = _BASE64.format("A-Za-z0-9_-")
    elif name == "ipv4interface":
        pattern = rf"^{_OCTET}(?:\.{_OCTET}){{3}}(?:/(?:3[0-2]|[12]?[0-9]))?$"
    elif name == "ipv4network":
        pattern = _ipv4_networks()
    if pattern is None or "pattern" in rest:
        return node
    return {**rest, "pattern": pattern}


@functools.lru_cache(maxsize=1)
def _ipv4_networks() -> str:
    """Addresses with a prefix length whose host bits are zero."""
    forms = [rf"{_OCTET}(?:\.{_OCTET}){{3}}(?:/32)?"]
    for prefix in range(32):
        whole, bits = divmod(prefix, 8)
        octets = [_OCTET] * whole
        if bits:
            octets.append("(?:" + "|".join(str(n) for n in range(0, 256, 1 << (8 - bits))) + ")")
        octets += ["0"] * (4 - len(octets))
        forms.append(r"\.".join(octets) + f"/{prefix}")
    return f"^(?:{'|'.join(forms)})$"


__all__ = ["USABLE", "Schema", "schema_of", "type_name", "value_of"]
