"""The slow, obviously right matcher: sets of threads, one derivative a byte, no table and no memo."""

from __future__ import annotations

from structgen.grammars.expr import NEVER, Expr
from structgen.grammars.machine import Bottom, Cell, Machine, Thread, ended
from structgen.grammars.residual import Checked, FreshKey, Recorded, Residual, State


class Reference:
    """Reads bytes; ``threads`` is a set of (residual, cell)."""

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
                if residual is not None:
                    found.add(Thread(residual, thread.cell))
            self.threads = _closed(found)
        return bool(self.threads)

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
        if isinstance(thread.residual, Recorded):
            queue.extend(ended(thread))
            continue
        for outcome in thread.residual.outcomes:
            queue.extend(thread.cell.frame.follow(thread.cell, outcome, thread.residual.text))
    return {t for t in found if t.residual.live or t.cell.is_bottom}


def _derive(residual: Residual, byte: int) -> Residual | None:
    if isinstance(residual, State):
        left: Expr = residual.expr.derive(byte)
        return None if left is NEVER else residual.store.state(left)
    if isinstance(residual, Recorded):
        below = _derive(residual.inner, byte)
        if below is None:
            return None
        return Recorded(below, residual.text + bytes([byte]), residual.marks, residual.wanted, residual.volatile)
    if isinstance(residual, Checked):
        rest = _derive(residual.inner, byte)
        if rest is None:
            return None
        assert isinstance(rest, State)
        return Checked(rest, residual.check, residual.outcome, residual.read + bytes([byte]))
    assert isinstance(residual, FreshKey)
    inner = _derive(residual.inner, byte)
    if inner is None:
        return None
    assert isinstance(inner, State)
    assert residual.text is not None
    return residual.after(inner, bytes([byte]))


def reference_matches(machine: Machine, text: str | bytes) -> bool:
    """Whole-string acceptance."""
    matcher = Reference(machine)
    return matcher.accept(text.encode() if isinstance(text, str) else text) and matcher.can_end()
