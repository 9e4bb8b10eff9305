r"""Scanner: the lexer of lark as an automaton over bytes.

lark joins the terminals that a parser state accepts into one alternation, in an order of its own, and lets ``re``
match it: the first terminal that matches at all wins, with the end that a backtracking matcher prefers. ``Scan``
is that search as an expression: an ordered list of places in the terminals' NFAs (Pike's list of threads; Cox 2010,
"Regular Expression Matching in the Wild"), cut below a match.

A match is final only if the places above it fail, so what follows a terminal carries a **condition** on the text to
come: which characters may come next, which places must not match, of which places one must. Lookaheads are
conditions too. A condition travels in the outcome, and the next terminal starts under it; in most grammars it is
a set of characters that may not come next ("no word character after a name") and gone after one character.

Looking behind needs the class of the last character: it is part of a place and of an outcome.
Keywords that a name pattern matches as a whole (lark's ``_create_unless``) are tracked beside the list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from structgen.errors import GrammarTooComplex, UnsupportedGrammar
from structgen.grammars import regex
from structgen.grammars.charset import ANY, EMPTY, NEWLINE, CharSet
from structgen.grammars.encoding import UTF8
from structgen.grammars.expr import ALL_BYTES, EPSILON, NEVER, Expr, _intern

MAX_NODES = 400_000
MAX_THREADS = 200_000
IGNORED = 0
"""The token of an ignored terminal; the others are numbered from 1."""
ACCEPT = -1  # the "terminal" at the end of a lookahead


class Cond(NamedTuple):
    """What must hold of the text from here on.

    Attributes:
        next: the next character is one of these ...
        end: ... or the text may end here.
        nots: threads none of which may match from here.
        musts: of each set, one thread must match from here.
    """

    next: CharSet
    end: bool
    nots: frozenset[int]
    musts: frozenset[frozenset[int]]


_NONE: frozenset[int] = frozenset()
_NO_SETS: frozenset[frozenset[int]] = frozenset()
TRUE = Cond(ANY, True, _NONE, _NO_SETS)


class Place(NamedTuple):
    """A thread: in the middle of a terminal.

    Attributes:
        node: where the NFA goes on once the character is complete.
        behind: class of that character.
        chars: the characters, at a character boundary; None inside one.
        rest: the bytes left of the character.
        nots, musts: as in Cond, for the text from here on.
    """

    node: int
    behind: int
    chars: CharSet | None
    rest: Expr
    nots: frozenset[int]
    musts: frozenset[frozenset[int]]


class Match(NamedTuple):
    """A terminal ends here if ``cond`` holds of what follows."""

    terminal: int
    behind: int
    cond: Cond


Item = int | Match


class Outcome(NamedTuple):
    """How a terminal ended: the token that the parser gets, the class of its last character, and the condition
    under which the text goes on."""

    token: int
    behind: int
    cond: Cond


# ------------------------------------------------------------------------------------------------- NFA


@dataclass(frozen=True, slots=True)
class _Chars:
    chars: CharSet
    next: int


@dataclass(frozen=True, slots=True)
class _Fork:
    branches: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Loop:
    """One more turn of ``body`` or ``out``. Turns of one repeat share ``id``: a turn that read nothing is
    the last one, as in ``re``."""

    id: int
    body: int
    out: int
    lazy: bool


@dataclass(frozen=True, slots=True)
class _End:
    terminal: int


@dataclass(frozen=True, slots=True)
class _Behind:
    """The character before is (not) one of ``chars``; at the start of the text there is none."""

    chars: CharSet
    negated: bool
    next: int


@dataclass(frozen=True, slots=True)
class _Start:
    next: int


@dataclass(frozen=True, slots=True)
class _Next:
    """The next character is one of ``chars``, or the text ends and ``end`` is true."""

    chars: CharSet
    end: bool
    next: int


@dataclass(frozen=True, slots=True)
class _Ahead:
    body: int
    negated: bool
    next: int


_Node = _Chars | _Fork | _Loop | _End | _Behind | _Start | _Next | _Ahead


class _Raw(NamedTuple):
    """What the NFA can do next from a node. ``terminal`` is None for a character."""

    terminal: int | None
    node: int
    behind: int
    chars: CharSet
    end: bool
    aheads: tuple[tuple[bool, int], ...]


# ------------------------------------------------------------------------------------------------- automaton


class Automaton:
    """The NFAs of all terminals of a grammar, and the threads made of them.

    Args:
        patterns: the syntax tree of each terminal; terminal ``i`` has number ``i + 1``.
        names: how to name each in errors.
        ignored: the terminals that the lexer drops.
    """

    def __init__(self, patterns: Sequence[regex.Node], names: Sequence[str], ignored: Iterable[int] = ()) -> None:
        self.names = names
        self.ignored = frozenset(ignored)
        self.nodes: list[_Node] = []
        self.owner: list[int] = []  # terminal of each node
        self.places: list[Place] = []
        self.outcomes: list[Outcome] = []
        self.nexts: dict[int, int] = {}  # see Scan.next_bytes
        self._loops = 0
        self._behind_sets: dict[CharSet, None] = {}
        self._anchored = False
        self._at_once: dict[int, bool] = {}
        self._sure: dict[tuple[int, int], bool] = {}
        self._place_ids: dict[Place, int] = {}
        self._outcome_ids: dict[Outcome, int] = {}
        self._raws: dict[tuple[int, int], tuple[_Raw, ...]] = {}
        self._items: dict[tuple[int, int, Cond], tuple[Item, ...]] = {}
        self._steps: dict[int, tuple[Item, ...]] = {}
        self.starts = [-1]
        for terminal, tree in enumerate(patterns, 1):
            self._terminal = terminal
            self.starts.append(self._compile(tree, self._add(_End(terminal))))
        self._classes = self._partition()
        self.at_start = len(self._classes) if self._behind_sets or self._anchored else 0
        """The class "no character before"."""

    def is_sure(self, node: int, behind: int) -> bool:
        """Whether a thread that goes on at ``node`` can reach the end of its terminal by itself, lookaheads for more
        than one character left aside."""
        known = self._sure.get((node, behind))
        if known is not None:
            return known
        came: dict[tuple[int, int], tuple[int, int] | None] = {(node, behind): None}
        queue = [(node, behind)]
        for at in queue:
            for raw in self._raw(*at):
                if raw.aheads:
                    continue
                after = (raw.node, raw.behind)
                if raw.terminal is not None or self._sure.get(after):
                    step: tuple[int, int] | None = at
                    while step is not None:
                        self._sure[step] = True
                        step = came[step]
                    return True
                if after not in came:
                    came[after] = at
                    queue.append(after)
        for at in came:
            self._sure[at] = False
        return False

    def is_possible(self, terminal: int) -> bool:
        """Whether some text before and after lets the terminal match."""
        if any(self.is_sure(self.starts[terminal], behind) for behind in range(self.at_start + 1)):
            return True
        starts = (self.enter(self.starts[terminal], behind) for behind in range(self.at_start + 1))
        scans = (self.scan((2 << len(self.names)) - 1, frozenset(), items, ()) for items in starts)
        return any(scan is not NEVER and is_alive(scan) for scan in scans)

    def first(self, terminal: int) -> CharSet:
        """The characters with which a terminal can begin."""
        union = EMPTY
        for behind in range(self.at_start + 1):
            for raw in self._raw(self.starts[terminal], behind):
                union |= raw.chars
        return union

    def forbidden(self, terminal: int) -> CharSet:
        """At least the characters that a terminal of its own may forbid as the next one where it ends: those with
        which it would go on, and those that a lookahead excludes."""
        union = EMPTY
        ends = {
            (node.next, behind)
            for node, owner in zip(self.nodes, self.owner, strict=True)
            if owner == terminal and isinstance(node, _Chars)
            for behind, part in enumerate(self._classes)
            if len(self._classes) == 1 or _meet(node.chars, part)
        }
        for node, behind in ends:
            above = EMPTY
            for raw in self._raw(node, behind):
                if raw.terminal is None:
                    above |= raw.chars
                elif raw.terminal == terminal:
                    union |= ANY if raw.aheads else above | ~raw.chars
        return union

    # -- building

    def _add(self, node: _Node) -> int:
        if len(self.nodes) >= MAX_NODES:
            raise GrammarTooComplex(
                f"terminal {self.names[self._terminal - 1]}: the grammar's terminals need more than {MAX_NODES} "
                "places; lower its counted repeats"
            )
        self.nodes.append(node)
        self.owner.append(self._terminal)
        return len(self.nodes) - 1

    def _compile(self, tree: regex.Node, next: int) -> int:
        """The node that matches ``tree`` and then goes on at ``next``."""
        if isinstance(tree, regex.Empty):
            return next
        if isinstance(tree, regex.Chars):
            return self._add(_Chars(_same(tree.chars), next))
        if isinstance(tree, regex.Concat):
            for item in reversed(tree.items):
                next = self._compile(item, next)
            return next
        if isinstance(tree, regex.Alternate):
            return self._add(_Fork(tuple(self._compile(item, next) for item in _factored(tree.items))))
        if isinstance(tree, regex.Repeat):
            return self._repeat(tree, next)
        if isinstance(tree, regex.Anchor):
            return self._anchor(tree.kind, next)
        assert isinstance(tree, regex.Look)
        if tree.behind:
            chars = _one_char(tree.body)
            if chars is None:
                raise UnsupportedGrammar(
                    f"terminal {self.names[self._terminal - 1]}: a lookbehind for more than one character class is "
                    "not built yet; look behind for one character"
                )
            chars = _same(chars)
            self._behind_sets[chars] = None
            return self._add(_Behind(chars, tree.negated, next))
        chars = _one_char(tree.body)
        if chars is not None:
            return self._add(_Next(_other(chars) if tree.negated else _same(chars), tree.negated, next))
        return self._add(_Ahead(self._compile(tree.body, self._add(_End(ACCEPT))), tree.negated, next))

    def _repeat(self, tree: regex.Repeat, next: int) -> int:
        self._loops += 1
        id = self._loops
        if tree.hi is None:
            at = self._add(_Loop(id, -1, next, tree.lazy))
            self.nodes[at] = _Loop(id, self._compile(tree.body, at), next, tree.lazy)
        else:
            at = next
            for _ in range(tree.hi - tree.lo):
                at = self._add(_Loop(id, self._compile(tree.body, at), next, tree.lazy))
        for _ in range(tree.lo):
            at = self._compile(tree.body, at)
        return at

    def _anchor(self, kind: str, next: int) -> int:
        if kind == "end":
            return self._add(_Next(EMPTY, True, next))
        if kind == "line_end":
            return self._add(_Next(NEWLINE, True, next))
        if kind == "end_nl":
            at_end = self._add(_Next(EMPTY, True, next))
            last = self._add(_Next(EMPTY, True, self._add(_End(ACCEPT))))
            return self._add(_Fork((at_end, self._add(_Ahead(self._add(_Chars(NEWLINE, last)), False, next)))))
        self._anchored = True
        start = self._add(_Start(next))
        if kind == "start":
            return start
        self._behind_sets[NEWLINE] = None
        return self._add(_Fork((start, self._add(_Behind(NEWLINE, False, next)))))

    def _partition(self) -> list[CharSet]:
        """Characters that no lookbehind tells apart."""
        classes = [ANY]
        for chars in self._behind_sets:
            classes = [part for each in classes for part in (_meet(each, chars), _minus(each, chars)) if part]
        return classes

    # -- threads

    def place(self, place: Place) -> int:
        id = self._place_ids.get(place)
        if id is None:
            if len(self.places) >= MAX_THREADS:
                raise GrammarTooComplex(f"the lexer needs more than {MAX_THREADS} threads; simplify lookaheads")
            id = self._place_ids[place] = len(self.places)
            self.places.append(place)
        return id

    def outcome(self, outcome: Outcome) -> int:
        id = self._outcome_ids.get(outcome)
        if id is None:
            id = self._outcome_ids[outcome] = len(self.outcomes)
            self.outcomes.append(outcome)
        return id

    def _raw(self, start: int, behind: int) -> tuple[_Raw, ...]:
        """Everything reachable from a node without reading, in the order in which ``re`` would try it."""
        key = (start, behind)
        known = self._raws.get(key)
        if known is not None:
            return known
        found: list[_Raw] = []
        seen: set[tuple[object, ...]] = set()
        covered: dict[int, CharSet] = {}
        stack: list[tuple[int, frozenset[int], CharSet, bool, tuple[tuple[bool, int], ...]]]
        stack = [(start, _NONE, ANY, True, ())]
        while stack:
            entry = stack.pop()
            if entry in seen:
                continue
            seen.add(entry)
            at, turns, chars, end, aheads = entry
            node = self.nodes[at]
            if isinstance(node, _Chars):
                here = node.chars if chars is ANY else _meet(node.chars, chars)
                if not aheads and at in covered:
                    here = _minus(here, covered[at])
                if not here:
                    continue
                if not aheads:
                    covered[at] = covered[at] | here if at in covered else here
                if len(self._classes) == 1:
                    found.append(_Raw(None, node.next, 0, here, False, aheads))
                else:
                    parts = [(k, _meet(here, part)) for k, part in enumerate(self._classes)]
                    found += [_Raw(None, node.next, k, part, False, aheads) for k, part in parts if part]
            elif isinstance(node, _Fork):
                stack += [(branch, turns, chars, end, aheads) for branch in reversed(node.branches)]
            elif isinstance(node, _Loop):
                out = (node.out, turns, chars, end, aheads)
                if node.id in turns:
                    stack.append(out)
                else:
                    body = (node.body, turns | {node.id}, chars, end, aheads)
                    stack += [body, out] if node.lazy else [out, body]
            elif isinstance(node, _End):
                found.append(_Raw(node.terminal, -1, behind, chars, end, aheads))
            elif isinstance(node, _Start):
                if behind == self.at_start:
                    stack.append((node.next, turns, chars, end, aheads))
            elif isinstance(node, _Behind):
                holds = behind != self.at_start and bool(_meet(self._classes[behind], node.chars))
                if holds != node.negated:
                    stack.append((node.next, turns, chars, end, aheads))
            elif isinstance(node, _Next):
                chars, end = _meet(chars, node.chars), end and node.end
                if chars or end:
                    stack.append((node.next, turns, chars, end, aheads))
            else:
                stack.append((node.next, turns, chars, end, (*aheads, (node.negated, node.body))))
        made = self._raws[key] = tuple(found)
        return made

    def enter(self, node: int, behind: int, cond: Cond = TRUE) -> tuple[Item, ...]:
        """The threads and matches that begin at a node, under a condition, in order of priority."""
        key = (node, behind, cond)
        known = self._items.get(key)
        if known is not None:
            return known
        items: dict[Item, None] = {}
        for raw in self._raw(node, behind):
            conds: list[Cond] = [cond]
            for negated, body in raw.aheads:
                inner = self.enter(body, behind)
                conds = [c for each in conds for c in (self.forbid if negated else self.demand)(each, inner)]
            for each in conds:
                if raw.terminal is None:
                    chars = raw.chars if each.next is ANY else _meet(raw.chars, each.next)
                    limited = self._normal(Cond(chars, False, each.nots, each.musts), keep=True) if chars else None
                    if limited is not None:
                        items[self._thread(raw.node, raw.behind, limited)] = None
                else:
                    limited = self._normal(
                        Cond(_meet(each.next, raw.chars), each.end and raw.end, each.nots, each.musts))
                    if limited is not None:
                        items[Match(raw.terminal, behind, limited)] = None
        made = self._items[key] = tuple(items)
        return made

    def _thread(self, node: int, behind: int, cond: Cond) -> int:
        return self.place(Place(node, behind, cond.next, UTF8.chars(cond.next), cond.nots, cond.musts))

    def step(self, thread: int, byte: int) -> tuple[Item, ...]:
        """What becomes of a thread that reads a byte."""
        key = thread << 8 | byte
        known = self._steps.get(key)
        if known is None:
            known = self._steps[key] = self._step(self.places[thread], byte)
        return known

    def _step(self, place: Place, byte: int) -> tuple[Item, ...]:
        rest = place.rest.derive(byte)
        if rest is NEVER:
            return ()
        if rest is not EPSILON:
            nots = frozenset(i for t in place.nots for i in self._inside(t, byte))
            musts = frozenset(frozenset(i for t in group for i in self._inside(t, byte)) for group in place.musts)
            if _NONE in musts:
                return ()
            return (self.place(Place(place.node, place.behind, None, rest, nots, musts)),)
        if not place.nots and not place.musts:
            return self.enter(place.node, place.behind)
        conds = [TRUE]
        for thread in sorted(place.nots):
            items = self.step(thread, byte)
            conds = [c for each in conds for c in self.forbid(each, items)]
        for group in place.musts:
            items = tuple(i for thread in sorted(group) for i in self.step(thread, byte))
            conds = [c for each in conds for c in self.demand(each, items)]
        return tuple(dict.fromkeys(i for c in conds for i in self.enter(place.node, place.behind, c)))

    def _inside(self, thread: int, byte: int) -> Iterator[int]:
        for item in self.step(thread, byte):
            assert isinstance(item, int)
            yield item

    # -- conditions

    def _normal(self, cond: Cond, keep: bool = False) -> Cond | None:
        """The same condition, spelled in one way as far as that is cheap; None when nothing satisfies it.
        ``keep``: about a thread, which reads a character anyway."""
        chars, end, nots, musts = cond
        if nots:
            kept = set()
            for t in nots:
                place = self.places[t]
                if place.nots or place.musts:
                    t = self._relative(t, cond)
                    place = self.places[t]
                if self._ends_at_once(t):
                    chars = _minus(chars, _chars(place))
                else:
                    kept.add(t)
            nots = frozenset(t for t in kept if _meet(_chars(self.places[t]), chars))
        if musts:
            end = False
            groups: list[frozenset[int]] = []
            for group in musts:
                able = [t for t in group if t not in nots and _meet(_chars(self.places[t]), chars)]
                if able and all(self._ends_at_once(t) for t in able):
                    union = EMPTY
                    for t in able:
                        union |= _chars(self.places[t])
                    chars = _meet(chars, union)
                elif able:
                    groups.append(frozenset(able))
                else:
                    return None
            musts = frozenset(g for g in groups if not any(other < g for other in groups))
        if not chars:
            return Cond(EMPTY, True, _NONE, _NO_SETS) if end and not musts and not keep else None
        return Cond(chars, end, nots, musts)

    def _relative(self, thread: int, cond: Cond) -> int:
        """The thread without those of its conditions that ``cond`` has too: where m holds anyway, "t and m does not
        match" says "t does not match". Without this, conditions pile up inside conditions."""
        place = self.places[thread]
        chars = _chars(place)
        known = {
            frozenset(t for t in group if _meet(_chars(self.places[t]), chars)) for group in cond.musts
        }
        nots, musts = place.nots - (cond.nots - {thread}), place.musts - known
        if nots == place.nots and musts == place.musts:
            return thread
        return self._thread(place.node, place.behind, Cond(chars, False, nots, musts))

    def _ends_at_once(self, thread: int) -> bool:
        """The thread matches after one character, whatever comes then."""
        known = self._at_once.get(thread)
        if known is None:
            place = self.places[thread]
            known = self._at_once[thread] = not place.nots and not place.musts and any(
                isinstance(i, Match) and i.cond == TRUE for i in self.enter(place.node, place.behind)
            )
        return known

    def forbid(self, cond: Cond, items: Iterable[Item]) -> list[Cond]:
        """``cond``, and none of the items matches: a list of conditions of which one must hold."""
        items = list(items)
        threads = frozenset(i for i in items if isinstance(i, int))
        first = self._normal(Cond(cond.next, cond.end, cond.nots | threads, cond.musts)) if threads else cond
        conds = [] if first is None else [first]
        for item in items:
            if isinstance(item, Match):
                not_it = [each for c in conds for each in self._neither(c, item.cond)]
                conds = list(dict.fromkeys(not_it))
        return conds

    def _neither(self, cond: Cond, other: Cond) -> Iterator[Cond]:
        """``cond`` and not ``other``."""
        outside = self._normal(Cond(_minus(cond.next, other.next), cond.end and not other.end, cond.nots, cond.musts))
        if outside is not None:
            yield outside
        inside = _meet(cond.next, other.next)
        if not inside:
            return
        for thread in sorted(other.nots):
            made = self._normal(Cond(inside, False, cond.nots, cond.musts | {frozenset((thread,))}))
            if made is not None:
                yield made
        for group in other.musts:
            made = self._normal(Cond(inside, False, cond.nots | group, cond.musts))
            if made is not None:
                yield made

    def demand(self, cond: Cond, items: Iterable[Item]) -> list[Cond]:
        """``cond``, and one of the items matches: a list of conditions of which one must hold."""
        conds: dict[Cond, None] = {}
        left = cond.next
        threads = set()
        for item in items:
            if isinstance(item, int):
                threads.add(item)
                continue
            if item.cond == TRUE:
                return [cond]
            c = item.cond
            made = self._normal(
                Cond(_meet(cond.next, c.next), cond.end and c.end, cond.nots | c.nots, cond.musts | c.musts))
            if made is not None:
                conds[made] = None
            if not c.nots and not c.musts:
                left = _minus(left, c.next)
        if threads and left:
            made = self._normal(Cond(left, False, cond.nots, cond.musts | {frozenset(threads)}))
            if made is not None:
                conds[made] = None
        return list(conds)

    def under(self, thread: int, blockers: Sequence[Match]) -> Iterator[int]:
        """The thread, where none of the matches above it holds."""
        place = self.places[thread]
        for cond in self.forbid(Cond(_chars(place), False, place.nots, place.musts), blockers):
            if cond.next:
                yield self._thread(place.node, place.behind, cond)

    # -- scanners

    def scan(self, viable: int, dead: frozenset[Outcome], items: Iterable[Item], words: Iterable[tuple[Item, int]]
             ) -> Expr:
        """The scanner with these items in order of priority.

        Args:
            viable: bit set of the tokens that the parser can use; others compete and lead nowhere.
            dead: outcomes after which nothing can follow.
            words: keywords, each with the bit set of the terminals that it replaces.
        """
        words = list(words)
        done = [(item.terminal, owners) for item, owners in words if isinstance(item, Match)]
        threads: dict[int, None] = {}
        blockers: list[Match] = []
        ends: dict[Outcome, None] = {}
        for item in items:
            if isinstance(item, int):
                for thread in self.under(item, blockers) if blockers else (item,):
                    threads[thread] = None
                continue
            token = IGNORED if item.terminal in self.ignored else item.terminal
            if token != IGNORED:
                token = next((w for w, owners in done if owners >> item.terminal & 1), token)
            if viable >> token & 1:
                for cond in self.forbid(item.cond, [*blockers, *threads]):
                    outcome = Outcome(token, item.behind, cond)
                    if outcome not in dead:
                        ends[outcome] = None
            if item.cond == TRUE:
                break
            blockers.append(item)
        alive = 0
        for thread in threads:
            alive |= 1 << self.owner[self.places[thread].node]
        left = [(item, owners & alive) for item, owners in words if isinstance(item, int) and owners & alive]
        reach = alive
        if self.ignored and any(alive >> t & 1 for t in self.ignored):
            reach |= 1 << IGNORED
        for item, _ in left:
            reach |= 1 << self.owner[self.places[item].node]
        if not ends and not (viable & reach and threads):
            return NEVER
        viable &= reach
        if dead:
            dead = frozenset(o for o in dead if viable >> o.token & 1)
        numbers = tuple(sorted(self.outcome(o) for o in ends))
        scan: Scan = _intern(Scan, (self, viable, dead, tuple(threads), tuple(left), numbers), False, numbers)
        return scan


