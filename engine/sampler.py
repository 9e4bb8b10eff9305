"""Rows of logits to token ids: masks, penalties, temperature, truncation, seeds, log probabilities.

Random choices are functions of (request seed, position) and not draws from a stream, so a request's output depends
neither on its neighbours nor on being preempted. One uniform number a row is enough: the token is found by inverting
the cumulative distribution.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from structgen.engine.constraints import MaskRows
from structgen.engine.request import Request
from structgen.errors import RequestError, StructgenError

_BLOCK = 128  # tokens a block of the two-level inversion; 128 and 256 are level at 49,152 tokens
_NEGATIVE_INFINITY = float("-inf")
_LOWEST = -85.0  # a token e**85 times less likely than the likeliest is never sampled; float32 ends at e**-87

# For each byte of a mask, the largest value its eight logits may have.
_CAPS = np.where(np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"), np.inf, -np.inf)
_CAPS = _CAPS.astype(np.float32)

Row = npt.NDArray[np.float32]


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
        reporting = [row for row, request in enumerate(requests) if request.params.reports_logprobs]
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
        self._bias(logits, requests)
        _penalise(logits, requests)

        best, ids = _largest(logits)
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

    def _bias(self, logits: Tensor, requests: Sequence[Request]) -> None:
        """Add each request's own numbers to the logits; what is masked stays so."""
        for row, request in enumerate(requests):
            if bias := request.params.logit_bias:
                tokens = torch.tensor(list(bias), device=logits.device)
                logits[row, tokens] += torch.tensor(list(bias.values()), dtype=torch.float32, device=logits.device)


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
    if logits.device.type != "cpu":
        words = torch.from_numpy(masks.words.view(np.int32)).to(logits.device)
        bits = words.unsqueeze(2) >> torch.arange(32, dtype=torch.int32, device=logits.device)
        blocked = (bits & 1).view(len(masks.rows), -1)[:, : logits.shape[1]] == 0
        for index, row in enumerate(masks.rows):
            logits[row].masked_fill_(blocked[index], _NEGATIVE_INFINITY)
        return
    # 15 us a row of 49,152 tokens; masked_fill takes 170 us for irregular masks, as it branches on every token.
    values = logits.numpy()
    for words_of_row, row in zip(masks.words, masks.rows, strict=True):
        caps = np.take(_CAPS, words_of_row.view(np.uint8), axis=0).reshape(-1)
        np.minimum(values[row], caps[: logits.shape[1]], out=values[row])


def _largest(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The largest logit of each row and the first token that has it; NaN where a row has one."""
    if logits.device.type != "cpu":
        best, ids = logits.max(-1)
        return best, ids
    values = logits.numpy()  # numpy's argmax takes 4 us a row of 49,152 tokens, torch's 50
    ids = torch.from_numpy(values.argmax(axis=1))
    return logits.gather(1, ids.unsqueeze(1)).squeeze(1), ids


def _penalise(logits: Tensor, requests: Sequence[Request]) -> None:
    """Repetition penalty over prompt and output, presence and frequency penalties over the output."""
    for row, request in enumerate(requests):
        params = request.params
        if params.repetition_penalty != 1.0:
            seen = torch.from_numpy(np.unique(np.array(request.token_ids))).to(logits.device)
            values = logits[row, seen]
            factor = params.repetition_penalty
            logits[row, seen] = torch.where(values > 0, values / factor, values * factor)
        if (params.presence_penalty or params.frequency_penalty) and request.num_output:
            unique, counts = np.unique(np.array(request.output_token_ids), return_counts=True)
            penalty = params.presence_penalty + params.frequency_penalty * counts
            seen = torch.from_numpy(unique).to(logits.device)
            logits[row, seen] -= torch.from_numpy(penalty.astype(np.float32)).to(logits.device)


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
    # Another draw for another try: the first one lies, by construction, in the share of the token that failed.
    draws = [uniform(request.seed, len(request.token_ids), request.num_excluded) for request in chosen]
    return _invert(_weights(scores), torch.tensor(draws, dtype=torch.float64, device=scores.device))


def _weights(scores: Tensor) -> Tensor:
    """exp of the scores, in place; 0 below ``_LOWEST`` and for -inf.

    torch's exp takes 51 us a row of 49,152 tokens, 171 where most are -inf and 612 where it underflows; so it is kept
    from both, and what it gives for the lowest scores is made 0.
    """
    weights = scores.clamp_(min=_LOWEST - 1.0).exp_()
    return _floor_(weights, math.exp(_LOWEST), 0.0)


def _floor_(values: Tensor, bound: float, replacement: float) -> Tensor:
    """In place, what is not above ``bound`` becomes ``replacement``. Without branches: 12 us a row of 49,152 tokens,
    where masked_fill takes up to 200."""
    result: Tensor = torch.threshold_(values, bound, replacement)
    return result


def _truncate(scores: Tensor, requests: Sequence[Request]) -> None:
    """Set scores outside top-k, then top-p, then min-p to -inf. ``scores``: float32 [S, V], largest 0 in each row.

    Each is a threshold; ties with it stay, so what is kept is one set whatever the order of equal scores.
    """
    for row, request in enumerate(requests):
        params = request.params
        lowest = _NEGATIVE_INFINITY
        if params.top_k or params.top_p < 1.0:
            values: Row = scores[row].cpu().numpy()
            lowest = _truncation_threshold(values, params.top_k, params.top_p)
        if params.min_p > 0.0:
            lowest = max(lowest, float(np.float32(math.log(params.min_p))))
        if lowest > _NEGATIVE_INFINITY:
            below = float(np.nextafter(np.float32(lowest), np.float32(-np.inf)))
            _floor_(scores[row], below, _NEGATIVE_INFINITY)


def _truncation_threshold(values: Row, top_k: int, top_p: float) -> float:
    """The lowest score that stays. ``values``: float32 [V], largest 0."""
    values = values[values > _LOWEST]
    size = values.shape[0]
    lowest = _NEGATIVE_INFINITY
    if 0 < top_k < size:
        lowest = float(np.partition(values, size - top_k)[size - top_k])
        values = values[values >= lowest]
    return _top_p_threshold(values, top_p) if top_p < 1.0 else lowest


def _top_p_threshold(values: Row, top_p: float) -> float:
    """A token stays when the likelier ones before it hold less than ``top_p``."""
    wanted = top_p * float(np.exp(values).sum(dtype=np.float64))
    # The first 1,024 nearly always hold top_p, and finding them is 5 x cheaper than sorting 49,152 scores (230 us).
    for width in (1024, values.shape[0]):
        if width < values.shape[0]:
            top = np.sort(np.partition(values, values.shape[0] - width)[-width:])[::-1]
        else:
            top = np.sort(values)[::-1]
        sums = np.exp(top).cumsum(dtype=np.float64)
        if sums[-1] >= wanted:
            break
    # The last one kept is the first whose sum reaches top_p.
    last = min(int(np.searchsorted(sums, wanted)), top.shape[0] - 1)
    return float(top[last])


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


@torch.inference_mode()
def score(logits: Tensor, token_ids: Sequence[int], count: int) -> list[TokenLogprobs]:
    """Log probabilities of given tokens. ``logits``: float32 [S, V], unchanged; ``token_ids``: S, one a row."""
    logprobs = logits.log_softmax(-1)
    return [_report(logprobs[row], token, count) for row, token in enumerate(token_ids)]


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
