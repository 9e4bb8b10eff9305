"""What in a schema is legal and yet probably not meant: findings with a pointer and a remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from structgen.errors import GrammarError
from structgen.grammars.schema import naming
from structgen.grammars.schema.dialects import guessed_draft
from structgen.grammars.schema.document import Place, escaped
from structgen.grammars.schema.expand import Conjunction, expand, outline
from structgen.grammars.schema.expectation import together
from structgen.grammars.schema.keywords import ALL, ARRAY, FRACTION, INTEGER, OBJECT, STRING, Rules
from structgen.grammars.schema.literals import accepts, text_matches
from structgen.grammars.schema.report import Report

if TYPE_CHECKING:
    from structgen.grammars.schema.nodes import Node

MAX_CONTEXTS = 100
MAX_CHECKS = 1_000
"""So many values are looked at, and so often satisfiability is asked; a lint says where a schema is larger."""


@dataclass(frozen=True, slots=True)
class Lint:
    """One finding.

    Attributes:
        kind: its class, e.g. ``"no way to stop"``.
        pointer: JSON pointer in the schema.
        message: what is so.
        advice: what to do about it.
    """

    kind: str
    pointer: str
    message: str
    advice: str


class Spot:
    """A value that a schema describes: the root, a property, an item. ``places`` all hold for it."""

    def __init__(self, places: tuple[Place, ...]) -> None:
        self.places = places
        self.together = tuple(together(list(places)))

    @property
    def pointer(self) -> str:
        return self.places[0].pointer

    @cached_property
    def alternatives(self) -> list[Conjunction]:
        """Its alternatives without combinators; none when they are too many."""
        try:
            return expand(self.places)
        except (GrammarError, RecursionError):
            return []

    def below(self) -> Iterator[tuple[Place, ...]]:
        """The places of each value inside it: those that hold together, for each alternative."""
        for context in self._contexts():
            members: dict[str, dict[Place, None]] = {}
            for place in context:
                for key, each in (place.rules.properties or {}).items():
                    members.setdefault(key, {})[each] = None
            yield from (tuple(each) for each in members.values())
        for place in self.together:
            rules = place.rules
            singles = (rules.additional, rules.items, rules.unevaluated_properties, rules.unevaluated_items)
            for single in (*(rules.pattern_properties or {}).values(), *rules.prefix, *singles):
                if single is not None:
                    yield (single,)

    def _contexts(self) -> Iterator[tuple[Place, ...]]:
        """Places that hold together: without any alternative, and with each one of them (its own places first)."""
        queue = [(tuple(_demanded(self.places)), frozenset[Place]())]
        for n, (context, above) in enumerate(queue):
            yield context
            for place in context:
                if place in above or n > MAX_CONTEXTS:
                    continue
                for alternative in _alternatives(place.rules):
                    own = [each for each in _demanded(alternative) if each not in context]
                    queue.append(((*own, *context), frozenset(context)))


def _demanded(places: Iterable[Place]) -> list[Place]:
    """These places and all that hold with them."""
    found = dict.fromkeys(places)
    queue = list(found)
    for place in queue:
        for each in place.rules.all_of:
            if each not in found:
                found[each] = None
                queue.append(each)
    return queue


def _alternatives(rules: Rules) -> Iterator[tuple[Place, ...]]:
    for group in rules.any_of:
        yield from group
    for branches in rules.one_of:
        yield from ((branch,) for branch in branches)
    for condition, then, other in rules.conditions:
        yield (condition,) if then is None else (condition, then)
        if other is not None:
            yield (other,)


class Subject:
    """A compiled schema, as the lints look at it.

    Args:
        root: the node of the whole schema.
        whitespace: the policy that texts are generated with.
    """

    def __init__(self, report: Report, root: Node, whitespace: str = "bounded") -> None:
        self.report = report
        self.root = root
        self.whitespace = whitespace
        self.places = [place for place in report.places if isinstance(place.contents, dict)]
        self.checks = 0

    @cached_property
    def spots(self) -> list[Spot]:
        found = {frozenset((self.report.places[0],)): Spot((self.report.places[0],))}
        queue = list(found.values())
        for spot in queue:
            for places in spot.below():
                key = frozenset(places)
                if key not in found and len(found) < MAX_CHECKS:
                    found[key] = Spot(places)
                    queue.append(found[key])
        return queue

    def satisfiable(self, *places: Place) -> bool:
        """Whether some value satisfies all of them. True when that is not decided."""
        self.checks += 1
        if self.checks > MAX_CHECKS:
            return True
        try:
            return self.root.forest.node(places).satisfiable
        except (GrammarError, RecursionError):
            return True


def lints(subject: Subject) -> list[Lint]:
    """All findings, those of a kind together, in the order of ``CHECKS``."""
    found: dict[tuple[str, str, str], Lint] = {}
    for check in CHECKS:
        for lint in check(subject):
            found.setdefault((lint.kind, lint.pointer, lint.message), lint)
    return list(found.values())


# ----------------------------------------------------------------------------------------------- no way to stop


def no_way_to_stop(subject: Subject) -> Iterator[Lint]:
    """Values that may go on for ever: a model may never close them."""
    for spot in subject.spots:
        for types, rules, _ in spot.alternatives:
            for message, advice in _endless(types, rules):
                yield Lint("no way to stop", _spoken_of(spot, rules), message, advice)
    yield from _recursion(subject)


def _endless(types: int, rules: tuple[Rules, ...]) -> Iterator[tuple[str, str]]:
    if any(rule.values is not None for rule in rules):
        return
    if types == ALL and not any(rule.on_objects or rule.on_arrays for rule in rules):
        yield "any JSON value of any size", 'say a "type"'
        return
    if types & STRING and not any(rule.max_length is not None or rule.patterns or rule.formats for rule in rules):
        yield "a string of any length", "maxLength, pattern, format or enum"
    low = any(rule.lo is not None for rule in rules)
    high = any(rule.hi is not None for rule in rules)
    if types & FRACTION and not any(rule.multiples for rule in rules):
        yield "a number with any number of decimals", 'multipleOf (0.01: two decimals), or "type": "integer"'
    elif types & INTEGER and not (low and high):
        yield "a number with any number of digits", "minimum and maximum"
    if types & ARRAY and not any(
        rule.max_items is not None or (rule.items is not None and not rule.items.rules.types) for rule in rules
    ):
        yield "an array of any length", "maxItems"
    if types & OBJECT and not any(_closed(rule) for rule in rules):
        yield "an object with any keys", '"additionalProperties": false, or maxProperties'


def _closed(rules: Rules) -> bool:
    if rules.max_properties is not None or any(name.rules.values is not None for name in rules.names):
        return True
    rest = rules.unevaluated_properties if rules.additional is None else rules.additional
    return rest is not None and not rest.rules.types and not rules.pattern_properties


def _spoken_of(spot: Spot, rules: tuple[Rules, ...]) -> str:
    """The place in the text that says the most about an alternative: the last one that narrows types."""
    narrow = [rule.place for rule in rules if rule.types != ALL and rule.place in spot.together and rule.place.contents]
    return (narrow[-1] if narrow else spot.places[0]).pointer


def _recursion(subject: Subject) -> Iterator[Lint]:
    """The references that close a circle of values inside values."""
    known = {frozenset(spot.places): spot for spot in subject.spots}
    finished: set[Spot] = set()
    path: dict[Spot, Iterator[tuple[Place, ...]]] = {subject.spots[0]: subject.spots[0].below()}
    while path:
        spot, below = next(reversed(path.items()))
        for places in below:
            inner = known.get(frozenset(places))
            if inner is None or inner in finished:
                continue
            if inner not in path:
                path[inner] = inner.below()
                break
            circle = list(path)[list(path).index(inner) :]
            references = [pointer for each in circle for pointer in _references(each)]
            yield Lint(
                "no way to stop",
                references[-1] if references else inner.pointer,
                "recursion of any depth",
                "write out the levels that are wanted; a text that max_tokens cuts is not complete",
            )
        else:
            finished.add(spot)
            del path[spot]


def _references(spot: Spot) -> Iterator[str]:
    for place in spot.together:
        if isinstance(place.contents, dict):
            for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
                if keyword in place.rules.enforced:
                    yield f"{place.pointer}/{keyword}"


def unbounded_whitespace(subject: Subject) -> Iterator[Lint]:
    if subject.whitespace == "any":
        yield Lint(
            "unbounded whitespace",
            "#",
            'whitespace="any" allows blanks without end between tokens; small models fall into that',
            'whitespace="bounded" (the default), "compact" or "pretty"',
        )


# -------------------------------------------------------------------------------------------------- unreachable


def unreachable(subject: Subject) -> Iterator[Lint]:
    """Properties, branches and enum values that nothing satisfies, wherever they are used."""
    dead: dict[str, Lint] = {}
    alive: set[str] = set()
    settled: set[Place] = set()
    for spot in subject.spots:
        satisfiable = subject.satisfiable(*spot.places)
        found = Lint("unreachable", spot.pointer, "no value satisfies this", "mend the contradiction, or take it out")
        if satisfiable or any(place.contents is False for place in spot.places):
            alive.add(found.pointer)
        else:
            dead.setdefault(found.pointer, found)
            continue
        for place in spot.together:
            if isinstance(place.contents, dict) and place not in settled:
                looked_at = (*_branches(subject, spot, place), *_enum_values(spot, place))
                alive |= {lint.pointer for lint, lives in looked_at if lives}
                for lint, lives in looked_at:
                    if not lives:
                        dead.setdefault(lint.pointer, lint)
                if all(lint.pointer in alive for lint, _ in looked_at):
                    settled.add(place)
    yield from (lint for pointer, lint in dead.items() if pointer not in alive)


def _branches(subject: Subject, spot: Spot, place: Place) -> Iterator[tuple[Lint, bool]]:
    """Each branch of anyOf and oneOf, and whether a value of ``spot`` may take it."""
    for alternative in (*(each for group in place.rules.any_of for each in group), *place.rules.one_of):
        for branch in alternative:
            if branch.contents is not None and branch.contents is not False and branch.parent is place:
                lint = Lint("unreachable", branch.pointer, "no value takes this branch", "mend what rules it out")
                yield lint, subject.satisfiable(*spot.places, branch)


def _enum_values(spot: Spot, place: Place) -> Iterator[tuple[Lint, bool]]:
    """Each value of an enum, and whether it may be one of ``spot``."""
    if "enum" not in place.rules.enforced:
        return
    for i, value in enumerate(place.contents["enum"][:MAX_CHECKS]):
        try:
            alive = accepts(place, value) and all(accepts(each, value) for each in spot.places)
        except (GrammarError, RecursionError):
            alive = True
        message = f"{naming.shown(value)} satisfies nothing else here"
        advice = "take it out, or widen what rules it out"
        yield Lint("unreachable", f"{place.pointer}/enum/{i}", message, advice), alive


# ----------------------------------------------------------------------------------------------------- keywords


def not_enforced(subject: Subject) -> Iterator[Lint]:
    """Keywords that look like demands and are none."""
    for place in subject.places:
        for keyword in place.rules.annotations:
            found = naming.annotation(place, keyword)
            if found is not None:
                kind, message, advice = found
                yield Lint(kind, f"{place.pointer}/{escaped(keyword)}", message, advice)


def discriminators(subject: Subject) -> Iterator[Lint]:
    """Tagged unions of OpenAPI whose branches do not say which tag is theirs."""
    for place in subject.places:
        said = place.contents.get("discriminator")
        tag = said.get("propertyName") if isinstance(said, dict) else None
        if not isinstance(tag, str):
            continue
        branches = [each for group in place.rules.one_of for each in group]
        branches += [each for group in place.rules.any_of for alternative in group for each in alternative]
        seen: dict[object, str] = {}
        for branch in branches:
            known = outline(branch)
            field = known.fields.get(tag)
            if tag not in known.required or field is None or field.values is None:
                yield Lint(
                    "discriminator",
                    branch.pointer,
                    f"this branch does not say which {tag!r} is its own; OpenAPI's discriminator is an annotation",
                    f'"properties": {{"{tag}": {{"const": ...}}}} and "required": ["{tag}"]',
                )
                continue
            for value in field.values:
                other = seen.setdefault(value, branch.pointer)
                if other != branch.pointer:
                    yield Lint(
                        "discriminator", branch.pointer, f"shares the {tag!r} {value!r} with {other}", "tell them apart"
                    )


def required_unknown(subject: Subject) -> Iterator[Lint]:
    """Required keys that no ``properties`` nearby names: often a misspelling."""
    for spot in subject.spots:
        names = {key for place in spot.together for key in place.rules.properties or ()}
        patterns = [pattern for place in spot.together for pattern in place.rules.pattern_properties or ()]
        for place in spot.together:
            if not isinstance(place.contents, dict) or "required" not in place.rules.enforced:
                continue
            for i, key in enumerate(place.contents["required"]):
                if key not in names and not any(text_matches(pattern, key) for pattern in patterns):
                    near = naming.near(key, names)
                    yield Lint(
                        "required, not described",
                        f"{place.pointer}/required/{i}",
                        f"{key!r} is required, and no properties describe it; its value may be anything",
                        f"did you mean {near!r}?" if near else "add it to properties",
                    )


def unanchored(subject: Subject) -> Iterator[Lint]:
    """Patterns that are searched for, with any text around."""
    for place in subject.places:
        pattern = place.contents.get("pattern")
        if isinstance(pattern, str) and "pattern" in place.rules.enforced:
            start, end = naming.anchors(pattern)
            if not (start and end):
                where = "around" if not start and not end else "after" if start else "before"
                yield Lint(
                    "pattern not anchored",
                    f"{place.pointer}/pattern",
                    f"pattern is a search: any text of any length may stand {where} {pattern!r:.60}",
                    "^(...)$",
                )


def draft_guessed(subject: Subject) -> Iterator[Lint]:
    if subject.report.draft_from == "guess" and isinstance(subject.report.places[0].contents, dict):
        reason = guessed_draft(subject.report.places[0].contents)[1]
        yield Lint(
            "draft guessed",
            "#",
            f"there is no $schema; read as draft {subject.report.draft}" + (f", because of {reason}" if reason else ""),
            f'"$schema": "{subject.report.places[0].scope.draft.uri}", or --draft',
        )


def unfinished(subject: Subject) -> Iterator[Lint]:
    if len(subject.spots) >= MAX_CHECKS or subject.checks > MAX_CHECKS:
        yield Lint(
            "not all looked at",
            "#",
            f"the schema is large: stops and reachability were looked at for its first {MAX_CHECKS:,} values only",
            "check parts of it alone",
        )


CHECKS: tuple[Callable[[Subject], Iterator[Lint]], ...] = (
    unreachable,
    not_enforced,
    discriminators,
    required_unknown,
    unanchored,
    unbounded_whitespace,
    no_way_to_stop,
    draft_guessed,
    unfinished,
)
