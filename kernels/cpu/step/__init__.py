"""The one-call step: a whole forward pass of an int8 decoder as one numba function (docs/performance.md)."""

from structgen.kernels.cpu.step.attention import BLOCK, TOKENS, attend, scratch_size
from structgen.kernels.cpu.step.forward import COLUMN, Factors, Inputs, Layer, Shape, embed, run_head, run_layers
from structgen.kernels.cpu.step.packing import pack_rows, packed_bytes, padded, unpack_row
from structgen.kernels.cpu.step.tiles import AVX2, PORTABLE, VNNI, Isa, find_isa

__all__ = [
    "AVX2",
    "BLOCK",
    "COLUMN",
    "PORTABLE",
    "TOKENS",
    "VNNI",
    "Factors",
    "Inputs",
    "Isa",
    "Layer",
    "Shape",
    "attend",
    "embed",
    "find_isa",
    "pack_rows",
    "packed_bytes",
    "padded",
    "run_head",
    "run_layers",
    "scratch_size",
    "unpack_row",
]
