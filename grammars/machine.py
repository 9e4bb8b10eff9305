"""The abstract machine that every grammar runs on.

A **thread** is (residual, cell): in the middle of a terminal, with a stack of frames below. A **cell** is one
hash-consed stack element: a frame and the cell under it. When a terminal may end, ``cell.follow(outcome)``
asks the top frame what comes next and gets new threads. A grammar is only its frames: rules of a CFG, JSON
containers and LR states implement the same small protocol.

Cells are immutable and shared, so forks, rollbacks and draft trees keep old references.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from structgen.grammars.expr import EPSILON
from structgen.grammars.residual import COMPLETE, Complete, Recorded, Residual, State, state

T = TypeVar("T")


class Thread(NamedTuple):
    """One way to read the text so far.

    Attributes:
        residual: what is left of the current terminal.
        cell: the stack; its top frame says what follows the terminal.
    """

    residual: Residual
    cell: Cell


class Frame(Protocol):
    """What may come next, at one level of the stack. Frames are immutable, hashable, and compare by
    content.

    A frame never waits for anything but the end of a terminal that it started (``follow``) or the return
    of a frame that it pushed (``resume``). Both get the cell whose top frame is ``self`` and give the threads
    that may come next. To go on at this level: ``Thread(residual, cell.replace(frame))``; to go one level
    down: ``child.start(cell.replace(frame).push(child))`` (whatever the front end calls it); to return:
    ``cell.parent.resume()``.
    No chain of calls may come back to the same cell without reading a byte (no empty loops).
    """

    @property
    def view(self) -> Hashable:
        """As much of the frame as the longest token can tell apart: counters clamped, sets of seen keys
        left out. Frames with equal views must give the same masks, save for tokens in which a
        ``FreshKey`` ends twice."""

    def follow(self, cell: Cell, outcome: int, text: bytes | None) -> Sequence[Thread]:
        """A terminal that this frame started has ended. ``text`` holds its bytes if its residual
        remembers them; it is None while masks are made (take the key for one never seen)."""

    def resume(self, cell: Cell) -> Sequence[Thread]:
        """A frame pushed on top of this one has returned."""


class _Probe:
    """Lowest depth read since the last reset: what a memoised answer depends on. Guarded by LOCK."""

    __slots__ = ("depth",)

    def __init__(self) -> None:
        self.depth = 1 << 60


PROBE = _Probe()


class Cell:
    """A stack: a frame on top of another cell (None below the bottom)."""

    __slots__ = ("_above", "_memo", "_parent", "_views", "bottom", "depth", "frame", "is_bottom", "view")

    def __init__(self, frame: Frame, parent: Cell | None) -> None:
        self.frame = frame
        self._parent = parent
        self.is_bottom = parent is None
        self.bottom: Cell = self if parent is None else parent.bottom
        self._views: dict[Hashable, int] = {} if parent is None else parent._views
        # A number for each view: memoised masks are looked up by it, and a view may take long to hash.
        self.view: int = self._views.setdefault(frame.view, len(self._views))
        self.depth: int = 0 if parent is None else parent.depth + 1
        self._above: dict[Frame, Cell] = {}
        self._memo: dict[Hashable, tuple[Any, int]] = {}

    @property
    def parent(self) -> Cell:
        """The cell below. Reading it is noted, since a memoised mask depends on what was read."""
        parent = self._parent
        if parent is None:
            raise IndexError("the bottom cell has no parent")
        if parent.depth < PROBE.depth:
            PROBE.depth = parent.depth
        return parent

    def push(self, frame: Frame) -> Cell:
        """This stack with ``frame`` on top."""
        try:
            return self._above[frame]
        except KeyError:
            made = self._above[frame] = Cell(frame, self)
            return made

    def replace(self, frame: Frame) -> Cell:
        """This stack with ``frame`` in place of the top one."""
        return self if frame is self.frame else self._parent.push(frame)  # type: ignore[union-attr]

    def cached(self, key: Hashable, compute: Callable[[], T]) -> T:
        """``compute()``, remembered on this cell under ``key`` together with how deep it read, so that whoever
        asks again is charged with the same reads. For answers about a stack that walk down it."""
        found = self._memo.get(key)
        if found is None:
            before, PROBE.depth = PROBE.depth, 1 << 60
            try:
                found = self._memo[key] = (compute(), PROBE.depth)
            finally:
                PROBE.depth = min(before, PROBE.depth)
        if found[1] < PROBE.depth:
            PROBE.depth = found[1]
        return found[0]

    def follow(self, outcome: int, text: bytes | None = None) -> Sequence[Thread]:
        """Threads after a terminal of the top frame has ended."""
        if text is not None:
            return live(self.frame.follow(self, outcome, text))
        found = self._memo.get(outcome)
        if found is None:
            return self.cached(outcome, lambda: live(self.frame.follow(self, outcome, None)))
        if found[1] < PROBE.depth:
            PROBE.depth = found[1]
        threads: Sequence[Thread] = found[0]
        return threads

    def resume(self) -> Sequence[Thread]:
        """Threads after the frame above has returned."""
        return self.cached("resume", lambda: live(self.frame.resume(self)))

    def frames(self) -> Iterator[Frame]:
        """Frames from the top down."""
        at: Cell | None = self
        while at is not None:
            yield at.frame
            at = at._parent

    def __repr__(self) -> str:
        return "Cell(" + " < ".join(map(repr, self.frames())) + ")"


def live(threads: Sequence[Thread]) -> Sequence[Thread]:
    """Normal form: a thread whose residual can only end is replaced by what follows."""
    for residual, cell in threads:
        if not residual.live and not cell.is_bottom:
            break
    else:
        return threads
    found: dict[Thread, None] = {}
    for t in threads:
        settle(t, found)
    return tuple(found)


def settle(thread: Thread, found: dict[Thread, None]) -> None:
    """Put ``thread`` into ``found`` in normal form."""
    if thread.residual.live or thread.cell.is_bottom:
        found[thread] = None
    else:
        for after in ended(thread):
            settle(after, found)


def ended(thread: Thread) -> Iterator[Thread]:
    """The threads that follow where the residual of ``thread`` ends here; none on the bottom cell."""
    residual, cell = thread
    if cell.is_bottom:
        return
    if isinstance(residual, Recorded):
        yield from _recorded(residual, cell)
        return
    for outcome in residual.outcomes:
        yield from cell.follow(outcome, residual.text)


def _recorded(residual: Recorded, cell: Cell) -> Iterator[Thread]:
    """``ended`` inside a recorded value: the text goes on with the threads, and gates are asked."""
    inner = residual.inner
    for outcome in residual.outcomes:
        text = inner.text
        if outcome in residual.wanted:
            text = residual.text[residual.marks[-1][0] :]
        for after in cell.follow(outcome, text):
            yield from _carry(after, residual.text, residual.marks)


def _carry(after: Thread, text: bytes, marks: tuple[tuple[int, int], ...]) -> Iterator[Thread]:
    """``after`` with the recording so far."""
    residual, cell = after
    if isinstance(residual, Complete):
        begin = next(offset for offset, depth in reversed(marks) if depth < cell.depth)
        gate = cell.frame
        assert isinstance(gate, Gate)
        for admitted in live(gate.admit(cell, text[begin:])):
            yield from _carry(admitted, text, marks)
        return
    marks = tuple(mark for mark in marks if mark[1] < cell.depth)
    if isinstance(residual, Recorded):  # another value inside, or beside, the recorded ones
        shift = len(text) - len(residual.text)
        inside = tuple((offset + shift, depth) for offset, depth in residual.marks)
        yield Thread(Recorded(residual.inner, text, marks + inside, residual.wanted, residual.volatile), cell)
    elif marks:
        yield Thread(Recorded(residual, text, marks), cell)
    else:
        yield after


class Gate:
    """A frame between a container and its owner below: when the container is complete, the owner decides with its
    text what follows. Subclasses say how; they compare by content."""

    @property
    def view(self) -> Hashable:
        return "gate"

    def follow(self, cell: Cell, outcome: int, text: bytes | None) -> Sequence[Thread]:
        raise AssertionError("a gate starts no terminal")

    def resume(self, cell: Cell) -> Sequence[Thread]:
        return (Thread(COMPLETE, cell),)

    def admit(self, cell: Cell, text: bytes) -> Sequence[Thread]:
        """Threads after the value spelled by ``text`` (blanks around it and all); none if it is refused."""
        raise NotImplementedError


def start(machine: Machine, bottom: Cell | None = None) -> tuple[Thread, ...]:
    """The threads at the start of a text."""
    return tuple(live(machine.start(bottom or Cell(Bottom(), None))))


def step(threads: Sequence[Thread], byte: int) -> tuple[Thread, ...]:
    """The threads after one more byte; () when it is illegal."""
    found: dict[Thread, None] = {}
    queue = list(threads)
    while queue:
        thread = queue.pop()
        if thread.residual.outcomes:
            queue.extend(ended(thread))
        residual = thread.residual.advance(byte)
        if residual is not None:
            settle(Thread(residual, thread.cell), found)
    return tuple(found)


def read(threads: Sequence[Thread], data: bytes) -> tuple[Thread, ...]:
    """The threads after ``data``; () when it is illegal."""
    now = tuple(threads)
    i, size = 0, len(data)
    while i < size:
        if len(now) == 1:
            # Inside one terminal nothing can happen but that it goes on.
            residual, cell = now[0]
            while not residual.outcomes and i < size:
                after = residual.advance(data[i])
                if after is None:
                    return ()
                i += 1
                if not after.live:
                    found: dict[Thread, None] = {}
                    settle(Thread(after, cell), found)
                    now = tuple(found)
                    break
                residual = after
            else:
                now = (Thread(residual, cell),)
                if i == size:
                    return now
                now = step(now, data[i])
                i += 1
        else:
            now = step(now, data[i])
            i += 1
        if not now:
            return ()
    return now


def readable(threads: Sequence[Thread], texts: Iterable[bytes]) -> Iterator[bytes]:
    """Those of the texts (none of them empty) that are legal. What begins several of them is read once."""
    after = [tuple(threads)]  # after each byte of the last text, as far as it is legal
    last = b""
    for data in sorted(texts):
        common = 0
        for a, b in zip(last, data, strict=False):
            if a != b:
                break
            common += 1
        del after[common + 1 :]
        last = data
        for byte in data[len(after) - 1 :]:
            if not after[-1]:
                break
            after.append(step(after[-1], byte))
        if after[-1] and len(after) > len(data):
            yield data


def can_end(threads: Sequence[Thread]) -> bool:
    """Whether the text may end here."""
    queue = list(threads)
    while queue:
        thread = queue.pop()
        if thread.residual.outcomes:
            if thread.cell.is_bottom:
                return True
            queue.extend(ended(thread))
    return False


class Bottom:
    """The frame under everything: when it is resumed or followed, the text may end."""

    @property
    def view(self) -> Hashable:
        return "bottom"

    def follow(self, cell: Cell, outcome: int, text: bytes | None) -> Sequence[Thread]:
        return ()

    def resume(self, cell: Cell) -> Sequence[Thread]:
        done = state(EPSILON)
        assert done is not None
        return (Thread(done, cell),)

    def __repr__(self) -> str:
        return "Bottom"


class Machine(Protocol):
    """What a front end produces."""

    def start(self, bottom: Cell) -> Sequence[Thread]:
        """The threads at the start of the text. ``bottom`` has a ``Bottom`` frame; a thread directly on it
        whose residual may end means that the text may end there."""


class Terminal:
    """The machine of a single terminal: regexes and choices."""

    def __init__(self, residual: State) -> None:
        self.residual = residual

    def start(self, bottom: Cell) -> Sequence[Thread]:
        return (Thread(self.residual, bottom),)