_sets: dict[CharSet, CharSet] = {ANY: ANY, EMPTY: EMPTY}


def _same(chars: CharSet) -> CharSet:
    """The one object for equal sets: comparing the hundreds of ranges of ``\\w`` costs more than all else here."""
    if len(_sets) > 1 << 16:
        _sets.clear()
        _sets.update({ANY: ANY, EMPTY: EMPTY})
    return _sets.setdefault(chars, chars)


@lru_cache(maxsize=1 << 16)
def _meet(a: CharSet, b: CharSet) -> CharSet:
    """The intersection."""
    if a is b or b is ANY:
        return a
    if a is ANY:
        return b
    found = []
    i = j = 0
    while i < len(a.ranges) and j < len(b.ranges):
        (a_lo, a_hi), (b_lo, b_hi) = a.ranges[i], b.ranges[j]
        if a_lo <= b_hi and b_lo <= a_hi:
            found.append((max(a_lo, b_lo), min(a_hi, b_hi)))
        if a_hi < b_hi:
            i += 1
        else:
            j += 1
    return _same(CharSet(found))


@lru_cache(maxsize=1 << 12)
def _other(chars: CharSet) -> CharSet:
    return _same(~chars)


def _minus(a: CharSet, b: CharSet) -> CharSet:
    return _meet(a, _other(b))


