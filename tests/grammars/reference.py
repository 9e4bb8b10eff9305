"""The slow, obviously right matcher: sets of threads, one derivative a byte, no table and no memo."""

from __future__ import annotations

from structgen.grammars.expr import NEVER, Expr
from structgen.grammars.machine import Bottom, Cell, Machine, Thread
from structgen.grammars.residual import FreshKey, Residual, State


class Reference:
    """Reads bytes; ``threads`` is a set of (expression or residual, cell, guards)."""

    def __init__(self, machine: Machine) -> None:
        bottom = Cell(Bottom(), None)
        self.threads = _closed(machine.start(bottom))

    def copy(self) -> Reference:
        made = Reference.__new__(Reference)
        made.threads = self.threads
        return made

    def accept(self, data: bytes) -> bool:
        """Read ``data``; False (and stuck) when no thread is left."""
        for byte in data:
            found: set[Thread] = set()
            for thread in self.threads:
                residual = _derive(thread.residual, byte)
                guards = _guards(thread.guards, byte)
                if residual is not None and guards is not None:
                    found.add(Thread(residual, thread.cell, guards))
            self.threads = _closed(found)
        return bool(self.threads)

    def is_viable(self, reach: int = 3) -> bool:
        """Whether some thread can go on: a guard (see machine.py) may forbid every way out. Looks ``reach`` bytes
        ahead, as far as the matcher does."""
        level = self.threads
        if not all(t.guards for t in level):
            return True
        for thread in level:
            if _viable({thread}, reach):
                return True
        return False

    def can_end(self) -> bool:
        return any(t.cell.is_bottom and t.residual.outcomes for t in self.threads)


def _closed(threads: object) -> set[Thread]:
    """Add what may follow each thread that may end here."""
    found: set[Thread] = set()
    queue = list(threads)  # type: ignore[call-overload]
    while queue:
        thread = queue.pop()
        if thread in found:
            continue
        found.add(thread)
        if thread.cell.is_bottom:
            continue
        guard = thread.residual.guard
        for outcome in thread.residual.outcomes:
            for after in thread.cell.frame.follow(thread.cell, outcome, thread.residual.text):
                guards = thread.guards + after.guards + ((guard,) if guard else ())
                queue.append(Thread(after.residual, after.cell, tuple(dict.fromkeys(guards))))
    return {t for t in found if t.residual.live or t.cell.is_bottom}


def _viable(level: set[Thread], reach: int) -> bool:
    for _ in range(reach):
        if any(t.cell.is_bottom and t.residual.outcomes for t in level):
            return True
        after: set[Thread] = set()
        for byte in range(256):
            found = set()
            for thread in level:
                residual = _derive(thread.residual, byte)
                guards = _guards(thread.guards, byte)
                if residual is not None and guards is not None:
                    found.add(Thread(residual, thread.cell, guards))
            for thread in _closed(found):
                if not thread.guards:
                    return True
                after.add(thread)
        if not after:
            return False
        level = after
    return True


def _derive(residual: Residual, byte: int) -> Residual | None:
    if isinstance(residual, State):
        left: Expr = residual.expr.derive(byte)
        return None if left is NEVER else residual.store.state(left)
    assert isinstance(residual, FreshKey)
    inner = _derive(residual.inner, byte)
    if inner is None:
        return None
    assert isinstance(inner, State)
    assert residual.text is not None
    return FreshKey(inner, residual.taken, residual.decode, residual.text + bytes([byte]))


def _guards(guards: tuple[State, ...], byte: int) -> tuple[State, ...] | None:
    """The guards after ``byte``; None when one has matched."""
    left = []
    for guard in guards:
        after = _derive(guard, byte)
        if after is not None:
            if after.outcomes:
                return None
            assert isinstance(after, State)
            left.append(after)
    return tuple(left)


def reference_matches(machine: Machine, text: str | bytes) -> bool:
    """Whole-string acceptance."""
    matcher = Reference(machine)
    return matcher.accept(text.encode() if isinstance(text, str) else text) and matcher.can_end()
