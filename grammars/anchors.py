r"""Anchors taken out of a pattern that describes a whole text.

``resolve`` rewrites a tree so that no ``Anchor`` is left: at every place it is known whether the text can
begin or end there. A part is rewritten under two flags: it begins at the start of the text; it ends at
the end of the text. An anchor holds under its flag and fails without it, so a part matches no less under
a flag than without it, and a part that may be empty hands the flag on to its neighbour:

    xy = x y  |  (x empty) y  |  x (y empty)  |  (both empty)        each under its own flags

Python's ``$`` and MULTILINE anchors become these two and lookaround. Lookaround bodies are settled on their
own: what follows a lookahead's body is any text up to the end, what precedes a lookbehind's is any text
from the start; an anchor at their other side becomes lookaround itself.
"""

from __future__ import annotations

from structgen.grammars.charset import ANY, NEWLINE
from structgen.grammars.pattern import (
    ANY_TEXT,
    EMPTY,
    NOTHING,
    Alternate,
    Anchor,
    Chars,
    Concat,
    Empty,
    Look,
    Node,
    Repeat,
    alternate,
    concat,
    may_be_empty,
    places,
    repeat,
)

_START, _END = Anchor("start"), Anchor("end")
_NEWLINE = Chars(NEWLINE)
_AT_START = Look(Concat((ANY_TEXT, Chars(ANY))), behind=True, negated=True)
_AT_END = Look(Concat((Chars(ANY), ANY_TEXT)), behind=False, negated=True)


def resolve(node: Node) -> Node:
    """``node``, to be matched against a whole text, without anchors. Each lookahead body is extended to the
    end of the text, each lookbehind body to its start."""
    return _Resolver().run(_Settler().settle(node, newline_after=False), True, True)


class _Settler:
    """Writes all anchors with ``start``, ``end`` and lookaround. Parts are shared in the tree; each is written once."""

    def __init__(self) -> None:
        self.memo: dict[tuple[int, bool], tuple[Node, Node]] = {}
        self.begins: dict[int, tuple[Node, bool]] = {}

    def settle(self, node: Node, newline_after: bool) -> Node:
        """``newline_after``: what follows ``node`` may begin with a newline (else Python's ``$`` is just the end)."""
        if not any(places(node)):
            return node
        key = (id(node), newline_after)
        if key not in self.memo:
            self.memo[key] = (node, self._settle(node, newline_after))
        return self.memo[key][1]

    def _settle(self, node: Node, newline_after: bool) -> Node:
        if isinstance(node, Anchor):
            return self._anchor(node, newline_after)
        if isinstance(node, Alternate):
            return alternate([self.settle(item, newline_after) for item in node.items])
        if isinstance(node, Concat):
            found: list[Node] = []
            for item in reversed(node.items):
                found.append(self.settle(item, newline_after))
                newline_after = self.may_begin(item) or (newline_after and may_be_empty(item))
            return concat(reversed(found))
        if isinstance(node, Repeat):
            again = newline_after or self.may_begin(node.body)
            return repeat(self.settle(node.body, again), node.lo, node.hi, node.lazy)
        assert isinstance(node, Look)
        return self._look(node)

    def may_begin(self, node: Node) -> bool:
        """Whether ``node`` may begin with a newline."""
        if isinstance(node, Chars):
            return 10 in node.chars
        found = self.begins.get(id(node))
        if found is None:
            found = self.begins[id(node)] = (node, self._may_begin(node))
        return found[1]

    def _may_begin(self, node: Node) -> bool:
        if isinstance(node, Concat):
            for item in node.items:
                if self.may_begin(item):
                    return True
                if not may_be_empty(item):
                    return False
            return False
        if isinstance(node, Alternate):
            return any(map(self.may_begin, node.items))
        return isinstance(node, Repeat) and self.may_begin(node.body)

    def _anchor(self, node: Anchor, newline_after: bool) -> Node:
        if node.kind == "line_start":
            return Alternate((_START, self._look(Look(_NEWLINE, behind=True, negated=False))))
        if node.kind == "line_end":
            return Alternate((_END, self._look(Look(_NEWLINE, behind=False, negated=False))))
        if node.kind == "end_nl":
            if not newline_after:
                return _END
            return Alternate((_END, self._look(Look(Concat((_NEWLINE, _END)), behind=False, negated=False))))
        return node

    def _look(self, node: Look) -> Look:
        body = self.settle(node.body, newline_after=True)
        if node.behind:
            whole = concat([ANY_TEXT, _replace(body, _END, _AT_END)])
        else:
            whole = concat([_replace(body, _START, _AT_START), ANY_TEXT])
        return Look(_Resolver().run(whole, node.behind, not node.behind), node.behind, node.negated)


