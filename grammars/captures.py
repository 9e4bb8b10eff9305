r"""Backreferences and conditionals, written out over what their group can match.

A backreference needs memory that an automaton has not; but where the group has finitely many texts, the pattern is a
choice between them: ``(a|b)x\1`` is ``axa|bxb``. ``expand`` walks the tree with the state of one group at a time (not
set, or one of its texts; for a conditional only whether it is set) and gives, for each state in which a part can be
left, the part for that way. Only the smallest part of the tree that holds a group and all its uses is written out.

A matcher's path through the pattern decides what a group holds, and a whole text matches if some path fits: so
states may be split freely, except where the order of paths counts (inside atomic groups and lookaheads whose groups are
used behind them, and in a tree for Lark's lexers). There only what keeps the order is written out.

Two rules differ between dialects (``ecma``): a backreference to a group that is not set fails in Python and
matches nothing in ECMA-262; and each turn of a repeat forgets its groups in ECMA-262 (22.2.2.3.1 RepeatMatcher, which
also ends a turn that is not asked for and reads nothing), while in Python they keep their last text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby

from structgen.errors import GrammarError, GrammarTooComplex, UnsupportedGrammar
from structgen.grammars import atomic, unicode
from structgen.grammars.charset import CharSet
from structgen.grammars.pattern import (
    EMPTY,
    NOTHING,
    Alternate,
    Anchor,
    Atomic,
    Backref,
    Chars,
    Concat,
    Conditional,
    Empty,
    Fold,
    Group,
    Look,
    Node,
    Repeat,
    alternate,
    children,
    concat,
    consuming_ways,
    empty_ways,
    has,
    look,
    rebuilt,
    repeat,
)

MAX_TEXTS = 1000
MAX_LENGTH = 5000
MAX_PARTS = 20_000
_SURROGATES = CharSet([(0xD800, 0xDFFF)])

Text = tuple[CharSet, ...]
"""A text of a group: its characters, each as the set of those that its backreferences do not tell apart."""


class Held:
    """A text that the group holds; one object for each."""

    __slots__ = ("text",)

    def __init__(self, text: Text) -> None:
        self.text = text


State = Held | str | None
"""None: the group is not set. _SET: it is, its text does not matter. _BEFORE: as it was before a repeat's turn."""
_SET, _BEFORE = "set", "before"
Ways = dict[State, Node]


class Refused(Exception):
    """Why a use of group ``index`` cannot be written out, and as which error to say so."""

    def __init__(self, index: int, reason: str, kind: type[GrammarError] = UnsupportedGrammar) -> None:
        super().__init__(reason)
        self.index = index
        self.kind = kind


def expand(node: Node, *, ecma: bool, ordered: bool) -> Node:
    """``node`` without groups, backreferences and conditionals.

    Args:
        ecma: the rules of ECMA-262, else Python's.
        ordered: the order of alternatives has to be kept.

    Raises:
        Refused: a group that is used has too many texts, or its text depends on more than the path.
    """
    parts = [0]
    facts = _Facts()
    used = facts.uses(node)
    node = _without_groups(_emulated_atomic(node), used, facts)
    while left := facts.uses(node):
        inner = facts.inner_uses(node)
        ready = [i for i in sorted(left) if not inner.get(i)]
        if not ready:
            raise Refused(min(left), "is used inside itself")
        node = _Elimination(ready[0], node, ecma, parts).scope(node, ordered, False)
        node = _without_groups(node, facts.uses(node), facts)
    return node


def _without_groups(node: Node, used: frozenset[int], facts: _Facts) -> Node:
    """Only groups in ``used`` are kept."""
    if facts.sets(node) <= used:
        return node
    if isinstance(node, Group) and node.index not in used:
        return _without_groups(node.body, used, facts)
    return rebuilt(node, lambda part: _without_groups(part, used, facts))


def _emulated_atomic(node: Node) -> Node:
    r"""``(?=(X))\1`` -> ``(?>X)``, where the group has no other use: how atomic groups are written in ECMA-262."""
    counts: dict[int, int] = {}

    def count(part: Node) -> None:
        if isinstance(part, (Backref, Conditional)):
            counts[part.index] = counts.get(part.index, 0) + 1
        for inner in children(part):
            count(inner)

    def change(part: Node) -> Node:
        part = rebuilt(part, change) if children(part) else part
        if not isinstance(part, Concat):
            return part
        items: list[Node] = []
        for item in part.items:
            before = items[-1] if items else None
            if (
                isinstance(item, Backref) and not item.fold and counts[item.index] == 1
                and isinstance(before, Look) and not before.behind and not before.negated
                and isinstance(before.body, Group) and before.body.index == item.index
            ):  # fmt: skip
                items[-1] = Atomic(before.body.body)
            else:
                items.append(item)
        return concat(items)

    count(node)
    return change(node) if counts else node


