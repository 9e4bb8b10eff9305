"""Nodes: conjunctions of subschemas that values are generated for.

A node is interned by its places, so ``allOf``, ``$ref`` with siblings and a property that several subschemas
talk about are plain unions, and recursion meets itself. Everything about a node is computed when first asked.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from structgen.errors import GrammarTooComplex
from structgen.grammars.encoding import Encoding
from structgen.grammars.expr import NEVER, Expr, alt, literal, seq
from structgen.grammars.machine import Cell, Frame, Gate, Thread
from structgen.grammars.residual import Checked, Recorded, Residual, State, state, when_replaced
from structgen.grammars.schema.arrays import ArrayPlan
from structgen.grammars.schema.cases import ObjectCase
from structgen.grammars.schema.distinct import parsed
from structgen.grammars.schema.document import Place
from structgen.grammars.schema.expand import Conjunction, expand
from structgen.grammars.schema.fresh import spellable
from structgen.grammars.schema.keywords import (
    ARRAY,
    BOOLEAN,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    Rules,
    exact,
)
from structgen.grammars.schema.layout import Layout
from structgen.grammars.schema.literals import accepts, plainly_satisfies, same_value, satisfies
from structgen.grammars.schema.negation import container_equal
from structgen.grammars.schema.objects import ObjectPlan, plans_of
from structgen.grammars.schema.scalars import QUOTE, literals, number_expr, spells_integers, string_body

SCALAR, OPENS_OBJECT, OPENS_ARRAY, CLOSES = range(4)
"""Outcomes of a terminal that starts a value (CLOSES: or closes the container instead)."""

MAX_NODES = 20_000

_OPEN = {OPENS_OBJECT: literal(b"{", OPENS_OBJECT), OPENS_ARRAY: literal(b"[", OPENS_ARRAY)}


class Style(NamedTuple):
    """How values are written."""

    encoding: Encoding
    layout: Layout
    any_order: bool
    any_numbers: bool = False


class Forest:
    """The nodes of one document in one style."""

    def __init__(self, style: Style) -> None:
        self.style = style
        self._nodes: dict[tuple[Place, ...], Node] = {}
        self._fresh: dict[Any, Any] = {}

    def node(self, places: Iterable[Place]) -> Node:
        """The node of the conjunction of ``places``."""
        found: dict[Place, None] = {}
        for place in places:
            for _ in range(64):
                if place.rules.alias is None:
                    break
                place = place.rules.alias
            if not place.rules.empty:
                found[place] = None
        key = tuple(found)
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = Node(self, key) if key else any_value(self.style)
        return node

    def interned(self, key: Any, make: Callable[[], Any]) -> Any:
        found = self._fresh.get(key)
        if found is None:
            found = self._fresh[key] = make()
        return found


@lru_cache(maxsize=16)
def any_value(style: Style) -> Node:
    """The node of every value, shared by all grammars of a style."""
    forest = Forest(style)
    forest._nodes[()] = node = Node(forest, ())
    return node


when_replaced(any_value.cache_clear)


class _Parts(NamedTuple):
    scalars: Expr
    texts: Expr
    """The insides of the strings among the scalars."""
    cases: tuple[ObjectCase, ...]
    arrays: tuple[ArrayPlan, ...]
    gated: bool
    """Values are to be checked when they close."""


class Node:
    """A conjunction of subschemas."""

    __slots__ = ("_body", "_parts", "_plans", "_sat", "_states", "forest", "places")

    def __init__(self, forest: Forest, places: tuple[Place, ...]) -> None:
        self.forest = forest
        self.places = places
        self._parts: _Parts | None = None
        self._sat: bool | None = None
        self._body: Expr | None = None
        self._plans: tuple[ObjectPlan, ...] | None = None
        self._states: dict[Any, State | None] = {}

    @property
    def parts(self) -> _Parts:
        if self._parts is None:
            try:
                self._parts = self._split()
            except GrammarTooComplex as error:
                raise self._placed(error) from None
        return self._parts

    def _placed(self, error: GrammarTooComplex) -> GrammarTooComplex:
        """``error`` with the pointer of a subschema here, if it has none."""
        if error.pointer is not None or not self.places:
            return error
        return GrammarTooComplex(str(error), pointer=self.places[0].pointer)

    def _split(self) -> _Parts:
        encoding, any_numbers = self.forest.style.encoding, self.forest.style.any_numbers
        scalars: list[Expr] = []
        texts: list[Expr] = []
        cases: dict[frozenset[Rules], ObjectCase] = {}
        arrays: dict[frozenset[Rules], ArrayPlan] = {}
        todo = expand(self.places)[::-1]
        gated = any(each.gated for each in todo)
        while todo:
            types, rules, unsure = todo.pop()
            if any(rule.values is not None for rule in rules):
                flat, equal = _allowed(rules, satisfies if unsure else plainly_satisfies)
                scalars.append(literals(flat, encoding, any_numbers and not spells_integers(rules)))
                words = {v: 0 for v in flat if isinstance(v, str) and spellable(v)}
                if words:
                    texts.append(encoding.words(words))
                todo += equal[::-1]
                continue
            excluded = [value for rule in rules for value in rule.excluded]
            for kind, values in ((NULL, (None,)), (BOOLEAN, (True, False))):
                if types & kind:
                    scalars.append(
                        literals([v for v in values if not any(same_value(v, x) for x in excluded)], encoding)
                    )
            if types & NUMBER:
                numbers = [
                    exact(v) for v in excluded if isinstance(v, (int, float, Decimal)) and not isinstance(v, bool)
                ]
                scalars.append(number_expr(types, rules, numbers, any_numbers))
            if types & STRING:
                body = string_body(rules, encoding, [v for v in excluded if isinstance(v, str) and spellable(v)])
                texts.append(body)
                scalars.append(seq(QUOTE, body, QUOTE))
            if types & OBJECT:
                about = tuple(rule for rule in rules if rule.on_objects)
                if frozenset(about) not in cases:
                    cases[frozenset(about)] = ObjectCase(self.forest, about)
            if types & ARRAY:
                about = tuple(rule for rule in rules if rule.on_arrays)
                if frozenset(about) not in arrays:
                    arrays[frozenset(about)] = ArrayPlan(self.forest, about)
        scalar, text = alt(*scalars) if scalars else NEVER, alt(*texts) if texts else NEVER
        return _Parts(scalar, text, tuple(cases.values()), tuple(arrays.values()), gated)

    @property
    def containers(self) -> list[ObjectCase | ArrayPlan]:
        return [*self.parts.cases, *self.parts.arrays]

    @property
    def has_scalars(self) -> bool:
        try:
            return state(self.parts.scalars) is not None
        except GrammarTooComplex as error:
            raise self._placed(error) from None

    @property
    def has_containers(self) -> bool:
        return bool(self.objects or self.arrays)

    @property
    def satisfiable(self) -> bool:
        """Whether any value satisfies the node (a least fixpoint over required members)."""
        if self._sat is None:
            only = self.places[0] if len(self.places) == 1 else None
            if only is not None and (only.document.has_values(only) or _plainly_satisfiable(only.rules)):
                self._sat = True
            elif any(place.contents is False for place in self.places):
                self._sat = False
            else:
                _decide(self)
        assert self._sat is not None
        return self._sat

    @property
    def objects(self) -> tuple[ObjectPlan, ...]:
        if self._plans is None:
            cases = [case for case in self.parts.cases if case.feasible(_is_satisfiable)]
            self._plans = plans_of(self.forest, cases)
        return self._plans

    @property
    def arrays(self) -> list[ArrayPlan]:
        return [plan for plan in self.parts.arrays if plan.feasible(_is_satisfiable)]

    @property
    def body(self) -> Expr:
        """Every start of a value: a whole scalar, or an opening bracket (see the outcomes above)."""
        if self._body is None:
            parts = [self.parts.scalars] if self.has_scalars else []
            if self.objects:
                parts.append(_OPEN[OPENS_OBJECT])
            if self.arrays:
                parts.append(_OPEN[OPENS_ARRAY])
            self._body = alt(*parts)
        return self._body

    @property
    def brackets(self) -> Expr:
        """The starts of containers alone."""
        return alt(*([_OPEN[OPENS_OBJECT]] if self.objects else []), *([_OPEN[OPENS_ARRAY]] if self.arrays else []))

    def guarded(self, begun: State) -> Residual:
        """``begun``, a terminal that starts with blanks (and a colon) and ends with a value of this node: with a check
        of its scalars, where the node is gated."""
        return Checked(begun, Check(self.places), SCALAR) if self.parts.gated else begun

    def cached_state(self, key: Any, make: Callable[[], Expr]) -> State | None:
        """A terminal built from this node."""
        try:
            return self._states[key]
        except KeyError:
            found = self._states[key] = state(make())
            return found

    def value_state(self) -> State | None:
        """The terminal from a colon to the value."""
        layout = self.forest.style.layout
        return self.cached_state(
            "value", lambda: seq(layout.before_mark(), literal(b":"), layout.after_colon(), self.body)
        )

    def first_item_state(self, depth: int, may_close: bool) -> State | None:
        """The terminal after an opening square bracket."""
        layout = self.forest.style.layout

        def make() -> Expr:
            item = seq(layout.before_item(depth), self.body)
            return alt(item, seq(layout.in_empty(), literal(b"]", CLOSES))) if may_close else item

        return self.cached_state(("first", depth, may_close), make)

    def item_state(self, depth: int) -> State | None:
        """The terminal after a comma in an array."""
        layout = self.forest.style.layout
        return self.cached_state(("item", depth), lambda: seq(layout.before_item(depth), self.body))

    def enter(self, outcome: int, cell: Cell, depth: int) -> list[Thread]:
        """Threads inside a container that this node opened; ``cell`` is the stack to come back to."""
        if self.parts.gated:
            return self._enter_gated(outcome, cell, depth)
        return self._inside(outcome, cell, depth)

    def _enter_gated(self, outcome: int, cell: Cell, depth: int) -> list[Thread]:
        gate = _ValueGate(Check(self.places))
        bracket = b"{" if outcome == OPENS_OBJECT else b"["
        found: list[Thread] = []
        for residual, above in self._inside(outcome, cell.push(gate), depth):
            if isinstance(residual, Recorded):  # the first item of an array that remembers its items
                marks = ((0, cell.depth), *((offset + 1, at) for offset, at in residual.marks))
                inner = residual.inner
                made = Recorded(inner, bracket + residual.text, marks, residual.wanted, residual.volatile)
            else:
                made = Recorded(residual, bracket, ((0, cell.depth),))
            found.append(Thread(made, above))
        return found

    def _inside(self, outcome: int, cell: Cell, depth: int) -> list[Thread]:
        found: list[Thread] = []
        depth = self.forest.style.layout.deeper(depth)
        frame: Frame
        if outcome == OPENS_OBJECT:
            for plan in self.objects:
                frame = plan.opening(depth)
                found += frame.threads(cell.push(frame))
        else:
            for array in self.arrays:
                frame = array.opening(depth)
                found += frame.threads(cell.push(frame))
        return found

    def __repr__(self) -> str:
        return f"Node({', '.join(place.pointer for place in self.places)})"


@dataclass(frozen=True)
class Check:
    """Whether the text of a value satisfies subschemas, by a plain validator."""

    places: tuple[Place, ...]

    def __call__(self, text: bytes) -> bool:
        value = parsed(text.lstrip(b" \t\r\n:"))
        return all(accepts(place, value) for place in self.places)


class _ValueGate(Gate):
    """Above the owner of a gated array or object."""

    __slots__ = ("check",)

    def __init__(self, check: Check) -> None:
        self.check = check

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ValueGate) and self.check == other.check

    def __hash__(self) -> int:
        return hash((_ValueGate, self.check))

    def admit(self, cell: Cell, text: bytes) -> Sequence[Thread]:
        return cell.parent.resume() if self.check(text) else ()


def _allowed(
    rules: tuple[Rules, ...], judge: Callable[[Rules, Any], bool]
) -> tuple[list[Any], list[Conjunction]]:
    """The values of the enums and consts that satisfy all rules: scalars, and containers as conjunctions."""
    shortest = min((rule for rule in rules if rule.values is not None), key=lambda rule: len(rule.values or ()))
    plain = [rule for rule in rules if rule is not shortest or _more_than_values(rule)]
    flat: list[Any] = []
    equal: list[Conjunction] = []
    for value in shortest.values or ():
        try:
            fits = all(judge(rule, value) for rule in plain)
        except RecursionError:
            raise GrammarTooComplex("a value is nested too deeply", pointer=shortest.place.pointer) from None
        if not fits:
            continue
        if isinstance(value, (dict, list, tuple)):
            place = container_equal(shortest.place, value)
            equal.append(Conjunction(place.rules.types, (place.rules,)))
        else:
            flat.append(value)
    return flat, equal


def _more_than_values(rule: Rules) -> bool:
    return rule.enforced not in (["enum"], ["const"])


def explore(root: Node, most: int = MAX_NODES) -> None:
    """Look at the nodes below ``root``, ``most`` of them, so that what is beyond a limit is refused now and not in the
    middle of a text. Raises GrammarTooComplex, also when there are too many of them at all."""
    seen, queue = {root}, [root]
    for node in queue:
        below: list[Node | None] = []
        for case in node.parts.cases:
            below += case.everything()
            case.fresh.check()
        for array in node.parts.arrays:
            below += array.everything()
            if array.contains:
                array.feasible(_is_satisfiable)
        node.has_scalars  # noqa: B018 - what is said of texts and numbers is read together
        for each in below:
            if each is not None and each not in seen:
                seen.add(each)
                queue.append(each)
        if len(seen) > most:
            if most < MAX_NODES:
                return
            raise GrammarTooComplex(f"the schema's keywords combine into more than {MAX_NODES} subschemas")


_HARMLESS = {
    *("place", "enforced", "annotations", "gated", "outline", "groups", "decisive", "contained"),
    *("properties", "pattern_properties", "additional", "names", "max_properties", "prefix", "items", "max_items"),
    *("unique", "max_length", "types"),
}


def _plainly_satisfiable(rules: Rules) -> bool:
    """Whether it is in plain sight that a smallest value of each type is allowed: ``{}``, ``[]``, ``""``, 0, ..."""
    return bool(rules.types) and not rules.gated and set(vars(rules)) <= _HARMLESS


def _is_satisfiable(node: Node) -> bool:
    return node.satisfiable


def _decide(root: Node) -> None:
    """Decide ``satisfiable`` for ``root``. The first container that works is enough, so most of a large schema
    is not even looked at; where the search meets a node that it is still busy with, it may have to be
    repeated as a fixpoint over all that ``root`` depends on."""
    busy, unsure = {root}, set[Node]()
    stack = [(root, iter(_ways(root)), [False])]
    while stack:
        node, ways, met_busy = stack[-1]
        if node._sat is None:
            for each in ways:
                below = None
                for below_node in each.inputs():
                    if below_node._sat is None:
                        if below_node in busy or below_node in unsure:
                            met_busy[0] = True
                        else:
                            below = below_node
                            break
                if below is not None:
                    # Come back to the same container when this input is decided.
                    busy.add(below)
                    stack[-1] = (node, itertools.chain([each], ways), met_busy)
                    stack.append((below, iter(_ways(below)), [False]))
                    break
                if each.feasible(_known):
                    node._sat = True
                    break
            else:
                if met_busy[0]:
                    unsure.add(node)
                else:
                    node._sat = False
            if stack[-1][0] is not node:
                continue
        stack.pop()
        busy.discard(node)
        if stack and node in unsure:
            stack[-1][2][0] = True
    if root._sat is None:
        _fixpoint(root)


def _ways(node: Node) -> list[ObjectCase | ArrayPlan]:
    """The containers by which ``node`` may have values; settles it when a scalar is enough."""
    if node._sat is None and node.has_scalars:
        node._sat = True
    return [] if node._sat is not None else node.containers


def _fixpoint(root: Node) -> None:
    order: list[Node] = []
    seen, queue = {root}, [root]
    while queue:
        node = queue.pop()
        ways = _ways(node)
        if node._sat is not None:
            continue
        order.append(node)
        for each in ways:
            for below in each.inputs():
                if below._sat is None and below not in seen:
                    seen.add(below)
                    queue.append(below)
    changed = True
    while changed:
        changed = False
        for node in reversed(order):
            if node._sat is None and any(each.feasible(_known) for each in node.containers):
                node._sat = changed = True
    for node in order:
        if node._sat is None:
            node._sat = False


def _known(node: Node) -> bool:
    return node._sat is True
