"""The shortest strings of an expression, by outcome.

Most expressions are measured by their structure (a sequence is the sum of its parts, a repetition ``lo`` times its
body), so that ``minLength: 100000`` costs nothing. Intersections, complements and scanners are searched: A* (Hart,
Nilsson, Raphael 1968) over derivatives, with the largest of the operands' lengths as the bound. Where an operand only
counts and the others stand still, many bytes are one step.

Lengths are remembered with the expression; texts are put together when asked for.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import count
from weakref import WeakKeyDictionary, WeakSet

from structgen.grammars.bounded import AtMost
from structgen.grammars.deferred import Deferred
from structgen.grammars.expr import (
    EPSILON,
    NEVER,
    Alt,
    And,
    Expr,
    Literal,
    Out,
    Rep,
    Seq,
    Switch,
    Tagged,
    WordNode,
    Words,
    both,
    neg,
    out,
    rep,
    seq,
)
from structgen.grammars.lifted import Lifted, Reading, completion

FUEL = 3_000  # derivatives of one search
MAX_TAGS = 4
EXTRA_FUEL = 300  # for each further outcome, once one is found
LISTING_FUEL = 2_000  # derivatives for one more string
LISTED_BYTES = 26  # of a class of bytes that lead to the same
LONG_RUN = 16  # a counter that wants more repetitions is run through in one step

MAX_LISTED = 10_000  # beginnings of strings that a listing keeps


class Spent(Exception):
    """The budget of the caller's whole search is used up; nothing half-finished has been remembered."""


class Budget:
    """Derivatives that all searches together may still take, and so on through everything that they call."""

    def __init__(self) -> None:
        self.left: int | None = None  # None: only the limits of each search count

    def take(self, derivatives: int = 1) -> None:
        """Raises Spent when there are none left."""
        if self.left is not None:
            self.left -= derivatives
            if self.left < 0:
                raise Spent


BUDGET = Budget()

Ends = dict[int, int]
"""Outcome -> bytes of the shortest string that ends with it."""

_ends: WeakKeyDictionary[Expr, Ends] = WeakKeyDictionary()
_steps: WeakKeyDictionary[Expr, dict[int, tuple[bytes, Expr]]] = WeakKeyDictionary()
"""Searched expressions: outcome -> the first bytes of the shortest string, and what they lead to."""
_deferred: WeakKeyDictionary[Expr, bool] = WeakKeyDictionary()
_bounds: WeakKeyDictionary[Expr, int] = WeakKeyDictionary()
_exhausted: WeakSet[Expr] = WeakSet()
"""Tagged expressions whose search saw every state: they have no other outcomes."""
_serial = count()


def ends(expr: Expr) -> Ends:
    """The length of the shortest string for each outcome. An outcome is missing when nothing ends with it, or when
    the search for it ran out of fuel."""
    found = _ends.get(expr)
    if found is None:
        found = _ends[expr] = _measured(expr)
    return found


def shortest(expr: Expr) -> int | None:
    """The length of the shortest string; None where there is none, or none was found."""
    return min(ends(expr).values(), default=None)


def _measured(expr: Expr) -> Ends:
    if isinstance(expr, Out):
        return {expr.outcome: 0}
    if isinstance(expr, Literal):
        return {expr.outcome: len(expr.data)}
    if isinstance(expr, Seq):
        return _sequence(expr)
    if isinstance(expr, (Alt, Switch)):
        parts = expr.items if isinstance(expr, Alt) else tuple(dict.fromkeys(rest for _, _, rest in expr.cases))
        return _any(parts, 0 if isinstance(expr, Alt) else 1)
    if isinstance(expr, Rep):
        if expr.lo == 0:
            return {0: 0}
        body = shortest(expr.body)
        return {} if body is None else {0: expr.lo * body}
    if isinstance(expr, Words):
        return _of_words(expr)
    if isinstance(expr, Deferred):
        return ends(expr.body)
    if expr is NEVER:
        return {}
    if isinstance(expr, (Lifted, Reading)):
        known = completion(expr)
        if known is not None:
            _steps[expr] = {0: (known, EPSILON)}
            return {0: len(known)}
    return _of_tagged(expr) if isinstance(expr, Tagged) else _search(expr)


