"""Forced tokens: what the tokenizer writes for forced bytes, whatever follows. Draft trees."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from real_tokenizers import NAMES
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

import structgen as sg
from structgen.errors import GrammarError
from structgen.grammars import forced
from structgen.grammars.grammar import Grammar
from structgen.grammars.matcher import Matcher, tables
from structgen.grammars.vocabulary import Vocabulary

PIECES = (
    *("name", "user_id", "the", "2024-01-01", "12345", "isActive", "it's", "http://a.b/c", "été", "日本", '{"', '": "'),
    *('","', '":', "}", "]", '[{"', "\n  ", "\n", "  ", " ", ", ", ": ", "1", "22", "-", "null", "true", "XMLParser"),
    *(
        "e\u0301",
        "😀",
        "_",
        "\\n",
        "$ref",
        "\t",
        "don't",
        "...",
        "a",
        "I",
        "0",
        "))",
        "//",
        "**",
        "한국",
        "의",
        "\u00a0",
    ),
    *("  \n", " \n"),
)
SCHEMA = {
    "type": "object",
    "properties": {
        "user_name": {"type": "string"},
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string", "maxLength": 9}, "zip_code": {"type": "integer"}},
            "required": ["street", "zip_code"],
            "additionalProperties": False,
        },
        "kind": {"enum": ["préférence", "preference"]},
    },
    "required": ["user_name", "address", "kind"],
    "additionalProperties": False,
}


def joined(chooser: random.Random, most: int) -> str:
    return "".join(chooser.choices(PIECES, k=chooser.randrange(most + 1)))


@pytest.fixture(scope="session")
def byte_level() -> Vocabulary:
    """Byte-level BPE, trained on such texts, cut into words as GPT-2 does."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=700, initial_alphabet=alphabet, special_tokens=["<end>"], show_progress=False
    )
    tokenizer.train_from_iterator(_corpus(), trainer)
    return Vocabulary.from_tokenizer(tokenizer, eos_token_ids=0)


@pytest.fixture(scope="session")
def whole_text() -> Vocabulary:
    """BPE that merges across the whole text, as Gemma's does, with fallback to bytes."""
    names = ["<end>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokenizer = Tokenizer(models.BPE(byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    trainer = trainers.BpeTrainer(vocab_size=900, special_tokens=names, show_progress=False, max_token_length=12)
    tokenizer.train_from_iterator(_corpus(), trainer)
    # Trained tokens would be special; the vocabulary is what is wanted.
    state = tokenizer.model
    state.byte_fallback = True
    made = Tokenizer(state)
    made.normalizer = normalizers.Replace(" ", "▁")
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    made.add_special_tokens(["<end>"])
    return Vocabulary.from_tokenizer(made, eos_token_ids=0)


def _corpus() -> list[str]:
    chooser = random.Random(0)
    return [joined(chooser, 30) for _ in range(400)]


@pytest.fixture
def vocabulary(
    request: pytest.FixtureRequest,
    byte_level: Vocabulary,
    whole_text: Vocabulary,
    real_vocabulary: Callable[[str], Vocabulary],
) -> Vocabulary:
    own = {"byte level": byte_level, "whole text": whole_text}
    return own[request.param] if request.param in own else real_vocabulary(request.param)


ALL = pytest.mark.parametrize("vocabulary", ["byte level", "whole text", *NAMES], indirect=True)


def after(vocabulary: Vocabulary, text: str, begin: int) -> list[int] | None:
    """The tokens of ``text`` from byte ``begin`` on; None when no token begins there."""
    reached = 0
    ids = vocabulary.encode(text)
    for number, token in enumerate(ids):
        if reached == begin:
            return ids[number:]
        reached += len(vocabulary.tokens[token] or b"")
    return [] if reached == begin else None


@ALL
def test_written_so_whatever_follows(vocabulary: Vocabulary) -> None:
    chooser = random.Random(1)
    trie = tables(vocabulary).trie
    given = wanted = naive_is_wrong = 0
    for _ in range(150):
        before, text = joined(chooser, 8), joined(chooser, 6)
        begin = len(before.encode())
        ids = forced.forced_tokens(vocabulary, trie, before.encode(), text.encode(), forced.ANY_BYTE)
        assert text.encode().startswith(vocabulary.decode(ids))
        given, wanted = given + len(ids), wanted + len(vocabulary.encode(text))
        naive = after(vocabulary, before + text, begin)
        for _ in range(4):
            follows = joined(chooser, 4)
            if chooser.random() < 0.3:
                follows = "".join(chr(chooser.choice([*range(32, 127), *range(0xA0, 0x3100)])) for _ in range(3))
            found = after(vocabulary, before + text + follows, begin)
            assert not ids or (found is not None and found[: len(ids)] == ids), (before, text, follows)
            naive_is_wrong += naive is not None and (found is None or found[: len(naive)] != naive)
    assert naive_is_wrong > 30  # the texts do ask for the boundary rule
    assert given > wanted * 0.4  # and it leaves enough


@ALL
@pytest.mark.parametrize("whitespace", ["compact", "bounded"])
def test_tokens_of_a_matcher(vocabulary: Vocabulary, whitespace: str) -> None:
    """Along random texts of a schema, where most steps take what is forced."""
    chooser = random.Random(2)
    compiled = Grammar.from_json_schema(SCHEMA, whitespace=whitespace).compile(vocabulary)
    plain = [i for i, data in enumerate(vocabulary.tokens) if data and data.isascii() and data.isalnum()]
    total = 0
    for _ in range(4):
        matcher, text = compiled.matcher(), b""
        while len(text) < 300 and not matcher.can_end():
            ids = matcher.forced_tokens()
            data = vocabulary.decode(ids)
            assert matcher.forced_bytes().startswith(data)
            if ids:
                _check(matcher, text, ids, vocabulary, chooser)
            assert matcher.verify(ids) == len(ids)
            if ids and chooser.random() < 0.8:
                assert all(matcher.accept(token) for token in ids)
                text += data
                total += len(ids)
                continue
            token = _step(matcher, chooser, plain)
            text += vocabulary.tokens[token] or b""
    assert total > 5


def _check(matcher: Matcher, text: bytes, ids: list[int], vocabulary: Vocabulary, chooser: random.Random) -> None:
    """The tokenizer writes ``ids`` after ``text``, with random legal texts behind what is forced."""
    for _ in range(3):
        other = matcher.fork()
        whole = text + matcher.forced_bytes()
        assert other.accept_text(matcher.forced_bytes())
        for _ in range(3):
            if other.can_end():
                break
            token = _step(other, chooser, None)
            whole += vocabulary.tokens[token] or b""
        try:
            found = after(vocabulary, whole.decode(), len(text))
        except UnicodeDecodeError:
            continue
        assert found is not None, whole
        assert found[: len(ids)] == ids, whole


def _step(matcher: Matcher, chooser: random.Random, plain: list[int] | None) -> int:
    allowed = matcher.allowed_tokens().tolist()
    some = [token for token in chooser.sample(plain, min(20, len(plain))) if token in allowed] if plain else []
    token: int = chooser.choice(some or allowed)
    assert matcher.accept(token)
    return token


def test_what_would_be_joined_is_not_forced(byte_level: Vocabulary) -> None:
    compiled = Grammar.from_regex("(the|a) user_id=[0-9]{3}").compile(byte_level)
    matcher = compiled.matcher()
    assert matcher.accept_text("t")
    assert matcher.forced_bytes() == b"he user_id="
    assert matcher.forced_tokens() == []  # "the" is one token: a tokenizer never stops after its "t"
    assert matcher.accept_text("he")
    assert byte_level.decode(matcher.forced_tokens()) == b" user_id="  # nothing joins "=" and a digit


def test_tokens_that_depend_on_the_whole_text() -> None:
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0), ("a", -1.0), ("b", -1.0), ("ab", -1.5)], 0))
    tokenizer.decoder = decoders.Fuse()
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    assert not vocabulary.tokens_are_local
    assert Grammar.from_regex("abab").compile(vocabulary).matcher().forced_tokens() == []


