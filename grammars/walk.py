"""The compiled loops over token tries. Fixed signatures, compiled once per machine and cached on disk.

A trie lies flat in depth-first order. For node j: ``byte[j]``, ``depth[j]``, ``end[j]`` (one past its subtree),
and the tokens that end at it: ``tokens[start[j]:start[j+1]]``. A subtree is thus a range of nodes and a range of
tokens.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numba import carray, njit  # type: ignore[attr-defined]
from numba.core import event, types
from numba.core.types import Array, int32, int64, uint8, uint32, uint64
from numba.extending import intrinsic
from numpy.typing import NDArray

from structgen.grammars.residual import DEAD, ENDS, LIVE, MISS

_types: Any = types
_two = _types.UniTuple(int64, 2)
_three = _types.UniTuple(int64, 3)
_u8 = Array(uint8, 1, "C")
_i32 = Array(int32, 1, "C")
_i64 = Array(int64, 1, "C")
_u32 = Array(uint32, 1, "C")
_u32_const = Array(uint32, 1, "C", readonly=True)
_u32_rows = Array(uint32, 2, "C")
_u64 = Array(uint64, 1, "C")
_delta = Array(int32, 2, "C")

_ENDS = ENDS
_LIVE = LIVE
_MISS = MISS
_DEAD = DEAD


class _Notice(event.Listener):
    """Says why the import takes so long, when it does: nothing is compiled where the cache on disk has all kernels."""

    given = False

    def on_start(self, event: Any) -> None:
        if not self.given:
            self.given = True
            print("structgen: compiling the mask kernels, once for this installation ...", file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        pass


_notice = _Notice()
event.register("numba:compile", _notice)  # type: ignore[no-untyped-call]


@njit(_i32(_u8, _i64, _u8, _i32, _i32), cache=True, nogil=True)
def build(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    byte: NDArray[np.uint8],
    depth: NDArray[np.int32],
    end: NDArray[np.int32],
) -> Any:
    """Lay out the trie of sorted, distinct strings ``data[offsets[i]:offsets[i+1]]`` (non-empty; node 0 is the
    root). The outputs must have room for ``len(data) + 1`` nodes. Returns the node at which each string ends,
    with the number of nodes appended."""
    n = len(offsets) - 1
    at = np.zeros(n + 1, dtype=np.int32)
    path = np.zeros(1 << 16, dtype=np.int32)
    nodes = 1
    byte[0] = 0
    depth[0] = 0
    level = 0
    before = np.int64(0)
    for i in range(n):
        a = offsets[i]
        length = offsets[i + 1] - a
        common = 0
        if i > 0:
            limit = min(length, offsets[i] - before)
            while common < limit and data[a + common] == data[before + common]:
                common += 1
        for d in range(level, common, -1):
            end[path[d]] = nodes
        for d in range(common, length):
            byte[nodes] = data[a + d]
            depth[nodes] = d + 1
            path[d + 1] = nodes
            nodes += 1
        at[i] = path[length]
        level = length
        before = a
    for d in range(level, 0, -1):
        end[path[d]] = nodes
    end[0] = nodes
    at[n] = nodes
    return at


@njit(_two(_i32, _i32, _u8, _i32, _i32, _u8), cache=True, nogil=True)
def children(
    depth: NDArray[np.int32],
    end: NDArray[np.int32],
    byte: NDArray[np.uint8],
    kids: NDArray[np.int32],
    kid_nodes: NDArray[np.int32],
    kid_bytes: NDArray[np.uint8],
) -> Any:
    """List the children of every node: those of node j are ``kid_nodes[kids[j]:kids[j + 1]]``, with their bytes beside
    them. (In the trie itself they lie far apart, and looking for one would miss the cache at each step.) ``kids`` has
    one more element than there are nodes. Returns (nodes, children)."""
    n = len(depth)
    base = depth[0]
    path = np.zeros(1 << 16, dtype=np.int32)
    kids[:] = 0
    for j in range(1, n):
        d = depth[j] - base
        path[d] = j
        kids[path[d - 1] + 1] += 1
    for j in range(n):
        kids[j + 1] += kids[j]
    places = kids[:n].copy()
    path[0] = 0
    for j in range(1, n):
        d = depth[j] - base
        path[d] = j
        place = places[path[d - 1]]
        kid_nodes[place] = j
        kid_bytes[place] = byte[j]
        places[path[d - 1]] += 1
    return n, kids[n]


# ------------------------------------------------------------------------------------------------ groups of bytes


def _groups() -> tuple[list[int], NDArray[np.uint64]]:
    """Sets of bytes by which subtrees are told apart (as 256-bit sets), and the bit of each byte."""
    singles = [*range(0x41, 0x5B), *range(0x61, 0x7B)]
    others = [b"0123456789", b" ", b'"', b"\\", b".", b"-_", b"/:", b",;=()[]{}<>"]
    sets = [1 << byte for byte in singles] + [sum(1 << byte for byte in each) for each in others]
    control = (1 << 0x20) - 1 | 1 << 0x7F
    sets += [control, (1 << 0x80) - 1 & ~control & ~sum(sets)]
    bits = np.zeros(256, dtype=np.uint64)
    for i, each in enumerate(sets):
        for byte in range(0x80):
            if each >> byte & 1:
                bits[byte] = 1 << i
    return sets, bits


GROUPS, _group_bits = _groups()
assert len(GROUPS) <= 62
BEYOND_ASCII = 63
"""The bit of characters in UTF-8; that of other bytes beyond ASCII is 62."""
_WIDE = np.uint64(1 << 63)
_BROKEN = np.uint64(1 << 62)


@njit(int64(_u8, _i32, _i32, _u8, _u64, _u64), cache=True, nogil=True)
def insides(
    byte: NDArray[np.uint8],
    kids: NDArray[np.int32],
    kid_nodes: NDArray[np.int32],
    kid_bytes: NDArray[np.uint8],
    bits: NDArray[np.uint64],
    inside: NDArray[np.uint64],
) -> Any:
    """Note for each node which groups of bytes the suffixes below it hold, if a character begins there. ``bits`` are
    the bits of ASCII bytes."""
    n = len(byte)
    # Below a node at which one to three more bytes of a character must come.
    amid = np.zeros((3, n), dtype=np.uint64)
    for j in range(n - 1, -1, -1):
        found = np.uint64(0)
        first, second, third = np.uint64(0), np.uint64(0), np.uint64(0)
        for k in range(kids[j], kids[j + 1]):
            b = kid_bytes[k]
            node = kid_nodes[k]
            if b < 0x80:
                found |= bits[b] | inside[node]
            elif b < 0xC2 or b > 0xF4:
                found |= _BROKEN
            elif b < 0xE0:
                found |= _WIDE | amid[0, node]
            else:
                lo = 0xA0 if b == 0xE0 else 0x90 if b == 0xF0 else 0x80
                hi = 0x9F if b == 0xED else 0x8F if b == 0xF4 else 0xBF
                found |= _WIDE | amid[1 if b < 0xF0 else 2, node]
                for i in range(kids[node], kids[node + 1]):
                    if kid_bytes[i] < lo or kid_bytes[i] > hi:
                        found |= _BROKEN
            if 0x80 <= b < 0xC0:
                first |= inside[node]
                second |= amid[0, node]
                third |= amid[1, node]
            else:
                first |= _BROKEN
                second |= _BROKEN
                third |= _BROKEN
        inside[j] = found
        amid[0, j] = first
        amid[1, j] = second
        amid[2, j] = third
    return n


def inside_of(byte: NDArray[np.uint8], kids: tuple[Any, Any, Any]) -> NDArray[np.uint64]:
    """uint64 [nodes]: bit i says that a byte of ``GROUPS[i]`` comes below the node."""
    made = np.empty(len(byte), dtype=np.uint64)
    insides(byte, *kids, _group_bits, made)
    return made


@njit(
    _two(_delta, _u8, _u64, _i32, _i32, _u8, _i32, _u64, _i32, _i32, _i32, _i32, _i64, _i32, _i32, _i32),
    cache=True,
    nogil=True,
)
def walk(
    delta: NDArray[np.int32],
    flags: NDArray[np.uint8],
    loops: NDArray[np.uint64],
    kids: NDArray[np.int32],
    kid_nodes: NDArray[np.int32],
    kid_bytes: NDArray[np.uint8],
    end: NDArray[np.int32],
    inside: NDArray[np.uint64],
    start: NDArray[np.int32],
    tokens: NDArray[np.int32],
    stack: NDArray[np.int32],
    cursor: NDArray[np.int32],
    at: NDArray[np.int64],
    stay: NDArray[np.int32],
    end_nodes: NDArray[np.int32],
    end_states: NDArray[np.int32],
) -> Any:
    """Run the DFA over the nodes below a root. ``stack[d]`` is the state at depth d below it, ``cursor[2 * d]`` the
    next child there, ``cursor[2 * d + 1]`` one past the last. Tokens that end in a live state go to ``stay``; nodes
    where the terminal may end go to ``end_nodes`` / ``end_states``. ``loops[s]`` are groups of bytes with which the
    state s goes on as itself, ``inside`` (empty: not known) those that come below each node: a subtree of nothing else
    is not looked at.

    ``at`` says where to go on and is updated: depth, tokens so far, ends so far. Where it stops at a depth of 0 or
    more, the transition to the next child there is not built yet. Returns tokens and ends."""
    d = at[0]
    n = at[1]
    m = at[2]
    skips = len(inside) > 0
    while d >= 0:
        k = cursor[2 * d]
        if k == cursor[2 * d + 1]:
            d -= 1
            continue
        s = delta[stack[d], kid_bytes[k]]
        if s <= _DEAD:
            if s == _MISS:
                break
            cursor[2 * d] = k + 1
            continue
        cursor[2 * d] = k + 1
        j = kid_nodes[k]
        flag = flags[s]
        if flag & _ENDS:
            end_nodes[m] = j
            end_states[m] = s
            m += 1
        if flag & _LIVE:
            alike = skips and flag & _ENDS == 0 and inside[j] & ~loops[s] == 0
            for i in range(start[j], start[end[j] if alike else j + 1]):
                stay[n] = tokens[i]
                n += 1
            if not alike and kids[j] < kids[j + 1]:
                d += 1
                stack[d] = s
                cursor[2 * d] = kids[j]
                cursor[2 * d + 1] = kids[j + 1]
    at[0] = d
    at[1] = n
    at[2] = m
    return n, m


# ------------------------------------------------------------------------------------------------ words

_AT_CHAR, _ESCAPE, _UTF8, _UNIT, _PAIR_ESCAPE, _PAIR_U, _LOW = range(7)
"""Where the reading of a spelled word is: between characters; after a backslash; inside of UTF-8; in the digits of an
escaped unit; behind a high surrogate, where a backslash, a ``u`` and the digits of the low one must follow."""

WORD_FIELDS = 6  # of a state: lo, hi, position, phase, value, digits or bytes


@njit(int64(_i32, _i32, int64, int64, int64, int64), cache=True, nogil=True)
def _first_from(
    codes: NDArray[np.int32], offsets: NDArray[np.int32], lo: int, hi: int, position: int, code: int
) -> int:
    """The first of the sorted words ``lo..hi`` whose character at ``position`` is at least ``code``."""
    while lo < hi:
        middle = (lo + hi) >> 1
        if codes[offsets[middle] + position] < code:
            lo = middle + 1
        else:
            hi = middle
    return lo


@njit(int64(_i32, _i32, _i64, int64, int64, int64, int64), cache=True, nogil=True)
def _read_spelling(
    codes: NDArray[np.int32],
    offsets: NDArray[np.int32],
    state: NDArray[np.int64],
    at: int,
    byte: int,
    is_json: int,
    tail: int,
) -> int:
    """Read one byte: the state at ``state[at:]`` becomes that at ``state[at + WORD_FIELDS:]``. Returns -1 if no
    word goes on so, -2 if one does, and else the word that the byte, its tail, has closed."""
    lo = state[at]
    hi = state[at + 1]
    position = state[at + 2]
    phase = state[at + 3]
    value = state[at + 4]
    left = state[at + 5]
    first = np.int64(0)
    last = np.int64(-1)
    after = np.int64(_AT_CHAR)
    if phase == _AT_CHAR:
        ended = offsets[lo + 1] - offsets[lo] == position
        if byte == tail:
            return lo if ended else -1
        lo += ended
        if is_json == 0:
            first = last = byte
        elif byte == 0x5C:
            if lo == hi:
                return -1
            first = 0
            last = 0x10FFFF
            after = _ESCAPE
        elif byte < 0x80:
            if byte < 0x20 or byte == 0x22:
                return -1
            first = last = byte
        elif byte < 0xC2 or byte > 0xF4:
            return -1
        else:
            after = _UTF8
            left = 1 if byte < 0xE0 else 2 if byte < 0xF0 else 3
            value = (byte & (0x3F >> left)) << (6 * left)
            first = max(value, 0x80 if left == 1 else 0x800 if left == 2 else 0x10000)
            last = value + (1 << (6 * left)) - 1
    elif phase == _UTF8:
        if byte & 0xC0 != 0x80:
            return -1
        left -= 1
        value |= (byte & 0x3F) << (6 * left)
        first = value
        last = value + (1 << (6 * left)) - 1
        after = _UTF8 if left else _AT_CHAR
    elif phase == _ESCAPE:
        if byte == 0x75:
            first = 0
            last = 0x10FFFF
            after = _UNIT
            value = 0
            left = 4
        elif byte == 0x22 or byte == 0x5C or byte == 0x2F:
            first = last = byte
        elif byte == 0x62:
            first = last = 8
        elif byte == 0x66:
            first = last = 12
        elif byte == 0x6E:
            first = last = 10
        elif byte == 0x72:
            first = last = 13
        elif byte == 0x74:
            first = last = 9
    elif phase == _PAIR_ESCAPE:
        if byte != 0x5C:
            return -1
        first = value
        last = value + 0x3FF
        after = _PAIR_U
    elif phase == _PAIR_U:
        if byte != 0x75:
            return -1
        first = value
        last = value + 0x3FF
        after = _LOW
        value <<= 16  # the digits of the low surrogate come below
        left = 4
    else:
        if 0x30 <= byte <= 0x39:
            digit = byte - 0x30
        elif 0x41 <= (byte & 0xDF) <= 0x46:
            digit = (byte & 0xDF) - 0x37
        else:
            return -1
        left -= 1
        span = np.int64(1) << (4 * left)
        if phase == _LOW:
            base = value >> 16
            unit = (value & 0xFFFF) | (digit << (4 * left))
            value = (base << 16) | unit
            first = base + max(unit, 0xDC00) - 0xDC00
            last = base + min(unit + span - 1, 0xDFFF) - 0xDC00
            after = _LOW if left else _AT_CHAR
        else:
            value |= digit << (4 * left)
            if left:
                # One spelling or a pair of them: both kinds of words stay until the last digit.
                after = _UNIT
                a = _first_from(codes, offsets, lo, hi, position, value)
                if a == hi or codes[offsets[a] + position] > min(value + span - 1, 0xFFFF):
                    high = max(value, 0xD800)
                    top = min(value + span - 1, 0xDBFF)
                    if high > top:
                        return -1
                    a = _first_from(codes, offsets, lo, hi, position, 0x10000 + ((high - 0xD800) << 10))
                    if a == hi or codes[offsets[a] + position] > 0x10000 + ((top - 0xD800) << 10) + 0x3FF:
                        return -1
                first = 0
                last = 0x10FFFF
            elif 0xD800 <= value <= 0xDBFF:
                first = value = 0x10000 + ((value - 0xD800) << 10)
                last = value + 0x3FF
                after = _PAIR_ESCAPE
            else:
                first = last = value
    if first > last:
        return -1
    lo = _first_from(codes, offsets, lo, hi, position, first)
    if first < last:
        hi = _first_from(codes, offsets, lo, hi, position, last + 1)
    else:
        # Of one character: often of a single word.
        end = lo
        if end < hi and codes[offsets[end] + position] == first:
            end += 1
            if end < hi and codes[offsets[end] + position] == first:
                end = _first_from(codes, offsets, end, hi, position, first + 1)
        hi = end
    if lo >= hi:
        return -1
    to = at + WORD_FIELDS
    state[to] = lo
    state[to + 1] = hi
    state[to + 2] = position + (after == _AT_CHAR)
    state[to + 3] = after
    state[to + 4] = value
    state[to + 5] = left
    return -2


@njit(
    _two(_i32, _i32, int64, int64, _u8, _i32, _i32, _u8, _i32, _i32, int64, _i64, _i32, _i32, _i32, _i32),
    cache=True,
    nogil=True,
)
def words(
    codes: NDArray[np.int32],
    offsets: NDArray[np.int32],
    is_json: int,
    tail: int,
    begun: NDArray[np.uint8],
    kids: NDArray[np.int32],
    kid_nodes: NDArray[np.int32],
    kid_bytes: NDArray[np.uint8],
    start: NDArray[np.int32],
    tokens: NDArray[np.int32],
    root: int,
    state: NDArray[np.int64],
    cursor: NDArray[np.int32],
    stay: NDArray[np.int32],
    end_nodes: NDArray[np.int32],
    end_words: NDArray[np.int32],
) -> Any:
    """Read sorted words over the nodes below ``root``: ``codes[offsets[i]:offsets[i + 1]]`` are the code points of word
    i, which JSON spells in any way (``is_json``), or bytes. ``tail`` is the byte that closes a word, -1 if none does.
    ``begun`` has been read before. Tokens that end inside go to ``stay``, nodes at which a word ends to ``end_nodes`` /
    ``end_words``; returns the two counts. ``state`` is scratch (``WORD_FIELDS`` for each level, two more levels), and
    so is ``cursor``, see ``walk``."""
    state[0] = 0
    state[1] = len(offsets) - 1
    state[2] = 0
    state[3] = _AT_CHAR
    state[4] = 0
    state[5] = 0
    n = 0
    m = 0
    for b in begun:
        if _read_spelling(codes, offsets, state, 0, b, is_json, tail) != -2:
            return n, m
        for k in range(WORD_FIELDS):
            state[k] = state[k + WORD_FIELDS]
    d = 0
    cursor[0] = kids[root]
    cursor[1] = kids[root + 1]
    while d >= 0:
        k = cursor[2 * d]
        if k == cursor[2 * d + 1]:
            d -= 1
            continue
        cursor[2 * d] = k + 1
        found = _read_spelling(codes, offsets, state, d * WORD_FIELDS, kid_bytes[k], is_json, tail)
        if found == -1:
            continue
        j = kid_nodes[k]
        if found >= 0:
            end_nodes[m] = j
            end_words[m] = found
            m += 1
            continue
        to = (d + 1) * WORD_FIELDS
        if tail < 0 and state[to + 3] == _AT_CHAR:
            lo = state[to]
            if offsets[lo + 1] - offsets[lo] == state[to + 2]:
                end_nodes[m] = j
                end_words[m] = lo
                m += 1
                if state[to + 1] - lo == 1:
                    continue
        for i in range(start[j], start[j + 1]):
            stay[n] = tokens[i]
            n += 1
        if kids[j] < kids[j + 1]:
            d += 1
            cursor[2 * d] = kids[j]
            cursor[2 * d + 1] = kids[j + 1]
    return n, m


@njit(int64(_i32, _i32, _u8, int64, int64), cache=True, nogil=True)
def child(
    kids: NDArray[np.int32], kid_nodes: NDArray[np.int32], kid_bytes: NDArray[np.uint8], node: int, wanted: int
) -> int:
    """The child of ``node`` for the byte ``wanted``; -1 if there is none."""
    for k in range(kids[node], kids[node + 1]):
        if kid_bytes[k] >= wanted:
            found: int = kid_nodes[k] if kid_bytes[k] == wanted else -1
            return found
    return -1


@njit(
    _two(_delta, _u8, int64, int64, _u8, _i32, _i32, _i32, _i32, _i32, _i32, _i64, _i32, _i32, _i32, _i32),
    cache=True,
    nogil=True,
)
def count(
    delta: NDArray[np.int32],
    flags: NDArray[np.uint8],
    between: int,
    root: int,
    byte: NDArray[np.uint8],
    depth: NDArray[np.int32],
    end: NDArray[np.int32],
    start: NDArray[np.int32],
    tokens: NDArray[np.int32],
    stack: NDArray[np.int32],
    counts: NDArray[np.int32],
    at: NDArray[np.int64],
    stay: NDArray[np.int32],
    needs: NDArray[np.int32],
    end_nodes: NDArray[np.int32],
    end_counts: NDArray[np.int32],
) -> Any:
    """``walk`` for characters and what closes them: ``between`` is the state between characters, ``counts[d]`` how many
    are complete at relative depth d. ``needs`` says how many characters a token that stays has begun. ``at[1:4]``
    is updated: next node, tokens, ends. Returns (next node, tokens); a next node inside is one whose transition is not
    built yet."""
    j = at[1]
    n = at[2]
    m = at[3]
    last = end[root]
    base = depth[root]
    while j < last:
        d = depth[j] - base
        s = delta[stack[d - 1], byte[j]]
        if s <= _DEAD:
            if s == _MISS:
                break
            j = end[j]
            continue
        stack[d] = s
        counts[d] = counts[d - 1] + (s == between)
        flag = flags[s]
        if flag & _ENDS:
            end_nodes[m] = j
            end_counts[m] = counts[d]
            m += 1
        if flag & _LIVE:
            for k in range(start[j], start[j + 1]):
                stay[n] = tokens[k]
                needs[n] = counts[d] + (s != between)
                n += 1
            j += 1
        else:
            j = end[j]
    at[1] = j
    at[2] = n
    at[3] = m
    return j, n


@njit(_two(_u8, _i32, _i32, _i32, _u8), cache=True, nogil=True)
def room(
    byte: NDArray[np.uint8],
    end: NDArray[np.int32],
    start: NDArray[np.int32],
    roots: NDArray[np.int32],
    first: NDArray[np.uint8],
) -> Any:
    """Upper bounds (nodes, tokens) for ``merge`` with the same arguments."""
    nodes = 1
    tokens = 0
    for r in roots:
        tokens += start[r + 1] - start[r]
        c = r + 1
        while c < end[r]:
            if first[byte[c]]:
                nodes += end[c] - c
                tokens += start[end[c]] - start[c]
            c = end[c]
    return nodes, tokens


@njit(
    _two(_u8, _i32, _i32, _i32, _i32, _u8, int64, _u8, _i32, _i32, _i32, _i32),
    cache=True,
    nogil=True,
)
def merge(
    byte: NDArray[np.uint8],
    end: NDArray[np.int32],
    start: NDArray[np.int32],
    tokens: NDArray[np.int32],
    roots: NDArray[np.int32],
    first: NDArray[np.uint8],
    total: int,
    out_byte: NDArray[np.uint8],
    out_depth: NDArray[np.int32],
    out_end: NDArray[np.int32],
    out_start: NDArray[np.int32],
    out_tokens: NDArray[np.int32],
) -> Any:
    """The union of the subtrees of ``roots``, as one trie, without the suffixes whose first byte b has ``first[b]`` 0.
    Returns (nodes, tokens). ``total`` is the bound on nodes that ``room`` gives; the outputs must have that room."""
    # Depth-first over groups of source nodes that stand for one target node. `pool` holds groups back to back;
    # the stack holds (group start, group end, byte, depth), children pushed in falling order of their byte.
    pool = np.empty(2 * total + len(roots) + 8, dtype=np.int32)
    lows = np.empty(total + 8, dtype=np.int32)
    highs = np.empty(total + 8, dtype=np.int32)
    bytes_ = np.empty(total + 8, dtype=np.uint8)
    depths = np.empty(total + 8, dtype=np.int32)
    path = np.empty(1 << 16, dtype=np.int32)
    counts = np.zeros(256, dtype=np.int32)
    places = np.zeros(256, dtype=np.int32)
    used = 0
    for r in roots:
        pool[used] = r
        used += 1
    top = 1
    lows[0] = 0
    highs[0] = used
    bytes_[0] = 0
    depths[0] = 0
    n = 0
    t = 0
    level = -1
    while top > 0:
        top -= 1
        lo = lows[top]
        hi = highs[top]
        d = depths[top]
        for k in range(level, d - 1, -1):
            out_end[path[k]] = n
        path[d] = n
        level = d
        out_byte[n] = bytes_[top]
        out_depth[n] = d
        out_start[n] = t
        n += 1
        for g in range(lo, hi):
            node = pool[g]
            for k in range(start[node], start[node + 1]):
                out_tokens[t] = tokens[k]
                t += 1
        if hi - lo == 1:
            # One source: push its children as groups of one, in reverse.
            node = pool[lo]
            bottom = top
            c = node + 1
            while c < end[node]:
                if d == 0 and not first[byte[c]]:
                    c = end[c]
                    continue
                pool[used] = c
                lows[top] = used
                highs[top] = used + 1
                bytes_[top] = byte[c]
                depths[top] = d + 1
                used += 1
                top += 1
                c = end[c]
            a = bottom
            b = top - 1
            while a < b:
                lows[a], lows[b] = lows[b], lows[a]
                highs[a], highs[b] = highs[b], highs[a]
                bytes_[a], bytes_[b] = bytes_[b], bytes_[a]
                a += 1
                b -= 1
            continue
        children = 0
        for g in range(lo, hi):
            node = pool[g]
            c = node + 1
            while c < end[node]:
                if d > 0 or first[byte[c]]:
                    counts[byte[c]] += 1
                    children += 1
                c = end[c]
        if children == 0:
            continue
        place = used
        for v in range(256):
            if counts[v] > 0:
                places[v] = place
                place += counts[v]
        for v in range(255, -1, -1):
            if counts[v] > 0:
                lows[top] = places[v]
                highs[top] = places[v] + counts[v]
                bytes_[top] = v
                depths[top] = d + 1
                top += 1
        for g in range(lo, hi):
            node = pool[g]
            c = node + 1
            while c < end[node]:
                v = byte[c]
                if d > 0 or first[v]:
                    pool[places[v]] = c
                    places[v] += 1
                    counts[v] = 0
                c = end[c]
        used = place
    for k in range(level, -1, -1):
        out_end[path[k]] = n
    out_start[n] = t
    return n, t


@njit(int64(_u32, _i32), cache=True, nogil=True)
def set_bits(row: NDArray[np.uint32], tokens: NDArray[np.int32]) -> int:
    """Set the bits of ``tokens`` in ``row`` (uint32 [ceil(V/32)])."""
    for t in tokens:
        row[t >> 5] |= np.uint32(1) << np.uint32(t & 31)
    return 0


@njit(int64(_u32), cache=True, nogil=True)
def hash_row(row: NDArray[np.uint32]) -> int:
    """A hash of a mask row's content. Four lanes of multiply and shift, so that one word does not wait for another."""
    prime = np.uint64(0x9E3779B97F4A7C15)
    shift = np.uint64(29)
    a = np.uint64(1)
    b = np.uint64(2)
    c = np.uint64(3)
    d = np.uint64(4)
    size = len(row) & ~3
    for i in range(0, size, 4):
        a = (a ^ np.uint64(row[i])) * prime
        b = (b ^ np.uint64(row[i + 1])) * prime
        c = (c ^ np.uint64(row[i + 2])) * prime
        d = (d ^ np.uint64(row[i + 3])) * prime
        a ^= a >> shift
        b ^= b >> shift
        c ^= c >> shift
        d ^= d >> shift
    for i in range(size, len(row)):
        a = (a ^ np.uint64(row[i])) * prime
        a ^= a >> shift
    a = ((a * prime ^ b) * prime ^ c) * prime ^ d
    found: int = np.int64(a ^ (a >> shift))
    return found


