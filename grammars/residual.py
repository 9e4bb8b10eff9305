"""Residuals: what is left of a terminal after some bytes.

``State`` is a residual backed by a row of a lazily built DFA. All states of a process live in one
``Store`` (equal expressions are one state, whatever grammar they came from), so what is known of a
residual on a vocabulary is known to every grammar. ``FreshKey`` is a residual that remembers its text:
an object key that must differ from the keys seen so far.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from structgen.errors import GrammarTooComplex
from structgen.grammars.expr import (
    ALL_BYTES,
    NEVER,
    Alt,
    And,
    Expr,
    Literal,
    Out,
    Rep,
    Seq,
    Switch,
    Tagged,
    Words,
    both,
    is_code,
)

if TYPE_CHECKING:
    from structgen.grammars.split import Split, Walked
    from structgen.grammars.trie import Trie

MISS = -1
DEAD = 0
ENDS = 1  # flag: the terminal may end here
LIVE = 2  # flag: at least one byte may follow inside the terminal

MAX_AFTERS = 200_000
MANY_LOOPS = 48  # bytes after which a state is the same; then it may be so after all characters
_TAIL = (0x80, 0xBF)
_WIDE = (
    ((0xC2, 0xDF), _TAIL),
    ((0xE0, 0xE0), (0xA0, 0xBF), _TAIL),
    ((0xE1, 0xEC), _TAIL, _TAIL),
    ((0xED, 0xED), (0x80, 0x9F), _TAIL),
    ((0xEE, 0xEF), _TAIL, _TAIL),
    ((0xF0, 0xF0), (0x90, 0xBF), _TAIL, _TAIL),
    ((0xF1, 0xF3), _TAIL, _TAIL, _TAIL),
    ((0xF4, 0xF4), (0x80, 0x8F), _TAIL, _TAIL),
)
"""The characters beyond ASCII in UTF-8: the Unicode Standard, table 3-7."""
STRICT_FUEL, FUEL, LESS_FUEL = 20_000, 4_000, 1_000
"""Derivatives of one search for a string: while a grammar is compiled; in the middle of a text; and there once some
searches were in vain."""

LOCK = threading.RLock()
"""Held while shared tables grow. Readers need no lock: tables only gain entries."""


class Residual:
    """What is left of a terminal.

    Attributes:
        outcomes: how the terminal may end here; () if it may not.
        live: at least one byte may follow inside the terminal.
        text: the bytes read so far where the frame wants them, else None.
    """

    __slots__ = ()
    outcomes: tuple[int, ...]
    live: bool
    text: bytes | None

    def advance(self, byte: int) -> Residual | None:
        """The residual after one more byte; None when the byte is illegal."""
        raise NotImplementedError

    def split(self, trie: Trie) -> Split:
        """Which tokens of ``trie`` stay inside, and what is left of those that end the terminal."""
        raise NotImplementedError


class State(Residual):
    """A residual given by an expression. ``row`` is its row in the store's transition table, 0 until a trie is walked
    from it."""

    __slots__ = (
        *("__weakref__", "_clamped", "expr", "id", "live", "loops", "next", "outcomes", "row", "splits", "store"),
        "walks",
    )
    text = None

    def __init__(self, store: Store, id: int, expr: Expr) -> None:
        self.store = store
        self.id = id
        self.row = 0
        self.loops = 0
        """Bytes, of those looked at, after which the state is the same (a bit set)."""
        self.expr = expr
        self.outcomes = expr.outcomes
        self.live = store.goes_on(expr)
        self.next: dict[int, State | None] = {}
        self.splits: dict[int, Split] = {}
        self.walks: dict[int, Walked] = {}
        self._clamped: dict[int, State] = {}

    def advance(self, byte: int) -> State | None:
        try:
            return self.next[byte]
        except KeyError:
            return self.store.advance(self, byte)

    def clamped(self, limit: int) -> State:
        """The state that stands for this one where at most ``limit`` bytes follow."""
        try:
            return self._clamped[limit]
        except KeyError:
            if largest_counter(self.expr) <= limit:
                self._clamped[limit] = self
                return self
            made = self.store.state(self.expr.clamped(limit))
            self._clamped[limit] = made or self
            return self._clamped[limit]

    def split(self, trie: Trie) -> Split:
        try:
            return self.splits[trie.id]
        except KeyError:
            from structgen.grammars.split import split_state

            made = self.splits[trie.id] = split_state(self, trie)
            return made

    def __repr__(self) -> str:
        return f"State({self.id}, {self.expr!r})"


@lru_cache(maxsize=1 << 15)
def largest_counter(expr: Expr) -> float:
    """No bound of a counter that ``expr.clamped`` may change is larger."""
    if isinstance(expr, Alt):
        return max(map(largest_counter, expr.items))
    if isinstance(expr, Seq):
        found: float = 0
        at: Expr = expr
        while isinstance(at, Seq):
            found = max(found, largest_counter(at.head))
            at = at.tail
        return max(found, largest_counter(at))
    if isinstance(expr, Rep):
        return max(expr.lo, expr.hi or 0, largest_counter(expr.body))
    return 0 if type(expr).clamped is Expr.clamped else float("inf")


@lru_cache(maxsize=4096)
def _bytes_of(mask: int) -> NDArray[np.intp]:
    """The bytes in a 256-bit set."""
    bits = np.frombuffer(mask.to_bytes(32, "little"), dtype=np.uint8)
    return np.flatnonzero(np.unpackbits(bits, bitorder="little"))


class Store:
    """The lazily built DFA of all terminals of a process.

    For walks over tries, ``delta[row, byte]`` is the row of the next state, DEAD, or MISS (not built yet). A store
    that grows past ``limit`` states is replaced by an empty one; grammars that use the old one keep it alive.
    """

    def __init__(self, limit: int = 100_000) -> None:
        self.limit = limit
        self.delta: NDArray[np.int32] = np.full((1024, 256), MISS, dtype=np.int32)
        self.flags: NDArray[np.uint8] = np.zeros(1024, dtype=np.uint8)
        self.loops: NDArray[np.uint64] = np.zeros(1024, dtype=np.uint64)
        self.rows: list[State | None] = [None]
        self.count = 0
        """States so far."""
        self.delta[DEAD] = DEAD
        self._by_expr: dict[Expr, State | None] = {NEVER: None}
        self._alive: dict[Expr, bool] = {}
        self._strict = True
        self.undecided = 0
        """How often a search for a string met its limit in the middle of a text."""
        self._alive_sets: deque[frozenset[Expr]] = deque(maxlen=16)
        self._afters: dict[tuple[Expr, Expr], frozenset[Expr]] = {}
        self._levels: dict[tuple[frozenset[Expr], Expr], frozenset[Expr]] = {}

    def state(self, expr: Expr) -> State | None:
        """The state of ``expr``; None when nothing is in the language."""
        try:
            return self._by_expr[expr]
        except KeyError:
            pass
        with LOCK:
            if expr in self._by_expr:
                return self._by_expr[expr]
            if not self._is_alive(expr):
                self._by_expr[expr] = None
                return None
            if self.count >= 4 * self.limit:
                raise GrammarTooComplex(
                    f"the terminals of this grammar need more than {4 * self.limit} automaton states; "
                    "simplify its regular expressions"
                )
            self.count += 1
            made = self._by_expr[expr] = State(self, self.count, expr)
            return made

    def advance(self, state: State, byte: int) -> State | None:
        """The state after one more byte."""
        with LOCK:
            strict, self._strict = self._strict, False
            try:
                target = state.next[byte] = self.state(state.expr.derive(byte))
            finally:
                self._strict = strict
            return target

    def row(self, state: State) -> int:
        """The state's row in the transition table."""
        if not state.row:
            with LOCK:
                row = len(self.rows)
                if row >= len(self.flags):
                    grown = np.full((2 * len(self.flags), 256), MISS, dtype=np.int32)
                    grown[: len(self.flags)] = self.delta
                    flags = np.zeros(2 * len(self.flags), dtype=np.uint8)
                    flags[: len(self.flags)] = self.flags
                    loops = np.zeros(2 * len(self.loops), dtype=np.uint64)
                    loops[: len(self.loops)] = self.loops
                    self.delta, self.flags, self.loops = grown, flags, loops
                self.rows.append(state)
                self.flags[row] = (ENDS if state.outcomes else 0) | (LIVE if state.live else 0)
                state.row = row
        return state.row

    def fill(self, state: State, byte: int) -> None:
        """Build the transitions of ``state`` for ``byte`` and its like."""
        with LOCK:
            mask = state.expr.byte_class(byte)
            target = state.advance(byte)
            self.delta[self.row(state), _bytes_of(mask)] = DEAD if target is None else self.row(target)
            if target is state:
                self._note_loops(state, mask)

    def _note_loops(self, state: State, mask: int) -> None:
        """Note that ``state`` is the same after each byte of ``mask``."""
        from structgen.grammars.walk import BEYOND_ASCII, GROUPS

        state.loops |= mask
        groups = sum(1 << i for i, group in enumerate(GROUPS) if not group & ~state.loops)
        if state.loops.bit_count() >= MANY_LOOPS and all(self._comes_back(state, *char) for char in _WIDE):
            groups |= 1 << BEYOND_ASCII
        self.loops[state.row] = groups

    def _comes_back(self, state: State, leads: tuple[int, int], *rest: tuple[int, int]) -> bool:
        """Whether ``state`` is the same after characters whose bytes are in these ranges."""
        now = {state}
        for lo, hi in (leads, *rest):
            after: set[State] = set()
            for each in now:
                left = (1 << hi + 1) - (1 << lo)
                while left:
                    byte = (left & -left).bit_length() - 1
                    left &= ~each.expr.byte_class(byte)
                    target = each.advance(byte)
                    if target is None or target.outcomes or not target.live:
                        return False
                    after.add(target)
            now = after
        return now == {state}

    def goes_on(self, expr: Expr) -> bool:
        """Whether some string of the language, which is not empty, is not empty."""
        if not expr.outcomes and not (expr.boolean and self.undecided):
            return True  # it has a string, and not the empty one
        if not expr.boolean:
            found = _has_more(expr)
            if found is not None:
                return found
        return any(self._is_alive(expr.derive(byte)) for byte, _ in expr.classes())

    def _is_alive(self, expr: Expr) -> bool:
        """Whether some string is in the language: trivial without intersection and complement, else a
        search for a nullable derivative whose result is kept for every expression on the way. What a search within
        its limit cannot decide is refused while a grammar is compiled; later, in the middle of a text, it is taken
        for alive, so that nothing legal is forbidden (a dead end is left by the engine)."""
        if not expr.boolean:
            return expr is not NEVER
        known = self._alive.get(expr)
        if known is not None:
            return known
        if isinstance(expr, (Alt, Seq, Switch, Rep, Tagged)):
            # Part by part: a search over a union of intersections would meet the product of their states.
            alive = self._is_structure_alive(expr)
            self._alive[expr] = alive
            return alive
        if isinstance(expr, And):  # fewer conditions than one that is alive
            conditions = frozenset(expr.items)
            if any(conditions <= alive for alive in self._alive_sets):
                self._alive[expr] = True
                return True
            if self._has_witness(expr):
                return True
            if self._is_ruled_out(expr):
                return False
        try:
            return self._search(expr, STRICT_FUEL if self._strict else FUEL if self.undecided < 3 else LESS_FUEL)
        except GrammarTooComplex:
            if self._strict:
                raise
            self.undecided += 1
            self._alive[expr] = True
            return True

    def _search(self, expr: Expr, fuel: int) -> bool:
        parent: dict[Expr, Expr | None] = {expr: None}
        near, far, small, limit = deque([expr]), [expr], [(0, 0, expr)], fuel
        done: dict[Expr, list[Expr]] = {}
        turn = 0
        while len(done) < len(parent):
            # In turns the nearest, the farthest and the one with the fewest conditions open: each finds at once what
            # the others would search long for. The farthest goes on from its own steps only, not from the others'.
            turn = (turn + 1) % 3
            if turn == 0:
                at = near.popleft()
            elif turn == 1 and far:
                at = far.pop()
            elif turn == 2 and small:
                at = heappop(small)[2]
            else:
                continue
            if at in done:
                if turn == 1:
                    far += done[at]
                    done[at] = []
                continue
            below: list[Expr] = []
            done[at] = below
            found = bool(at.outcomes) or self._alive.get(at, False)
            if not found and isinstance(at, And) and (fuel < limit // 2 or _demands(at)):
                counted = self._is_count_alive(at)
                if counted is not None:
                    self._alive[at] = found = counted
                    if not counted:
                        continue
            for byte, _ in () if found else sorted(at.classes(), key=_rarity):
                fuel -= 1
                left = at.derive(byte)
                if left in parent or left is NEVER or self._alive.get(left) is False:
                    continue
                if not left.boolean or self._alive.get(left):
                    found = True
                    break
                parent[left] = at
                near.append(left)
                (far if turn == 1 else below).append(left)
                heappush(small, (_open_conditions(left), -len(parent), left))
            if found:
                step: Expr | None = at
                while step is not None:
                    self._alive[step] = True
                    step = parent[step]
                if isinstance(expr, And):
                    self._alive_sets.append(frozenset(expr.items))
                return True
            if fuel < 0:
                raise GrammarTooComplex(
                    "an intersection of regular expressions has too many states to decide whether anything "
                    f"satisfies it (limit: {limit:,} derivatives); simplify the patterns"
                )
        for each in parent:
            self._alive[each] = False
        return False

    def _has_witness(self, expr: And) -> bool:
        """Whether the shortest text of an operand satisfies the others too. Operands with positions propose one of
        the least length that is demanded, where a search would meet ever new ones."""
        from structgen.grammars import least
        from structgen.grammars.lifted import completion

        demanded = max((item.lo for item in expr.items if isinstance(item, Rep)), default=0)
        for item in expr.items:
            data = completion(item, demanded)
            if data is None and isinstance(item, (Seq, Alt, Switch, Literal)) and not item.boolean and least.ends(item):
                data = least.word(item, None)
            if data is None or len(data) > 4096:
                continue
            path: list[Expr] = [expr]
            for byte in data:
                path.append(path[-1].derive(byte))
            if path[-1].outcomes:
                self._alive.update(dict.fromkeys(path, True))
                return True
        return False

    def _is_ruled_out(self, expr: And) -> bool:
        """Whether nothing satisfies the intersection even where positions forget what they count."""
        from structgen.grammars.lifted import widened

        wide = widened(expr)
        if wide is expr:
            return False
        try:
            alive = self._is_alive(wide)
        except GrammarTooComplex:
            return False
        if not alive:
            self._alive[expr] = False
        return not alive

    def _is_count_alive(self, expr: And) -> bool | None:
        """Whether a string is in the intersection of a counter over single characters (``minLength``, ``maxLength``)
        and other expressions: by the lengths that the others have, so that no state is met once for each count.
        None for other intersections."""
        lo, hi, body = 0, None, None
        rest = []
        for item in expr.items:
            if isinstance(item, Rep) and is_code(item.body) and (body is None or body is item.body):
                body, lo = item.body, max(lo, item.lo)
                hi = item.hi if hi is None else hi if item.hi is None else min(hi, item.hi)
            else:
                rest.append(item)
        if body is None or not rest or (lo < 2 and hi is None):
            return None
        return self._has_length(both(*rest), body, lo, hi)

    def _has_length(self, expr: Expr, body: Expr, lo: int, hi: int | None) -> bool:
        """Whether ``expr`` has a string of ``lo`` to ``hi`` times ``body``. Sets of derivatives repeat sooner or
        later, so large counts are skipped by whole periods."""
        level, length, fuel = frozenset((expr,)), 0, 20_000
        first: dict[frozenset[Expr], int] = {}
        while level:
            if length >= lo and any(each.outcomes for each in level):
                return True
            if hi is not None and length >= hi:
                return False
            if level in first:
                period = length - first[level]
                if length >= lo:
                    if first[level] >= lo:
                        return False
                else:
                    length += (lo - length) // period * period
                first = {}
            first[level] = length
            fuel -= len(level)
            if fuel < 0:
                raise GrammarTooComplex(
                    "a regular expression and a length have too many states together to decide whether anything "
                    "satisfies both; simplify the pattern or the length"
                )
            after = self._levels.get((level, body))
            if after is None:
                after = frozenset().union(*[self._after(each, body) for each in level])
                self._levels[level, body] = after
            level, length = after, length + 1
        return False

    def _after(self, expr: Expr, body: Expr) -> frozenset[Expr]:
        """What is left of ``expr`` after one ``body``."""
        known = self._afters.get((expr, body))
        if known is None:
            if len(self._afters) > MAX_AFTERS:
                self._afters.clear()
                self._levels.clear()
            found, queue = set(), [(expr, body)]
            while queue:
                at, part = queue.pop()
                left = ALL_BYTES
                while left:
                    byte = (left & -left).bit_length() - 1
                    left &= ~(at.byte_class(byte) & part.byte_class(byte))
                    beyond = part.derive(byte)
                    if beyond is NEVER:
                        continue
                    derived = at.derive(byte)
                    if derived is NEVER or self._alive.get(derived) is False:
                        continue
                    if beyond.outcomes:
                        found.add(derived)
                    else:
                        queue.append((derived, beyond))
            known = self._afters[expr, body] = frozenset(found)
        return known

    def _is_structure_alive(self, expr: Alt | Seq | Switch | Rep | Tagged) -> bool:
        if isinstance(expr, Alt):
            # What is known first: one that is alive is enough, and to find that others are not may take long.
            known = any(not item.boolean or self._alive.get(item) for item in expr.items)
            return known or any(self._is_alive(item) for item in expr.items)
        if isinstance(expr, Seq):
            return self._is_alive(expr.head) and self._is_alive(expr.tail)
        if isinstance(expr, Switch):
            return any(self._is_alive(rest) for _, _, rest in expr.cases)
        if isinstance(expr, Rep):
            return bool(expr.outcomes) or self._is_alive(expr.body)
        return self._is_alive(expr.body)


def _has_more(expr: Expr) -> bool | None:
    """Whether a language without intersections has more than the empty string; None where its structure does not
    tell."""
    if isinstance(expr, Out):
        return False
    if isinstance(expr, (Literal, Switch, Words, Rep)):
        return True
    if isinstance(expr, Seq):
        head = _has_more(expr.head)
        return True if head else _has_more(expr.tail) if head is False else None
    if isinstance(expr, Alt):
        found = False
        for item in expr.items:
            more = _has_more(item)
            if more:
                return True
            found = found or more is None
        return None if found else False
    return _has_more(expr.body) if isinstance(expr, Tagged) else None


def _demands(expr: And) -> bool:
    """Whether a counter demands so much that a search would be long."""
    return any(isinstance(item, Rep) and item.lo > 16 for item in expr.items)


def _rarity(byte_class: tuple[int, int]) -> int:
    """Order of a search: plain characters last, where it goes on first; escapes lead only where they do."""
    byte = byte_class[0]
    return 0 if byte == 0x5C else 1 if byte >= 0x80 or byte < 0x20 else 2


def _open_conditions(expr: Expr) -> int:
    """How many parts of an intersection may not end yet."""
    return sum(not item.outcomes for item in expr.items) if isinstance(expr, And) else 0


_store = Store()
_holders: list[Callable[[], None]] = []


def when_replaced(forget: Callable[[], None]) -> None:
    """Call ``forget`` whenever a full store is replaced: caches that outlive grammars must not keep the old one."""
    _holders.append(forget)


def store() -> Store:
    """The current store of the process."""
    global _store
    if _store.count > _store.limit:
        with LOCK:
            if _store.count > _store.limit:
                _store = Store(_store.limit)
                for forget in _holders:
                    forget()
    return _store


def state(expr: Expr) -> State | None:
    """The shared state of ``expr``; None when nothing is in the language."""
    return store().state(expr)


class FreshKey(Residual):
    """An object key (with its closing quote) that must not be one of ``taken``, compared after decoding.
    It remembers its text, so the frame can add the key to the seen ones.

    Args:
        inner: what is left of the key's own expression.
        taken: decoded keys that may not occur again.
        decode: spelled bytes with the closing quote -> decoded key.
        text: bytes read so far.
    """

    __slots__ = ("decode", "inner", "live", "outcomes", "taken", "text")
    text: bytes

    def __init__(self, inner: State, taken: frozenset[str], decode: Callable[[bytes], str],
                 text: bytes = b"") -> None:
        self.inner = inner
        self.taken = taken
        self.decode = decode
        self.text = text
        self.outcomes = inner.outcomes
        if inner.outcomes and decode(text) in taken:
            self.outcomes = ()
        self.live = inner.live

    def advance(self, byte: int) -> FreshKey | None:
        inner = self.inner.advance(byte)
        if inner is None:
            return None
        made = self.after(inner, bytes((byte,)))
        return made if made.outcomes or made.live else None

    def after(self, inner: State, data: bytes) -> FreshKey:
        """This key, ``data`` further on, with ``inner`` as what is left of it."""
        return FreshKey(inner, self.taken, self.decode, self.text + data)

    def clashes(self, trie: Trie) -> bool:
        """Whether a suffix of ``trie`` may complete a key that is taken. If not, ``inner`` tells all there is to
        know."""
        from structgen.grammars.split import closes

        return bool(self.taken) and closes(self.taken, self.text, trie)

    def split(self, trie: Trie) -> Split:
        from structgen.grammars.split import split_fresh_key

        return split_fresh_key(self, trie)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, FreshKey)
            and self.inner is other.inner
            and self.text == other.text
            and self.taken == other.taken
        )

    def __hash__(self) -> int:
        return hash((self.inner.id, self.text))

    def __repr__(self) -> str:
        return f"FreshKey({self.text!r}, {self.inner!r}, not {sorted(self.taken)!r})"


