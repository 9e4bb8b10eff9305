"""Strings, numbers and literals as expressions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any

from structgen.errors import GrammarError, GrammarTooComplex, UnsupportedGrammar
from structgen.grammars import any_number, formats, numbers, regex
from structgen.grammars.charset import ANY
from structgen.grammars.encoding import UTF8, Encoding
from structgen.grammars.expr import NEVER, Expr, alt, both, literal, neg, rep, seq
from structgen.grammars.magnitudes import digits_of, step_of
from structgen.grammars.residual import state
from structgen.grammars.schema.document import Draft
from structgen.grammars.schema.keywords import FRACTION, INTEGER, NUMBER, Bound, Rules, exact, tighter
from structgen.grammars.schema.multiples import multiple_of

QUOTE = literal(b'"')


@lru_cache(maxsize=4096)
def pattern_expr(pattern: str, encoding: Encoding) -> Expr:
    """Texts in which the ECMA-262 ``pattern`` is found."""
    return regex.lower(regex.parse(pattern, dialect="ecma"), encoding, search=True)


@lru_cache(maxsize=256)
def format_expr(name: str, encoding: Encoding) -> Expr:
    return formats.expr(name, encoding)


def string_body(rules: Iterable[Rules], encoding: Encoding, excluded: Sequence[str] = ()) -> Expr:
    """The inside of a string that satisfies the rules' keywords for strings."""
    lo, hi = 0, None
    positive: dict[Expr, None] = {}
    negative: dict[Expr, None] = {}
    for rule in rules:
        lo = max(lo, rule.min_length)
        if rule.max_length is not None:
            hi = rule.max_length if hi is None else min(hi, rule.max_length)
        for pattern in rule.patterns:
            positive[pattern_expr(pattern, encoding)] = None
        for name in rule.formats:
            positive[format_expr(name, encoding)] = None
        for pattern in rule.not_patterns:
            negative[neg(pattern_expr(pattern, encoding))] = None
        for name in rule.not_formats:
            negative[neg(format_expr(name, encoding))] = None
    if excluded:
        negative[neg(encoding.words(dict.fromkeys(excluded, 0)))] = None
    if hi is not None and hi < lo:
        return NEVER
    if lo or hi is not None or not positive:
        positive[rep(encoding.chars(ANY), lo, hi)] = None
    return both(*positive, *negative)


def number_expr(
    types: int, rules: Sequence[Rules], excluded: Sequence[Decimal] = (), any_numbers: bool = False
) -> Expr:
    """Numbers that satisfy the rules' keywords for numbers, spelled plainly or in any way."""
    lo: Bound | None = None
    hi: Bound | None = None
    multiples: dict[Decimal, None] = {}
    others: dict[Decimal, None] = {}
    for rule in rules:
        lo, hi = tighter(lo, rule.lo, 1), tighter(hi, rule.hi, -1)
        multiples.update(dict.fromkeys(rule.multiples))
        others.update(dict.fromkeys(rule.not_multiples))
    whole = not types & FRACTION
    if any_numbers and not spells_integers(rules):
        # To draft 4 a number that is no integer is one that is not spelled as one: 1.0 may be.
        mixed = types & NUMBER == FRACTION and all(
            rule.place.scope.draft == Draft.D4 for rule in rules if rule.types & NUMBER == FRACTION
        )
        made = any_number.number(
            None if lo is None else lo.value,
            None if hi is None else hi.value,
            lo_open=lo is not None and lo.open,
            hi_open=hi is not None and hi.open,
            multiples=[*multiples, Decimal(1)] if whole else multiples,
            not_multiples=others if types & INTEGER or mixed else [*others, Decimal(1)],
            excluded=excluded,
        )
        return both(made, neg(numbers.integer(None, None))) if mixed else made
    if whole:
        expr = numbers.integer(_ceil(lo), _floor(hi))
        multiples = {each: None for each in multiples if not _is_unit(each)}
    else:
        expr = numbers.number(
            None if lo is None else lo.value,
            None if hi is None else hi.value,
            lo_open=lo is not None and lo.open,
            hi_open=hi is not None and hi.open,
            exponent=not (multiples or others or excluded or not types & INTEGER),
        )
    if expr is NEVER:
        return NEVER
    if not types & INTEGER:
        others[Decimal(1)] = None
    stepped = bool(multiples or others)
    parts = [] if stepped and lo is None and hi is None else [expr]
    if stepped:
        parts.append(multiple_of(multiples, others, whole=whole))
    parts += [neg(numbers.number(each, each)) for each in excluded]
    return both(*parts)


