"""Vocabularies against the libraries that made them."""

from __future__ import annotations

import base64
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from real_tokenizers import NAMES, SHARED_NAMES

from structgen.errors import ModelError, RequestError
from structgen.grammars.gguf_metadata import read_gguf_metadata
from structgen.grammars.piece_model import PieceModel, PieceType
from structgen.grammars.piece_tokenizer import PRE_TOKENIZERS, build_tokenizer
from structgen.grammars.token_bytes import BYTE_LETTERS, byte_level_bytes, token_decoder
from structgen.grammars.token_files import _parse_without_merges
from structgen.grammars.vocabulary import Vocabulary

WORDS = [
    "the", "Hello", " world", '{"a": 1}', "I'm", "DON'T", "123", "2024-01-02", "\n\n", "    ", "\t", "naïve", "日本語",
    "здравствуйте", "🙂", "👨‍👩‍👧", "한국어", "<think>", "</tool_call>", "<|im_end|>", "<eos>", "<0x41>", "▁", "Ġ", "é",
    "\r\n", "\u00a0", "x.y/z?q=1", "<table>", "١٢", "½",
]  # fmt: skip
texts = st.lists(
    st.sampled_from(WORDS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=6), max_size=12
).map("".join)


# --- byte letters ---


@given(st.lists(st.binary(max_size=8)))
def test_byte_letters_round_trip(tokens: list[bytes]) -> None:
    assert byte_level_bytes(["".join(BYTE_LETTERS[b] for b in token) for token in tokens]) == tokens


def test_byte_letters_are_those_of_the_tokenizers_library() -> None:
    from tokenizers import pre_tokenizers

    assert sorted(BYTE_LETTERS.values()) == sorted(pre_tokenizers.ByteLevel.alphabet())
    cut = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for text in ("aé", "\x00 \n\x7f\xad", "日本🙂"):
        spelled = "".join(piece for piece, _ in cut.pre_tokenize_str(text))
        assert spelled == "".join(BYTE_LETTERS[b] for b in text.encode())


@given(st.lists(st.text(st.sampled_from("aĠĊ日 é\u0143\u0144\U0001f642"), max_size=5), min_size=1))
def test_byte_level_equals_the_librarys_decoder(spellings: list[str]) -> None:
    from tokenizers import decoders

    decoder = decoders.ByteLevel()
    for spelling, data in zip(spellings, byte_level_bytes(spellings), strict=True):
        assert data.decode("utf-8", "replace") == decoder.decode([spelling])


# --- decoder pipelines ---

LLAMA2 = {
    "type": "Sequence",
    "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ],
}
PIPELINES = [
    LLAMA2,
    {"type": "Sequence", "decoders": LLAMA2["decoders"][:3]},
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": False},
    {"type": "Sequence", "decoders": [{"type": "Strip", "content": "_", "start": 2, "stop": 0}, {"type": "Fuse"}]},
    {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, *LLAMA2["decoders"][:1], {"type": "Fuse"}]},
    {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
]


@pytest.mark.parametrize("pipeline", PIPELINES)
@given(data=st.data())
def test_pipeline_equals_the_librarys_decoder_in_the_middle_of_a_text(pipeline: Any, data: st.DataObject) -> None:
    spelling = st.sampled_from(
        ["▁", "▁▁a", "a▁b", "<0x41>", "<0x0A>", "<0x20>", "<0xe9>", "<0xZZ>", "__a___", "_", "é", "▁<0x41>"]
    )
    spellings = data.draw(st.lists(spelling, min_size=1, max_size=6))
    decoder = _library_decoder(pipeline)
    # An "x" before it keeps the rules for the start of a text away from the token.
    for text, ours in zip(spellings, token_decoder(pipeline).decode(spellings), strict=True):
        assert "x" + ours.decode("utf-8", "replace") == decoder.decode(["x", text])


def _library_decoder(pipeline: Any) -> Any:
    from tokenizers import Tokenizer

    shell = {"version": "1.0", "model": {"type": "BPE", "vocab": {}, "merges": []}, "decoder": pipeline}
    return Tokenizer.from_str(json.dumps(shell)).decoder


def test_leading_space_rule_is_told() -> None:
    assert token_decoder(LLAMA2).strips_leading_space
    assert token_decoder(PIPELINES[2]).strips_leading_space
    assert not token_decoder(PIPELINES[1]).strips_leading_space
    assert not token_decoder(PIPELINES[3]).strips_leading_space


def _after_fuse(step: Any) -> Any:
    return {"type": "Sequence", "decoders": [{"type": "Fuse"}, step]}


