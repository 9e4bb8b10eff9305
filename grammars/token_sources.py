"""Where a vocabulary comes from: files, folders and other libraries' tokenizer objects."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from structgen.errors import ModelError
from structgen.grammars.piece_model import PieceModel
from structgen.grammars.text_encoding import (
    Encoder,
    HuggingFaceEncoder,
    PlainEncoder,
    TiktokenEncoder,
    part_state,
)
from structgen.grammars.token_bytes import TokenDecoder, byte_level_bytes, token_decoder

ALLOWED = (
    "the path of a tokenizer.json, tekken.json, SentencePiece tokenizer.model or GGUF file, or of a folder with one; "
    "a transformers tokenizer; a tokenizers.Tokenizer; a tiktoken Encoding; a mistral-common tokenizer; or the tokens "
    "as list[bytes | None]"
)


@dataclass(frozen=True)
class TokenTable:
    """A tokenizer as read.

    Attributes:
        tokens: bytes of each id; None (or empty) for ids without.
        special: names of special tokens -> id.
        eos_token_ids: the ids that end a generation, as far as the source says.
        encoder: cuts text into ids; None where there is nothing to do it with.
        strips_leading_space: the tokenizer's decode drops a space at the start of a text.
        digest: ``digest_of(tokens)``, where it is known already.
    """

    tokens: Sequence[bytes | None]
    special: Mapping[str, int]
    eos_token_ids: tuple[int, ...]
    encoder: Encoder | None = None
    strips_leading_space: bool = False
    digest: bytes | None = None


def digest_of(tokens: Sequence[bytes | None]) -> bytes:
    """A hash of the bytes of all ids; empty ones are as good as None. 16 bytes."""
    lengths = np.array([len(data) if data else 0 for data in tokens], dtype=np.int64)
    digest = hashlib.blake2b(lengths.tobytes(), digest_size=16)
    digest.update(b"".join([data or b"" for data in tokens]))
    return digest.digest()


@dataclass(frozen=True)
class Added:
    """A token added beside the model's own vocabulary."""

    id: int
    content: str
    is_special: bool


def read_tokens(x: Any) -> TokenTable:
    """Read tokenizer ``x``; see ``ALLOWED`` for what it may be.

    Raises:
        ModelError: anything else, or something that cannot be read.
    """
    if isinstance(x, (str, os.PathLike)):
        from structgen.grammars.token_files import read_path

        return read_path(x)
    if isinstance(x, (list, tuple)):
        return _from_list(x)
    if isinstance(x, PieceModel):
        from structgen.grammars.token_files import from_pieces

        return from_pieces(x)
    library = type(x).__module__.partition(".")[0]
    if hasattr(x, "backend_tokenizer"):
        return _from_transformers_fast(x)
    if library == "tokenizers" and hasattr(x, "get_added_tokens_decoder"):
        return _from_tokenizers(x)
    if hasattr(x, "decode_single_token_bytes") and hasattr(x, "n_vocab"):
        return _from_tiktoken(x)
    if library == "mistral_common" or hasattr(x, "instruct_tokenizer"):
        return _from_mistral(x)
    if library == "transformers":
        return _from_transformers_slow(x)
    raise ModelError(f"a {type(x).__module__}.{type(x).__qualname__} is not a tokenizer. Allowed: {ALLOWED}")


def _from_list(x: Sequence[Any]) -> TokenTable:
    for i, token in enumerate(x):
        if token is not None and not isinstance(token, bytes):
            raise ModelError(
                f"token {i} is {token!r}, a {type(token).__name__}: a list of tokens holds bytes, or None for ids "
                "without (encode text as UTF-8)"
            )
    if not x:
        raise ModelError(f"an empty list has no tokens. Allowed: {ALLOWED}")
    return TokenTable(tokens=list(x), special={}, eos_token_ids=())


