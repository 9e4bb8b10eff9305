"""LR frames: the stack of an LALR(1) parser, one cell a state.

``Tables`` is a parse table in numbers, with the scanner of each state. A terminal is usable (**viable**) when the
parser can shift it after its reductions; that depends on the stack and is what masks need: the table of an LALR
parser alone would allow terminals that it refuses a few reductions later.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence, Set
from dataclasses import dataclass
from itertools import count

from structgen.grammars.charset import EMPTY
from structgen.grammars.expr import EPSILON, NEVER, Expr
from structgen.grammars.lexer import IGNORED, TRUE, Automaton, Cond, Item, Outcome, Scan, is_alive
from structgen.grammars.machine import Cell, Thread
from structgen.grammars.residual import state

END = -1
"""The end of the text, as a lookahead."""
DOUBT_DEPTH = 2
ENDINGS_FUEL = 150  # scanner states
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

    def __post_init__(self) -> None:
        self.serial = next(_serial)
        self.end_bit = 1 << (self.terminals + 1)
        self._frames: dict[Hashable, LRFrame] = {}
        self._starts: dict[tuple[Scanner, int, frozenset[Outcome], int, Cond], Expr] = {}
        self._endings: dict[Expr, frozenset[Outcome]] = {}
        # lark stops at the first reduction that leads to the final state; in a circular grammar others would follow.
        self.states[self.final].reduces.pop(END, None)
        self.endless = _drop_loops(self.states)
        for row in self.states:
            groups: dict[tuple[int, str], int] = {}
            for lookahead, rule in row.reduces.items():
                groups[rule] = groups.get(rule, 0) | self.bit(lookahead)
            row.groups = tuple((size, name, bits) for (size, name), bits in groups.items())
            row.shift_bits = sum(1 << t for t in row.shifts)
        self.doubtful = _doubtful(self)

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

    def endings(self, scan: Expr) -> frozenset[Outcome]:
        """Every outcome of a token that starts with ``scan``, as far as a bounded search sees."""
        made = self._endings.get(scan)
        if made is None:
            found: set[int] = set()
            seen = {scan}
            queue = [scan]
            for at in queue:
                found.update(at.outcomes)
                assert isinstance(at, Scan)
                for sample in at.samples():
                    left: Expr = at
                    for byte in sample:
                        left = left.successor(byte) if isinstance(left, Scan) else NEVER
                    if left is not NEVER and left not in seen and len(seen) < ENDINGS_FUEL:
                        seen.add(left)
                        queue.append(left)
            made = self._endings[scan] = frozenset(self.automaton.outcomes[o] for o in found)
        return made


def _drop_loops(states: Sequence[LRState]) -> bool:
    """Remove the reductions that would go on for ever: in a grammar that is not LALR(1) (lark prefers shifts in
    silence) rules of no length can pile up under one lookahead. lark never returns from there, so nothing is lost.
    Says whether there were any."""
    found = False
    for number, row in enumerate(states):
        for lookahead, rule in list(row.reduces.items()):
            if rule[0] == 0 and _loops(states, number, lookahead):
                del row.reduces[lookahead]
                found = True
    return found


def _loops(states: Sequence[LRState], number: int, lookahead: int) -> bool:
    """Whether reductions under one lookahead, on a stack that is never popped below this state, have no end."""
    stack = [number]
    seen: set[tuple[int, ...]] = set()
    while True:
        rule = states[stack[-1]].reduces.get(lookahead)
        if rule is None or rule[0] >= len(stack):
            return False
        size, left = rule
        if size:
            del stack[-size:]
        goto = states[stack[-1]].gotos.get(left)
        if goto is None:
            return False
        stack.append(goto)
        if len(stack) > len(states) + 1 or tuple(stack) in seen:
            return True  # a state stands on itself, or the same stack came back
        seen.add(tuple(stack))


def _doubtful(tables: Tables) -> tuple[int, ...]:
    """Bit sets of the tokens after which the text may be stuck, though the parser can go on: the condition under which
    they end may forbid whatever can follow. Entry 0 is empty, entry n + 1 adds the tokens that lead to states with
    tokens of entry n. A token is left out if each terminal that may follow has a first character that no
    condition forbids, or an ignored one has."""
    automaton = tables.automaton
    blanks = EMPTY
    for terminal in automaton.ignored:
        blanks |= automaton.first(terminal)
    owners: dict[int, set[int]] = {}
    for scanner in {row.scanner for row in tables.states}:
        for word, bits in scanner.words:
            owners.setdefault(word, set()).update(t for t in scanner.order if bits >> t & 1)
    doubtful = 0
    targets: dict[int, set[int]] = {}
    for row in tables.states:
        for terminal, number in row.shifts.items():
            targets.setdefault(terminal, set()).add(number)
    for terminal, numbers in targets.items():
        forbidden = automaton.forbidden(terminal)
        for owner in owners.get(terminal, ()):
            forbidden |= automaton.forbidden(owner)
        if not forbidden or blanks - forbidden:
            continue
        after = {t for n in numbers for t in (*tables.states[n].shifts, *tables.states[n].reduces) if t != END}
        if not all(automaton.first(t) - forbidden for t in after):
            doubtful |= 1 << terminal
    levels = [0]
    while doubtful and len(levels) <= DOUBT_DEPTH:
        levels.append(doubtful)
        doubtful |= sum(
            1 << terminal for terminal, numbers in targets.items()
            if not doubtful >> terminal & 1 and any(
                doubtful >> t & 1 for n in numbers for t in (*tables.states[n].shifts, *tables.states[n].reduces)
                if t != END
            )
        )
    return tuple(levels)


Items = frozenset[tuple[int, int]]


class ItemFilter:
    """Which states can still lead to the end of the text, in a grammar with rules that never finish.

    It follows the LR(0) items of the rules that can finish along the path of states; where none is left, the path is
    a dead end.

    Args:
        rules: (left side, right side); terminals in the right side are numbers.
        start: the left side that derives whole texts.
        absent: terminals that the lexer never hands to the parser.
    """

    def __init__(self, rules: Sequence[tuple[str, tuple[str | int, ...]]], start: str, absent: Set[int]) -> None:
        self.rules = rules
        finite: set[str | int] = {s for _, right in rules for s in right if isinstance(s, int) and s not in absent}
        while True:
            more = {left for left, right in rules if finite.issuperset(right)} - finite
            if not more:
                break
            finite |= more
        self.is_needed = not all(left in finite and finite.issuperset(right) for left, right in rules)
        self._by_left: dict[str, list[int]] = {}
        for number, (left, right) in enumerate(rules):
            if finite.issuperset(right):
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
    top = _run(cell, terminal)
    if top is None:
        return None
    frame = _frame(top)
    number = frame.row.shifts.get(terminal)
    above = None if number is None else frame.after(terminal, number)
    return None if above is None else top.push(above)


def _run(cell: Cell, lookahead: int) -> Cell | None:
    """The stack after the reductions that a lookahead asks for; None when they go round for ever."""
    seen = {cell}
    while True:
        rule = _frame(cell).row.reduces.get(lookahead)
        below = reduced(cell, *rule) if rule is not None else cell
        if below is cell or below is None:
            return below
        if below in seen:
            return None
        seen.add(below)
        cell = below


class _Unknown(Exception):
    pass


def _unknown() -> int:
    raise _Unknown


def accepts(cell: Cell) -> int:
    """Bit set of the terminals (and the end) that the parser can shift from this stack. Each is a run of reductions
    and a shift; right recursion makes such runs as long as the text, hence no recursion here."""
    pending = [cell]
    opened: set[Cell] = set()  # asked for, waiting for others
    limit = cell.depth + len(_frame(cell).tables.states)
    while True:
        at = pending[-1]
        if not _is_known(at):
            below = [reduced(at, size, left) for size, left, _ in _frame(at).row.groups]
            missing = [b for b in below if b is not None and not _is_known(b)]
            if at.depth > limit or not opened.isdisjoint(missing):
                # Runs of different lookaheads form a circle: take each lookahead by itself.
                return cell.cached("accepts", lambda: _accepts_each(cell))
            if missing:
                opened.add(at)
                pending += missing
                continue
            at.cached("accepts", lambda: _accepts(at))  # noqa: B023
            opened.discard(at)
        pending.pop()
        if not pending:
            return cell.cached("accepts", _unknown)


def _accepts_each(cell: Cell) -> int:
    frame = _frame(cell)
    bits = sum(1 << t for t in {*frame.row.shifts, *frame.row.reduces} - {END} if shifted(cell, t) is not None)
    top = _run(cell, END)
    return bits | (frame.tables.end_bit if top is not None and _frame(top).number == frame.tables.final else 0)


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


def spawn(cell: Cell, behind: int, cond: Cond, depth: int | None = None) -> Sequence[Thread]:
    """The threads at the start of a token; one on the bottom cell when the text may end.

    Args:
        behind: class of the character before.
        cond: what must hold of the text from here on.
        depth: how many tokens to look ahead for dead ends, in grammars that may have some.
    """
    frame = _frame(cell)
    tables = frame.tables
    bits = accepts(cell)
    threads = []
    if bits:
        if depth is None:
            depth = len(tables.doubtful) - 1
        viable = bits & ~tables.end_bit | 1 << IGNORED
        scan = tables.scan(frame.row.scanner, viable, _NO_OUTCOMES, behind, cond)
        if depth and viable & tables.doubtful[depth] and scan is not NEVER:
            dead = _dead(cell, tables.endings(scan), depth)
            if dead:
                scan = tables.scan(frame.row.scanner, viable, dead, behind, cond)
                tokens = viable & ~(1 << IGNORED)
                if not bits & tables.end_bit and tables.scan(frame.row.scanner, tokens, dead, behind, TRUE) is NEVER:
                    return ()  # ignored text for ever is no way to go on
        residual = state(scan)
        if residual is not None:
            threads.append(Thread(residual, cell))
    if bits & tables.end_bit and cond.end:
        done = state(EPSILON)
        assert done is not None
        threads.append(Thread(done, cell.bottom))
    return threads


_NO_OUTCOMES: frozenset[Outcome] = frozenset()


def _dead(cell: Cell, endings: frozenset[Outcome], depth: int) -> frozenset[Outcome]:
    """The outcomes after which nothing can follow on this stack."""
    doubtful = _frame(cell).tables.doubtful[depth]
    dead = set()
    for outcome in endings:
        if outcome.token == IGNORED:
            if outcome.cond != TRUE and not _goes_on(cell, outcome, 0):
                dead.add(outcome)
        elif doubtful >> outcome.token & 1:
            after = shifted(cell, outcome.token)
            if after is None or not _goes_on(after, outcome, depth - 1):
                dead.add(outcome)
    return frozenset(dead)


def _goes_on(cell: Cell, outcome: Outcome, depth: int) -> bool:
    key = ("goes on", outcome.behind, outcome.cond, depth)
    return cell.cached(key, lambda: bool(spawn(cell, outcome.behind, outcome.cond, depth)))


class LalrMachine:
    """The machine of an LALR(1) grammar."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def start(self, bottom: Cell) -> Sequence[Thread]:
        tables = self.tables
        items = None if tables.filter is None else tables.filter.start
        return spawn(bottom.push(tables.frame(tables.start, items)), tables.automaton.at_start, TRUE)
