"""A conjunction of subschemas as alternatives, each a plain conjunction of ``Rules`` without combinators.

``anyOf``, ``oneOf``, ``if`` and ``not`` multiply out, one group at a time, and contradictions are dropped on
the way, so that tagged unions stay as many alternatives as they have tags.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import NamedTuple

from structgen.errors import GrammarTooComplex, UnsatisfiableGrammar, UnsupportedGrammar
from structgen.grammars.schema.document import Place
from structgen.grammars.schema.keywords import ALL, OBJECT, Rules
from structgen.grammars.schema.literals import identity
from structgen.grammars.schema.negation import container_excluded, negation

MAX_ALTERNATIVES = 2_000
MAX_NESTING = 400

Group = tuple[tuple[Place, ...], ...]


class Conjunction(NamedTuple):
    """Rules that hold together; their combinators are already applied."""

    types: int
    rules: tuple[Rules, ...]


class _Branch:
    """One alternative while it is expanded."""

    __slots__ = ("done", "groups", "pending", "types")

    def __init__(self, types: int, done: dict[Place, None], groups: list[tuple[Group, _Path]],
                 pending: list[tuple[Place, _Path]]) -> None:
        self.types = types
        self.done = done
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


def expand(places: Iterable[Place]) -> list[Conjunction]:
    """The alternatives of the conjunction of ``places``; none when it contradicts itself by types or by
    references that only lead to each other."""
    start = _Branch(ALL, {}, [], [(place, _Path(place, None)) for place in reversed(list(places))])
    found: dict[frozenset[Rules], Conjunction] = {}
    stack, steps = [start], 0
    while stack:
        branch = stack.pop()
        if not _settle(branch):
            continue
        if not branch.groups:
            rules = tuple(place.rules for place in branch.done if not place.rules.empty)
            found.setdefault(frozenset(rules), Conjunction(branch.types, rules))
            continue
        steps += 1
        if steps > MAX_ALTERNATIVES or len(stack) > MAX_ALTERNATIVES:
            raise GrammarTooComplex(
                f"anyOf, oneOf, if and not combine into more than {MAX_ALTERNATIVES} alternatives here; "
                "nest fewer of them in one conjunction", pointer=next(iter(branch.done)).pointer,
            )
        index = min(range(len(branch.groups)), key=lambda i: len(branch.groups[i][0]))
        group, path = branch.groups[index]
        rest = branch.groups[:index] + branch.groups[index + 1 :]
        for alternative in reversed(group):
            pending = [(place, _step(path, place)) for place in reversed(alternative)]
            if all(below is not None for _, below in pending):
                stack.append(_Branch(branch.types, dict(branch.done), list(rest), pending))  # type: ignore[arg-type]
    return list(found.values())


def _settle(branch: _Branch) -> bool:
    """Apply everything pending; False on a contradiction."""
    queue = branch.pending
    branched = len(branch.done) > 0
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
        branch.types &= rules.types
        if not branch.types:
            return False
        for each in reversed(rules.all_of):  # the last one in is read first
            below = _step(path, each)
            if below is None:
                return False
            queue.append((each, below))
        branch.groups += [(group, path) for group in groups(rules)]
    return not (branched and _contradicts(branch))


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
    found = list(rules.any_of)
    for each in rules.negations:
        found.append(((negation(each),),))
    for condition, then, other in rules.conditions:
        if then is None:
            assert other is not None
            found.append(((condition,), (negation(condition), other)))
        else:
            found.append(((condition, then), (negation(condition),) + ((other,) if other is not None else ())))
    found += [_exactly_one(branches) for branches in rules.one_of]
    if rules.values is None:
        found += [((container_excluded(rules.place, value),),) for value in rules.excluded
                  if isinstance(value, (dict, list, tuple))]
    return found


def _exactly_one(branches: tuple[Place, ...]) -> Group:
    found = []
    for i, branch in enumerate(branches):
        others = [negation(each) for j, each in enumerate(branches) if j != i and not disjoint(branch, each)]
        found.append((branch, *others))
    return tuple(found)


def _contradicts(branch: _Branch) -> bool:
    """A cheap look at constants of required properties, for pruning."""
    if branch.types & ~OBJECT:
        return False
    required: set[str] = set()
    for place in branch.done:
        required.update(place.rules.required)
    if not required:
        return False
    allowed: dict[str, frozenset[Hashable]] = {}
    for place in branch.done:
        for key, values in outline(place).constants.items():
            if key in required:
                known = allowed.get(key)
                allowed[key] = values if known is None else known & values
                if not allowed[key]:
                    return True
    return False


class Outline(NamedTuple):
    """What is quickly known of the values of a place.

    Attributes:
        types: the types they have at most.
        values: the only values, or None.
        required: keys that an object among them has.
        constants: the only values of some properties.
        allowed: the only keys, or None.
    """

    types: int
    values: frozenset[Hashable] | None
    required: frozenset[str]
    constants: dict[str, frozenset[Hashable]]
    allowed: frozenset[str] | None


def outline(place: Place, fuel: int = 12) -> Outline:
    rules = place.rules
    if rules.outline is not None:
        known: Outline = rules.outline
        return known
    types, required = rules.types, set(rules.required)
    values = None if rules.values is None else frozenset(identity(v) for v in rules.values)
    constants: dict[str, frozenset[Hashable]] = {}
    allowed = None
    for key, each in (rules.properties or {}).items():
        found = value_set(each)
        if found is not None:
            constants[key] = found
    if rules.additional is not None and rules.additional.contents is False and not rules.pattern_properties:
        allowed = frozenset(rules.properties or ())
    if fuel:
        for each in rules.all_of:
            inner = outline(each, fuel - 1)
            types &= inner.types
            required |= inner.required
            if inner.values is not None:
                values = inner.values if values is None else values & inner.values
            if inner.allowed is not None:
                allowed = inner.allowed if allowed is None else allowed & inner.allowed
            for key, found in inner.constants.items():
                constants[key] = constants[key] & found if key in constants else found
    made = Outline(types, values, frozenset(required), constants, allowed)
    if fuel == 12:
        rules.outline = made
    return made


def value_set(place: Place, fuel: int = 12) -> frozenset[Hashable] | None:
    """The values of a place whose const or enum is in plain sight (at least these exclude all others)."""
    while place.rules.alias is not None and fuel:
        place, fuel = place.rules.alias, fuel - 1
    values = place.rules.values
    return None if values is None else frozenset(identity(v) for v in values)


def disjoint(a: Place, b: Place) -> bool:
    """Whether it is quickly proven that no value satisfies both: by type, by values, by a required property
    with different constants, or by a required key that the other does not allow."""
    one, two = outline(a), outline(b)
    types = one.types & two.types
    if not types:
        return True
    if one.values is not None and two.values is not None:
        return not one.values & two.values
    if types & ~OBJECT:
        return False
    required = one.required | two.required
    for key in required:
        if key in one.constants and key in two.constants and not one.constants[key] & two.constants[key]:
            return True
    return (two.allowed is not None and not one.required <= two.allowed) or (
        one.allowed is not None and not two.required <= one.allowed
    )


def check_circles(root_places: Iterable[Place]) -> None:
    """Raises UnsatisfiableGrammar for references that only lead to each other (``a: {$ref: a}``)."""
    finished: set[Place] = set()
    for start in root_places:
        stack: list[tuple[Place, list[Place]]] = []
        on_path: dict[Place, None] = {}

        def enter(place: Place, stack: list[tuple[Place, list[Place]]] = stack,
                  on_path: dict[Place, None] = on_path) -> None:
            if place in on_path:
                circle = [each.pointer for each in list(on_path)[list(on_path).index(place) :]]
                raise UnsatisfiableGrammar(
                    "these references and combinators only lead to each other, so no value is described: "
                    + " -> ".join([*circle, place.pointer]), pointer=place.pointer,
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
    for contains in rules.contains:
        if contains.hi is not None:
            negation(contains.place)
