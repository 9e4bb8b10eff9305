"""How many bytes the rest of an object or array takes at least: the estimates that keep ``distance`` straight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from structgen.grammars import distance, least
from structgen.grammars.expr import Expr
from structgen.grammars.machine import Bottom, Cell, Thread
from structgen.grammars.residual import Residual, State
from structgen.grammars.schema import arrays, objects
from structgen.grammars.schema.arrays import ArrayFrame, ArrayPlan
from structgen.grammars.schema.completion import Completion, bits
from structgen.grammars.schema.layout import Layout
from structgen.grammars.schema.nodes import OPENS_ARRAY, OPENS_OBJECT, SCALAR, Node
from structgen.grammars.schema.objects import ObjectFrame, ObjectPlan

SHORTEST_PAIR = 4  # "":0
LONG_ARRAY = 16  # items that are missing, from which on they are written in one step

_busy: set[tuple[Node, int]] = set()
_cut = [0]
"""How often a node was met that was being measured already, and its size therefore taken for less than it is."""


def _size(expr: Expr) -> int:
    return least.shortest(expr) or 0


_memos: WeakKeyDictionary[object, dict[Any, Any]] = WeakKeyDictionary()


def _memo(owner: object) -> dict[Any, Any]:
    """What is known about the nodes of a forest, or about a plan."""
    found = _memos.get(owner)
    if found is None:
        found = _memos[owner] = {}
    return found


def inside(node: Node, outcome: int) -> int:
    """No container of ``node`` needs fewer bytes after its opening bracket."""
    key = (node, outcome)
    memo = _memo(node.forest)
    found = memo.get(key)
    if found is None:
        if key in _busy or len(_busy) > 60:
            _cut[0] += 1
            return 1
        _busy.add(key)
        try:
            found = memo[key] = distance.search(node.enter(outcome, Cell(Bottom(), None), 0), more_fuel=0).bound
        finally:
            _busy.discard(key)
    return found


def value(node: Node) -> int:
    """No value of ``node`` is shorter."""
    memo = _memo(node.forest)
    found = memo.get(node)
    if found is None:
        scalar = least.shortest(node.parts.scalars)
        if scalar is not None and scalar <= 2:
            found = scalar
        else:
            sizes = [] if scalar is None else [scalar]
            before = _cut[0]
            if node.objects:
                sizes.append(1 + inside(node, OPENS_OBJECT))
            if node.arrays:
                sizes.append(1 + inside(node, OPENS_ARRAY))
            found = min(sizes, default=1)
            if _cut[0] != before:
                return found
        memo[node] = found
    return found


class _Marks:
    """Sizes of what stands between values, at one depth."""

    __slots__ = ("close", "colon", "comma", "to_comma")

    def __init__(self, layout: Layout, depth: int) -> None:
        before = _size(layout.before_mark())
        self.to_comma = before + 1
        self.comma = before + 1 + _size(layout.before_item(depth))
        self.colon = before + 1 + _size(layout.after_colon())
        self.close = _size(layout.before_close(depth)) + 1


def _marks(plan: ObjectPlan | ArrayPlan, depth: int) -> _Marks:
    memo = _memo(plan)
    made: _Marks | None = memo.get(("marks", depth))
    if made is None:
        made = memo["marks", depth] = _Marks(plan.forest.style.layout, depth)
    return made


# ------------------------------------------------------------------------------------------------ objects


def _pair(plan: ObjectPlan, i: int, node: Node | None) -> int:
    """The declared key ``i`` and a value of ``node``, without the marks."""
    memo = _memo(plan)
    key: int | None = memo.get(("key", i))
    if key is None:
        spellings = plan.forest.style.encoding.spellings
        key = memo["key", i] = 2 + sum(min(map(len, spellings(char)), default=0) for char in plan.keys[i])
    return key + (1 if node is None else value(node))


def _wish(plan: ObjectPlan, case: Completion, i: int, marks: _Marks) -> int:
    """A key and a value that fulfil the wish ``i``, with their colon."""
    memo = _memo(plan)
    found: int | None = memo.get(("wish", i))
    if found is None:
        before = _cut[0]
        sizes = []
        for j in bits(case.usable):
            sizes += [_pair(plan, j, case.case.node(plan.keys[j], met)) for met in case.ways(j) if met >> i & 1]
        lead = _size(plan.forest.style.layout.before_item(0))
        start = case.fresh.start(plan.declared, 0)
        lengths = {} if start is None else least.ends(start.expr)
        for met, classes in case.fresh_ways.items():
            if met >> i & 1:
                # A class without a known key is of no use to the search either.
                sizes += [lengths[c] - lead + value(case.fresh.node(c, met)) for c in bits(classes) if c in lengths]
        found = min(sizes, default=SHORTEST_PAIR - 1) + marks.colon
        if _cut[0] == before:
            memo["wish", i] = found
    return found


def _wishes(plan: ObjectPlan, case: Completion, left: int, unmet: int, marks: _Marks) -> int:
    """One more key and its value, if it takes one besides those ``left`` to fulfil the wishes ``unmet``; else 0."""
    for j in bits(left):
        for met in case.ways(j):
            unmet &= ~met
    return max((_wish(plan, case, i, marks) for i in bits(unmet)), default=0)


def _rest(frame: ObjectFrame, seen: int, total: int, started: bool, met: int = 0) -> int:
    """From here to the end of the object: after a value, or (``started`` False) where a key may come at once. ``met``:
    wishes that are about to be fulfilled."""
    plan, marks = frame.plan, _marks(frame.plan, frame.depth)
    best: int | None = None
    for c in bits(frame.alive):
        case = plan.cases[c]
        left = case.left(seen)
        memo = _memo(plan)
        size = memo.get((c, left, frame.depth))
        if size is None:
            before = _cut[0]
            size = sum(_pair(plan, i, case.nodes[i]) + marks.colon + marks.comma for i in bits(left))
            if _cut[0] == before:
                memo[c, left, frame.depth] = size
        pairs = left.bit_count()
        if plan.wishing and frame.unmet & ~met:
            wish = _wishes(plan, case, left, frame.unmet & ~met, marks)
            if wish:
                size += wish + marks.comma
                pairs += 1
        missing = case.lo - total - pairs
        if missing > 0:
            size += missing * (SHORTEST_PAIR - 1 + marks.colon + marks.comma)
            pairs += missing
        if not started:
            size -= marks.comma if pairs else 0
        size += marks.close
        if best is None or size < best:
            best = size
    return best or 0


@distance.estimate.register
def _object(frame: ObjectFrame, outcome: int | None) -> int:
    plan, stage = frame.plan, frame.stage
    marks = _marks(plan, frame.depth)
    if outcome is None or stage == objects.CHOICE:
        return _rest(frame, frame.seen, frame.total, True)
    if stage == objects.AFTER:
        if outcome == objects.CLOSE:
            return 0
        least_pair = SHORTEST_PAIR - 1 + marks.colon + marks.close
        return max(_rest(frame, frame.seen, frame.total, False), least_pair) + marks.comma - marks.to_comma
    if stage in (objects.FIRST, objects.KEY):
        if outcome == objects.CLOSE:
            return 0
        i = outcome - 1
        seen = (2 << i) - 1 if plan.by_position else frame.seen | 1 << i
        needed = any(case.required >> i & 1 and case.nodes[i] for case in (plan.cases[c] for c in bits(frame.alive)))
        own, met = 1, 0
        if plan.wishing:
            for way in plan.cases[0].ways(i):
                met |= way
        if needed:
            nodes = [node for c in bits(frame.alive) if (node := plan.cases[c].nodes[i]) is not None]
            own = min(map(value, nodes), default=1)
        return marks.colon + own + _rest(frame, seen, frame.total + 1, True, met)
    if stage == objects.FRESH:
        case, met = plan.cases[frame.alive.bit_length() - 1], 0
        if plan.wishing:
            for way, classes in case.fresh_ways.items():
                met |= way if classes >> outcome & 1 else 0
        own = value(case.fresh.node(outcome))
        return marks.colon + own + _rest(frame, frame.seen, frame.total + 1, True, met)
    rest = _rest(frame, frame.seen, frame.total, True)
    inner = frame.value
    return rest if outcome == SCALAR or not isinstance(inner, Node) else inside(inner, outcome) + rest


@distance.promising.register
def _next_keys(frame: ObjectFrame, lengths: least.Ends) -> least.Ends:
    """Where keys do not affect each other, one of those that must come is as good as any, and no other helps."""
    plan = frame.plan
    if frame.stage not in (objects.FIRST, objects.KEY) or frame.alive & (frame.alive - 1):
        return lengths
    case = plan.cases[frame.alive.bit_length() - 1]
    if not case.plain:
        return lengths
    for i in bits(case.left(frame.seen)):
        if i + 1 in lengths:
            return {i + 1: lengths[i + 1]}
    return {objects.CLOSE: lengths[objects.CLOSE]} if objects.CLOSE in lengths else lengths


# ------------------------------------------------------------------------------------------------ arrays


def _missing(frame: ArrayFrame, at: int, matched: Sequence[int]) -> int:
    """So many more items must come."""
    plan = frame.plan
    wanted = [each.lo - n for each, n in zip(plan.contains, matched, strict=True)]
    return max([plan.min_items - at, *wanted, 0])


def _items(frame: ArrayFrame, at: int, matched: Sequence[int], number: int) -> int:
    """The values of so many items from ``at`` on, without marks."""
    plan = frame.plan
    size = 0
    while number > 0 and at < plan.length:
        size += value(plan.node(at))
        at, number = at + 1, number - 1
    if number > 0:
        plain = value(plan.node(at))
        size += number * plain
        if len(plan.contains) == 1 and at >= plan.length:
            wanted = min(plan.contains[0].lo - matched[0], number)
            if wanted > 0:
                size += wanted * max(value(plan.node(at, (True,))) - plain, 0)
    return size


def _tail(frame: ArrayFrame, at: int, matched: Sequence[int]) -> int:
    """From the end of an item to the end of the array."""
    marks = _marks(frame.plan, frame.depth)
    number = _missing(frame, at, matched)
    return number * marks.comma + _items(frame, at, matched, number) + marks.close


@distance.estimate.register
def _array(frame: ArrayFrame, outcome: int | None) -> int:
    plan = frame.plan
    if outcome is None:
        return _tail(frame, frame.at, frame.matched)
    if frame.stage == arrays.AFTER:
        if outcome == arrays.CLOSE:
            return 0
        marks = _marks(plan, frame.depth)
        number = max(_missing(frame, frame.at, frame.matched), 1)
        size = number * marks.comma + _items(frame, frame.at, frame.matched, number) + marks.close
        return size - marks.to_comma
    if outcome == arrays.CLOSES:
        return 0
    matched = plan.counted(frame.matched, frame.match) if frame.match else frame.matched
    tail = _tail(frame, frame.at + 1, matched)
    return tail if outcome in (SCALAR, arrays.SMALL) else inside(plan.node(frame.at, frame.match), outcome) + tail


@distance.leap.register
def _many(frame: ArrayFrame, cell: Cell, residual: Residual, outcome: int) -> tuple[bytes, Sequence[Thread]] | None:
    """All missing items but one, where they are alike."""
    plan = frame.plan
    if frame.stage != arrays.AFTER or outcome != arrays.COMMA or plan.contains or plan.remembers:
        return None
    number = plan.min_items - frame.at - 1
    layout = plan.forest.style.layout
    if number < LONG_ARRAY or frame.at < plan.length or layout.deeper(0):
        return None
    assert isinstance(residual, State)
    node = plan.node(frame.at)
    begun = node.item_state(frame.depth)
    if begun is None:
        return None
    found = distance.search([Thread(begun, Cell(Bottom(), None).push(_Item(node)))])
    if found.way is None:
        return None
    item = found.way.text()
    comma = least.word(plan.after_state(True, False, frame.depth).expr, arrays.COMMA)  # type: ignore[union-attr]
    data = least.word(residual.expr, outcome) + item + (comma + item) * (number - 1)
    after = frame._replace(at=frame.at + number)
    return data, after.threads(cell.replace(after))


class _Item:
    """A frame that starts one item and returns."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    @property
    def view(self) -> Node:
        return self.node

    def follow(self, cell: Cell, outcome: int, text: bytes | None) -> Sequence[Thread]:
        return cell.parent.resume() if outcome == SCALAR else self.node.enter(outcome, cell, 0)

    def resume(self, cell: Cell) -> Sequence[Thread]:
        return cell.parent.resume()