@pytest.mark.parametrize(
    ("decoder", "word"),
    [
        ({"type": "WordPiece", "prefix": "##", "cleanup": True}, "WordPiece"),
        ({"type": "CTC", "pad_token": "<pad>"}, "CTC"),
        ({"type": "BPEDecoder", "suffix": "</w>"}, "BPEDecoder"),
        (_after_fuse({"type": "Replace", "pattern": {"String": "ab"}, "content": ""}), "Fuse"),
        ({"type": "Replace", "pattern": {"Regex": "a+"}, "content": ""}, "regex"),
        (_after_fuse({"type": "Strip", "content": "a", "start": 1, "stop": 0}), "start"),
        (_after_fuse({"type": "Strip", "content": " ", "start": 0, "stop": 1}), "end"),
        (None, "no decoder"),
    ],
)  # fmt: skip
def test_tokens_without_own_bytes_are_refused(decoder: Any, word: str) -> None:
    with pytest.raises(ModelError, match=word):
        token_decoder(decoder)


# --- a small byte-level tokenizer, in every wrapping ---

MERGES = [("t", "h"), ("th", "e"), ("Ġ", "t"), ("Ġt", "h"), ("Ġth", "e"), ("Ã", "©"), ("1", "2"), ('"', ":")]


@pytest.fixture(scope="module")
def small() -> Any:
    """A ``tokenizers.Tokenizer``: bytes, a few merges, <eos> special, <think> added but plain, "é!" added."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    vocab = {letter: i for i, letter in enumerate(sorted(BYTE_LETTERS.values()))}
    for left, right in MERGES:
        vocab[left + right] = len(vocab)
    tokenizer = Tokenizer(models.BPE(vocab, MERGES))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<eos>", special=True, normalized=False), "<bos>"])
    tokenizer.add_tokens(["<think>", "é!"])
    return tokenizer


@pytest.fixture(scope="module")
def small_folder(small: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    small.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": {"content": "<eos>"}, "bos_token": "<bos>"}))
    return folder


def test_small_tokenizer_from_file_folder_and_object(small: Any, small_folder: Path) -> None:
    made = Vocabulary.from_tokenizer(small_folder)
    assert made == Vocabulary.from_tokenizer(str(small_folder / "tokenizer.json"))
    eos = small.token_to_id("<eos>")
    assert made == Vocabulary.from_tokenizer(small, eos_token_ids=eos)
    assert made.eos_token_ids == (eos,)
    assert made.size == len(made) == small.get_vocab_size()
    assert made.special == {"<eos>": eos, "<bos>": eos + 1}
    assert made.tokens[eos] is None
    assert made.tokens[small.token_to_id("<think>")] == b"<think>"
    assert made.tokens[small.token_to_id("é!")] == "é!".encode()
    assert made.tokens[small.token_to_id("Ġthe")] == b" the"


@given(texts)
@settings(max_examples=200)
def test_encode_gives_the_bytes_back(small: Any, text: str) -> None:
    vocabulary = Vocabulary.from_tokenizer(small, eos_token_ids=small.token_to_id("<eos>"))
    ids = vocabulary.encode(text)
    assert vocabulary.decode(ids) == text.encode()
    if not any(name in text for name in vocabulary.special):
        assert ids == small.encode(text, add_special_tokens=False).ids


def test_names_of_special_tokens_are_plain_text(small: Any) -> None:
    vocabulary = Vocabulary.from_tokenizer(small, eos_token_ids=small.token_to_id("<think>"))
    text = "<eos><think> a<think><bos>the<eos>"
    assert small.token_to_id("<eos>") in small.encode(text).ids
    ids = vocabulary.encode(text)
    assert vocabulary.decode(ids) == text.encode()
    assert not set(ids) & {*vocabulary.special.values(), *vocabulary.eos_token_ids}


def test_transformers_objects(small: Any, small_folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=small, eos_token="<eos>", bos_token="<bos>")
    assert Vocabulary.from_tokenizer(fast) == Vocabulary.from_tokenizer(small_folder)
    assert Vocabulary.from_tokenizer(fast).encode("the é") == small.encode("the é").ids


def test_truncation_and_padding_of_a_file_do_not_apply(small: Any, tmp_path: Path) -> None:
    copy = type(small).from_str(small.to_str())
    copy.enable_truncation(3)
    copy.enable_padding(length=50)
    for source in (copy, _saved(copy, tmp_path)):
        vocabulary = Vocabulary.from_tokenizer(source)
        assert vocabulary.decode(vocabulary.encode("abcdefgh")) == b"abcdefgh"
    assert len(copy.encode("abcdefgh").ids) == 50


def _saved(tokenizer: Any, folder: Path) -> Path:
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


def test_path_loads_no_library_until_encoding(small_folder: Path) -> None:
    import subprocess

    code = (
        "import sys; from structgen.grammars.vocabulary import Vocabulary; v = Vocabulary.from_tokenizer(sys.argv[1])\n"
        "bad = {'tokenizers', 'transformers', 'torch', 'gguf'} & set(sys.modules); assert not bad, bad\n"
        "assert v.encode('the') and 'torch' not in sys.modules and 'transformers' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(small_folder)], check=True)


# --- SentencePiece style ---


def sentencepiece_like(prefix: str) -> Any:
    """BPE with byte fallback; ``prefix`` says who puts a space before the text."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), *"▁abcé日", "▁a", "▁▁", "ab", "▁ab"]
    merges = [("▁", "a"), ("▁", "▁"), ("a", "b"), ("▁a", "b")]
    vocab = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    replace = normalizers.Replace(" ", "▁")
    if prefix == "normalizer":
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), replace])
    elif prefix == "metaspace":
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        tokenizer.normalizer = replace
    strip = [decoders.Strip(" ", 1, 0)] if prefix else []
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    )
    tokenizer.add_special_tokens(
        [AddedToken(name, special=True, normalized=False) for name in ("<unk>", "<s>", "</s>")]
    )
    return tokenizer


