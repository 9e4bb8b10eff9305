"""What a glance at a schema shows: that it can be used, and that it has values.

Most schemas use plain keywords in plain ways. For them it is enough to look once at each reachable subschema, without
rules, expressions or automata; these are built when a text first gets there. What is said here is certain and says
nothing about other schemas: those are looked at in full (``json_schema``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

from structgen.errors import GrammarError
from structgen.grammars import formats
from structgen.grammars.encoding import JSON_ANY
from structgen.grammars.plain_pattern import is_plain
from structgen.grammars.schema.arrays import MAX_CONTAINS
from structgen.grammars.schema.cases import MAX_WISHES
from structgen.grammars.schema.dialects import Draft
from structgen.grammars.schema.fresh import spellable
from structgen.grammars.schema.keywords import (
    ARRAY,
    BOOLEAN,
    FRACTION,
    INTEGER,
    NULL,
    NUMBER,
    OBJECT,
    READERS,
    STRING,
    TYPES,
)
from structgen.grammars.schema.limits import ENOUGH, Choices, Tally
from structgen.grammars.schema.locations import Locations, overlapping, types_of
from structgen.grammars.schema.scalars import pattern_expr

MAX_REQUIRED_DEPTH = 30
_LARGE = 10**300
_EXACT = 2.0**52
_NOWHERE = object()

Queue = list[Any]
Check = Callable[[Any, Queue], bool]
"""Whether the value of a keyword is surely well-formed; puts the subschemas in it on the queue."""


def look(root: Any, draft: Draft) -> list[tuple[float, Any]] | None:
    """None unless every subschema of ``root`` that counts is surely well-formed and within all limits, whether or not
    anything satisfies it, the limit on alternatives left aside; else those that may exceed that one
    (``_Glance.crowded``). ``root`` is JSON."""
    glance = _Glance(root, draft)
    return glance.crowded() if glance.is_usable() else None


class _Glance:
    """One schema, looked at once."""

    def __init__(self, root: Any, draft: Draft) -> None:
        self.root = root
        self.draft = draft
        self.chains: dict[int, list[Any]] = {}
        """id of a subschema -> what it means by reference and ``allOf`` alone."""
        self.targets: dict[str, Any] = {}
        """What each reference leads to."""
        self.negated: Queue = []
        self.negates = False
        self.tally = Tally()
        self.combining: Queue = []
        self.named = False
        """Some subschema begins a resource of its own."""

    def is_usable(self) -> bool:
        root, checks = self.root, _CHECKS[self.draft]
        old, noted = self.draft <= Draft.D7, _NOTED
        seen: set[int] = set()
        queue: Queue = [root]
        while queue:
            at = queue.pop()
            if type(at) is not dict:
                if type(at) is bool:
                    continue
                return False
            if id(at) in seen:
                continue
            seen.add(id(at))
            if not noted.isdisjoint(at):
                if "$ref" in at:
                    found = resolve(root, at["$ref"])
                    if found is _NOWHERE:
                        return False
                    self.targets[at["$ref"]] = found
                    queue.append(found)
                    self.chains[id(at)] = [found]
                    if old:
                        continue
                if "multipleOf" in at and not _BOUNDS.isdisjoint(at) and not _is_short_search(at):
                    return False
                if at is not root and not self._is_named_harmlessly(at):
                    return False
                self.combining.append(at)
            for keyword, value in at.items():
                check = checks.get(keyword)
                if check is not None and not check(value, queue):
                    return False
        if self.named and self.chains:  # which hold references alone so far
            return False
        for at in self.combining:
            self._combine(at)
        return self._has_no_circle() and self._combines_little()

    def _is_named_harmlessly(self, at: dict[str, Any]) -> bool:
        """Whether ``at`` begins no resource, or one that only references would notice."""
        if "$schema" in at and ("$id" in at or "id" in at):
            return False
        name = at.get("id" if self.draft == Draft.D4 else "$id")
        if type(name) is not str or name.startswith("#"):
            return True
        self.named = True
        return _PLAIN_NAME.fullmatch(name) is not None

    def _combine(self, at: dict[str, Any]) -> None:
        """Note what ``at`` means by ``allOf``, what of it may be negated, and what is limited."""
        if "patternProperties" in at or "multipleOf" in at:
            self.tally.add(at)
        branches = at.get("oneOf", ())
        if len(branches) > 1:
            self.negated += (branches[i] for i in overlapping(branches, self.targets))
        chained = [*at.get("allOf", ()), *(branches if len(branches) == 1 else ())]
        if chained:
            self.chains[id(at)] = self.chains.get(id(at), []) + chained
        for keyword in ("not", "if"):
            if keyword in at and keyword in _CHECKS[self.draft]:
                self.negated.append(at[keyword])

    def _has_no_circle(self) -> bool:
        """Whether no references lead to each other alone."""
        chains = self.chains
        done: set[int] = set()
        for start in chains:
            path: set[int] = set()
            stack = [(start, False)]
            while stack:
                at, leave = stack.pop()
                if leave:
                    path.discard(at)
                    done.add(at)
                elif at in path:
                    return False
                elif at in chains and at not in done:
                    path.add(at)
                    stack.append((at, True))
                    stack += [(id(each), False) for each in chains[at]]
        return True

    def _combines_little(self) -> bool:
        """Whether what applies to one value meets no limit; of some keywords the opposites are counted."""
        checks = _CHECKS[self.draft]
        seen: set[int] = set()
        queue, items, keys = self.negated, 0, 0
        self.negates = bool(queue)
        while queue:
            at = queue.pop()
            if type(at) is not dict or id(at) in seen:
                continue
            seen.add(id(at))
            if "$ref" in at:
                queue.append(self.targets[at["$ref"]])
                if self.draft <= Draft.D7:
                    continue
            for keyword, value in at.items():
                check = checks.get(keyword)
                if check is not None:
                    check(value, queue)
            if any(type(each) is dict or type(each) is list for each in (*at.get("enum", ()), at.get("const"))):
                return False
            self.tally.names += "propertyNames" in at
            items += "items" in at or "additionalItems" in at
            keys += bool(at.get("additionalProperties")) + ("propertyNames" in at)
            keys += len(at.get("patternProperties", ()))
        self.tally.members = len(self.combining)
        if items <= MAX_CONTAINS and keys <= MAX_WISHES and self.tally.is_little:
            return True
        return Locations(self.root, self.draft, self.targets, checks).meet_no_limit()

    def crowded(self) -> list[tuple[float, Any]]:
        """Subschemas that may be written out as more alternatives than is allowed, with how many choices that are."""
        if not self.negates and sum(len(at[key]) for at in self.combining for key in _CHOOSING if key in at) < ENOUGH:
            return []
        old = self.draft <= Draft.D7
        choices = Choices(self.targets.__getitem__, lambda branches: overlapping(branches, self.targets), old)
        return [(many, at) for at in self.combining if (many := choices.of(at, False)) > ENOUGH]


def resolve(root: Any, reference: Any) -> Any:
    """What a reference to a place in ``root`` itself leads to, if no ``$id`` is on the way; else ``_NOWHERE``."""
    if reference == "#":
        return root
    if type(reference) is not str or not reference.startswith("#/"):
        return _NOWHERE
    at = root
    for token in reference[2:].split("/"):
        if "%" in token or "~" in token:
            token = unquote(token).replace("~1", "/").replace("~0", "~")
        if type(at) is dict and token in at:
            at = at[token]
        elif type(at) is list and token.isascii() and token.isdigit() and int(token) < len(at):
            at = at[int(token)]
        else:
            return _NOWHERE
        if type(at) is dict and (type(at.get("$id")) is str or type(at.get("id")) is str):
            return _NOWHERE
    return at if type(at) in (dict, bool) else _NOWHERE


# -- keywords


def _schema(value: Any, queue: Queue) -> bool:
    queue.append(value)  # whether it is a schema is seen there
    return True


def _schemas(value: Any, queue: Queue) -> bool:
    if type(value) is not list or not value:
        return False
    queue += value
    return True


def _table(value: Any, queue: Queue) -> bool:
    if type(value) is not dict:
        return False
    queue += value.values()
    return True


def _patterns(value: Any, queue: Queue) -> bool:
    return _table(value, queue) and all(map(_is_read, value))


def _items(value: Any, queue: Queue) -> bool:
    return _schemas(value, queue) if type(value) is list else _schema(value, queue)


def _dependencies(value: Any, queue: Queue) -> bool:
    if type(value) is not dict:
        return False
    for each in value.values():
        if type(each) is not list:
            queue.append(each)
        elif not _strings(each, queue):
            return False
    return True


def _strings_table(value: Any, queue: Queue) -> bool:
    return type(value) is dict and all(_strings(each, queue) for each in value.values())


def _strings(value: Any, queue: Queue) -> bool:
    return type(value) is list and all(type(each) is str for each in value)


def _type(value: Any, queue: Queue) -> bool:
    if type(value) is str:
        return value in TYPES
    return type(value) is list and bool(value) and all(type(each) is str and each in TYPES for each in value)


def _values(value: Any, queue: Queue) -> bool:
    """A few arrays and objects, and any number of scalars."""
    return type(value) is list and sum(type(each) is dict or type(each) is list for each in value) < 100 and all(
        map(_value, value)
    )


def _value(value: Any, queue: Queue | None = None, depth: int = 8) -> bool:
    """Numbers of a usual size, texts, null, true, false, and arrays and objects of them."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return True
    if kind is not dict and kind is not list:
        return _number(value)
    inside = value.values() if kind is dict else value
    return depth > 0 and all(_value(each, None, depth - 1) for each in inside)


