"""Objects: a case says what one alternative demands, a plan joins cases, a frame remembers the keys.

Keys that some alternative names are *declared*: their places are bits. All others are *fresh*: their text is
compared with the keys seen so far, so that no key occurs twice.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from structgen.errors import UnsupportedGrammar
from structgen.grammars.expr import alt, literal, seq, tagged
from structgen.grammars.machine import Cell, Thread
from structgen.grammars.residual import FreshKey, State, state
from structgen.grammars.schema.fresh import Fresh, decode_key
from structgen.grammars.schema.keywords import Rules
from structgen.grammars.schema.literals import accepts, places_for
from structgen.grammars.schema.scalars import QUOTE

if TYPE_CHECKING:
    from structgen.grammars.schema.nodes import Forest, Node

VIEW_LIMIT = 256

FIRST, KEY, FRESH, VALUE, CHOICE, AFTER = range(6)
CLOSE = 0  # outcome of a key terminal that closes instead; declared key i has outcome i + 1
COMMA = 1
SCALAR = 0


class ObjectCase:
    """What one conjunction demands of an object."""

    def __init__(self, forest: Forest, rules: tuple[Rules, ...]) -> None:
        self.forest = forest
        self.rules = rules
        self.min_properties = max((rule.min_properties for rule in rules), default=0)
        limits = [rule.max_properties for rule in rules if rule.max_properties is not None]
        self.max_properties = min(limits) if limits else None
        self.required: dict[str, None] = {key: None for rule in rules for key in rule.required}
        self.dependents: dict[str, tuple[str, ...]] = {}
        for rule in rules:
            for key, wanted in (rule.dependents or {}).items():
                self.dependents[key] = self.dependents.get(key, ()) + tuple(w for w in wanted if w != key)
        self.dependents = {key: wanted for key, wanted in self.dependents.items() if wanted}
        self.names = tuple(dict.fromkeys(place for rule in rules for place in rule.names))
        keys: dict[str, None] = {}
        for rule in rules:
            keys.update(dict.fromkeys(rule.properties or ()))
        keys.update(self.required)
        for key, wanted in self.dependents.items():
            keys[key] = None
            keys.update(dict.fromkeys(wanted))
        self.keys = tuple(keys)
        self._nodes: dict[str, Node | None] = {}
        if self.dependents and self.min_properties and self.max_properties is not None:
            raise UnsupportedGrammar(
                "dependentRequired with both minProperties and maxProperties is not built yet",
                pointer=rules[0].place.pointer,
            )
        self.fresh = self._make_fresh()

    def _make_fresh(self) -> Fresh:
        patterns: dict[str, int] = {}
        layers = []
        for rule in self.rules:
            if not rule.pattern_properties and (rule.additional is None or rule.additional.rules.empty):
                continue
            pairs = tuple(
                (patterns.setdefault(pattern, len(patterns)), place)
                for pattern, place in (rule.pattern_properties or {}).items()
            )
            layers.append((pairs, rule.additional))
        names = self.forest.node(self.names) if self.names else None
        key = (tuple(patterns), tuple(layers), names)
        made: Fresh = self.forest.interned(key, lambda: Fresh(self.forest, tuple(patterns), tuple(layers), names))
        return made

    def node(self, key: str) -> Node | None:
        """The node of the value of ``key``; None when the key itself is forbidden by propertyNames."""
        if key not in self._nodes:
            allowed = all(accepts(place, key) for place in self.names)
            places = [place for rule in self.rules for place in places_for(rule, key)]
            self._nodes[key] = self.forest.node(places) if allowed and _spellable(key) else None
        return self._nodes[key]

    def inputs(self) -> list[Node]:
        """Nodes whose satisfiability decides that of the case."""
        keys = self.keys if self.min_properties or self.dependents else tuple(self.required)
        found = [node for key in keys if (node := self.node(key)) is not None]
        if self.min_properties > len(self.required):
            found += self.fresh.inputs()
        return found

    def needs(self, keys: Iterator[str] | list[str]) -> set[str]:
        """The keys, and all that they depend on."""
        found: set[str] = set()
        queue = list(keys)
        while queue:
            key = queue.pop()
            if key not in found:
                found.add(key)
                queue.extend(self.dependents.get(key, ()))
        return found

    def feasible(self, truth: Callable[[Node], bool]) -> bool:
        """Whether an object exists, given which nodes have values."""
        need = self.needs(list(self.required))
        if self.max_properties is not None and max(len(need), self.min_properties) > self.max_properties:
            return False
        for key in need:
            node = self.node(key)
            if node is None or not truth(node):
                return False
        if self.min_properties <= len(need):
            return True
        usable = {key for key in self.keys if (node := self.node(key)) is not None and truth(node)}
        usable = {key for key in usable if self.needs([key]) <= usable}
        return len(usable) >= self.min_properties or self.fresh.at_least(
            self.min_properties - len(usable), frozenset(self.keys), truth
        )


def _spellable(text: str) -> bool:
    return not any(0xD800 <= ord(char) <= 0xDFFF for char in text)


class _PlanCase:
    """A case with its keys as bits of the plan."""

    __slots__ = ("case", "closure_of", "fresh", "hi", "lo", "nodes", "required", "usable")

    def __init__(self, case: ObjectCase, keys: tuple[str, ...]) -> None:
        index = {key: i for i, key in enumerate(keys)}
        self.case = case
        self.fresh = case.fresh
        self.lo, self.hi = case.min_properties, case.max_properties
        self.required = sum(1 << index[key] for key in case.required)
        self.nodes = [case.node(key) for key in keys]
        usable = sum(1 << i for i, node in enumerate(self.nodes) if node is not None and node.satisfiable)
        self.closure_of: dict[int, int] = {}
        for key in case.dependents:
            needs = sum(1 << index[each] for each in case.needs([key]))
            self.closure_of[index[key]] = needs
            if needs & ~usable:
                usable &= ~(1 << index[key])
        self.usable = usable

    def closure(self, keys: int) -> int:
        found = keys
        for i, needs in self.closure_of.items():
            if keys >> i & 1:
                found |= needs
        return found

    @property
    def plain(self) -> bool:
        return not self.closure_of and not self.lo and self.hi is None


class Position(NamedTuple):
    """What may come at one point of an object.

    Attributes:
        offer: declared keys, as bits.
        fresh: the cases in which a fresh key may come, as bits, by their ``Fresh``.
        close: the object may end.
    """

    offer: int
    fresh: tuple[tuple[Fresh, int], ...]
    close: bool


class ObjectPlan:
    """Alternatives written side by side: their declared keys are the bits of one set, and a frame knows which
    cases are still possible.

    Args:
        keys: declared keys of all cases; with a fixed order, in that order.
    """

    def __init__(self, forest: Forest, cases: list[ObjectCase], keys: tuple[str, ...]) -> None:
        self.forest = forest
        self.keys = keys
        self.cases = [_PlanCase(case, keys) for case in cases]
        self.declared = frozenset(keys)
        self.any_order = forest.style.any_order
        self.counting = any(case.lo or case.hi is not None for case in self.cases)
        self.by_position = not self.any_order and not any(case.closure_of for case in self.cases)
        """Only the place in the order matters, not which keys were left out."""
        self._positions: dict[tuple[int, int, int, bool, frozenset[str] | None], Position] = {}
        self._keys: dict[tuple[int, bool, int], State | None] = {}
        self._after: dict[tuple[bool, bool, int], State | None] = {}
        self._choices: dict[tuple[tuple[Node, int], ...], State | None] = {}
        self.bounded_fresh = any(not case.fresh.open for case in self.cases)
        self.count_limit = max((case.lo if case.hi is None else case.hi + 1 for case in self.cases), default=0)

    def opening(self, depth: int) -> ObjectFrame:
        return ObjectFrame(self, FIRST, 0, frozenset(), 0, (1 << len(self.cases)) - 1, None, depth)

    def _reachable(self, seen: int, started: bool) -> int:
        """Declared keys that may still come by order."""
        everything = (1 << len(self.keys)) - 1
        if self.any_order:
            return everything & ~seen
        return 0 if started else everything & ~((1 << seen.bit_length()) - 1)

    def _viable(
        self, case: _PlanCase, seen: int, count: int, started: bool, extra: frozenset[str], more: int = 0
    ) -> bool:
        """Whether the object can be completed (``more``: fresh keys just written, not yet in ``extra``)."""
        if self.by_position:
            left = case.required & self._reachable(seen, False)
        else:
            left = case.closure(seen | case.required) & ~seen
        reachable = case.usable & self._reachable(seen, started)
        if left & ~reachable:
            return False
        must = left.bit_count()
        if case.hi is not None and count + must > case.hi:
            return False
        if count + must >= case.lo:
            return True
        optional = [i for i in _bits(reachable) if not case.closure_of.get(i, 0) & ~(seen | reachable)]
        if count + len(optional) >= case.lo:
            return True
        return case.fresh.at_least(case.lo - count - len(optional) + more, extra | self.declared)

    def _offered(self, case: _PlanCase, seen: int, count: int, started: bool, extra: frozenset[str]) -> int:
        reachable = case.usable & self._reachable(seen, started)
        if case.plain:
            left = case.required & ~seen
            if not self.any_order:
                left = case.required & self._reachable(seen, False)
                return reachable & (((left & -left) << 1) - 1) if left else reachable
            return reachable
        found = 0
        for i in _bits(reachable):
            after = seen | 1 << i
            if not self.any_order and self.by_position:
                skipped = case.required & self._reachable(seen, False) & ((1 << i) - 1)
                if skipped:
                    break
            if self._viable(case, after, count + 1, started, extra):
                found |= 1 << i
        return found

    def position(self, alive: int, seen: int, count: int, extra: frozenset[str]) -> Position:
        """What may come after the keys ``seen`` and ``extra``."""
        started = bool(extra)
        key = (alive, seen, count, started, extra if self.bounded_fresh else None)
        found = self._positions.get(key)
        if found is None:
            found = self._positions[key] = self._position(alive, seen, count, extra)
        return found

    def _position(self, alive: int, seen: int, count: int, extra: frozenset[str]) -> Position:
        started = bool(extra)
        offer, close = 0, False
        fresh: dict[Fresh, int] = {}
        for c in _bits(alive):
            case = self.cases[c]
            offer |= self._offered(case, seen, count, started, extra)
            left = case.closure(seen | case.required) & ~seen
            if self.by_position:
                left = case.required & self._reachable(seen, False)
            close = close or (not left and count >= case.lo and (case.hi is None or count <= case.hi))
            if not left & ~(case.usable & self._reachable(seen, True)) and self._fresh_fits(case, seen, count, extra):
                fresh[case.fresh] = fresh.get(case.fresh, 0) | 1 << c
        return Position(offer, tuple(fresh.items()), close)

    def _fresh_fits(self, case: _PlanCase, seen: int, count: int, extra: frozenset[str]) -> bool:
        if case.hi is not None and count >= case.hi:
            return False
        if case.fresh.start(extra | self.declared, 0) is None:
            return False
        return self._viable(case, seen, count + 1, True, extra, more=1)

    def key_state(self, offer: int, close: bool, first: bool, depth: int) -> State | None:
        """The terminal of a declared key, or of the end of an empty object."""
        key = (offer, close, depth)
        if key not in self._keys:
            layout, encoding = self.forest.style.layout, self.forest.style.encoding
            parts = []
            if offer:
                words = encoding.words({self.keys[i]: i + 1 for i in _bits(offer)}, b'"')
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


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class ObjectFrame(NamedTuple):
    """An object being written.

    Attributes:
        seen: declared keys seen, as bits (with a fixed order: all up to the last one, when that is enough).
        extra: the other keys seen.
        total: the number of keys, where it matters.
        alive: the cases still possible, as bits.
        value: in stage VALUE the node of the value; in CHOICE the groups of nodes and cases.
    """

    plan: ObjectPlan
    stage: int
    seen: int
    extra: frozenset[str]
    total: int
    alive: int
    value: Node | tuple[tuple[Node, int], ...] | None
    depth: int

    @property
    def view(self) -> Hashable:
        plan = self.plan
        extra: Hashable = self.extra if plan.bounded_fresh else bool(self.extra)
        count: Hashable = 0
        if plan.counting:
            count = tuple(
                (
                    min(max(case.lo - self.total, 0), VIEW_LIMIT),
                    VIEW_LIMIT if case.hi is None else min(case.hi - self.total, VIEW_LIMIT),
                )
                for case in plan.cases
            )
        return plan, self.stage, self.seen, extra, count, self.alive, self.value, self.depth

    def threads(self, cell: Cell) -> list[Thread]:
        """Threads at this stage; ``cell`` has this frame on top."""
        plan = self.plan
        position = plan.position(self.alive, self.seen, self.total, self.extra)
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
            start = fresh.start(taken, self.depth)
            if start is not None:
                frame = self._replace(stage=FRESH, alive=alive)
                found.append(Thread(FreshKey(start, taken, decode_key), cell.replace(frame)))
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
        groups: dict[Node, int] = {}
        for c in _bits(self.alive):
            case = plan.cases[c]
            if plan._offered(case, self.seen, self.total, bool(self.extra), self.extra) >> index & 1:
                node = case.nodes[index]
                assert node is not None
                groups[node] = groups.get(node, 0) | 1 << c
        seen = (2 << index) - 1 if plan.by_position else self.seen | 1 << index
        frame = self._replace(seen=seen, total=self._counted())
        return _values(cell, frame, tuple(groups.items()))

    def _fresh(self, cell: Cell, outcome: int, text: bytes | None) -> Sequence[Thread]:
        """A key that is not declared has been read; ``outcome`` holds the patterns that it matches."""
        extra = self.extra | {decode_key(text)} if text is not None else self.extra | {""}
        fresh = next(self.plan.cases[c].fresh for c in _bits(self.alive))
        frame = self._replace(extra=extra, total=self._counted())
        return _values(cell, frame, ((fresh.node(outcome), self.alive),))

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
            found.append(Thread(begun, cell.replace(frame._replace(stage=VALUE, alive=alive, value=node))))
        return found
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
    groups: list[tuple[list[ObjectCase], dict[str, None]]] = []
    for case in cases:
        for members, keys in groups:
            if forest.style.any_order or _agree(members, keys, case):
                members.append(case)
                keys.update(dict.fromkeys(case.keys))
                break
        else:
            groups.append(([case], dict.fromkeys(case.keys)))
    return tuple(ObjectPlan(forest, members, tuple(keys)) for members, keys in groups)


def _agree(members: list[ObjectCase], keys: dict[str, None], case: ObjectCase) -> bool:
    common = [key for key in case.keys if key in keys]
    if common != [key for key in keys if key in set(common)]:
        return False
    # New keys go to the end, so they must be at the end here too.
    if case.keys[: len(common)] != tuple(common):
        return False
    return all(_foreign(member, case.keys) and _foreign(case, member.keys) for member in members)


def _foreign(case: ObjectCase, keys: tuple[str, ...]) -> bool:
    """Whether keys that the case does not declare are impossible in it."""
    own = set(case.keys)
    for key in keys:
        if key not in own:
            node = case.node(key)
            if node is not None and node.satisfiable:
                return False
    return True
