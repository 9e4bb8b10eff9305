"""Expr: a language of byte strings that can be asked for its derivative.

A terminal of a grammar is an ``Expr``: a regular expression with the boolean operators, over bytes
(front ends write over code points and lower through an ``Encoding``). Expressions are immutable and
interned, so equal ones are the same object and residuals of different grammars meet.

The derivative of L by a byte b is { w : bw in L } (Brzozowski 1964, "Derivatives of Regular
Expressions"). Repetition keeps counters instead of copies, so ``a{0,100000}`` is one node.

Outcomes say *how* a terminal ended: ``Out(3)`` is the empty string with outcome 3, and an expression
that may end here lists its outcomes. A terminal "comma or closing brace" is thus one automaton, and
what follows is chosen by the outcome. A sequence has the outcomes of its last part; plain
expressions end with outcome 0.
"""

from __future__ import annotations

import sys
import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import count
from operator import attrgetter
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from structgen.errors import GrammarTooComplex

ALL_BYTES = (1 << 256) - 1
MAX_ALTERNATIVES = 4096
UNSURE_OUTCOME = -1
"""Outcome of loose expressions (lifted.py) where only the exact one knows how to go on."""
LAST_OUTCOME = -2
"""Outcome of a terminal after which the text ends: no suffixes of tokens are collected behind it."""

_interned: dict[tuple[Any, tuple[Any, ...]], Expr] = {}
_uids = count()


class Expr:
    """Base class. Build with the functions below (``seq``, ``alt``, ...), never directly.

    Attributes:
        outcomes: sorted outcomes with which the empty string is in the language; () if it is not.
        boolean: an intersection or complement occurs inside, so emptiness needs a search.
        uid: unique number, for a deterministic order.
    """

    __slots__ = ("__weakref__", "boolean", "outcomes", "uid")
    fields: ClassVar[tuple[str, ...]] = ()
    """Names of what an expression is made of, in the order of its intern key."""
    outcomes: tuple[int, ...]
    boolean: bool
    uid: int

    @property
    def nullable(self) -> bool:
        return bool(self.outcomes)

    def next_bytes(self, outcome: int) -> int:
        """Bit set of the bytes that may come after a terminal that ends here with ``outcome``, where the outcome
        itself limits them. What follows must enforce it too; this only keeps suffix tries small."""
        return 0 if outcome == LAST_OUTCOME else ALL_BYTES

    def derive(self, byte: int) -> Expr:
        """The derivative by ``byte``; ``NEVER`` when nothing follows."""
        raise NotImplementedError

    def byte_class(self, byte: int) -> int:
        """A 256-bit set of bytes, holding ``byte``, with the same derivative."""
        raise NotImplementedError

    def clamped(self, limit: int) -> Expr:
        """An expression with the same answers for strings of at most ``limit`` bytes, and with
        counters no larger than that; many expressions share one."""
        return self

    def lies_within(self, counter: Rep) -> bool:
        """Whether a counter of characters is known to hold this language: intersections leave it out."""
        return False

    @property
    def remembers(self) -> bool:
        """Texts read so far make so many different expressions that tables should not be filled with them."""
        return False

    def loose(self, tail: Expr) -> Expr | None:
        """Where this expression (followed by ``tail``) remembers: a stand-in without memory, see lifted.py."""
        return None

    def jump(self, text: str) -> Expr | None:
        """What is left after a text with which the loose stand-in surely goes on; None: derive by its bytes."""
        return None

    def sift(self, codes: Any, offsets: Any) -> Any:
        """Which of the texts with which the loose stand-in goes on may really come next (see lifted.py)."""
        return None

    def classes(self) -> Iterator[tuple[int, int]]:
        """Partition of the 256 bytes as pairs (a byte, the set it stands for)."""
        left = ALL_BYTES
        while left:
            byte = (left & -left).bit_length() - 1
            mask = self.byte_class(byte) & left
            yield byte, mask
            left &= ~mask


def _intern(cls: type[Any], key: tuple[Any, ...], boolean: bool, outcomes: tuple[int, ...]) -> Any:
    global _sweep_at
    full = (cls, key)
    found = _interned.get(full)
    if found is not None:
        return found
    if len(_interned) >= _sweep_at:
        _sweep()
    made = object.__new__(cls)
    for name, value in zip(cls.fields, key, strict=True):
        setattr(made, name, value)
    made.boolean, made.outcomes, made.uid = boolean, outcomes, next(_uids)
    _interned[full] = made
    return made


