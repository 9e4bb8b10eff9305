"""The syntax tree of a regular expression, over code points.

It keeps what Lark's lexers need and a whole-text language ignores: the order of alternatives and laziness.
``Group``, ``Backref``, ``Conditional`` and ``Atomic`` occur while a pattern is read; captures.py and atomic.py write
them with the others, so that a finished tree has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Literal

from structgen.grammars.charset import ANY, CharSet


class Node:
    """Base of the syntax tree. Trees are immutable and compare by content; parts may be shared."""

    __slots__ = ("_hash", "_places")
    _hash: int
    _places: tuple[bool, bool]

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            made = hash((type(self).__name__, *[getattr(self, f.name) for f in fields(self)]))  # type: ignore[arg-type]
            object.__setattr__(self, "_hash", made)
            return made


@dataclass(frozen=True, slots=True)
class Empty(Node):
    """The empty text."""

    __hash__ = Node.__hash__


@dataclass(frozen=True, slots=True)
class Chars(Node):
    """One character out of a set (an empty set matches nothing)."""

    chars: CharSet
    __hash__ = Node.__hash__


@dataclass(frozen=True, slots=True)
class Concat(Node):
    items: tuple[Node, ...]
    __hash__ = Node.__hash__


@dataclass(frozen=True, slots=True)
class Alternate(Node):
    """The first that leads to a match wins in ``re``; the order does not matter to a whole-text language."""

    items: tuple[Node, ...]
    __hash__ = Node.__hash__


@dataclass(frozen=True, slots=True)
class Repeat(Node):
    """``body`` ``lo`` to ``hi`` times (None: without end); ``lazy`` prefers fewer."""

    body: Node
    lo: int
    hi: int | None
    lazy: bool = False
    __hash__ = Node.__hash__


AnchorKind = Literal["start", "end", "end_nl", "line_start", "line_end"]


@dataclass(frozen=True, slots=True)
class Anchor(Node):
    r"""A place in the text: ``start`` (``\A``), ``end`` (``\Z``), ``end_nl`` (Python's ``$``: the end, or
    before a final newline), ``line_start`` and ``line_end`` (``^`` and ``$`` with MULTILINE)."""

    kind: AnchorKind
    __hash__ = Node.__hash__


@dataclass(frozen=True, slots=True)
class Look(Node):
    r"""Lookahead or lookbehind. ``\b`` and ``\B`` are written with these."""

    body: Node
    behind: bool
    negated: bool
    __hash__ = Node.__hash__


@dataclass(frozen=True, slots=True)
class Group(Node):
    """A capturing group."""

    index: int
    body: Node
    __hash__ = Node.__hash__


Fold = Literal["", "python", "python_ascii", "ecma", "ecma_unicode"]
"""Which characters are equal: "" only the same; else as IGNORECASE makes them in that dialect."""


@dataclass(frozen=True, slots=True)
class Backref(Node):
    """What the group matched last, once more."""

    index: int
    fold: Fold = ""
    __hash__ = Node.__hash__


@dataclass(frozen=True, slots=True)
class Conditional(Node):
    """``yes`` if the group took part, else ``no``."""

    index: int
    yes: Node
    no: Node
    __hash__ = Node.__hash__


@dataclass(frozen=True, slots=True)
class Atomic(Node):
    """Only the first match of ``body`` at its place counts."""

    body: Node
    __hash__ = Node.__hash__


EMPTY = Empty()
NOTHING = Chars(CharSet(()))
ANY_TEXT = Repeat(Chars(ANY), 0, None)


def concat(items: Iterable[Node]) -> Node:
    flat: list[Node] = []
    for item in items:
        if isinstance(item, Concat):
            flat += item.items
        elif item == NOTHING:
            return NOTHING
        elif not isinstance(item, Empty):
            flat.append(item)
    return EMPTY if not flat else flat[0] if len(flat) == 1 else Concat(tuple(flat))


def alternate(items: Iterable[Node]) -> Node:
    flat: dict[Node, None] = {}
    for item in items:
        for part in item.items if isinstance(item, Alternate) else (item,):
            if part != NOTHING:
                flat[part] = None
    return NOTHING if not flat else next(iter(flat)) if len(flat) == 1 else Alternate(tuple(flat))


def repeat(body: Node, lo: int, hi: int | None, lazy: bool = False) -> Node:
    if hi == 0 or isinstance(body, Empty):
        return EMPTY
    if body == NOTHING:
        return NOTHING if lo else EMPTY
    return body if lo == hi == 1 else Repeat(body, lo, hi, lazy)


def children(node: Node) -> tuple[Node, ...]:
    """The parts of ``node``, bodies of lookaround included."""
    if isinstance(node, (Concat, Alternate)):
        return node.items
    if isinstance(node, (Repeat, Look, Group, Atomic)):
        return (node.body,)
    return (node.yes, node.no) if isinstance(node, Conditional) else ()


def rebuilt(node: Node, change: Callable[[Node], Node]) -> Node:
    """``node`` with each of its parts changed."""
    if isinstance(node, Concat):
        return concat(map(change, node.items))
    if isinstance(node, Alternate):
        return alternate(map(change, node.items))
    if isinstance(node, Repeat):
        return repeat(change(node.body), node.lo, node.hi, node.lazy)
    if isinstance(node, Look):
        return look(change(node.body), node.behind, node.negated)
    if isinstance(node, Group):
        return Group(node.index, change(node.body))
    if isinstance(node, Atomic):
        return Atomic(change(node.body))
    if isinstance(node, Conditional):
        return Conditional(node.index, change(node.yes), change(node.no))
    return node


def look(body: Node, behind: bool, negated: bool) -> Node:
    if body == NOTHING or isinstance(body, Empty):
        return EMPTY if isinstance(body, Empty) is not negated else NOTHING
    return Look(body, behind, negated)


def has(node: Node, kinds: type[Node] | tuple[type[Node], ...]) -> bool:
    """Whether a node of these kinds occurs in ``node``, outside of lookaround bodies."""
    queue, seen = [node], set()
    while queue:
        at = queue.pop()
        if isinstance(at, kinds):
            return True
        if isinstance(at, (Chars, Look)) or id(at) in seen:
            continue
        seen.add(id(at))
        queue += children(at)
    return False


def places(node: Node) -> tuple[bool, bool]:
    """Whether an anchor, and whether a lookaround occurs in ``node``, outside of lookaround bodies."""
    try:
        return node._places
    except AttributeError:
        anchor, look = isinstance(node, Anchor), isinstance(node, Look)
        for part in () if look else children(node):
            inner = places(part)
            anchor, look = anchor or inner[0], look or inner[1]
        object.__setattr__(node, "_places", (anchor, look))
        return (anchor, look)


def depth(node: Node) -> int:
    """How deep the tree is; a leaf has depth 1."""
    level, deep = {id(node): node}, 0
    while level:
        deep += 1
        level = {id(part): part for at in level.values() if not isinstance(at, Chars) for part in children(at)}
    return deep


def single(node: Node) -> str:
    """The only character that ``node`` matches, or ""."""
    if isinstance(node, Chars) and len(node.chars.ranges) == 1:
        code, last = node.chars.ranges[0]
        return "" if code < last or 0xD800 <= code <= 0xDFFF else chr(code)
    return ""


def literal_text(node: Node) -> str | None:
    """The only text that ``node`` matches, or None."""
    if isinstance(node, Empty):
        return ""
    items = node.items if isinstance(node, Concat) else (node,)
    text = ""
    for item in items:
        char = single(item)
        if not char:
            return None
        text += char
    return text


def may_be_empty(node: Node) -> bool:
    """Whether ``node`` can match the empty text at some place. (A backreference counts as one that can.)"""
    if isinstance(node, Concat):
        return all(map(may_be_empty, node.items))
    if isinstance(node, Alternate):
        return any(map(may_be_empty, node.items))
    if isinstance(node, Repeat):
        return node.lo == 0 or may_be_empty(node.body)
    if isinstance(node, (Group, Atomic)):
        return may_be_empty(node.body)
    if isinstance(node, Conditional):
        return may_be_empty(node.yes) or may_be_empty(node.no)
    return not isinstance(node, Chars)


def empty_ways(node: Node) -> Node:
    """How ``node`` matches the empty text: EMPTY (always), lookaround and anchors, or NOTHING."""
    if isinstance(node, Concat):
        return concat(map(empty_ways, node.items))
    if isinstance(node, Alternate):
        ways = [empty_ways(item) for item in node.items]
        return EMPTY if EMPTY in ways else alternate(ways)
    if isinstance(node, Repeat):
        return EMPTY if node.lo == 0 else empty_ways(node.body)
    if isinstance(node, Group):
        return empty_ways(node.body)
    return NOTHING if isinstance(node, Chars) else node


def consuming_ways(node: Node) -> Node | None:
    """How ``node`` matches a text that is not empty; None where that cannot be written."""
    if not may_be_empty(node):
        return node
    if isinstance(node, Alternate):
        ways = [consuming_ways(item) for item in node.items]
        return None if None in ways else alternate(way for way in ways if way is not None)
    if isinstance(node, Concat):
        found: list[Node] = []
        before: Node = EMPTY
        for i, item in enumerate(node.items):
            way = consuming_ways(item)
            if way is None:
                return None
            found.append(concat([before, way, *node.items[i + 1 :]]))
            before = concat([before, empty_ways(item)])
        return alternate(found)
    if isinstance(node, Repeat):
        body = consuming_ways(node.body)
        if body is None or (may_be_empty(node.body) and empty_ways(node.body) != EMPTY):
            return None
        if may_be_empty(node.body):
            return concat([body, repeat(node.body, 0, None if node.hi is None else node.hi - 1, node.lazy)])
        return Repeat(body, 1, node.hi, node.lazy)
    if isinstance(node, Group):
        body = consuming_ways(node.body)
        return body and Group(node.index, body)
    return None if isinstance(node, (Backref, Conditional, Atomic)) else NOTHING


def first_chars(node: Node) -> CharSet:
    """At least the characters with which a text of ``node`` begins."""
    if isinstance(node, Chars):
        return node.chars
    if isinstance(node, Concat):
        union = CharSet(())
        for item in node.items:
            union |= first_chars(item)
            if not may_be_empty(item):
                break
        return union
    if isinstance(node, Alternate):
        return CharSet(r for item in node.items for r in first_chars(item).ranges)
    if isinstance(node, (Repeat, Group, Atomic)):
        return first_chars(node.body)
    return ANY if isinstance(node, (Backref, Conditional)) else CharSet(())
