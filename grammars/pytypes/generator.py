"""pydantic's schema generator, with every type that its schema describes more loosely than its parser reads made
tight.

What cannot be written where it is found leaves a private keyword (``x-structgen-...``) for ``finish``.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from enum import Enum
from typing import Any, cast

import pydantic
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import PydanticOmit, SchemaValidator, ValidationError, core_schema, to_json

from structgen.errors import UnsupportedGrammar
from structgen.grammars.pytypes import fields, texts, times
from structgen.grammars.pytypes.bounds import add_bound, finite, last_of, plain_number, shifted, stricter, with_digits
from structgen.grammars.pytypes.dialects import to_ecma
from structgen.grammars.pytypes.keys import key_schema, text_keys

Schema = dict[str, Any]

DECIMAL = "x-structgen-decimal"
"""On ``anyOf`` [number, text]: the number alone is enough for writing."""
SET = "x-structgen-set"
TAGS = "x-structgen-tags"
"""On ``anyOf`` of a discriminated union: the names that the tag may have."""
SHOWN = "x-structgen-shown"
"""What to show a model in place of patterns that nobody can read."""
TEXT = "x-structgen-text"
"""On base64: what is encoded is text."""
BYTES = "x-structgen-bytes"
"""On bytes: how they are written (``val_json_bytes``), and how many there are."""

_BOUNDS = (
    ("ge", "minimum"), ("gt", "exclusiveMinimum"), ("le", "maximum"), ("lt", "exclusiveMaximum"),
    ("multiple_of", "multipleOf"),
)  # fmt: skip
_SCALARS = ["null", "boolean", "integer", "number", "string"]
_STRIPPED = r"^(?:[^\s\x85](?:[\s\S]*[^\s\x85])?)?$"


class Tuned(GenerateJsonSchema):
    """See the module."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.cores: dict[str, Any] = {}
        self.in_set = 0

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Defaults that JSON cannot spell are of no interest here."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def definitions_schema(self, schema: core_schema.DefinitionsSchema) -> Schema:
        self.cores.update({definition["ref"]: definition for definition in schema["definitions"]})
        return super().definitions_schema(schema)

    def _setting(self, name: str) -> Any:
        return self._config.config_dict.get(name)

    # ------------------------------------------------------------------------------------------- numbers

    def float_schema(self, schema: core_schema.FloatSchema) -> Schema:
        made = super().float_schema(schema)
        allowed = schema.get("allow_inf_nan", self._setting("allow_inf_nan"))
        return finite(made) if allowed is False else made

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> Schema:
        number: Schema = {"type": "number"}
        for key, keyword in _BOUNDS:
            if schema.get(key) is not None and math.isfinite(schema[key]):  # type: ignore[literal-required]
                number[keyword] = plain_number(schema[key])  # type: ignore[literal-required]
        factor = schema.get("multiple_of")
        if factor is not None:  # a JSON number reaches Decimal through a float: larger ones are rounded
            most = 10 ** max(15 + min(int(Decimal(str(factor)).normalize().as_tuple().exponent), 0), 0)
            add_bound(number, "exclusiveMinimum", "minimum", -most, max)
            add_bound(number, "exclusiveMaximum", "maximum", most, min)
        digits, places = schema.get("max_digits"), schema.get("decimal_places")
        numbers = with_digits(number, digits, places)
        made: Schema = {"anyOf": [*map(finite, numbers), *self._decimal_texts(schema, digits, places)]}
        made[DECIMAL] = len(numbers)
        return made

    def _decimal_texts(self, schema: Any, digits: int | None, places: int | None) -> list[Schema]:
        factor = schema.get("multiple_of")
        multiples = None if factor is None else texts.multiples(Decimal(str(factor)))
        if factor is not None and multiples is None:
            return []  # texts of multiples of 3 are regular, but no pattern that one could write
        found = texts.decimals(
            lower=stricter(schema.get("ge"), schema.get("gt"), max),
            upper=stricter(schema.get("le"), schema.get("lt"), min),
            digits=digits,
            places=places,
        )
        if multiples is not None:
            found = [multiples, *(text for text in found if text != texts.DECIMAL)]
        return [with_patterns({"type": "string"}, [f"^{text}$" for text in found])]

    def fraction_schema(self, schema: Any) -> Schema:
        number: Schema = {"type": "number"}
        for key, keyword in _BOUNDS[:4]:
            if schema.get(key) is not None:
                number[keyword] = plain_number(schema[key])
        bounds = {key: schema[key] for key, _ in _BOUNDS[:4] if schema.get(key) is not None}
        text = texts.FRACTION if not bounds else None
        if bounds in ({"gt": 0}, {"ge": 0}):
            text = texts.POSITIVE_FRACTION if "gt" in bounds else texts.NATURAL_FRACTION
        written = [] if text is None else [{"type": "string", "pattern": f"^{text}$"}]
        return {"anyOf": [finite(number), *written]}

    def complex_schema(self, schema: core_schema.ComplexSchema) -> Schema:
        return {"type": "string", "pattern": f"^{texts.COMPLEX}$", SHOWN: {"description": "like 1.5-2j"}}

    # ---------------------------------------------------------------------------------------------- text

    def str_schema(self, schema: core_schema.StringSchema) -> Schema:
        made = super().str_schema(cast(core_schema.StringSchema, {k: v for k, v in schema.items() if k != "pattern"}))
        for key, keyword in (("str_min_length", "minLength"), ("str_max_length", "maxLength")):
            if keyword not in made and self._setting(key):
                made[keyword] = self._setting(key)
        pattern = schema.get("pattern")
        if pattern is not None:
            engine = schema.get("regex_engine", self._setting("regex_engine"))
            made["pattern"] = to_ecma(pattern, "python" if engine == "python-re" else "rust")
        if schema.get("strip_whitespace", self._setting("str_strip_whitespace")) and (pattern or made.get("minLength")):
            made = with_patterns(made, [_STRIPPED])  # the length and the pattern are those of the stripped text
        return made

    def bytes_schema(self, schema: core_schema.BytesSchema) -> Schema:
        # The lengths may stand around the type (SecretBytes, after a validator): finish has them all.
        low, high = schema.get("min_length") or 0, schema.get("max_length")
        made: Schema = {"type": "string", BYTES: (self._setting("val_json_bytes"), low, high)}
        if self._setting("val_json_bytes") == "base64":
            made[SHOWN] = {"contentEncoding": "base64url"}
        return made

    def url_schema(self, schema: core_schema.UrlSchema) -> Schema:
        made = super().url_schema(schema)
        pattern = texts.urls(texts.schemes_of(schema), _needs_host(schema))
        return {**made, "pattern": f"^{pattern}$", SHOWN: _shown_schemes(schema)}

    def multi_host_url_schema(self, schema: core_schema.MultiHostUrlSchema) -> Schema:
        made = super().multi_host_url_schema(schema)
        pattern = texts.multi_host_urls(texts.schemes_of(schema), _needs_host(schema))
        return {**made, "pattern": f"^{pattern}$", SHOWN: _shown_schemes(schema)}

    # ---------------------------------------------------------------------------------------------- time

    def date_schema(self, schema: core_schema.DateSchema) -> Schema:
        made: Schema = {"type": "string", "format": "date"}
        day = dt.timedelta(days=1)
        low = last_of([schema.get("ge"), shifted(schema.get("gt"), day)], max)
        high = last_of([schema.get("le"), shifted(schema.get("lt"), -day)], min)
        today = (dt.date.today(), dt.datetime.now(dt.timezone.utc).date())
        if schema.get("now_op") == "past":
            high = last_of([high, min(today) - day], min)
        elif schema.get("now_op") == "future":
            low = last_of([low, max(today) + day], max)
        if low is None and high is None:
            return made
        return {**made, "pattern": f"^{times.dates(low, high)}$", SHOWN: _shown_bounds(low, high)}

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> Schema:
        naive = schema.get("tz_constraint") == "naive"
        low = stricter(schema.get("ge"), schema.get("gt"), max)
        high = stricter(schema.get("le"), schema.get("lt"), min)
        now = dt.datetime.now(dt.timezone.utc)
        now = now.replace(tzinfo=None) if naive else now
        if schema.get("now_op") == "past":
            high = (now, False) if high is None or high[0] > now else high
        elif schema.get("now_op") == "future":
            soon = now + dt.timedelta(minutes=1)  # generation takes a while
            low = (soon, False) if low is None or low[0] < soon else low
        made: Schema = {"type": "string", "pattern": f"^{times.NAIVE_DATETIME if naive else times.DATETIME}$"}
        made[SHOWN] = {"format": "date-time", **_shown_bounds(low and low[0], high and high[0])}
        if naive:
            made[SHOWN].pop("format")
            made[SHOWN]["description"] = "a date and time without offset, like 2024-05-31T09:30:00"
        bounded = low is not None or high is not None
        return with_patterns(made, [f"^{times.datetimes(low, high, naive=naive)}$"] if bounded else [])

    def time_schema(self, schema: core_schema.TimeSchema) -> Schema:
        low = stricter(schema.get("ge"), schema.get("gt"), max)
        high = stricter(schema.get("le"), schema.get("lt"), min)
        made: Schema = {"type": "string", "pattern": f"^{times.TIME}$"}
        made[SHOWN] = {"format": "time", **_shown_bounds(low and low[0], high and high[0])}
        return with_patterns(made, [f"^{times.times(low, high)}$"] if low is not None or high is not None else [])

    def timedelta_schema(self, schema: core_schema.TimedeltaSchema) -> Schema:
        low = stricter(schema.get("ge"), schema.get("gt"), max)
        high = stricter(schema.get("le"), schema.get("lt"), min)
        least, low_outside = low or (None, False)
        most, high_outside = high or (None, False)
        bounded = low is not None or high is not None
        text = times.durations(least, most, low_outside, high_outside) if bounded else times.DURATION
        # Not the format: RFC 3339 has neither fractions of a second nor signs.
        shown = {"format": "duration", **_shown_bounds(least, most)}
        return {"type": "string", "pattern": f"^{text}$", SHOWN: shown}

    # ----------------------------------------------------------------------------- one of several values

    def enum_schema(self, schema: core_schema.EnumSchema) -> Schema:
        if not schema["members"]:
            return {"enum": []}
        made = super().enum_schema(schema)
        values = [_plain_value(member) for member in schema["members"]]
        _check_readable(schema, schema["members"], values, schema["cls"].__name__)
        made["enum"] = values
        return made

    def literal_schema(self, schema: core_schema.LiteralSchema) -> Schema:
        values = [_plain_value(member) for member in schema["expected"]]
        _check_readable(schema, schema["expected"], values, "Literal")
        return super().literal_schema(schema)

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> Schema:
        # The tag alone chooses: anyOf says the same as oneOf, once every branch requires its tag (finish).
        made = super().tagged_union_schema(schema)
        made["anyOf"] = made.pop("oneOf")
        made.pop("discriminator", None)
        tag = schema["discriminator"]
        if isinstance(tag, str):
            made[TAGS] = [tag]
        elif isinstance(tag, list):
            named = [path if isinstance(path, list) else [path] for path in tag]
            made[TAGS] = [path[0] for path in named if len(path) == 1]
        return made

    # -------------------------------------------------------------------------------------- sets, dicts

    def set_schema(self, schema: core_schema.SetSchema) -> Schema:
        return self._elements(schema, super().set_schema)

    def frozenset_schema(self, schema: core_schema.FrozenSetSchema) -> Schema:
        return self._elements(schema, super().frozenset_schema)

    def _elements(self, schema: Any, describe: Callable[[Any], Schema]) -> Schema:
        self.in_set += 1
        try:
            made = describe(schema)
        except PydanticInvalidForJsonSchema as error:
            raise UnsupportedGrammar(str(error.message)) from error
        finally:
            self.in_set -= 1
        if "items_schema" not in schema:
            made["items"] = {"type": _SCALARS}
        return {**made, SET: True}

    def _unhashable(self, what: str) -> None:
        if self.in_set:
            raise PydanticInvalidForJsonSchema(f"a set cannot hold {what}, which Python cannot hash; use list[...]")

    def any_schema(self, schema: core_schema.AnySchema) -> Schema:
        return {"type": _SCALARS} if self.in_set else super().any_schema(schema)

    def list_schema(self, schema: core_schema.ListSchema) -> Schema:
        self._unhashable("lists")
        return super().list_schema(schema)

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> Schema:
        self._unhashable("dicts")
        return super().typed_dict_schema(schema)

    def generate_inner(self, schema: Any) -> Schema:
        kind = schema["type"]
        if kind in ("function-plain", "function-before"):
            self._check_function(schema)
        if kind in ("model", "dataclass", "definition-ref") and self.in_set:
            core = self.cores.get(schema.get("schema_ref", ""), schema)
            cls = core.get("cls")
            if core["type"] in ("model", "dataclass") and getattr(cls, "__hash__", None) is None:
                self._unhashable(f"{cls.__name__} objects (frozen=True makes them hashable)")
            if core["type"] in ("model", "dataclass"):
                kept, self.in_set = self.in_set, 0
                try:
                    return super().generate_inner(schema)
                finally:
                    self.in_set = kept
        return super().generate_inner(schema)

    def tuple_schema(self, schema: core_schema.TupleSchema) -> Schema:
        at = schema.get("variadic_item_index")
        if at is not None and at + 1 != len(schema["items_schema"]):
            raise UnsupportedGrammar(
                "a tuple whose open part is not the last (tuple[int, *tuple[str, ...], bool]) has no JSON Schema; put "
                "the open part last"
            )
        made = super().tuple_schema(schema)
        if self.in_set and not schema["items_schema"]:
            made.pop("items", None)
        return made

    def dict_schema(self, schema: core_schema.DictSchema) -> Schema:
        return self._dict(schema, super().dict_schema)

    def frozendict_schema(self, schema: Any) -> Schema:
        return self._dict(schema, getattr(super(), "frozendict_schema"))  # noqa: B009  (not in every pydantic)

    def ordered_dict_schema(self, schema: Any) -> Schema:
        return self._dict(schema, getattr(super(), "ordered_dict_schema"))  # noqa: B009

    def counter_schema(self, schema: Any) -> Schema:
        made = self._dict(schema, getattr(super(), "counter_schema"))  # noqa: B009
        if made.get("additionalProperties") is True:
            made["additionalProperties"] = {"type": "integer"}
        return made

    def _dict(self, schema: Any, describe: Callable[[Any], Schema]) -> Schema:
        self._unhashable("dicts")
        keys = schema.get("keys_schema")
        if text_keys(keys, self.cores):
            made = describe(schema)
            if "patternProperties" in made:
                made.setdefault("additionalProperties", False)  # the type takes no key that its pattern refuses
            extra = None if keys is None else self.generate_inner(keys).get("allOf")
            if extra:  # pydantic carries over only what it knows of text
                made["propertyNames"] = {**made.get("propertyNames", {}), "allOf": extra}
            return made
        made = describe({key: value for key, value in schema.items() if key != "keys_schema"})
        named = key_schema(keys, self.cores, self.resolve_or_keep(self.generate_inner(keys)))
        if named:
            made["propertyNames"] = {key: value for key, value in named.items() if key != "type"}
        return made

    def resolve_or_keep(self, schema: Schema) -> Schema:
        try:
            return self.resolve_ref_schema(schema)
        except RuntimeError:  # a definition still being made
            return schema

    # ------------------------------------------------------------------------------- models and functions

    def _named_required_fields_schema(self, named_required_fields: Sequence[tuple[str, bool, Any]]) -> Schema:
        by_alias, by_name = fields.alias_settings(self._config.config_dict)
        members = []
        for name, required, field in named_required_fields:
            try:
                made = self.handle_ref_overrides(self.generate_inner(field).copy())
            except PydanticOmit:
                continue
            path, others = fields.paths(
                name, field.get("validation_alias"), by_alias=by_alias, by_name=by_name, required=required
            )
            members.append(fields.Member(path, others, made, required))
        closed = self._setting("extra") == "forbid"
        return fields.object_of(members, closed=closed, where=str(self._setting("title") or "a model"))

    def field_is_present(self, field: Any) -> bool:
        return field.get("init", True) is not False and super().field_is_present(field)

    def model_fields_schema(self, schema: core_schema.ModelFieldsSchema) -> Schema:
        if "extras_keys_schema" in schema:
            raise UnsupportedGrammar(
                "constrained keys of __pydantic_extra__ have no JSON Schema; use a field of type dict[K, V]"
            )
        return super().model_fields_schema(schema)

    def _check_function(self, schema: Any) -> None:
        name = getattr(schema["function"]["function"], "__name__", "")
        if name == "import_string":
            raise UnsupportedGrammar("ImportString would import what the text names; use a Literal of names")
        if name in ("pattern_either_validator", "pattern_str_validator", "pattern_bytes_validator"):
            raise UnsupportedGrammar(
                "re.Pattern: which texts are regular expressions is no regular language; use str, and compile the text "
                "in a validator"
            )

    def function_after_schema(self, schema: core_schema.AfterValidatorFunctionSchema) -> Schema:
        made = super().function_after_schema(schema)
        function = schema["function"]["function"]
        owner = getattr(function, "__self__", None)
        if isinstance(owner, pydantic.EncodedStr):
            return {**made, TEXT: True}
        if owner is pydantic.ByteSize:
            units = texts.byte_sizes(pydantic.ByteSize.byte_sizes)
            written: Schema = {"type": "string", "pattern": f"^{units}$"}
            written[SHOWN] = {"description": "like 1.5 GB"}
            return {"anyOf": [written, {"type": "integer", "minimum": 0}]}
        return made

    def custom_error_schema(self, schema: core_schema.CustomErrorSchema) -> Schema:
        if schema.get("custom_error_type") == "is_hashable":
            return {"type": _SCALARS}
        return super().custom_error_schema(schema)

    def json_schema(self, schema: core_schema.JsonSchema) -> Schema:
        raise UnsupportedGrammar("pydantic.Json (JSON in a JSON string) is not built; use the inner type")

    def is_subclass_schema(self, schema: core_schema.IsSubclassSchema) -> Schema:
        raise UnsupportedGrammar(f"type[{schema['cls'].__name__}] has no JSON form; use a Literal of names")

    def is_instance_schema(self, schema: core_schema.IsInstanceSchema) -> Schema:
        name = getattr(schema["cls"], "__name__", schema["cls"])
        if schema["cls"] is type:
            raise PydanticInvalidForJsonSchema("type has no JSON form; use a Literal of names")
        raise PydanticInvalidForJsonSchema(
            f"objects of the class {name} have no JSON form; make it a dataclass or a pydantic model"
        )

    def callable_schema(self, schema: core_schema.CallableSchema) -> Schema:
        raise PydanticInvalidForJsonSchema("a Callable has no JSON form; use a Literal of names")


