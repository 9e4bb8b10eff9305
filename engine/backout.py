"""Backing out of dead ends: where the grammar has no legal token and the text may not end, earlier tokens are taken
back. No torch.

A state without a legal token is proven dead, and so is every state all of whose tokens lead to dead ones. The search
is therefore plain backtracking: the last token goes, and is excluded at its position; where nothing else is legal there
either, the one before goes too. A position that has cost many tries is left for an earlier one before it is exhausted
(the excluded token may then be sound, which only matters if no text is found at all).

Exclusions belong to a path: they are keyed by position and forgotten when the request goes back behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from structgen.errors import GrammarTooComplex, RequestError, UnsatisfiableGrammar

if TYPE_CHECKING:
    from structgen.engine.request import Request

MAX_BACKOUTS = 100
MAX_RETRACTED = 1000
MAX_TRIES = 16  # excluded tokens at one position before it is given up


class DeadEnd(RequestError):
    """No token is legal here, and the text may not end. The engine catches it."""


class Exclusions:
    """What one request has learnt about dead ends on its present path.

    Attributes:
        tokens: position in the sequence -> tokens that may not be taken there again.
        is_proven: every exclusion was of a token that leads nowhere.
        jumps: times a position was given up.
    """

    __slots__ = ("is_proven", "jumps", "tokens")

    def __init__(self) -> None:
        self.tokens: dict[int, set[int]] = {}
        self.is_proven = True
        self.jumps = 0

    def at(self, position: int) -> set[int]:
        """The tokens excluded at ``position``."""
        return self.tokens.get(position) or set()

    def add(self, position: int, token: int) -> None:
        """Exclude a token; what was known of later positions belonged to it."""
        for later in [each for each in self.tokens if each > position]:
            del self.tokens[later]
        self.tokens.setdefault(position, set()).add(token)


def back_out(request: Request, has_choice: Callable[[int], bool]) -> int:
    """Leave a dead end: roll the matcher back and exclude tokens. Gives how many of the request's last tokens have to
    go; those are left to the caller.

    Args:
        request: its matcher has no legal token.
        has_choice: whether a token is legal at a position, with the matcher there.

    Raises:
        UnsatisfiableGrammar: every beginning leads nowhere.
        GrammarTooComplex: the limit of back-outs or of retracted tokens is reached.
    """
    constraint = request.constraint
    assert constraint is not None
    assert constraint.matcher is not None
    matcher, exclusions, clock = constraint.matcher, constraint.exclusions, request.clock
    mark = getattr(matcher, "mark_dead", None)
    tokens = request.token_ids
    at = len(tokens)
    skip = 0  # positions still to be given up
    proven = exclusions.is_proven
    while True:
        if at == request.num_prompt:
            raise _nothing_left(request)
        at -= 1
        matcher.rollback(1)
        exclusions.add(at, tokens[at])
        if proven and mark is not None:
            mark(tokens[at])
        if clock.num_backouts >= MAX_BACKOUTS or clock.num_retracted_tokens + len(tokens) - at > MAX_RETRACTED:
            raise _too_many(request)
        if not has_choice(at):
            continue
        if skip:
            skip -= 1
        elif len(exclusions.at(at)) < MAX_TRIES or at == request.num_prompt:
            break
        else:
            skip = (1 << exclusions.jumps) - 1
            exclusions.jumps += 1
        if at == request.num_prompt:
            break  # nothing earlier to change
        proven = exclusions.is_proven = False
    count = len(tokens) - at
    clock.retract(count, count == request.num_output)
    return count


def _named(request: Request) -> str:
    assert request.constraint is not None
    name = repr(request.constraint.grammar)
    return name if len(name) <= 200 else f"{name[:200]}..."


def _nothing_left(request: Request) -> UnsatisfiableGrammar | GrammarTooComplex:
    assert request.constraint is not None
    if not request.constraint.exclusions.is_proven:
        return _too_many(request)
    return UnsatisfiableGrammar(
        f"no text of {_named(request)} can be written with this tokenizer: every beginning leads to a place where no "
        "token of the vocabulary continues the grammar. Allow other characters, or use a model whose tokenizer has "
        "byte tokens"
    )


def _too_many(request: Request) -> GrammarTooComplex:
    clock = request.clock
    return GrammarTooComplex(
        f"{_named(request)} led into dead ends again and again: {clock.num_backouts} were backed out of, "
        f"{clock.num_retracted_tokens} tokens taken back (limits: {MAX_BACKOUTS} and {MAX_RETRACTED} a request). "
        "Something in it can hardly be satisfied: simplify what its last text leads to"
    )
