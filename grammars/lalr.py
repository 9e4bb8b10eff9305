"""LR frames: the stack of an LALR(1) parser, one cell a state.

``Tables`` is a parse table in numbers, with the scanner of each state. A terminal is usable (**viable**) when the
parser can shift it after its reductions; that depends on the stack and is what masks need: the table of an LALR
parser alone would allow terminals that it refuses a few reductions later.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from structgen.grammars.expr import EPSILON, NEVER, Expr
from structgen.grammars.lexer import IGNORED, TRUE, Automaton, Cond, Item, Outcome, is_alive
from structgen.grammars.machine import Cell, Thread
from structgen.grammars.residual import state

END = -1
"""The end of the text, as a lookahead."""
_serial = count()


@dataclass(frozen=True, slots=True)
class Scanner:
    """The terminals that compete in a parser state.

    Attributes:
        order: terminals, first choice first.
        words: keywords with the bit set of the terminals that give way to them when they match the whole keyword.
    """

    order: tuple[int, ...]
    words: tuple[tuple[int, int], ...] = ()


@dataclass(slots=True)
class LRState:
    """One row of the table. Terminals are numbers from 1; ``END`` is the end of the text.

    Attributes:
        shifts: terminal -> next state.
        reduces: lookahead -> (length of the rule, its left side).
        gotos: left side -> next state.
        groups: the reductions with the bit set of their lookaheads (``END`` is the bit of Tables.end_bit).
    """

    scanner: Scanner
    shifts: dict[int, int]
    reduces: dict[int, tuple[int, str]]
    gotos: dict[str, int]
    shift_bits: int = 0
    groups: tuple[tuple[int, str, int], ...] = ()


@dataclass(eq=False)
class Tables:
    """A parse table with scanners: everything that the frames of a grammar share.

    Args:
        states: the rows.
        start: first state.
        final: the state in which the whole text has been reduced to the start rule.
        automaton: NFAs of the terminals.
        terminals: how many; the end has the bit above the last.
        filter: how far each path of states can be completed, where the grammar has rules that cannot.
    """

    states: Sequence[LRState]
    start: int
    final: int
    automaton: Automaton
    terminals: int
    filter: ItemFilter | None = None
    risky: frozenset[int] = frozenset()
    endings: Mapping[int, tuple[Outcome, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.serial = next(_serial)
        self.end_bit = 1 << (self.terminals + 1)
        self._frames: dict[Hashable, LRFrame] = {}
        self._starts: dict[tuple[Scanner, int, frozenset[Outcome], int, Cond], Expr] = {}
        for row in self.states:
            groups: dict[tuple[int, str], int] = {}
            for lookahead, rule in row.reduces.items():
                groups[rule] = groups.get(rule, 0) | self.bit(lookahead)
            row.groups = tuple((size, name, bits) for (size, name), bits in groups.items())
            row.shift_bits = sum(1 << t for t in row.shifts)

    def bit(self, lookahead: int) -> int:
        return self.end_bit if lookahead == END else 1 << lookahead

    def frame(self, number: int, items: Items | None = None) -> LRFrame:
        key = (number, items)
        made = self._frames.get(key)
        if made is None:
            made = self._frames[key] = LRFrame(self, number, items)
        return made

    def scan(self, scanner: Scanner, viable: int, dead: frozenset[Outcome], behind: int, cond: Cond) -> Expr:
        """The scanner at the start of a token."""
        key = (scanner, viable, dead, behind, cond)
        made = self._starts.get(key)
        if made is None:
            enter = self.automaton.enter
            starts = self.automaton.starts
            items = [item for t in scanner.order for item in enter(starts[t], behind, cond)]
            words: list[tuple[Item, int]] = [
                (item, owners) for word, owners in scanner.words for item in enter(starts[word], behind)
            ]
            made = self.automaton.scan(viable, dead, items, words)
            if made is not NEVER and not is_alive(made):
                made = NEVER
            self._starts[key] = made
        return made


Items = frozenset[tuple[int, int]]


class ItemFilter:
    """Which states can still lead to the end of the text, in a grammar with rules that never finish.

    It follows the LR(0) items of the rules that can finish along the path of states; where none is left, the path is
    a dead end.

    Args:
        rules: (left side, right side); terminals in the right side are numbers.
        start: the left side that derives whole texts.
    """

    def __init__(self, rules: Sequence[tuple[str, tuple[str | int, ...]]], start: str) -> None:
        self.rules = rules
        finite: set[str] = set()
        while True:
            more = {left for left, right in rules if all(isinstance(s, int) or s in finite for s in right)} - finite
            if not more:
                break
            finite |= more
        self.is_needed = any(left not in finite for left, _ in rules)
        self._by_left: dict[str, list[int]] = {}
        for number, (left, right) in enumerate(rules):
            if all(isinstance(s, int) or s in finite for s in right):
                self._by_left.setdefault(left, []).append(number)
        self.start: Items = frozenset((number, 0) for number in self._by_left.get(start, ()))
        self._memo: dict[tuple[Items, str | int], Items] = {}

    def after(self, kernel: Items, symbol: str | int) -> Items:
        """The items after a symbol; empty for a dead end."""
        key = (kernel, symbol)
        found = self._memo.get(key)
        if found is None:
            closure = dict.fromkeys(kernel)
            queue = list(closure)
            for number, dot in queue:
                right = self.rules[number][1]
                if dot < len(right) and isinstance(right[dot], str):
                    for more in self._by_left.get(right[dot], ()):  # type: ignore[arg-type]
                        if (more, 0) not in closure:
                            closure[more, 0] = None
                            queue.append((more, 0))
            found = self._memo[key] = frozenset(
                (number, dot + 1) for number, dot in closure
                if dot < len(self.rules[number][1]) and self.rules[number][1][dot] == symbol
            )
        return found


class LRFrame:
    """One state on the stack."""

    __slots__ = ("items", "number", "row", "tables", "view")

    def __init__(self, tables: Tables, number: int, items: Items | None) -> None:
        self.tables = tables
        self.number = number
        self.items = items
        self.row = tables.states[number]
        self.view: Hashable = (tables.serial, number, items)

    def after(self, symbol: str | int, number: int) -> LRFrame | None:
        """The frame above this one after ``symbol``; None in a dead end."""
        if self.items is None:
            return self.tables.frame(number)
        assert self.tables.filter is not None
        items = self.tables.filter.after(self.items, symbol)
        return self.tables.frame(number, items) if items else None

    def follow(self, cell: Cell, outcome: int, text: bytes | None) -> Sequence[Thread]:
        token, behind, cond = self.tables.automaton.outcomes[outcome]
        after = cell if token == IGNORED else shifted(cell, token)
        return () if after is None else spawn(after, behind, cond)

    def resume(self, cell: Cell) -> Sequence[Thread]:
        raise AssertionError("nothing is ever pushed on an LR state that returns to it")

    def __repr__(self) -> str:
        return f"LR{self.number}"


def _frame(cell: Cell) -> LRFrame:
    frame = cell.frame
    assert isinstance(frame, LRFrame)
    return frame


def reduced(cell: Cell, size: int, left: str) -> Cell | None:
    """The stack after reducing a rule of ``size`` symbols to ``left``."""
    for _ in range(size):
        cell = cell.parent
    frame = _frame(cell)
    above = frame.after(left, frame.row.gotos[left])
    return None if above is None else cell.push(above)


def shifted(cell: Cell, terminal: int) -> Cell | None:
    """The stack after the reductions that ``terminal`` asks for and its shift; None when the parser refuses it."""
    while True:
        frame = _frame(cell)
        number = frame.row.shifts.get(terminal)
        if number is not None:
            above = frame.after(terminal, number)
            return None if above is None else cell.push(above)
        rule = frame.row.reduces.get(terminal)
        below = reduced(cell, *rule) if rule is not None else None
        if below is None:
            return None
        cell = below


class _Unknown(Exception):
    pass


def _unknown() -> int:
    raise _Unknown


def accepts(cell: Cell) -> int:
    """Bit set of the terminals (and the end) that the parser can shift from this stack. Each is a run of reductions
    and a shift; right recursion makes such runs as long as the text, hence no recursion here."""
    pending = [cell]
    while True:
        at = pending[-1]
        try:
            found = at.cached("accepts", _unknown)
        except _Unknown:
            frame = _frame(at)
            below = [reduced(at, size, left) for size, left, _ in frame.row.groups]
            missing = [b for b in below if b is not None and not _is_known(b)]
            if missing:
                pending += missing
                continue
            found = at.cached("accepts", lambda: _accepts(at))  # noqa: B023
        pending.pop()
        if not pending:
            return found


def _is_known(cell: Cell) -> bool:
    try:
        cell.cached("accepts", _unknown)
    except _Unknown:
        return False
    return True


def _accepts(cell: Cell) -> int:
    frame = _frame(cell)
    row, tables = frame.row, frame.tables
    if frame.items is None:
        bits = row.shift_bits
    else:
        bits = sum(1 << t for t, number in row.shifts.items() if frame.after(t, number) is not None)
    if frame.number == tables.final:
        bits |= tables.end_bit
    for size, left, lookaheads in row.groups:
        below = reduced(cell, size, left)
        if below is not None:
            bits |= lookaheads & below.cached("accepts", _unknown)
    return bits


def spawn(cell: Cell, behind: int, cond: Cond) -> Sequence[Thread]:
    """The threads at the start of a token; one on the bottom cell when the text may end."""
    frame = _frame(cell)
    tables = frame.tables
    bits = accepts(cell)
    threads = []
    if bits:
        viable = bits & ~tables.end_bit | 1 << IGNORED
        residual = state(tables.scan(frame.row.scanner, viable, frozenset(), behind, cond))
        if residual is not None:
            threads.append(Thread(residual, cell))
    if bits & tables.end_bit and cond.end:
        done = state(EPSILON)
        assert done is not None
        threads.append(Thread(done, cell.bottom))
    return threads


class LalrMachine:
    """The machine of an LALR(1) grammar."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def start(self, bottom: Cell) -> Sequence[Thread]:
        tables = self.tables
        items = None if tables.filter is None else tables.filter.start
        return spawn(bottom.push(tables.frame(tables.start, items)), tables.automaton.at_start, TRUE)
