"""A language cut to a number of characters.

The same as an intersection with ``char{0,n}``, save that the counter may be forgotten far from the limit:
where ``slack`` characters always suffice to complete the body, the limit cannot be felt before it is near.
"""

from __future__ import annotations

from structgen.grammars.charset import ANY
from structgen.grammars.encoding import Encoding
from structgen.grammars.expr import NEVER, Expr, Rep, Seq, _intern, rep


class AtMost(Expr):
    """``body``, where ``counter`` (characters that may still come) matches too."""

    __slots__ = ("body", "counter", "slack")
    fields = ("body", "counter", "slack")
    body: Expr
    counter: Expr
    slack: int

    def derive(self, byte: int) -> Expr:
        return _at_most(self.body.derive(byte), self.counter.derive(byte), self.slack)

    def byte_class(self, byte: int) -> int:
        return self.body.byte_class(byte) & self.counter.byte_class(byte)

    def clamped(self, limit: int) -> Expr:
        counter = self.counter.tail if isinstance(self.counter, Seq) else self.counter
        if isinstance(counter, Rep) and counter.hi is not None and counter.hi > limit + self.slack:
            return self.body.clamped(limit)
        return self

    def __repr__(self) -> str:
        return f"AtMost({self.body!r}, {self.counter!r})"


def at_most(body: Expr, chars: int, encoding: Encoding, *, slack: int) -> Expr:
    """The texts of ``body`` with at most ``chars`` characters.

    Args:
        slack: after any beginning of a text of ``body``, so many more characters suffice to complete one.
    """
    return _at_most(body, rep(encoding.chars(ANY), 0, chars), slack)


def _at_most(body: Expr, counter: Expr, slack: int) -> Expr:
    if body is NEVER or counter is NEVER:
        return NEVER
    outcomes = body.outcomes if counter.outcomes else ()
    made: Expr = _intern(AtMost, (body, counter, slack), True, outcomes)
    return made
