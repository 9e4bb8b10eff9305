"""Fixtures of the grammar tests: vocabularies."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import pytest
from real_tokenizers import smollm2_gguf, unpack

from structgen.grammars.vocabulary import Vocabulary


@pytest.fixture(scope="session")
def real_tokenizer_path(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``real_tokenizer_path(name)``: folder or file of a real tokenizer (see real_tokenizers.NAMES), unpacked once."""
    folder = tmp_path_factory.mktemp("tokenizers")
    return lambda name: smollm2_gguf() if name == "smollm2" else unpack(name, folder)


@pytest.fixture(scope="session")
def real_vocabulary(real_tokenizer_path: Callable[[str], Path]) -> Callable[[str], Vocabulary]:
    """``real_vocabulary(name) -> Vocabulary``, made once a session; skips where the tokenizer is absent."""
    return lru_cache(maxsize=None)(lambda name: Vocabulary.from_tokenizer(real_tokenizer_path(name)))


SYNTHETIC_EOS = 3


def synthetic_tokens(seed: int = 0) -> list[bytes | None]:
    """All single bytes, pieces of JSON, pieces of characters, duplicates, and ids without bytes at both ends."""
    rng = random.Random(seed)
    tokens: list[bytes | None] = [None, b"", b"ab", None, *(bytes([i]) for i in range(256))]
    tokens += [b'":', b'"},{"', b'":"', b'","', b'": ', b"[[", b"]]", b"}}", b"],[", b'"a', b"\\u00", b"\\n", b'\\"']
    tokens += [b"true", b"false", b"null", b"12", b"-1", b"0.", b"e+", b"  ", b"\n  ", b"\t", b"abc", b"ab", b"ab"]
    tokens += [
        b"\xc3\xa9",
        b"\xe2\x82",
        b"\x82\xac",
        b"\xe2\x82\xac",
        b"\xf0\x9f",
        b"\x98\x80",
        b'\xa9"',
        b"\xf0\x9f\x98\x80",
    ]
    alphabet = [bytes([b]) for b in b'ab01"\\{}[],: \n'] + ["é".encode(), b"\xf0\x9f"]
    tokens += [b"".join(rng.choices(alphabet, k=rng.randrange(2, 7))) for _ in range(200)]
    return [*tokens, None, b""]


@pytest.fixture(scope="session")
def synthetic_vocabulary() -> Vocabulary:
    """A vocabulary with every oddity: duplicates, byte-less ids, halves of characters, padding; its end id is 3."""
    tokens = synthetic_tokens()
    return Vocabulary.from_tokenizer(tokens, eos_token_ids=SYNTHETIC_EOS, size=len(tokens) + 21)