def _replace(node: Node, old: Node, new: Node) -> Node:
    if node == old:
        return new
    if not places(node)[0]:
        return node
    if isinstance(node, Concat):
        return concat([_replace(item, old, new) for item in node.items])
    if isinstance(node, Alternate):
        return alternate([_replace(item, old, new) for item in node.items])
    if isinstance(node, Repeat):
        return Repeat(_replace(node.body, old, new), node.lo, node.hi, node.lazy)
    return node


class _Resolver:
    """One run over one tree; nodes are told apart by identity, and kept alive while their ids are keys."""

    def __init__(self) -> None:
        self.memo: dict[tuple[int, int, bool, bool], Node] = {}
        self.kept: list[object] = []

    def run(self, node: Node, start: bool, end: bool) -> Node:
        """What ``node`` matches when it begins at the text's start and ends at its end, as the flags say."""
        if isinstance(node, Anchor):
            return EMPTY if (start if node.kind == "start" else end) else NOTHING
        if not places(node)[0]:
            return node
        key = (id(node), -1, start, end)
        if key not in self.memo:
            self.kept.append(node)
            self.memo[key] = self._run(node, start, end)
        return self.memo[key]

    def _run(self, node: Node, start: bool, end: bool) -> Node:
        if isinstance(node, Alternate):
            return alternate([self.run(item, start, end) for item in node.items])
        if isinstance(node, Repeat):
            return self._repeat(node, start, end)
        assert isinstance(node, Concat)
        return self._concat(node.items, 0, start, end)

    def empty(self, node: Node, start: bool, end: bool) -> Node:
        """The ways in which ``node`` matches the empty text: EMPTY, lookaround, or NOTHING."""
        if isinstance(node, Anchor):
            return self.run(node, start, end)
        if isinstance(node, Concat):
            return concat([self.empty(item, start, end) for item in node.items])
        if isinstance(node, Alternate):
            ways = [self.empty(item, start, end) for item in node.items]
            return EMPTY if EMPTY in ways else alternate(ways)
        if isinstance(node, Repeat):
            return EMPTY if node.lo == 0 else self.empty(node.body, start, end)
        return NOTHING if isinstance(node, Chars) else node

    def _concat(self, items: tuple[Node, ...], at: int, start: bool, end: bool) -> Node:
        key = (id(items), at, start, end)
        if key not in self.memo:
            self.kept.append(items)
            self.memo[key] = self._split(items, at, start, end)
        return self.memo[key]

    def _split(self, items: tuple[Node, ...], at: int, start: bool, end: bool) -> Node:
        after = at
        while after < len(items) and not places(items[after])[0]:
            after += 1
        if after == len(items):
            return concat(items[at:])
        if after > at:  # a run without anchors does not care for flags
            head = concat(items[at:after])
            found = [concat([head, self._concat(items, after, False, end)])]
            if start:
                found.append(concat([self.empty(head, True, False), self._concat(items, after, True, end)]))
            return alternate(found)
        head, after = items[at], at + 1
        if after == len(items):
            return self.run(head, start, end)
        tail = concat(items[after:])
        found = [concat([self.run(head, start, False), self._concat(items, after, False, end)])]
        if start:
            found.append(concat([self.empty(head, True, False), self._concat(items, after, True, end)]))
        if end:
            found.append(concat([self.run(head, start, True), self.empty(tail, False, True)]))
        if start and end:
            found.append(concat([self.empty(head, True, True), self.empty(tail, True, True)]))
        return alternate(found)

    def _repeat(self, node: Repeat, start: bool, end: bool) -> Node:
        """The first turn may begin at the start, the last may end at the end; turns before and after them
        that are empty there count towards ``lo``."""
        body, lo, hi = node.body, node.lo, node.hi
        first, last = self.run(body, start, False), self.run(body, False, end)
        middle, only = self.run(body, False, False), self.run(body, start, end)
        more = None if hi is None else hi - 2
        found: list[Node] = [EMPTY if lo == 0 else self.empty(body, start, end)]
        if lo <= 1:
            found.append(only)
        if more is None or more >= 0:
            found.append(concat([first, _turns(middle, max(lo - 2, 0), more), last]))
            if lo > 1:
                before, behind = self.empty(body, start, False), self.empty(body, False, end)
                found += [concat([before, only]), concat([only, behind])]
                if more is None or more >= 1:
                    turns = [first, _turns(middle, 0, None if more is None else more - 1), last]
                    found += [concat([before, *turns]), concat([*turns, behind])]
        return alternate(found)


def _turns(body: Node, lo: int, hi: int | None) -> Node:
    if body == NOTHING:
        return NOTHING if lo else EMPTY
    return EMPTY if hi == 0 or isinstance(body, Empty) else Repeat(body, lo, hi)
