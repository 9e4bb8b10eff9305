"""Whether an object can still be completed: which sets of further keys satisfy all that one case demands.

What has to be found is a set of keys that holds the required ones, is closed under dependencies, has a size within
bounds, and fulfils every wish ("some key ... has a value that ..."). Sizes grow one by one from the smallest closed
set to the largest, save where keys depend on each other in a circle (*knots*); those are tried in all
combinations. So are the keys that may fulfil the wishes, which are few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from structgen.errors import GrammarTooComplex

if TYPE_CHECKING:
    from structgen.grammars.schema.cases import ObjectCase
    from structgen.grammars.schema.nodes import Node

MAX_KNOTS = 10


def bits(mask: int) -> Iterator[int]:
    """The indices of the bits that are set, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def satisfiable(node: Node) -> bool:
    return node.satisfiable


class Written(NamedTuple):
    """How far an object has got.

    Attributes:
        seen: declared keys that are there, as bits (with a fixed order perhaps all up to the last one).
        reachable: declared keys that may still come, as bits.
        total: the number of keys, where it matters.
        extra: the other keys.
        spent: the patterns that one more such key matches whose text is not in ``extra``; None: there is none.
        unmet: wishes that are still open, as bits.
    """

    seen: int
    reachable: int
    total: int = 0
    extra: frozenset[str] = frozenset()
    spent: int | None = None
    unmet: int = 0