_MIN_SWEEP = 200_000
_sweep_at = _MIN_SWEEP
_sweeping = threading.RLock()


def _sweep() -> None:
    """Forget what nobody else holds. A table of weak references would do so at once, and cost more than all else that
    an expression is made of; so the table is swept whenever it has doubled. Whole expressions stand behind their parts,
    so one pass from behind frees both. (Another thread may take up an expression just as it is freed: then it comes to
    be twice, which costs time and nothing else.)"""
    global _sweep_at
    with _sweeping:
        if len(_interned) < _sweep_at:
            return
        keys = list(_interned)
        while keys:
            full = keys.pop()
            expr = _interned.get(full)
            if expr is not None and sys.getrefcount(expr) <= 3:  # the table, ``expr`` and the argument
                del _interned[full]
        _sweep_at = max(2 * len(_interned), _MIN_SWEEP)


class Never(Expr):
    __slots__ = ()
    fields = ()

    def derive(self, byte: int) -> Expr:
        return self

    def byte_class(self, byte: int) -> int:
        return ALL_BYTES

    def __repr__(self) -> str:
        return "NEVER"


class Out(Expr):
    """The empty string, ending with an outcome."""

    __slots__ = ("outcome",)
    fields = ("outcome",)
    outcome: int

    def derive(self, byte: int) -> Expr:
        return NEVER

    def byte_class(self, byte: int) -> int:
        return ALL_BYTES

    def __repr__(self) -> str:
        return f"Out({self.outcome})"


class Switch(Expr):
    """One byte chooses how to go on: ``cases`` are (lo, hi, rest), sorted and disjoint."""

    __slots__ = ("_table", "cases")
    fields = ("cases",)
    cases: tuple[tuple[int, int, Expr], ...]
    _table: tuple[dict[Expr, int], int]

    def derive(self, byte: int) -> Expr:
        for lo, hi, rest in self.cases:
            if byte <= hi:
                return rest if byte >= lo else NEVER
        return NEVER

    def byte_class(self, byte: int) -> int:
        try:
            masks, dead = self._table
        except AttributeError:
            masks, dead = {}, ALL_BYTES
            for lo, hi, rest in self.cases:
                mask = (1 << (hi + 1)) - (1 << lo)
                masks[rest] = masks.get(rest, 0) | mask
                dead &= ~mask
            self._table = (masks, dead)
        rest = self.derive(byte)
        return dead if rest is NEVER else masks[rest]

    def __repr__(self) -> str:
        inner = ", ".join(f"{lo:02x}-{hi:02x}:{rest!r}" for lo, hi, rest in self.cases[:6])
        return f"Switch({inner}{', ...' if len(self.cases) > 6 else ''})"


class Literal(Expr):
    """Exactly these bytes, then an outcome."""

    __slots__ = ("data", "outcome")
    fields = ("data", "outcome")
    data: bytes
    outcome: int

    def derive(self, byte: int) -> Expr:
        if self.data[0] != byte:
            return NEVER
        return literal(self.data[1:], self.outcome)

    def byte_class(self, byte: int) -> int:
        mask = 1 << self.data[0]
        return mask if self.data[0] == byte else ALL_BYTES & ~mask

    def __repr__(self) -> str:
        return f"Literal({self.data!r}{f', {self.outcome}' if self.outcome else ''})"