@pytest.mark.parametrize("prefix", ["", "normalizer", "metaspace"])
@given(text=texts)
@settings(max_examples=60)
def test_sentencepiece_in_the_middle_of_a_text(prefix: str, text: str) -> None:
    vocabulary = Vocabulary.from_tokenizer(sentencepiece_like(prefix))
    assert vocabulary.tokens[3 + 0x41] == b"A"
    assert vocabulary.tokens[3 + 0xE9] == b"\xe9"
    assert vocabulary.strips_leading_space == bool(prefix)
    # "▁" is how these tokenizers write a space, so they cannot write it as itself.
    assert vocabulary.decode(vocabulary.encode(text)) == text.replace("▁", " ").encode()


def test_what_cannot_be_written_is_refused() -> None:
    from tokenizers import Tokenizer, decoders, models

    tokenizer = Tokenizer(models.BPE({"<unk>": 0, "a": 1, "▁": 2}, [], unk_token="<unk>"))
    tokenizer.decoder = decoders.Metaspace()
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    assert vocabulary.tokens == (None, b"a", b" ")
    assert vocabulary.special == {"<unk>": 0}
    with pytest.raises(RequestError, match=r"'日' .character 2"):
        vocabulary.encode("aa日a")
    with pytest.raises(RequestError, match="surrogate"):
        vocabulary.encode("a\ud800")


def test_what_bpe_leaves_out_is_refused() -> None:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    tokenizer = Tokenizer(models.BPE({"a": 0, "Ã": 1, "©": 2}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.normalizer = normalizers.NFC()
    assert tokenizer.encode("ab").ids == [0]
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    assert vocabulary.encode("ae\u0301") == [0, 1, 2]
    with pytest.raises(RequestError, match=r"'b' .character 1"):
        vocabulary.encode("ab")


def test_unigram_with_repeated_pieces(tmp_path: Path) -> None:
    model = {
        "type": "Unigram",
        "unk_id": 0,
        "vocab": [["<unk>", 0.0], ["▁", -1.0], ["a", -2.0], ["▁a", -1.5], ["a", -9.0], ["", -9.0]],
        "byte_fallback": False,
    }
    document = {"version": "1.0", "model": model, "pre_tokenizer": {"type": "Metaspace", "replacement": "▁"}}
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(document | {"decoder": {"type": "Metaspace", "replacement": "▁"}, "added_tokens": []}))
    assert Vocabulary.from_tokenizer(file).tokens == (None, b" ", b"a", b" a", b"a", None)


# --- reading tokenizer.json without its merges ---

ODD = [
    '],"',
    '"merges": [',
    '"merges":[',
    "]",
    "[",
    '"',
    "\\",
    '], "x": ',
    "}}",
    "]}}",
    ",",
    " ",
    "merges",
    '{"merges": [',
]


def test_the_librarys_files_are_read_without_merges(small_folder: Path) -> None:
    assert _parse_without_merges(small_folder / "tokenizer.json")["model"]["merges"] == []


@settings(max_examples=60)
@given(
    vocab=st.lists(st.sampled_from(ODD) | st.text(max_size=4), unique=True),
    merges=st.lists(st.tuples(st.sampled_from(ODD), st.sampled_from(ODD))),
    pairs=st.booleans(),
    indent=st.sampled_from([None, 2]),
    ascii_only=st.booleans(),
    order=st.permutations(["type", "vocab", "merges", "byte_fallback"]),
    outer=st.permutations(["added_tokens", "decoder", "model"]),
)
def test_merges_are_left_out_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory,
    vocab: list[str],
    merges: list[tuple[str, str]],
    pairs: bool,
    indent: int | None,
    ascii_only: bool,
    order: list[str],
    outer: list[str],
) -> None:
    model: dict[str, Any] = {"type": "BPE", "byte_fallback": True, "vocab": {v: i for i, v in enumerate(vocab)}}
    model["merges"] = [list(m) if pairs else " ".join(m) for m in merges]
    whole = {"added_tokens": [{"id": 0, "content": '"merges": ['}], "decoder": {"type": "ByteLevel"}}
    whole["model"] = {key: model[key] for key in order}  # type: ignore[assignment]
    file = tmp_path_factory.getbasetemp() / "odd.json"
    file.write_text(json.dumps({key: whole[key] for key in outer}, indent=indent, ensure_ascii=ascii_only), "utf-8")
    found = _parse_without_merges(file)
    expected = json.loads(json.dumps(whole))
    found["model"].pop("merges")
    expected["model"].pop("merges")
    assert found == expected


