"""Which subschemas of a schema may meet at one place of a text, and whether they meet a limit there.

A value is written under limits (``limits``; of the opposites of some keywords: ``cases.MAX_WISHES``,
``arrays.MAX_CONTAINS``), and only subschemas that apply to the same value count together. So subschemas are followed in
sets: those of the whole text, then those of each member and of the items, as long as new sets are found. The sets are
too large where branches exclude each other: what they say to be little is little.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

from structgen.grammars.schema.arrays import MAX_CONTAINS
from structgen.grammars.schema.cases import MAX_WISHES
from structgen.grammars.schema.dialects import Draft
from structgen.grammars.schema.keywords import ALL, OBJECT, TYPES
from structgen.grammars.schema.limits import Tally, is_small_step

MAX_STEPS = 8_000
MAX_BRANCHES = 50
MAX_KEYWORDS = 100
"""So many subschemas for the values of other keys may be negated; their opposites call each other."""

Seeds = list[tuple[Any, bool]]
"""Subschemas, and whether the opposite of each may count."""
Location = frozenset[tuple[int, bool]]

_COMBINING = frozenset(("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"))
_NESTING = _COMBINING | {
    *("$ref", "properties", "patternProperties", "additionalProperties", "propertyNames"),
    *("items", "prefixItems", "additionalItems"),
}
"""Keywords without which a subschema holds no other."""


class Locations:
    """The locations of one schema.

    Args:
        targets: what each reference leads to.
        known: the keywords that count.
    """

    def __init__(self, root: Any, draft: Draft, targets: dict[str, Any], known: Container[str]) -> None:
        self.root = root
        self.targets = targets
        self.known = known
        self.old = draft <= Draft.D7
        self.steps = 0
        self._schemas: dict[int, dict[str, Any]] = {}

    def meet_no_limit(self) -> bool:
        """Whether no limit is met anywhere, that on alternatives left aside."""
        first = self._at([(self.root, False)])
        seen, queue = {first}, [first]
        negated: set[int] = set()
        for location in queue:
            items = keys = 0
            tally = Tally()
            for number, is_negated in location:
                at = self._schemas[number]
                tally.add(at)
                if is_negated:
                    tally.names += "propertyNames" in at
                    items += "items" in at or "additionalItems" in at
                    count = bool(at.get("additionalProperties")) + len(at.get("patternProperties", ()))
                    keys += count + ("propertyNames" in at)
                    if count:
                        negated.add(number)
            if items > MAX_CONTAINS or keys > MAX_WISHES or len(negated) > MAX_KEYWORDS or not tally.is_little:
                return False
            for seeds in self._below(location):
                if self._step_apart(seeds):
                    return False
                seeds = [each for each in seeds if type(each[0]) is dict and not _NESTING.isdisjoint(each[0])]
                if seeds:
                    below = self._at(seeds)
                    if below not in seen:
                        seen.add(below)
                        queue.append(below)
                if self.steps > MAX_STEPS:
                    return False
        return True

    def _step_apart(self, seeds: Seeds) -> bool:
        """Whether a ``multipleOf`` that is not small meets other subschemas."""
        return len(seeds) > 1 and any(
            type(at) is dict and "multipleOf" in at and not is_small_step(at["multipleOf"]) for at, _ in seeds
        )

    def _at(self, seeds: Seeds) -> Location:
        """All that applies where the seeds do."""
        found: dict[int, bool] = {}
        stack = list(seeds)
        while stack:
            at, negated = stack.pop()
            if type(at) is not dict or found.get(id(at), -1) >= negated:
                continue
            self.steps += 1
            found[id(at)] = negated
            self._schemas[id(at)] = at
            if "$ref" in at:
                stack.append((self.targets[at["$ref"]], negated))
                if self.old:
                    continue
            if not _COMBINING.isdisjoint(at):
                stack += self._combined(at, negated)
        return frozenset(found.items())

    def _combined(self, at: dict[str, Any], negated: bool) -> Iterator[tuple[Any, bool]]:
        for keyword in _COMBINING.intersection(at):
            value = at[keyword]
            if keyword not in self.known:
                continue
            if keyword in ("not", "if"):
                yield value, True
            elif keyword in ("then", "else"):
                yield value, negated
            elif type(value) is dict:
                yield from ((each, negated) for each in value.values())
            else:
                met = overlapping(value, self.targets) if keyword == "oneOf" and not negated else ()
                yield from ((each, negated or i in met) for i, each in enumerate(value))

    def _below(self, location: Location) -> Iterator[Seeds]:
        """What applies to each member of an object, to its keys, and to the items of an array."""
        members = [(self._schemas[number], negated) for number, negated in location]
        if self.old:
            members = [(at, negated) for at, negated in members if "$ref" not in at]
        keys: dict[str, None] = {}
        others: Seeds = []
        items: Seeds = []
        for at, negated in members:
            if _NESTING.isdisjoint(at):
                continue
            keys.update(dict.fromkeys(at.get("properties", ())))
            others += [(each, negated) for each in at.get("patternProperties", {}).values()]
            for keyword in ("items", "prefixItems", "additionalItems"):
                value = at.get(keyword) if keyword in self.known else None
                items += [(each, negated) for each in (value if type(value) is list else (value,))]
            if "propertyNames" in self.known and "propertyNames" in at:
                yield [(at["propertyNames"], negated)]
        additional = [(at["additionalProperties"], negated) for at, negated in members if "additionalProperties" in at]
        yield items
        yield others + additional
        declaring = [(at.get("properties", {}), at.get("additionalProperties"), negated) for at, negated in members]
        if len(declaring) > 1:
            declaring = [each for each in declaring if each[0] or each[1] is not None]
        for key in keys:
            self.steps += len(declaring)
            yield others + [(properties.get(key, more), negated) for properties, more, negated in declaring]


def overlapping(branches: list[Any], targets: dict[str, Any]) -> list[int]:
    """Which branches are not seen to exclude all others, by their types or by a required member that has other values
    in each. What is seen here is seen when ``oneOf`` is multiplied out, too (``expand.disjoint``)."""
    if len(branches) > MAX_BRANCHES:
        return list(range(len(branches)))
    seen = [_outline(targets.get(each["$ref"], True) if _is_reference(each) else each) for each in branches]
    return [i for i, one in enumerate(seen) if any(i != j and not _exclude(one, other) for j, other in enumerate(seen))]


def _is_reference(branch: Any) -> bool:
    return type(branch) is dict and "$ref" in branch


def _outline(branch: Any) -> tuple[int, dict[str, frozenset[str]]]:
    """The types of a branch, and the texts that required members of it may be."""
    if type(branch) is not dict or "$ref" in branch:
        return 0 if branch is False else ALL, {}
    tags = {}
    properties = branch.get("properties", {})
    for key in branch.get("required", ()):
        member = properties.get(key)
        if type(member) is dict and "$ref" not in member:
            values = member.get("enum")
            if type(values) is list and all(type(each) is str for each in values):
                tags[key] = frozenset(values)
    return types_of(branch), tags


def _exclude(one: tuple[int, dict[str, frozenset[str]]], other: tuple[int, dict[str, frozenset[str]]]) -> bool:
    common = one[0] & other[0]
    if not common:
        return True
    if common != OBJECT:
        return False
    return any(key in other[1] and values.isdisjoint(other[1][key]) for key, values in one[1].items())


def types_of(contents: Any) -> int:
    """The types that ``type`` names, as bits."""
    if type(contents) is not dict:
        return ALL if contents else 0
    names = contents.get("type")
    if names is None:
        return ALL
    if type(names) is str:
        return TYPES[names]
    found = 0
    for name in names:
        found |= TYPES[name]
    return found