class Completion:
    """A case with its keys as bits.

    Args:
        keys: the declared keys, those of the case among them.
        truth: which nodes have values.
    """

    def __init__(self, case: ObjectCase, keys: tuple[str, ...], truth: Callable[[Node], bool] = satisfiable) -> None:
        index = {key: i for i, key in enumerate(keys)}
        self.case = case
        self.keys = keys
        self.declared = frozenset(keys)
        self.truth = truth
        self.fresh = case.fresh
        self.lo, self.hi = case.min_properties, case.max_properties
        self.required = sum(1 << index[key] for key in case.required)
        usable = sum(1 << i for i, key in enumerate(keys) if case.takes(key, truth))
        self.closure_of: dict[int, int] = {}
        for key in case.dependents:
            needs = sum(1 << index[each] for each in case.needs([key]))
            self.closure_of[index[key]] = needs
            if needs & ~usable:
                usable &= ~(1 << index[key])
        self.usable = usable
        self.knots = self._knots() if self.closure_of and self.lo and self.hi is not None else []
        self._ways: dict[int, tuple[int, ...]] = {}
        self._fresh_ways: dict[int, int] | None = None

    @cached_property
    def nodes(self) -> list[Node | None]:
        """The nodes of the declared keys; None: the key is forbidden."""
        return [self.case.node(key) for key in self.keys]

    def _knots(self) -> list[int]:
        found = set()
        for i, needs in self.closure_of.items():
            knot = 1 << i | sum(1 << j for j in bits(needs) if self.closure_of.get(j, 0) >> i & 1)
            if knot & (knot - 1):
                found.add(knot)
        if len(found) > MAX_KNOTS:
            raise GrammarTooComplex(
                f"more than {MAX_KNOTS} circles of dependentRequired between minProperties and maxProperties",
                pointer=self.case.rules[0].place.pointer,
            )
        return sorted(found)

    def closure(self, keys: int) -> int:
        """The keys, and all that they depend on."""
        found = keys
        for i, needs in self.closure_of.items():
            if keys >> i & 1:
                found |= needs
        return found

    @property
    def plain(self) -> bool:
        """Keys do not affect each other, save that some are required."""
        return not self.closure_of and not self.lo and self.hi is None and not self.case.wishes

    def left(self, seen: int) -> int:
        """The keys that must still come."""
        return self.closure(seen | self.required) & ~seen

    def possible(self, at: Written) -> bool:
        """Whether an object that has got so far can be completed."""
        left = self.left(at.seen)
        free = self._free(at.seen, at.reachable)
        if left & ~free:
            return False
        if not at.unmet:
            return self._fits(left, free, at, 0)
        return self._cover(at.unmet, left, free, at, 0, [])

    def _free(self, seen: int, reachable: int) -> int:
        """The keys that may still come, with all that they depend on."""
        found = free = self.usable & reachable
        for i, needs in self.closure_of.items():
            if needs & ~(seen | free):
                found &= ~(1 << i)
        return found

    def _fits(self, chosen: int, free: int, at: Written, witnesses: int) -> bool:
        """Whether the keys ``chosen`` and ``witnesses`` fresh ones can be filled up to an allowed number."""
        least = at.total + chosen.bit_count() + witnesses
        if self.hi is not None and max(least, self.lo) > self.hi:
            return False
        if least >= self.lo:
            return True
        knots = [knot for knot in self.knots if not knot & ~free and not knot & chosen]
        if not knots:
            return self._reaches(free, at)
        assert self.hi is not None
        for subset in range(1 << len(knots)):
            taken = barred = 0
            for i, knot in enumerate(knots):
                if subset >> i & 1:
                    taken |= knot
                else:
                    barred |= knot
            keys = self.closure(chosen | taken) & ~at.seen
            if keys & barred or at.total + keys.bit_count() + witnesses > self.hi:
                continue
            allowed = free & ~barred
            for i, needs in self.closure_of.items():
                if needs & barred:
                    allowed &= ~(1 << i)
            if at.total + keys.bit_count() + witnesses >= self.lo or self._reaches(allowed, at):
                return True
        return False

    def _reaches(self, keys: int, at: Written) -> bool:
        """Whether there are enough keys, all fresh ones counted."""
        wanted = self.lo - at.total - keys.bit_count()
        if wanted <= 0:
            return True
        truth = None if self.truth is satisfiable else self.truth
        return self.fresh.at_least(wanted + (at.spent is not None), at.extra | self.declared, truth)

    # -- wishes

    def ways(self, i: int) -> tuple[int, ...]:
        """The sets of wishes that the declared key ``i`` can fulfil at once."""
        found = self._ways.get(i)
        if found is None:
            key = self.keys[i]
            found = self._ways[i] = tuple(
                met
                for met in self.case.readings(key)
                if met and (node := self.case.node(key, met)) is not None and self.truth(node)
            )
        return found

    @property
    def fresh_ways(self) -> dict[int, int]:
        """The sets of wishes that a fresh key can fulfil at once, each with the classes of keys that can."""
        if self._fresh_ways is None:
            self._fresh_ways = {}
            for patterns in self.fresh.subsets:
                for met in self.fresh.readings(patterns):
                    if met and self.truth(self.fresh.node(patterns, met)):
                        self._fresh_ways[met] = self._fresh_ways.get(met, 0) | 1 << patterns
        return self._fresh_ways

    def _cover(self, unmet: int, chosen: int, free: int, at: Written, used: int, fresh: list[int]) -> bool:
        """Whether the wishes ``unmet`` can be fulfilled by keys other than ``used``. ``fresh`` holds the classes of the
        fresh keys that fulfil others."""
        if self.hi is not None and at.total + chosen.bit_count() + len(fresh) > self.hi:
            return False
        if not unmet:
            return self._fits(chosen, free, at, len(fresh))
        first = unmet & -unmet
        for met, classes in self.fresh_ways.items():
            more = [*fresh, classes]
            if met & first and self._distinct(more, at) and self._cover(unmet & ~met, chosen, free, at, used, more):
                return True
        tried = set()
        for i in bits(free & ~used):
            ways = self.ways(i)
            alike = (ways, chosen >> i & 1, self.closure_of.get(i))
            if alike in tried:
                continue
            tried.add(alike)
            for met in ways:
                if met & first:
                    keys = chosen | self.closure(1 << i) & ~at.seen
                    if self._cover(unmet & ~met, keys, free, at, used | 1 << i, fresh):
                        return True
        return False

    def _distinct(self, fresh: list[int], at: Written) -> bool:
        """Whether there are different keys, one for each set of classes (Hall's condition)."""
        taken = at.extra | self.declared
        for subset in range(1, 1 << len(fresh)):
            classes = 0
            for i in bits(subset):
                classes |= fresh[i]
            spent = 0 if at.spent is None else classes >> at.spent & 1
            if not self.fresh.supplies(classes, subset.bit_count() + spent, taken):
                return False
        return True