class Seq(Expr):
    __slots__ = ("head", "tail")
    fields = ("head", "tail")
    head: Expr
    tail: Expr

    # Loops, not recursion: a sequence may be thousands of parts long.
    def derive(self, byte: int) -> Expr:
        found: list[Expr] = []
        at: Expr = self
        while isinstance(at, Seq):
            left = at.head.derive(byte)
            if left is not NEVER:
                found.append(seq(left, at.tail))
            if not at.head.outcomes:
                return alt(*found)
            at = at.tail
        return alt(*found, at.derive(byte))

    def byte_class(self, byte: int) -> int:
        mask = ALL_BYTES
        at: Expr = self
        while isinstance(at, Seq):
            mask &= at.head.byte_class(byte)
            if not at.head.outcomes:
                return mask
            at = at.tail
        return mask & at.byte_class(byte)

    def clamped(self, limit: int) -> Expr:
        parts: list[Expr] = []
        at: Expr = self
        while isinstance(at, Seq):
            parts.append(at.head.clamped(limit))
            at = at.tail
        return seq(*parts, at.clamped(limit))

    @property
    def remembers(self) -> bool:
        return self.head.remembers

    def loose(self, tail: Expr) -> Expr | None:
        return self.head.loose(seq(self.tail, tail))

    def jump(self, text: str) -> Expr | None:
        head = self.head.jump(text)
        return None if head is None else seq(head, self.tail)

    def sift(self, codes: Any, offsets: Any) -> Any:
        return self.head.sift(codes, offsets)

    def __repr__(self) -> str:
        return f"({self.head!r} {self.tail!r})"


class Alt(Expr):
    __slots__ = ("items",)
    fields = ("items",)
    items: tuple[Expr, ...]

    def derive(self, byte: int) -> Expr:
        return alt(*[item.derive(byte) for item in self.items])

    def byte_class(self, byte: int) -> int:
        mask = ALL_BYTES
        for item in self.items:
            mask &= item.byte_class(byte)
        return mask

    def clamped(self, limit: int) -> Expr:
        return alt(*[item.clamped(limit) for item in self.items])

    def __repr__(self) -> str:
        return "(" + " | ".join(map(repr, self.items)) + ")"


class Rep(Expr):
    """``body`` between ``lo`` and ``hi`` times (``hi`` None: without end)."""

    __slots__ = ("body", "hi", "lo")
    fields = ("body", "lo", "hi")
    body: Expr
    lo: int
    hi: int | None

    def derive(self, byte: int) -> Expr:
        left = self.body.derive(byte)
        if left is NEVER:
            return NEVER
        return seq(left, rep(self.body, max(self.lo - 1, 0), None if self.hi is None else self.hi - 1))

    def byte_class(self, byte: int) -> int:
        return self.body.byte_class(byte)

    def clamped(self, limit: int) -> Expr:
        # Each turn takes at least one byte, so `limit` bytes cannot tell larger counters apart.
        # An intersection could (two large counters may contradict each other): keep those exact.
        if self.boolean:
            return self
        hi = None if self.hi is None else min(self.hi, limit + 2)
        return rep(self.body.clamped(limit), min(self.lo, limit + 1), hi)

    def __repr__(self) -> str:
        return f"{self.body!r}{{{self.lo},{'' if self.hi is None else self.hi}}}"


MAX_DERIVED = 1 << 17
_derivatives: dict[tuple[Expr, int], Expr] = {}


def _derived(expr: Expr, byte: int) -> Expr:
    """``expr.derive(byte)``, remembered for a while: the states of an intersection are many, those of its parts few."""
    key = (expr, byte)
    found = _derivatives.get(key)
    if found is None:
        if len(_derivatives) > MAX_DERIVED:
            _derivatives.clear()
        found = _derivatives[key] = expr.derive(byte)
    return found


class And(Expr):
    __slots__ = ("items",)
    fields = ("items",)
    items: tuple[Expr, ...]

    def derive(self, byte: int) -> Expr:
        return both(*[_derived(item, byte) for item in self.items])

    def byte_class(self, byte: int) -> int:
        mask = ALL_BYTES
        for item in self.items:
            mask &= item.byte_class(byte)
        return mask

    def __repr__(self) -> str:
        return "(" + " & ".join(map(repr, self.items)) + ")"


class Not(Expr):
    __slots__ = ("body",)
    fields = ("body",)
    body: Expr

    def derive(self, byte: int) -> Expr:
        return neg(self.body.derive(byte))

    def byte_class(self, byte: int) -> int:
        return self.body.byte_class(byte)

    def __repr__(self) -> str:
        return f"~{self.body!r}"


class Tagged(Expr):
    """``body``, whose outcome is a bit set saying which of ``tags`` match the same bytes."""

    __slots__ = ("body", "tags")
    fields = ("body", "tags")
    body: Expr
    tags: tuple[Expr, ...]

    def derive(self, byte: int) -> Expr:
        return tagged(self.body.derive(byte), [tag.derive(byte) for tag in self.tags])

    def byte_class(self, byte: int) -> int:
        mask = self.body.byte_class(byte)
        for tag in self.tags:
            mask &= tag.byte_class(byte)
        return mask

    def __repr__(self) -> str:
        return f"Tagged({self.body!r}, {self.tags!r})"


