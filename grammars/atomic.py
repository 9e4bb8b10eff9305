"""Atomic groups and possessive repeats written with lookahead.

``(?>X)`` matches what ``X`` matches first, and never tries another way. At each choice inside ``X``, a later branch is
taken only where no earlier one leads to a match of the rest of the group. That is a lookahead: with ``then`` the rest
of the group,

    A|B        ->  A | (?!A then) B
    A* then    ->  A* (?!A A* then)              (lazy: ((?!then) A)*)

and so on into A and B, whose rests are longer. The result matches in at most one way at any place, so what follows the
group cannot make it try another. (Berglund et al. 2017, "On the semantics of atomic subgroups in practical regular
expressions", show that such groups stay regular.)

A possessive repeat is, in Python, an atomic group around a repeat of atomic turns.
"""

from __future__ import annotations

from structgen.grammars.pattern import (
    EMPTY,
    NOTHING,
    Alternate,
    Atomic,
    Chars,
    Concat,
    Conditional,
    Empty,
    Group,
    Node,
    Repeat,
    alternate,
    children,
    concat,
    consuming_ways,
    empty_ways,
    first_chars,
    look,
    may_be_empty,
    rebuilt,
    repeat,
)

MAX_TURNS = 32
"""Counted repeats whose turns have different rests are written out up to so many turns."""


MAX_SIZE = 20_000


class Refused(Exception):
    """Why an atomic group cannot be written with lookahead."""


def expand(node: Node) -> Node:
    """``node`` without atomic groups; it has no backreferences and conditionals.

    Raises:
        Refused: a counted repeat in an atomic group that would have to be written out too often, or turns of a
            repeat there that may or may not be empty.
    """
    writer = _Writer()
    return writer.open(writer.close(node))