class _Facts:
    """What parts of a tree use and set; each part is looked at once."""

    def __init__(self) -> None:
        self._uses: dict[int, tuple[Node, frozenset[int]]] = {}
        self._sets: dict[int, tuple[Node, frozenset[int]]] = {}

    def uses(self, node: Node) -> frozenset[int]:
        """Groups of the backreferences and conditionals in ``node``."""
        found = self._uses.get(id(node))
        if found is None:
            own = {node.index} if isinstance(node, (Backref, Conditional)) else set()
            found = self._uses[id(node)] = (node, frozenset(own.union(*map(self.uses, children(node)))))
        return found[1]

    def sets(self, node: Node) -> frozenset[int]:
        """Groups in ``node``."""
        found = self._sets.get(id(node))
        if found is None:
            own = {node.index} if isinstance(node, Group) else set()
            found = self._sets[id(node)] = (node, frozenset(own.union(*map(self.sets, children(node)))))
        return found[1]

    def inner_uses(self, node: Node) -> dict[int, frozenset[int]]:
        """For each group, what its bodies use, itself aside."""
        found: dict[int, frozenset[int]] = {}
        queue, seen = [node], set()
        while queue:
            at = queue.pop()
            if id(at) in seen or not self.sets(at):
                continue
            seen.add(id(at))
            if isinstance(at, Group):
                found[at.index] = found.get(at.index, frozenset()) | self.uses(at.body) - {at.index}
            queue += children(at)
        return found

    def folds(self, node: Node, index: int) -> set[Fold]:
        """How the backreferences to the group compare characters."""
        found: set[Fold] = set()
        queue, seen = [node], set()
        while queue:
            at = queue.pop()
            if id(at) not in seen and index in self.uses(at):
                seen.add(id(at))
                queue += children(at)
                if isinstance(at, Backref) and at.index == index:
                    found.add(at.fold)
        return found


