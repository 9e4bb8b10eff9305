"""The syntax tree of a regular expression, over code points.

It keeps what Lark's lexers need and a whole-text language ignores: the order of alternatives and laziness.
Groups leave no trace.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from structgen.grammars.charset import ANY, CharSet


class Node:
    """Base of the syntax tree. Trees are immutable and compare by content."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Empty(Node):
    """The empty text."""


@dataclass(frozen=True, slots=True)
class Chars(Node):
    """One character out of a set (an empty set matches nothing)."""

    chars: CharSet


@dataclass(frozen=True, slots=True)
class Concat(Node):
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alternate(Node):
    """The first that leads to a match wins in ``re``; the order does not matter to a whole-text language."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat(Node):
    """``body`` ``lo`` to ``hi`` times (None: without end); ``lazy`` prefers fewer."""

    body: Node
    lo: int
    hi: int | None
    lazy: bool = False


AnchorKind = Literal["start", "end", "end_nl", "line_start", "line_end"]


@dataclass(frozen=True, slots=True)
class Anchor(Node):
    r"""A place in the text: ``start`` (``\A``), ``end`` (``\Z``), ``end_nl`` (Python's ``$``: the end, or
    before a final newline), ``line_start`` and ``line_end`` (``^`` and ``$`` with MULTILINE)."""

    kind: AnchorKind


@dataclass(frozen=True, slots=True)
class Look(Node):
    r"""Lookahead or lookbehind. ``\b`` and ``\B`` are written with these."""

    body: Node
    behind: bool
    negated: bool


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


def has(node: Node, kinds: type[Node] | tuple[type[Node], ...]) -> bool:
    """Whether a node of these kinds occurs in ``node``, outside of lookaround bodies."""
    queue = [node]
    while queue:
        at = queue.pop()
        if isinstance(at, kinds):
            return True
        if isinstance(at, (Concat, Alternate)):
            queue += at.items
        elif isinstance(at, Repeat):
            queue.append(at.body)
    return False


def depth(node: Node) -> int:
    """How deep the tree is; a leaf has depth 1."""
    deepest, queue = 0, [(node, 1)]
    while queue:
        at, level = queue.pop()
        deepest = max(deepest, level)
        if isinstance(at, (Concat, Alternate)):
            queue += [(item, level + 1) for item in at.items]
        elif isinstance(at, (Repeat, Look)):
            queue.append((at.body, level + 1))
    return deepest


def single(node: Node) -> str:
    """The only character that ``node`` matches, or ""."""
    if isinstance(node, Chars) and len(node.chars) == 1:
        code = node.chars.ranges[0][0]
        return "" if 0xD800 <= code <= 0xDFFF else chr(code)
    return ""


def literal_text(node: Node) -> str | None:
    """The only text that ``node`` matches, or None."""
    if isinstance(node, Empty):
        return ""
    items = node.items if isinstance(node, Concat) else (node,)
    chars = [single(item) for item in items]
    return "".join(chars) if all(chars) else None
