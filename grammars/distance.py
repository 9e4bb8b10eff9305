"""The shortest way to the end of a text, in bytes.

A search (A*; Hart, Nilsson, Raphael 1968) over threads at the starts of terminals: an edge is a shortest string for
one outcome of the terminal (``least``), and its end is asked of the frame, so it knows no front end. What it costs at
least to leave the frames of a stack comes from ``estimate``; where that is exact the search goes straight to the
end, whatever the order of keys or the depth. Without estimates it is Dijkstra's, within its fuel.

Every thread on a way that was found remembers the rest of it, so the next tokens along the way cost next to nothing.
Callers hold ``LOCK``.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from functools import singledispatch
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from structgen.errors import GrammarTooComplex
from structgen.grammars import least
from structgen.grammars import machine as m
from structgen.grammars.expr import Expr, out
from structgen.grammars.machine import Cell, Thread
from structgen.grammars.residual import LOCK, Checked, FreshKey, Recorded, Residual, State, state

if TYPE_CHECKING:
    from structgen.grammars.matcher import Matcher
    from structgen.grammars.vocabulary import Vocabulary

FUEL = 400  # edges followed while the way must be a shortest one
MORE_FUEL = 10_000  # edges followed for any way: an object of 600 required keys takes 5,000
BUDGET = 20_000  # derivatives, in all that a search calls, while the way must be a shortest one; then as many again
MAX_TRIED = 50  # tokens, where the vocabulary cannot spell the way
MAX_REPEATED = 200  # spellings that differ in blanks only, in a row
_BLANKS = b" \t\r\n"
LONG = 256  # bytes of a terminal that are not kept, but put together again when asked for


class Way:
    """From a thread to the end of the text.

    Attributes:
        length: bytes.
        exact: there is no shorter way.
        data: the bytes up to the end of the terminal, or its expression and outcome.
        rest: from there on; None at the end of the text.
    """

    __slots__ = ("data", "exact", "length", "rest")

    def __init__(self, length: int, exact: bool, data: bytes | tuple[Expr, int], rest: Way | None) -> None:
        self.length = length
        self.exact = exact
        self.data = data
        self.rest = rest

    def text(self) -> bytes:
        """The bytes of the whole way."""
        parts = []
        at: Way | None = self
        while at is not None:
            parts.append(at.data if isinstance(at.data, bytes) else least.word(*at.data))
            at = at.rest
        return b"".join(parts)


class Found(NamedTuple):
    """What a search came to.

    Attributes:
        way: the best way found; None if there is none, or the fuel did not suffice.
        bound: no way is shorter.
    """

    way: Way | None
    bound: int


@singledispatch
def estimate(frame: Any, outcome: int | None) -> int:
    """At least so many bytes are written from the end of a terminal that the frame has started, which ended with
    ``outcome`` (None: from the return of the frame above), until the frame itself returns. Front ends register
    theirs; exact ones keep the search straight."""
    return 0


@singledispatch
def leap(frame: Any, cell: Cell, residual: Residual, outcome: int) -> tuple[bytes, Sequence[Thread]] | None:
    """A long stretch of a shortest way in one step, where the frame knows one: its bytes, and the threads after it."""
    return None


@singledispatch
def promising(frame: Any, lengths: least.Ends) -> least.Ends:
    """Those of the outcomes with which a terminal of the frame may end on some shortest way."""
    return lengths


_is_ready = False


def _load_estimates() -> None:
    global _is_ready
    if not _is_ready:
        from structgen.grammars.schema import lengths  # noqa: F401 - registers the estimates of JSON

        _is_ready = True


# ------------------------------------------------------------------------------------------------ search


class _Edge(NamedTuple):
    """The end of a terminal, waiting to be followed. Where the text of the terminal matters, ``words`` gives further
    strings that end so, none shorter than ``data``, after ``tries``."""

    thread: Thread
    outcome: int
    words: Iterator[bytes] | None = None
    data: bytes | None = None
    tries: int = 0


def search(
    threads: Sequence[Thread], fuel: int = FUEL, more_fuel: int = MORE_FUEL, budget: int = BUDGET
) -> Found:
    """The shortest way from any of the threads. A search inside another one (of a value, for an estimate) is on the
    other's budget, and raises ``least.Spent`` when that ends."""
    _load_estimates()
    common = least.BUDGET
    if common.left is not None:
        return _Search(threads).run(fuel, more_fuel, None)
    common.left = budget
    try:
        return _Search(threads).run(fuel, more_fuel, budget)
    except least.Spent:
        return Found(None, 0)
    finally:
        common.left = None


