"""Whitespace policies: what may stand between the tokens of a JSON text (RFC 8259 section 2)."""

from __future__ import annotations

from structgen.grammars.expr import EPSILON, Expr, alt, byte_set, literal, optional, rep, seq

MAX_INDENT = 64


class Layout:
    """Whitespace between tokens; the same everywhere unless a subclass says otherwise.

    ``depth`` is the number of containers around a place; policies that do not indent keep it 0, so that
    frames at different depths stay equal.
    """

    def __init__(self, name: str, blank: Expr, outer: Expr | None = None) -> None:
        self.name = name
        self.blank = blank
        self.outer = outer
        """Whitespace around the whole text (at least one character), or None."""

    def deeper(self, depth: int) -> int:
        return 0

    def before_item(self, depth: int) -> Expr:
        """Before a key or an array item in a container at ``depth``."""
        return self.blank

    def before_close(self, depth: int) -> Expr:
        """Before the closing bracket of a container with members."""
        return self.blank

    def in_empty(self) -> Expr:
        """Between the brackets of an empty container."""
        return self.blank

    def before_mark(self) -> Expr:
        """Before a comma or a colon."""
        return self.blank

    def after_colon(self) -> Expr:
        return self.blank


class _Pretty(Layout):
    """Exactly what ``json.dumps(value, indent=2)`` writes."""

    def deeper(self, depth: int) -> int:
        return depth + 1

    def before_item(self, depth: int) -> Expr:
        return literal(b"\n" + b"  " * depth)

    def before_close(self, depth: int) -> Expr:
        return literal(b"\n" + b"  " * (depth - 1))

    def after_colon(self) -> Expr:
        return literal(b" ")


def _bounded() -> Expr:
    newline = alt(literal(b"\n"), literal(b"\r\n"))
    return optional(alt(literal(b" "), seq(newline, rep(byte_set(b" \t"), 0, MAX_INDENT))))


_ANY = byte_set(b" \t\n\r")

LAYOUTS: dict[str, Layout] = {
    "bounded": Layout("bounded", _bounded()),
    "compact": Layout("compact", EPSILON),
    "pretty": _Pretty("pretty", EPSILON),
    "any": Layout("any", rep(_ANY), rep(_ANY, 1)),
}