@njit(_types.boolean(_u32_const, _u32), cache=True, nogil=True)
def equal(a: NDArray[np.uint32], b: NDArray[np.uint32]) -> bool:
    """Whether a mask row that is read-only and another one are equal."""
    for i in range(len(a)):  # noqa: SIM110 - numba wants a loop
        if a[i] != b[i]:
            return False
    return True


@intrinsic
def _pointer(typing_context: Any, address: Any) -> Any:
    """The pointer to an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))

    return types.voidptr(address), generate


@njit(int64(_i64, _i32, _i32, _u32_rows), cache=True, nogil=True)
def fill_rows(
    addresses: NDArray[np.int64],
    tokens: NDArray[np.int32],
    offsets: NDArray[np.int32],
    rows: NDArray[np.uint32],
) -> int:
    """Fill the mask rows [n, words]: row i is a copy of the words at ``addresses[i]``, or, where that is 0, the bits of
    ``tokens[offsets[i]:offsets[i + 1]]``."""
    words = rows.shape[1]
    for i in range(len(addresses)):
        if addresses[i]:
            source = carray(_pointer(addresses[i]), (words,), np.uint32)  # type: ignore[call-arg]
            for k in range(words):
                rows[i, k] = source[k]
        else:
            for k in range(words):
                rows[i, k] = 0
            for k in range(offsets[i], offsets[i + 1]):
                rows[i, tokens[k] >> 5] |= np.uint32(1) << np.uint32(tokens[k] & 31)
    return 0


event.unregister("numba:compile", _notice)  # type: ignore[no-untyped-call]