def _any(parts: Sequence[Expr], more: int) -> Ends:
    """The least of each outcome, and ``more``. Deferred parts are read only where nothing else ends: measuring them
    means building them, and they hold rare spellings (leap seconds) of what the other parts spell as shortly."""
    found: Ends = {}
    for want_deferred in (False, True):
        for part in parts:
            if _is_deferred(part) is want_deferred:
                for outcome, length in ends(part).items():
                    if length + more < found.get(outcome, length + more + 1):
                        found[outcome] = length + more
        if found:
            break
    return found


def _is_deferred(expr: Expr) -> bool:
    """Every string goes through a deferred part."""
    found = _deferred.get(expr)
    if found is None:
        found = False
        if isinstance(expr, Seq):
            at: Expr = expr
            while isinstance(at, Seq) and not found:
                found = _is_deferred(at.head)
                at = at.tail
            found = found or _is_deferred(at)
        elif isinstance(expr, Alt):
            found = all(map(_is_deferred, expr.items))
        elif isinstance(expr, Switch):
            found = all(_is_deferred(rest) for _, _, rest in expr.cases)
        elif isinstance(expr, Deferred):
            found = True
        _deferred[expr] = found
    return found


def _sequence(expr: Seq) -> Ends:
    heads = 0
    rest: Expr = expr
    while isinstance(rest, Seq) and (rest is expr or rest not in _ends):
        head = shortest(rest.head)
        if head is None:
            return {}
        heads += head
        rest = rest.tail
    return {outcome: heads + length for outcome, length in ends(rest).items()}


