"""One subschema, read into ``Rules``: every keyword has one reader here, which checks its shape.

``types`` are bits; integers and other numbers are different bits, so that every combination of types is
plain set arithmetic.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import unquote

from structgen.errors import GrammarError, GrammarTooComplex
from structgen.grammars import formats, numbers
from structgen.grammars.schema.contents import FarDecimal
from structgen.grammars.schema.dialects import Dialect
from structgen.grammars.schema.document import Draft, Place, escaped
from structgen.grammars.schema.resources import RECURSIVE, Found

NULL, BOOLEAN, INTEGER, FRACTION, STRING, ARRAY, OBJECT = (1 << i for i in range(7))
NUMBER = INTEGER | FRACTION
SCALARS = NULL | BOOLEAN | NUMBER | STRING
ALL = SCALARS | ARRAY | OBJECT
TYPES = {
    "null": NULL,
    "boolean": BOOLEAN,
    "integer": INTEGER,
    "number": NUMBER,
    "string": STRING,
    "array": ARRAY,
    "object": OBJECT,
}


class Bound(NamedTuple):
    value: Decimal
    open: bool


class Contains(NamedTuple):
    """Between ``lo`` and ``hi`` of the items from index ``start`` on (None: any number) satisfy ``place``."""

    place: Place
    lo: int
    hi: int | None
    start: int = 0


class SomeKey(NamedTuple):
    """Some key has a value that satisfies ``value``: one that is none of ``keys`` and matches no pattern of
    ``without``, or one that matches ``pattern``, or one that itself satisfies ``name``."""

    value: Place
    keys: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    pattern: str | None = None
    name: Place | None = None


class Rules:
    """What one subschema demands. Fields that a schema does not set keep the class's default, which
    demands nothing. ``any_of`` holds groups of alternatives, each a tuple of places that hold together."""

    types: int = ALL
    values: tuple[Any, ...] | None = None
    excluded: tuple[Any, ...] = ()
    min_length: int = 0
    max_length: int | None = None
    patterns: tuple[str, ...] = ()
    not_patterns: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    not_formats: tuple[str, ...] = ()
    lo: Bound | None = None
    hi: Bound | None = None
    multiples: tuple[Decimal, ...] = ()
    not_multiples: tuple[Decimal, ...] = ()
    properties: dict[str, Place] | None = None
    pattern_properties: dict[str, Place] | None = None
    additional: Place | None = None
    required: tuple[str, ...] = ()
    names: tuple[Place, ...] = ()
    min_properties: int = 0
    max_properties: int | None = None
    dependents: dict[str, tuple[str, ...]] | None = None
    some: tuple[SomeKey, ...] = ()
    prefix: tuple[Place, ...] = ()
    items: Place | None = None
    min_items: int = 0
    max_items: int | None = None
    contains: tuple[Contains, ...] = ()
    unique: bool = False
    repeated: bool = False
    all_of: tuple[Place, ...] = ()
    any_of: tuple[tuple[tuple[Place, ...], ...], ...] = ()
    one_of: tuple[tuple[Place, ...], ...] = ()
    negations: tuple[Place, ...] = ()
    conditions: tuple[tuple[Place, Place | None, Place | None], ...] = ()
    unevaluated_properties: Place | None = None
    unevaluated_items: Place | None = None
    contained: tuple[Place, ...] = ()
    """Items that satisfy one of these count as evaluated (``contains`` in draft 2020-12)."""

    alias: Place | None = None
    """The only thing demanded is this place."""

    outline: Any = None
    groups: Any = None
    decisive: Any = None
    decisions: Any = None
    spelled: str | None = None
    """What ``expand.outline``, ``expand.groups``, ``expand.decisive`` and ``unevaluated`` found, and the contents
    as text where they were compared."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.enforced: list[str] = []
        self.annotations: list[str] = []
        self.gated: list[str] = []
        """Keywords that hold only because values are checked when they close."""

    @property
    def empty(self) -> bool:
        return not self.enforced and not self.gated

    @property
    def children(self) -> Iterator[Place]:
        """Every place that this one refers to."""
        for table in (self.properties, self.pattern_properties):
            if table:
                yield from table.values()
        for single in (self.additional, self.items, self.unevaluated_properties, self.unevaluated_items):
            if single is not None:
                yield single
        yield from self.names
        yield from self.prefix
        yield from self.all_of
        yield from self.negations
        yield from self.contained
        for wish in self.some:
            yield wish.value
            if wish.name is not None:
                yield wish.name
        for one in self.contains:
            yield one.place
        for group in self.any_of:
            for alternative in group:
                yield from alternative
        for branches in self.one_of:
            yield from branches
        for condition in self.conditions:
            yield from (each for each in condition if each is not None)

    @property
    def on_objects(self) -> bool:
        return bool(
            self.properties
            or self.pattern_properties
            or self.additional is not None
            or self.required
            or self.names
            or self.min_properties
            or self.max_properties is not None
            or self.dependents
            or self.some
        )

    @property
    def on_arrays(self) -> bool:
        return bool(
            self.prefix
            or self.items is not None
            or self.min_items
            or self.max_items is not None
            or self.contains
            or self.unique
            or self.repeated
        )