def _number(value: Any, queue: Queue | None = None) -> bool:
    kind = type(value)
    if kind is Decimal:
        return bool(value.is_finite()) and abs(value.adjusted()) < 300 and len(value.as_tuple().digits) < 300
    return (kind is int or kind is float) and -_LARGE < value < _LARGE


def _step(value: Any, queue: Queue) -> bool:
    return _number(value) and value > 0


def _count(value: Any, queue: Queue) -> bool:
    return type(value) is int and value >= 0


def _true_or_false(value: Any, queue: Queue) -> bool:
    return type(value) is bool


def _pattern(value: Any, queue: Queue) -> bool:
    return type(value) is str and _is_read(value)


def _is_read(pattern: str) -> bool:
    if is_plain(pattern):
        return True
    try:
        pattern_expr(pattern, JSON_ANY)
    except GrammarError:
        return False
    return True


def _text(value: Any, queue: Queue) -> bool:
    return type(value) is str


def _unsure(value: Any, queue: Queue) -> bool:
    return False


def _reference(value: Any, queue: Queue) -> bool:
    return True  # followed by ``_Glance`` itself


_CHOOSING = ("anyOf", "oneOf", "dependencies", "dependentSchemas")
_NOTED = frozenset((
    *("$ref", "allOf", "anyOf", "oneOf", "not", "if", "dependencies", "dependentSchemas", "patternProperties"),
    *("multipleOf", "$id", "id"),
))  # fmt: skip
_PLAIN_NAME = re.compile(r"[\w:/.#~%&=+,;@*!?-]*", re.ASCII)
"""URI references that are surely well-formed."""