def number_value_expr(value: Decimal, any_numbers: bool) -> Expr:
    """The spellings of one value: all of them, or those without an exponent (``1``, ``1.0``, ``1.00``)."""
    return any_number.values([value]) if any_numbers else numbers.number(value, value)


def spells_integers(rules: Iterable[Rules]) -> bool:
    """Whether integers are the numbers without point and exponent, as draft 4 has it (section 3.5 of its core)."""
    return any(rule.types & NUMBER == INTEGER and rule.place.scope.draft == Draft.D4 for rule in rules)


def check_numbers(rules: Rules, any_numbers: bool = False) -> None:
    """Raises UnsupportedGrammar or GrammarTooComplex for a ``multipleOf`` that the bounds make too large, and for
    bounds of too many digits."""
    try:
        state(number_expr(rules.types & NUMBER or NUMBER, (rules,), (), any_numbers))
    except (UnsupportedGrammar, GrammarTooComplex) as error:
        named = ["multipleOf"] if rules.multiples else [key for key in _BOUNDS if key in rules.enforced]
        below = f"/{named[0]}" if len(named) == 1 else ""
        raise type(error)(str(error), pointer=f"{rules.place.pointer}{below}") from None


_BOUNDS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")


def _is_unit(step: Decimal) -> bool:
    """Whether every integer is a multiple."""
    return is_multiple(Decimal(1), step)


def _ceil(bound: Bound | None) -> int | None:
    if bound is None:
        return None
    whole = int(_checked(bound).to_integral_value(rounding="ROUND_CEILING", context=_WIDE))
    return whole + 1 if bound.open and whole == bound.value else whole


def _floor(bound: Bound | None) -> int | None:
    if bound is None:
        return None
    whole = int(_checked(bound).to_integral_value(rounding="ROUND_FLOOR", context=_WIDE))
    return whole - 1 if bound.open and whole == bound.value else whole


_WIDE = Context(prec=100_000)


def _checked(bound: Bound) -> Decimal:
    """The value of a bound that is not too long to be written out."""
    if max(abs(bound.value.adjusted()), len(bound.value.as_tuple().digits)) > numbers.MAX_DIGITS:
        raise GrammarTooComplex(f"a bound has more than {numbers.MAX_DIGITS:,} digits: {str(bound.value)[:40]}")
    return bound.value


def is_multiple(value: Decimal, step: Decimal) -> bool:
    """Exactly, whatever the number of digits."""
    return value == 0 or step_of(step).divides(digits_of(value))


def literal_text(value: Any) -> list[bytes]:
    """The plain spellings of null, true, false or a number."""
    if value is None or isinstance(value, bool):
        return [json.dumps(value).encode()]
    number = exact(value)
    spelled = {str(value) if isinstance(value, Decimal) else json.dumps(value)}
    if number == number.to_integral_value() and number.adjusted() < 400:
        spelled.add(str(int(number)))
    if -400 < number.adjusted() < numbers.MAX_DIGITS:
        spelled.add(format(number, "f"))
    return sorted(text.encode() for text in spelled)


def literals(values: Iterable[Any], encoding: Encoding, any_numbers: bool = False) -> Expr:
    """Any of the scalar values."""
    texts: dict[str, int] = {}
    plain: dict[str, int] = {}
    by_value: list[Decimal] = []
    for value in values:
        if isinstance(value, str):
            if not any(0xD800 <= ord(char) <= 0xDFFF for char in value):
                texts[value] = 0
        elif any_numbers and value is not None and not isinstance(value, bool):
            by_value.append(exact(value))
        else:
            plain.update((text.decode(), 0) for text in literal_text(value))
    strings = seq(QUOTE, encoding.words(texts, b'"')) if texts else NEVER
    return alt(UTF8.words(plain), any_number.values(by_value), strings)


def check_pattern(pattern: str, pointer: str) -> None:
    """Raises GrammarError with the schema's pointer if the pattern is malformed or not supported."""
    try:
        pattern_expr(pattern, _json_any())
    except GrammarError as error:
        shown = repr(pattern) if len(pattern) < 80 else f"{pattern[:80]!r}..."
        raise type(error)(f"pattern {shown}: {error}", pointer=pointer) from None


def _json_any() -> Encoding:
    from structgen.grammars.encoding import JSON_ANY

    return JSON_ANY