# --- end tokens ---


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, ["<eos>"]),
        ({"generation_config.json": {"eos_token_id": ["<bos>", "<eos>"]}}, ["<eos>", "<bos>"]),
        ({"generation_config.json": {"eos_token_id": "<bos>"}, "config.json": {"eos_token_id": 2}}, ["<eos>", "<bos>"]),
        ({"config.json": {"eos_token_id": 2}}, ["<eos>"]),  # an ordinary token: a default nobody set
        ({"config.json": {"text_config": {"eos_token_id": "<bos>"}}}, ["<eos>", "<bos>"]),
        ({"tokenizer_config.json": {}}, []),
        ({"tokenizer_config.json": {}, "generation_config.json": {"eos_token_id": 7}}, [7]),
        ({"tokenizer_config.json": {"eos_token": "<think>"}}, ["<think>"]),
    ],
)
def test_end_ids_of_a_folder(
    small: Any, small_folder: Path, tmp_path: Path, files: dict[str, Any], expected: list[Any]
) -> None:
    def ids(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: ids(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [ids(inner) for inner in value]
        return small.token_to_id(value) if isinstance(value, str) and value in ("<eos>", "<bos>") else value

    names = {"tokenizer_config.json": json.loads((small_folder / "tokenizer_config.json").read_text())}
    for name, content in (names | files).items():
        given = content if name == "tokenizer_config.json" else ids(content)
        (tmp_path / name).write_text(json.dumps(given))
    (tmp_path / "tokenizer.json").write_bytes((small_folder / "tokenizer.json").read_bytes())
    vocabulary = Vocabulary.from_tokenizer(tmp_path)
    wanted = sorted(small.token_to_id(e) if isinstance(e, str) else e for e in expected)
    assert vocabulary.eos_token_ids == tuple(wanted)
    assert all(vocabulary.tokens[i] is None for i in wanted)
    assert Vocabulary.from_tokenizer(tmp_path, eos_token_ids=[5, 4, 5]).eos_token_ids == (4, 5)


# --- lists, sizes, identity ---


def test_list_of_bytes(synthetic_vocabulary: Vocabulary) -> None:
    v = synthetic_vocabulary
    assert v.tokens.count(b"ab") == 3
    assert v.tokens[1] is None  # empty bytes say nothing
    assert v.tokens[-21:] == (None,) * 21
    assert v.eos_token_ids == (3,)
    assert v.tokenizer is None
    assert not v.can_encode
    with pytest.raises(ModelError, match="cannot encode"):
        v.encode("a")
    with pytest.raises(ModelError, match="not in the vocabulary"):
        v.decode([v.size])
    with pytest.raises(ModelError, match="not in the vocabulary"):
        v.decode([-1])
    with pytest.raises(AttributeError, match="immutable"):
        v.size = 3
    assert v.decode([4 + 65, 3, 0, 4 + 66]) == b"AB"


def test_sizes(synthetic_vocabulary: Vocabulary) -> None:
    tokens: list[bytes | None] = [b"a", b"b", None, None]
    assert Vocabulary.from_tokenizer(tokens, size=6).tokens == (b"a", b"b", None, None, None, None)
    assert Vocabulary.from_tokenizer(tokens, size=2).size == 2  # ids without bytes may go
    for size in (1, 0, -3):
        with pytest.raises(ModelError, match="smaller than the vocabulary: id 1"):
            Vocabulary.from_tokenizer(tokens, size=size)
    with pytest.raises(ModelError, match="end id 9"):
        Vocabulary.from_tokenizer(tokens, eos_token_ids=9)
    with pytest.raises(ModelError, match="end id -1"):
        Vocabulary.from_tokenizer(tokens, eos_token_ids=[-1])
    for bad in ("x", 1.5, [b"a"]):
        with pytest.raises(ModelError, match="eos_token_ids="):
            Vocabulary.from_tokenizer(tokens, eos_token_ids=bad)  # type: ignore[arg-type]
    assert Vocabulary.from_tokenizer(tokens, eos_token_ids=np.int64(2)).eos_token_ids == (2,)
    wider = Vocabulary.from_tokenizer(synthetic_vocabulary, size=synthetic_vocabulary.size + 5)
    assert wider.size == synthetic_vocabulary.size + 5
    assert wider.eos_token_ids == synthetic_vocabulary.eos_token_ids
    assert Vocabulary.from_tokenizer(synthetic_vocabulary) is synthetic_vocabulary


@given(
    st.lists(st.none() | st.binary(max_size=2), min_size=1, max_size=5),
    st.lists(st.none() | st.binary(max_size=2), min_size=1, max_size=5),
)
def test_fingerprints_tell_contents_apart(a: list[bytes | None], b: list[bytes | None]) -> None:
    first, second = Vocabulary.from_tokenizer(a), Vocabulary.from_tokenizer(b)
    assert (first.fingerprint == second.fingerprint) == (first.tokens == second.tokens)
    assert (first == second) == (first.tokens == second.tokens)
    ended = Vocabulary.from_tokenizer([*a, None], eos_token_ids=len(a))
    assert ended != Vocabulary.from_tokenizer([*a, None])


@pytest.mark.parametrize("x", [3, None, {"a": 1}, object(), ["a"], [b"a", 3], []])
def test_what_is_no_tokenizer_is_refused(x: Any) -> None:
    with pytest.raises(ModelError, match="list"):
        Vocabulary.from_tokenizer(x)


def test_bad_paths(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no file or folder"):
        Vocabulary.from_tokenizer(tmp_path / "nothing")
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        Vocabulary.from_tokenizer(tmp_path)
    broken = tmp_path / "tokenizer.json"
    for content, word in [
        (b'{"model": ', "not valid JSON"),
        (b'{"a": 1}', "neither"),
        (b"GGUF\x03\x00\x00\x00\x09", "cut short"),
        (b"GGUF\x01\x00\x00\x00" + bytes(16), "version 1"),
        (b"IQ== 0\nIg== 1\n", "not a SentencePiece model"),
        (b"", "not a SentencePiece model"),
        (b'{"model": {"type": "WordPiece", "vocab": {"a": 0}}}', "WordPiece"),
        (b'{"model": {"type": "BPE", "vocab": {"a": 0}, "end_of_word_suffix": "</w>"}}', "</w>"),
    ]:
        broken.write_bytes(content)
        with pytest.raises(ModelError, match=word):
            Vocabulary.from_tokenizer(tmp_path)


# --- tiktoken, tekken ---


def small_encoding(special: dict[str, int]) -> Any:
    tiktoken = pytest.importorskip("tiktoken")
    ranks = {bytes([i]): i for i in range(256)} | {b"th": 256, b"the": 257, b" the": 258}
    return tiktoken.Encoding("small", pat_str=r"\s?\w+|\W", mergeable_ranks=ranks, special_tokens=special)


@given(texts)
@settings(max_examples=50)
def test_tiktoken(text: str) -> None:
    encoding = small_encoding({"<|endoftext|>": 300, "<eos>": 301})
    v = Vocabulary.from_tokenizer(encoding)
    assert v.size == 302
    assert v.eos_token_ids == (300,)
    assert v.special == {"<|endoftext|>": 300, "<eos>": 301}
    assert v.tokens[258] == b" the"
    assert v.tokens[259:] == (None,) * 43
    assert v.encode(text) == encoding.encode_ordinary(text)
    assert v.decode(v.encode(text)) == text.encode()
    assert Vocabulary.from_tokenizer(small_encoding({"<eos>": 301})).eos_token_ids == ()


def write_tekken(file: Path, version: str = "v7", special: int = 10) -> None:
    tokens = [bytes([i]) for i in range(256)] + [b"th", b"the", b" the", b"\xc3\xa9"]
    names = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"]
    document = {
        "config": {
            "pattern": r"\s?\w+|\W",
            "num_vocab_tokens": len(tokens),
            "default_vocab_size": special + len(tokens) - 1,
            "default_num_special_tokens": special,
            "version": version,
        },
        "vocab": [
            {"rank": i, "token_bytes": base64.b64encode(t).decode(), "token_str": None} for i, t in enumerate(tokens)
        ],
        "special_tokens": [{"rank": i, "token_str": name, "is_control": True} for i, name in enumerate(names)],
    }
    file.write_text(json.dumps(document))


def test_tekken_without_names(tmp_path: Path) -> None:
    """Before version 7 the names of the special tokens are in the library alone."""
    tekken = pytest.importorskip("mistral_common.tokens.tokenizers.tekken")
    file = tmp_path / "tekken.json"
    write_tekken(file, version="v3", special=32)
    document = json.loads(file.read_text())
    del document["special_tokens"]
    file.write_text(json.dumps(document))
    ours, theirs = Vocabulary.from_tokenizer(file), tekken.Tekkenizer.from_file(file)
    assert ours == Vocabulary.from_tokenizer(theirs)
    assert ours.special["[INST]"] == theirs.get_special_token("[INST]")
    assert ours.encode("the") == theirs.encode("the", bos=False, eos=False)


def test_tekken(tmp_path: Path) -> None:
    tekken = pytest.importorskip("mistral_common.tokens.tokenizers.tekken")
    file = tmp_path / "tekken.json"
    write_tekken(file)
    theirs = tekken.Tekkenizer.from_file(file)
    ours = Vocabulary.from_tokenizer(tmp_path)
    assert ours == Vocabulary.from_tokenizer(theirs)
    assert ours.size == theirs.n_words == 269
    assert ours.eos_token_ids == (theirs.eos_id,)
    assert ours.special["[INST]"] == 3
    assert ours.special["<SPECIAL_9>"] == 9
    assert ours.tokens[10 + 258] == b" the"
    for text in ("the the é<s>", "日本 🙂"):
        assert ours.encode(text) == theirs.encode(text, bos=False, eos=False)
        assert ours.decode(ours.encode(text)) == text.encode()


# --- GGUF ---


def write_gguf(file: Path, values: dict[str, Any], types: list[int] | None = None) -> Path:
    """A GGUF file without tensors, by the gguf package."""
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(str(file), "llama")
    for key, value in values.items():
        if isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
        else:
            writer.add_array(key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def test_gguf_header_equals_the_gguf_package(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    file = tmp_path / "all.gguf"
    writer = gguf.GGUFWriter(str(file), "llama")
    for name in ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"):
        getattr(writer, f"add_{name}")(f"n.{name}", 7 if name.startswith("u") else -7)
    writer.add_float32("f32", 0.1)
    writer.add_float64("f64", 0.1)
    writer.add_bool("yes", True)
    writer.add_string("text", "é🙂")
    writer.add_array("strings", ["", "a", "日本"])
    writer.add_array("ints", [1, -2, 3])
    writer.add_array("floats", [0.5, -1.5])
    writer.add_array("bools", [True, False])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    theirs = {k: f.contents() for k, f in gguf.GGUFReader(str(file)).fields.items() if not k.startswith("GGUF.")}
    ours = read_gguf_metadata(file)
    assert {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in ours.items()} == theirs
    assert "strings" not in read_gguf_metadata(file, skip=["strings"])
    whole = file.read_bytes()
    for size in range(4, len(whole) - 40, 7):
        file.write_bytes(whole[:size])
        with pytest.raises(ModelError, match=r"cut short|version"):
            read_gguf_metadata(file)


@pytest.fixture(scope="module")
def byte_level_gguf(small: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small tokenizer as a GGUF file."""
    tokens = [small.id_to_token(i) for i in range(small.get_vocab_size())]
    types = [1] * len(tokens)
    for name, kind in {"<eos>": 3, "<bos>": 3, "<think>": 4, "é!": 4}.items():
        types[tokens.index(name)] = kind
    values = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": [*tokens, "[PAD9]"],
        "tokenizer.ggml.token_type": [*types, 5],
        "tokenizer.ggml.merges": [" ".join(merge) for merge in MERGES],
        "tokenizer.ggml.eos_token_id": tokens.index("<eos>"),
        "tokenizer.ggml.eot_token_id": tokens.index("<bos>"),
    }
    return write_gguf(tmp_path_factory.mktemp("gguf") / "small.gguf", values)


@given(text=texts)
@settings(max_examples=60)
def test_byte_level_gguf_equals_the_tokenizer_it_came_from(small: Any, byte_level_gguf: Path, text: str) -> None:
    v = _gguf_vocabulary(byte_level_gguf)
    eos = small.token_to_id("<eos>")
    assert v.eos_token_ids == (eos, eos + 1)
    assert v.tokens[-1] is None
    assert v.tokens[:-1] == Vocabulary.from_tokenizer(small).tokens
    assert v.tokenizer.encode(text).ids == small.encode(text).ids
    assert v.decode(v.encode(text)) == text.encode()


_seen: dict[Path, Vocabulary] = {}


def _gguf_vocabulary(file: Path) -> Vocabulary:
    if file not in _seen:
        _seen[file] = Vocabulary.from_tokenizer(file)
    return _seen[file]


def sentencepiece_pieces() -> tuple[list[str], list[int], list[float]]:
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), "  ", "▁a", "ab", "▁ab", "abc", *"▁abc日"]
    types = [2, 3, 3, *[6] * 256, 4, *[1] * 9]
    return pieces, types, [0.0] * 259 + [-1000.0, *(float(-i) for i in range(1, 10))]


def test_sentencepiece_gguf(tmp_path: Path) -> None:
    pieces, types, scores = sentencepiece_pieces()
    values = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": pieces,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }
    v = Vocabulary.from_tokenizer(write_gguf(tmp_path / "m.gguf", values))
    assert v.tokens[:3] == (None, None, None)
    assert v.special == {"<unk>": 0, "<s>": 1, "</s>": 2}
    assert v.tokens[3:259] == tuple(bytes([b]) for b in range(256))
    assert v.tokens[259] == b"  "
    assert v.tokens[260] == b" a"
    assert v.strips_leading_space
    names = v.tokenizer.encode(" ab").tokens
    assert names[0] == "<s>"  # SentencePiece files put it there unless they say otherwise
    assert [v.tokens[i] for i in v.encode("abc ab  a日é")] == [
        b"abc",
        b" ab",
        b"  ",
        b"a",
        "日".encode(),
        b"\xc3",
        b"\xa9",
    ]


@pytest.mark.parametrize(
    ("names", "types", "ids", "expected"),
    [
        (["<eos>", "<|im_end|>"], [3, 3], {"eos": 0}, (0, 1)),  # the turn's end is told by its name alone
        (["<eos>", "<|im_end|>"], [3, 1], {"eos": 0}, (0,)),
        (["<eos>", "<|im_end|>"], [3, 3], {"eos": 0, "eot": 0}, (0,)),
        (["<eos>", "<|im_end|>"], [3, 3], {"eos": 1, "eot": 1, "eom": 0}, (0, 1)),
        (["<|return|>", "<|end|>"], [3, 3], {"eos": 0}, (0,)),
        (["<eos>", "<|end|>"], [3, 3], {"eos": 0}, (0, 1)),
    ],
)
def test_end_ids_of_a_gguf(
    names: list[str], types: list[int], ids: dict[str, int], expected: tuple[int, ...], tmp_path: Path
) -> None:
    values: dict[str, Any] = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": [*names, "a"]}
    values["tokenizer.ggml.token_type"] = [*types, 1]
    values |= {f"tokenizer.ggml.{which}_token_id": i for which, i in ids.items()}
    assert Vocabulary.from_tokenizer(write_gguf(tmp_path / "m.gguf", values)).eos_token_ids == expected


def test_gguf_refusals(tmp_path: Path) -> None:
    def refuse(word: str, **changes: Any) -> None:
        values = {
            "model": "gpt2",
            "pre": "gpt-2",
            "tokens": ["a", "b"],
            "token_type": [1, 1],
            "merges": ["a b"],
        } | changes
        named = {f"tokenizer.ggml.{key}": value for key, value in values.items() if value is not None}
        file = write_gguf(tmp_path / "bad.gguf", named)
        with pytest.raises(ModelError, match=word):
            Vocabulary.from_tokenizer(file).encode("ab")

    refuse("'bert'", model="bert")
    refuse("gemma4", pre="gemma4")
    refuse("no tokenizer.ggml.tokens", tokens=None)
    refuse("pre-tokenizer 'new-one'", pre="new-one")
    refuse("merges", merges=None)
    refuse("token types", token_type=[1])
    refuse("byte letters", tokens=["▁a", "日本"])


@pytest.mark.parametrize("pre", sorted(PRE_TOKENIZERS))
def test_every_pre_tokenizer_covers_every_text(pre: str) -> None:
    letters = sorted(BYTE_LETTERS.values())
    model = PieceModel("test", "bytelevel", [*letters, "ĠĠ"], [PieceType.NORMAL] * 257, merges=["Ġ Ġ"], pre=pre)
    tokenizer, data = build_tokenizer(model), model.token_bytes()
    rng = random.Random(pre)
    for _ in range(30):
        text = "".join(rng.choices(WORDS, k=8))
        assert b"".join(data[i] or b"" for i in tokenizer.encode(text).ids) == text.encode()


# --- SentencePiece files ---


def test_mistral_sentencepiece_file() -> None:
    data = pytest.importorskip("mistral_common.tokens.tokenizers.mistral")
    file = Path(data.__file__).parents[2] / "data" / "tokenizer.model.v1"
    if not file.is_file():
        pytest.skip("this mistral-common carries no tokenizer.model")
    v = Vocabulary.from_tokenizer(file)
    assert (v.size, v.eos_token_ids) == (32000, (2,))
    assert v.special == {"<unk>": 0, "<s>": 1, "</s>": 2}
    assert v.tokens[3:259] == tuple(bytes([b]) for b in range(256))
    assert v.encode("Hello world") == [16230, 1526]  # as SentencePiece encodes " Hello world" without its first space
    rng = random.Random(4)
    for _ in range(100):
        text = "".join(rng.choices(WORDS, k=8)).replace("▁", "")
        assert v.decode(v.encode(text)) == text.encode()


# --- real vocabularies ---


QUICK = ("qwen3", "smollm2")
REAL = [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in NAMES]


@pytest.mark.parametrize("name", REAL)
def test_real_vocabulary_encodes_every_text(name: str, real_vocabulary: Callable[[str], Vocabulary]) -> None:
    import unicodedata

    v = real_vocabulary(name)
    rng = random.Random()
    for _ in range(150):
        text = "".join(rng.choices(WORDS, k=rng.randrange(20)))
        expected = unicodedata.normalize("NFC", text) if name == "qwen3" else text
        expected = expected.replace("▁", " ") if name == "gemma3" else expected
        assert v.decode(v.encode(text)) == expected.encode(), text


@pytest.mark.parametrize("name", REAL)
def test_real_bytes_equal_the_librarys_decode(name: str, real_vocabulary: Callable[[str], Vocabulary]) -> None:
    v = real_vocabulary(name)
    rng = random.Random()
    # gemma3: the library turns each stray byte token into its own U+FFFD, so byte tokens are tested in texts only.
    with_bytes = [i for i, data in enumerate(v.tokens) if data and (name != "gemma3" or not 238 <= i < 494)]
    for _ in range(500):
        ids = rng.choices(with_bytes, k=rng.randrange(1, 12))
        ours = b"".join(v.tokens[i] or b"" for i in ids).decode("utf-8", "replace")
        assert ours == v.tokenizer.decode(ids, skip_special_tokens=False), ids


@pytest.mark.parametrize(
    ("name", "size", "special", "eos"),
    [
        ("llama3", 128256, 256, (128001,)),
        ("qwen3", 151669, 14, (151645,)),
        ("gemma3", 262145, 9, (106,)),
        ("gptoss", 200019, 21, (200002,)),
        ("deepseek_v3", 128815, 804, (1,)),
        ("smollm2", 49152, 17, (2,)),
    ],
)
def test_real_vocabulary_shapes(
    name: str, size: int, special: int, eos: tuple[int, ...], real_vocabulary: Callable[[str], Vocabulary]
) -> None:
    v = real_vocabulary(name)
    assert (v.size, len(v.special), v.eos_token_ids) == (size, special, eos)
    assert sum(data is None for data in v.tokens) == special
    missing = {b for b in range(256) if bytes([b]) not in v.tokens}
    # Bytes that no UTF-8 text holds may be missing; SmolLM2 lacks some that texts do hold.
    assert missing <= {0xC0, 0xC1, *range(0xF5, 0x100)} or name == "smollm2"
    if name == "gemma3":  # the model's logits are narrower than its tokenizer
        assert Vocabulary.from_tokenizer(v, size=262144).size == 262144


@pytest.mark.parametrize("name", ["qwen3", pytest.param("gemma3", marks=pytest.mark.slow)])
def test_object_equals_file(name: str, real_vocabulary: Callable[[str], Vocabulary]) -> None:
    v = real_vocabulary(name)
    assert Vocabulary.from_tokenizer(v.tokenizer, eos_token_ids=v.eos_token_ids) == v


def test_shared_names_are_unpacked_once(real_tokenizer_path: Callable[[str], Path]) -> None:
    assert real_tokenizer_path(SHARED_NAMES[0]) == real_tokenizer_path(SHARED_NAMES[0])