class _Writer:
    """One run over one tree; parts are shared in it, and each is written once."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[Node, bool]] = {}
        self._closed: dict[int, tuple[Node, Node]] = {}
        self._opened: dict[int, tuple[Node, Node]] = {}

    def has_atomic(self, node: Node) -> bool:
        if isinstance(node, Chars):
            return False
        found = self._found.get(id(node))
        if found is None:
            inside = isinstance(node, Atomic) or any(map(self.has_atomic, children(node)))
            found = self._found[id(node)] = (node, inside)
        return found[1]

    def close(self, node: Node) -> Node:
        """Innermost groups first; each stays wrapped, which says that it matches in one way."""
        if not self.has_atomic(node):
            return node
        found = self._closed.get(id(node))
        if found is None:
            made = rebuilt(node, self.close)
            if isinstance(made, Atomic):
                made = Atomic(_first(made.body, EMPTY))
                if _size(made) > MAX_SIZE:
                    raise Refused(f"written with lookahead, it has more than {MAX_SIZE} parts")
            found = self._closed[id(node)] = (node, made)
        return found[1]

    def open(self, node: Node) -> Node:
        """Take the wrappings away."""
        if not self.has_atomic(node):
            return node
        found = self._opened.get(id(node))
        if found is None:
            made = self.open(node.body) if isinstance(node, Atomic) else rebuilt(node, self.open)
            found = self._opened[id(node)] = (node, made)
        return found[1]


def is_single_way(node: Node) -> bool:
    """Whether ``node`` matches in at most one way at any place, once it is known what its groups hold."""
    if isinstance(node, Group):
        return is_single_way(node.body)
    if isinstance(node, Conditional):
        return is_single_way(node.yes) and is_single_way(node.no)
    if isinstance(node, Concat):
        return all(map(is_single_way, node.items))
    return isinstance(node, Atomic) or not isinstance(node, (Alternate, Repeat)) or _is_counted(node)


def _is_counted(node: Node) -> bool:
    return isinstance(node, Repeat) and node.lo == node.hi and is_single_way(node.body)


def _unless(way: Node, then: Node) -> Node:
    """Where ``way then`` does not match: EMPTY (always), NOTHING (never), or a lookahead."""
    rest = way if empty_ways(then) == EMPTY else concat([way, then])
    if rest == NOTHING:
        return EMPTY
    return NOTHING if empty_ways(rest) == EMPTY else look(rest, False, True)


def _first(node: Node, then: Node) -> Node:
    """The ways of ``node`` that a match of ``node then`` takes first."""
    if is_single_way(node):
        return node
    if isinstance(node, Concat):
        found: list[Node] = []
        for item in reversed(node.items):
            found.append(_first(item, then))
            then = concat([item, then])
        return concat(reversed(found))
    if isinstance(node, Alternate):
        return _first_of(node, then)
    if isinstance(node, Group):
        return Group(node.index, _first(node.body, then))
    assert isinstance(node, Repeat)
    return _first_turns(node, then)


def _first_of(node: Alternate, then: Node) -> Node:
    ways: list[Node] = []
    for i, item in enumerate(node.items):
        # Branches that begin with other characters cannot both match.
        mine = first_chars(item)
        apart = not may_be_empty(item)
        earlier = [e for e in node.items[:i] if not apart or may_be_empty(e) or first_chars(e) & mine]
        unless = _unless(alternate(earlier), then) if earlier else EMPTY
        if unless == NOTHING:
            continue
        ways.append(concat([unless, _first(item, then)]))
    return alternate(ways)


def _first_turns(node: Repeat, then: Node) -> Node:
    body, lo, hi, lazy = node.body, node.lo, node.hi, node.lazy
    if may_be_empty(body):
        return _first_empty_turns(node, then)
    if lazy:
        stops = _unless(EMPTY, then)  # one more turn only where the rest does not match here
        if hi is None or is_single_way(body):
            rest = repeat(body, 0, hi, True)
            more = repeat(concat([stops, _first(body, concat([rest, then]))]), 0, None if hi is None else hi - lo, True)
            return concat([_turns(body, lo, hi, then), more])
    elif hi is None:
        again = repeat(body, 0, None)
        last = _unless(concat([body, again]) if empty_ways(then) != EMPTY else body, then)
        return concat([_turns(body, lo, hi, then), repeat(_first(body, concat([again, then])), 0, None), last])
    elif is_single_way(body) and empty_ways(then) == EMPTY:
        fewer = concat([repeat(body, lo, hi - 1), _unless(body, EMPTY)]) if lo < hi else NOTHING
        return alternate([repeat(body, hi, hi), fewer])
    assert hi is not None
    if hi > MAX_TURNS:
        raise Refused(f"a counted repeat there has more than {MAX_TURNS} turns")
    made: Node = EMPTY
    for done in range(hi - 1, lo - 1, -1):  # from the last turn to the first that may be left out
        rest = concat([repeat(body, 0, hi - done - 1, lazy), then])
        turn = concat([_first(body, rest), made])
        if lazy:
            made = alternate([EMPTY, concat([_unless(EMPTY, then), turn])])
        else:
            made = alternate([turn, _unless(concat([body, repeat(body, 0, hi - done - 1)]), then)])
    return concat([_turns(body, lo, hi, then), made])


def _turns(body: Node, lo: int, hi: int | None, then: Node) -> Node:
    """The first ``lo`` turns, which have to be."""
    if is_single_way(body):
        return repeat(body, lo, lo)
    if lo > MAX_TURNS:
        raise Refused(f"a counted repeat there has more than {MAX_TURNS} turns")
    left = range(lo - 1, -1, -1)
    return concat([_first(body, concat([repeat(body, n, None if hi is None else hi - lo + n), then])) for n in left])


def _first_empty_turns(node: Repeat, then: Node) -> Node:
    """Turns that may be empty: an empty turn ends the repeat."""
    body, lo, hi = node.body, node.lo, node.hi
    if isinstance(body, Atomic):  # one way: it reads something here or it does not
        opened = _Writer().open(body)
        reads, empty = consuming_ways(opened), empty_ways(opened)
        if reads is not None:
            turn = Atomic(reads)
            whole = _first(repeat(turn, lo, hi, node.lazy), then) if reads != NOTHING else repeat(NOTHING, lo, hi)
            return alternate([whole, concat([repeat(turn, 0, lo - 1), empty])]) if lo else whole
    ways = None if node.lazy else _before_empty(body)
    if ways is not None:  # the empty turn comes last: the same as no turn
        return _first(repeat(ways, 0, hi), then)
    raise Refused("turns of a repeat there may be empty before other ways are tried")


def _before_empty(node: Node) -> Node | None:
    """The ways of ``node`` that read something, if the empty text is its last choice and can always be taken."""
    if isinstance(node, Empty):
        return NOTHING
    if isinstance(node, Alternate):
        *others, last = node.items
        found = _before_empty(last)
        return None if found is None or any(map(may_be_empty, others)) else alternate([*others, found])
    if isinstance(node, Repeat) and not node.lazy:
        if not may_be_empty(node.body):
            return repeat(node.body, 1, node.hi) if node.lo == 0 else None
        inner = _before_empty(node.body)
        return inner and repeat(inner, 1, node.hi)
    if isinstance(node, Concat):
        ways: list[Node] = []
        for i, item in enumerate(node.items):
            found = _before_empty(item)
            if found is None:
                return None
            ways.append(concat([found, *node.items[i + 1 :]]))
        return alternate(ways)
    return None


def _size(node: Node) -> int:
    return 1 + sum(map(_size, children(node)))