def table_of(
    spellings: Mapping[str, int] | Sequence[str],
    added: Iterable[Added],
    decoder: TokenDecoder,
    *,
    unknown: str | None = None,
    special_names: Iterable[str] = (),
) -> tuple[list[bytes | None], dict[str, int]]:
    """Bytes by id, and the special tokens, of a Hugging Face style vocabulary.

    Args:
        spellings: the model's own vocabulary, spelling -> id or a list by id.
        added: tokens on top (or marked special); they replace a vocabulary entry of the same id.
        unknown: the spelling of the token for what cannot be written; it has no bytes.
        special_names: further tokens without bytes, by spelling.
    """
    texts = list(spellings)
    ids = list(spellings.values()) if isinstance(spellings, Mapping) else range(len(texts))
    added = list(added)
    count = max([*ids, *(a.id for a in added), -1]) + 1
    tokens: list[bytes | None] = [None] * count
    for token_id, data in zip(ids, decoder.decode(texts), strict=True):
        tokens[token_id] = data
    special = {a.content: a.id for a in added if a.is_special}
    plain = [a for a in added if not a.is_special]
    for a, data in zip(plain, decoder.decode([a.content for a in plain]), strict=True):
        # An added token is matched against plain text, so it stands for its own characters even where these
        # happen to be byte letters; one that the model's vocabulary holds too is spelled like the others.
        own = not decoder.is_byte_level or _holds(spellings, a)
        tokens[a.id] = data if own else a.content.encode("utf-8")
    places = _places(spellings, added)
    for name in (*([unknown] if unknown is not None else []), *special_names):
        if name in places:
            special[name] = places[name]
    for token_id in special.values():
        tokens[token_id] = None
    return tokens, special


def _holds(spellings: Mapping[str, int] | Sequence[str], token: Added) -> bool:
    if isinstance(spellings, Mapping):
        return spellings.get(token.content) == token.id
    return token.id < len(spellings) and spellings[token.id] == token.content


def _places(spellings: Mapping[str, int] | Sequence[str], added: Sequence[Added]) -> dict[str, int]:
    places = dict(spellings) if isinstance(spellings, Mapping) else {s: i for i, s in enumerate(spellings)}
    places.update((a.content, a.id) for a in added)
    return places


def _from_tokenizers(x: Any, special_ids: Iterable[int] = (), eos_token_ids: tuple[int, ...] = ()) -> TokenTable:
    """A ``tokenizers.Tokenizer``."""
    kind = type(x.model).__name__
    refuse_word_pieces(kind, x.model)
    decoder = token_decoder(part_state(x.decoder), part_state(x.pre_tokenizer))
    vocab: dict[str, int] = x.get_vocab(with_added_tokens=False)
    if kind == "Unigram":  # pieces may repeat, so ask id by id
        spellings: Mapping[str, int] | Sequence[str] = [x.id_to_token(i) for i in range(x.get_vocab_size(False))]
    else:
        spellings = vocab
    marked = set(special_ids)
    added = [Added(i, t.content, t.special or i in marked) for i, t in x.get_added_tokens_decoder().items()]
    unknown = getattr(x.model, "unk_token", None)
    names = [name for name in (x.id_to_token(i) for i in marked) if name is not None]
    tokens, special = table_of(spellings, added, decoder, unknown=unknown, special_names=names)
    return TokenTable(tokens, special, eos_token_ids, HuggingFaceEncoder(lambda: x), decoder.strips_leading_space)


def refuse_word_pieces(kind: str, model: Any) -> None:
    """Refuse models whose pieces are joined by rules about their neighbours.

    Raises:
        ModelError: WordPiece, or BPE with a word-end or continuation mark.
    """
    marks = ("end_of_word_suffix", "continuing_subword_prefix")
    values = [model.get(name) if isinstance(model, Mapping) else getattr(model, name, None) for name in marks]
    mark = values[0] or values[1]
    if kind == "WordPiece" or mark:
        raise ModelError(
            f"a {kind} tokenizer{f' with mark {mark!r}' if mark else ''} joins tokens with spaces that depend on their "
            f"neighbours, so a token has no bytes of its own and cannot be constrained. Allowed: {ALLOWED}"
        )