class _Elimination:
    """Writes out one group."""

    def __init__(self, index: int, tree: Node, ecma: bool, parts: list[int]) -> None:
        self.index = index
        self.ecma = ecma
        self.facts = _Facts()
        self.parts = parts  # how many so far, of all groups
        self.known: dict[int, tuple[Group, Ways]] = {}
        self.held: dict[Text, Held] = {}
        folds = self.facts.folds(tree, index)
        self.by_text = bool(folds)
        self.fold: Fold = folds.pop() if len(folds) == 1 else ""

    def refused(self, reason: str, kind: type[GrammarError] = UnsupportedGrammar) -> Refused:
        return Refused(self.index, reason, kind)

    def mentions(self, node: Node) -> bool:
        return self.index in self.facts.uses(node) or self.index in self.facts.sets(node)

    # -- the smallest part that holds the group and its uses

    def scope(self, node: Node, ordered: bool, backward: bool) -> Node:
        """``node``, which holds every use of what it sets, written out.

        ``ordered``: the order of paths counts here. ``backward``: inside a lookbehind that is matched from right
        to left.
        """
        if not self.mentions(node):
            return node
        if isinstance(node, Concat):
            at = [i for i, item in enumerate(node.items) if self.mentions(item)]
            first, last = at[0], at[-1] + 1
            if last - first == 1:
                middle = self.scope(node.items[first], ordered, backward)
            else:
                middle = self.split(Concat(node.items[first:last]), ordered, backward)
            return concat([*node.items[:first], middle, *node.items[last:]])
        if isinstance(node, Alternate):
            return alternate([self.scope(item, ordered, backward) for item in node.items])
        if isinstance(node, Look):
            return look(self.scope(node.body, False, node.behind and self.ecma), node.behind, node.negated)
        if isinstance(node, Atomic):
            return Atomic(self.scope(node.body, True, backward))
        if isinstance(node, Repeat) and (self.ecma or node.hi == 1 or not self.reads(node.body)[0]):
            return repeat(self.scope(node.body, ordered, backward), node.lo, node.hi, node.lazy)
        if isinstance(node, Group):
            return Group(node.index, self.scope(node.body, ordered, backward))
        return self.split(node, ordered, backward)

    def split(self, node: Node, ordered: bool, backward: bool) -> Node:
        if ordered and not self.in_order(node):
            raise self.refused("is used where the order of matching counts")
        ways = self.walk(node, None, backward).values()
        return alternate(ways) if ordered else _any_of(ways)

    def reads(self, node: Node) -> tuple[bool, bool]:
        """Whether ``node`` may look at what the group held before it, and whether it always sets the group."""
        if isinstance(node, Concat):
            for item in node.items:
                reads, sets = self.reads(item)
                if reads:
                    return True, False
                if sets:
                    return False, True
            return False, False
        if isinstance(node, Alternate):
            found = [self.reads(item) for item in node.items]
            return any(reads for reads, _ in found), all(sets for _, sets in found)
        if isinstance(node, Repeat):
            reads, sets = self.reads(node.body)
            return reads, sets and node.lo > 0
        if isinstance(node, Look):
            reads, sets = self.reads(node.body)
            return reads, sets and not node.negated
        if isinstance(node, Group):
            return self.reads(node.body)[0], node.index == self.index or self.reads(node.body)[1]
        if isinstance(node, Atomic):
            return self.reads(node.body)
        return self.index in self.facts.uses(node), False

    def in_order(self, node: Node) -> bool:
        """Whether the paths through ``node``, first choice first, come sorted by the state in which they leave."""
        if self.index not in self.facts.sets(node):
            return True
        if isinstance(node, Group):
            # Texts are sorted by their first path, which is as good as the others if all depend on nothing else.
            if node.index == self.index:
                return not self.by_text or not has(node.body, (Look, Anchor, Atomic))
            return self.in_order(node.body)
        if isinstance(node, Alternate):
            states: list[State] = []
            for item in node.items:
                for state in self.walk(item, None, False):
                    if state in states and states[-1] != state:
                        return False
                    states.append(state)
            return all(map(self.in_order, node.items))
        if isinstance(node, Concat):
            at = [i for i, item in enumerate(node.items) if self.index in self.facts.sets(item)]
            before = node.items[: at[0]]
            return len(at) == 1 and all(map(atomic.is_single_way, before)) and self.in_order(node.items[at[0]])
        if isinstance(node, Repeat):
            return (node.lo, node.hi) == (0, 1) and self.reads(node.body) == (False, True) and self.in_order(node.body)
        return False

    # -- the walk

    def walk(self, node: Node, state: State, backward: bool) -> Ways:
        """How ``node`` matches when the group is in ``state`` before it, for each state after it."""
        if not self.mentions(node):
            return {state: node}
        ways = self._walk(node, state, backward)
        self.parts[0] += len(ways)
        if self.parts[0] > MAX_PARTS:
            raise self.refused(f"needs more than {MAX_PARTS} parts when written out", GrammarTooComplex)
        return ways

    def _walk(self, node: Node, state: State, backward: bool) -> Ways:
        ways: dict[State, list[Node]]
        if isinstance(node, Concat):
            return self._concat(node, state, backward)
        if isinstance(node, Alternate):
            ways = {}
            for item in node.items:
                for after, way in self.walk(item, state, backward).items():
                    ways.setdefault(after, []).append(way)
            return {after: alternate(found) for after, found in ways.items()}
        if isinstance(node, Backref):
            if state is None:
                return {None: EMPTY} if self.ecma else {}
            assert isinstance(state, Held)
            return {state: concat(Chars(unicode.closed(chars, node.fold)) for chars in state.text)}
        if isinstance(node, Conditional) and node.index == self.index:
            return self.walk(node.no if state is None else node.yes, state, backward)
        if isinstance(node, Conditional):
            ways = {}
            for after, way in self.walk(node.yes, state, backward).items():
                ways.setdefault(after, []).append(Conditional(node.index, way, NOTHING))
            for after, way in self.walk(node.no, state, backward).items():
                ways.setdefault(after, []).append(Conditional(node.index, NOTHING, way))
            return {after: alternate(found) for after, found in ways.items()}
        if isinstance(node, Group):
            if node.index != self.index:
                return {after: Group(node.index, way) for after, way in self.walk(node.body, state, backward).items()}
            if self.index in self.facts.uses(node.body):  # a conditional: what the group held before
                node = Group(node.index, alternate(self.walk(node.body, state, backward).values()))
            return self._group(node) if self.by_text else {_SET: node.body}
        if isinstance(node, Repeat):
            return self._repeat(node, state, backward)
        if isinstance(node, Atomic):
            return self._first(self.walk(node.body, state, backward), node, Atomic)
        assert isinstance(node, Look)
        return self._look(node, state)

    def _group(self, node: Group) -> Ways:
        if id(node) not in self.known:
            found: Ways = {}
            for text, way in self.texts(atomic.expand(node.body)).items():
                found[self.held.setdefault(text, Held(text))] = way
            self.known[id(node)] = (node, found)
        return self.known[id(node)][1]

    def _concat(self, node: Concat, state: State, backward: bool) -> Ways:
        ways: dict[State, list[list[Node]]] = {state: [[]]}
        for item in self._runs(node.items, backward):
            found: dict[State, list[list[Node]]] = {}
            for before, paths in ways.items():
                for after, way in self.walk(item, before, backward).items():
                    longer = paths if len(paths) == 1 else [[alternate([self._joined(p, backward) for p in paths])]]
                    found.setdefault(after, []).extend([*path, way] for path in longer)
            ways = found
        return {after: alternate([self._joined(path, backward) for path in paths]) for after, paths in ways.items()}

    def _runs(self, items: tuple[Node, ...], backward: bool) -> list[Node]:
        """The items in the order of the walk, those between two uses of the group as one."""
        found: list[Node] = []
        for mentioned, run in groupby(items, self.mentions):
            parts = list(run)
            found += parts if mentioned else [concat(parts)]
        return found[::-1] if backward else found

    @staticmethod
    def _joined(path: list[Node], backward: bool) -> Node:
        return concat(reversed(path) if backward else path)

    def _look(self, node: Look, state: State) -> Ways:
        ways = self.walk(node.body, state, node.behind and self.ecma)
        if node.negated or self.index not in self.facts.sets(node):
            made = look(_any_of(ways.values()), node.behind, node.negated)
            return {} if made == NOTHING else {state: made}
        return self._first(ways, node, lambda way: look(way, node.behind, False))

    def _first(self, ways: Ways, node: Look | Atomic, made: Callable[[Node], Node]) -> Ways:
        """Only the first path through ``node`` counts: a state is left in where no earlier one could be."""
        if len(ways) < 2:
            return {after: made(way) for after, way in ways.items()}
        if (isinstance(node, Look) and node.behind) or not self.in_order(node.body) or len(ways) > 64:
            what = "an atomic group" if isinstance(node, Atomic) else "a lookaround"
            raise self.refused(f"is set in {what}, and which text it holds depends on the order of matching there")
        found: Ways = {}
        earlier: list[Node] = []
        for after, way in ways.items():
            found[after] = concat([look(alternate(earlier), False, True), made(way)])
            earlier.append(way)
        return found

    def _repeat(self, node: Repeat, state: State, backward: bool) -> Ways:
        body, lo, hi = node.body, node.lo, node.hi
        if self.index not in self.facts.sets(body):
            again = alternate(self.walk(body, state, backward).values())
            made = repeat(again, lo, hi, node.lazy)
            return {} if made == NOTHING else {state: made}
        return self._turns_ecma(node, state, backward) if self.ecma else self._turns(node, state, backward)

    def _turns_ecma(self, node: Repeat, state: State, backward: bool) -> Ways:
        """The last turn decides, and a turn beyond ``lo`` reads something."""
        lo, hi = node.lo, node.hi
        ways = self.walk(node.body, None, backward)
        any_way = _any_of(ways.values())
        found: dict[State, list[Node]] = {state: [EMPTY]} if lo == 0 else {}
        for after, way in ways.items():
            if lo:
                found.setdefault(after, []).append(self._joined([repeat(any_way, lo - 1, lo - 1), way], backward))
            if hi is None or hi > lo:
                reading = consuming_ways(way)
                if reading is None:
                    raise self.refused("is set in a repeat whose turns may read nothing")
                before = repeat(any_way, lo, None if hi is None else hi - 1)
                found.setdefault(after, []).append(self._joined([before, reading], backward))
        return {after: alternate(paths) for after, paths in found.items()}

    def _turns(self, node: Repeat, state: State, backward: bool) -> Ways:
        """The last turn that sets the group decides; turns that do not set it may follow."""
        lo, hi = node.lo, node.hi
        if hi == 1:  # an optional part
            once = self.walk(node.body, state, backward)
            without: Ways = {state: alternate([EMPTY, once.get(state, NOTHING)])}
            return {**without, **{k: w for k, w in once.items() if k != state}} if node.lazy else {**once, **without}
        if self.reads(node.body)[0]:
            raise self.refused("is used in one turn of a repeat and set in an earlier one")
        ways = self.walk(node.body, _BEFORE, backward)
        skipping = ways.pop(_BEFORE, NOTHING)
        setting = _any_of(ways.values())
        found: Ways = {state: EMPTY} if lo == 0 and node.lazy else {}
        if skipping == NOTHING:
            before = repeat(setting, max(lo - 1, 0), None if hi is None else hi - 1)
            found.update({after: concat([before, way]) for after, way in ways.items()})
        elif lo < 2 and hi is None:
            if any(empty_ways(way) not in (EMPTY, NOTHING) for way in ways.values()):
                raise self.refused("is set in a turn of a repeat that may read nothing")
            before, behind = repeat(alternate([setting, skipping]), 0, None), repeat(skipping, 0, None)
            found.update({after: concat([before, way, behind]) for after, way in ways.items()})
            if lo == 1:
                found[state] = alternate([found.get(state, NOTHING), repeat(skipping, 1, None)])
        else:
            raise self.refused("is set in some turns only of a counted repeat")
        if lo == 0:
            found[state] = alternate([found.get(state, NOTHING), EMPTY])
        return found

    # -- the texts of the group

    def texts(self, node: Node) -> dict[Text, Node]:
        """The texts of ``node`` in the order of its paths, each with the part of ``node`` that matches it."""
        if isinstance(node, Chars):
            return self._characters(node.chars - _SURROGATES)
        if isinstance(node, Concat):
            found: dict[Text, Node] = {(): EMPTY}
            for item in node.items:
                found = self._product(found, self.texts(item))
            return found
        if isinstance(node, Alternate):
            return self._union(*map(self.texts, node.items))
        if isinstance(node, Group):
            return {text: Group(node.index, way) for text, way in self.texts(node.body).items()}
        if isinstance(node, Repeat):
            return self._repeated(node)
        assert isinstance(node, (Empty, Look, Anchor)), node
        return {(): node}

    def too_many(self) -> Refused:
        return self.refused(f"can match more than {MAX_TEXTS:,} different texts")

    def _characters(self, chars: CharSet) -> dict[Text, Node]:
        if not self.fold and len(chars) > MAX_TEXTS:
            raise self.too_many()
        found: dict[Text, Node] = {}
        while chars:
            like = unicode.equal(chars.ranges[0][0], self.fold) & chars
            found[(like,)] = Chars(like)
            chars -= like
            if len(found) > MAX_TEXTS:
                raise self.too_many()
        return found

    def _product(self, heads: dict[Text, Node], tails: dict[Text, Node]) -> dict[Text, Node]:
        ways: dict[Text, list[Node]] = {}
        if len(heads) * len(tails) > 20 * MAX_TEXTS:
            raise self.too_many()
        for head, first in heads.items():
            for tail, second in tails.items():
                ways.setdefault(head + tail, []).append(concat([first, second]))
        if len(ways) > MAX_TEXTS or sum(map(len, ways)) > 100 * MAX_TEXTS:
            raise self.too_many()
        return {text: alternate(found) for text, found in ways.items()}

    def _union(self, *items: dict[Text, Node]) -> dict[Text, Node]:
        ways: dict[Text, list[Node]] = {}
        for item in items:
            for text, way in item.items():
                ways.setdefault(text, []).append(way)
            if len(ways) > MAX_TEXTS:
                raise self.too_many()
        return {text: alternate(found) for text, found in ways.items()}

    def _repeated(self, node: Repeat) -> dict[Text, Node]:
        if node.hi is None and any(part.chars for part in _chars(node.body)):
            raise self.refused("can match texts without end")
        body = self.texts(node.body)
        if not body:
            return {(): EMPTY} if node.lo == 0 else {}
        if all(not text for text in body):  # nothing but places
            return {(): node}
        assert node.hi is not None
        if node.hi - node.lo >= MAX_TEXTS:
            raise self.too_many()
        if node.hi * max(map(len, body)) > MAX_LENGTH:
            raise self.refused(f"can match texts of more than {MAX_LENGTH:,} characters")
        nothing: dict[Text, Node] = {(): EMPTY}
        found = nothing
        for _ in range(node.hi - node.lo):
            more = self._product(body, found)
            longer = self._union(nothing, more) if node.lazy else self._union(more, nothing)
            if longer == found:
                break
            found = longer
        for _ in range(node.lo):
            found = self._product(body, found)
        return found


def _any_of(ways: Iterable[Node]) -> Node:
    """Any of them, in any order: single characters become one set."""
    found: list[Node] = []
    ranges: list[tuple[int, int]] = []
    for way in ways:
        if isinstance(way, Chars):
            ranges += way.chars.ranges
        else:
            found.append(way)
    return alternate([*found, Chars(CharSet(ranges))])


def _chars(node: Node) -> list[Chars]:
    """The characters that ``node`` reads."""
    if isinstance(node, Chars):
        return [node]
    return [] if isinstance(node, Look) else [found for part in children(node) for found in _chars(part)]