class Checked(Residual):
    """A terminal that may end with ``outcome`` only if its whole text passes a check: what no automaton says.

    Args:
        inner: what is left of the terminal.
        check: the whole text -> whether it may end so; compares by content.
        read: bytes read so far.
    """

    __slots__ = ("check", "inner", "live", "outcome", "outcomes", "read")
    text = None

    def __init__(self, inner: State, check: Callable[[bytes], bool], outcome: int, read: bytes = b"") -> None:
        self.inner = inner
        self.check = check
        self.outcome = outcome
        self.read = read
        self.outcomes = inner.outcomes
        if outcome in inner.outcomes and not check(read):
            self.outcomes = tuple(each for each in inner.outcomes if each != outcome)
        self.live = inner.live

    def advance(self, byte: int) -> Checked | None:
        inner = self.inner.advance(byte)
        if inner is None:
            return None
        made = Checked(inner, self.check, self.outcome, self.read + bytes([byte]))
        return made if made.outcomes or made.live else None

    def split(self, trie: Trie) -> Split:
        from structgen.grammars.split import split_checked

        return split_checked(self, trie)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Checked)
            and self.inner is other.inner
            and self.read == other.read
            and self.check == other.check
        )

    def __hash__(self) -> int:
        return hash((self.inner.id, self.read))

    def __repr__(self) -> str:
        return f"Checked({self.read!r}, {self.inner!r})"


