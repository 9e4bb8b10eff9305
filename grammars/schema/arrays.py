"""Arrays: a plan says what each position may hold, a frame counts, and remembers the items where they must differ."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from structgen.errors import GrammarTooComplex
from structgen.grammars import any_number
from structgen.grammars.expr import NEVER, Expr, alt, literal, seq
from structgen.grammars.machine import Cell, Gate, Thread
from structgen.grammars.residual import COMPLETE, Recorded, Residual, State, state
from structgen.grammars.schema import distinct, languages
from structgen.grammars.schema.keywords import Contains, Rules
from structgen.grammars.schema.languages import MANY
from structgen.grammars.schema.negation import negation

if TYPE_CHECKING:
    from structgen.grammars.schema.nodes import Forest, Node

VIEW_LIMIT = 256
"""Counters above this look the same to a mask: no token is longer."""

MAX_CONTAINS = 5
MAX_COUNTS = 20_000
MAX_MATCHING = 200

FIRST, ITEM, AFTER = range(3)
COMMA, CLOSE = range(2)
SCALAR, CLOSES, SMALL = 0, 3, 4
"""Outcomes of an item (brackets have those between). SMALL: a scalar that is no string, beside strings that cannot run
out."""

UNREAD = ("unread",)
"""Among the items seen: one of unknown value."""
MAX_TOLD = 1_000

Match = tuple["bool | None", ...]
"""For each ``contains``: the item counts, it does not, or it does not matter."""
Counts = tuple[int, ...]
_NO_VALUES: frozenset[Hashable] = frozenset()
_WANTED = frozenset({SCALAR, SMALL})


class ArrayPlan:
    """What an array of a conjunction may hold.

    Positions below ``length`` have nodes of their own, all others share one. With ``contains``, every item either
    counts as a match (its node is joined with the contained schema) or it does not.

    Attributes:
        unique: no two items are equal.
        repeated: some two items are equal (the opposite of ``unique``).
    """

    def __init__(self, forest: Forest, rules: tuple[Rules, ...]) -> None:
        self.forest = forest
        self.rules = rules
        self.min_items = max((rule.min_items for rule in rules), default=0)
        limits = [rule.max_items for rule in rules if rule.max_items is not None]
        self.max_items = min(limits) if limits else None
        self.contains: tuple[Contains, ...] = tuple({each: None for rule in rules for each in rule.contains})
        if len(self.contains) > MAX_CONTAINS:
            raise GrammarTooComplex(
                f"more than {MAX_CONTAINS} different contains apply to one array",
                pointer=self.contains[0].place.pointer,
            )
        self.length = max(
            [len(rule.prefix) for rule in rules] + [each.start for each in self.contains], default=0
        )
        self.unique = any(rule.unique for rule in rules) and (self.max_items is None or self.max_items > 1)
        self.repeated = any(rule.repeated for rule in rules)
        self.remembers = self.unique or self.repeated
        self._nodes: dict[tuple[int, Match], Node] = {}
        self._after: dict[tuple[bool, bool, int], State | None] = {}
        self._items: dict[Hashable, State | None] = {}
        self._feasible: dict[tuple[int, Counts], bool] = {}
        self._room: dict[tuple[int, frozenset[Hashable]], bool] = {}
        self._loose: dict[int, bool] = {}
        self._bodies: dict[tuple[int, frozenset[Hashable]], Expr] = {}
        self._told: dict[tuple[int, frozenset[Hashable]], frozenset[Hashable]] = {}

    # -- items

    def node(self, index: int, match: Match = ()) -> Node:
        """The node of the item at ``index``, where it counts for what ``match`` says."""
        key = (min(index, self.length), match)
        found = self._nodes.get(key)
        if found is None:
            places = []
            for rule in self.rules:
                place = rule.prefix[index] if index < len(rule.prefix) else rule.items
                if place is not None:
                    places.append(place)
            for each, counts in zip(self.contains, match, strict=False):
                if counts:
                    places.append(each.place)
                elif counts is False and each.hi is not None:
                    places.append(negation(each.place))
            found = self._nodes[key] = self.forest.node(places)
        return found

    def choices(self, index: int, matched: Counts) -> Iterator[Match]:
        """Ways to read the item at ``index`` after so many matches."""
        ways: list[tuple[bool | None, ...]] = []
        for each, n in zip(self.contains, matched, strict=True):
            if index < each.start or (each.hi is None and n >= each.lo):
                ways.append((None,))
            elif each.hi is not None and n >= each.hi:
                ways.append((False,))
            else:
                ways.append((True, False))
        return itertools.product(*ways)

    def counted(self, matched: Counts, match: Match) -> Counts:
        """The numbers of matches after an item, no larger than any rule can tell."""
        return tuple(
            min(n + (counts is True), each.lo if each.hi is None else each.hi + 1)
            for each, n, counts in zip(self.contains, matched, match, strict=True)
        )

    # -- whether arrays exist

    def inputs(self) -> list[Node]:
        """Nodes whose satisfiability decides that of the plan."""
        if not self.contains:
            rest = [self.node(self.length)] if self.min_items > self.length else []
            found = [self.node(i) for i in range(min(self.min_items, self.length))] + rest
        else:
            found = [node for node in self.everything() if node is not None]
        return found + [self._pair(i, j) for i, j in self._pairs()]

    def everything(self) -> list[Node]:
        """The nodes of all items."""
        matches = itertools.product(*[(None, True, False)] * len(self.contains))
        return [self.node(i, match) for match in matches for i in range(self.length + 1)]

    def _pairs(self) -> list[tuple[int, int]]:
        """Positions of two items that may be equal, where some two must be."""
        if not self.repeated:
            return []
        last = self.length + 2 if self.max_items is None else min(self.max_items, self.length + 2)
        return [(i, j) for j in range(last) for i in range(j)]

    def _pair(self, i: int, j: int) -> Node:
        return self.forest.node([*self.node(i).places, *self.node(j).places])

    def feasible(self, truth: Callable[[Node], bool], index: int = 0, matched: Counts | None = None) -> bool:
        """Whether an array of ``index`` items (``matched`` of them matches) can be completed, given which nodes
        have values."""
        if self.max_items is not None and max(index, self.min_items) > self.max_items:
            return False
        if index == 0 and self.remembers and not self._distinct_feasible(truth):
            return False
        if not self.contains:
            need = self.min_items
            return all(truth(self.node(i)) for i in range(index, min(need, self.length))) and (
                need <= max(self.length, index) or truth(self.node(self.length))
            )
        return self._countable(truth, index, (0,) * len(self.contains) if matched is None else matched)

    def _distinct_feasible(self, truth: Callable[[Node], bool]) -> bool:
        if self.unique and self.repeated:
            return False
        if self.repeated:
            return any(truth(self._pair(i, j)) for i, j in self._pairs())
        if not self.contains and not all(truth(node) for node in self.inputs()):
            return False
        for each in self.contains:
            if each.lo > 1 and each.start <= self.length:
                match: Match = tuple(True if other is each else None for other in self.contains)
                node = self.node(self.length, match)
                if truth(node) and not node.parts.cases and not node.parts.arrays:
                    free = sum(i >= each.start for i in range(self.length))
                    if _count(node) + free < each.lo:
                        return False
        return self._has_room(0, _NO_VALUES)

    def _countable(self, truth: Callable[[Node], bool], index: int, matched: Counts) -> bool:
        """Whether items from ``index`` on can bring every ``contains`` into its bounds."""
        if len(self.contains) == 1:
            return self._one_countable(truth, index, matched[0])
        ways: dict[int, list[Match]] = {}

        def options(at: int) -> list[Match]:
            at = min(at, self.length)
            if at not in ways:
                free: list[tuple[bool | None, ...]] = [
                    (None,) if at < each.start else (True, False) for each in self.contains
                ]
                ways[at] = [match for match in itertools.product(*free) if truth(self.node(at, match))]
            return ways[at]

        reached, at = {matched}, index
        while reached:
            if at >= self.min_items and any(self._in_bounds(each) for each in reached):
                return True
            if self.max_items is not None and at >= self.max_items:
                return False
            after = {self.counted(each, match) for each in reached for match in options(at)}
            after = {each for each in after if not self._over(each)}
            if len(after) > MAX_COUNTS:
                raise GrammarTooComplex(
                    "several contains with large counts apply to one array",
                    pointer=self.contains[0].place.pointer,
                )
            if at >= self.length and after == reached:
                # All further items change nothing: only their number can.
                return any(self._in_bounds(each) for each in reached)
            reached, at = after, at + 1
        return False

    def _one_countable(self, truth: Callable[[Node], bool], index: int, matched: int) -> bool:
        """``_countable`` for a single ``contains``, without going through all counts."""
        _, lo, hi, begin = self.contains[0]
        most = least = matched
        at = index
        while True:
            enough, free = at >= self.min_items and most >= lo, hi is None or least <= hi
            if not free or (self.max_items is not None and at > self.max_items):
                return False
            if enough:
                return True
            counts = at >= begin
            can = counts and truth(self.node(at, (True,)))
            may_not = truth(self.node(at, (False if counts else None,)))
            if not can and not may_not:
                return False
            if at >= self.length:
                break
            most, least, at = most + can, least + (not may_not), at + 1
        # From here on all positions are alike.
        steps = max(self.min_items - at, 0)
        if lo > most:
            if not can:
                return False
            steps = max(steps, lo - most)
        if self.max_items is not None and at + steps > self.max_items:
            return False
        return may_not or hi is None or least + steps <= hi

    def _in_bounds(self, matched: Counts) -> bool:
        return all(
            n >= each.lo and (each.hi is None or n <= each.hi)
            for each, n in zip(self.contains, matched, strict=True)
        )

    def _over(self, matched: Counts) -> bool:
        return any(each.hi is not None and n > each.hi for each, n in zip(self.contains, matched, strict=True))

    # -- items that differ

    def _small(self, index: int, limit: int) -> tuple[Hashable, ...] | None:
        """The values of the item at ``index``, when it has few."""
        node = self.node(index)
        if node.parts.cases or node.parts.arrays or languages.raw(node.parts.texts) > limit:
            return None
        return distinct.members(node.parts.scalars, limit)

    def _has_room(self, index: int, seen: frozenset[Hashable]) -> bool:
        """Whether the items that are still required, from ``index`` on, can all differ from each other and from
        those ``seen`` (Hall's marriage theorem: positions with many values always find one)."""
        needed = self.min_items - index
        if needed <= 0:
            return True
        seen = seen if len(seen) <= MAX_MATCHING else _NO_VALUES
        key = (index, seen)
        if key not in self._room:
            limit = needed + len(seen)
            if limit > MAX_MATCHING:
                node = self.node(self.length)
                free = bool(node.parts.cases or node.parts.arrays)
                self._room[key] = free or _count(node) >= self.min_items - self.length
            else:
                wanted = []
                for i in range(index, self.min_items):
                    values = self._small(i, limit)
                    if values is not None:
                        wanted.append([value for value in values if value not in seen])
                self._room[key] = _matching(wanted)
        return self._room[key]

    def banned(self, index: int, seen: frozenset[Hashable]) -> frozenset[Hashable]:
        """Scalars that the item at ``index`` must not be: those seen, and those that later items need."""
        if self.min_items <= index + 1 or self.min_items + len(seen) > MAX_MATCHING:
            return seen
        contested: set[Hashable] = set()
        for i in range(index + 1, self.min_items):
            contested.update(self._small(i, self.min_items + len(seen)) or ())
        return seen | {v for v in contested - seen if not self._has_room(index + 1, seen | {v})}

    def depends(self, index: int, seen: frozenset[Hashable]) -> bool:
        """Whether more than ``telling`` says of the items seen decides what the item at ``index`` may be."""
        if self.loose(index):
            return UNREAD in seen
        if self.repeated or self.contains or self.min_items > index:
            return True
        return not distinct.endless(self.node(index).parts.scalars)

    def exhaustible(self, index: int) -> bool:
        """Whether the values seen may leave none for an item from ``index`` on."""
        if not self.loose(index) and (self.repeated or self.contains or self.min_items > index):
            return True
        node = self.node(index)
        return not (node.objects or node.arrays) and _count(node) < MANY

    def loose(self, index: int) -> bool:
        """Whether items from ``index`` on must differ from those seen, and that is all: no later one wants a value for
        itself. Then most items are compared when they end, and only what may run out is ruled out before."""
        if not self.unique or self.repeated or self.contains:
            return False
        index = min(index, max(self.length, self.min_items))
        found = self._loose.get(index)
        if found is None:
            nodes = [self.node(i) for i in range(min(index, self.length), self.length + 1)]
            later = [self.node(i) for i in range(index + 1, min(self.min_items, self.length + index + 2))]
            found = self._loose[index] = not any(node.parts.gated for node in nodes) and all(
                node.parts.cases or node.parts.arrays or _count(node) >= MANY for node in later
            )
        return found

    def _labelled(self, index: int) -> bool:
        """Whether the outcome says that an item at ``index`` is one of those that cannot run out."""
        return languages.endless(self.node(index).parts.texts)

    def _item_body(self, index: int, gone: frozenset[Hashable]) -> Expr:
        """Every start of an item other than the scalars ``gone``."""
        index = min(index, self.length)
        found = self._bodies.get((index, gone))
        if found is None:
            node, encoding = self.node(index), self.forest.style.encoding
            strings, others = distinct.kinds(node.parts.scalars)
            labelled = strings is not NEVER and others is not NEVER and self._labelled(index)
            if not gone and not labelled:
                found = node.body
            else:
                texts = [value for value in gone if isinstance(value, str)]
                strings = distinct.without(strings, texts, encoding)
                others = distinct.without(others, [value for value in gone if not isinstance(value, str)], encoding)
                if labelled:
                    others = distinct.ending(others, SMALL)
                kept = [each for each in (strings, others) if state(each) is not None]
                found = alt(*kept, node.brackets)
            if len(self._bodies) > MAX_TOLD:
                self._bodies.clear()
            self._bodies[index, gone] = found
        return found

    def unread(self, index: int, outcome: int, seen: frozenset[Hashable]) -> frozenset[Hashable]:
        """The items seen after one at ``index`` whose text is not known."""
        if not self.loose(index) or (outcome == SCALAR and self._labelled(index)):
            return seen
        return seen | {UNREAD}

    def scarce(self, index: int, seen: frozenset[Hashable]) -> frozenset[Hashable]:
        """Those of the scalars seen that may leave nothing behind what begins the item at ``index``."""
        node = self.node(index)
        numbers, _ = any_number.parts(node.parts.scalars)
        free = bool(numbers) and all(among.free for _, among in numbers)
        others = 1 << len(seen).bit_length()
        found: set[Hashable] = set()
        for value in seen:
            if isinstance(value, str):
                if not languages.is_spare(node.parts.texts, value, others):
                    found.add(value)
            elif isinstance(value, Decimal):
                if not free or value == 0:  # 0e5 is 0 too
                    found.add(value)
            elif isinstance(value, tuple) and isinstance(value[0], type):
                found.add(value)
        return frozenset(found)

    def telling(self, index: int, seen: frozenset[Hashable]) -> frozenset[Hashable] | None:
        """Those of the items seen that make a difference to what may come from ``index`` on, unless an item is equal
        to one of them."""
        if not self.remembers:
            return None
        if not self.loose(index):
            return seen if self.depends(index, seen) else None
        if not seen:
            return seen
        first = min(index, self.length)
        found = self._told.get((first, seen))
        if found is None:
            nodes = range(first, self.length + 1)
            found = (seen & {UNREAD}).union(*[self.scarce(i, seen) for i in nodes])
            if len(self._told) > MAX_TOLD:
                self._told.clear()
            self._told[first, seen] = found
        return found

    def opening(self, depth: int) -> ArrayFrame:
        return ArrayFrame(self, matched=(0,) * len(self.contains), depth=depth)

    # -- states

    def open_items(self, index: int, matched: Counts, seen: frozenset[Hashable] = _NO_VALUES,
                   again: bool = False) -> list[Match]:  # fmt: skip
        """The ways to read an item at ``index`` that can be completed."""
        if self.max_items is not None and index >= self.max_items:
            return []
        found = []
        for match in self.choices(index, matched):
            after = self.counted(matched, match)
            key = (min(index + 1, max(self.min_items, self.length) + 1) if self.max_items is None else index + 1, after)
            if not self.node(index, match).satisfiable:
                continue
            if key not in self._feasible:
                self._feasible[key] = self.feasible(_satisfiable, index + 1, after)
            if not self._feasible[key]:
                continue
            if self.remembers and self._item_expr(index, match, seen, again) is NEVER:
                continue
            found.append(match)
        return found

    def _item_expr(self, index: int, match: Match, seen: frozenset[Hashable], again: bool) -> Expr:
        """Every start of the item (see ``Node.body``), where its value depends on those seen."""
        node = self.node(index, match)
        encoding = self.forest.style.encoding
        if self.loose(index):
            scarce = self.scarce(index, seen)
            return self._item_body(index, scarce)
        if self.unique:
            scalars = distinct.without(node.parts.scalars, self.banned(index, seen), encoding)
        elif not again and self.max_items is not None and index + 1 >= self.max_items:
            scalars = distinct.common(node.parts.scalars, seen, encoding)  # the last chance
            if not any(isinstance(v, tuple) and v[0] in ("object", "array") for v in seen):
                return scalars if state(scalars) is not None else NEVER
        else:
            return node.body
        return alt(scalars if state(scalars) is not None else NEVER, node.brackets)

    def item_state(self, index: int, match: Match, seen: frozenset[Hashable], again: bool, first: bool,
                   may_close: bool, depth: int) -> State | None:  # fmt: skip
        """The terminal of an item, or of the end of an empty array."""
        node = self.node(index, match)
        if not self.remembers:
            return node.first_item_state(depth, may_close) if first else node.item_state(depth)
        told = self.scarce(index, seen) if self.loose(index) else seen
        key = (min(index, max(self.min_items, self.length)), match, told, again, self.max_items == index + 1,
               first, may_close, depth)  # fmt: skip
        if key not in self._items:
            layout = self.forest.style.layout
            item = self._item_expr(index, match, seen, again)
            made = NEVER if item is NEVER else seq(layout.before_item(depth), item)
            if may_close:
                made = alt(made, seq(layout.in_empty(), literal(b"]", CLOSES)))
            if len(self._items) > 1_000:
                self._items.clear()
            self._items[key] = state(made)
        return self._items[key]

    def may_close(self, index: int, matched: Counts, again: bool) -> bool:
        return index >= self.min_items and self._in_bounds(matched) and (again or not self.repeated)

    def after_state(self, comma: bool, close: bool, depth: int) -> State | None:
        """The terminal after an item."""
        key = (comma, close, depth)
        if key not in self._after:
            layout = self.forest.style.layout
            parts = [seq(layout.before_mark(), literal(b",", COMMA))] if comma else []
            if close:
                parts.append(seq(layout.before_close(depth), literal(b"]", CLOSE)))
            self._after[key] = state(alt(*parts))
        return self._after[key]


def _satisfiable(node: Node) -> bool:
    return node.satisfiable


def _count(node: Node) -> int:
    """How many different scalars a node has, up to ``languages.MANY``."""
    texts = languages.raw(node.parts.texts)
    return texts if texts >= MANY else distinct.count(node.parts.scalars)


def _matching(wanted: list[list[Hashable]]) -> bool:
    """Whether every list can have one of its values, no two the same (augmenting paths)."""
    owner: dict[Hashable, int] = {}

    def place(i: int, tried: set[Hashable]) -> bool:
        for value in wanted[i]:
            if value not in tried:
                tried.add(value)
                if value not in owner or place(owner[value], tried):
                    owner[value] = i
                    return True
        return False

    return all(place(i, set()) for i in range(len(wanted)))


class ArrayFrame(NamedTuple):
    """An array being written.

    Attributes:
        at: finished items (or, in stage ITEM, the index of the item).
        matched: how many of them count for each ``contains``.
        match: what the item being written is taken for.
        seen: the finished items, where they must differ (or some two be equal).
        again: two items were equal.
    """

    plan: ArrayPlan
    stage: int = FIRST
    at: int = 0
    matched: Counts = ()
    match: Match = ()
    depth: int = 0
    seen: frozenset[Hashable] = _NO_VALUES
    again: bool = False

    @property
    def view(self) -> Hashable:
        plan = self.plan
        index = min(self.at, plan.length)
        need = min(max(plan.min_items - self.at, 0), VIEW_LIMIT)
        room = VIEW_LIMIT if plan.max_items is None else min(plan.max_items - self.at, VIEW_LIMIT)
        left = tuple(
            (
                min(max(each.lo - n, 0), VIEW_LIMIT),
                VIEW_LIMIT if each.hi is None else min(each.hi - n, VIEW_LIMIT),
                min(max(each.start - self.at, 0), VIEW_LIMIT),
            )
            for each, n in zip(plan.contains, self.matched, strict=True)
        )
        seen = plan.telling(self.at, self.seen)
        return plan, self.stage, index, need, room, left, self.match, self.depth, seen, self.again

    def threads(self, cell: Cell) -> list[Thread]:
        """Threads at this stage; ``cell`` has this frame on top."""
        plan = self.plan
        if self.stage == AFTER:
            comma = bool(plan.open_items(self.at, self.matched, self.seen, self.again))
            after = plan.after_state(comma, plan.may_close(self.at, self.matched, self.again), self.depth)
            return [] if after is None else [Thread(after, cell)]
        found: list[Thread] = []
        close = self.stage == FIRST and plan.may_close(0, self.matched, False)
        matches = plan.open_items(self.at, self.matched, self.seen, self.again)
        if not matches and close:
            begun = self._closing()
            return [] if begun is None else [Thread(begun, cell)]
        for match in matches:
            begun = plan.item_state(
                self.at, match, self.seen, self.again, self.stage == FIRST, close, self.depth
            )
            if begun is not None:
                below = cell.replace(self._replace(stage=ITEM, match=match))
                residual = plan.node(self.at, match).guarded(begun)
                found.append(Thread(self._remembered(residual, below) if plan.remembers else residual, below))
            close = False
        return found

    def _remembered(self, begun: Residual, cell: Cell) -> Recorded:
        if isinstance(begun, State) and self.seen and self.plan.loose(self.at):
            begun = distinct.FreshItem(begun, self.seen)
        return Recorded(begun, b"", ((0, cell.depth),), _WANTED, volatile=self.plan.depends(self.at, self.seen))

    def _closing(self) -> State | None:
        layout = self.plan.forest.style.layout
        return state(seq(layout.in_empty(), literal(b"]", CLOSES)))

    def follow(self, cell: Cell, outcome: int, text: bytes | None) -> Sequence[Thread]:
        plan = self.plan
        if self.stage == AFTER:
            if outcome == CLOSE:
                return cell.parent.resume()
            frame = self._replace(stage=ITEM)
            return frame.threads(cell.replace(frame))
        if outcome == CLOSES:
            return cell.parent.resume()
        index = self.at + 1
        if plan.max_items is None:
            index = min(index, max(plan.min_items, plan.length))
        frame = self._replace(stage=AFTER, at=index, matched=plan.counted(self.matched, self.match), match=())
        if outcome not in _WANTED:
            below = cell.replace(frame)
            inside = below.push(_ItemGate(frame)) if plan.remembers else below
            return plan.node(self.at, self.match).enter(outcome, inside, self.depth)
        if plan.remembers:
            if text is None:
                return frame._replace(seen=plan.unread(self.at, outcome, self.seen))._unread(cell)
            admitted = frame.with_item(distinct.value_key(text))
            return [] if admitted is None else admitted.threads(cell.replace(admitted))
        return frame.threads(cell.replace(frame))

    def _unread(self, cell: Cell) -> Sequence[Thread]:
        """After an item whose text is not known: as after any, unless what follows depends on it."""
        if self.plan.exhaustible(self.at):
            return (Thread(COMPLETE, cell),)
        return self.threads(cell.replace(self))

    def with_item(self, item: Hashable) -> ArrayFrame | None:
        """After ``item``; None when it must not be there."""
        if self.plan.unique:
            return None if item in self.seen else self._replace(seen=self.seen | {item})
        if self.again:
            return self
        if item in self.seen:
            return self._replace(again=True, seen=_NO_VALUES)
        if self.plan.max_items is not None and self.at >= self.plan.max_items:
            return None
        return self._replace(seen=self.seen | {item})

    def resume(self, cell: Cell) -> Sequence[Thread]:
        return self.threads(cell)

    def __repr__(self) -> str:
        return f"Array({['first', 'item', 'after'][self.stage]} {self.at})"


class _ItemGate(Gate):
    """Above an array whose items are remembered, below an item that is a container."""

    __slots__ = ("frame",)

    def __init__(self, frame: ArrayFrame) -> None:
        self.frame = frame

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ItemGate) and self.frame == other.frame

    def __hash__(self) -> int:
        return hash((_ItemGate, self.frame))

    def admit(self, cell: Cell, text: bytes) -> Sequence[Thread]:
        admitted = self.frame.with_item(distinct.value_key(text))
        if admitted is None:
            return ()
        below = cell.parent.replace(admitted)
        return admitted.threads(below)
