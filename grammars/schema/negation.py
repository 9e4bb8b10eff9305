"""The complement of a subschema, written as another subschema.

``not``, ``oneOf`` whose branches overlap, and ``if`` all become unions of conjunctions of positive rules:
a value fails a conjunction when it fails one of the parts, and each keyword has a keyword that says the
opposite for values of its type.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from structgen.grammars.schema.document import Place
from structgen.grammars.schema.keywords import ALL, ARRAY, NUMBER, OBJECT, STRING, Bound, Contains, Rules, SomeKey


def negation(place: Place) -> Place:
    """A place that holds exactly the values that ``place`` does not. What it says is written when it is first asked for
    (``opposite``)."""
    if place.negated is not None:
        return place.negated
    rules = place.rules
    if rules.alias is not None:
        place.negated = negation(rules.alias)
    elif len(rules.negations) == 1 and len(rules.enforced) == 1:
        place.negated = rules.negations[0]
    elif not rules.types:
        place.negated = place.document.place(True, place.scope, place, "")
    else:
        place.negated = place.document.made(None, place)
        place.negated.negated = place
    return place.negated


def opposite(place: Place) -> Rules:
    """The rules of a ``negation``. Raises UnsupportedGrammar or GrammarTooComplex where they cannot be written."""
    positive = place.negated
    assert positive is not None
    made = Rules(positive)
    made.enforced = ["not"]
    place.rules = made  # before the parts are built: a recursive schema meets itself
    try:
        alternatives = [(place.document.made(part, positive),) for part in _parts(positive.rules)]
        alternatives += [(negation(each),) for each in positive.rules.all_of]
    except BaseException:
        del place.rules
        raise
    if alternatives:
        made.any_of = (tuple(alternatives),)
    else:
        made.types = 0
    return made


def write_out(places: Iterable[Place]) -> None:
    """Write all negations that ``places`` lead to by negations alone, so that what cannot be written is refused now.
    Raises UnsupportedGrammar or GrammarTooComplex."""
    found: set[Place] = set()
    stack = list(places)
    while stack:
        place = stack.pop()
        if place.contents is None and place not in found and place not in place.document.written:
            found.add(place)
            stack += place.rules.children
    for place in found:
        place.document.written.add(place)


def _some(place: Place, types: int = ALL) -> Rules:
    made = Rules(place)
    made.types = types
    made.enforced = ["not"]
    return made


def _parts(rules: Rules) -> Iterator[Rules]:
    """Rules, each the opposite of one keyword; a value fails ``rules`` when it satisfies one of them."""
    from structgen.grammars.schema.unevaluated import denials

    place = rules.place
    document = place.document

    def false(token: str) -> Place:
        found: Place = document.place(False, place.scope, place, token)
        return found

    if rules.types != ALL:
        yield _some(place, ALL & ~rules.types)
    if rules.values is not None:
        made = _some(place)
        made.excluded = rules.values
        yield made
    for value in rules.excluded:
        made = _some(place)
        made.values = (value,)
        yield made
    yield from _scalar_parts(rules)
    for group in rules.any_of:
        made = _some(place)
        made.all_of = tuple(negated_conjunction(place, alternative) for alternative in group)
        yield made
    for each in rules.negations:
        made = _some(place)
        made.all_of = (each,)
        yield made
    for branches in rules.one_of:
        none = _some(place)
        none.all_of = tuple(negation(each) for each in branches)
        yield none
        for i, first in enumerate(branches):
            for second in branches[i + 1 :]:
                made = _some(place)
                made.all_of = (first, second)
                yield made
    for condition, then, other in rules.conditions:
        if then is not None:
            made = _some(place)
            made.all_of = (condition, negation(then))
            yield made
        if other is not None:
            made = _some(place)
            made.all_of = (negation(condition), negation(other))
            yield made
    properties = rules.properties or {}
    for key in rules.required:
        made = _some(place, OBJECT)
        # That it is missing, or there with a wrong value, is one alternative.
        made.properties = {key: negation(properties[key]) if key in properties else false("required")}
        yield made
    for key, each in properties.items():
        if each.contents is True or key in rules.required:
            continue
        made = _some(place, OBJECT)
        made.required = (key,)
        made.properties = {key: negation(each)}
        yield made
    for key, wanted in (rules.dependents or {}).items():
        for other_key in wanted:
            if other_key != key:
                made = _some(place, OBJECT)
                made.required = (key,)
                made.properties = {other_key: false("dependentRequired")}
                yield made
    if rules.min_properties:
        made = _some(place, OBJECT)
        made.max_properties = rules.min_properties - 1
        yield made
    if rules.max_properties is not None:
        made = _some(place, OBJECT)
        made.min_properties = rules.max_properties + 1
        yield made
    yield from _key_parts(rules)
    yield from denials(rules)
    yield from _array_parts(rules)


def _key_parts(rules: Rules) -> Iterator[Rules]:
    """The opposites of the keywords that speak of all keys, and of ``some``."""
    place = rules.place
    anything = place.document.place(True, place.scope, place, "")
    wishes = []
    if rules.additional is not None:
        keys, patterns = tuple(rules.properties or ()), tuple(rules.pattern_properties or ())
        wishes.append(SomeKey(negation(rules.additional), keys, patterns))
    for pattern, each in (rules.pattern_properties or {}).items():
        wishes.append(SomeKey(negation(each), pattern=pattern))
    for each in rules.names:
        wishes.append(SomeKey(anything, name=negation(each)))
    for wish in wishes:
        if wish.value.rules.types and (wish.name is None or wish.name.rules.types):
            made = _some(place, OBJECT)
            made.some = (wish,)
            yield made
    for wish in rules.some:
        made = _some(place, OBJECT)
        refused = negation(wish.value)
        if wish.pattern is not None:
            made.pattern_properties = {wish.pattern: refused}
        elif wish.name is not None:
            made.names = (negation(wish.name),)
        else:
            made.properties = dict.fromkeys(wish.keys, anything)
            made.pattern_properties = dict.fromkeys(wish.without, anything)
            made.additional = refused
        yield made


def _scalar_parts(rules: Rules) -> Iterator[Rules]:
    place = rules.place
    if rules.min_length:
        made = _some(place, STRING)
        made.max_length = rules.min_length - 1
        yield made
    if rules.max_length is not None:
        made = _some(place, STRING)
        made.min_length = rules.max_length + 1
        yield made
    for field, opposite in (
        ("patterns", "not_patterns"),
        ("not_patterns", "patterns"),
        ("formats", "not_formats"),
        ("not_formats", "formats"),
    ):
        for each in getattr(rules, field):
            made = _some(place, STRING)
            setattr(made, opposite, (each,))
            yield made
    if rules.lo is not None:
        made = _some(place, NUMBER)
        made.hi = Bound(rules.lo.value, not rules.lo.open)
        yield made
    if rules.hi is not None:
        made = _some(place, NUMBER)
        made.lo = Bound(rules.hi.value, not rules.hi.open)
        yield made
    for step in rules.multiples:
        made = _some(place, NUMBER)
        made.not_multiples = (step,)
        yield made
    for step in rules.not_multiples:
        made = _some(place, NUMBER)
        made.multiples = (step,)
        yield made


def _array_parts(rules: Rules) -> Iterator[Rules]:
    place = rules.place
    if rules.min_items:
        made = _some(place, ARRAY)
        made.max_items = rules.min_items - 1
        yield made
    if rules.max_items is not None:
        made = _some(place, ARRAY)
        made.min_items = rules.max_items + 1
        yield made
    anything = place.document.place(True, place.scope, place, "items")
    for i, each in enumerate(rules.prefix):
        if each.contents is not True:
            made = _some(place, ARRAY)
            made.min_items = i + 1
            made.prefix = (anything,) * i + (negation(each),)
            yield made
    if rules.items is not None and rules.items.contents is not True:
        made = _some(place, ARRAY)
        if rules.items.contents is False:
            made.min_items = len(rules.prefix) + 1
        else:
            made.contains = (Contains(negation(rules.items), 1, None, len(rules.prefix)),)
        yield made
    for contains in rules.contains:
        if contains.lo:
            made = _some(place, ARRAY)
            if contains.lo == 1:
                made.prefix = (anything,) * contains.start
                made.items = negation(contains.place)
            else:
                negation(contains.place)  # items beyond the limit need it
                made.contains = (Contains(contains.place, 0, contains.lo - 1, contains.start),)
            yield made
        if contains.hi is not None:
            made = _some(place, ARRAY)
            made.contains = (Contains(contains.place, contains.hi + 1, None, contains.start),)
            yield made
    for field, opposite in (("unique", "repeated"), ("repeated", "unique")):
        if getattr(rules, field):
            made = _some(place, ARRAY)
            setattr(made, opposite, True)
            yield made


def negated_conjunction(place: Place, alternative: tuple[Place, ...]) -> Place:
    if len(alternative) == 1:
        return negation(alternative[0])
    made = _some(place)
    made.any_of = (tuple((negation(each),) for each in alternative),)
    found: Place = place.document.made(made, place)
    return found


def container_excluded(place: Place, value: Any) -> Place:
    """A place for every value but the given array or object."""
    return negation(container_equal(place, value))


def container_equal(place: Place, value: Any) -> Place:
    """A place for exactly ``value``: its members by their own places, so that each is spelled as a value is."""
    made = Rules(place)
    made.enforced = ["const"]
    document = place.document
    if isinstance(value, dict):
        made.types = OBJECT
        made.properties = {key: container_equal(place, each) for key, each in value.items()}
        made.required = tuple(value)
        made.max_properties = len(value)
    elif isinstance(value, (list, tuple)):
        made.types = ARRAY
        made.prefix = tuple(container_equal(place, each) for each in value)
        made.min_items = made.max_items = len(value)
    else:
        made.values = (value,)
    found: Place = document.made(made, place)
    return found
