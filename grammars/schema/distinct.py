"""Values that differ: what ``uniqueItems`` needs to know of the items of an array."""

from __future__ import annotations

import json
from collections.abc import Collection, Hashable, Iterable
from decimal import Decimal
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from structgen.errors import GrammarTooComplex
from structgen.grammars import any_number
from structgen.grammars.encoding import JSON_CANONICAL, UTF8, Encoding
from structgen.grammars.expr import (
    NEVER,
    Alt,
    Expr,
    Literal,
    Seq,
    Words,
    alt,
    both,
    literal,
    matches,
    neg,
    optional,
    out,
    rep,
    seq,
    switch,
    words,
)
from structgen.grammars.residual import FreshKey, State, state
from structgen.grammars.schema import languages
from structgen.grammars.schema.literals import identity, number_of
from structgen.grammars.schema.scalars import QUOTE, number_value_expr
from structgen.grammars.split import End, Split, closes, walked
from structgen.grammars.trie import Trie

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


_DECODER = json.JSONDecoder(parse_float=number_of, parse_int=Decimal)


def parsed(text: bytes) -> Any:
    """The value that a JSON text spells; numbers as exact decimals."""
    return _DECODER.decode(text.decode("utf-8", "surrogatepass"))


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
    if not values:
        return scalars
    numbers, rest = any_number.parts(scalars)
    left: list[Expr] = []
    others: list[Expr] = []
    for item in rest.items if isinstance(rest, Alt) else (rest,):
        fewer = _fewer(item, values)
        (others if fewer is None else left).append(item if fewer is None else fewer)
    other = alt(*others)
    if other is not NEVER and (taken := spellings(values, encoding)) is not NEVER:
        other = both(other, neg(taken))
    return alt(any_number.without(any_number.union(numbers), _numbers(values)), *left, other)


def _fewer(item: Expr, values: Collection[Hashable]) -> Expr | None:
    """Listed scalars but ``values``; None for others."""
    if isinstance(item, Words) and not item.partial and not item.tail:
        return words({text: end for text, end in item.node.items if value_key(text.encode()) not in values}, UTF8)
    if isinstance(item, Literal):
        return NEVER if value_key(item.data) in values else item
    if isinstance(item, Seq) and item.head is QUOTE and isinstance(item.tail, Words) and not item.tail.partial:
        left = {text: end for text, end in item.tail.node.items if text not in values}
        return seq(QUOTE, words(left, item.tail.encoding, item.tail.tail))
    return None


def common(scalars: Expr, values: Collection[Hashable], encoding: Encoding) -> Expr:
    """The scalars among ``values``."""
    numbers, rest = any_number.parts(scalars)
    made = any_number.union(numbers)
    kept = [value for value in _numbers(values) if matches(made, str(value).encode())]
    return alt(any_number.values(kept), NEVER if rest is NEVER else both(rest, spellings(values, encoding)))


def kinds(scalars: Expr) -> tuple[Expr, Expr]:
    """The strings among the scalars, quotes and all, and the others."""
    strings: list[Expr] = []
    others: list[Expr] = []
    for item in scalars.items if isinstance(scalars, Alt) else (scalars,):
        first = item.head if isinstance(item, Seq) else item
        is_string = isinstance(first, Literal) and first.data.startswith(b'"')
        (strings if is_string else others).append(item)
    return alt(*strings), alt(*others)


def ending(scalars: Expr, outcome: int) -> Expr:
    """The same scalars (of outcome 0) with another outcome."""
    made = []
    for item in scalars.items if isinstance(scalars, Alt) else (scalars,):
        if isinstance(item, Words) and not item.partial and not item.tail:
            made.append(words({text: outcome for text, _ in item.node.items}, UTF8))
        elif isinstance(item, Literal):
            made.append(literal(item.data, outcome))
        else:
            made.append(seq(item, out(outcome)))
    return alt(*made)


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


_NOTHING = ("nothing",)
_BLANKS = b" \t\n\r"


def _read(text: bytes) -> Hashable:
    """The value that a text spells; ``_NOTHING`` for the beginning of a container."""
    try:
        return value_key(text)
    except ValueError:
        return _NOTHING


class FreshItem(FreshKey):
    """An item that must not be one of those ``taken``, where what begins it always leaves other values: it is compared
    when it ends."""

    __slots__ = ()
    taken: frozenset[Any]

    def __init__(self, inner: State, taken: frozenset[Hashable], text: bytes = b"") -> None:
        self.inner = inner
        self.taken = taken
        self.decode = _read  # type: ignore[assignment]
        self.text = text
        self.outcomes = inner.outcomes
        if inner.outcomes and _read(text) in taken:
            self.outcomes = ()
        self.live = inner.live

    def after(self, inner: State, data: bytes) -> FreshItem:
        return FreshItem(inner, self.taken, self.text + data)

    def clashes(self, trie: Trie) -> bool:
        begun = self.text.lstrip(_BLANKS)[:1]
        if begun in (b"", b'"') and closes([each for each in self.taken if type(each) is str], self.text, trie):
            return True
        return begun != b'"' and any(type(each) is not str for each in self.taken)

    def split(self, trie: Trie) -> Split:
        if not self.clashes(trie):
            return self.inner.split(trie)
        found = walked(self.inner, trie)
        begun = self.text.lstrip(_BLANKS)
        endings = _endings(self.inner, trie)
        if not begun:
            gone = [node for node, _, value in endings if value in self.taken]
        else:
            if begun[0] == 0x22 and b"\\" not in begun:  # one spelling each, but for those with an escape
                left = {rest for each in self.taken if (rest := _rest(begun, each)) is not None}
                endings = [each for each in endings if each[1] in left or b"\\" in each[1]]
            gone = [node for node, path, _ in endings if _read(self.text + path) in self.taken]
        if not gone:
            return self.inner.split(trie)
        kept = [(where[~np.isin(where, gone)], outcome) for where, outcome in found.nodes]
        ends = tuple(End(outcome, trie.union(where)) for where, outcome in kept if len(where))
        return Split(() if found.stay is None else (found.stay,), ends)


def _rest(begun: bytes, value: Hashable) -> bytes | None:
    """What comes after ``begun`` where a string is spelled without an escape; None for other values."""
    if not isinstance(value, str):
        return None
    spelled = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return spelled[len(begun) :] if spelled.startswith(begun) else None


def _endings(inner: State, trie: Trie) -> list[tuple[int, bytes, Hashable]]:
    """Where a scalar may end in the trie, the bytes that lead there, and the value if it begins there too."""
    by_trie = _known_endings.setdefault(inner, {})
    found = by_trie.get(trie.id)
    if found is None:
        found = by_trie[trie.id] = []
        for where, _ in walked(inner, trie).nodes:
            for node in where.tolist():
                path = trie.path(node)
                found.append((node, path, _read(path)))
    return found


_known_endings: WeakKeyDictionary[State, dict[int, list[tuple[int, bytes, Hashable]]]] = WeakKeyDictionary()