class _Search:
    def __init__(self, threads: Sequence[Thread]) -> None:
        self.heap: list[tuple[int, int, int, int, _Edge | Thread]] = []
        self.costs: dict[Thread, int] = {}
        self.came: dict[Thread, tuple[Thread, bytes | tuple[Expr, int]]] = {}
        self.serial = count()
        self.weight = 1
        self.known: tuple[int, Thread] | None = None  # the best of the ways that are not proven to be shortest
        for thread in threads:
            self._reach(thread, 0, None)

    def run(self, fuel: int, more_fuel: int, budget: int | None) -> Found:
        bound: int | None = None
        while self.heap:
            if fuel <= 0:
                if bound is not None:
                    return Found(None, bound)
                bound, fuel = self.heap[0][0], more_fuel
                if self.known is not None:
                    way = self._trace(self.known[1], False)
                    return Found(way, bound)
                self._hurry()
            total, _, _, cost, entry = heapq.heappop(self.heap)
            if isinstance(entry, Thread):
                way = self._trace(entry, bound is None)
                return Found(way, way.length if bound is None else bound)
            if cost > self.costs[entry.thread]:
                continue
            fuel -= 1
            try:
                self._follow(entry, cost)
            except least.Spent:
                if budget is None or bound is not None:
                    raise
                # Once more from the start of the edge: an iterator that was interrupted gives nothing any more.
                again = _Edge(entry.thread, entry.outcome)
                self._push(cost, max(total - cost, 0), again, entry.thread.cell.depth)
                least.BUDGET.left, fuel = budget, 0
        return Found(None, 0 if bound is None else bound)

    def _hurry(self) -> None:
        """From here on any way will do: what seems near to the end goes first."""
        self.weight = 4
        left = self.heap
        self.heap = []
        for total, _, serial, cost, entry in left:
            depth = entry.cell.depth if isinstance(entry, Thread) else entry.thread.cell.depth
            heapq.heappush(self.heap, (cost + 4 * (total - cost) + depth, -cost, serial, cost, entry))

    def _push(self, cost: int, rest: int, entry: _Edge | Thread, depth: int) -> None:
        total = cost + rest if self.weight == 1 else cost + self.weight * rest + depth
        # Of equal ones the farthest first, and the latest: with exact estimates that is the way itself.
        heapq.heappush(self.heap, (total, -cost, -next(self.serial), cost, entry))

    def _reach(self, thread: Thread, cost: int, came: tuple[Thread, bytes | tuple[Expr, int]] | None) -> None:
        if cost >= self.costs.get(thread, cost + 1):
            return
        found = self._onward(thread)  # may find the budget spent: then the thread has not been reached
        self.costs[thread] = cost
        if came is not None:
            self.came[thread] = came
        else:
            self.came.pop(thread, None)
        known = way_of(thread)
        if known is not None and (self.known is None or cost + known.length < self.known[0]):
            self.known = (cost + known.length, thread)
        for rest, entry in found:
            self._push(cost, rest, entry, thread.cell.depth)

    def _onward(self, thread: Thread) -> list[tuple[int, _Edge | Thread]]:
        """What can be done from a thread, each with the bytes that are left at least."""
        residual, cell = thread
        known = way_of(thread)
        if known is not None and (known.exact or self.weight > 1):
            return [(known.length, thread)]
        lengths = least.ends(_expr(residual))
        if cell.is_bottom:
            return [(min(lengths.values()), thread)] if lengths else []
        base = below(cell)
        return [
            (length + estimate(cell.frame, outcome) + base, _Edge(thread, outcome))
            for outcome, length in promising(cell.frame, lengths).items()
        ]

    def _follow(self, edge: _Edge, cost: int) -> None:
        thread, outcome, words, data, tries = edge
        residual, cell = thread
        if isinstance(residual, State):
            length = least.ends(residual.expr)[outcome]
            jump = leap(cell.frame, cell, residual, outcome)
            if jump is not None:
                for after in jump[1]:
                    self._reach(after, cost + len(jump[0]), (thread, jump[0]))
                return
            came = (thread, (residual.expr, outcome) if length > LONG else least.word(residual.expr, outcome))
            for after in cell.follow(outcome):
                self._reach(after, cost + length, came)
            return
        # The text matters: the shortest one may be refused, so others wait behind it. They come one by one, each after
        # the one before, which it is no shorter than.
        if words is None:
            words = _spellings(residual, outcome)
        written = -1 if data is None else len(data)
        data = next(words, None)
        if data is None:
            return
        if len(data) > written >= 0:
            self._wait(edge._replace(words=_again(data, words), data=data), cost)
            return
        self._wait(edge._replace(words=words, data=data, tries=tries + 1), cost)
        found: dict[Thread, None] = {}
        for after in m.ended(Thread(_finished(residual, data, outcome), cell)):
            m.settle(after, found)
        for after in found:
            self._reach(after, cost + len(data), (thread, data))

    def _wait(self, edge: _Edge, cost: int) -> None:
        """Follow the edge later, when a string as long as its ``data`` is due."""
        cell = edge.thread.cell
        rest = len(edge.data or b"") + estimate(cell.frame, edge.outcome) + below(cell)
        if self.weight > 1:
            rest += edge.tries  # in a hurry, what has failed often is left for something else
        self._push(cost, rest, edge, cell.depth)

    def _trace(self, thread: Thread, exact: bool) -> Way:
        """The way that ends with ``thread``, whose own rest is known; noted on every thread."""
        way = way_of(thread)
        if way is None:
            lengths = least.ends(_expr(thread.residual))
            outcome = min(lengths, key=lengths.__getitem__)
            expr = _expr(thread.residual)
            data = (expr, outcome) if lengths[outcome] > LONG else least.word(expr, outcome)
            way = Way(lengths[outcome], True, data, None)
            _note(thread, way)
        exact = exact and way.exact
        total = self.costs[thread] + way.length
        while thread in self.came:
            thread, data = self.came[thread]
            way = Way(total - self.costs[thread], exact, data, way)
            known = way_of(thread)
            if known is None or known.length > way.length or (exact and not known.exact):
                _note(thread, way)
        return way


