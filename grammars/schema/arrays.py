"""Arrays: a plan says what each position may hold, a frame counts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from structgen.errors import UnsupportedGrammar
from structgen.grammars.expr import alt, literal, seq
from structgen.grammars.machine import Cell, Thread
from structgen.grammars.residual import State, state
from structgen.grammars.schema.keywords import Contains, Rules
from structgen.grammars.schema.negation import negation

if TYPE_CHECKING:
    from structgen.grammars.schema.nodes import Forest, Node

VIEW_LIMIT = 256
"""Counters above this look the same to a mask: no token is longer."""

FIRST, ITEM, AFTER = range(3)
COMMA, CLOSE = range(2)
SCALAR, CLOSES = 0, 3


class ArrayPlan:
    """What an array of a conjunction may hold.

    Positions below ``len(prefix)`` have nodes of their own, all others share one. With ``contains``, every
    item either counts as a match (its node is joined with the contained schema) or it does not.
    """

    def __init__(self, forest: Forest, rules: tuple[Rules, ...]) -> None:
        self.forest = forest
        self.rules = rules
        self.length = max((len(rule.prefix) for rule in rules), default=0)
        self.min_items = max((rule.min_items for rule in rules), default=0)
        limits = [rule.max_items for rule in rules if rule.max_items is not None]
        self.max_items = min(limits) if limits else None
        contains: dict[Contains, None] = {each: None for rule in rules for each in rule.contains}
        if len(contains) > 1:
            raise UnsupportedGrammar(
                "more than one contains on the same array is not built yet",
                pointer=f"{next(iter(contains)).place.pointer}",
            )
        self.contains = next(iter(contains), None)
        self._nodes: dict[tuple[int, bool | None], Node] = {}
        self._after: dict[tuple[bool, bool, int], State | None] = {}

    def node(self, index: int, match: bool | None = None) -> Node:
        """The node of the item at ``index``; ``match``: it counts for ``contains``, it does not, or there is none."""
        key = (min(index, self.length), match)
        found = self._nodes.get(key)
        if found is None:
            places = []
            for rule in self.rules:
                place = rule.prefix[index] if index < len(rule.prefix) else rule.items
                if place is not None:
                    places.append(place)
            if self.contains is not None and match is True:
                places.append(self.contains.place)
            elif self.contains is not None and match is False and self.contains.hi is not None:
                places.append(negation(self.contains.place))
            found = self._nodes[key] = self.forest.node(places)
        return found

    def choices(self, matched: int) -> tuple[bool | None, ...]:
        """Ways to read the next item after ``matched`` matches."""
        if self.contains is None or (self.contains.hi is None and matched >= self.contains.lo):
            return (None,)
        return (True, False)

    def inputs(self) -> list[Node]:
        """Nodes whose satisfiability decides that of the plan."""
        if self.contains is None:
            rest = [self.node(self.length)] if self.min_items > self.length else []
            return [self.node(i) for i in range(min(self.min_items, self.length))] + rest
        return [self.node(i, match) for i in range(self.length + 1) for match in (True, False)]

    def everything(self) -> list[Node]:
        """The nodes of all items."""
        matches = (None,) if self.contains is None else (None, True, False)
        return [self.node(i, match) for i in range(self.length + 1) for match in matches]

    def feasible(self, truth: Callable[[Node], bool], index: int = 0, matched: int = 0) -> bool:
        """Whether an array of ``index`` items (``matched`` of them matches) can be completed, given which nodes
        have values."""
        if self.contains is None:
            if self.max_items is not None and max(index, self.min_items) > self.max_items:
                return False
            need = self.min_items
            return all(truth(self.node(i)) for i in range(index, min(need, self.length))) and (
                need <= max(self.length, index) or truth(self.node(self.length))
            )
        lo, hi = self.contains.lo, self.contains.hi
        most = least = matched
        at = index
        while True:
            enough, free = at >= self.min_items and most >= lo, hi is None or least <= hi
            if not free or (self.max_items is not None and at > self.max_items):
                return False
            if enough:
                return True
            can, may_not = truth(self.node(at, True)), truth(self.node(at, False))
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

    def clamped(self, index: int, matched: int) -> tuple[int, int]:
        """The counters, no larger than any rule can tell."""
        if self.max_items is None:
            index = min(index, max(self.min_items, self.length))
        if self.contains is not None and self.contains.hi is None:
            matched = min(matched, self.contains.lo)
        return index, matched if self.contains is not None else 0

    def open_items(self, index: int, matched: int) -> list[bool | None]:
        """The ways to read an item at ``index`` that can be completed."""
        if self.max_items is not None and index >= self.max_items:
            return []
        return [
            match
            for match in self.choices(matched)
            if self.node(index, match).satisfiable and self.feasible(_satisfiable, index + 1, matched + (match is True))
        ]

    def may_close(self, index: int, matched: int) -> bool:
        return index >= self.min_items and (
            self.contains is None
            or (matched >= self.contains.lo and (self.contains.hi is None or matched <= self.contains.hi))
        )

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


class ArrayFrame(NamedTuple):
    """An array being written.

    Attributes:
        at: finished items (or, in stage ITEM, the index of the item).
        matched: how many of them count for ``contains``.
        match: what the item being written is taken for.
    """

    plan: ArrayPlan
    stage: int = FIRST
    at: int = 0
    matched: int = 0
    match: bool | None = None
    depth: int = 0

    @property
    def view(self) -> Hashable:
        plan = self.plan
        index = min(self.at, plan.length)
        need = min(max(plan.min_items - self.at, 0), VIEW_LIMIT)
        room = VIEW_LIMIT if plan.max_items is None else min(plan.max_items - self.at, VIEW_LIMIT)
        matched: Any = self.matched
        if plan.contains is not None:
            lo, hi = plan.contains.lo, plan.contains.hi
            matched = (
                min(max(lo - matched, 0), VIEW_LIMIT),
                VIEW_LIMIT if hi is None else min(hi - matched, VIEW_LIMIT),
            )
        return plan, self.stage, index, need, room, matched, self.match, self.depth

    def threads(self, cell: Cell) -> list[Thread]:
        """Threads at this stage; ``cell`` has this frame on top."""
        plan = self.plan
        if self.stage == AFTER:
            comma = bool(plan.open_items(self.at, self.matched))
            after = plan.after_state(comma, plan.may_close(self.at, self.matched), self.depth)
            return [] if after is None else [Thread(after, cell)]
        found: list[Thread] = []
        close = self.stage == FIRST and plan.may_close(0, 0)
        matches = plan.open_items(self.at, self.matched)
        for match in matches or [None]:
            node = plan.node(self.at, match)
            if not matches:
                begun = self._closing() if close else None
            elif self.stage == FIRST:
                begun = node.first_item_state(self.depth, close)
            else:
                begun = node.item_state(self.depth)
            if begun is not None:
                frame = ArrayFrame(plan, ITEM, self.at, self.matched, match, self.depth)
                found.append(Thread(begun, cell.replace(frame)))
            close = False
        return found

    def _closing(self) -> State | None:
        layout = self.plan.forest.style.layout
        return state(seq(layout.in_empty(), literal(b"]", CLOSES)))

    def follow(self, cell: Cell, outcome: int, text: bytes | None) -> Sequence[Thread]:
        plan = self.plan
        if self.stage == AFTER:
            if outcome == CLOSE:
                return cell.parent.resume()
            frame = ArrayFrame(plan, ITEM, self.at, self.matched, None, self.depth)
            return frame.threads(cell.replace(frame))
        if outcome == CLOSES:
            return cell.parent.resume()
        index, matched = plan.clamped(self.at + 1, self.matched + (self.match is True))
        frame = ArrayFrame(plan, AFTER, index, matched, None, self.depth)
        below = cell.replace(frame)
        if outcome == SCALAR:
            return frame.threads(below)
        return plan.node(self.at, self.match).enter(outcome, below, self.depth)

    def resume(self, cell: Cell) -> Sequence[Thread]:
        return self.threads(cell)

    def __repr__(self) -> str:
        return f"Array({['first', 'item', 'after'][self.stage]} {self.at})"
