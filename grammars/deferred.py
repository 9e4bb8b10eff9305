"""A part of an expression that is built when it is first read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structgen.grammars.expr import Expr, _intern


class Deferred(Expr):
    """``build(*arguments)``; for languages with many rarely read branches. It is neither empty nor nullable
    and holds no intersection."""

    __slots__ = ("_body", "arguments", "build")
    fields = ("build", "arguments")
    build: Callable[..., Expr]
    arguments: tuple[Any, ...]
    _body: Expr

    @property
    def body(self) -> Expr:
        try:
            return self._body
        except AttributeError:
            self._body = self.build(*self.arguments)
            return self._body

    def derive(self, byte: int) -> Expr:
        return self.body.derive(byte)

    def byte_class(self, byte: int) -> int:
        return self.body.byte_class(byte)

    def __repr__(self) -> str:
        return f"Deferred({self.build.__name__}{self.arguments})"


def deferred(build: Callable[..., Expr], *arguments: Any) -> Expr:
    """``build(*arguments)``, built when it is first read. It must have a text, and not the empty one; its
    arguments are hashable."""
    made: Expr = _intern(Deferred, (build, arguments), False, ())
    return made
