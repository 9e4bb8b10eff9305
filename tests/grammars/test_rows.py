"""Mask rows: shared by content, written in batches, safe from many threads."""

from __future__ import annotations

import random
import threading
from typing import Any

import numpy as np
import pytest

import structgen as sg
from structgen.grammars.rows import Rows
from structgen.grammars.trie import Part
from structgen.grammars.vocabulary import Vocabulary

SCHEMAS: list[Any] = [
    True, {"type": "integer"}, {"enum": ["red", "green", "blue"]}, {"type": "array", "items": {"type": "boolean"}},
    {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name"]},
    {"type": "string", "maxLength": 7}, {"type": "string", "pattern": "^[a-f]{2,5}$"},
]  # fmt: skip


def walked(compiled: sg.CompiledGrammar, rng: random.Random, steps: int) -> sg.Matcher:
    matcher = compiled.matcher()
    ends = set(compiled.vocab.eos_token_ids)
    for _ in range(steps):
        allowed = [token for token in matcher.allowed_tokens().tolist() if token not in ends]
        if not allowed:
            break
        assert matcher.accept(rng.choice(allowed))
    return matcher


def test_batches_are_single_masks(synthetic_vocabulary: Vocabulary) -> None:
    rng = random.Random(3)
    for type_ in (np.uint32, np.int32):
        matchers = [
            walked(sg.Grammar.from_json_schema(rng.choice(SCHEMAS)).compile(synthetic_vocabulary), rng, i % 6)
            for i in range(20)
        ]
        words = matchers[0].compiled.words
        one = np.zeros((20, words), dtype=type_)
        for matcher, row in zip(matchers, one, strict=True):
            matcher.fill_bitmask(row)
        for _ in range(3):  # the first time rows of few tokens are written from their lists
            batch = np.full((22, words), 5, dtype=type_)
            sg.fill_bitmasks(matchers, batch)
            assert (batch[:20] == one).all()
            assert (batch[20:] == 5).all()


def test_rows_of_a_matcher(synthetic_vocabulary: Vocabulary) -> None:
    rng = random.Random(5)
    by_id: dict[int, bytes] = {}
    for _ in range(60):
        compiled = sg.Grammar.from_json_schema(rng.choice(SCHEMAS)).compile(synthetic_vocabulary)
        matcher = walked(compiled, rng, rng.randrange(8))
        row = matcher.row
        expected = np.zeros(compiled.words, dtype=np.uint32)
        matcher.fill_bitmask(expected)
        assert (row.words == expected).all()
        assert row.tokens is None or row.tokens.tolist() == matcher.allowed_tokens().tolist()
        assert by_id.setdefault(row.id, expected.tobytes()) == expected.tobytes()
        with pytest.raises(ValueError, match="read-only"):
            row.words[0] = 1
    assert len(set(by_id.values())) == len(by_id), "equal masks have one id"


def test_wrong_rows_are_refused(synthetic_vocabulary: Vocabulary) -> None:
    compiled = sg.Grammar.from_json_schema(True).compile(synthetic_vocabulary)
    matchers = [compiled.matcher(), compiled.matcher()]
    words = compiled.words
    for rows in (
        np.zeros((1, words), np.uint32), np.zeros((2, words + 1), np.uint32), np.zeros((2, words), np.int64),
        np.zeros((words, 2), np.uint32).T, np.zeros((2, 2 * words), np.uint32)[:, ::2],
    ):  # fmt: skip
        with pytest.raises(sg.GrammarError, match=r"rows|shape|contiguous"):
            sg.fill_bitmasks(matchers, rows)
    sg.fill_bitmasks([], np.zeros((0, 3), np.uint32))
    other = sg.Grammar.from_json_schema(True).compile(Vocabulary.from_tokenizer([b"a"] * 9 + [b"b"] * 90))
    with pytest.raises(sg.GrammarError, match="one vocabulary"):
        sg.fill_bitmasks([matchers[0], other.matcher()], np.zeros((2, words), np.uint32))


def test_torch_rows_whose_memory_changes(synthetic_vocabulary: Vocabulary) -> None:
    torch = pytest.importorskip("torch")
    matcher = sg.Grammar.from_json_schema({"type": "integer"}).compile(synthetic_vocabulary).matcher()
    expected = np.zeros(matcher.compiled.words, dtype=np.uint32)
    matcher.fill_bitmask(expected)
    row = torch.zeros(matcher.compiled.words, dtype=torch.int32)
    matcher.fill_bitmask(row)
    row.data = torch.zeros(matcher.compiled.words, dtype=torch.int32)
    matcher.fill_bitmask(row)
    assert (row.numpy().view(np.uint32) == expected).all()


def test_bounded() -> None:
    words = 4
    rows = Rows(words, np.array([0, 0, 0, 1 << 31], dtype=np.uint32), max_bytes=64 * 4 * words)
    rng = random.Random(1)
    for _ in range(500):
        ids = rng.sample(range(127), 90)
        made = rows.of([Part(np.array(ids, dtype=np.int32), words)], rng.random() < 0.5)
        assert set(np.flatnonzero(np.unpackbits(made.words.view(np.uint8), bitorder="little"))) - {127} == set(ids)
        assert len(rows) <= 64


def test_threads_share_tables(synthetic_vocabulary: Vocabulary) -> None:
    compiled = [sg.Grammar.from_json_schema(schema).compile(synthetic_vocabulary) for schema in SCHEMAS]
    wrong: list[str] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(12):
            matcher = walked(rng.choice(compiled), rng, rng.randrange(10))
            row = np.zeros(matcher.compiled.words, dtype=np.uint32)
            matcher.fill_bitmask(row)
            bits = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
            for token in rng.sample(range(matcher.compiled.vocab.size), 40):
                if matcher.allows(token) != (token in bits):
                    wrong.append(f"{seed}: {token}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