def _from_transformers_fast(x: Any) -> TokenTable:
    eos = x.eos_token_id
    stops = tuple(eos) if isinstance(eos, (list, tuple)) else () if eos is None else (int(eos),)
    special = {i for i in (x.eos_token_id, x.bos_token_id) if isinstance(i, int)}
    return _from_tokenizers(x.backend_tokenizer, special, stops)


def _from_transformers_slow(x: Any) -> TokenTable:
    """A slow transformers tokenizer: mistral-common's, one over SentencePiece, or one over byte letters."""
    stops = () if x.eos_token_id is None else (int(x.eos_token_id),)
    inner = getattr(x, "tokenizer", None)
    if type(inner).__module__.startswith("mistral_common"):
        return _from_mistral(inner)
    vocab = x.get_vocab()
    added = [Added(i, t.content, t.special) for i, t in x.added_tokens_decoder.items()]
    names = [x.convert_ids_to_tokens(i) for i in x.all_special_ids]
    if hasattr(x, "sp_model"):
        decoder = token_decoder({"type": "Sequence", "decoders": _SLOW_SENTENCEPIECE})
    elif hasattr(x, "byte_decoder"):
        decoder = TokenDecoder(byte_level_bytes, is_byte_level=True)
    else:
        raise ModelError(
            f"the slow tokenizer {type(x).__qualname__} does not say the bytes of its tokens; load the fast one "
            f"(use_fast=True). Allowed: {ALLOWED}"
        )
    tokens, special = table_of(vocab, added, decoder, unknown=x.unk_token, special_names=names)
    encoder = PlainEncoder(
        lambda: x, lambda t, text: t.encode(text, add_special_tokens=False), is_local=not hasattr(x, "sp_model")
    )
    return TokenTable(tokens, special, stops, encoder, strips_leading_space=hasattr(x, "sp_model"))


_SLOW_SENTENCEPIECE = [
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
    {"type": "ByteFallback"},
    {"type": "Fuse"},
]


def _from_tiktoken(x: Any) -> TokenTable:
    special = {name: x.encode_single_token(name) for name in sorted(x.special_tokens_set)}
    named = set(special.values())
    tokens: list[bytes | None] = [None] * x.n_vocab
    for token_id in range(x.n_vocab):
        if token_id not in named:
            try:
                tokens[token_id] = x.decode_single_token_bytes(token_id)
            except KeyError:  # a hole in the ids
                continue
    stop = special.get("<|endoftext|>")
    return TokenTable(tokens, special, () if stop is None else (stop,), TiktokenEncoder(lambda: x))


def _from_mistral(x: Any) -> TokenTable:
    """mistral-common's MistralTokenizer, InstructTokenizer, Tekkenizer or SentencePieceTokenizer."""
    for name in ("instruct_tokenizer", "tokenizer"):
        x = getattr(x, name, x)
    if hasattr(x, "id_to_byte_piece") and hasattr(x, "special_ids"):
        return from_tekkenizer(x)
    if hasattr(x, "file_path"):
        from structgen.grammars.token_files import read_path

        return read_path(x.file_path)
    raise ModelError(f"a {type(x).__module__}.{type(x).__qualname__} is not a tokenizer. Allowed: {ALLOWED}")


def from_tekkenizer(x: Any) -> TokenTable:
    """mistral-common's Tekkenizer: special tokens first, then the bytes."""
    special_ids = x.special_ids
    tokens = [None if i in special_ids else x.id_to_byte_piece(i) for i in range(x.n_words)]
    special = {x.id_to_piece(i): i for i in sorted(special_ids)}
    return TokenTable(tokens, special, (int(x.eos_id),), tekken_encoder(lambda: x))


def tekken_encoder(load: Any) -> Encoder:
    return PlainEncoder(load, lambda t, text: t.encode(text, bos=False, eos=False))
