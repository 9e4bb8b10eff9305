"""Vocabularies in files: tokenizer.json, tekken.json, SentencePiece models, GGUF, and the folders that hold them."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from structgen.errors import ModelError
from structgen.grammars import disk_store, token_sources, token_store
from structgen.grammars.gguf_metadata import MAGIC
from structgen.grammars.piece_model import PieceModel, read_gguf_pieces, read_sentencepiece
from structgen.grammars.piece_tokenizer import build_tokenizer
from structgen.grammars.text_encoding import HuggingFaceEncoder
from structgen.grammars.token_bytes import token_decoder
from structgen.grammars.token_sources import Added, TokenTable, table_of

NAMES = ("tokenizer.json", "tekken.json", "tokenizer.model")
_TOKENIZER_CONFIG = "tokenizer_config.json"
_CONFIGS = ("generation_config.json", "config.json")


def read_path(path: str | os.PathLike[str]) -> TokenTable:
    """The vocabulary in a file, or in the folder that holds one.

    Raises:
        ModelError: nothing there, or not a tokenizer.
    """
    file = tokenizer_file(path)
    with open(file, "rb") as opened:
        head = opened.read(64)
    if head.startswith(MAGIC):
        return from_pieces(read_gguf_pieces(file))
    if head.lstrip()[:1] == b"{":
        return _from_json(file)
    table = from_pieces(read_sentencepiece(file))
    return _with_stops(table, config_stops(file.parent, table.special, table.eos_token_ids))


def tokenizer_file(path: str | os.PathLike[str]) -> Path:
    """The tokenizer file that ``path`` names or, if it is a folder, holds.

    Raises:
        ModelError: there is none.
    """
    place = Path(path).expanduser()
    if place.is_file():
        return place
    if not place.is_dir():
        raise ModelError(
            f"there is no file or folder {str(path)!r}. Allowed: {token_sources.ALLOWED}. A Hugging Face hub id must "
            "be fetched first"
        )
    for name in NAMES:
        if (place / name).is_file():
            return place / name
    ggufs = sorted(place.glob("*.gguf"))
    if len(ggufs) == 1:
        return ggufs[0]
    found = f"{len(ggufs)} GGUF files (name one of them)" if ggufs else "neither"
    raise ModelError(f"folder {str(path)!r} holds none of {', '.join(NAMES)} and, of GGUF files, {found}")


def read_json(file: Path) -> Any:
    """The parsed file, or None where there is none.

    Raises:
        ModelError: it is not JSON.
    """
    try:
        return json.loads(file.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ModelError(f"{file} is not valid JSON: {error}. Fetch it again.") from error


def from_pieces(model: PieceModel) -> TokenTable:
    """The vocabulary of a GGUF file or SentencePiece model as read."""
    encoder = HuggingFaceEncoder(partial(build_tokenizer, model))
    return TokenTable(model.token_bytes(), model.special(), model.stop_ids, encoder, model.adds_prefix)


def _with_stops(table: TokenTable, stops: tuple[int, ...]) -> TokenTable:
    return TokenTable(table.tokens, table.special, stops, table.encoder, table.strips_leading_space)


def _from_json(file: Path) -> TokenTable:
    beside = [_bytes_of(file.parent / name) for name in (_TOKENIZER_CONFIG, *_CONFIGS)]
    key = disk_store.key_of(disk_store.digest_of(file), *beside)
    encoder = HuggingFaceEncoder(partial(load_tokenizer_json, file))
    stored = token_store.load(key, encoder)
    if stored is not None:
        return stored
    document = _parse_without_merges(file)
    if isinstance(document, dict) and isinstance(document.get("model"), dict) and "vocab" in document["model"]:
        table = _from_tokenizer_json(document, file, encoder)
        token_store.save(key, table)
        return table
    if isinstance(document, dict) and isinstance(document.get("vocab"), list) and "config" in document:
        return _from_tekken(document, file)
    raise ModelError(
        f"{file} is JSON but neither a tokenizer.json (with model.vocab) nor a tekken.json (with config and vocab)"
    )


def _bytes_of(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""


_MERGES = re.compile(rb'(?<=[\s,{])"merges"\s*:\s*\[')
_KEY_AFTER_ARRAY = re.compile(rb'\]\s*,\s*"[a-z_]+"\s*:')
_TWO_CLOSES = re.compile(rb"\]\s*\}\s*\}\s*\Z")


def _parse_without_merges(file: Path) -> Any:
    """The parsed file. A list of merges that ends it is not parsed: it is most of the file and of the time, and only
    encoding, which has a reader of its own, needs it."""
    data = file.read_bytes()
    start, end = _MERGES.search(data), data.rfind(b"]")
    if start and _TWO_CLOSES.match(data, end) and not _KEY_AFTER_ARRAY.search(data, start.end()):
        data = data[: start.end()] + data[end:]
    try:
        return json.loads(data)
    except ValueError as error:
        raise ModelError(f"{file} is not valid JSON: {error}. Fetch it again.") from error


def _from_tokenizer_json(document: dict[str, Any], file: Path, encoder: HuggingFaceEncoder) -> TokenTable:
    model = document["model"]
    token_sources.refuse_word_pieces(model.get("type", "BPE"), model)
    decoder = token_decoder(document.get("decoder"), document.get("pre_tokenizer"))
    vocab = model["vocab"]
    unknown = model.get("unk_token")
    if isinstance(vocab, list):  # Unigram: [spelling, score] by id
        vocab = [entry[0] for entry in vocab]
        unknown_id = model.get("unk_id")
        unknown = vocab[unknown_id] if unknown_id is not None else None
    added = [Added(t["id"], t["content"], bool(t.get("special"))) for t in document.get("added_tokens") or ()]
    config = read_json(file.parent / _TOKENIZER_CONFIG) or {}
    named = [name for key in ("eos_token", "bos_token") if (name := token_name(config.get(key)))]
    tokens, special = table_of(vocab, added, decoder, unknown=unknown, special_names=named)
    own = tuple(special[name] for name in named[:1] if config.get("eos_token") and name in special)
    stops = config_stops(file.parent, special, own)
    return TokenTable(tokens, special, stops, encoder, decoder.strips_leading_space)


def load_tokenizer_json(file: Path) -> Any:
    """The ``tokenizers.Tokenizer`` in a file, without truncation or padding."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises bare Exception
        raise ModelError(f"{file} cannot be loaded by the tokenizers library: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def token_name(entry: Any) -> str | None:
    """The spelling of a token in tokenizer_config.json: a string, or an object with its content."""
    if isinstance(entry, Mapping):
        entry = entry.get("content")
    return entry if isinstance(entry, str) else None


def config_stops(folder: Path, special: Mapping[str, int], own: Iterable[int]) -> tuple[int, ...]:
    """The ids that end a generation: those of generation_config.json (else of config.json) and the tokenizer's
    ``own``. Where some of them are special tokens, those that are not are left out: a config that was never set says
    2, which is ``#`` to many tokenizers."""
    listed: list[int] = []
    for name in _CONFIGS:
        config = read_json(folder / name)
        ids = config.get("eos_token_id") if isinstance(config, dict) else None
        if ids is None and isinstance(config, dict) and isinstance(config.get("text_config"), dict):
            ids = config["text_config"].get("eos_token_id")
        if ids is not None:
            listed = [ids] if isinstance(ids, int) else [int(i) for i in ids]
            break
    stops = tuple(dict.fromkeys([*listed, *own]))
    known = set(special.values())
    return tuple(i for i in stops if i in known) or stops


def _from_tekken(document: dict[str, Any], file: Path) -> TokenTable:
    """Mistral's tekken.json: special tokens take the first ids, the byte tokens follow by rank."""
    config = document["config"]
    count = config["default_num_special_tokens"]
    named = document.get("special_tokens")
    if named is None:  # before version 7 the names are only in the library
        named = _tekkenizer(file).DEPRECATED_SPECIAL_TOKENS
    special = {f"<SPECIAL_{i}>": i for i in range(len(named), count)}
    special.update((str(getattr(t["token_str"], "value", t["token_str"])), t["rank"]) for t in named)
    kept = document["vocab"][: config["default_vocab_size"] - count]
    tokens: list[bytes | None] = [None] * count
    tokens += [base64.b64decode(entry["token_bytes"]) for entry in kept]
    stops = config_stops(file.parent, special, [special[name] for name in ("</s>",) if name in special])
    return TokenTable(tokens, special, stops, token_sources.tekken_encoder(lambda: _tekkenizer(file).from_file(file)))


def _tekkenizer(file: Path) -> Any:
    try:
        from mistral_common.tokens.tokenizers.tekken import Tekkenizer
    except ImportError as error:
        raise ModelError(f"{file} needs Mistral's own library: pip install mistral-common") from error
    return Tekkenizer