class _Reading:
    """Reads one schema object."""

    __slots__ = ("contents", "draft", "place", "rules")

    def __init__(self, place: Place) -> None:
        self.place = place
        self.rules = Rules(place)
        dialect = place.scope.dialect
        self.contents: dict[str, Any] = place.contents
        if dialect.left_out:
            self.contents = {key: value for key, value in place.contents.items() if key not in dialect.left_out}
        self.draft = dialect.draft

    def fail(self, keyword: str, wanted: str, value: Any, below: str = "") -> GrammarError:
        try:
            shown = repr(value)
        except ValueError:  # Python writes no integer of some thousand digits
            shown = f"this {type(value).__name__}"
        if len(shown) > 80:
            shown = shown[:77] + "..."
        return GrammarError(
            f"{keyword} must be {wanted}, not {shown}", pointer=f"{self.place.pointer}/{escaped(keyword)}{below}"
        )

    def sub(self, keyword: str, value: Any, *tokens: object) -> Place:
        """The subschema ``value`` below ``keyword``."""
        if not isinstance(value, (dict, bool)):
            below = "".join(f"/{escaped(str(t))}" for t in tokens)
            raise self.fail(keyword, "a schema (an object or a boolean)", value, below)
        place = self.place
        token = f"{keyword}/{escaped(str(tokens[0]))}" if tokens else keyword
        found: Place = place.document.place(value, place.scope, place, token)
        return found

    def subs(self, keyword: str, value: Any) -> tuple[Place, ...]:
        if not isinstance(value, list) or not value:
            raise self.fail(keyword, "a non-empty array of schemas", value)
        return tuple(self.sub(keyword, each, i) for i, each in enumerate(value))

    def table(self, keyword: str, value: Any) -> dict[str, Place]:
        if not isinstance(value, dict):
            raise self.fail(keyword, "an object whose values are schemas", value)
        return {name: self.sub(keyword, each, name) for name, each in value.items()}

    def count(self, keyword: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
            raise self.fail(keyword, "a non-negative integer", value)
        number = self.number(keyword, value)
        if number.adjusted() >= numbers.MAX_DIGITS:
            raise GrammarTooComplex(
                f"{keyword} has more than {numbers.MAX_DIGITS:,} digits", pointer=f"{self.place.pointer}/{keyword}"
            )
        if number < 0 or number != int(number):
            raise self.fail(keyword, "a non-negative integer", value)
        return int(number)

    def number(self, keyword: str, value: Any) -> Decimal:
        if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
            raise self.fail(keyword, "a number", value)
        if isinstance(value, FarDecimal):
            raise too_far(value, f"{self.place.pointer}/{keyword}")
        number = exact(value)
        if not number.is_finite():
            raise self.fail(keyword, "a finite number", value)
        return number

    def strings(self, keyword: str, value: Any, below: str = "") -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.fail(keyword, "an array of strings", value, below)
        return tuple(dict.fromkeys(value))


def exact(value: int | float | Decimal) -> Decimal:
    """The decimal that a number in a schema spells; a float stands for its shortest spelling."""
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


def too_far(value: Decimal, pointer: str) -> GrammarTooComplex:
    return GrammarTooComplex(f"the exponent of {value!s} has more than 18 digits", pointer=pointer)


MAX_ENUM_CONTAINERS = 500


def _types(r: _Reading, value: Any) -> None:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names:
        raise r.fail("type", "a type name or a non-empty array of them", value)
    mask = 0
    for name in names:
        if not isinstance(name, str) or name not in TYPES:
            near = difflib.get_close_matches(str(name), TYPES, 1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise r.fail("type", f"one of {', '.join(TYPES)}{hint}", name)
        mask |= TYPES[name]
    r.rules.types &= mask


def _enum(r: _Reading, value: Any) -> None:
    if not isinstance(value, list):
        raise r.fail("enum", "an array of values", value)
    containers = sum(isinstance(each, (dict, list)) for each in value)
    if containers > MAX_ENUM_CONTAINERS:
        raise GrammarTooComplex(
            f"an enum of {containers:,} arrays and objects (limit: {MAX_ENUM_CONTAINERS:,}; scalars have none); "
            "each of them is a way to read the text, so a step would take seconds",
            pointer=f"{r.place.pointer}/enum",
        )
    _values(r, "enum", tuple(value))


def _const(r: _Reading, value: Any) -> None:
    _values(r, "const", (value,))


def _values(r: _Reading, keyword: str, values: tuple[Any, ...]) -> None:
    from structgen.grammars.schema.literals import check_literal, same_value

    for each in values:
        check_literal(each, f"{r.place.pointer}/{keyword}")
    known = r.rules.values
    if known is not None:
        values = tuple(v for v in values if any(same_value(v, k) for k in known))
    r.rules.values = values


def _pattern(r: _Reading, value: Any) -> None:
    if not isinstance(value, str):
        raise r.fail("pattern", "a string with a regular expression", value)
    r.rules.patterns += (value,)


def _format(r: _Reading, value: Any) -> None:
    if not isinstance(value, str):
        raise r.fail("format", "a string", value)
    if not r.place.document.assert_formats:
        r.rules.annotations.append("format")
    elif value in formats.FORMATS:
        r.rules.formats += (value,)
        r.rules.enforced.append("format")
    else:
        r.rules.annotations.append("format")


def _minimum(r: _Reading, value: Any) -> None:
    is_open = r.draft == Draft.D4 and r.contents.get("exclusiveMinimum") is True
    r.rules.lo = tighter(r.rules.lo, Bound(r.number("minimum", value), is_open), 1)


def _maximum(r: _Reading, value: Any) -> None:
    is_open = r.draft == Draft.D4 and r.contents.get("exclusiveMaximum") is True
    r.rules.hi = tighter(r.rules.hi, Bound(r.number("maximum", value), is_open), -1)


def _exclusive_minimum(r: _Reading, value: Any) -> None:
    if r.draft == Draft.D4:
        if not isinstance(value, bool):
            raise r.fail("exclusiveMinimum", "true or false in draft 4", value)
        return
    r.rules.lo = tighter(r.rules.lo, Bound(r.number("exclusiveMinimum", value), True), 1)


def _exclusive_maximum(r: _Reading, value: Any) -> None:
    if r.draft == Draft.D4:
        if not isinstance(value, bool):
            raise r.fail("exclusiveMaximum", "true or false in draft 4", value)
        return
    r.rules.hi = tighter(r.rules.hi, Bound(r.number("exclusiveMaximum", value), True), -1)


def tighter(a: Bound | None, b: Bound | None, sign: int) -> Bound | None:
    """The stronger of two lower (``sign`` 1) or upper (-1) bounds."""
    if a is None or b is None:
        return a or b
    return max(a, b, key=lambda bound: (sign * bound.value, bound.open))


def _multiple(r: _Reading, value: Any) -> None:
    number = r.number("multipleOf", value)
    if number <= 0:
        raise r.fail("multipleOf", "greater than 0", value)
    r.rules.multiples += (number,)


def _min_length(r: _Reading, value: Any) -> None:
    r.rules.min_length = max(r.rules.min_length, r.count("minLength", value))


def _max_length(r: _Reading, value: Any) -> None:
    r.rules.max_length = r.count("maxLength", value)


def _min_items(r: _Reading, value: Any) -> None:
    r.rules.min_items = r.count("minItems", value)


def _max_items(r: _Reading, value: Any) -> None:
    r.rules.max_items = r.count("maxItems", value)


def _min_properties(r: _Reading, value: Any) -> None:
    r.rules.min_properties = r.count("minProperties", value)


def _max_properties(r: _Reading, value: Any) -> None:
    r.rules.max_properties = r.count("maxProperties", value)


def _properties(r: _Reading, value: Any) -> None:
    r.rules.properties = r.table("properties", value)


def _pattern_properties(r: _Reading, value: Any) -> None:
    r.rules.pattern_properties = r.table("patternProperties", value)


def _additional_properties(r: _Reading, value: Any) -> None:
    r.rules.additional = r.sub("additionalProperties", value)


def _required(r: _Reading, value: Any) -> None:
    if isinstance(value, bool):
        raise r.fail("required", "an array of property names of the object (a boolean was draft 3's)", value)
    r.rules.required = r.strings("required", value)


def _property_names(r: _Reading, value: Any) -> None:
    r.rules.names += (r.sub("propertyNames", value),)


def _dependent_required(r: _Reading, value: Any) -> None:
    if not isinstance(value, dict):
        raise r.fail("dependentRequired", "an object of arrays of property names", value)
    _depend(r, {k: r.strings("dependentRequired", v, f"/{escaped(k)}") for k, v in value.items()})


def _depend(r: _Reading, table: dict[str, tuple[str, ...]]) -> None:
    known = r.rules.dependents or {}
    r.rules.dependents = {**known, **{key: (*known.get(key, ()), *wanted) for key, wanted in table.items()}}


def _dependent_schemas(r: _Reading, value: Any) -> None:
    for name, place in r.table("dependentSchemas", value).items():
        _when_present(r, name, place)


def _dependencies(r: _Reading, value: Any) -> None:
    """Split in two in 2019-09, whose metaschema still has it: who writes it means it, so it holds in every draft."""
    if not isinstance(value, dict):
        raise r.fail("dependencies", "an object of schemas or arrays of property names", value)
    table: dict[str, tuple[str, ...]] = {}
    for name, each in value.items():
        if isinstance(each, list):
            table[name] = r.strings("dependencies", each, f"/{escaped(name)}")
        else:
            _when_present(r, name, r.sub("dependencies", each, name))
    if table:
        _depend(r, table)


def _when_present(r: _Reading, name: str, place: Place) -> None:
    document = r.place.document
    absent, present = Rules(r.place), Rules(r.place)
    absent.properties = {name: document.place(False, r.place.scope, r.place, f"dependencies/{escaped(name)}")}
    present.types, present.required = OBJECT, (name,)
    absent.enforced, present.enforced = ["properties"], ["type", "required"]
    group = ((document.made(absent, r.place),), (document.made(present, r.place), place))
    r.rules.any_of += (group,)


def _prefix_items(r: _Reading, value: Any) -> None:
    r.rules.prefix = r.subs("prefixItems", value)


def _items(r: _Reading, value: Any) -> None:
    if isinstance(value, list):
        if r.draft >= Draft.D2020:
            raise r.fail("items", "a schema; positions are prefixItems' in draft 2020-12", value)
        r.rules.prefix = tuple(r.sub("items", each, i) for i, each in enumerate(value))
    else:
        r.rules.items = r.sub("items", value)


def _additional_items(r: _Reading, value: Any) -> None:
    place = r.sub("additionalItems", value)
    if isinstance(r.contents.get("items"), list):
        r.rules.items = place


def _contains(r: _Reading, value: Any) -> None:
    lo, hi = 1, None
    if r.draft >= Draft.D2019:
        lo = r.count("minContains", r.contents.get("minContains", 1))
        if "maxContains" in r.contents:
            hi = r.count("maxContains", r.contents["maxContains"])
    place = r.sub("contains", value)
    if lo or hi is not None:
        r.rules.contains += (Contains(place, lo, hi),)
    if r.draft >= Draft.D2020:
        r.rules.contained += (place,)


def _contains_count(r: _Reading, value: Any) -> None:
    """Read by ``contains``; without it, no demand."""


def _unique_items(r: _Reading, value: Any) -> None:
    if not isinstance(value, bool):
        raise r.fail("uniqueItems", "true or false", value)
    r.rules.unique = value


def _all_of(r: _Reading, value: Any) -> None:
    r.rules.all_of += r.subs("allOf", value)


def _any_of(r: _Reading, value: Any) -> None:
    r.rules.any_of += (tuple((each,) for each in r.subs("anyOf", value)),)


def _one_of(r: _Reading, value: Any) -> None:
    branches = r.subs("oneOf", value)
    if len(branches) == 1:
        r.rules.all_of += branches
    else:
        r.rules.one_of += (branches,)


def _not(r: _Reading, value: Any) -> None:
    r.rules.negations += (r.sub("not", value),)


def _if(r: _Reading, value: Any) -> None:
    condition = r.sub("if", value)
    then = r.sub("then", r.contents["then"]) if "then" in r.contents else None
    other = r.sub("else", r.contents["else"]) if "else" in r.contents else None
    # Without branches it still says which properties and items are evaluated.
    r.rules.conditions += ((condition, then, other),)


def _branch(r: _Reading, value: Any) -> None:
    """``then`` and ``else``: read by ``if``; without it, no demand."""


def _ref(r: _Reading, value: Any) -> None:
    if not isinstance(value, str):
        raise r.fail("$ref", "a string with a URI reference", value)
    r.rules.all_of += (_found(r, "$ref", value),)


def _found(r: _Reading, keyword: str, ref: str) -> Place:
    return _referred(r, keyword, ref, r.place.scope.find(ref, f"{r.place.pointer}/{keyword}", keyword))


def _referred(r: _Reading, keyword: str, ref: str, found: Found) -> Place:
    if not isinstance(found.contents, (dict, bool)):
        raise GrammarError(
            f"{keyword} {ref!r} leads to {found.contents!r:.60}, which is no schema",
            pointer=f"{r.place.pointer}/{keyword}",
        )
    place: Place = r.place.document.place(found.contents, found.scope, found.pointer, "", r.place.dynamic)
    return place


def _dynamic_ref(r: _Reading, value: Any) -> None:
    """2020-12 core, section 8.2.3.2: where the reference leads to a dynamic anchor of that very name, the outermost
    one of the dynamic scope counts; else it means what ``$ref`` means."""
    if not isinstance(value, str):
        raise r.fail("$dynamicRef", "a string with a URI reference", value)
    found = r.place.scope.find(value, f"{r.place.pointer}/$dynamicRef", "$dynamicRef")
    name = unquote(value.partition("#")[2])
    if found.scope.dynamic.get(name) is found.contents:
        outermost = dict(r.place.dynamic).get(name, found.scope)
        contents, pointer = outermost.anchors[name]
        found = Found(contents, outermost, pointer)
    r.rules.all_of += (_referred(r, "$dynamicRef", value, found),)


def _recursive_ref(r: _Reading, value: Any) -> None:
    """2019-09 core, section 8.2.4.2: the root of this resource, or if that has ``$recursiveAnchor: true``, of the
    outermost resource of the dynamic scope that has it."""
    if value != "#":
        raise r.fail("$recursiveRef", "'#'", value)
    scope = r.place.scope
    if RECURSIVE in scope.dynamic:
        scope = dict(r.place.dynamic).get(RECURSIVE, scope)
    r.rules.all_of += (_referred(r, "$recursiveRef", value, Found(scope.root, scope, scope.origin)),)


def _unevaluated_properties(r: _Reading, value: Any) -> None:
    r.rules.unevaluated_properties = r.sub("unevaluatedProperties", value)


def _unevaluated_items(r: _Reading, value: Any) -> None:
    r.rules.unevaluated_items = r.sub("unevaluatedItems", value)


_Reader = Callable[[_Reading, Any], None]
_ALWAYS = (Draft.D4, Draft.D2020)
_SINCE_6, _SINCE_7 = (Draft.D6, Draft.D2020), (Draft.D7, Draft.D2020)
_SINCE_2019 = (Draft.D2019, Draft.D2020)

READERS: dict[str, tuple[_Reader, tuple[Draft, Draft]]] = {
    "type": (_types, _ALWAYS),
    "enum": (_enum, _ALWAYS),
    "const": (_const, _SINCE_6),
    "minLength": (_min_length, _ALWAYS),
    "maxLength": (_max_length, _ALWAYS),
    "pattern": (_pattern, _ALWAYS),
    "minimum": (_minimum, _ALWAYS),
    "maximum": (_maximum, _ALWAYS),
    "exclusiveMinimum": (_exclusive_minimum, _ALWAYS),
    "exclusiveMaximum": (_exclusive_maximum, _ALWAYS),
    "multipleOf": (_multiple, _ALWAYS),
    "properties": (_properties, _ALWAYS),
    "patternProperties": (_pattern_properties, _ALWAYS),
    "additionalProperties": (_additional_properties, _ALWAYS),
    "required": (_required, _ALWAYS),
    "propertyNames": (_property_names, _SINCE_6),
    "minProperties": (_min_properties, _ALWAYS),
    "maxProperties": (_max_properties, _ALWAYS),
    "dependentRequired": (_dependent_required, _SINCE_2019),
    "dependentSchemas": (_dependent_schemas, _SINCE_2019),
    "dependencies": (_dependencies, _ALWAYS),
    "prefixItems": (_prefix_items, (Draft.D2020, Draft.D2020)),
    "items": (_items, _ALWAYS),
    "additionalItems": (_additional_items, (Draft.D4, Draft.D2019)),
    "minItems": (_min_items, _ALWAYS),
    "maxItems": (_max_items, _ALWAYS),
    "contains": (_contains, _SINCE_6),
    "minContains": (_contains_count, _SINCE_2019),
    "maxContains": (_contains_count, _SINCE_2019),
    "uniqueItems": (_unique_items, _ALWAYS),
    "allOf": (_all_of, _ALWAYS),
    "anyOf": (_any_of, _ALWAYS),
    "oneOf": (_one_of, _ALWAYS),
    "not": (_not, _ALWAYS),
    "if": (_if, _SINCE_7),
    "then": (_branch, _SINCE_7),
    "else": (_branch, _SINCE_7),
    "$ref": (_ref, _ALWAYS),
    "$dynamicRef": (_dynamic_ref, (Draft.D2020, Draft.D2020)),
    "$recursiveRef": (_recursive_ref, (Draft.D2019, Draft.D2019)),
    "unevaluatedProperties": (_unevaluated_properties, _SINCE_2019),
    "unevaluatedItems": (_unevaluated_items, _SINCE_2019),
}

STRUCTURE: dict[str, tuple[Draft, Draft]] = {
    "$defs": _ALWAYS,
    "definitions": _ALWAYS,
    "$schema": _ALWAYS,
    "id": (Draft.D4, Draft.D4),
    "$id": _SINCE_6,
    "$anchor": _SINCE_2019,
    "$recursiveAnchor": (Draft.D2019, Draft.D2019),
    "$dynamicAnchor": (Draft.D2020, Draft.D2020),
    "$vocabulary": _SINCE_2019,
}
"""Keywords that name things and hold subschemas for references; they demand nothing of a value."""


def structure_of(place: Place) -> list[str]:
    """The keywords of a subschema that are structure, and read as nothing else."""
    structure = _STRUCTURE[place.scope.draft]
    return [key for key in place.contents if key in structure]


_STRUCTURE = {
    draft: frozenset(key for key, (first, last) in STRUCTURE.items() if first <= draft <= last) for draft in Draft
}


def read(place: Place) -> Rules:
    """The rules of the subschema at ``place``: each of its keywords is structure, or stands among the rules'
    ``enforced`` or ``annotations``. Raises GrammarError for a keyword of the wrong shape."""
    contents = place.contents
    if isinstance(contents, bool):
        rules = Rules(place)
        if not contents:
            rules.types = 0
            rules.enforced = ["false"]
        return rules
    reading = _Reading(place)
    rules, draft = reading.rules, reading.draft
    structure = _STRUCTURE[draft]
    dialect = place.scope.dialect
    if draft <= Draft.D7 and "$ref" in contents:
        # Siblings of $ref are ignored up to draft 7 (draft-07 core, section 8.3).
        rules.annotations += [key for key in contents if key != "$ref" and key not in structure]
        _ref(reading, contents["$ref"])
        rules.enforced.append("$ref")
    else:
        readers = _readers(dialect)
        for key, value in contents.items():
            reader = readers.get(key)
            if reader is not None:
                reader(reading, value)
                (rules.annotations if key in _COMPANIONS and _idle(key, reading) else rules.enforced).append(key)
            elif key == "format":
                _format(reading, value)
            elif key not in structure:
                rules.annotations.append(key)
    if len(rules.all_of) == 1 and len(rules.enforced) == 1:
        rules.alias = rules.all_of[0]
    return rules


@lru_cache(maxsize=64)
def _readers(dialect: Dialect) -> dict[str, _Reader]:
    """What reads each keyword that is known in ``dialect``."""
    return {
        keyword: reader
        for keyword, (reader, (first, last)) in READERS.items()
        if first <= dialect.draft <= last and keyword not in dialect.left_out
    }


_COMPANIONS = frozenset(
    ("then", "else", "minContains", "maxContains", "additionalItems", "exclusiveMinimum", "exclusiveMaximum")
)


def _idle(keyword: str, r: _Reading) -> bool:
    """Whether ``keyword`` demands nothing for want of the keyword that it goes with."""
    if keyword in ("then", "else"):
        return "if" not in r.contents
    if keyword in ("minContains", "maxContains"):
        return "contains" not in r.contents
    if keyword == "additionalItems":
        return not isinstance(r.contents.get("items"), list)
    if r.draft == Draft.D4 and keyword in ("exclusiveMinimum", "exclusiveMaximum"):
        return "m" + keyword.removeprefix("exclusiveM") not in r.contents
    return False
