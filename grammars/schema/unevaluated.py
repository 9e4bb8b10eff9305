"""``unevaluatedProperties`` and ``unevaluatedItems``: which members the keywords beside and below them evaluate
(2020-12 core, sections 7.7 and 11).

What is evaluated depends on which subschemas of ``anyOf``, ``oneOf``, ``if`` and their like succeed, so a place is
taken apart into **decisions**: subschemas that are asked to succeed, and what is evaluated then. The more is
evaluated, the less is left for the keywords to judge. Hence a value satisfies them exactly when it does with what some
subschemas that it satisfies evaluate, whether or not it satisfies more (``decisions``), and it fails them exactly
when it does with what some subschemas evaluate that include all that it satisfies (``denials``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from structgen.errors import GrammarTooComplex
from structgen.grammars.schema.document import Place
from structgen.grammars.schema.expand import Group, disjoint, exactly_one, referred
from structgen.grammars.schema.keywords import ARRAY, OBJECT, Contains, Rules, SomeKey
from structgen.grammars.schema.negation import negated_conjunction, negation

T = TypeVar("T")

MAX_DECISIONS = 2_000


class Evaluated(NamedTuple):
    """Members that are evaluated.

    Attributes:
        keys, patterns: the properties with these names, and those that match one of these patterns.
        every: all properties.
        prefix: so many first items.
        contained: the items that satisfy one of these.
        rest: all items.
    """

    keys: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    every: bool = False
    prefix: int = 0
    contained: tuple[Place, ...] = ()
    rest: bool = False

    def joined(self, other: Evaluated) -> Evaluated:
        return Evaluated(
            _joined(self.keys, other.keys),
            _joined(self.patterns, other.patterns),
            self.every or other.every,
            max(self.prefix, other.prefix),
            _joined(self.contained, other.contained),
            self.rest or other.rest,
        )

    def without(self, other: Evaluated) -> Evaluated:
        """What of this ``other`` does not evaluate, in plain sight."""
        return Evaluated(
            () if other.every else tuple(key for key in self.keys if key not in other.keys),
            () if other.every else tuple(each for each in self.patterns if each not in other.patterns),
            self.every and not other.every,
            0 if other.rest or other.prefix >= self.prefix else self.prefix,
            () if other.rest else tuple(each for each in self.contained if each not in other.contained),
            self.rest and not other.rest,
        )

    def covers(self, other: Evaluated) -> bool:
        """Whether all that ``other`` evaluates is evaluated, in plain sight."""
        return other.without(self) == _NOTHING


_NOTHING = Evaluated()


def _joined(a: tuple[T, ...], b: tuple[T, ...]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(a + b)) if b else a


class Decision(NamedTuple):
    """Where ``places`` are satisfied, at least (``decisions``) or at most (``denials``) this is evaluated."""

    places: tuple[Place, ...]
    evaluated: Evaluated

    def joined(self, other: Decision) -> Decision:
        return Decision(_joined(self.places, other.places), self.evaluated.joined(other.evaluated))


def decisions(rules: Rules) -> Group | None:
    """What ``rules`` demand of unevaluated members, as alternatives: in each it is settled what is evaluated. None
    where they demand nothing."""
    objects = bool(rules.types & OBJECT) and _judges(rules.unevaluated_properties)
    arrays = bool(rules.types & ARRAY) and _judges(rules.unevaluated_items)
    if not objects and not arrays:
        return None
    found: dict[tuple[Place, ...], None] = {}
    for places, evaluated in _Search(objects, arrays, False).inside(rules):
        made = Rules(rules.place)
        made.enforced = [
            *(["unevaluatedProperties"] if objects else []),
            *(["unevaluatedItems"] if arrays else []),
        ]
        anything = _anything(rules.place)
        if objects and not evaluated.every:
            made.properties = dict.fromkeys(evaluated.keys, anything)
            made.pattern_properties = dict.fromkeys(evaluated.patterns, anything)
            made.additional = rules.unevaluated_properties
        if arrays and not evaluated.rest:
            assert rules.unevaluated_items is not None
            made.prefix = (anything,) * evaluated.prefix
            made.items = _any_of(rules.place, (*evaluated.contained, rules.unevaluated_items))
        if made.additional is not None or made.items is not None:
            places = (*places, rules.place.document.made(made, rules.place))
        found[places] = None
    return tuple(found)


def denials(rules: Rules) -> Iterable[Rules]:
    """Rules such that a value which satisfies all else in ``rules`` fails what they demand of unevaluated members
    exactly when it satisfies one of these; what satisfies one of these never satisfies ``rules``."""
    place = rules.place
    if rules.types & OBJECT and _judges(rules.unevaluated_properties):
        assert rules.unevaluated_properties is not None
        refused = negation(rules.unevaluated_properties)
        for places, evaluated in _Search(True, False, True).inside(rules):
            made = _made(place, OBJECT)
            made.all_of = places
            made.some = (SomeKey(refused, evaluated.keys, evaluated.patterns),)
            yield made
    if rules.types & ARRAY and _judges(rules.unevaluated_items):
        assert rules.unevaluated_items is not None
        for places, evaluated in _Search(False, True, True).inside(rules):
            made = _made(place, ARRAY)
            made.all_of = places
            refusing = tuple(negation(each) for each in (*evaluated.contained, rules.unevaluated_items))
            if all(each.rules.empty for each in refusing):
                made.min_items = evaluated.prefix + 1
            else:
                every = _made(place)
                every.all_of = refusing
                made.contains = (Contains(place.document.made(every, place), 1, None, evaluated.prefix),)
            yield made


def _judges(place: Place | None) -> bool:
    return place is not None and not referred(place).rules.empty


def _made(place: Place, types: int | None = None) -> Rules:
    made = Rules(place)
    made.enforced = ["not"]
    if types is not None:
        made.types = types
    return made


def _anything(place: Place) -> Place:
    found: Place = place.document.place(True, place.scope, place, "")
    return found


def _any_of(place: Place, places: tuple[Place, ...]) -> Place:
    if len(places) == 1:
        return places[0]
    made = _made(place)
    made.any_of = (tuple((each,) for each in places),)
    found: Place = place.document.made(made, place)
    return found


class _Search:
    """Finds the decisions of a place.

    Args:
        objects, arrays: which members are asked about.
        denying: bounds from above are wanted (``denials``), and only those that leave something unevaluated.
    """

    def __init__(self, objects: bool, arrays: bool, denying: bool) -> None:
        self.objects = objects
        self.arrays = arrays
        self.denying = denying
        self.types = (OBJECT if objects else 0) | (ARRAY if arrays else 0)
        self.active: dict[Place, None] = {}
        self.cut: set[Place] = set()

    def inside(self, rules: Rules) -> list[Decision]:
        """The decisions of ``rules``, whose own unevaluated keywords are left aside."""
        self.active[rules.place] = None
        try:
            return self._below(rules, self._own(rules))
        finally:
            del self.active[rules.place]

    def _of(self, place: Place) -> list[Decision]:
        place = referred(place)
        rules = place.rules
        if place in self.active:
            # A circle without content: nothing satisfies it, so it evaluates nothing.
            self.cut.add(place)
            return [Decision((), _NOTHING)] if self.denying else []
        key = (self.objects, self.arrays, self.denying)
        known: dict[tuple[bool, bool, bool], list[Decision]] = rules.decisions or {}
        if key in known:
            return known[key]
        own = self._own(rules)
        if self.objects and rules.unevaluated_properties is not None:
            own = own._replace(every=True)
        if self.arrays and rules.unevaluated_items is not None:
            own = own._replace(rest=True)
        before, self.cut = self.cut, set()
        self.active[place] = None
        try:
            found = self._below(rules, own)
        finally:
            del self.active[place]
        self.cut.discard(place)
        if not self.cut:  # else it would be another list seen from elsewhere
            rules.decisions = {**known, key: found}
        self.cut |= before
        return found

    def _own(self, rules: Rules) -> Evaluated:
        """What the keywords of one place evaluate, without those that apply other places to the same value."""
        found = _NOTHING
        if self.objects:
            # A property that must not be there is none that is evaluated.
            keys = tuple(key for key, each in (rules.properties or {}).items() if each.contents is not False)
            found = Evaluated(keys, tuple(rules.pattern_properties or ()), rules.additional is not None)
        if self.arrays:
            found = found._replace(
                prefix=len(rules.prefix),
                contained=tuple(referred(each) for each in rules.contained),
                rest=rules.items is not None or any(not _judges(each) for each in rules.contained),
            )
        return found

    def _below(self, rules: Rules, own: Evaluated) -> list[Decision]:
        """The decisions of a place that by itself evaluates ``own``."""
        whole = (own.every or not self.objects) and (own.rest or not self.arrays)
        if whole:
            return [] if self.denying else [Decision((), own)]
        found = [Decision((), own)]
        for each in rules.all_of:
            found = self._product(rules, found, self._of(each))
        known = found[0].evaluated if len(found) == 1 else own
        for group in rules.any_of:
            found = self._both(rules, found, known, self._any(rules, group, known))
        for branches in rules.one_of:
            found = self._both(rules, found, known, self._one(branches))
        for condition, then, other in rules.conditions:
            found = self._both(rules, found, known, self._if(condition, then, other))
        return found

    def _both(
        self, rules: Rules, found: list[Decision], known: Evaluated, options: list[Decision]
    ) -> list[Decision]:
        """``found`` with one of the options each, where those tell of anything beyond ``known``."""
        if options and all(known.covers(each.evaluated) for each in options):
            return found
        return self._product(rules, found, options)

    def _product(self, rules: Rules, a: list[Decision], b: list[Decision]) -> list[Decision]:
        if len(a) * len(b) > MAX_DECISIONS:
            raise _too_complex(rules)
        return self._reduced([x.joined(y) for x in a for y in b])

    def _reduced(self, found: list[Decision]) -> list[Decision]:
        """Without decisions that follow from another one."""
        distinct = {(frozenset(each.places), each.evaluated): each for each in found}
        if len(distinct) > 200:
            return list(distinct.values())
        kept: list[Decision] = []
        # Those that ask for the fewest come first, so that of equal ones the first stays.
        for each in sorted(distinct.values(), key=lambda one: len(one.places)):
            asked = set(each.places)
            for other in kept:
                better, worse = (each, other) if self.denying else (other, each)
                if asked.issuperset(other.places) and better.evaluated.covers(worse.evaluated):
                    break
            else:
                kept.append(each)
        return kept

    def _conjunction(self, places: Iterable[Place]) -> list[Decision]:
        found = [Decision((), _NOTHING)]
        for place in places:
            found = self._product(place.rules, found, self._of(place))
        return found

    def _asked(self, places: Sequence[Place], about: Sequence[Place]) -> list[Decision]:
        """The decisions of ``about`` where ``places`` are satisfied."""
        asked = Decision(tuple(referred(each) for each in places), _NOTHING)
        return [asked.joined(each) for each in self._conjunction(about)]

    def _any(self, rules: Rules, group: Group, known: Evaluated) -> list[Decision]:
        """Any number of the alternatives, at least one."""
        if self.denying:
            return self._any_denied(rules, group, known)
        single = [
            [each._replace(evaluated=each.evaluated.without(known)) for each in self._asked(alternative, alternative)]
            for alternative in group
        ]
        found: list[Decision] = []
        level: list[tuple[int, tuple[int, ...], Decision]]
        level = [(i, (i,), each) for i, options in enumerate(single) for each in options]
        while level:
            found += [each for _, _, each in level]
            if len(found) > MAX_DECISIONS:
                raise _too_complex(rules)
            after = []
            for last, members, each in level:
                for i in range(last + 1, len(group)):
                    if any(self._disjoint(group[i], group[j]) for j in members):
                        continue
                    after += [
                        (i, (*members, i), each.joined(option))
                        for option in single[i]
                        if not each.evaluated.covers(option.evaluated)
                    ]
            level = after
        return self._reduced(found)

    def _any_denied(self, rules: Rules, group: Group, known: Evaluated) -> list[Decision]:
        """No alternative but these succeeds."""
        exclusive = all(self._disjoint(a, b) for i, a in enumerate(group) for b in group[:i])
        if exclusive:
            return [each for alternative in group for each in self._asked(alternative, alternative)]
        found = [Decision((), _NOTHING)]
        for alternative in group:
            options = self._conjunction(alternative)
            if not options or not all(known.covers(each.evaluated) for each in options):
                refused = Decision((referred(negated_conjunction(rules.place, alternative)),), _NOTHING)
                found = self._product(rules, found, [refused, *options])
        return found

    def _disjoint(self, a: tuple[Place, ...], b: tuple[Place, ...]) -> bool:
        """Whether it is in plain sight that no value of the types asked about satisfies both."""
        return any(disjoint(x, y, self.types) for x in a for y in b)

    def _one(self, branches: tuple[Place, ...]) -> list[Decision]:
        if self.denying:
            return [each for branch in branches for each in self._asked((branch,), (branch,))]
        found = []
        for branch, alternative in zip(branches, exactly_one(branches), strict=True):
            found += self._asked(alternative, (branch,))
        return found

    def _if(self, condition: Place, then: Place | None, other: Place | None) -> list[Decision]:
        if then is None and other is None:
            # Nothing depends on it but what is evaluated.
            options = self._asked(() if self.denying else (condition,), (condition,))
            return [*options, Decision((negation(condition),) if self.denying else (), _NOTHING)]
        met = (condition,) if then is None else (condition, then)
        unmet = () if other is None else (other,)
        return self._asked(met, met) + self._asked((negation(condition), *unmet), unmet)


def _too_complex(rules: Rules) -> GrammarTooComplex:
    return GrammarTooComplex(
        f"what is evaluated here depends on more than {MAX_DECISIONS} combinations of subschemas; "
        "use unevaluatedProperties and unevaluatedItems beside fewer of them",
        pointer=rules.place.pointer,
    )
