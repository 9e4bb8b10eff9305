"""How much the subschemas of a schema may combine into: whether a value may meet a limit.

A value is written as the alternatives of a conjunction (``expand``), and limits bound their number, the patterns for
its keys, its ``contains`` and so on. Of the latter, what all subschemas of a schema together cannot meet, none of its
values does; else they are counted place by place (``locations``), and where a limit may be met even so, all values are
looked at before the first text (``nodes.explore``). Of alternatives, those of each subschema are counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from structgen.grammars.schema.arrays import MAX_COUNTS
from structgen.grammars.schema.expand import MAX_ALTERNATIVES
from structgen.grammars.schema.fresh import MAX_PATTERNS
from structgen.grammars.schema.multiples import MAX_OTHERS

ENOUGH = math.log2(MAX_ALTERNATIVES) - 1
"""So many choices between two meet no limit: each takes a step, and each alternative is one."""
_TABLES = ("properties", "required", "patternProperties", "dependentRequired", "prefixItems")
"""Keywords that fail in one of several members."""


class Tally:
    """What has been counted of some subschemas.

    Attributes:
        patterns: the patterns for keys.
        names: how many ``propertyNames`` count in the negative.
        counts: the ways in which the ``contains`` may be counted.
        steps: values of ``multipleOf``.
        members: how many subschemas.
    """

    def __init__(self) -> None:
        self.patterns: set[str] = set()
        self.names = 0
        self.counts = 1
        self.steps: set[Any] = set()
        self.members = 0

    def add(self, at: dict[str, Any]) -> None:
        """Count a subschema."""
        self.members += 1
        if "patternProperties" in at:
            self.patterns.update(at["patternProperties"])
        if "contains" in at:
            bounds = at.get("minContains", 1), at.get("maxContains", 0)
            self.counts *= 2 + max(int(each) for each in bounds if not isinstance(each, bool))
        if "multipleOf" in at:
            self.steps.add(at["multipleOf"])

    @property
    def is_little(self) -> bool:
        """Whether no limit can be met, that on alternatives left aside."""
        return (
            len(self.patterns) + self.names <= MAX_PATTERNS
            and self.counts <= MAX_COUNTS
            and len(self.steps) <= MAX_OTHERS
            and (self.members < 2 or all(map(is_small_step, self.steps)))
        )


def is_small_step(step: Any) -> bool:
    """Whether a ``multipleOf`` is decided quickly together with others and with bounds."""
    return step in (0.1, 0.01, 0.001) or (isinstance(step, int) and step <= 100)


class Choices:
    """How many alternatives the subschemas of one schema may be written out as, each for itself, as logarithms.

    Args:
        target: what a reference leads to.
        overlapping: which branches of a ``oneOf`` may hold beside others.
        alone: whether what stands beside a ``$ref`` does not count.
    """

    def __init__(
        self, target: Callable[[str], Any], overlapping: Callable[[list[Any]], Iterable[int]], alone: bool
    ) -> None:
        self._target = target
        self._overlapping = overlapping
        self._alone = alone
        self._known: dict[tuple[int, bool], float] = {}

    def of(self, at: Any, negated: bool) -> float:
        """Of a subschema, or its opposite."""
        if type(at) is not dict:
            return 0.0
        key = id(at), negated
        found = self._known.get(key)
        if found is None:
            self._known[key] = 0.0  # a circle adds nothing: it is refused
            found = self._known[key] = self._opposite(at) if negated else self._plain(at)
        return found

    def _plain(self, at: dict[str, Any]) -> float:
        """Alternatives of what holds together multiply."""
        made = 0.0
        if "$ref" in at:
            made += self.of(self._target(at["$ref"]), False)
            if self._alone:
                return made
        made += sum(self.of(each, False) for each in at.get("allOf", ()))
        if "anyOf" in at:
            made += _sum(self.of(each, False) for each in at["anyOf"])
        if "oneOf" in at:
            branches = at["oneOf"]
            others = sum(self.of(branches[i], True) for i in self._overlapping(branches))
            made += _sum(self.of(each, False) for each in branches) + others
        if "not" in at:
            made += self.of(at["not"], True)
        if "if" in at:
            made += _sum([
                self.of(at["if"], False) + self.of(at.get("then"), False),
                self.of(at["if"], True) + self.of(at.get("else"), False),
            ])  # fmt: skip
        for keyword in ("dependentSchemas", "dependencies"):
            for each in at.get(keyword, {}).values():
                if type(each) is not list:
                    made += _sum([0.0, self.of(each, False)])
        return made

    def _opposite(self, at: dict[str, Any]) -> float:
        """Alternatives of what need not hold together add up."""
        if "$ref" in at and self._alone:
            return self.of(self._target(at["$ref"]), True)
        ways = [0.0] * (len(at) + sum(len(at[keyword]) for keyword in _TABLES if keyword in at))
        if "$ref" in at:
            ways.append(self.of(self._target(at["$ref"]), True))
        ways += (self.of(each, True) for each in at.get("allOf", ()))
        if "anyOf" in at:
            ways.append(sum(self.of(each, True) for each in at["anyOf"]))
        if "oneOf" in at:
            some = _sum(self.of(each, False) for each in at["oneOf"])
            ways.append(sum(_sum([self.of(each, True), some]) for each in at["oneOf"]))
        if "not" in at:
            ways.append(self.of(at["not"], False))
        if "if" in at:
            either = _sum([self.of(at["if"], True), self.of(at.get("then"), True)])
            ways.append(either + _sum([self.of(at["if"], False), self.of(at.get("else"), True)]))
        for keyword in ("dependentSchemas", "dependencies"):
            ways += (self.of(each, True) for each in at.get(keyword, {}).values())
        return _sum(ways)


def _sum(logarithms: Iterable[float]) -> float:
    """The logarithm of the sum (of nothing: 0)."""
    listed = list(logarithms)
    most = max(listed, default=0.0)
    if len(listed) < 2:
        return most
    return most + math.log2(sum(2.0 ** (each - most) for each in listed))
