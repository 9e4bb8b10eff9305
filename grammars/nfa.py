"""The NFAs of a grammar's terminals, in the order in which a backtracking matcher would try their branches.

Nodes are numbers. What a node can do next without reading is asked with ``raw``: characters that it may read and ends
that it may reach, first choice first, each with what it demands of the next character and the lookaheads passed.
Looking behind needs the class of the character before (see ``classes``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from structgen.errors import GrammarTooComplex, UnsupportedGrammar
from structgen.grammars import regex
from structgen.grammars.charset import ANY, EMPTY, NEWLINE, CharSet

MAX_NODES = 400_000
ACCEPT = -1
"""The "terminal" at the end of a lookahead."""
_NONE: frozenset[int] = frozenset()

_sets: dict[CharSet, CharSet] = {ANY: ANY, EMPTY: EMPTY}


def same(chars: CharSet) -> CharSet:
    """The one object for equal sets: comparing the hundreds of ranges of ``\\w`` costs more than all else here."""
    if len(_sets) > 1 << 16:
        _sets.clear()
        _sets.update({ANY: ANY, EMPTY: EMPTY})
    return _sets.setdefault(chars, chars)


@lru_cache(maxsize=1 << 16)
def meet(a: CharSet, b: CharSet) -> CharSet:
    """The intersection."""
    if a is b or b is ANY:
        return a
    if a is ANY:
        return b
    found = []
    i = j = 0
    while i < len(a.ranges) and j < len(b.ranges):
        (a_lo, a_hi), (b_lo, b_hi) = a.ranges[i], b.ranges[j]
        if a_lo <= b_hi and b_lo <= a_hi:
            found.append((max(a_lo, b_lo), min(a_hi, b_hi)))
        if a_hi < b_hi:
            i += 1
        else:
            j += 1
    return same(CharSet(found))


@lru_cache(maxsize=1 << 12)
def _other(chars: CharSet) -> CharSet:
    return same(~chars)


def minus(a: CharSet, b: CharSet) -> CharSet:
    return meet(a, _other(b))


@lru_cache(maxsize=4096)
def samples(sets: frozenset[CharSet]) -> tuple[bytes, ...]:
    """One character, in UTF-8, of each part into which the sets divide their union."""
    bounds = sorted({bound for chars in sets for lo, hi in chars.ranges for bound in (lo, hi + 1)})
    found: dict[tuple[bool, ...], bytes] = {}
    for lo, hi in pairwise(bounds):
        kind = tuple(lo in chars for chars in sets)
        if any(kind) and kind not in found:
            code = lo if not 0xD800 <= lo <= 0xDFFF else 0xE000
            if code < hi:
                found[kind] = chr(code).encode()
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class _Chars:
    chars: CharSet
    next: int


@dataclass(frozen=True, slots=True)
class _Fork:
    branches: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Loop:
    """One more turn of ``body`` or ``out``. Turns of one repeat share ``id``: a turn that read nothing is
    the last one, as in ``re``."""

    id: int
    body: int
    out: int
    lazy: bool


@dataclass(frozen=True, slots=True)
class _End:
    terminal: int


@dataclass(frozen=True, slots=True)
class _Behind:
    """The character before is (not) one of ``chars``; at the start of the text there is none."""

    chars: CharSet
    negated: bool
    next: int


@dataclass(frozen=True, slots=True)
class _Start:
    next: int


@dataclass(frozen=True, slots=True)
class _Next:
    """The next character is one of ``chars``, or the text ends and ``end`` is true."""

    chars: CharSet
    end: bool
    next: int


@dataclass(frozen=True, slots=True)
class _Ahead:
    body: int
    negated: bool
    next: int


_Node = _Chars | _Fork | _Loop | _End | _Behind | _Start | _Next | _Ahead


class Raw(NamedTuple):
    """What the NFA can do next from a node. ``terminal`` is None for a character."""

    terminal: int | None
    node: int
    behind: int
    chars: CharSet
    end: bool
    aheads: tuple[tuple[bool, int], ...]


class Nfa:
    """The NFAs of all terminals of a grammar.

    Args:
        patterns: the syntax tree of each terminal; terminal ``i`` has number ``i + 1``.
        names: how to name each in errors.

    Attributes:
        starts: first node of each terminal.
        owner: terminal of each node.
        classes: the sets of characters that no lookbehind tells apart.
        at_start: the number of the class "no character before".
    """

    def __init__(self, patterns: Sequence[regex.Node], names: Sequence[str]) -> None:
        self.names = names
        self.nodes: list[_Node] = []
        self.owner: list[int] = []
        self._loops = 0
        self._behind_sets: dict[CharSet, None] = {}
        self._anchored = False
        self._sure: dict[tuple[int, int], bool] = {}
        self._raws: dict[tuple[int, int], tuple[Raw, ...]] = {}
        self.starts = [-1]
        for terminal, tree in enumerate(patterns, 1):
            self._terminal = terminal
            self.starts.append(self._compile(tree, self._add(_End(terminal))))
        self.classes = self._partition()
        self.at_start = len(self.classes) if self._behind_sets or self._anchored else 0

    def is_sure(self, node: int, behind: int) -> bool:
        """Whether a thread that goes on at ``node`` can reach the end of its terminal by itself, lookaheads for more
        than one character left aside."""
        known = self._sure.get((node, behind))
        if known is not None:
            return known
        came: dict[tuple[int, int], tuple[int, int] | None] = {(node, behind): None}
        queue = [(node, behind)]
        for at in queue:
            for raw in self.raw(*at):
                if raw.aheads:
                    continue
                after = (raw.node, raw.behind)
                if raw.terminal is not None or self._sure.get(after):
                    step: tuple[int, int] | None = at
                    while step is not None:
                        self._sure[step] = True
                        step = came[step]
                    return True
                if after not in came:
                    came[after] = at
                    queue.append(after)
        for at in came:
            self._sure[at] = False
        return False

    def first(self, terminal: int) -> CharSet:
        """The characters with which a terminal can begin."""
        union = EMPTY
        for behind in range(self.at_start + 1):
            for raw in self.raw(self.starts[terminal], behind):
                union |= raw.chars
        return union

    def forbidden(self, terminal: int) -> CharSet:
        """At least the characters that a terminal of its own may forbid as the next one where it ends: those with
        which it would go on, and those that a lookahead excludes."""
        union = EMPTY
        ends = {
            (node.next, behind)
            for node, owner in zip(self.nodes, self.owner, strict=True)
            if owner == terminal and isinstance(node, _Chars)
            for behind, part in enumerate(self.classes)
            if len(self.classes) == 1 or meet(node.chars, part)
        }
        for node, behind in ends:
            above = EMPTY
            for raw in self.raw(node, behind):
                if raw.terminal is None:
                    above |= raw.chars
                elif raw.terminal == terminal:
                    union |= ANY if raw.aheads else above | ~raw.chars
        return union

    def _add(self, node: _Node) -> int:
        if len(self.nodes) >= MAX_NODES:
            raise GrammarTooComplex(
                f"terminal {self.names[self._terminal - 1]}: the grammar's terminals need more than {MAX_NODES} "
                "places; lower its counted repeats"
            )
        self.nodes.append(node)
        self.owner.append(self._terminal)
        return len(self.nodes) - 1

    def _compile(self, tree: regex.Node, next: int) -> int:
        """The node that matches ``tree`` and then goes on at ``next``."""
        if isinstance(tree, regex.Empty):
            return next
        if isinstance(tree, regex.Chars):
            return self._add(_Chars(same(tree.chars), next))
        if isinstance(tree, regex.Concat):
            for item in reversed(tree.items):
                next = self._compile(item, next)
            return next
        if isinstance(tree, regex.Alternate):
            return self._add(_Fork(tuple(self._compile(item, next) for item in _factored(tree.items))))
        if isinstance(tree, regex.Repeat):
            return self._repeat(tree, next)
        if isinstance(tree, regex.Anchor):
            return self._anchor(tree.kind, next)
        assert isinstance(tree, regex.Look)
        if tree.behind:
            chars = _one_char(tree.body)
            if chars is None:
                raise UnsupportedGrammar(
                    f"terminal {self.names[self._terminal - 1]}: a lookbehind for more than one character class is "
                    "not built yet; look behind for one character"
                )
            chars = same(chars)
            self._behind_sets[chars] = None
            return self._add(_Behind(chars, tree.negated, next))
        chars = _one_char(tree.body)
        if chars is not None:
            return self._add(_Next(_other(chars) if tree.negated else same(chars), tree.negated, next))
        return self._add(_Ahead(self._compile(tree.body, self._add(_End(ACCEPT))), tree.negated, next))

    def _repeat(self, tree: regex.Repeat, next: int) -> int:
        self._loops += 1
        id = self._loops
        if tree.hi is None:
            at = self._add(_Loop(id, -1, next, tree.lazy))
            self.nodes[at] = _Loop(id, self._compile(tree.body, at), next, tree.lazy)
        else:
            at = next
            for _ in range(tree.hi - tree.lo):
                at = self._add(_Loop(id, self._compile(tree.body, at), next, tree.lazy))
        for _ in range(tree.lo):
            at = self._compile(tree.body, at)
        return at

    def _anchor(self, kind: str, next: int) -> int:
        if kind == "end":
            return self._add(_Next(EMPTY, True, next))
        if kind == "line_end":
            return self._add(_Next(NEWLINE, True, next))
        if kind == "end_nl":
            at_end = self._add(_Next(EMPTY, True, next))
            last = self._add(_Next(EMPTY, True, self._add(_End(ACCEPT))))
            return self._add(_Fork((at_end, self._add(_Ahead(self._add(_Chars(NEWLINE, last)), False, next)))))
        self._anchored = True
        start = self._add(_Start(next))
        if kind == "start":
            return start
        self._behind_sets[NEWLINE] = None
        return self._add(_Fork((start, self._add(_Behind(NEWLINE, False, next)))))

    def _partition(self) -> list[CharSet]:
        """Characters that no lookbehind tells apart."""
        classes = [ANY]
        for chars in self._behind_sets:
            classes = [part for each in classes for part in (meet(each, chars), minus(each, chars)) if part]
        return classes

    def raw(self, start: int, behind: int) -> tuple[Raw, ...]:
        """Everything reachable from a node without reading, in the order in which ``re`` would try it."""
        key = (start, behind)
        known = self._raws.get(key)
        if known is not None:
            return known
        found: list[Raw] = []
        seen: set[tuple[object, ...]] = set()
        covered: dict[int, CharSet] = {}
        stack: list[tuple[int, frozenset[int], CharSet, bool, tuple[tuple[bool, int], ...]]]
        stack = [(start, _NONE, ANY, True, ())]
        while stack:
            entry = stack.pop()
            if entry in seen:
                continue
            seen.add(entry)
            at, turns, chars, end, aheads = entry
            node = self.nodes[at]
            if isinstance(node, _Chars):
                here = node.chars if chars is ANY else meet(node.chars, chars)
                if not aheads and at in covered:
                    here = minus(here, covered[at])
                if not here:
                    continue
                if not aheads:
                    covered[at] = covered[at] | here if at in covered else here
                if len(self.classes) == 1:
                    found.append(Raw(None, node.next, 0, here, False, aheads))
                else:
                    parts = [(k, meet(here, part)) for k, part in enumerate(self.classes)]
                    found += [Raw(None, node.next, k, part, False, aheads) for k, part in parts if part]
            elif isinstance(node, _Fork):
                stack += [(branch, turns, chars, end, aheads) for branch in reversed(node.branches)]
            elif isinstance(node, _Loop):
                out = (node.out, turns, chars, end, aheads)
                if node.id in turns:
                    stack.append(out)
                else:
                    body = (node.body, turns | {node.id}, chars, end, aheads)
                    stack += [body, out] if node.lazy else [out, body]
            elif isinstance(node, _End):
                found.append(Raw(node.terminal, -1, behind, chars, end, aheads))
            elif isinstance(node, _Start):
                if behind == self.at_start:
                    stack.append((node.next, turns, chars, end, aheads))
            elif isinstance(node, _Behind):
                holds = behind != self.at_start and bool(meet(self.classes[behind], node.chars))
                if holds != node.negated:
                    stack.append((node.next, turns, chars, end, aheads))
            elif isinstance(node, _Next):
                chars, end = meet(chars, node.chars), end and node.end
                if chars or end:
                    stack.append((node.next, turns, chars, end, aheads))
            else:
                stack.append((node.next, turns, chars, end, (*aheads, (node.negated, node.body))))
        made = self._raws[key] = tuple(found)
        return made


def _one_char(tree: regex.Node) -> CharSet | None:
    """The set, if the tree matches exactly one character out of a set."""
    if isinstance(tree, regex.Chars):
        return tree.chars
    if isinstance(tree, regex.Alternate):
        union = EMPTY
        for item in tree.items:
            chars = _one_char(item)
            if chars is None:
                return None
            union |= chars
        return union
    return None


def _factored(items: Sequence[regex.Node]) -> list[regex.Node]:
    """Neighbouring alternatives with the same first part joined, which keeps their order."""
    if len(items) < 8:
        return list(items)
    groups: list[tuple[regex.Node, list[regex.Node]]] = []
    for item in items:
        parts = item.items if isinstance(item, regex.Concat) else (item,)
        head, tail = parts[0], regex.concat(parts[1:])
        if groups and groups[-1][0] == head and isinstance(head, regex.Chars):
            groups[-1][1].append(tail)
        else:
            groups.append((head, [tail]))
    made = []
    for head, tails in groups:
        rest = tails[0] if len(tails) == 1 else regex.Alternate(tuple(tails))
        made.append(head if isinstance(rest, regex.Empty) else regex.Concat((head, rest)))
    return made
