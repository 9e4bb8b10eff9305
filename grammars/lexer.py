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
from typing import NamedTuple

from structgen.errors import GrammarTooComplex
from structgen.grammars import regex
from structgen.grammars.charset import ANY, EMPTY, CharSet
from structgen.grammars.encoding import UTF8
from structgen.grammars.expr import ALL_BYTES, EPSILON, NEVER, Expr, _intern
from structgen.grammars.nfa import Nfa, meet, minus, samples

MAX_THREADS = 200_000
IGNORED = 0
"""The token of an ignored terminal; the others are numbered from 1."""


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


class Automaton(Nfa):
    """The NFAs of all terminals of a grammar, and the threads made of them.

    Args:
        patterns, names: as in Nfa.
        ignored: the terminals that the lexer drops.
    """

    def __init__(self, patterns: Sequence[regex.Node], names: Sequence[str], ignored: Iterable[int] = ()) -> None:
        super().__init__(patterns, names)
        self.ignored = frozenset(ignored)
        self.places: list[Place] = []
        self.outcomes: list[Outcome] = []
        self.nexts: dict[int, int] = {}  # see Scan.next_bytes
        self._place_ids: dict[Place, int] = {}
        self._outcome_ids: dict[Outcome, int] = {}
        self._at_once: dict[int, bool] = {}
        self._items: dict[tuple[int, int, Cond], tuple[Item, ...]] = {}
        self._steps: dict[int, tuple[Item, ...]] = {}

    def is_possible(self, terminal: int) -> bool:
        """Whether some text before and after lets the terminal match."""
        if any(self.is_sure(self.starts[terminal], behind) for behind in range(self.at_start + 1)):
            return True
        starts = (self.enter(self.starts[terminal], behind) for behind in range(self.at_start + 1))
        scans = (self.scan((2 << len(self.names)) - 1, frozenset(), items, ()) for items in starts)
        return any(scan is not NEVER and is_alive(scan) for scan in scans)

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

    def enter(self, node: int, behind: int, cond: Cond = TRUE) -> tuple[Item, ...]:
        """The threads and matches that begin at a node, under a condition, in order of priority."""
        key = (node, behind, cond)
        known = self._items.get(key)
        if known is not None:
            return known
        items: dict[Item, None] = {}
        for raw in self.raw(node, behind):
            conds: list[Cond] = [cond]
            for negated, body in raw.aheads:
                inner = self.enter(body, behind)
                conds = [c for each in conds for c in (self.forbid if negated else self.demand)(each, inner)]
            for each in conds:
                if raw.terminal is None:
                    chars = raw.chars if each.next is ANY else meet(raw.chars, each.next)
                    limited = self._normal(Cond(chars, False, each.nots, each.musts), keep=True) if chars else None
                    if limited is not None:
                        items[self._thread(raw.node, raw.behind, limited)] = None
                else:
                    limited = self._normal(
                        Cond(meet(each.next, raw.chars), each.end and raw.end, each.nots, each.musts))
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
                    chars = minus(chars, _chars(place))
                else:
                    kept.add(t)
            nots = frozenset(t for t in kept if meet(_chars(self.places[t]), chars))
        if musts:
            end = False
            groups: list[frozenset[int]] = []
            for group in musts:
                able = [t for t in group if t not in nots and meet(_chars(self.places[t]), chars)]
                if able and all(self._ends_at_once(t) for t in able):
                    union = EMPTY
                    for t in able:
                        union |= _chars(self.places[t])
                    chars = meet(chars, union)
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
            frozenset(t for t in group if meet(_chars(self.places[t]), chars)) for group in cond.musts
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
        outside = self._normal(Cond(minus(cond.next, other.next), cond.end and not other.end, cond.nots, cond.musts))
        if outside is not None:
            yield outside
        inside = meet(cond.next, other.next)
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
                Cond(meet(cond.next, c.next), cond.end and c.end, cond.nots | c.nots, cond.musts | c.musts))
            if made is not None:
                conds[made] = None
            if not c.nots and not c.musts:
                left = minus(left, c.next)
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


def _chars(place: Place) -> CharSet:
    assert place.chars is not None
    return place.chars


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
        return iter(samples(frozenset(chars)))

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
