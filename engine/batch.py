"""One engine step as the model sees it: flat over tokens, whatever mix of prefill chunks and decodes it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Batch:
    """The tokens of one step; all tensors live on the CPU and the runner moves them.

    Sequence ``s`` owns the tokens ``query_starts[s]:query_starts[s + 1]``; they are its last ones, so their
    positions end at ``context_lens[s] - 1``. T tokens, S sequences, R wanted rows of logits.

    Attributes:
        token_ids: int64 [T].
        positions: int64 [T], position of each token in its sequence.
        slots: int64 [T], the KV slot (block * block_size + offset) that each token writes.
        query_starts: int32 [S + 1], first token of each sequence, then T.
        context_lens: int32 [S], tokens of the sequence including those of this step.
        block_tables: int32 [S, max_blocks], blocks of the sequence in order, padded with 0.
        logits_rows: int64 [R], indices into T where logits are wanted.
        legal: for each of the R, which few groups of 32 tokens (32 i to 32 i + 31) have logits that matter, int64 and
            ascending; the others may be -inf. None where all matter; empty: all do everywhere. A runner may ignore it.
    """

    token_ids: Tensor
    positions: Tensor
    slots: Tensor
    query_starts: Tensor
    context_lens: Tensor
    block_tables: Tensor
    logits_rows: Tensor
    legal: tuple[Ids | None, ...] = ()
