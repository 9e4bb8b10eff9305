"""Weights as the step reads them: int8 rows with a scale each, in tiles of 32 rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange

from structgen.kernels.cpu.bits import JIT
from structgen.kernels.cpu.step.tiles import GROUP, ROWS


def padded(size: int, multiple: int = GROUP) -> int:
    """The next multiple."""
    return -(-size // multiple) * multiple


def packed_bytes(rows: int, size: int) -> int:
    """Bytes that a weight [rows, size] takes in the arena."""
    return padded(rows, ROWS) * padded(size, GROUP)


@njit(parallel=True, **JIT)
def pack_rows(weight: Any, order: Any, packed: Any, scales: Any) -> None:
    """Quantise and pack.

    Args:
        weight: f32 [N, K].
        order: int64 [rows], the row of ``weight`` that each packed row is; -1: zeros. ``rows`` is a multiple of 32.
        packed: uint8 [rows * K'], K' = K padded to 32: [rows / 32][K' / 4][2][16][4], plus 128.
        scales: f32 [rows].
    """
    size = weight.shape[1]
    quads = (size + 31) // 32 * 8
    for i in prange(order.shape[0]):
        row = np.int64(i)
        base = row // 32 * quads * 128 + row % 32 // 16 * 64 + row % 16 * 4
        source = order[row]
        largest = np.float32(0)
        if source >= 0:
            for k in range(size):
                largest = max(largest, abs(weight[source, k]))
        scales[row] = largest / np.float32(127)
        inverse = np.float32(127) / largest if largest > 0 else np.float32(0)
        for k in range(quads * 4):
            value = np.float32(0)
            if source >= 0 and k < size:
                value = np.rint(weight[source, k] * inverse)
            packed[base + k // 4 * 128 + k % 4] = np.uint8(np.int32(value) + 128)


@njit(**JIT)
def unpack_row(packed: Any, at: Any, scale: Any, row: Any, size: Any, out: Any, t: Any, factor: Any) -> None:
    """out f32 [t, :size] = row ``row`` of the weight packed at ``at``, times ``factor``; size: K padded to 32."""
    base = at + row // 32 * size * 32 + row % 32 // 16 * 64 + row % 16 * 4
    for k in range(size):
        value = np.int32(packed[base + k // 4 * 128 + k % 4]) - 128
        out[t, k] = np.float32(value) * scale * factor
