"""The compiled loops over token tries. Fixed signatures, compiled once per machine and cached on disk.

A trie lies flat in depth-first order. For node j: ``byte[j]``, ``depth[j]``, ``end[j]`` (one past its subtree),
and the tokens that end at it: ``tokens[start[j]:start[j+1]]``. A subtree is thus a range of nodes and a range of
tokens.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
from numba import njit
from numba.core import types
from numba.core.types import Array, int32, int64, uint8, uint32
from numpy.typing import NDArray

from structgen.grammars.residual import DEAD, ENDS, LIVE, MISS

_types: Any = types
_two = _types.UniTuple(int64, 2)
_three = _types.UniTuple(int64, 3)
_u8 = Array(uint8, 1, "C")
_i32 = Array(int32, 1, "C")
_i64 = Array(int64, 1, "C")
_u32 = Array(uint32, 1, "C")
_delta = Array(int32, 2, "C")

_ENDS = ENDS
_LIVE = LIVE
_MISS = MISS
_DEAD = DEAD


def _note() -> None:
    print("structgen: compiling the mask kernels, once for this installation ...", file=sys.stderr, flush=True)


_timer = threading.Timer(2.0, _note)
_timer.daemon = True
_timer.start()


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


@njit(
    _three(_delta, _u8, _u8, _i32, _i32, _i32, _i32, _i32, _i64, _i32, _i32, _i32), cache=True, nogil=True
)
def walk(
    delta: NDArray[np.int32],
    flags: NDArray[np.uint8],
    byte: NDArray[np.uint8],
    depth: NDArray[np.int32],
    end: NDArray[np.int32],
    start: NDArray[np.int32],
    tokens: NDArray[np.int32],
    stack: NDArray[np.int32],
    at: NDArray[np.int64],
    stay: NDArray[np.int32],
    end_nodes: NDArray[np.int32],
    end_states: NDArray[np.int32],
) -> Any:
    """Run the DFA over the subtree of node ``at[0]``, from node ``at[1]`` on; ``stack[d]`` is the state at relative
    depth d. Tokens that end in a live state go to ``stay``; nodes where the terminal may end go to ``end_nodes`` /
    ``end_states``. ``at[2:4]`` hold the counts so far. Returns (next node, counts): a next node inside the subtree is
    one whose transition is not built yet."""
    root = at[0]
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
        flag = flags[s]
        if flag & _ENDS:
            end_nodes[m] = j
            end_states[m] = s
            m += 1
        if flag & _LIVE:
            for k in range(start[j], start[j + 1]):
                stay[n] = tokens[k]
                n += 1
            j += 1
        else:
            j = end[j]
    return j, n, m


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


_timer.cancel()
