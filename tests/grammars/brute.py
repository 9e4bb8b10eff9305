"""Brute force: the legal tokens of a state by trying every token of the vocabulary with the reference matcher.

Tokens are visited in sorted order, so that the reference reads a common prefix once; nothing else is shared."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
from reference import Reference

from structgen.grammars.grammar import Grammar
from structgen.grammars.matcher import CompiledGrammar


def legal_tokens(state: Reference, tokens: Sequence[bytes | None]) -> set[int]:
    """Ids whose bytes the reference accepts after ``state``."""
    found: set[int] = set()
    path: list[Reference] = [state]
    before = b""
    dead: bytes | None = None
    for data, id in sorted((data, id) for id, data in enumerate(tokens) if data):
        if dead is not None and data.startswith(dead):
            continue
        dead = None
        common = 0
        while common < min(len(before), len(data)) and before[common] == data[common]:
            common += 1
        del path[common + 1 :]
        before = data
        while len(path) <= len(data):
            after = path[-1].copy()
            if not after.accept(data[len(path) - 1 : len(path)]):
                dead = data[: len(path)]
                before = data[: len(path) - 1]
                break
            path.append(after)
        else:
            found.add(id)
    return found


def check_walk(grammar: Grammar, compiled: CompiledGrammar, rng: random.Random, steps: int, jump: int = 0) -> int:
    """Walk ``steps`` random legal tokens (after ``jump`` unchecked ones) and compare each mask with brute force, and
    ``allows`` with ``accept`` for random ids. Returns how many states were compared."""
    tokens, eos = compiled.vocab.tokens, set(compiled.vocab.eos_token_ids)
    matcher, state = compiled.matcher(), Reference(grammar.machine)
    row = np.zeros(compiled.words, dtype=np.uint32)
    compared = 0
    for i in range(jump + steps):
        matcher.fill_bitmask(row)
        mask = set(matcher.allowed_tokens().tolist())
        assert {t for t in range(compiled.vocab.size) if row[t >> 5] >> (t & 31) & 1} == mask
        if i >= jump:
            want = legal_tokens(state, tokens) | (eos if state.can_end() else set())
            extra, missing = sorted(mask - want)[:5], sorted(want - mask)[:5]
            assert mask == want, (
                f"after {i} tokens: mask allows {[tokens[t] for t in extra]} too much, "
                f"and lacks {[tokens[t] for t in missing]}"
            )
            sample = rng.sample(range(compiled.vocab.size), min(64, compiled.vocab.size))
            for token in sample + rng.sample(sorted(mask), min(16, len(mask))):
                assert matcher.allows(token) == (token in mask)
                other = matcher.fork()
                assert other.accept(token) == (token in mask)
            compared += 1
        choices = sorted(mask - eos)
        if not choices:
            break
        # Half the time a token that closes something, else random walks stay inside the first string.
        closing = [t for t in choices if any(c in (tokens[t] or b"") for c in b'"]}),:;')]
        token = rng.choice(closing if closing and rng.random() < 0.5 else choices)
        assert matcher.accept(token)
        assert state.accept(tokens[token] or b"")
    return compared