def test_without_a_tokenizer() -> None:
    vocabulary = Vocabulary.from_tokenizer([b"a", b"b", b"bb", None], eos_token_ids=3)
    matcher = Grammar.from_regex("ab?").compile(vocabulary).matcher()
    assert matcher.forced_tokens() == [0]  # then it may end
    assert matcher.accept(0)
    assert matcher.forced_tokens() == []
    assert Grammar.from_regex("abb").compile(vocabulary).matcher().forced_tokens() == [0]  # b b or bb


def test_bytes_that_are_no_text(byte_level: Vocabulary) -> None:
    matcher = Grammar.from_choices(["日本1", "日本2"]).compile(byte_level).matcher()
    assert matcher.accept_text("日".encode()[:1])  # the tokenizer never stops inside a character that it writes whole
    data = byte_level.decode(matcher.forced_tokens())
    assert matcher.forced_bytes().startswith(data)
    finished = Grammar.from_regex("a").compile(byte_level).matcher()
    assert finished.accept_text("a")
    assert finished.accept(0)
    assert finished.forced_tokens() == []


def test_forced_characters_in_part(byte_level: Vocabulary) -> None:
    """é and è share a byte: what is forced ends inside a character."""
    matcher = Grammar.from_choices(["the été", "the ètè"]).compile(byte_level).matcher()
    assert matcher.forced_bytes() == b"the \xc3"
    assert byte_level.decode(matcher.forced_tokens()) == b"the"


def test_context_begins_between_words() -> None:
    assert forced.context(iter([b"c", b"b", b"a"])) == b"abc"
    long = b"word " * 100
    found = forced.context(iter([b'": "', long]))
    assert found is not None
    assert long.endswith(found.removesuffix(b'": "'))
    assert found.startswith(b" word")
    assert len(found) < 128
    assert forced.context(iter([b"1" * forced.MOST_CONTEXT_BYTES, b"1"])) is None


def test_draft_trees() -> None:
    vocabulary = sg.Vocabulary.from_tokenizer([b"a", b"b", b"ab", None], eos_token_ids=3)
    matcher = Grammar.from_regex("a(ba|bb)").compile(vocabulary).matcher()
    #           a        b under a  b under root  a under ab..  ab under root  end  child of an illegal node
    tokens = [0, 1, 1, 0, 2, 3, 0]
    parents = [-1, 0, -1, 1, -1, 3, 2]
    assert matcher.verify_tree(tokens, parents) == [True, True, False, True, True, True, False]
    assert matcher.verify_tree([], []) == []
    assert matcher.allowed_tokens().tolist() == [0, 2]
    with pytest.raises(GrammarError, match="2 tokens but 1 parents"):
        matcher.verify_tree([0, 0], [-1])
    with pytest.raises(GrammarError, match="node 0 of the draft tree has parent 0"):
        matcher.verify_tree([0], [0])