# ------------------------------------------------------------------------------------------------- helpers


def with_patterns(schema: Schema, patterns: Sequence[str]) -> Schema:
    """``schema`` with all of ``patterns``: the first as ``pattern`` where there is none yet."""
    made = dict(schema)
    rest = list(patterns)
    if "pattern" not in made and rest:
        made["pattern"] = rest.pop(0)
    if rest:
        made["allOf"] = [*made.get("allOf", []), *({"pattern": text} for text in rest)]
    return made


def _shown_bounds(low: Any, high: Any) -> Schema:
    named = {"minimum": low, "maximum": high}
    return {key: str(value) for key, value in named.items() if value is not None}


def _needs_host(schema: Any) -> bool:
    """Whether a URL has a host: also where a default port would have none to stand with."""
    return bool(schema.get("host_required") or (schema.get("default_port") and not schema.get("default_host")))


def _shown_schemes(schema: Any) -> Schema:
    schemes = texts.schemes_of(schema)
    return {"pattern": f"^({'|'.join(schemes)})://"} if schemes else {}


def _plain_value(member: Any) -> Any:
    """What JSON may write for a member of an Enum or a Literal."""
    return member.value if isinstance(member, Enum) else member


def _check_readable(schema: Any, members: Sequence[Any], values: Sequence[Any], name: str) -> None:
    """Raise UnsupportedGrammar for members that the parser does not read back from their JSON."""
    validator = SchemaValidator(schema)
    for member, value in zip(members, values, strict=True):
        try:
            if not (value is None or isinstance(value, (str, int, float))) or value in (math.inf, -math.inf):
                raise UnsupportedGrammar("")
            validator.validate_json(to_json(value))
        except (ValidationError, UnsupportedGrammar):
            what = f"{name} value {member!r}" if name == "Literal" else f"{member}"
            raise UnsupportedGrammar(
                f"{what}: a value of type {type(value).__name__} cannot be read back from JSON here; use str, int, "
                "float, bool or None values" + (", or the Enum itself" if isinstance(member, Enum) else "")
            ) from None
