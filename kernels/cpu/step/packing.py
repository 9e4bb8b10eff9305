"""Weights as the step reads them: int8 with a scale for 64 of a row, in tiles of 32 rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange

from structgen.kernels.cpu.bits import JIT, widen
from structgen.kernels.cpu.step.tiles import BLOCK, BLOCK_BYTES, ROWS


def padded(size: int, multiple: int = BLOCK) -> int:
    """The next multiple."""
    return -(-size // multiple) * multiple


def packed_bytes(rows: int, size: int) -> int:
    """Bytes that a weight [rows, size] takes in the arena."""
    return padded(rows, ROWS) // ROWS * (padded(size) // BLOCK) * BLOCK_BYTES


@njit(parallel=True, **JIT)
def pack_rows(weight: Any, order: Any, packed: Any) -> None:
    """Quantise and pack.

    A scale is the smallest bfloat16 by which no weight is larger than 127.

    Args:
        weight: f32 [N, K].
        order: int64 [rows], the row of ``weight`` that each packed row is; -1: zeros. ``rows`` is a multiple of 32.
        packed: uint8 [rows / 32][K' / 64][`BLOCK_BYTES`], K' = K padded to 64; see `tiles`.
    """
    size = weight.shape[1]
    blocks = (size + BLOCK - 1) // BLOCK
    for i in prange(order.shape[0]):
        row = np.int64(i)
        base = row // ROWS * blocks * BLOCK_BYTES
        lane = row % ROWS // 16 * 64 + row % 16 * 4
        values = np.zeros(BLOCK, np.float32)
        bits = np.zeros(1, np.float32)
        for block in range(blocks):
            largest = np.float32(0)
            for k in range(BLOCK):
                at = block * BLOCK + k
                values[k] = weight[order[row], at] if order[row] >= 0 and at < size else np.float32(0)
                largest = max(largest, abs(values[k]))
            bits[0] = largest / np.float32(127)
            top = (np.int64(bits.view(np.uint32)[0]) + 0xFFFF) >> 16
            scale = widen(np.uint16(top))
            inverse = np.float32(1) / scale if largest > 0 else np.float32(0)
            for k in range(BLOCK):
                value = np.int32(np.rint(values[k] * inverse))
                packed[base + k // 4 * 128 + lane + k % 4] = np.uint8(min(max(value, -127), 127) + 128)
            end = base + ROWS * BLOCK + 2 * (row % ROWS)
            packed[end] = np.uint8(top & 0xFF)
            packed[end + 1] = np.uint8(top >> 8)
            base += BLOCK_BYTES


@njit(**JIT)
def unpack_row(packed: Any, at: Any, row: Any, size: Any, out: Any, t: Any, factor: Any) -> None:
    """out f32 [t, :size] = row ``row`` of the weight packed at ``at``, times ``factor``; size: K padded to 64."""
    blocks = size // BLOCK
    base = at + row // ROWS * blocks * BLOCK_BYTES
    lane = row % ROWS // 16 * 64 + row % 16 * 4
    for block in range(blocks):
        end = base + ROWS * BLOCK + 2 * (row % ROWS)
        scale = widen(np.uint16(np.uint16(packed[end]) | np.uint16(packed[end + 1]) << 8)) * factor
        for k in range(BLOCK):
            value = np.int32(packed[base + k // 4 * 128 + lane + k % 4]) - 128
            out[t, block * BLOCK + k] = np.float32(value) * scale
        base += BLOCK_BYTES