class Words(Expr):
    """A set of words, each with its outcome: what is left of them. ``encoding`` says how a character may be
    spelled, ``partial`` is the part of a spelling already read, and ``tail`` is what closes each word (a quote,
    or nothing)."""

    __slots__ = ("_next", "encoding", "node", "partial", "tail")
    fields = ("node", "encoding", "partial", "tail")
    node: WordNode
    encoding: Any
    partial: bytes
    tail: bytes
    _next: tuple[dict[int, Expr], int]

    def _successors(self) -> tuple[dict[int, Expr], int]:
        """byte -> next expression, and the set of bytes that are dead."""
        try:
            return self._next
        except AttributeError:
            pass
        n = len(self.partial)
        nexts: dict[int, Expr] = {}
        node = self.node
        for char in node.chars():
            for spelling in self.encoding.spellings(char):
                if spelling[:n] == self.partial and len(spelling) > n:
                    byte = spelling[n]
                    if len(spelling) == n + 1:
                        nexts[byte] = _words(node.child(char), self.encoding, b"", self.tail)
                    elif byte not in nexts:
                        nexts[byte] = _words(node, self.encoding, spelling[: n + 1], self.tail)
        if not n and node.outcome is not None and self.tail:
            nexts[self.tail[0]] = literal(self.tail[1:], node.outcome)
        dead = ALL_BYTES
        for byte in nexts:
            dead &= ~(1 << byte)
        self._next = (nexts, dead)
        return self._next

    def derive(self, byte: int) -> Expr:
        # Most bytes are characters: one child is found without a look at the others.
        if byte < 0x80 and not self.partial:
            spellings = self.encoding.spellings(chr(byte))
            if spellings and spellings[0] == bytes((byte,)):
                child = self.node.child(chr(byte))
                return NEVER if child is None else _words(child, self.encoding, b"", self.tail)
            if byte == 0x22 and self.tail == b'"':
                return NEVER if self.node.outcome is None else out(self.node.outcome)
        return self._successors()[0].get(byte, NEVER)

    def byte_class(self, byte: int) -> int:
        nexts, dead = self._successors()
        return 1 << byte if byte in nexts else dead

    def __repr__(self) -> str:
        return f"Words({self.node.sample()!r}, {self.partial!r})"


class WordNode:
    """Sorted words with their outcomes. Equal ones are the same object, so that sets of keys with the same rest meet in
    the same residual.

    Attributes:
        items: the words.
        outcome: of the empty word, None if it is not one of them.
    """

    __slots__ = ("__weakref__", "_chars", "_children", "flats", "items", "outcome")

    def __init__(self, items: tuple[tuple[str, int], ...]) -> None:
        self.items = items
        self.flats: dict[Any, Any] = {}  # by encoding, for ``split``
        self.outcome = None if items[0][0] else items[0][1]
        self._chars: tuple[str, ...] | None = None
        self._children: dict[str, WordNode | None] = {}

    def chars(self) -> tuple[str, ...]:
        """The first characters."""
        if self._chars is None:
            self._chars = tuple(dict.fromkeys(text[0] for text, _ in self.items if text))
        return self._chars

    def child(self, char: str) -> WordNode | None:
        """What is left of the words that begin with ``char``."""
        try:
            return self._children[char]
        except KeyError:
            pass
        lo, hi = 0, len(self.items)
        if hi > 8:
            lo = bisect_left(self.items, (char,))
            hi = bisect_left(self.items, (chr(ord(char) + 1),), lo) if char < "\U0010ffff" else hi
        found = tuple([(text[1:], outcome) for text, outcome in self.items[lo:hi] if text[:1] == char])
        made = self._children[char] = word_node(found) if found else None
        return made

    @property
    def children(self) -> dict[str, WordNode]:
        """All children, by their first character."""
        return {char: child for char in self.chars() if (child := self.child(char)) is not None}

    def sample(self) -> str:
        return self.items[0][0]


_word_nodes: WeakValueDictionary[tuple[tuple[str, int], ...], WordNode] = WeakValueDictionary()


