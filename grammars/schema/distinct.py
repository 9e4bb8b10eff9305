"""Values that differ: what ``uniqueItems`` needs to know of the items of an array."""

from __future__ import annotations

import json
from collections.abc import Collection, Hashable, Iterable
from decimal import Decimal
from functools import lru_cache
from typing import Any

from structgen.errors import GrammarTooComplex
from structgen.grammars import any_number
from structgen.grammars.encoding import JSON_CANONICAL, Encoding
from structgen.grammars.expr import NEVER, Expr, alt, both, literal, matches, neg, optional, rep, seq, switch
from structgen.grammars.residual import state
from structgen.grammars.schema import languages
from structgen.grammars.schema.literals import identity, number_of
from structgen.grammars.schema.scalars import QUOTE, number_value_expr

_DIGIT = switch([(0x30, 0x39, alt(literal(b"")))])
_NONZERO = switch([(0x31, 0x39, alt(literal(b"")))])
_WHOLE = alt(literal(b"0"), seq(_NONZERO, rep(_DIGIT)))
_CANONICAL = alt(
    *map(literal, (b"null", b"true", b"false", b"0")),
    seq(
        optional(literal(b"-")),
        alt(seq(_NONZERO, rep(_DIGIT)), seq(_WHOLE, literal(b"."), rep(_DIGIT), _NONZERO)),
    ),
    seq(QUOTE, JSON_CANONICAL.any_text, QUOTE),
)
"""One spelling of every scalar."""


def parsed(text: bytes) -> Any:
    """The value that a JSON text spells; numbers as exact decimals."""
    return json.loads(text, parse_float=number_of, parse_int=Decimal)


def value_key(text: bytes) -> Hashable:
    """Equal for texts of equal values (JSON Schema core, section 4.2.2)."""
    return identity(parsed(text))


@lru_cache(maxsize=4096)
def count(scalars: Expr) -> int:
    """How many different values the scalars have, up to ``languages.MANY``."""
    numbers, rest = any_number.parts(scalars)
    found = any_number.size(numbers, languages.MANY)
    if rest is NEVER or found >= languages.MANY:
        return found
    if languages.endless(rest):
        return languages.MANY
    try:
        return min(found + languages.size(both(rest, _CANONICAL)), languages.MANY)
    except GrammarTooComplex:  # more states than can be counted have more values than an array has items
        return languages.MANY


@lru_cache(maxsize=1024)
def endless(scalars: Expr) -> bool:
    """Whether no prefix of a scalar can run out of values."""
    numbers, rest = any_number.parts(scalars)
    return all(among.free for _, among in numbers) and (rest is NEVER or languages.endless(rest))


@lru_cache(maxsize=1024)
def members(scalars: Expr, limit: int) -> tuple[Hashable, ...] | None:
    """The values of the scalars; None when there may be more than ``limit``."""
    if count(scalars) > limit:
        return None
    numbers, rest = any_number.parts(scalars)
    found: dict[Hashable, None] = dict.fromkeys(sorted(any_number.members(numbers, limit) or ()))
    begun = state(both(rest, _CANONICAL))
    queue = [] if begun is None else [(begun, b"")]
    while queue:
        at, text = queue.pop()
        if at.outcomes:
            found[value_key(text)] = None
        for byte in range(256):
            after = at.advance(byte)
            if after is not None:
                queue.append((after, text + bytes([byte])))
    return tuple(found)


def without(scalars: Expr, values: Collection[Hashable], encoding: Encoding) -> Expr:
    """The scalars but ``values``."""
    numbers, rest = any_number.parts(scalars)
    taken = spellings(values, encoding)
    if rest is not NEVER and taken is not NEVER:
        rest = both(rest, neg(taken))
    return alt(any_number.without(any_number.union(numbers), _numbers(values)), rest)


def common(scalars: Expr, values: Collection[Hashable], encoding: Encoding) -> Expr:
    """The scalars among ``values``."""
    numbers, rest = any_number.parts(scalars)
    made = any_number.union(numbers)
    kept = [value for value in _numbers(values) if matches(made, str(value).encode())]
    return alt(any_number.values(kept), NEVER if rest is NEVER else both(rest, spellings(values, encoding)))


def _numbers(values: Iterable[Hashable]) -> list[Decimal]:
    return [value for value in values if isinstance(value, Decimal)]


def spellings(values: Iterable[Hashable], encoding: Encoding) -> Expr:
    """All spellings of the scalars among ``values`` (as ``identity`` writes them)."""
    texts: dict[str, int] = {}
    others: list[Expr] = []
    for value in values:
        if isinstance(value, str):
            texts[value] = 0
        elif isinstance(value, Decimal):
            others.append(number_value_expr(value, True))
        elif isinstance(value, tuple) and isinstance(value[0], type):
            others.append(literal(json.dumps(value[1]).encode()))
    strings = seq(QUOTE, encoding.words(texts, b'"')) if texts else NEVER
    return alt(strings, *others)
