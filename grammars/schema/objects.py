"""Objects: a case says what one alternative demands, a plan joins cases, a frame remembers the keys.

Keys that some alternative names are *declared*: their places are bits. All others are *fresh*: their text is
compared with the keys seen so far, so that no key occurs twice. Where some key must have a certain value (a *wish*,
``Rules.some``), a key is read in several ways: as one that fulfils the wish, and as one that need not.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from structgen.grammars.expr import alt, literal, seq, tagged
from structgen.grammars.machine import Cell, Thread
from structgen.grammars.residual import COMPLETE, FreshKey, Recorded, Residual, State, state
from structgen.grammars.schema.cases import ObjectCase
from structgen.grammars.schema.completion import Completion, Written, bits
from structgen.grammars.schema.fresh import Fresh, decode_key
from structgen.grammars.schema.scalars import QUOTE

if TYPE_CHECKING:
    from structgen.grammars.schema.nodes import Forest, Node

VIEW_LIMIT = 256
MAX_TOLD = 1_000
_NO_KEYS: frozenset[str] = frozenset()
UNKNOWN = "\ud800"
"""Stands for a key whose text is not known; no key holds half a surrogate pair."""

FIRST, KEY, FRESH, VALUE, CHOICE, AFTER = range(6)
CLOSE = 0  # outcome of a key terminal that closes instead; declared key i has outcome i + 1
COMMA = 1
SCALAR = 0


Ways = tuple[tuple[int, "Node"], ...]


class Position(NamedTuple):
    """What may come at one point of an object.

    Attributes:
        offer: declared keys, as bits.
        fresh: the cases in which a fresh key may come, as bits, by their ``Fresh``.
        close: the object may end.
        classes: the classes of fresh keys that may come, as bits; None: all.
        ways: where there are wishes, how each declared key that may come may be read: the wishes that it fulfils,
            and its node.
        fresh_ways: the same for each class of fresh keys.
    """

    offer: int
    fresh: tuple[tuple[Fresh, int], ...]
    close: bool
    classes: int | None = None
    ways: Mapping[int, Ways] = MappingProxyType({})
    fresh_ways: Mapping[int, Ways] = MappingProxyType({})


class ObjectPlan:
    """Alternatives written side by side: their declared keys are the bits of one set, and a frame knows which
    cases are still possible.

    Args:
        keys: declared keys of all cases; with a fixed order, in that order.
    """

    def __init__(self, forest: Forest, cases: list[ObjectCase], keys: tuple[str, ...]) -> None:
        self.forest = forest
        self.keys = keys
        self.cases = [Completion(case, keys) for case in cases]
        self.declared = frozenset(keys)
        self.any_order = forest.style.any_order
        self.counting = any(case.lo or case.hi is not None for case in self.cases)
        self.by_position = not self.any_order and not any(case.closure_of for case in self.cases)
        """Only the place in the order matters, not which keys were left out."""
        self._positions: dict[tuple[int, int, int, bool, int, frozenset[str]], Position] = {}
        self._keys: dict[tuple[int, bool, int], State | None] = {}
        self._after: dict[tuple[bool, bool, int], State | None] = {}
        self._choices: dict[tuple[tuple[Node, int], ...], State | None] = {}
        self._used_up: dict[tuple[int, int], bool] = {}
        self._telling: dict[frozenset[str], frozenset[str]] = {}
        self.wishing = bool(cases[0].wishes)
        """There are wishes; the plan has one case only."""
        self.bounded_fresh = any(
            not case.fresh.open or (self.wishing and bool(case.fresh.features)) for case in self.cases
        )
        self.count_limit = max((case.lo if case.hi is None else case.hi + 1 for case in self.cases), default=0)

    def opening(self, depth: int) -> ObjectFrame:
        unmet = (1 << len(self.cases[0].case.wishes)) - 1
        return ObjectFrame(self, FIRST, 0, frozenset(), 0, (1 << len(self.cases)) - 1, None, depth, unmet)

    def _reachable(self, seen: int, started: bool) -> int:
        """Declared keys that may still come by order."""
        everything = (1 << len(self.keys)) - 1
        if self.any_order:
            return everything & ~seen
        return 0 if started else everything & ~((1 << seen.bit_length()) - 1)

    def _skips(self, case: Completion, seen: int, index: int) -> bool:
        """Whether the key ``index`` comes, by order, after one that must come first."""
        return self.by_position and bool(case.required & self._reachable(seen, False) & ((1 << index) - 1))

    def _after_key(self, index: int, seen: int, count: int, extra: frozenset[str], unmet: int) -> Written:
        """After the declared key ``index``."""
        seen |= 1 << index
        return Written(seen, self._reachable(seen, bool(extra)), count + 1, extra, unmet=unmet)

    def _offered(self, case: Completion, seen: int, count: int, extra: frozenset[str]) -> int:
        reachable = case.usable & self._reachable(seen, bool(extra))
        if case.plain:
            if not self.any_order:
                left = case.required & self._reachable(seen, False)
                return reachable & (((left & -left) << 1) - 1) if left else reachable
            return reachable
        found = 0
        for i in bits(reachable):
            if self._skips(case, seen, i):
                break
            if case.possible(self._after_key(i, seen, count, extra, 0)):
                found |= 1 << i
        return found

    def position(self, alive: int, seen: int, count: int, extra: frozenset[str], unmet: int) -> Position:
        """What may come after the keys ``seen`` and ``extra``, when the wishes ``unmet`` are open."""
        key = (alive, seen, count, bool(extra), unmet, self.telling(extra))
        found = self._positions.get(key)
        if found is None:
            make = self._wished if self.wishing else self._position
            found = self._positions[key] = make(alive, seen, count, extra, unmet)
        return found

    def _position(self, alive: int, seen: int, count: int, extra: frozenset[str], unmet: int) -> Position:
        offer, close = 0, False
        fresh: dict[Fresh, int] = {}
        for c in bits(alive):
            case = self.cases[c]
            offer |= self._offered(case, seen, count, extra)
            close = close or self._closes(case, seen, count)
            if self._fresh_fits(case, seen, count, extra):
                fresh[case.fresh] = fresh.get(case.fresh, 0) | 1 << c
        return Position(offer, tuple(fresh.items()), close)

    def _closes(self, case: Completion, seen: int, count: int) -> bool:
        return not case.left(seen) and count >= case.lo and (case.hi is None or count <= case.hi)

    def _fresh_fits(self, case: Completion, seen: int, count: int, extra: frozenset[str]) -> bool:
        if case.hi is not None and count >= case.hi:
            return False
        reachable = self._reachable(seen, True)
        if case.left(seen) & ~(case.usable & reachable) or case.fresh.start(extra | self.declared, 0) is None:
            return False
        return case.possible(Written(seen, reachable, count + 1, extra, spent=0))

    def _wished(self, alive: int, seen: int, count: int, extra: frozenset[str], unmet: int) -> Position:
        """``_position`` of the only case, where there are wishes."""
        case = self.cases[0]
        ways: dict[int, Ways] = {}
        for i in bits(case.usable & self._reachable(seen, bool(extra))):
            if self._skips(case, seen, i):
                break
            found: dict[Node, int] = {}
            for met in case.case.readings(self.keys[i]):
                node = case.case.node(self.keys[i], met)
                assert node is not None
                # Fulfilling more leaves more open: of ways with the same values the first one will do.
                if node in found or not node.satisfiable:
                    continue
                if case.possible(self._after_key(i, seen, count, extra, unmet & ~met)):
                    found[node] = met
            if found:
                ways[i] = tuple((met, node) for node, met in found.items())
        fresh_ways: dict[int, Ways] = {}
        fresh, reachable = case.fresh, self._reachable(seen, True)
        taken = extra | self.declared
        for patterns in fresh.subsets:
            found = {}
            for met in fresh.readings(patterns):
                node = fresh.node(patterns, met)
                if node in found or not node.satisfiable:
                    continue
                after = Written(seen, reachable, count + 1, extra, patterns, unmet & ~met)
                if fresh.supplies(1 << patterns, 1, taken) and case.possible(after):
                    found[node] = met
            if found:
                fresh_ways[patterns] = tuple((met, node) for node, met in found.items())
        return Position(
            sum(1 << i for i in ways),
            ((fresh, alive),) if fresh_ways else (),
            not unmet and self._closes(case, seen, count),
            sum(1 << patterns for patterns in fresh_ways),
            ways,
            fresh_ways,
        )

    def telling(self, extra: frozenset[str]) -> frozenset[str]:
        """Those of the fresh keys seen that make a difference to what may follow."""
        if not self.bounded_fresh or not extra:
            return _NO_KEYS
        found = self._telling.get(extra)
        if found is None:
            found = extra
            if not self.wishing and not self.nearly_used_up(len(extra)):
                taken = extra | self.declared
                found = extra & frozenset().union(*[case.fresh.scarce(taken) for case in self.cases])
            if len(self._telling) > MAX_TOLD:
                self._telling.clear()
            self._telling[extra] = found
        return found

    def nearly_used_up(self, extra: int, kind: int = 0) -> bool:
        """Whether, after so many fresh keys, it may matter which of them one more of the class ``kind`` was."""
        if not self.bounded_fresh:
            return False
        wanted = extra + len(self.keys) + max(case.lo for case in self.cases) + len(self.cases[0].case.wishes) + 2
        wanted = 1 << wanted.bit_length()
        key = (wanted, kind if self.wishing else 0)
        found = self._used_up.get(key)
        if found is None:
            found = self._used_up[key] = any(case.fresh.few(wanted, kind) for case in self.cases)
        return found

    def key_state(self, offer: int, close: bool, first: bool, depth: int) -> State | None:
        """The terminal of a declared key, or of the end of an empty object."""
        key = (offer, close, depth)
        if key not in self._keys:
            layout, encoding = self.forest.style.layout, self.forest.style.encoding
            parts = []
            if offer:
                words = encoding.words({self.keys[i]: i + 1 for i in bits(offer)}, b'"')
                parts.append(seq(layout.before_item(depth), QUOTE, words))
            if close:
                parts.append(seq(layout.in_empty(), literal(b"}", CLOSE)))
            self._keys[key] = state(alt(*parts))
        return self._keys[key]

    def after_state(self, comma: bool, close: bool, depth: int) -> State | None:
        key = (comma, close, depth)
        if key not in self._after:
            layout = self.forest.style.layout
            parts = [seq(layout.before_mark(), literal(b",", COMMA))] if comma else []
            if close:
                parts.append(seq(layout.before_close(depth), literal(b"}", CLOSE)))
            self._after[key] = state(alt(*parts))
        return self._after[key]

    def choice_state(self, groups: tuple[tuple[Node, int], ...]) -> State | None:
        """The terminal of a scalar value on which cases part; its outcome says for which groups it fits."""
        if groups not in self._choices:
            layout = self.forest.style.layout
            lead = (layout.before_mark(), literal(b":"), layout.after_colon())
            scalars = [node.parts.scalars for node, _ in groups]
            self._choices[groups] = state(tagged(seq(*lead, alt(*scalars)), [seq(*lead, each) for each in scalars]))
        return self._choices[groups]

    def brackets_state(self, node: Node) -> State | None:
        layout = self.forest.style.layout
        return node.cached_state(
            "brackets", lambda: seq(layout.before_mark(), literal(b":"), layout.after_colon(), node.brackets)
        )


class ObjectFrame(NamedTuple):
    """An object being written.

    Attributes:
        seen: declared keys seen, as bits (with a fixed order: all up to the last one, when that is enough).
        extra: the other keys seen.
        total: the number of keys, where it matters.
        alive: the cases still possible, as bits.
        value: in stage VALUE the node of the value; in CHOICE the groups of nodes and cases.
        unmet: the wishes that are still open, as bits.
    """

    plan: ObjectPlan
    stage: int
    seen: int
    extra: frozenset[str]
    total: int
    alive: int
    value: Node | tuple[tuple[Node, int], ...] | None
    depth: int
    unmet: int = 0

    @property
    def view(self) -> Hashable:
        plan = self.plan
        extra: Hashable = (bool(self.extra), plan.telling(self.extra))
        count: Hashable = 0
        if plan.counting:
            count = tuple(
                (
                    min(max(case.lo - self.total, 0), VIEW_LIMIT),
                    VIEW_LIMIT if case.hi is None else min(case.hi - self.total, VIEW_LIMIT),
                )
                for case in plan.cases
            )
        return plan, self.stage, self.seen, extra, count, self.alive, self.value, self.depth, self.unmet

    def threads(self, cell: Cell) -> list[Thread]:
        """Threads at this stage; ``cell`` has this frame on top."""
        plan = self.plan
        position = self._position
        more = bool(position.offer or position.fresh)
        if self.stage == AFTER:
            after = plan.after_state(more, position.close, self.depth)
            return [] if after is None else [Thread(after, cell)]
        first = self.stage == FIRST
        found: list[Thread] = []
        begun = plan.key_state(position.offer, first and position.close, first, self.depth)
        if begun is not None:
            found.append(Thread(begun, cell))
        for fresh, alive in position.fresh:
            taken = self.extra | plan.declared
            start = fresh.start(taken, self.depth, position.classes)
            if start is not None:
                key: Residual = FreshKey(start, taken, decode_key)
                if plan.bounded_fresh and UNKNOWN in taken:
                    # Where it may lead depends on that key.
                    key = Recorded(key, b"", (), volatile=True)
                found.append(Thread(key, cell.replace(self._replace(stage=FRESH, alive=alive))))
        return found

    def follow(self, cell: Cell, outcome: int, text: bytes | None) -> Sequence[Thread]:
        stage = self.stage
        if stage == AFTER:
            if outcome == CLOSE:
                return cell.parent.resume()
            frame = self._replace(stage=KEY)
            return frame.threads(cell.replace(frame))
        if stage in (FIRST, KEY):
            if outcome == CLOSE:
                return cell.parent.resume()
            return self._declared(cell, outcome - 1)
        if stage == FRESH:
            return self._fresh(cell, outcome, text)
        if stage == CHOICE:
            groups = self.value
            assert isinstance(groups, tuple)
            alive = 0
            for i, (_, cases) in enumerate(groups):
                if outcome >> i & 1:
                    alive |= cases
            frame = self._replace(stage=AFTER, alive=alive, value=None)
            return frame.threads(cell.replace(frame))
        node = self.value
        assert node is not None
        assert not isinstance(node, tuple)
        frame = self._replace(stage=AFTER, value=None)
        below = cell.replace(frame)
        return frame.threads(below) if outcome == SCALAR else node.enter(outcome, below, self.depth)

    def resume(self, cell: Cell) -> Sequence[Thread]:
        return self.threads(cell)

    def _counted(self) -> int:
        return min(self.total + 1, self.plan.count_limit) if self.plan.counting else 0

    def _declared(self, cell: Cell, index: int) -> Sequence[Thread]:
        """A declared key has been read."""
        plan = self.plan
        seen = (2 << index) - 1 if plan.by_position else self.seen | 1 << index
        frame = self._replace(seen=seen, total=self._counted())
        if plan.wishing:
            return self._read(cell, frame, self._position.ways[index])
        groups: dict[Node, int] = {}
        for c in bits(self.alive):
            case = plan.cases[c]
            if plan._offered(case, self.seen, self.total, self.extra) >> index & 1:
                node = case.case.node(plan.keys[index])
                assert node is not None
                groups[node] = groups.get(node, 0) | 1 << c
        return _values(cell, frame, tuple(groups.items()))

    def _fresh(self, cell: Cell, outcome: int, text: bytes | None) -> Sequence[Thread]:
        """A key that is not declared has been read; ``outcome`` is its class."""
        plan = self.plan
        if text is None and plan.nearly_used_up(len(self.extra), outcome):
            # What may follow depends on which keys are left.
            return (Thread(COMPLETE, cell),)
        extra = self.extra | {UNKNOWN if text is None else decode_key(text)}
        frame = self._replace(extra=extra, total=self._counted())
        if plan.wishing:
            return self._read(cell, frame, self._position.fresh_ways[outcome])
        fresh = next(plan.cases[c].fresh for c in bits(self.alive))
        return _values(cell, frame, ((fresh.node(outcome), self.alive),))

    def _read(self, cell: Cell, frame: ObjectFrame, ways: Ways) -> Sequence[Thread]:
        """The ways to go on after a key, by the wishes that it fulfils."""
        found: list[Thread] = []
        for met, node in ways:
            found += _values(cell, frame._replace(unmet=self.unmet & ~met), ((node, self.alive),))
        return found

    @property
    def _position(self) -> Position:
        return self.plan.position(self.alive, self.seen, self.total, self.extra, self.unmet)

    def __repr__(self) -> str:
        return f"Object({['first', 'key', 'fresh', 'value', 'choice', 'after'][self.stage]} {self.seen:b})"


def _values(cell: Cell, frame: ObjectFrame, groups: tuple[tuple[Node, int], ...]) -> Sequence[Thread]:
    """Threads from the colon on; each group of cases has its own node."""
    plan = frame.plan
    found: list[Thread] = []
    if len(groups) == 1:
        node, alive = groups[0]
        begun = node.value_state()
        if begun is not None:
            below = cell.replace(frame._replace(stage=VALUE, alive=alive, value=node))
            found.append(Thread(node.guarded(begun), below))
        return found
    if any(node.parts.gated for node, _ in groups):  # what is checked is not joined
        return [thread for group in groups for thread in _values(cell, frame, (group,))]
    begun = plan.choice_state(groups)
    if begun is not None:
        found.append(Thread(begun, cell.replace(frame._replace(stage=CHOICE, value=groups))))
    for node, alive in groups:
        if node.has_containers:
            begun = plan.brackets_state(node)
            if begun is not None:
                found.append(Thread(begun, cell.replace(frame._replace(stage=VALUE, alive=alive, value=node))))
    return found


def plans_of(forest: Forest, cases: list[ObjectCase]) -> tuple[ObjectPlan, ...]:
    """As few plans as possible. In a fixed order cases can share a plan when their orders agree, and no key
    that one declares is a free one of another (it would have another place there)."""
    if len(cases) == 1:
        return (ObjectPlan(forest, cases, cases[0].keys),)
    named = dict.fromkeys(key for case in cases for key in case.keys)
    groups: list[_Group] = []
    for case in cases:
        free = frozenset() if forest.style.any_order else _free(case, named)
        for group in groups:
            if not case.wishes and not group.members[0].wishes and (forest.style.any_order or group.takes(case, free)):
                group.add(case, free)
                break
        else:
            groups.append(_Group(case, free))
    return tuple(ObjectPlan(forest, group.members, tuple(group.keys)) for group in groups)


def _free(case: ObjectCase, keys: Iterable[str]) -> frozenset[str]:
    """Those of the ``keys`` that the case does not declare and still allows."""
    own = frozenset(case.keys)
    nodes = {key: case.node(key) for key in keys if key not in own}
    return frozenset(key for key, node in nodes.items() if node is not None and node.satisfiable)


class _Group:
    """Cases that share a plan: their keys in order, and those that are free in one of them."""

    def __init__(self, case: ObjectCase, free: frozenset[str]) -> None:
        self.members = [case]
        self.keys = dict.fromkeys(case.keys)
        self.free = set(free)

    def add(self, case: ObjectCase, free: frozenset[str]) -> None:
        self.members.append(case)
        self.keys.update(dict.fromkeys(case.keys))
        self.free |= free

    def takes(self, case: ObjectCase, free: frozenset[str]) -> bool:
        common = [key for key in case.keys if key in self.keys]
        declared = set(common)
        if common != [key for key in self.keys if key in declared]:
            return False
        # New keys go to the end, so they must be at the end here too.
        if case.keys[: len(common)] != tuple(common):
            return False
        return self.free.isdisjoint(case.keys) and free.isdisjoint(self.keys)