_KEYWORDS: dict[str, Check] = {
    "type": _type,
    "enum": _values,
    "const": _value,
    "minLength": _count,
    "maxLength": _count,
    "pattern": _pattern,
    "minimum": _number,
    "maximum": _number,
    "exclusiveMinimum": _number,
    "exclusiveMaximum": _number,
    "multipleOf": _step,
    "properties": _table,
    "patternProperties": _patterns,
    "additionalProperties": _schema,
    "required": _strings,
    "propertyNames": _schema,
    "minProperties": _count,
    "maxProperties": _count,
    "dependentRequired": _strings_table,
    "dependentSchemas": _table,
    "dependencies": _dependencies,
    "prefixItems": _schemas,
    "items": _items,
    "additionalItems": _schema,
    "minItems": _count,
    "maxItems": _count,
    "uniqueItems": _true_or_false,
    "allOf": _schemas,
    "anyOf": _schemas,
    "oneOf": _schemas,
    "not": _schema,
    "if": _schema,
    "then": _schema,
    "else": _schema,
    "$ref": _reference,
}


def _checks(draft: Draft) -> dict[str, Check]:
    made = {
        keyword: _KEYWORDS.get(keyword, _unsure)
        for keyword, (_, (first, last)) in READERS.items()
        if first <= draft <= last
    }
    made["format"] = _text
    if draft == Draft.D4:
        made |= dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), _true_or_false)
    if draft == Draft.D2020:
        made["items"] = _schema
    return made


_CHECKS = {draft: _checks(draft) for draft in Draft}


_BOUNDS = frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"))


def _is_short_search(at: dict[str, Any]) -> bool:
    """Whether a step and bounds are so small that they are surely decided together within the limits."""
    step = at["multipleOf"]
    if type(step) is not int and step not in (0.1, 0.01, 0.001):
        return False
    bounds = [at[keyword] for keyword in _BOUNDS.intersection(at)]
    return step <= 100 and all(type(each) is bool or (type(each) is int and abs(each) <= 10**6) for each in bounds)


# -- values