@lru_cache(maxsize=4096)
def _samples(sets: frozenset[CharSet]) -> tuple[bytes, ...]:
    """One character, in UTF-8, of each part into which the sets divide their union."""
    bounds = sorted({bound for chars in sets for lo, hi in chars.ranges for bound in (lo, hi + 1)})
    found: dict[tuple[bool, ...], bytes] = {}
    for lo, hi in pairwise(bounds):
        kind = tuple(lo in chars for chars in sets)
        if any(kind) and kind not in found:
            code = lo if not 0xD800 <= lo <= 0xDFFF else 0xE000
            if code < hi:
                found[kind] = chr(code).encode()
    return tuple(found.values())


def _chars(place: Place) -> CharSet:
    assert place.chars is not None
    return place.chars


def _one_char(tree: regex.Node) -> CharSet | None:
    """The set, if the tree matches exactly one character out of a set."""
    if isinstance(tree, regex.Chars):
        return tree.chars
    if isinstance(tree, regex.Alternate):
        union = EMPTY
        for item in tree.items:
            chars = _one_char(item)
            if chars is None:
                return None
            union |= chars
        return union
    return None


def _factored(items: Sequence[regex.Node]) -> list[regex.Node]:
    """Neighbouring alternatives with the same first part joined, which keeps their order."""
    if len(items) < 8:
        return list(items)
    groups: list[tuple[regex.Node, list[regex.Node]]] = []
    for item in items:
        parts = item.items if isinstance(item, regex.Concat) else (item,)
        head, tail = parts[0], regex.concat(parts[1:])
        if groups and groups[-1][0] == head and isinstance(head, regex.Chars):
            groups[-1][1].append(tail)
        else:
            groups.append((head, [tail]))
    made = []
    for head, tails in groups:
        rest = tails[0] if len(tails) == 1 else regex.Alternate(tuple(tails))
        made.append(head if isinstance(rest, regex.Empty) else regex.Concat((head, rest)))
    return made