def _again(data: bytes, words: Iterator[bytes]) -> Iterator[bytes]:
    yield data
    yield from words


def _expr(residual: Residual) -> Expr:
    while isinstance(residual, (Checked, FreshKey, Recorded)):
        residual = residual.inner
    assert isinstance(residual, State)
    return residual.expr


def _spellings(residual: Residual, outcome: int) -> Iterator[bytes]:
    """Strings with which the terminal may end, shortest first."""
    expr = _expr(residual)
    first = least.word(expr, outcome)
    if _finished(residual, first, outcome).outcomes:
        yield first
    # Other blanks make no other value, and there are many of them.
    squeezed, repeated = {first.translate(None, _BLANKS)}, 0
    for data in least.words(expr, outcome):
        key = data.translate(None, _BLANKS)
        if key in squeezed:
            repeated += 1
            if repeated > MAX_REPEATED:
                return
        else:
            repeated = 0
            squeezed.add(key)
            if _finished(residual, data, outcome).outcomes:
                yield data


def _finished(residual: Residual, data: bytes, outcome: int) -> Residual:
    """The residual after ``data``, where it ends with ``outcome``."""
    if isinstance(residual, FreshKey):
        return residual.after(_done(outcome), data)
    if isinstance(residual, Checked):
        return Checked(_done(outcome), residual.check, residual.outcome, residual.read + data)
    if isinstance(residual, Recorded):
        inner = _finished(residual.inner, data, outcome)
        return Recorded(inner, residual.text + data, residual.marks, residual.wanted, residual.volatile)
    return _done(outcome)