class Values:
    """Which subschemas of a usable schema have values, as far as a glance shows."""

    def __init__(self, root: Any, draft: Draft) -> None:
        self.root = root
        self.draft = draft
        self._known: dict[int, bool] = {}
        self._demanding = _DEMANDING[draft]

    def satisfy(self, contents: Any, fuel: int = MAX_REQUIRED_DEPTH) -> bool:
        """Whether some value surely satisfies the subschema ``contents``."""
        if type(contents) is bool:
            return contents
        found = self._known.get(id(contents))
        if found is None and fuel:
            self._known[id(contents)] = False  # unless it is found without itself
            found = self._known[id(contents)] = self._look(contents, fuel - 1)
        return bool(found)

    def _look(self, at: dict[str, Any], fuel: int) -> bool:
        demanding = self._demanding
        demands = [key for key in at if key in demanding]
        if not demands or demands == _TYPE_ALONE:
            return True
        if "$ref" in at:
            if self.draft > Draft.D7 and len(demands) > 1:
                return False
            found = resolve(self.root, at["$ref"])
            return found is not _NOWHERE and self.satisfy(found, fuel)
        if len(demands) == 1 and demands[0] in ("anyOf", "oneOf", "allOf"):
            branches = at[demands[0]]
            if demands[0] == "anyOf" or len(branches) == 1:
                return any(self.satisfy(each, fuel) for each in branches)
            return demands[0] == "oneOf" and self._one_alone(branches, fuel)
        if not _SIMPLE.issuperset(demands):
            return False
        types = types_of(at)
        if "enum" in at or "const" in at:
            values = at["enum"] if "enum" in at else [at["const"]]
            return len(demands) == 1 + ("type" in at) and any(_fits(value, types) for value in values)
        return bool(
            types & (NULL | BOOLEAN)
            or (types & STRING and _has_strings(at))
            or (types & NUMBER and _has_numbers(at, types, self.draft))
            or (types & ARRAY and self._has_arrays(at, fuel))
            or (types & OBJECT and self._has_objects(at, fuel))
        )

    def _one_alone(self, branches: list[Any], fuel: int) -> bool:
        """Whether a branch has values, and excludes all others."""
        targets = {each["$ref"]: resolve(self.root, each["$ref"]) for each in branches if _is_reference(each)}
        met = overlapping(branches, targets)
        return any(i not in met and self.satisfy(each, fuel) for i, each in enumerate(branches))

    def _has_arrays(self, at: dict[str, Any], fuel: int) -> bool:
        least = at.get("minItems", 0)
        if not least:
            return True
        if least > at.get("maxItems", least) or type(at.get("items")) is list or "prefixItems" in at:
            return False
        return (least == 1 or not at.get("uniqueItems")) and self.satisfy(at.get("items", True), fuel)

    def _has_objects(self, at: dict[str, Any], fuel: int) -> bool:
        required = at.get("required", ())
        least = at.get("minProperties", 0)
        if not required and not least:
            return True
        if not _ON_KEYS.isdisjoint(at) or max(len(required), least) > at.get("maxProperties", _LARGE):
            return False
        properties, additional = at.get("properties", {}), at.get("additionalProperties", True)
        for key in required:
            if not spellable(key) or not self.satisfy(properties.get(key, additional), fuel):
                return False
        return least <= len(set(required)) or additional is True or additional == {}


def _is_reference(contents: Any) -> bool:
    return type(contents) is dict and "$ref" in contents


def _fits(value: Any, types: int) -> bool:
    """Whether a scalar is surely of one of the types, and can be written."""
    if type(value) is str:
        return bool(types & STRING) and spellable(value)
    if value is None or type(value) is bool:
        return bool(types & (NULL if value is None else BOOLEAN))
    return type(value) is int and bool(types & INTEGER)


def _has_strings(at: dict[str, Any]) -> bool:
    if "pattern" in at or at.get("format") in formats.FORMATS:
        alone = not ("pattern" in at and "format" in at) and is_plain(at.get("pattern", ""))
        return alone and "minLength" not in at and "maxLength" not in at
    return bool(at.get("minLength", 0) <= at.get("maxLength", _LARGE))


def _has_numbers(at: dict[str, Any], types: int, draft: Draft) -> bool:
    if "multipleOf" in at:
        return types & NUMBER != FRACTION and (_BOUNDS.isdisjoint(at) or _has_multiple(at))
    lo, hi = at.get("minimum"), at.get("maximum")
    if draft > Draft.D4:
        low, high = at.get("exclusiveMinimum"), at.get("exclusiveMaximum")
        lo = low if lo is None or (low is not None and low > lo) else lo
        hi = high if hi is None or (high is not None and high < hi) else hi
    if lo is None or hi is None:
        return True
    low, high = float(lo), float(hi)
    return low > -_EXACT and high < _EXACT and high - low >= 2  # an integer lies between


def _has_multiple(at: dict[str, Any]) -> bool:
    """Whether a multiple of a whole step lies between whole bounds, themselves allowed."""
    lo, hi, step = at.get("minimum", 0), at.get("maximum", 10**6), at["multipleOf"]
    if "exclusiveMinimum" in at or "exclusiveMaximum" in at or not type(lo) is type(hi) is type(step) is int:
        return False
    return bool(-(-lo // step) * step <= hi)


_ON_KEYS = frozenset(("patternProperties", "propertyNames", "dependencies", "dependentRequired", "dependentSchemas"))
_SIMPLE = frozenset(_KEYWORDS) - {"anyOf", "oneOf", "allOf", "not", "if", "then", "else", "$ref"}
_DEMANDING = {draft: frozenset(checks) for draft, checks in _CHECKS.items()}
_TYPE_ALONE = ["type"]