class Scan(Expr):
    """What is left of a token after some bytes; made by ``Automaton.scan``.

    Its outcomes are indices into ``automaton.outcomes``.
    """

    __slots__ = ("_alive", "_rests", "automaton", "dead", "ends", "threads", "viable", "words")
    fields = ("automaton", "viable", "dead", "threads", "words", "ends")
    automaton: Automaton
    viable: int
    dead: frozenset[Outcome]
    threads: tuple[int, ...]
    words: tuple[tuple[int, int], ...]
    ends: tuple[int, ...]
    _rests: tuple[Expr, ...]
    _alive: bool

    def next_bytes(self, outcome: int) -> int:
        """Bit set of the bytes that may come after a token that ended with ``outcome``."""
        known = self.automaton.nexts.get(outcome)
        if known is None:
            chars = self.automaton.outcomes[outcome].cond.next
            known = ALL_BYTES
            if chars != ANY:
                char = UTF8.chars(chars)
                known = sum(1 << byte for byte in range(256) if char.derive(byte) is not NEVER)
            self.automaton.nexts[outcome] = known
        return known

    def successor(self, byte: int) -> Expr:
        """The derivative, before asking whether anything can still match."""
        step = self.automaton.step
        words: list[tuple[Item, int]] = []
        for word, owners in self.words:
            words += [(item, owners) for item in step(word, byte)]
        items = [item for thread in self.threads for item in step(thread, byte)]
        return self.automaton.scan(self.viable, self.dead, items, words) if items else NEVER

    def derive(self, byte: int) -> Expr:
        made = self.successor(byte)
        return made if made is NEVER or is_alive(made) else NEVER

    def byte_class(self, byte: int) -> int:
        try:
            rests = self._rests
        except AttributeError:
            rests = self._rests = tuple({place.rest: None for place in self._places()})
        mask = ALL_BYTES
        for rest in rests:
            mask &= rest.byte_class(byte)
        return mask

    def samples(self) -> Iterator[bytes]:
        """One character of each kind that the scanner tells apart; inside a character, one byte of each."""
        chars: set[CharSet] = set()
        for place in self._places():
            if place.chars is None:
                return (bytes((byte,)) for byte, _ in self.classes())
            chars.add(place.chars)
        return iter(_samples(frozenset(chars)))

    def _places(self) -> list[Place]:
        """The places of all threads, keywords and conditions."""
        places = self.automaton.places
        queue = [*self.threads, *(word for word, _ in self.words)]
        seen = set(queue)
        for thread in queue:
            place = places[thread]
            for other in (*place.nots, *(t for group in place.musts for t in group)):
                if other not in seen:
                    seen.add(other)
                    queue.append(other)
        return [places[thread] for thread in queue]

    def __repr__(self) -> str:
        owners = [self.automaton.owner[self.automaton.places[t].node] for t in self.threads]
        names = dict.fromkeys(self.automaton.names[o - 1] for o in owners)
        return f"Scan({' '.join(names)}, ends={self.ends})"


