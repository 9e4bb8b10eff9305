"""Rows of logits to token ids: masks, penalties, temperature, truncation, seeds, log probabilities.

Random choices are functions of (request seed, position) and not draws from a stream, so a request's output depends
neither on its neighbours nor on being preempted. One uniform number a row is enough: the token is found by inverting
the cumulative distribution.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from structgen.engine.constraints import MaskRows
from structgen.engine.request import Request
from structgen.errors import RequestError, StructgenError

_BLOCK = 128  # tokens a block of the two-level inversion; 128 and 256 are level at 49,152 tokens
_NEGATIVE_INFINITY = float("-inf")


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Log probabilities at one position: the sampled token first, then the likeliest ones.

    Attributes:
        token_ids, logprobs, ranks: in parallel; rank 1 is the likeliest.
    """

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Samples:
    """One entry for each row of logits.

    Attributes:
        token_ids: the sampled tokens; meaningless where ``errors`` has the row.
        logprobs: by row, for requests that asked.
        errors: by row, why nothing could be sampled.
    """

    token_ids: tuple[int, ...]
    logprobs: dict[int, TokenLogprobs]
    errors: dict[int, StructgenError]


def uniform(seed: int, position: int, stream: int = 0) -> float:
    """A number in [0, 1) that is a pure function of its arguments (blake2b as a counter-based generator)."""
    digest = hashlib.blake2b(f"{seed}:{position}:{stream}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) * 2.0**-53


class Sampler:
    """Samples one token a row.

    Args:
        vocab_size: width of the logits.
        num_token_ids: ids the tokenizer has; those above are padding of the model and are never sampled.
        eos_token_ids: end tokens, held back before ``min_tokens``.
    """

    def __init__(
        self, vocab_size: int, *, num_token_ids: int | None = None, eos_token_ids: Sequence[int] = ()
    ) -> None:
        self._vocab_size = vocab_size
        self._num_token_ids = vocab_size if num_token_ids is None else min(num_token_ids, vocab_size)
        self._eos = [token for token in eos_token_ids if token < vocab_size]

    @torch.inference_mode()
    def sample(self, logits: Tensor, requests: Sequence[Request], masks: MaskRows) -> Samples:
        """Sample a token for each request.

        Args:
            logits: float32 [R, vocab_size]; changed in place.
            requests: R requests, one a row.
            masks: rows of those that have a grammar.
        """
        if logits.shape != (len(requests), self._vocab_size):
            raise RuntimeError(
                f"logits have shape {tuple(logits.shape)} for {len(requests)} rows of {self._vocab_size}"
            )
        reporting = [row for row, request in enumerate(requests) if request.params.logprobs is not None]
        reports = {
            row: logits[row].log_softmax(-1)
            for row in reporting
            if requests[row].params.logprobs_mode == "raw"
        }
        if self._num_token_ids < self._vocab_size:
            logits[:, self._num_token_ids :] = _NEGATIVE_INFINITY
        _apply_masks(logits, requests, masks)
        self._hold_back_ends(logits, requests)
        for row in reporting:
            if row not in reports:
                reports[row] = logits[row].log_softmax(-1)
        _penalise(logits, requests)

        best, ids = logits.max(-1)
        errors = dict(masks.errors)
        for row, value in enumerate(best.tolist()):
            if not math.isfinite(value) and row not in errors:
                errors[row] = _no_token(value)
        random = [
            row for row, request in enumerate(requests) if not request.params.is_greedy and row not in errors
        ]
        token_ids: list[int] = ids.tolist()
        if random:
            for row, token in zip(random, _sample_rows(logits, best, requests, random), strict=True):
                token_ids[row] = token
        logprobs = {
            row: _report(reports[row], token_ids[row], requests[row].params.logprobs or 0)
            for row in reporting
            if row not in errors
        }
        return Samples(tuple(token_ids), logprobs, errors)

    def _hold_back_ends(self, logits: Tensor, requests: Sequence[Request]) -> None:
        """min_tokens for rows without a grammar; with one, the mask has done it (engine/constraints.py)."""
        for row, request in enumerate(requests):
            params = request.params
            if request.num_output < params.min_tokens and request.constraint is None:
                stops = [token for token in params.stop_token_ids if token < self._vocab_size]
                if ends := self._eos + stops:
                    logits[row, ends] = _NEGATIVE_INFINITY


def _no_token(best: float) -> StructgenError:
    if best == _NEGATIVE_INFINITY:
        return RequestError("no token is allowed here: masks and min_tokens leave nothing of the vocabulary")
    return RequestError(f"the model's logits are not finite (the largest is {best})")


def _apply_masks(logits: Tensor, requests: Sequence[Request], masks: MaskRows) -> None:
    """Set the logits of illegal tokens to -inf."""
    if not masks.rows:
        return
    for row, key in zip(masks.rows, masks.keys, strict=True):
        request = requests[row]
        if key != (request.serial, len(request.token_ids)):
            raise RuntimeError(f"the mask made for {key} lies at the row of {request.request_id}")
    # unpackbits of the inverted words: 10 us a row of 49,152 tokens, against 191 us by shifts in torch.
    blocked = np.unpackbits(np.invert(masks.words).view(np.uint8), axis=1, bitorder="little")
    blocked_rows = torch.from_numpy(blocked.view(np.bool_))[:, : logits.shape[1]].to(logits.device)
    if len(masks.rows) == len(requests):
        logits.masked_fill_(blocked_rows, _NEGATIVE_INFINITY)
    else:
        for index, row in enumerate(masks.rows):
            logits[row].masked_fill_(blocked_rows[index], _NEGATIVE_INFINITY)


def _penalise(logits: Tensor, requests: Sequence[Request]) -> None:
    """Repetition penalty over prompt and output, presence and frequency penalties over the output."""
    for row, request in enumerate(requests):
        params = request.params
        if params.repetition_penalty != 1.0:
            seen = torch.tensor(list(set(request.token_ids)), device=logits.device)
            values = logits[row, seen]
            factor = params.repetition_penalty
            logits[row, seen] = torch.where(values > 0, values / factor, values * factor)
        if params.presence_penalty or params.frequency_penalty:
            counts = Counter(request.output_token_ids)
            if counts:
                seen = torch.tensor(list(counts), device=logits.device)
                times = torch.tensor(list(counts.values()), dtype=torch.float32, device=logits.device)
                logits[row, seen] -= params.presence_penalty + params.frequency_penalty * times


def _sample_rows(logits: Tensor, best: Tensor, requests: Sequence[Request], rows: list[int]) -> list[int]:
    """Tokens for the rows that are not greedy."""
    chosen = [requests[row] for row in rows]
    if len(rows) == len(requests):
        scores = logits.sub_(best.unsqueeze(1))
    else:
        index = torch.tensor(rows, device=logits.device)
        scores = logits.index_select(0, index).sub_(best.index_select(0, index).unsqueeze(1))
    temperatures = [request.params.temperature for request in chosen]
    if any(value != 1.0 for value in temperatures):
        scores.div_(torch.tensor(temperatures, dtype=torch.float32, device=scores.device).unsqueeze(1))
    # A temperature near 0 makes 0 / 0 nowhere: the best score is exactly 0 and stays so.
    _truncate(scores, chosen)
    draws = [uniform(request.seed, len(request.token_ids)) for request in chosen]
    return _invert(scores.exp_(), torch.tensor(draws, dtype=torch.float64, device=scores.device))


def _truncate(scores: Tensor, requests: Sequence[Request]) -> None:
    """Set scores outside top-k, then top-p, then min-p to -inf. ``scores``: float32 [S, V], largest 0 in each row."""
    vocab_size = scores.shape[1]
    top_k = [row for row, request in enumerate(requests) if 0 < request.params.top_k < vocab_size]
    if top_k:
        _keep_top_k(scores, top_k, [requests[row].params.top_k for row in top_k])
    top_p = [row for row, request in enumerate(requests) if request.params.top_p < 1.0]
    if top_p:
        _keep_top_p(scores, top_p, [requests[row].params.top_p for row in top_p])
    min_p = [row for row, request in enumerate(requests) if request.params.min_p > 0.0]
    if min_p:
        lowest = [math.log(requests[row].params.min_p) for row in min_p]
        _keep_from(scores, min_p, torch.tensor(lowest, dtype=torch.float32, device=scores.device))


def _keep_from(scores: Tensor, rows: list[int], thresholds: Tensor) -> None:
    """Drop what lies below the row's threshold; ties with it stay, so the result is one set whatever the order."""
    if len(rows) == scores.shape[0]:
        scores.masked_fill_(scores < thresholds.unsqueeze(1), _NEGATIVE_INFINITY)
        return
    for row, threshold in zip(rows, thresholds, strict=True):
        scores[row].masked_fill_(scores[row] < threshold, _NEGATIVE_INFINITY)


def _keep_top_k(scores: Tensor, rows: list[int], ks: list[int]) -> None:
    picked = scores if len(rows) == scores.shape[0] else scores[rows]
    top = picked.topk(max(ks), dim=-1).values
    last = torch.tensor(ks, device=scores.device).sub_(1).unsqueeze(1)
    _keep_from(scores, rows, top.gather(1, last).squeeze(1))


def _keep_top_p(scores: Tensor, rows: list[int], ps: list[float]) -> None:
    """A token stays when the likelier ones before it hold less than ``p``."""
    picked = scores if len(rows) == scores.shape[0] else scores[rows]
    total = picked.exp().sum(-1, keepdim=True, dtype=torch.float64)
    wanted = torch.tensor(ps, dtype=torch.float64, device=scores.device).unsqueeze(1) * total
    width = min(1024, picked.shape[1])
    while True:
        # Sorting 49,152 scores takes 3 ms a row; the first 1,024 nearly always hold p.
        top = picked.topk(width, dim=-1).values
        sums = top.exp().cumsum(-1, dtype=torch.float64)
        if width == picked.shape[1] or bool((sums[:, -1:] >= wanted).all()):
            break
        width = min(width * 8, picked.shape[1])
    # The last kept one is the first whose sum reaches p: as many stay as have a smaller sum, plus it.
    last = (sums < wanted).sum(-1, keepdim=True).clamp_(max=width - 1)
    _keep_from(scores, rows, top.gather(1, last).squeeze(1))


def _invert(weights: Tensor, draws: Tensor) -> list[int]:
    """For each row, the token whose share of the cumulative weight covers ``draw``.

    In two levels, blocks and then tokens, since a cumulative sum over the whole vocabulary in float64 costs ten
    times as much as block sums. A token of weight 0 is never returned.

    Args:
        weights: float32 [S, V], not negative, at least one positive in each row.
        draws: float64 [S] in [0, 1).
    """
    rows, vocab_size = weights.shape
    if vocab_size % _BLOCK:
        weights = torch.nn.functional.pad(weights, (0, _BLOCK - vocab_size % _BLOCK))
    blocks = weights.view(rows, -1, _BLOCK)
    target = draws.unsqueeze(1)
    block, rest = _pick(blocks.sum(-1).to(torch.float64), target, scale=True)
    chosen = blocks.gather(1, block.unsqueeze(2).expand(-1, -1, _BLOCK)).squeeze(1)
    token, _ = _pick(chosen.to(torch.float64), rest, scale=False)
    result: list[int] = (block * _BLOCK + token).squeeze(1).tolist()
    return result


def _pick(weights: Tensor, target: Tensor, *, scale: bool) -> tuple[Tensor, Tensor]:
    """Index [S, 1] of the entry covering ``target`` (a share of the total with ``scale``), and what is left of it."""
    sums = weights.cumsum(-1)
    total = sums[:, -1:]
    if scale:
        target = target * total
    # Rounding may push the target up to the total, past the last entry with weight.
    target = torch.minimum(target, torch.nextafter(total, torch.zeros_like(total)))
    index = torch.searchsorted(sums, target, right=True)
    before = sums.gather(1, index) - weights.gather(1, index)
    return index, (target - before).clamp_(min=0.0)


def _report(logprobs: Tensor, token_id: int, count: int) -> TokenLogprobs:
    """The sampled token and the ``count`` likeliest. ``logprobs``: float32 [V]."""
    own = logprobs[token_id]
    rank = int((logprobs > own).sum()) + 1
    ids, values, ranks = [token_id], [float(own)], [rank]
    if count:
        top = logprobs.topk(min(count, logprobs.shape[0]))
        for place, (value, other) in enumerate(zip(top.values.tolist(), top.indices.tolist(), strict=True), 1):
            if other != token_id and value > _NEGATIVE_INFINITY:
                ids.append(other)
                values.append(value)
                ranks.append(place)
    return TokenLogprobs(tuple(ids), tuple(values), tuple(ranks))
