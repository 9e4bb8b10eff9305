"""Backing out of dead ends: where the grammar has no legal token and the text may not end, earlier tokens are taken
back. No torch.

A state without a legal token is proven dead, and so is every state all of whose tokens lead to dead ones. The search
is therefore plain backtracking: the last token goes, and is excluded at its position; where nothing else is legal there
either, the one before goes too. Dead trees may be large, so a position that has cost many tries, and every so often
whatever the position, an earlier one is gone back to before the tree is exhausted, further each time. A token excluded
so may be sound, which only matters if no text is found at all.

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
PATIENCE = 8  # back-outs before some positions are given up anyway


class DeadEnd(RequestError):
    """No token is legal here, and the text may not end. The engine catches it."""


class Exclusions:
    """What one request has learnt about dead ends on its present path.

    Attributes:
        tokens: position in the sequence -> tokens that may not be taken there again.
        guesses: those of them that are not proven to lead nowhere.
        jumps: times a position was given up. None: never again, as a guess was wrong.
    """

    __slots__ = ("guesses", "jumps", "tokens")

    def __init__(self) -> None:
        self.tokens: dict[int, set[int]] = {}
        self.guesses: dict[int, set[int]] = {}
        self.jumps: int | None = 0

    def at(self, position: int) -> set[int]:
        """The tokens excluded at ``position``."""
        return self.tokens.get(position) or set()

    def is_proven(self, position: int) -> bool:
        """Whether all that is excluded at ``position`` leads nowhere."""
        return position not in self.guesses

    def add(self, position: int, token: int, proven: bool) -> None:
        """Exclude a token; what was known of later positions belonged to it."""
        for known in (self.tokens, self.guesses):
            for later in [each for each in known if each > position]:
                del known[later]
        self.tokens.setdefault(position, set()).add(token)
        if not proven:
            self.guesses.setdefault(position, set()).add(token)

    def is_impatient(self, position: int, num_backouts: int) -> bool:
        """Whether it is time to give ``position`` up, though other tokens are legal there."""
        return self.jumps is not None and (
            len(self.at(position)) >= MAX_TRIES or num_backouts // PATIENCE > self.jumps
        )

    def jump(self) -> int:
        """How many positions to give up besides the present one: more each time."""
        assert self.jumps is not None
        self.jumps += 1
        return (1 << (self.jumps - 1)) - 1

    def withdraw(self, position: int) -> bool:
        """Nothing is left: allow what was given up at ``position``, and be patient from now on. False if that is
        nothing."""
        self.jumps = None
        guessed = self.guesses.pop(position, set())
        self.at(position).difference_update(guessed)
        return bool(guessed)


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
    tokens, first = request.token_ids, request.num_prompt
    at, given_up, proven = len(tokens), 0, True
    if clock.num_backouts >= MAX_BACKOUTS:
        raise _too_many(request)
    while True:
        # Nothing is left at this position, or it is given up.
        if at == first:
            if not exclusions.withdraw(at):
                raise _unsatisfiable(request)
            break
        proven = proven and exclusions.is_proven(at)
        at -= 1
        matcher.rollback(1)
        exclusions.add(at, tokens[at], proven)
        if proven and mark is not None:
            mark(tokens[at])
        if clock.num_retracted_tokens + len(tokens) - at > MAX_RETRACTED:
            raise _too_many(request)
        if not has_choice(at):
            continue
        if not given_up:
            if at == first or not exclusions.is_impatient(at, clock.num_backouts):
                break
            given_up = exclusions.jump() + 1
        given_up -= 1
        if at == first:
            break
        proven = False
    count = len(tokens) - at
    clock.retract(count, count == request.num_output)
    return count


def _named(request: Request) -> str:
    assert request.constraint is not None
    name = repr(request.constraint.grammar)
    return name if len(name) <= 200 else f"{name[:200]}..."


def _unsatisfiable(request: Request) -> UnsatisfiableGrammar:
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
