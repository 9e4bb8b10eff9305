"""Values in schemas (``const``, ``enum``): equality as JSON Schema means it, and whether a value satisfies a
subschema. Numbers compare exactly: a float stands for the decimal that it is spelled as."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal, InvalidOperation, localcontext
from functools import lru_cache
from typing import Any, NamedTuple

from structgen.errors import GrammarError
from structgen.grammars import formats, plain_pattern
from structgen.grammars.encoding import UTF8
from structgen.grammars.expr import matches
from structgen.grammars.schema.contents import FarDecimal
from structgen.grammars.schema.document import Place
from structgen.grammars.schema.keywords import (
    ARRAY,
    BOOLEAN,
    FRACTION,
    INTEGER,
    NULL,
    OBJECT,
    STRING,
    Rules,
    SomeKey,
    exact,
    too_far,
)
from structgen.grammars.schema.scalars import is_multiple, pattern_expr


def check_literal(value: Any, pointer: str) -> None:
    """Raises GrammarError unless ``value`` is JSON, GrammarTooComplex for a number whose exponent is too long."""
    queue = [value]
    while queue:
        at = queue.pop()
        if isinstance(at, FarDecimal):
            raise too_far(at, pointer)
        if not (at.is_finite() if isinstance(at, Decimal) else math.isfinite(at) if isinstance(at, float) else True):
            raise GrammarError(f"{at!r} is no JSON number", pointer=pointer)
        if isinstance(at, dict):
            if not all(isinstance(key, str) for key in at):
                raise GrammarError("object keys must be strings", pointer=pointer)
            queue.extend(at.values())
        elif isinstance(at, (list, tuple)):
            queue.extend(at)
        elif not (at is None or isinstance(at, (bool, int, float, str, Decimal))):
            raise GrammarError(f"{at!r} ({type(at).__name__}) is no JSON value", pointer=pointer)


class FarNumber(NamedTuple):
    """A number whose exponent is beyond ``Decimal``: digits (without zeros at the ends) and exponent, as text."""

    digits: str
    exponent: str


def number_of(spelled: str) -> Decimal | FarNumber:
    """The exact value of a JSON number."""
    try:
        return Decimal(spelled)
    except InvalidOperation:
        mantissa, _, exponent = spelled.lower().partition("e")
        sign, mantissa = ("-", mantissa[1:]) if mantissa[0] == "-" else ("", mantissa)
        whole, _, places = mantissa.partition(".")
        digits = (whole + places).rstrip("0")
        if not digits:
            return Decimal(0)
        shift = len(whole) - len(digits)
        with localcontext(Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)):
            power = Decimal(exponent) + shift  # an int of thousands of digits cannot be read from text
        return FarNumber(sign + digits.lstrip("0"), format(power, "f"))


def identity(value: Any) -> Hashable:
    """Equal for values that JSON Schema calls equal (``1`` and ``1.0``, but not ``1`` and ``true``)."""
    if isinstance(value, FarNumber):
        return value
    if isinstance(value, bool) or value is None:
        return (type(value), value)
    if isinstance(value, (int, float, Decimal)):
        return exact(value)
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return ("object", frozenset((key, identity(each)) for key, each in value.items()))
    return ("array", tuple(identity(each) for each in value))


def same_value(a: Any, b: Any) -> bool:
    return identity(a) == identity(b)


def type_of(value: Any) -> int:
    if value is None:
        return NULL
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, (int, float, Decimal)):
        number = exact(value)
        return INTEGER if number == number.to_integral_value() else FRACTION
    if isinstance(value, str):
        return STRING
    return OBJECT if isinstance(value, dict) else ARRAY


def accepts(place: Place, value: Any) -> bool:
    """Whether ``value`` satisfies the subschema. Raises RecursionError for values or rules nested too deeply."""
    rules = place.rules
    if rules.alias is not None:
        return accepts(rules.alias, value)
    return satisfies(rules, value) and all(accepts(each, value) for each in rules.all_of)


def satisfies(rules: Rules, value: Any) -> bool:
    """Whether ``value`` satisfies the rules, those in ``all_of`` left aside."""
    if not plainly_satisfies(rules, value):
        return False
    if isinstance(value, (dict, list, tuple)) and not _unevaluated(rules, value):
        return False
    for group in rules.any_of:
        if not any(all(accepts(each, value) for each in alternative) for alternative in group):
            return False
    for branches in rules.one_of:
        if sum(accepts(each, value) for each in branches) != 1:
            return False
    for condition, then, other in rules.conditions:
        chosen = then if accepts(condition, value) else other
        if chosen is not None and not accepts(chosen, value):
            return False
    return not any(accepts(each, value) for each in rules.negations)


def plainly_satisfies(rules: Rules, value: Any) -> bool:
    """Whether ``value`` satisfies the rules, those that apply other subschemas to the same value left aside."""
    kind = type_of(value)
    if not rules.types & kind:
        return False
    if rules.values is not None and identity(value) not in _identities(rules):
        return False
    if any(same_value(value, each) for each in rules.excluded):
        return False
    if kind == STRING and not _string(rules, value):
        return False
    if kind & (INTEGER | FRACTION) and not _number(rules, exact(value)):
        return False
    if kind == OBJECT and not _object(rules, value):
        return False
    return kind != ARRAY or _array(rules, value)


@lru_cache(maxsize=64)
def _identities(rules: Rules) -> frozenset[Hashable]:
    return frozenset(map(identity, rules.values or ()))


def text_matches(pattern: str, text: str) -> bool:
    """Whether an ECMA pattern is found in ``text``."""
    quick = plain_pattern.quick(pattern) if text.isascii() and text.isprintable() and len(text) < 200 else None
    if quick is not None:
        return quick.search(text) is not None
    try:
        return matches(pattern_expr(pattern, UTF8), text.encode())
    except UnicodeEncodeError:
        return False


def _format_matches(name: str, text: str) -> bool:
    try:
        return matches(formats.expr(name, UTF8), text.encode())
    except UnicodeEncodeError:
        return False


def _string(rules: Rules, value: str) -> bool:
    if len(value) < rules.min_length or (rules.max_length is not None and len(value) > rules.max_length):
        return False
    return (
        all(text_matches(pattern, value) for pattern in rules.patterns)
        and not any(text_matches(pattern, value) for pattern in rules.not_patterns)
        and all(_format_matches(name, value) for name in rules.formats)
        and not any(_format_matches(name, value) for name in rules.not_formats)
    )


def _number(rules: Rules, value: Decimal) -> bool:
    lo, hi = rules.lo, rules.hi
    if lo is not None and (value < lo.value or (lo.open and value == lo.value)):
        return False
    if hi is not None and (value > hi.value or (hi.open and value == hi.value)):
        return False
    return all(is_multiple(value, each) for each in rules.multiples) and not any(
        is_multiple(value, each) for each in rules.not_multiples
    )


def _object(rules: Rules, value: dict[str, Any]) -> bool:
    if len(value) < rules.min_properties or (rules.max_properties is not None and len(value) > rules.max_properties):
        return False
    if any(key not in value for key in rules.required):
        return False
    for key, wanted in (rules.dependents or {}).items():
        if key in value and any(each not in value for each in wanted):
            return False
    for key, each in value.items():
        if not all(accepts(place, each) for place in places_for(rules, key)):
            return False
        if not all(accepts(place, key) for place in rules.names):
            return False
    return all(
        any(in_scope(wish, key) and accepts(wish.value, each) for key, each in value.items()) for wish in rules.some
    )


def in_scope(wish: SomeKey, key: str) -> bool:
    """Whether the key is one of those of which some must fulfil the wish."""
    return (
        key not in wish.keys
        and not any(text_matches(pattern, key) for pattern in wish.without)
        and (wish.pattern is None or text_matches(wish.pattern, key))
        and (wish.name is None or accepts(wish.name, key))
    )


def places_for(rules: Rules, key: str) -> list[Place]:
    """The subschemas that the value of ``key`` must satisfy."""
    found = []
    if rules.properties and key in rules.properties:
        found.append(rules.properties[key])
    for pattern, place in (rules.pattern_properties or {}).items():
        if text_matches(pattern, key):
            found.append(place)
    if not found and rules.additional is not None:
        found.append(rules.additional)
    return found


def _array(rules: Rules, value: list[Any]) -> bool:
    if len(value) < rules.min_items or (rules.max_items is not None and len(value) > rules.max_items):
        return False
    for i, each in enumerate(value):
        place = rules.prefix[i] if i < len(rules.prefix) else rules.items
        if place is not None and not accepts(place, each):
            return False
    if rules.unique or rules.repeated:
        different = len({identity(each) for each in value}) == len(value)
        if rules.repeated if different else rules.unique:
            return False
    for contains in rules.contains:
        n = sum(accepts(contains.place, each) for each in value[contains.start :])
        if n < contains.lo or (contains.hi is not None and n > contains.hi):
            return False
    return True


def _unevaluated(rules: Rules, value: Any) -> bool:
    """Whether the members that nothing evaluates satisfy what ``rules`` demand of such."""
    place = rules.unevaluated_properties if isinstance(value, dict) else rules.unevaluated_items
    if place is None or place.rules.empty:
        return True
    done = _evaluated(rules, value)
    if isinstance(value, dict):
        return all(accepts(place, each) for key, each in value.items() if key not in done)
    return all(accepts(place, each) for i, each in enumerate(value) if i not in done)


def _evaluated(rules: Rules, value: Any) -> set[str | int]:
    """The keys or indices of the members that the keywords of a place evaluate, its ``unevaluated`` ones left aside."""
    done: set[str | int] = set()
    if isinstance(value, dict):
        if rules.additional is not None:
            return set(value)
        for key in value:
            if places_for(rules, key):
                done.add(key)
    elif rules.items is not None:
        return set(range(len(value)))
    else:
        done.update(range(len(rules.prefix)))
        done.update(i for i, each in enumerate(value) if any(accepts(place, each) for place in rules.contained))
    for each in _successful(rules, value):
        below = each.rules
        own = below.unevaluated_properties if isinstance(value, dict) else below.unevaluated_items
        if own is not None:
            return set(value) if isinstance(value, dict) else set(range(len(value)))
        done |= _evaluated(below, value)
    return done


def _successful(rules: Rules, value: Any) -> Iterator[Place]:
    """The places that apply to the same value and that it satisfies."""
    groups: list[tuple[Place, ...]] = [(each,) for each in rules.all_of]
    for group in rules.any_of:
        groups += group
    for branches in rules.one_of:
        groups += [(branch,) for branch in branches]
    for condition, then, other in rules.conditions:
        met = accepts(condition, value)
        groups += [(each,) for each in ((condition, then) if met else (other,)) if each is not None]
    for places in groups:
        if all(accepts(each, value) for each in places):
            yield from places
