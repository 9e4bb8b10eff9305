r"""Lookaround as derivatives: exact, in loops too.

A ``Chain`` is the language of the rest of a text that a sequence of terms matches up to the end of the text.
With the whole rest in view, a lookahead is an intersection: ``(?=X) Y`` is ``X.* & Y`` (Miyazaki and
Minamide 2019, "Derivatives of regular expressions with lookahead"). A lookbehind asks about the text so far:
a *tracker*, the derivative of ``.*X`` by what was read, is nullable exactly where it holds. The trackers
that a chain still needs travel with it, so equal residuals are one object.

A lookahead inside a lookbehind asks about text beyond the place where the lookbehind is asked. There the tracker is
``.*X`` *here* ``.*``, where *here* is a byte that no text holds: its derivative by *here* is the language of the rests
of text in front of which the lookbehind holds, and the lookaheads inside step over that byte (``Over``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from structgen.grammars.expr import ALL, ALL_BYTES, EPSILON, NEVER, Expr, _intern, alt, both, byte_set, neg, seq


@dataclass(frozen=True)
class _Term:
    """Part of a pattern with lookaround in it.

    Attributes:
        trackers: languages ``.*X`` of the lookbehinds inside.
    """

    trackers: frozenset[Expr] = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)

    def _finish(self, content: object, parts: Iterable[Term]) -> None:
        found: frozenset[Expr] = frozenset()
        for part in parts:
            if isinstance(part, _Term):
                found |= part.trackers
        object.__setattr__(self, "trackers", found)
        object.__setattr__(self, "_hash", hash((type(self).__name__, content)))

    def __hash__(self) -> int:
        return self._hash


Term: TypeAlias = "Expr | _Term"

HERE = 0xFF
"""A byte that no text holds, in UTF-8 or escaped."""
_HERE = byte_set([HERE])


@dataclass(frozen=True)
class Sequence(_Term):
    items: tuple[Term, ...]

    def __post_init__(self) -> None:
        self._finish(self.items, self.items)

    __hash__ = _Term.__hash__


@dataclass(frozen=True)
class Choice(_Term):
    items: tuple[Term, ...]

    def __post_init__(self) -> None:
        self._finish(self.items, self.items)

    __hash__ = _Term.__hash__


@dataclass(frozen=True)
class Turns(_Term):
    """``body`` ``lo`` to ``hi`` times."""

    body: Term
    lo: int
    hi: int | None

    def __post_init__(self) -> None:
        self._finish((self.body, self.lo, self.hi), (self.body,))

    __hash__ = _Term.__hash__


@dataclass(frozen=True)
class Ahead(_Term):
    """Empty, where the rest of the text is (``negated``: is not) in ``rest``."""

    rest: Term
    negated: bool
    over: bool = False
    """``rest`` steps over the byte *here*: inside a lookbehind."""

    def __post_init__(self) -> None:
        self._finish((self.rest, self.negated, self.over), (self.rest,))

    __hash__ = _Term.__hash__


@dataclass(frozen=True)
class Behind(_Term):
    """Empty, where the text so far is (``negated``: is not) in ``before``."""

    before: Expr
    negated: bool
    asks: bool = False
    """``before`` goes on with *here* and the rest of the text, since lookaheads are inside."""
    over: bool = False

    def __post_init__(self) -> None:
        self._finish((self.before, self.negated, self.asks, self.over), ())
        object.__setattr__(self, "trackers", frozenset([self.before]))

    __hash__ = _Term.__hash__


def behind(body: Term, negated: bool) -> Behind:
    """``body``, a language of whole beginnings of text, as a lookbehind."""
    if not _looks_ahead(body):
        return Behind(chain(body), negated)
    return Behind(chain(Sequence((_stepping(body), _HERE, ALL))), negated, asks=True)


def _looks_ahead(term: Term) -> bool:
    if isinstance(term, (Sequence, Choice)):
        return any(map(_looks_ahead, term.items))
    if isinstance(term, Turns):
        return _looks_ahead(term.body)
    return isinstance(term, Ahead) or (isinstance(term, Behind) and term.asks)


def _stepping(term: Term) -> Term:
    """``term``, whose lookaheads step over *here*."""
    if isinstance(term, (Sequence, Choice)):
        return type(term)(tuple(map(_stepping, term.items)))
    if isinstance(term, Turns):
        return Turns(_stepping(term.body), term.lo, term.hi)
    if isinstance(term, Ahead):
        return Ahead(term.rest, term.negated, over=True)
    return Behind(term.before, term.negated, term.asks, over=True) if isinstance(term, Behind) else term


class Over(Expr):
    """``body`` with the byte *here* once, somewhere in its texts."""

    __slots__ = ("body",)
    fields = ("body",)
    body: Expr

    def derive(self, byte: int) -> Expr:
        return self.body if byte == HERE else _over(self.body.derive(byte))

    def byte_class(self, byte: int) -> int:
        return 1 << HERE if byte == HERE else self.body.byte_class(byte) & ~(1 << HERE)

    def __repr__(self) -> str:
        return f"Over({self.body!r})"


def _over(body: Expr) -> Expr:
    if body is NEVER or body is ALL:
        return body
    made: Expr = _intern(Over, (body,), True, ())
    return made


Env = dict[Expr, Expr]
"""Tracker as written -> its derivative by the text so far."""


class Chain(Expr):
    __slots__ = ("env", "items")
    fields = ("env", "items")
    items: tuple[Term, ...]
    env: tuple[tuple[Expr, Expr], ...]

    def derive(self, byte: int) -> Expr:
        env = dict(self.env)
        head, rest = self.items[0], self.items[1:]
        return alt(_consume(head, rest, env, byte), _skip(head, rest, env).derive(byte))

    def byte_class(self, byte: int) -> int:
        env = dict(self.env)
        head, rest = self.items[0], self.items[1:]
        mask = _first(head, env, byte) & _skip(head, rest, env).byte_class(byte)
        for tracker in env.values():
            mask &= tracker.byte_class(byte)
        return mask

    def __repr__(self) -> str:
        return f"Chain({', '.join(map(repr, self.items))})"


def chain(term: Term) -> Expr:
    """The language of the whole texts that ``term`` matches."""
    trackers = term.trackers if isinstance(term, _Term) else ()
    return _chain((term,), {tracker: tracker for tracker in trackers})


def _chain(items: tuple[Term, ...], env: Env) -> Expr:
    """The rests of text that ``items`` match one after the other. Lookaround and choices in front are
    settled at once."""
    conditions: list[Expr] = []
    while items:
        head = items[0]
        if isinstance(head, Sequence):
            items = head.items + items[1:]
        elif isinstance(head, (Ahead, Behind)):
            conditions.append(_condition(head, env))
            if conditions[-1] is NEVER:
                return NEVER
            items = items[1:]
        elif head is EPSILON:
            items = items[1:]
        else:
            break
    return both(*conditions, _settled(items, env))


def _settled(items: tuple[Term, ...], env: Env) -> Expr:
    if NEVER in items:
        return NEVER
    if all(isinstance(item, Expr) for item in items):
        return seq(*[item for item in items if isinstance(item, Expr)])
    head, rest = items[0], items[1:]
    if isinstance(head, Choice):
        return alt(*[_chain((item, *rest), env) for item in head.items])
    needed: frozenset[Expr] = frozenset()
    for item in items:
        if isinstance(item, _Term):
            needed |= item.trackers
    kept = tuple(sorted(((t, now) for t, now in env.items() if t in needed), key=lambda pair: pair[0].uid))
    outcomes = (0,) if _skip(head, rest, env).nullable else ()
    made: Expr = _intern(Chain, (kept, items), True, outcomes)
    return made


def _condition(term: Term, env: Env) -> Expr:
    """The rests of text in front of which ``term`` matches the empty text."""
    if isinstance(term, Expr):
        return ALL if term.nullable else NEVER
    if isinstance(term, Ahead):
        rest = _chain((term.rest,), env)
        rest = neg(rest) if term.negated else rest
        return _over(rest) if term.over else rest
    if isinstance(term, Behind):
        if not term.asks:
            return ALL if env[term.before].nullable is not term.negated else NEVER
        rest = env[term.before].derive(HERE)
        rest = neg(rest) if term.negated else rest
        return _over(rest) if term.over else rest
    if isinstance(term, Sequence):
        return both(*[_condition(item, env) for item in term.items])
    if isinstance(term, Choice):
        return alt(*[_condition(item, env) for item in term.items])
    assert isinstance(term, Turns)
    return ALL if term.lo == 0 else _condition(term.body, env)


def _skip(head: Term, rest: tuple[Term, ...], env: Env) -> Expr:
    """The chain where ``head`` matches the empty text."""
    condition = _condition(head, env)
    return NEVER if condition is NEVER else both(condition, _chain(rest, env))


def _consume(term: Term, rest: tuple[Term, ...], env: Env, byte: int) -> Expr:
    """The derivative of the chain ``term, *rest`` where ``term`` takes the byte."""
    if isinstance(term, Expr):
        left = term.derive(byte)
        if left is NEVER:
            return NEVER
        return _chain((left, *rest), {tracker: now.derive(byte) for tracker, now in env.items()})
    if isinstance(term, Sequence):
        found = []
        for i, item in enumerate(term.items):
            empty = [_condition(before, env) for before in term.items[:i]]
            if NEVER in empty:
                break
            taken = _consume(item, term.items[i + 1 :] + rest, env, byte)
            found.append(both(taken, *[condition.derive(byte) for condition in empty]))
        return alt(*found)
    if isinstance(term, Choice):
        return alt(*[_consume(item, rest, env, byte) for item in term.items])
    if isinstance(term, Turns):
        return _consume_turn(term, rest, env, byte)
    return NEVER


def _consume_turn(term: Turns, rest: tuple[Term, ...], env: Env, byte: int) -> Expr:
    lo, hi = term.lo, term.hi
    if hi == 0:
        return NEVER
    after = Turns(term.body, max(lo - 1, 0), None if hi is None else hi - 1)
    found = _consume(term.body, (after, *rest), env, byte)
    if lo < 2 or (hi is not None and hi < 2):
        return found
    # Empty turns may come first, as many as `lo` still asks for.
    empty = _condition(term.body, env)
    if empty is NEVER:
        return found
    after = Turns(term.body, 0, None if hi is None else hi - 2)
    return alt(found, both(empty.derive(byte), _consume(term.body, (after, *rest), env, byte)))


def _first(term: Term, env: Env, byte: int) -> int:
    """Bytes that ``_consume`` does not tell from ``byte``."""
    if isinstance(term, Expr):
        return term.byte_class(byte)
    mask = ALL_BYTES
    if isinstance(term, Sequence):
        for item in term.items:
            mask &= _first(item, env, byte)
            empty = _condition(item, env)
            if empty is NEVER:
                break
            mask &= empty.byte_class(byte)
    elif isinstance(term, Choice):
        for item in term.items:
            mask &= _first(item, env, byte)
    elif isinstance(term, Turns):
        mask = _first(term.body, env, byte) & _condition(term.body, env).byte_class(byte)
    return mask
