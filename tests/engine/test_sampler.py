from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from fakes import EOS, VOCAB, FakeGrammar, error_text, make_core, make_request, run

from structgen.engine.config import SamplingParams
from structgen.engine.constraints import MaskFiller, MaskRows
from structgen.engine.request import Request
from structgen.engine.sampler import Sampler, Samples, uniform
from structgen.errors import RequestError

NO_MASKS = MaskRows(np.zeros((0, 4), np.uint32), (), (), {})


def row(seed: int = 0, vocab_size: int = VOCAB) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(0, 2, vocab_size).astype(np.float32))


def seeded(seed: int, tokens: list[int] | None = None, **params: Any) -> Request:
    return make_request(tokens or [1], seed=seed, **{"temperature": 1.0, **params})


def mask_rows(requests: list[Request], allowed: dict[int, set[int]], vocab_size: int = VOCAB) -> MaskRows:
    words = np.zeros((len(allowed), -(-vocab_size // 32)), np.uint32)
    for index, tokens in enumerate(allowed.values()):
        for token in tokens:
            words[index, token >> 5] |= np.uint32(1 << (token & 31))
    keys = tuple((requests[r].serial, len(requests[r].token_ids)) for r in allowed)
    return MaskRows(words, tuple(allowed), keys, {})


def sample(logits: torch.Tensor, requests: list[Request], masks: MaskRows = NO_MASKS, **kw: Any) -> Samples:
    return Sampler(logits.shape[1], **kw).sample(logits.clone(), requests, masks)


def reference(logits: torch.Tensor, params: SamplingParams, allowed: set[int] | None = None) -> np.ndarray:
    """The distribution in the documented order, the slow way, float64."""
    x = logits.double().numpy().copy()
    if allowed is not None:
        x[[token for token in range(len(x)) if token not in allowed]] = -np.inf
    x = x / params.temperature
    if params.top_k:
        x[x < np.sort(x)[::-1][min(params.top_k, len(x)) - 1]] = -np.inf
    p = np.exp(x - x.max())
    p /= p.sum()
    if params.top_p < 1:
        order = np.argsort(-p)
        before = np.cumsum(p[order]) - p[order]
        p[order[before >= params.top_p]] = 0
    p[p < params.min_p * p.max()] = 0
    return p / p.sum()


CONFIGURATIONS = [
    {},
    {"temperature": 0.5},
    {"temperature": 2.5},
    {"top_k": 5},
    {"top_p": 0.7},
    {"min_p": 0.1},
    {"temperature": 1.5, "top_k": 20, "top_p": 0.9, "min_p": 0.02},
]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("params", CONFIGURATIONS, ids=str)
def test_chi_square_against_the_exact_distribution(params: dict[str, Any], masked: bool):
    """8,000 samples of one row against the reference distribution; a wrong one fails with near certainty."""
    draws, width = 8_000, 500
    logits = row(3)
    allowed = set(range(0, VOCAB, 3)) | {EOS} if masked else None
    counts = np.zeros(VOCAB)
    for start in range(0, draws, width):
        requests = [seeded(start + i, **params) for i in range(width)]
        masks = mask_rows(requests, dict.fromkeys(range(width), allowed)) if allowed else NO_MASKS
        tokens = sample(logits.expand(width, -1), requests, masks).token_ids
        counts += np.bincount(tokens, minlength=VOCAB)
    expected = reference(logits, requests[0].params, allowed) * draws
    assert counts[expected == 0].sum() == 0
    big = expected >= 5
    observed = np.append(counts[big], counts[~big].sum())
    wanted = np.append(expected[big], expected[~big].sum())
    keep = wanted > 0
    statistic = float(((observed - wanted)[keep] ** 2 / wanted[keep]).sum())
    freedom = int(keep.sum()) - 1
    # Six standard deviations of the chi-square distribution (seeds are fixed, so this does not flake).
    assert statistic < freedom + 6 * (2 * max(freedom, 1)) ** 0.5 + 6


def test_uniform_is_uniform_and_pure():
    values = np.array([uniform(seed, 7) for seed in range(4000)])
    assert uniform(5, 7) == uniform(5, 7)
    assert len({uniform(5, 7), uniform(5, 8), uniform(6, 7), uniform(5, 7, 1)}) == 4
    assert values.min() >= 0
    assert values.max() < 1
    assert abs(np.histogram(values, 20, (0, 1))[0] - 200).max() < 6 * 14


@pytest.mark.parametrize("vocab_size", [1, 5, 128, 129, 5000])
def test_inversion_covers_the_vocabulary_and_never_weight_zero(vocab_size: int):
    weights = torch.rand(64, vocab_size, generator=torch.Generator().manual_seed(0))
    weights[weights < 0.5] = 0
    weights[:, -1] = 1e-30  # a tail so small that the float32 sum does not see it
    from structgen.engine.sampler import _invert

    for draw in (0.0, 0.3, 0.999999, 1 - 2**-53):
        tokens = _invert(weights, torch.full((64,), draw, dtype=torch.float64))
        assert all(weights[i, token] > 0 for i, token in enumerate(tokens))
        exact = weights.double().cumsum(-1)
        for i, token in enumerate(tokens):
            low = float(exact[i, token] - weights[i, token]) / float(exact[i, -1])
            high = float(exact[i, token]) / float(exact[i, -1])
            assert low - 1e-5 <= draw <= high + 1e-5


def test_top_p_needing_most_of_a_large_vocabulary():
    """The nucleus is wider than the first guess of 1,024 tokens."""
    logits = torch.randn(1, 20_000, generator=torch.Generator().manual_seed(1)) * 0.1
    request = seeded(0, top_p=0.9)
    kept = reference(logits[0], request.params) > 0
    assert kept.sum() > 10_000
    tokens = {sample(logits, [seeded(s, top_p=0.9)]).token_ids[0] for s in range(50)}
    assert all(kept[token] for token in tokens)


def test_seeded_row_is_the_same_whatever_its_neighbours():
    logits = torch.stack([row(i) for i in range(16)])
    params = {"temperature": 0.9, "top_k": 30, "top_p": 0.95}
    alone = sample(logits[3:4], [seeded(11, **params)]).token_ids[0]
    mixes: list[dict[str, Any]] = [{"temperature": 0.0}, {"top_p": 0.1}, {"top_k": 3}, {"min_p": 0.5}, {}]
    for turn in range(8):
        requests = [seeded(i, **mixes[(i + turn) % 5]) for i in range(16)]
        requests[3] = seeded(11, **params)
        assert sample(logits, requests).token_ids[3] == alone


def test_unseeded_requests_differ_and_choices_of_a_seed_differ():
    logits = torch.zeros(40, VOCAB)
    unseeded = [make_request([1], temperature=1.0) for _ in range(40)]
    assert len(set(sample(logits, unseeded).token_ids)) > 15
    choices = [make_request([1], temperature=1.0, seed=5, n=40, index=i) for i in range(40)]
    assert len(set(sample(logits, choices).token_ids)) > 15


def test_greedy_and_sampled_rows_mix():
    logits = torch.stack([row(i) for i in range(4)])
    requests = [seeded(1, temperature=t) for t in (0.0, 1.0, 0.0, 1e-6)]
    tokens = sample(logits, requests).token_ids
    best = logits.argmax(-1).tolist()
    assert (tokens[0], tokens[2], tokens[3]) == (best[0], best[2], best[3])


def test_padding_ids_of_the_model_are_never_sampled():
    logits = torch.zeros(2, 64)
    logits[:, 60:] = 50
    tokens = sample(logits, [seeded(0), seeded(0, temperature=0.0)], num_token_ids=60).token_ids
    assert max(tokens) < 60


def test_mask_is_closed_and_belongs_to_its_request():
    requests = [seeded(0), seeded(1)]
    masks = mask_rows(requests, {1: {5}})
    for seed in range(20):
        assert sample(torch.stack([row(seed), row(seed)]), requests, masks).token_ids[1] == 5
    swapped = MaskRows(masks.words, (0,), masks.keys, {})
    with pytest.raises(RuntimeError, match="lies at the row"):
        sample(torch.stack([row(0), row(1)]), requests, swapped)
    requests[1].token_ids.append(3)  # a mask of an earlier position
    with pytest.raises(RuntimeError, match="lies at the row"):
        sample(torch.stack([row(0), row(1)]), requests, masks)


def test_penalties():
    logits = torch.tensor([[2.0, -2.0, 1.0, 0.5]])
    request = make_request([0, 1], repetition_penalty=2.0, presence_penalty=0.25, frequency_penalty=0.5)
    request.token_ids += [2, 2]
    changed = logits.clone()
    Sampler(4).sample(changed, [request], NO_MASKS)
    # 0 and 1: prompt, repetition only. 2: repetition, then 0.25 + 2 * 0.5. 3: unseen.
    assert changed.tolist() == [[1.0, -4.0, 0.5 - 1.25, 0.5]]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_not_finite_fail_their_row_alone(temperature: float):
    logits = torch.stack([row(0), row(1), row(2)])
    logits[0, 3] = float("nan")
    logits[2, 3] = float("inf")
    requests = [seeded(i, temperature=temperature) for i in range(3)]
    samples = sample(logits, requests)
    assert set(samples.errors) == {0, 2}
    assert "not finite" in str(samples.errors[0])
    assert samples.token_ids[1] == sample(logits[1:2], requests[1:2]).token_ids[0]


def test_logprobs_raw_and_masked():
    logits = row(0)
    allowed = {3, 4, 5}
    raw = seeded(0, logprobs=4)
    masked = seeded(0, logprobs=4, logprobs_mode="masked", temperature=0.3)
    masks = mask_rows([raw, masked], {0: allowed, 1: allowed})
    samples = sample(torch.stack([logits, logits]), [raw, masked], masks)
    exact = logits.double().log_softmax(-1)
    got = samples.logprobs[0]
    assert got.token_ids[0] == samples.token_ids[0]
    order = exact.argsort(descending=True).tolist()
    assert set(order[:4]) <= set(got.token_ids)
    for token, value, rank in zip(got.token_ids, got.logprobs, got.ranks, strict=True):
        assert value == pytest.approx(float(exact[token]), abs=1e-5)
        assert rank == order.index(token) + 1
    got = samples.logprobs[1]
    assert set(got.token_ids) == allowed  # never an illegal token, though four were asked for
    assert sum(np.exp(got.logprobs)) == pytest.approx(1, abs=1e-5)


def test_min_tokens_holds_ends_back_without_a_grammar():
    logits = torch.zeros(1, VOCAB)
    logits[0, EOS], logits[0, 5] = 9, 8
    request = make_request([1], min_tokens=2, stop_token_ids=[5])
    sampler = Sampler(VOCAB, eos_token_ids=(EOS,))
    assert sampler.sample(logits.clone(), [request], NO_MASKS).token_ids[0] not in (EOS, 5)
    request.token_ids += [1, 1]
    assert sampler.sample(logits.clone(), [request], NO_MASKS).token_ids[0] == EOS


@pytest.mark.parametrize(
    ("params", "legal", "left"),
    [
        ({"min_tokens": 1}, {EOS, 7, 8}, {7, 8}),
        ({"min_tokens": 1}, {EOS}, {EOS}),  # the grammar wins
        ({"min_tokens": 1, "stop_token_ids": [7]}, {EOS, 7}, {EOS, 7}),
        ({"min_tokens": 1, "stop_token_ids": [7]}, {EOS, 7, 8}, {8}),
        ({"ignore_eos": True}, {EOS, 7}, {7}),
        ({"ignore_eos": True}, {EOS}, {EOS}),
        ({"stop_token_ids": [50]}, {EOS, 7}, {EOS, 7, 50}),  # the grammar may end: so may the stop id
        ({"stop_token_ids": [50]}, {7}, {7}),
    ],
)
def test_ends_in_grammar_masks(params: dict[str, Any], legal: set[int], left: set[int]):
    request = make_request([1], grammar=FakeGrammar(lambda _: legal), **params)
    assert request.constraint is not None
    request.constraint.future.result()
    assert request.constraint.is_ready()
    masks = MaskFiller(VOCAB, (EOS,), 4).fill([make_request([1]), request])
    assert masks.rows == (1,)
    bits = np.unpackbits(masks.words[0].view(np.uint8), bitorder="little")
    assert set(np.flatnonzero(bits).tolist()) == left


def test_empty_mask_fails_its_request_alone():
    core = make_core()
    stuck = make_request([1, 2], grammar=FakeGrammar(lambda history: {4} if len(history) < 2 else set()))
    free = make_request([1, 2], max_tokens=6, ignore_eos=True)
    run(core, [stuck, free])
    assert (stuck.finish_reason, stuck.num_output) == ("error", 2)
    assert "no token of the vocabulary continues the grammar" in error_text(stuck)
    assert (free.finish_reason, free.num_output) == ("length", 6)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("max_tokens", 0, ">= 1"),
        ("max_tokens", 1.5, "integer"),
        ("max_tokens", True, "integer"),
        ("temperature", -0.1, "from 0"),
        ("temperature", float("nan"), "from 0"),
        ("temperature", "hot", "number"),
        ("top_p", 0.0, "above 0"),
        ("top_p", 1.1, "to 1"),
        ("top_k", -2, ">= -1"),
        ("min_p", 2, "to 1"),
        ("presence_penalty", 3, "-2 to 2"),
        ("repetition_penalty", 0, "above 0"),
        ("n", 0, "from 1"),
        ("stop", [""], "non-empty"),
        ("stop", 3, "a string or a list"),
        ("stop_token_ids", "12", "a list of token ids"),
        ("stop_token_ids", [-1], ">= 0"),
        ("min_tokens", 300, "at most max_tokens"),
        ("logprobs", -1, "from 0"),
        ("logprobs_mode", "cooked", "'raw' or 'masked'"),
        ("ignore_eos", 1, "True or False"),
    ],
)
def test_bad_params_name_field_value_and_what_is_allowed(name: str, value: Any, allowed: str):
    with pytest.raises(RequestError) as caught:
        SamplingParams(**{name: value})
    assert name in str(caught.value)
    assert repr(value) in str(caught.value)
    assert allowed in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_unknown_param_names_the_nearest():
    with pytest.raises(TypeError, match="did you mean 'temperature'"):
        SamplingParams.from_options(temprature=1)