def word_node(items: tuple[tuple[str, int], ...]) -> WordNode:
    """The node of these words, which are sorted and distinct."""
    found = _word_nodes.get(items)
    if found is None:
        found = _word_nodes[items] = WordNode(items)
    return found


NEVER: Expr = _intern(Never, (), False, ())
_keep: list[Expr] = [NEVER]  # the intern table is weak


def out(outcome: int) -> Expr:
    """The empty string, ending with ``outcome``."""
    made: Expr = _intern(Out, (outcome,), False, (outcome,))
    return made


EPSILON: Expr = out(0)


def literal(data: bytes, outcome: int = 0) -> Expr:
    """Exactly ``data``."""
    if not data:
        return out(outcome)
    made: Expr = _intern(Literal, (data, outcome), False, ())
    return made


def switch(cases: Iterable[tuple[int, int, Expr]]) -> Expr:
    """One byte in ``lo..hi``, then the rest; ranges must not overlap. Neighbours with the same rest are
    joined."""
    joined: list[tuple[int, int, Expr]] = []
    for lo, hi, rest in sorted(cases, key=lambda case: case[0]):
        if rest is NEVER:
            continue
        if joined and joined[-1][1] + 1 == lo and joined[-1][2] is rest:
            joined[-1] = (joined[-1][0], hi, rest)
        else:
            joined.append((lo, hi, rest))
    if not joined:
        return NEVER
    boolean = any(rest.boolean for _, _, rest in joined)
    made: Expr = _intern(Switch, (tuple(joined),), boolean, ())
    return made


def byte_set(data: Iterable[int]) -> Expr:
    """One byte out of ``data``."""
    return switch([(b, b, EPSILON) for b in set(data)])


def seq(*parts: Expr) -> Expr:
    """One after the other. The outcome is that of the last part."""
    made = EPSILON
    for i, part in enumerate(reversed(parts)):
        made = part if i == 0 else _pair(part, made)
    return made


def _pair(head: Expr, tail: Expr) -> Expr:
    if head is NEVER or tail is NEVER:
        return NEVER
    if isinstance(head, Out):
        return tail
    if tail is EPSILON and head.outcomes in ((), (0,)) and not isinstance(head, (Words, Literal, Switch, Tagged)):
        return head
    if isinstance(head, Seq):
        parts: list[Expr] = []
        at: Expr = head
        while isinstance(at, Seq):
            parts.append(at.head)
            at = at.tail
        tail = _pair(at, tail)
        for part in reversed(parts):
            tail = _pair(part, tail)
        return tail
    if isinstance(head, Literal) and isinstance(tail, Literal):
        return literal(head.data + tail.data, tail.outcome)
    outcomes = tail.outcomes if head.outcomes else ()
    made: Expr = _intern(Seq, (head, tail), head.boolean or tail.boolean, outcomes)
    return made


_by_uid = attrgetter("uid")


def alt(*items: Expr) -> Expr:
    """Any of them."""
    flat: set[Expr] = set()
    for item in items:
        if isinstance(item, Alt):
            flat.update(item.items)
        elif item is not NEVER:
            flat.add(item)
    if len(flat) > 1:
        if ALL in flat:
            return ALL
        flat = _join_counters(flat)
    if not flat:
        return NEVER
    if len(flat) == 1:
        return next(iter(flat))
    if len(flat) > MAX_ALTERNATIVES:
        raise GrammarTooComplex(
            f"a regular expression needs more than {MAX_ALTERNATIVES} alternatives at once; "
            "simplify nested repetitions"
        )
    outcomes = tuple(sorted({o for item in flat for o in item.outcomes}))
    ordered = tuple(sorted(flat, key=_by_uid))
    made: Expr = _intern(Alt, (ordered,), any(i.boolean for i in ordered), outcomes)
    return made


_Spans = tuple[tuple[int, float], ...]
COUNTERS_SEEN = 6
"""Parts from the front in which counters of alternatives are compared."""
MAX_COMPARED = 128