def is_alive(scan: Expr, fuel: int = 400) -> bool:
    """Whether the scanner can still reach a token that the parser can use. A search that runs out of ``fuel``
    (states) says yes."""
    assert isinstance(scan, Scan)
    try:
        return scan._alive
    except AttributeError:
        pass
    parent: dict[Scan, Scan | None] = {scan: None}
    queue = [scan]
    for at in queue:
        if at.ends or _surely_alive(at) or getattr(at, "_alive", False):
            step: Scan | None = at
            while step is not None:
                step._alive = True
                step = parent[step]
            return True
        if len(parent) > fuel:  # mark them all, lest each of them searches as far
            for each in parent:
                each._alive = True
            return True
        for sample in at.samples():
            left: Expr = at
            for byte in sample:
                left = left.successor(byte) if isinstance(left, Scan) else NEVER
            if isinstance(left, Scan) and left not in parent and getattr(left, "_alive", True):
                parent[left] = at
                queue.append(left)
    for each in parent:
        each._alive = False
    return False


def _surely_alive(scan: Scan) -> bool:
    """The first thread belongs to a usable terminal that nothing can stop."""
    if not scan.threads:
        return False
    automaton = scan.automaton
    place = automaton.places[scan.threads[0]]
    owner = automaton.owner[place.node]
    token = IGNORED if owner in automaton.ignored else owner
    return bool(
        scan.viable >> token & 1
        and not place.nots
        and not place.musts
        and automaton.is_sure(place.node, place.behind)
        and not any(outcome.token == token for outcome in scan.dead)
        and not any(owners >> owner & 1 for _, owners in scan.words)
    )
