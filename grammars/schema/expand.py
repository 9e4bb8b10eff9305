"""A conjunction of subschemas as alternatives, each a plain conjunction of ``Rules`` without combinators.

``anyOf``, ``oneOf``, ``if`` and ``not`` multiply out, one group at a time, and contradictions are dropped on
the way, so that tagged unions stay as many alternatives as they have tags.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable
from typing import NamedTuple, TypeVar

from structgen.errors import GrammarTooComplex, UnsatisfiableGrammar, UnsupportedGrammar
from structgen.grammars.schema.document import Place
from structgen.grammars.schema.keywords import ALL, OBJECT, Rules
from structgen.grammars.schema.literals import accepts, identity
from structgen.grammars.schema.negation import container_excluded, negation, write_out

T = TypeVar("T")

MAX_ALTERNATIVES = 2_000
MAX_NESTING = 400
MAX_GATED = 24

Group = tuple[tuple[Place, ...], ...]


class Conjunction(NamedTuple):
    """Rules that hold together; their combinators are already applied."""

    types: int
    rules: tuple[Rules, ...]
    gated: bool = False
    """More must hold than the rules say: the whole value is to be checked."""


class _Branch:
    """One alternative while it is expanded."""

    __slots__ = ("decisive", "done", "groups", "known", "pending")

    def __init__(
        self,
        known: Outline,
        done: dict[Place, None],
        decisive: list[tuple[Group, _Path]],
        groups: list[tuple[Group, _Path]],
        pending: list[tuple[Place, _Path]],
    ) -> None:
        self.known = known
        self.done = done
        self.decisive = decisive
        """Groups whose alternatives settle those of other groups too, so that they are taken first."""
        self.groups = groups
        self.pending = pending


class _Path:
    """The places on the way to one, through combinators and references only."""

    __slots__ = ("depth", "parent", "place")

    def __init__(self, place: Place, parent: _Path | None) -> None:
        self.place = place
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1

    def holds(self, place: Place) -> bool:
        at: _Path | None = self
        while at is not None:
            if at.place is place:
                return True
            at = at.parent
        return False


def _flattened(group: Group) -> Group:
    """Without alternatives that only refer to the same place."""
    found: dict[tuple[Place, ...], None] = {}
    for alternative in group:
        found[tuple(referred(place) for place in alternative)] = None
    return tuple(found)


def referred(place: Place) -> Place:
    """Where pure references lead; one that stands in a circle stays as it is."""
    at = place
    for _ in range(64):
        if at.rules.alias is None:
            return at
        at = at.rules.alias
    return place


def expand(places: Iterable[Place]) -> list[Conjunction]:
    """The alternatives of the conjunction of ``places``; none when it contradicts itself by types or by
    references that only lead to each other. Raises GrammarTooComplex for too many, unless the document gates."""
    places = list(places)
    if len(places) == 1:
        rules = places[0].rules
        if _COMBINING.isdisjoint(vars(rules)) and not rules.empty:
            return [Conjunction(rules.types, (rules,), bool(rules.gated))] if rules.types else []
    try:
        return _expand(places)
    except GrammarTooComplex:
        if not places or not places[0].document.gates:
            raise
        return _expand(places, MAX_GATED)


_COMBINING = frozenset((
    *("alias", "all_of", "any_of", "one_of", "negations", "conditions", "excluded"),
    *("unevaluated_properties", "unevaluated_items"),
))  # fmt: skip
"""Fields of ``Rules`` by which there is more to know than the rules themselves."""


def _expand(places: list[Place], gate_after: int | None = None) -> list[Conjunction]:
    """``gate_after``: so many steps later the groups that still leave a choice are dropped; their places are gated."""
    start = _Branch(_NOTHING_KNOWN, {}, [], [], [(place, _Path(place, None)) for place in reversed(list(places))])
    found: dict[frozenset[Rules], Conjunction] = {}
    stack, steps = [start], 0
    while stack:
        branch = stack.pop()
        if not _settle(branch):
            continue
        _drop_settled(branch)
        gated = any(place.rules.gated for place in branch.done)
        if gate_after is not None and steps >= gate_after:
            gated = _drop_open(branch) or gated
        if not branch.groups and not branch.decisive:
            rules = tuple(place.rules for place in branch.done if not place.rules.empty)
            key = frozenset(rules)
            if key in found:
                gated = gated and found[key].gated
            found[key] = Conjunction(branch.known.types, rules, gated)
            continue
        steps += 1
        if steps > MAX_ALTERNATIVES or len(stack) > MAX_ALTERNATIVES:
            raise GrammarTooComplex(
                f"anyOf, oneOf, if and not combine into more than {MAX_ALTERNATIVES} alternatives here; "
                "nest fewer of them in one conjunction",
                pointer=next(iter(branch.done)).pointer,
            )
        decisive, rest = branch.decisive, branch.groups
        if decisive:
            (group, path), decisive = decisive[0], decisive[1:]
            group = _left(group, branch.known)
        else:
            group, path, rest = _narrowest(branch)
        for alternative in reversed(group):
            pending = []
            for place in reversed(alternative):
                below = _step(path, place)
                if below is None:
                    break
                pending.append((place, below))
            else:
                stack.append(_Branch(branch.known, dict(branch.done), list(decisive), list(rest), pending))
    return list(found.values())


def _drop_open(branch: _Branch) -> bool:
    """Drop the groups that leave a choice, and gate the places that they are of. Whether there were any."""
    kept = []
    dropped = [path.place for _, path in branch.decisive]
    for group, path in branch.groups:
        left = _left(group, branch.known)
        if len(left) <= 1:
            kept.append((left, path))
        else:
            dropped.append(path.place)
    branch.groups, branch.decisive = kept, []
    for place in dropped:
        gate(place, _COMBINATORS)
    return bool(dropped)


_COMBINATORS = ("anyOf", "oneOf", "if", "not", "dependentSchemas", "dependencies", "unevaluatedProperties",
                "unevaluatedItems")  # fmt: skip


def gate(place: Place, keywords: Iterable[str]) -> None:
    """Note that those of the ``keywords`` that ``place`` has are only checked when a value closes."""
    rules = place.rules
    for keyword in keywords:
        if isinstance(place.contents, dict) and keyword in place.contents and keyword not in rules.gated:
            rules.gated.append(keyword)
            if keyword in rules.enforced:
                rules.enforced.remove(keyword)
    if not rules.gated:
        rules.gated.append("not")  # a rewriting of a place, which stands in no text


def _drop_settled(branch: _Branch) -> None:
    """Drop the groups of which an alternative already holds (not by the group itself, as in a circle)."""
    done = branch.done
    branch.groups = [
        (group, path)
        for group, path in branch.groups
        if not any(
            all(place.rules.empty or (place in done and not path.holds(place)) for place in alternative)
            for alternative in group
        )
    ]


def _left(group: Group, known: Outline) -> Group:
    """The alternatives that do not contradict what is known, in plain sight."""
    return tuple(
        alternative for alternative in group if not any(known.contradicts(outline(place)) for place in alternative)
    )


def _narrowest(branch: _Branch) -> tuple[Group, _Path, list[tuple[Group, _Path]]]:
    """The group with the fewest alternatives that do not contradict what is known, and the other groups."""
    best, index, known = None, 0, branch.known
    if any(len(group) > 1 for group, _ in branch.groups):
        open_groups = [
            each
            for each in branch.groups
            if len(each[0]) == 1  # what is known may come from this very group
            or not any(len(alternative) == 1 and known.implies(alternative[0].rules) for alternative in each[0])
        ]
        if not open_groups:
            return ((),), branch.groups[0][1], []
        branch.groups = open_groups
    for i, (group, _) in enumerate(branch.groups):
        if best is not None and len(best) <= 1:
            break
        left = _left(group, known)
        if best is None or len(left) < len(best):
            best, index = left, i
    assert best is not None
    rest = branch.groups[:index] + branch.groups[index + 1 :]
    return best, branch.groups[index][1], rest


def _settle(branch: _Branch) -> bool:
    """Apply everything pending; False on a contradiction."""
    queue = branch.pending
    while queue:
        place, path = queue.pop()
        rules = place.rules
        while rules.alias is not None:
            beyond = _step(path, rules.alias)
            if beyond is None:
                return False
            path = beyond
            place, rules = rules.alias, rules.alias.rules
        if place in branch.done:
            continue
        branch.done[place] = None
        known = outline(place)
        if branch.known.contradicts(known):
            return False
        branch.known = branch.known.joined(known)
        for each in reversed(rules.all_of):  # the last one in is read first
            below = _step(path, each)
            if below is None:
                return False
            queue.append((each, below))
        if rules.unevaluated_properties is not None or rules.unevaluated_items is not None:
            branch.decisive += [(group, path) for group in decisive(rules)]
        branch.groups += [(group, path) for group in groups(rules)]
    return True


def _step(path: _Path, place: Place) -> _Path | None:
    """The path to ``place`` from ``path``; None when it goes in a circle, which nothing satisfies."""
    if path.holds(place):
        return None
    if path.depth >= MAX_NESTING:
        raise GrammarTooComplex(
            f"more than {MAX_NESTING} combinators and references inside each other", pointer=place.pointer
        )
    return _Path(place, path)


def groups(rules: Rules) -> list[Group]:
    """The groups of alternatives that ``rules`` demand one of."""
    if rules.groups is None:
        try:
            made = _groups(rules)
            if rules.place.document.values is None:  # else a glance has shown that they can be written
                write_out(place for group in made for alternative in group for place in alternative)
            rules.groups = made
        except (UnsupportedGrammar, GrammarTooComplex):
            if not rules.place.document.gates:
                raise
            gate(rules.place, _COMBINATORS)
            rules.groups = [_flattened(group) for group in rules.any_of]
    found: list[Group] = rules.groups
    return found


def decisive(rules: Rules) -> list[Group]:
    """The group of alternatives for what is evaluated, if ``rules`` ask."""
    from structgen.grammars.schema.unevaluated import decisions

    if rules.decisive is None:
        try:
            found = decisions(rules)
            write_out(place for alternative in found or () for place in alternative)
        except (UnsupportedGrammar, GrammarTooComplex):
            if not rules.place.document.gates:
                raise
            gate(rules.place, _COMBINATORS)
            found = None
        rules.decisive = [] if found is None else [found]
    made: list[Group] = rules.decisive
    return made


def _groups(rules: Rules) -> list[Group]:
    found = list(rules.any_of)
    for each in rules.negations:
        found.append(((negation(each),),))
    for condition, then, other in rules.conditions:
        if then is None and other is None:
            continue
        if then is None:
            assert other is not None
            found.append(((condition,), (negation(condition), other)))
        else:
            found.append(((condition, then), (negation(condition),) + ((other,) if other is not None else ())))
    found += [exactly_one(branches) for branches in rules.one_of]
    if rules.values is None:
        found += [
            ((container_excluded(rules.place, value),),)
            for value in rules.excluded
            if isinstance(value, (dict, list, tuple))
        ]
    return [_flattened(group) for group in found]


def exactly_one(branches: tuple[Place, ...]) -> Group:
    found = []
    for i, branch in enumerate(branches):
        others = [negation(each) for j, each in enumerate(branches) if j != i and not disjoint(branch, each)]
        found.append((branch, *others))
    return tuple(found)


class Field(NamedTuple):
    """What is quickly known of the value of a property.

    Attributes:
        types: the types it has at most.
        values: the only values, or None.
        excluded: values that it is not.
        holds, fails: subschemas that it satisfies, and does not.
    """

    types: int
    values: frozenset[Hashable] | None = None
    excluded: frozenset[Hashable] = frozenset()
    holds: tuple[Place, ...] = ()
    fails: tuple[Place, ...] = ()

    def joined(self, other: Field) -> Field:
        return Field(
            self.types & other.types,
            _common(self.values, other.values),
            self.excluded | other.excluded,
            self.holds + tuple(place for place in other.holds if place not in self.holds),
            self.fails + tuple(place for place in other.fails if place not in self.fails),
        )

    @property
    def impossible(self) -> bool:
        if not self.types or (self.values is not None and self.values <= self.excluded):
            return True
        return bool(self.fails) and any(_same(a, b) for a in self.holds for b in self.fails)

    def excludes(self, other: Field) -> bool:
        """``joined(other).impossible``"""
        if not self.types & other.types:
            return True
        if self.values is not None or other.values is not None:
            values = _common(self.values, other.values)
            if values is not None and (not values or values <= self.excluded | other.excluded):
                return True
        if not self.fails and not other.fails:
            return False
        return any(_same(a, b) for a in self.holds + other.holds for b in self.fails + other.fails)


def _same(a: Place, b: Place) -> bool:
    """Whether two subschemas are spelled alike and mean the same."""
    if a is b:
        return True
    if a.scope is not b.scope or a.dynamic != b.dynamic:
        return False
    one, two = a.contents, b.contents
    if isinstance(one, dict) and isinstance(two, dict) and len(one) != len(two):
        return False
    return _spelled(a) == _spelled(b)


def _spelled(place: Place) -> str:
    rules = place.rules
    if rules.spelled is None:
        rules.spelled = json.dumps(place.contents, sort_keys=True, default=lambda number: {"": str(number)})
    return rules.spelled


class Outline(NamedTuple):
    """What is quickly known of the values of a place.

    Attributes:
        types: the types they have at most.
        values: the only values, or None.
        required: keys that an object among them has.
        fields: the values of some of its properties.
        allowed: the only keys, or None.
        beyond: sets of keys; an object among them has a key outside each.
    """

    types: int
    values: frozenset[Hashable] | None
    required: frozenset[str]
    fields: dict[str, Field]
    allowed: frozenset[str] | None
    beyond: frozenset[frozenset[str]]

    def contradicts(self, other: Outline) -> bool:
        """Whether it is in plain sight that no value satisfies both: by type, by values, by what a required
        property may hold, or by a required key that is not allowed."""
        types = self.types & other.types
        if not types:
            return True
        if self.values is not None and other.values is not None and not self.values & other.values:
            return True
        if types & ~OBJECT:
            return False
        if (other.allowed is not None and not self.required <= other.allowed) or (
            self.allowed is not None and not other.required <= self.allowed
        ):
            return True
        if any(self.allowed is not None and self.allowed <= each for each in other.beyond) or any(
            other.allowed is not None and other.allowed <= each for each in self.beyond
        ):
            return True
        for key in other.required:
            mine = self.fields.get(key)
            if mine is not None and key not in other.fields and mine.impossible:
                return True
        for key, field in other.fields.items():
            if key in self.required or key in other.required:
                mine = self.fields.get(key)
                if field.impossible if mine is None else mine.excludes(field):
                    return True
        return False

    def implies(self, rules: Rules) -> bool:
        """Whether it is in plain sight that all values satisfy ``rules``."""
        if self.types & ~rules.types or any(key not in self.required for key in rules.required):
            return False
        if not _only_properties(rules):
            return False
        for key, place in (rules.properties or {}).items():
            field = self.fields.get(key)
            if (
                field is None
                or field.values is None
                or not all(
                    isinstance(value, str) and (value in field.excluded or accepts(place, value))
                    for value in field.values
                )
            ):
                return False
        return True

    def joined(self, other: Outline) -> Outline:
        fields = dict(self.fields)
        for key, field in other.fields.items():
            mine = fields.get(key)
            fields[key] = field if mine is None else mine.joined(field)
        return Outline(
            self.types & other.types,
            _common(self.values, other.values),
            self.required | other.required,
            fields,
            _common(self.allowed, other.allowed),
            self.beyond | other.beyond,
        )


def _only_properties(rules: Rules) -> bool:
    """Whether ``rules`` demand nothing but types, required keys and what properties hold."""
    return not rules.gated and set(vars(rules)) - _ABOUT <= {"types", "required", "properties"}


_ABOUT = {
    *("place", "enforced", "annotations", "gated", "contained"),
    *("outline", "groups", "decisive", "decisions", "spelled"),
}
"""Fields of ``Rules`` that demand nothing."""


def _common(a: frozenset[T] | None, b: frozenset[T] | None) -> frozenset[T] | None:
    if a is None or b is None:
        return a if b is None else b
    return a & b


_NOTHING_KNOWN = Outline(ALL, None, frozenset(), {}, None, frozenset())


def outline(place: Place, fuel: int = 12) -> Outline:
    """What is quickly known of ``place``; references and ``allOf`` are followed ``fuel`` deep."""
    rules = place.rules
    if rules.outline is not None:
        known: Outline = rules.outline
        return known
    fields = {}
    for key, each in (rules.properties or {}).items():
        field = _field(each)
        if field is not None:
            fields[key] = field
    allowed = None
    if rules.additional is not None and rules.additional.contents is False and not rules.pattern_properties:
        allowed = frozenset(rules.properties or ())
    values = None if rules.values is None else frozenset(identity(v) for v in rules.values)
    beyond = frozenset(frozenset(wish.keys) for wish in rules.some if wish.pattern is None and wish.name is None)
    made = Outline(rules.types, values, frozenset(rules.required), fields, allowed, beyond)
    if fuel:
        for each in rules.all_of:
            made = made.joined(outline(each, fuel - 1))
        for group in rules.any_of:
            if len(group) == 1:
                for each in group[0]:
                    made = made.joined(outline(each, fuel - 1))
    if fuel == 12:
        rules.outline = made
    return made


def _field(place: Place) -> Field | None:
    place = referred(place)
    rules = place.rules
    if rules.empty:
        return None
    values = None if rules.values is None else frozenset(identity(v) for v in rules.values)
    found = Field(rules.types, values, frozenset(identity(v) for v in rules.excluded))
    for group in rules.any_of:
        if len(group) == 1 and len(group[0]) == 1:
            only = group[0][0].rules
            found = found.joined(Field(only.types, None, frozenset(identity(v) for v in only.excluded)))
        else:
            types = 0
            for alternative in group:
                possible = ALL
                for each in alternative:
                    possible &= each.rules.types
                types |= possible
            found = found._replace(types=found.types & types)
    if place.contents is not None:
        return found._replace(holds=(place,))
    if place.negated is not None and place.negated.contents is not None:
        return found._replace(fails=(place.negated,))
    return None if found == Field(ALL) else found


def disjoint(a: Place, b: Place, types: int = ALL) -> bool:
    """Whether it is in plain sight that no value of these types satisfies both."""
    known = outline(a)
    return known._replace(types=known.types & types).contradicts(outline(b))


def check_circles(root_places: Iterable[Place]) -> None:
    """Raises UnsatisfiableGrammar for references that only lead to each other (``a: {$ref: a}``)."""
    finished: set[Place] = set()
    for start in root_places:
        stack: list[tuple[Place, list[Place]]] = []
        on_path: dict[Place, None] = {}

        def enter(
            place: Place, stack: list[tuple[Place, list[Place]]] = stack, on_path: dict[Place, None] = on_path
        ) -> None:
            if place in on_path:
                circle = [each.pointer for each in list(on_path)[list(on_path).index(place) :]]
                raise UnsatisfiableGrammar(
                    "these references and combinators only lead to each other, so no value is described: "
                    + " -> ".join([*circle, place.pointer]),
                    pointer=place.pointer,
                )
            if place not in finished:
                on_path[place] = None
                stack.append((place, list(place.rules.all_of)))

        enter(start)
        while stack:
            place, left = stack[-1]
            if left:
                enter(left.pop())
            else:
                stack.pop()
                del on_path[place]
                finished.add(place)


def check_built(place: Place) -> None:
    """Raises UnsupportedGrammar for combinators of ``place`` that cannot be multiplied out."""
    rules = place.rules
    groups(rules)
    decisive(rules)
    for contains in rules.contains:
        if contains.hi is not None:
            write_out([negation(contains.place)])
