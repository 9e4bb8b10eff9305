"""Stored walks: equal to walking, in this process and in others, whatever the file holds."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_patterns import pattern

from structgen.errors import GrammarError
from structgen.grammars import disk_store, formats, prebuilt, split, walk_store
from structgen.grammars import trie as tries
from structgen.grammars.encoding import JSON_ANY
from structgen.grammars.expr import Expr, literal, seq, tagged
from structgen.grammars.residual import Store
from structgen.grammars.schema.scalars import pattern_expr
from structgen.grammars.split import Split, Walked
from structgen.grammars.trie import Part, Trie

KEY = disk_store.key_of(b"vocabulary")
QUOTE = literal(b'"')


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Everything is stored, however small and fast."""
    monkeypatch.setenv(disk_store.VARIABLE, str(tmp_path))
    monkeypatch.setattr(tries, "LEAST_STORED", 1)
    monkeypatch.setattr(tries, "LARGE", 10)
    monkeypatch.setattr(split, "LEAST_S", -1.0)
    monkeypatch.setattr(walk_store, "DELAY_S", 3600.0)
    return tmp_path


def vocabulary() -> Trie:
    """Some tokens, the same each time."""
    rng = random.Random(5)
    pieces = [b"a", b"b", b"c", b"1", b"9", b"-", b" ", b'"', b"\\", b"\\u0061", b"\xc3", b"\xa9", b"\xe2\x82", b"x.y"]
    tokens = [bytes((byte,)) for byte in range(256)]
    tokens += {b"".join(rng.choices(pieces, k=rng.randint(2, 5))) for _ in range(1200)} - set(tokens)
    tokens[256:] = sorted(tokens[256:])
    return Trie.of_tokens(tokens, (len(tokens) + 31) // 32, KEY)


def exprs(rng: random.Random, count: int) -> list[Expr]:
    found: list[Expr] = []
    while len(found) < count:
        try:
            inside = [pattern_expr(pattern(rng, 2), JSON_ANY) for _ in range(2)]
        except GrammarError:
            continue
        found.append(seq(inside[0], QUOTE))
        found.append(tagged(seq(JSON_ANY.any_text, QUOTE), [seq(each, QUOTE) for each in inside]))
    return found + [seq(formats.expr(name, JSON_ANY), QUOTE) for name in ("date-time", "hostname", "uuid")]


def told(found: Walked) -> Any:
    stay = frozenset() if found.stay is None else frozenset(found.stay.ids().tolist())
    ends = {outcome: frozenset(where.tolist()) for where, outcome in found.nodes}
    return stay, ends, dict(zip(ends, found.firsts, strict=True))


def walk(expr: Expr, trie: Trie) -> Any:
    state = Store().state(expr)  # which knows nothing
    return None if state is None else told(split.walked(state, trie))


def test_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = random.SystemRandom().randrange(1 << 40)
    listed = exprs(random.Random(seed), 40)
    first = vocabulary()
    wanted = [walk(each, first) for each in listed]
    assert first.stored is not None
    first.stored.flush()

    def fail(*_: object) -> Walked:
        raise AssertionError("walked again")

    again = vocabulary()
    monkeypatch.setattr(split, "_walk_somehow", fail)
    assert [walk(each, again) for each in listed] == wanted, seed


def test_skipping_equals_looking_at_every_node(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = random.SystemRandom().randrange(1 << 40)
    listed = exprs(random.Random(seed), 60)
    monkeypatch.setenv(disk_store.VARIABLE, "off")
    fast = vocabulary()
    assert fast.is_large
    assert len(fast.inside)
    found = [walk(each, fast) for each in listed]
    monkeypatch.setattr(tries, "LARGE", 1 << 30)
    slow = vocabulary()
    assert not slow.is_large
    assert not len(slow.inside)
    assert [walk(each, slow) for each in listed] == found, seed


def test_counted_strings_are_found_again() -> None:
    def made(trie: Trie) -> Split:
        char = JSON_ANY.any_text.body  # type: ignore[attr-defined]
        state = Store().state(seq(prebuilt.rep(char, 2, 5), QUOTE))
        assert state is not None
        return state.split(trie)

    def parts(found: tuple[Part, ...]) -> list[list[int]]:
        return [sorted(part.ids().tolist()) for part in found]

    first = vocabulary()
    wanted = made(first)
    assert first.stored is not None
    first.stored.flush()
    again = vocabulary()
    assert again.stored is not None
    assert not again.stored.is_empty
    assert parts(made(again).stays) == parts(wanted.stays)
    assert again.stored._new == 0


def test_standard_residuals_are_built_once() -> None:
    first = vocabulary()
    prebuilt.prebuild(first)
    assert first.stored is not None
    assert first.stored._new > len(prebuilt.FORMATS)
    first.stored.flush()
    again = vocabulary()
    prebuilt.prebuild(again)
    assert again.stored is not None
    assert again.stored._new == 0


@pytest.mark.parametrize("wrong", [-1, 1 << 20])
def test_numbers_that_lead_out_of_the_vocabulary_are_not_used(wrong: int) -> None:
    rng = random.Random(random.SystemRandom().randrange(1 << 40))
    listed = exprs(rng, 6)
    first = vocabulary()
    wanted = [walk(each, first) for each in listed]
    assert first.stored is not None
    first.stored.flush()
    arrays = disk_store.load(walk_store.KIND, KEY)
    assert arrays is not None
    begin = 0
    for end in arrays["ends"].tolist():
        count = int(arrays["data"][begin])
        at = begin + 1 + count
        for size in arrays["data"][begin + 1 : begin + 1 + count].tolist():
            if size > 9:
                arrays["data"][at + size - 1] = wrong
            at += size
        begin = end
    disk_store.save(walk_store.KIND, KEY, arrays)
    got = [walk(each, vocabulary()) for each in listed]
    # A row of bits holds any number; what is a list of numbers was walked again.
    ends = [each and each[1] for each in wanted]
    assert [each and each[1] for each in got] == ends


def test_file_is_bounded_and_keeps_what_was_used(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = exprs(random.Random(1), 30)
    first = vocabulary()
    for each in listed:
        walk(each, first)
    assert first.stored is not None
    first.stored.flush()
    size = (disk_store.load(walk_store.KIND, KEY) or {})["data"].nbytes
    monkeypatch.setattr(walk_store, "MAX_BYTES", size // 2)
    second = vocabulary()
    assert second.stored is not None
    wanted = walk(listed[-1], second)
    walk(seq(JSON_ANY.text("something new"), QUOTE), second)
    second.stored.flush()
    assert (disk_store.load(walk_store.KIND, KEY) or {})["data"].nbytes <= size // 2
    third = vocabulary()
    assert third.stored is not None
    assert walk(listed[-1], third) == wanted
    assert third.stored._new == 0


SCRIPT = """
import random, sys
sys.path.insert(0, sys.argv[1])
from structgen.grammars import walk_store
import test_walk_store as t
t.exprs(random.Random(int(sys.argv[2])), 12)  # so that expressions are met in another order
print([(walk_store._key("walk", each) or b"").hex() for each in t.exprs(random.Random(3), 20)])
"""


def test_fingerprints_are_the_same_in_every_process() -> None:
    def run(seed: int) -> str:
        env = {**os.environ, "PYTHONHASHSEED": str(seed)}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(Path(__file__).parent), str(seed)],
            env=env, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout

    first = run(1)
    assert first == run(2)
    keys = first.strip("[]\n").split(", ")
    assert "''" not in keys
    assert len(set(keys)) > 15


def test_different_expressions_have_different_fingerprints() -> None:
    seed = random.SystemRandom().randrange(1 << 40)
    listed = list(dict.fromkeys(exprs(random.Random(seed), 200)))
    keys = [walk_store._key("walk", each) for each in listed]
    assert None not in keys
    assert len(set(keys)) == len(listed), seed


def test_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(disk_store.VARIABLE, "off")
    assert vocabulary().stored is None


def test_a_part_of_a_vocabulary_is_not_stored() -> None:
    whole = vocabulary()
    roots = np.array([whole.child(0, 0x22), whole.child(0, 0x61)], dtype=np.int32)
    assert whole.union(np.sort(roots)).stored is None
    assert whole.view(int(roots[0])).stored is None
