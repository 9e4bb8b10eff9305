"""Pairs of patterns with a common text."""

from __future__ import annotations

import random
import re
from itertools import combinations, product

import pytest

from structgen.errors import GrammarError
from structgen.grammars.collisions import collisions

PIECES = ["a", "b", "ab", "[ab]", "a+", "b*", "(?:a|ba)", "a{1,2}", "ab?", r"\w", r"(?<!a)b", r"\bb", "(?=a)."]
PIECES += ["c", "[^a]"]


def test_against_all_short_texts() -> None:
    rng = random.Random()
    texts = ["".join(t) for n in range(4) for t in product("abc", repeat=n)]
    met = 0
    for _ in range(40):
        patterns = {f"P{i}": "".join(rng.choices(PIECES, k=rng.randint(1, 3))) for i in range(4)}
        found = {(c.first, c.second): c for c in collisions(patterns)}
        for first, second in combinations(patterns, 2):
            shared = [t for t in texts if re.fullmatch(patterns[first], t) and re.fullmatch(patterns[second], t)]
            pair = found.get((first, second))
            assert pair is not None or not shared, (patterns[first], patterns[second], shared)
            if pair is not None and pair.example is not None:
                met += 1
                assert re.fullmatch(patterns[first], pair.example), (patterns[first], pair.example)
                assert re.fullmatch(patterns[second], pair.example), (patterns[second], pair.example)
    assert met


def test_names_and_texts_are_told() -> None:
    found = collisions({"NAME": r"[a-z]+", "IF": "if", "NUMBER": "[0-9]+", "QUOTED": r"(['\"])[a-z]\1", "WORD": r"\w+"})
    pairs = [(c.first, c.second) for c in found]
    assert pairs == [("NAME", "IF"), ("NAME", "WORD"), ("IF", "WORD"), ("NUMBER", "WORD")]
    assert str(found[0]) == "NAME and IF both match 'if'; give one a priority, or make them differ"
    assert collisions({}) == []


def test_large_counts_need_no_large_automaton() -> None:
    found = collisions({"A": "a{1,100000}", "B": "a{99999,}", "C": "[bc]{1,5000}"})
    assert [(c.first, c.second) for c in found if c.decided] == []
    assert [(c.first, c.second) for c in found] == [("A", "B")]


def test_a_broken_pattern_is_named() -> None:
    with pytest.raises(GrammarError, match=r"pattern BAD: .*unterminated"):
        collisions({"GOOD": "a", "BAD": "(a"})
