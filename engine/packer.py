"""A schedule as the tensors of a batch, written into buffers that are reused from step to step."""

from __future__ import annotations

import numpy as np
import torch

from structgen.engine.batch import Batch, Ids
from structgen.engine.request import Request
from structgen.engine.scheduler import Chunk, Schedule


class Packer:
    """Packs schedules; the batch it returns is valid until the next call.

    Args:
        max_tokens: most tokens in a step.
        max_seqs: most sequences in a step.
        max_blocks: most blocks a sequence has.
        block_size: tokens a block holds.
    """

    def __init__(self, *, max_tokens: int, max_seqs: int, max_blocks: int, block_size: int) -> None:
        self._block_size = block_size
        self._token_ids = np.zeros(max_tokens, np.int64)
        self._positions = np.zeros(max_tokens, np.int64)
        self._slots = np.zeros(max_tokens, np.int64)
        self._starts = np.zeros(max_seqs + 1, np.int32)
        self._context = np.zeros(max_seqs, np.int32)
        self._logits_rows = np.zeros(max_tokens, np.int64)
        self._tables = np.zeros(max_seqs * max_blocks, np.int32)
        # What each row of the tables holds: between cuts tables only grow, so mostly there is nothing, or one block, to
        # write.
        self._width = 0
        self._held: list[tuple[Request, int, int]] = []

    def pack(self, schedule: Schedule, legal: tuple[Ids | None, ...] = ()) -> Batch:
        """The batch of a schedule; it wants logits where its chunks do (`Chunk.num_logits`)."""
        chunks = schedule.chunks
        at = wanted = 0
        for row, chunk in enumerate(chunks):
            end = at + chunk.count + len(chunk.draft_ids)
            self._write_tokens(chunk, at, end)
            self._starts[row + 1] = end
            self._context[row] = chunk.start + end - at
            if rows := chunk.num_logits:
                self._logits_rows[wanted : wanted + rows] = range(end - rows, end)
                wanted += rows
            at = end
        return Batch(
            token_ids=torch.from_numpy(self._token_ids[:at]),
            positions=torch.from_numpy(self._positions[:at]),
            slots=torch.from_numpy(self._slots[:at]),
            query_starts=torch.from_numpy(self._starts[: len(chunks) + 1]),
            context_lens=torch.from_numpy(self._context[: len(chunks)]),
            block_tables=torch.from_numpy(self._write_tables(chunks)),
            logits_rows=torch.from_numpy(self._logits_rows[:wanted]),
            legal=legal,
        )

    def _write_tokens(self, chunk: Chunk, at: int, end: int) -> None:
        request, start, size = chunk.request, chunk.start, self._block_size
        table = request.block_table
        if end - at == 1:  # a decode: scalars are 3 x faster than slices of one
            self._token_ids[at] = request.token_ids[start]
            self._positions[at] = start
            self._slots[at] = table[start // size] * size + start % size
            return
        tokens = request.token_ids[start : start + chunk.count]
        self._token_ids[at:end] = [*tokens, *chunk.draft_ids]
        positions = np.arange(start, start + end - at)
        self._positions[at:end] = positions
        first = start // size
        blocks = np.array(table[first : (start + end - at - 1) // size + 1], np.int64)
        self._slots[at:end] = blocks[positions // size - first] * size + positions % size

    def _write_tables(self, chunks: tuple[Chunk, ...]) -> np.ndarray[tuple[int, int], np.dtype[np.int32]]:
        """Block tables [S, width], as wide as the longest one, in steps of 8 so that the width seldom changes."""
        longest = max((len(chunk.request.block_table) for chunk in chunks), default=0)
        width = min(-(-longest // 8) * 8, max(longest, len(self._tables) // max(len(chunks), 1)))
        tables = self._tables[: len(chunks) * width].reshape(len(chunks), width)
        if width != self._width:
            self._width = width
            self._held = []
        held = self._held
        for row, chunk in enumerate(chunks):
            request, table = chunk.request, chunk.request.block_table
            same = row < len(held) and held[row][0] is request and held[row][1] == request.num_cuts
            written = held[row][2] if same else 0
            if written != len(table) or not same:
                tables[row, written : len(table)] = table[written:]
                tables[row, len(table) :] = 0
                entry = (request, request.num_cuts, len(table))
                if row < len(held):
                    held[row] = entry
                else:
                    held.append(entry)
        del held[len(chunks) :]
        return tables