def _done(outcome: int) -> State:
    made = state(out(outcome))
    assert made is not None
    return made


def below(cell: Cell) -> int:
    """At least so many bytes follow after the top frame has returned."""
    missing = []
    total = 0
    at: Cell | None = cell._parent
    while at is not None:
        known = at._memo.get("left")
        if known is not None:
            total = known[0]
            break
        missing.append(at)
        at = at._parent
    for at in reversed(missing):
        total += estimate(at.frame, None)
        at._memo["left"] = (total, 0)
    return total


def way_of(thread: Thread) -> Way | None:
    """The way that an earlier search found for a thread."""
    known = thread.cell._memo.get(("way", thread.residual))
    return None if known is None else known[0]


def _note(thread: Thread, way: Way) -> None:
    thread.cell._memo["way", thread.residual] = (way, 0)


# ------------------------------------------------------------------------------------------------ for matchers


def shortest_completion(threads: Sequence[Thread]) -> Way | None:
    """The shortest way to the end of the text; None when none was found within the fuel. ``exact`` says whether it is
    proven to be the shortest."""
    with LOCK:
        try:
            return search(threads).way
        except (RecursionError, GrammarTooComplex):
            return None


_by_bytes: WeakKeyDictionary[Vocabulary, tuple[dict[bytes, int], int]] = WeakKeyDictionary()


def _ids(vocab: Vocabulary) -> tuple[dict[bytes, int], int]:
    """Token bytes -> id, and the length of the longest token."""
    found = _by_bytes.get(vocab)
    if found is None:
        ids: dict[bytes, int] = {}
        for id, data in enumerate(vocab.tokens):
            if data:
                ids.setdefault(data, id)
        found = _by_bytes[vocab] = (ids, max(map(len, ids), default=0))
    return found


class Steering:
    """Leads a matcher to the end of its text: each token is the longest one along a shortest way.

    >>> steering = Steering(matcher)                     # doctest: +SKIP
    >>> while not matcher.is_finished:                   # doctest: +SKIP
    ...     matcher.accept(steering.next_token())        # doctest: +SKIP
    """

    def __init__(self, matcher: Matcher) -> None:
        self.matcher = matcher
        self._left = b""

    def next_token(self) -> int | None:
        """A token that leads on; an end token where the text may end. None if no way is known. The matcher is expected
        to accept it before the next call."""
        matcher = self.matcher
        if matcher.can_end():
            ends = matcher.compiled.vocab.eos_token_ids
            return ends[0] if ends else None
        if not self._left:
            self._left = matcher.shortest_completion() or b""
        ids, longest = _ids(matcher.compiled.vocab)
        for size in range(min(longest, len(self._left)), 0, -1):
            token = ids.get(self._left[:size])
            if token is not None and matcher.allows(token):
                self._left = self._left[size:]
                return token
        return self._nearest()

    def _nearest(self) -> int | None:
        """The vocabulary cannot spell that way: try the tokens themselves."""
        best: tuple[int, int] | None = None
        probe = self.matcher.fork()
        for token in self.matcher.allowed_tokens()[:MAX_TRIED].tolist():
            if probe.accept(token):
                with LOCK:
                    way = search(probe._config.threads, budget=BUDGET // 10).way
                ends_here = probe.is_finished
                if way is not None or ends_here:
                    length = 0 if way is None else way.length
                    length += len(self.matcher.compiled.vocab.tokens[token] or b"")
                    if best is None or length < best[0]:
                        best = (length, token)
                probe.rollback(1)
        self._left = b""
        return None if best is None else best[1]