def _join_counters(items: set[Expr]) -> set[Expr]:
    """x{2,4}y | x{3,9}y  ->  x{2,9}y, and x{1,4}y{0,9} | x{2,3}y{0,8}  ->  x{1,4}y{0,9}: without this, counters
    inside alternatives multiply."""
    groups: dict[tuple[Expr, ...], dict[_Spans, Expr]] = {}
    for item in items:
        if isinstance(item, (Seq, Rep)):
            key, spans = _counters(item)
            if spans:
                groups.setdefault(key, {})[spans] = item
    kept: set[Expr] | None = None
    for key, group in groups.items():
        if len(group) < 2:
            continue
        joined = _joined(sorted(group))
        if len(joined) < len(group):
            kept = set(items) if kept is None else kept
            kept.difference_update(group.values())
            kept.update(group[spans] if spans in group else _counted(key, spans) for spans in joined)
    return items if kept is None else kept


def _counters(item: Expr) -> tuple[tuple[Expr, ...], _Spans]:
    """The sequence without the bounds of its first repeats (each is told from its body by NEVER before it), and those
    bounds."""
    key: list[Expr] = []
    spans: list[tuple[int, float]] = []
    at = item
    for _ in range(COUNTERS_SEEN):
        head = at.head if isinstance(at, Seq) else at
        if isinstance(head, Rep):
            key += [NEVER, head.body]
            spans.append((head.lo, float("inf") if head.hi is None else head.hi))
        else:
            key.append(head)
        if not isinstance(at, Seq):
            return tuple(key), tuple(spans)
        at = at.tail
    return (*key, at), tuple(spans)


def _counted(key: tuple[Expr, ...], spans: _Spans) -> Expr:
    """The sequence that ``_counters`` took apart."""
    parts: list[Expr] = []
    bounds = iter(spans)
    left = iter(key)
    for part in left:
        if part is NEVER:
            lo, hi = next(bounds)
            parts.append(rep(next(left), lo, None if hi == float("inf") else int(hi)))
        else:
            parts.append(part)
    return seq(*parts)


def _joined(group: list[_Spans]) -> list[_Spans]:
    """The same union of products of ranges, with fewer members."""
    if len(group[0]) == 1 or len(group) > MAX_COMPARED:
        return _joined_neighbours(group)
    kept: list[_Spans] = []
    for spans in group:
        at = 0
        while at < len(kept):
            union = _union(kept[at], spans)
            if union is None:
                at += 1
            else:  # a wider one may join with others
                spans = union
                del kept[at]
                at = 0
        kept.append(spans)
    return kept


def _joined_neighbours(group: list[_Spans]) -> list[_Spans]:
    kept = [group[0]]
    for spans in group[1:]:
        union = _union(kept[-1], spans)
        if union is None:
            kept.append(spans)
        else:
            kept[-1] = union
    return kept


def _union(a: _Spans, b: _Spans) -> _Spans | None:
    """The union of two products of ranges where it is one: one holds the other, or they differ in one range."""
    apart = [i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y]
    if len(apart) == 1:
        (a_lo, a_hi), (b_lo, b_hi) = a[apart[0]], b[apart[0]]
        if b_lo > a_hi + 1 or a_lo > b_hi + 1:
            return None
        return (*a[: apart[0]], (min(a_lo, b_lo), max(a_hi, b_hi)), *a[apart[0] + 1 :])
    if all(a[i][0] <= b[i][0] and a[i][1] >= b[i][1] for i in apart):
        return a
    return b if all(b[i][0] <= a[i][0] and b[i][1] >= a[i][1] for i in apart) else None


def rep(body: Expr, lo: int = 0, hi: int | None = None) -> Expr:
    """``body`` at least ``lo`` and at most ``hi`` times (None: without end)."""
    if hi is not None and hi < lo:
        return NEVER
    if hi == 0 or body is EPSILON:
        return EPSILON
    if body is NEVER:
        return EPSILON if lo == 0 else NEVER
    if body.outcomes:
        lo = 0
    if lo == 1 and hi == 1:
        return body
    if isinstance(body, Rep):  # x{a,b}{lo,hi} is x{a*lo,b*hi} where the ranges of b - a for each turn leave no gap
        gap = body.lo - 1 - (0 if lo == 0 else float("inf") if body.hi is None else lo * (body.hi - body.lo))
        if lo == hi or gap <= 0:
            most = None if hi is None or body.hi is None else body.hi * hi
            return rep(body.body, body.lo * lo, most)
    made: Expr = _intern(Rep, (body, lo, hi), body.boolean, (0,) if lo == 0 else ())
    return made


def optional(body: Expr) -> Expr:
    """``body`` or nothing."""
    return alt(EPSILON, body)