def _of_tagged(expr: Tagged) -> Ends:
    """A short search finds the common outcomes, and often shows that there are no others. Else each other combination
    of tags is an intersection, which knows what it looks for. The more of them were looked for in vain, the shorter."""
    found = _search(expr)
    if len(expr.tags) > MAX_TAGS or expr in _exhausted:
        return found
    fuel = FUEL
    for outcome in range(1 << len(expr.tags)):
        if outcome not in found:
            tags = [tag if outcome >> i & 1 else neg(tag) for i, tag in enumerate(expr.tags)]
            same = both(expr.body, *tags)
            if isinstance(same, And) and same not in _ends:
                _ends[same] = _search(same, fuel)
            length = shortest(same)
            if length is None:
                fuel = max(fuel // 2, EXTRA_FUEL)
            else:
                found[outcome] = length
                _steps.setdefault(expr, {})[outcome] = (word(same, None), out(outcome))
    return found


def _of_words(expr: Words) -> Ends:
    tail, begun = len(expr.tail), len(expr.partial)
    found: Ends = {}
    if not begun:
        return {outcome: length + tail for outcome, length in _of_node(expr.node, expr).items()}
    for char, child in expr.node.children.items():
        lengths = [len(s) for s in expr.encoding.spellings(char) if s[:begun] == expr.partial and len(s) > begun]
        if lengths:
            for outcome, length in _of_node(child, expr).items():
                length += min(lengths) - begun + tail
                if length < found.get(outcome, length + 1):
                    found[outcome] = length
    return found


def _of_node(root: WordNode, expr: Words) -> Ends:
    """Outcome -> least spelled length below a node."""
    memo = _word_lengths(expr)
    order, queue = [], [root]
    while queue:
        node = queue.pop()
        if node not in memo:
            order.append(node)
            queue.extend(node.children.values())
    for node in reversed(order):
        found: Ends = {} if node.outcome is None else {node.outcome: 0}
        for char, child in node.children.items():
            more = min(map(len, expr.encoding.spellings(char)), default=None)
            if more is not None:
                for outcome, length in memo[child].items():
                    if length + more < found.get(outcome, length + more + 1):
                        found[outcome] = length + more
        memo[node] = found
    return memo[root]


_by_encoding: dict[object, WeakKeyDictionary[WordNode, Ends]] = {}


def _word_lengths(expr: Words) -> WeakKeyDictionary[WordNode, Ends]:
    found = _by_encoding.get(expr.encoding)
    if found is None:
        found = _by_encoding[expr.encoding] = WeakKeyDictionary()
    return found


# ------------------------------------------------------------------------------------------------ search


def bound(expr: Expr) -> int:
    """No string of the language is shorter. Cheap: nothing is searched."""
    found = _bounds.get(expr)
    if found is None:
        known = _ends.get(expr)
        if known:
            return min(known.values())
        found = _bounds[expr] = _bound(expr)
    return found


def _bound(expr: Expr) -> int:
    if expr.outcomes:
        return 0
    if isinstance(expr, And):
        return max(1, *map(bound, expr.items))
    if isinstance(expr, (AtMost, Tagged)):
        return bound(expr.body)
    if isinstance(expr, Seq):
        total = 0
        at: Expr = expr
        while isinstance(at, Seq):
            total += bound(at.head)
            at = at.tail
        return total + bound(at)
    if isinstance(expr, Alt):
        return min(map(bound, expr.items))
    if isinstance(expr, Switch):
        return 1 + min(bound(rest) for _, _, rest in expr.cases)
    if isinstance(expr, Rep):
        return expr.lo * bound(expr.body)
    if isinstance(expr, Literal):
        return len(expr.data)
    if isinstance(expr, Words):
        return min(_of_words(expr).values(), default=1)
    return expr.position.nearest if isinstance(expr, Lifted) else 1


def _is_searched(expr: Expr) -> bool:
    return not isinstance(expr, (Out, Literal, Seq, Alt, Switch, Rep, Words, Deferred))


def _possible(expr: Expr) -> frozenset[int] | None:
    """The outcomes that a string may end with, or more; None: unknown."""
    if expr not in _outcomes:
        _outcomes[expr] = _possible_outcomes(expr)
    return _outcomes[expr]


def _possible_outcomes(expr: Expr) -> frozenset[int] | None:
    if isinstance(expr, (Out, Literal)):
        return frozenset((expr.outcome,))
    if isinstance(expr, Seq):
        at: Expr = expr
        while isinstance(at, Seq):
            at = at.tail
        return _possible(at)
    if isinstance(expr, (And, Alt, Switch)):
        parts = [rest for _, _, rest in expr.cases] if isinstance(expr, Switch) else expr.items
        sets = [_possible(part) for part in dict.fromkeys(parts)]
        return None if None in sets else frozenset().union(*sets)  # type: ignore[arg-type]
    if isinstance(expr, AtMost):
        return _possible(expr.body)
    if isinstance(expr, Words):
        return frozenset(_of_words(expr))
    if isinstance(expr, Tagged) or type(expr).next_bytes is not Expr.next_bytes:
        return None
    return _PLAIN


_PLAIN = frozenset((0,))
_outcomes: WeakKeyDictionary[Expr, frozenset[int] | None] = WeakKeyDictionary()


def _search(root: Expr, fuel: int = FUEL) -> Ends:
    """A* from ``root`` to every outcome."""
    wanted = _possible(root)
    quick = _guess(root) if wanted == _PLAIN else None
    if quick is not None:
        _steps[root] = {0: (quick, EPSILON)}
        return {0: len(quick)}
    costs: dict[Expr, int] = {root: 0}
    came: dict[Expr, tuple[Expr, bytes]] = {}
    heap: list[tuple[int, int, int, Expr]] = [(bound(root), 0, next(_serial), root)]
    found: Ends = {}
    if isinstance(root, Tagged):
        fuel = EXTRA_FUEL << MAX_TAGS
    while heap and fuel > 0:
        total, cost, _, at = heapq.heappop(heap)
        if -cost > costs[at]:
            continue
        if wanted is not None and wanted <= found.keys() and total >= max(found.values()):
            break
        cost = -cost
        known = (_ends.get(at) if _is_searched(at) else ends(at)) if at is not root else None
        for outcome, length in (dict.fromkeys(at.outcomes, 0) if known is None else known).items():
            if cost + length < found.get(outcome, cost + length + 1):
                found[outcome] = cost + length
                _trace(at, outcome, length, came, root, wanted == _PLAIN)
        if found and isinstance(root, Tagged):
            fuel = min(fuel, EXTRA_FUEL * ((1 << min(len(root.tags), MAX_TAGS)) - len(found)))
        if known is not None:
            continue
        for byte, mask in at.classes():
            fuel -= 1
            BUDGET.take()
            if mask.bit_count() > 1:
                byte = nice(mask)
            after = at.derive(byte)
            if after is NEVER:
                continue
            _push(after, cost + 1, at, bytes([byte]), costs, came, heap)
            run = _run(at, after, byte)
            if run is not None:
                _push(run[0], cost + run[1], at, bytes([byte]) * run[1], costs, came, heap)
    if not heap and isinstance(root, Tagged):
        _exhausted.add(root)
    return found


def _push(
    after: Expr, cost: int, at: Expr, data: bytes, costs: dict[Expr, int], came: dict[Expr, tuple[Expr, bytes]],
    heap: list[tuple[int, int, int, Expr]],
) -> None:  # fmt: skip
    if cost < costs.get(after, cost + 1):
        costs[after] = cost
        came[after] = (at, data)
        # Of equal ones the farthest first: bounds are often exact, and then the first path is the last.
        heapq.heappush(heap, (cost + bound(after), -cost, next(_serial), after))


def _trace(
    at: Expr, outcome: int, length: int, came: dict[Expr, tuple[Expr, bytes]], root: Expr, is_only: bool
) -> None:
    """Remember the path from ``root`` to ``at``, which ends with ``outcome`` after ``length`` more bytes. ``is_only``:
    there is no other outcome, so that the lengths on the path are all there is to know."""
    after = at
    while after is not root:
        before, data = came[after]
        length += len(data)
        _steps.setdefault(before, {})[outcome] = (data, after)
        if is_only and before is not root:
            _ends[before] = {outcome: length}
        after = before


def _guess(root: Expr) -> bytes | None:
    """The shortest string of the longest operand, if the others have it too."""
    if isinstance(root, AtMost):
        items: tuple[Expr, ...] = (root.body,)
    elif isinstance(root, And):
        items = tuple(item for item in root.items if not _is_searched(item))
    else:
        return None
    best = max(items, key=bound, default=None)
    if best is None or bound(best) < bound(root):
        return None
    length = shortest(best)
    if length is None or length != bound(root) or length > 64:
        return None
    text = word(best, min(ends(best), key=ends(best).__getitem__))
    at: Expr = root
    for byte in text:
        at = at.derive(byte)
    return text if at.outcomes == (0,) else None


def _run(at: Expr, after: Expr, byte: int) -> tuple[Expr, int] | None:
    """The state after as many times ``byte`` as counters want, where nothing but counters changes; and how many."""
    if not isinstance(at, And):
        return None
    times = 0
    for item in at.items:
        counter = item.head if isinstance(item, Seq) else item
        if item.derive(byte) is item:
            continue
        if not isinstance(counter, Rep) or counter.lo <= LONG_RUN or counter.body.derive(byte) is not EPSILON:
            return None
        if item.derive(byte) is not _counted(item, counter, 1):
            return None
        times = min(times or counter.lo, counter.lo)
    if times <= LONG_RUN:
        return None
    times -= 1
    made = []
    for item in at.items:
        counter = item.head if isinstance(item, Seq) else item
        stands = item.derive(byte) is item or not isinstance(counter, Rep)
        made.append(item if stands else _counted(item, counter, times))  # type: ignore[arg-type]
    return both(*made), times


def _counted(item: Expr, counter: Rep, times: int) -> Expr:
    left = rep(counter.body, counter.lo - times, None if counter.hi is None else counter.hi - times)
    return seq(left, item.tail) if isinstance(item, Seq) else left


# ------------------------------------------------------------------------------------------------ texts

_NICE = [
    sum(1 << b for b in group)
    for group in (range(0x61, 0x7B), range(0x30, 0x3A), range(0x41, 0x5B), b"_-", b" ", range(0x21, 0x7F))
]


def nice(mask: int) -> int:
    """A byte out of a set, a letter or digit if there is one."""
    for group in _NICE:
        if mask & group:
            mask &= group
            break
    return (mask & -mask).bit_length() - 1


def word(expr: Expr, outcome: int | None) -> bytes:
    """A shortest string that ends with ``outcome``, one of ``ends(expr)`` (None: with any)."""
    parts: list[bytes] = []
    stack: list[tuple[Expr, int | None]] = [(expr, outcome)]
    while stack:
        at, end = stack.pop()
        if (at.outcomes if end is None else end in at.outcomes):
            continue
        if end is None:
            lengths = ends(at)
            end = min(lengths, key=lengths.__getitem__)
        if _is_searched(at):
            data, after = _steps[at][end]
            parts.append(data)
            stack.append((after, end))
        elif isinstance(at, Literal):
            parts.append(at.data)
        elif isinstance(at, Seq):
            heads: list[tuple[Expr, int | None]] = []
            rest: Expr = at
            while isinstance(rest, Seq):
                heads.append((rest.head, None))
                rest = rest.tail
            stack.append((rest, end))
            stack += heads[::-1]
        elif isinstance(at, Alt):
            stack.append((_best(at.items, end), end))
        elif isinstance(at, Switch):
            length, mask = ends(_best([rest for _, _, rest in at.cases], end))[end], 0
            for lo, hi, rest in at.cases:
                if not _is_deferred(rest) and ends(rest).get(end) == length:
                    mask |= (1 << (hi + 1)) - (1 << lo)
            if not mask:
                mask = next(1 << lo for lo, _, rest in at.cases if ends(rest).get(end) == length)
            byte = nice(mask)
            parts.append(bytes([byte]))
            stack.append((at.derive(byte), end))
        elif isinstance(at, Rep):
            body = ends(at.body)
            parts.append(word(at.body, min(body, key=body.__getitem__)) * at.lo)
        elif isinstance(at, Words):
            data, after = _first_char(at, end)
            parts.append(data)
            stack.append((after, end))
        else:
            assert isinstance(at, Deferred)
            stack.append((at.body, end))
    return b"".join(parts)


def _best(parts: Sequence[Expr], outcome: int) -> Expr:
    """The part that ends first with ``outcome``, as ``_any`` sees it."""
    ready = [part for part in parts if not _is_deferred(part)]
    best = min(ready, key=lambda part: ends(part).get(outcome, 1 << 60), default=None)
    if best is None or outcome not in ends(best):
        best = min(parts, key=lambda part: ends(part).get(outcome, 1 << 60))
    return best


def _first_char(expr: Words, outcome: int) -> tuple[bytes, Expr]:
    """The rest of the first character of a shortest word, and what follows it."""
    wanted, begun = ends(expr)[outcome], len(expr.partial)
    for char in expr.node.children:
        for spelling in expr.encoding.spellings(char):
            if spelling[:begun] == expr.partial and len(spelling) > begun:
                data = spelling[begun:]
                after: Expr = expr
                for byte in data:
                    after = after.derive(byte)
                if ends(after).get(outcome) == wanted - len(data):
                    return data, after
    return expr.tail, expr.derive(expr.tail[0])


class _Listing:
    """The strings of an expression that end with an outcome, found as far as they were asked for."""

    def __init__(self, expr: Expr, outcome: int) -> None:
        self.outcome = outcome
        self.found: list[bytes] = []
        first = ends(expr).get(outcome)
        self.heap: list[tuple[int, int, bytes, Expr]] = [] if first is None else [(first, 0, b"", expr)]

    def more(self) -> bool:
        """Find one more."""
        outcome, heap, fuel = self.outcome, self.heap, LISTING_FUEL
        while heap and fuel > 0 and len(heap) < MAX_LISTED:
            _, _, data, at = heap[0]
            more = []
            for byte, mask in at.classes():
                fuel -= 1
                BUDGET.take()
                after = at.derive(byte)
                length = ends(after).get(outcome) if after is not NEVER else None
                if length is None:
                    continue
                listed = []
                for _ in range(min(mask.bit_count(), LISTED_BYTES)):
                    listed.append(nice(mask))
                    mask &= ~(1 << listed[-1])
                for byte in reversed(listed):
                    made = data + bytes([byte])
                    # The latest first: words of one length are finished one by one.
                    more.append((len(made) + length, -next(_serial), made, after))
            heapq.heappop(heap)  # only now: what is left out when the budget ends would never come again
            for entry in more:
                heapq.heappush(heap, entry)
            if outcome in at.outcomes:
                self.found.append(data)
                return True
        return False


@lru_cache(maxsize=64)
def _listing(expr: Expr, outcome: int) -> _Listing:
    return _Listing(expr, outcome)


def words(expr: Expr, outcome: int) -> Iterator[bytes]:
    """Strings that end with ``outcome``, shortest first: a sample of them, with some bytes of each kind."""
    listing = _listing(expr, outcome)
    at = 0
    while at < len(listing.found) or listing.more():
        yield listing.found[at]
        at += 1