class Recorded(Residual):
    """A residual inside a value whose text is wanted when it is complete (see ``Gate`` in machine.py).

    Args:
        inner: the residual itself.
        text: the bytes read since the recording began.
        marks: for each value being recorded, outermost first: where in ``text`` it begins, and the depth of the
            cell that it belongs to. It is complete when the stack is no deeper than that.
        wanted: outcomes with which the frame wants the text of the innermost value.
        volatile: which bytes are legal depends on values that views leave out, so that masks of suffixes that begin
            such a terminal are not decided by ``inner`` alone.
    """

    __slots__ = ("inner", "live", "marks", "outcomes", "text", "volatile", "wanted")
    text: bytes

    def __init__(self, inner: Residual, text: bytes, marks: tuple[tuple[int, int], ...],
                 wanted: frozenset[int] = frozenset(), volatile: bool = False) -> None:
        self.inner = inner
        self.text = text
        self.marks = marks
        self.wanted = wanted
        self.volatile = volatile
        self.outcomes = inner.outcomes
        self.live = inner.live

    def advance(self, byte: int) -> Recorded | None:
        inner = self.inner.advance(byte)
        if inner is None:
            return None
        return Recorded(inner, self.text + bytes([byte]), self.marks, self.wanted, self.volatile)

    def split(self, trie: Trie) -> Split:
        return self.inner.split(trie)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Recorded)
            and self.inner == other.inner
            and self.text == other.text
            and self.marks == other.marks
            and self.wanted == other.wanted
        )

    def __hash__(self) -> int:
        return hash((self.inner, self.text))

    def __repr__(self) -> str:
        return f"Recorded({self.text!r}, {self.inner!r}, {self.marks})"


class Complete(Residual):
    """Stands where a recorded value has just been completed: what may follow is for its gate to say, which needs
    the text. It never stays in a configuration."""

    __slots__ = ()
    outcomes = ()
    live = True
    text = None

    def advance(self, byte: int) -> None:
        raise AssertionError("the gate of a recorded value was not asked")

    def __repr__(self) -> str:
        return "Complete()"


COMPLETE = Complete()