def both(*items: Expr) -> Expr:
    """The intersection. It has the outcomes of the operand that has some other than 0, if any."""
    flat: set[Expr] = set()
    for item in items:
        if item is NEVER:
            return NEVER
        if isinstance(item, And):
            flat.update(item.items)
        elif item is not ALL:
            flat.add(item)
    if len(flat) > 1:
        counters = [item for item in flat if isinstance(item, Rep)]
        flat.difference_update([each for each in counters if any(item.lies_within(each) for item in flat)])
    if not flat:
        return ALL
    if len(flat) == 1:
        return next(iter(flat))
    outcomes: tuple[int, ...] = ()
    if all(item.outcomes for item in flat):
        outcomes = max((item.outcomes for item in flat), key=lambda o: (o != (0,), o))
    if all(isinstance(item, Out) for item in flat):
        return out(outcomes[0])
    ordered = tuple(sorted(flat, key=_by_uid))
    made: Expr = _intern(And, (ordered,), True, outcomes)
    return made


def neg(body: Expr) -> Expr:
    """The complement, over all byte strings."""
    if isinstance(body, Not):
        return body.body
    if body is NEVER:
        return ALL
    if body is ALL:
        return NEVER
    made: Expr = _intern(Not, (body,), True, () if body.outcomes else (0,))
    return made


def tagged(body: Expr, tags: Iterable[Expr]) -> Expr:
    """``body``; its outcome is the bit set of the ``tags`` that match the same bytes."""
    tags = tuple(tags)
    if body is NEVER:
        return NEVER
    outcomes: tuple[int, ...] = ()
    if body.outcomes:
        outcomes = (sum(1 << i for i, tag in enumerate(tags) if tag.outcomes),)
        if isinstance(body, Out):
            return out(outcomes[0])
    made: Expr = _intern(Tagged, (body, tags), body.boolean, outcomes)
    return made


def words(items: Mapping[str, int], encoding: Any, tail: bytes = b"") -> Expr:
    """Any of the given texts; the value is the outcome. ``tail`` (at most one byte that begins no
    spelling) closes each."""
    if not items:
        return NEVER
    return _words(word_node(tuple(sorted(items.items()))), encoding, b"", tail)


def _words(node: WordNode | None, encoding: Any, partial: bytes, tail: bytes) -> Expr:
    if node is None:
        return NEVER
    outcomes: tuple[int, ...] = ()
    if not partial and node.outcome is not None:
        if len(node.items) == 1:
            return literal(tail, node.outcome)
        if not tail:
            outcomes = (node.outcome,)
    made: Expr = _intern(Words, (node, encoding, partial, tail), False, outcomes)
    return made


ALL: Expr = _intern(Rep, (switch([(0, 255, EPSILON)]), 0, None), False, (0,))
_keep += [ALL, EPSILON]


@lru_cache(maxsize=4096)
def is_code(expr: Expr) -> bool:
    """Whether it is in plain sight that none of the strings begins another, as the spellings of a character: a
    text is then a sequence of them in one way only."""
    if isinstance(expr, Switch):
        return all(is_code(rest) for _, _, rest in expr.cases)
    if isinstance(expr, Seq):
        return is_code(expr.head) and is_code(expr.tail)
    return isinstance(expr, (Out, Literal))


def is_empty(expr: Expr, fuel: int = 20_000) -> bool:
    """Whether no string at all is in the language. Raises GrammarTooComplex after ``fuel`` derivatives."""
    if not expr.boolean:
        return expr is NEVER
    seen, queue = {expr}, [expr]
    while queue:
        at = queue.pop()
        if at.outcomes:
            return False
        for byte, _ in at.classes():
            fuel -= 1
            left = at.derive(byte)
            if left is not NEVER and not left.boolean:
                return False
            if left is not NEVER and left not in seen:
                seen.add(left)
                queue.append(left)
        if fuel < 0:
            raise GrammarTooComplex("an intersection of regular expressions has too many states to decide "
                                    "whether anything satisfies it (limit: 20,000 derivatives)")
    return True


def matches(expr: Expr, data: bytes) -> bool:
    """Whether ``data`` is in the language, one derivative a byte."""
    for byte in data:
        expr = expr.derive(byte)
        if expr is NEVER:
            return False
    return expr.nullable
