"""Vocabularies stored as a list of pieces with types: GGUF metadata and SentencePiece ``tokenizer.model`` files.

Both use SentencePiece's piece types; GGUF also stores byte-level BPE this way.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from structgen.errors import ModelError
from structgen.grammars.gguf_metadata import read_gguf_metadata
from structgen.grammars.token_bytes import LETTER_BYTES, byte_level_bytes, token_decoder


class PieceType(IntEnum):
    """SentencePiece's ``ModelProto.SentencePiece.Type``, which GGUF took over."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class PieceModel:
    """One vocabulary as pieces; the id of a piece is its place.

    Attributes:
        kind: ``bytelevel`` (BPE in GPT-2's byte letters, with ``merges``), ``bpe`` or ``unigram`` (SentencePiece,
            with ``scores``).
        types: one PieceType a piece.
        pre: the name of the pre-tokenizer (byte-level GGUF files).
        stop_ids: every id that ends a generation (end of text, of turn, of message).
        adds_prefix: a space is put before a text (SentencePiece).
        squeezes_spaces: runs of spaces become one (SentencePiece's remove_extra_whitespaces).
        charsmap: SentencePiece's compiled normalisation, empty for none.
        merges_by_place: earlier pieces merge first, whatever their score (Gemma).
    """

    source: str
    kind: Literal["bytelevel", "bpe", "unigram"]
    pieces: Sequence[str]
    types: Sequence[int]
    scores: Sequence[float] = ()
    merges: Sequence[str] = ()
    pre: str = ""
    unk_id: int | None = None
    bos_id: int | None = None
    stop_ids: tuple[int, ...] = ()
    add_bos: bool = False
    add_eos: bool = False
    adds_prefix: bool = False
    squeezes_spaces: bool = False
    charsmap: bytes = b""
    merges_by_place: bool = False
    chat_template: str | None = field(default=None, repr=False)

    def token_bytes(self) -> list[bytes | None]:
        """The bytes of each id in the middle of a text; None for control, unknown and unused pieces."""
        if self.kind == "bytelevel":
            spelled = byte_level_bytes(self.pieces)
            own: list[bytes | None] = [
                piece.encode("utf-8", "surrogateescape") if kind == PieceType.USER_DEFINED else data
                for piece, data, kind in zip(self.pieces, spelled, self.types, strict=True)
            ]
        else:
            own = list(_SENTENCEPIECE.decode(self.pieces))
        silent = (PieceType.UNKNOWN, PieceType.CONTROL, PieceType.UNUSED)
        return [None if kind in silent else data for data, kind in zip(own, self.types, strict=True)]

    def special(self) -> dict[str, int]:
        """Control and unknown pieces by name."""
        return {p: i for i, (p, t) in enumerate(zip(self.pieces, self.types, strict=True)) if t in (2, 3)}


_SENTENCEPIECE = token_decoder(
    {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
        ],
    }
)

# GGUF pre-tokenizers whose BPE runs on plain UTF-8 instead of byte letters.
_RAW_TEXT_PRE = frozenset({"gemma4", "granite-embed-multi-311m", "sarvam-moe", "whitespace"})
_GGUF_KINDS: Mapping[str, Literal["bytelevel", "bpe", "unigram"]] = {
    "gpt2": "bytelevel",
    "llama": "bpe",
    "t5": "unigram",
}
# Pre-tokenizers whose models put BOS before every text unless the file says otherwise (llama.cpp's rule).
_BOS_BY_DEFAULT = frozenset(
    ("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "tekken", "chameleon")
)


def read_gguf_pieces(path: str | PathLike[str]) -> PieceModel:
    """The vocabulary in a GGUF file.

    Raises:
        ModelError: not a GGUF file, no vocabulary in it, or a tokenizer kind without fixed token bytes.
    """
    return gguf_pieces(read_gguf_metadata(path), str(path))


def gguf_pieces(metadata: Mapping[str, Any], source: str = "GGUF") -> PieceModel:
    """The vocabulary in GGUF ``metadata`` (see ``read_gguf_metadata``)."""

    def get(name: str, default: Any = None) -> Any:
        return metadata.get(f"tokenizer.ggml.{name}", default)

    model, pre, pieces = get("model"), get("pre", "default"), get("tokens")
    if pieces is None:
        raise ModelError(f"{source} holds no tokenizer.ggml.tokens: take the GGUF file of the model, not an adapter's")
    if model not in _GGUF_KINDS or (model == "gpt2" and pre in _RAW_TEXT_PRE):
        raise ModelError(
            f"{source} has tokenizer model {model!r} with pre-tokenizer {pre!r}, which is not read. Allowed: "
            f"{', '.join(_GGUF_KINDS)}; or give the tokenizer.json of the same model"
        )
    kind = _GGUF_KINDS[model]
    types = [int(t) for t in get("token_type", [PieceType.NORMAL] * len(pieces))]
    if len(types) != len(pieces):
        raise ModelError(f"{source}: {len(pieces)} tokens but {len(types)} token types; the file is damaged")
    if kind == "bytelevel":
        _check_letters(source, pieces, types)
    architecture = str(metadata.get("general.architecture", ""))
    return PieceModel(
        source=source,
        kind=kind,
        pieces=pieces,
        types=types,
        scores=[float(s) for s in get("scores", [])],
        merges=get("merges", []),
        pre=pre,
        unk_id=get("unknown_token_id", 0 if kind == "bpe" else 2 if kind == "unigram" else None),
        bos_id=get("bos_token_id"),
        stop_ids=_stop_ids(get, pieces, types),
        add_bos=bool(get("add_bos_token", kind == "bpe" or (kind == "bytelevel" and pre in _BOS_BY_DEFAULT))),
        add_eos=bool(get("add_eos_token", kind == "unigram")),
        adds_prefix=kind != "bytelevel" and bool(get("add_space_prefix", True)),
        squeezes_spaces=bool(get("remove_extra_whitespaces", False)),
        charsmap=bytes(get("precompiled_charsmap", b"")),
        merges_by_place=kind == "bpe" and architecture.startswith("gemma"),
        chat_template=metadata.get("tokenizer.chat_template"),
    )


# Control tokens that end a turn, for files that do not say which does (llama.cpp goes by such names too).
_TURN_ENDS = ("<|eot_id|>", "<|im_end|>", "<end_of_turn>", "<|end_of_turn|>", "<|end|>", "<|eom_id|>")


def _stop_ids(get: Callable[[str], Any], pieces: Sequence[str], types: Sequence[int]) -> tuple[int, ...]:
    """The ids of the end of text, of a turn and of a message."""
    stops = [int(i) for name in ("eos_token_id", "eot_token_id", "eom_token_id") if (i := get(name)) is not None]
    if get("eot_token_id") is None:
        # Where there is a <|return|>, <|end|> only parts the channels of one answer (gpt-oss).
        names = {name for name in _TURN_ENDS if name != "<|end|>" or "<|return|>" not in pieces}
        stops += [i for i, piece in enumerate(pieces) if piece in names and types[i] == PieceType.CONTROL]
    return tuple(dict.fromkeys(stops))


def _check_letters(source: str, pieces: Sequence[str], types: Sequence[int]) -> None:
    """Most pieces of a byte-level vocabulary must be spelled in byte letters; anything else is another scheme."""
    normal = [piece for piece, kind in zip(pieces, types, strict=True) if kind == PieceType.NORMAL]
    outside = sum(any(letter not in LETTER_BYTES for letter in piece) for piece in normal)
    if outside * 10 > len(normal):
        raise ModelError(
            f"{source}: {outside} of {len(normal)} tokens are not spelled in GPT-2's byte letters, so their bytes are "
            "not known. Give the tokenizer.json of the same model"
        )


def read_sentencepiece(path: str | PathLike[str]) -> PieceModel:
    """The vocabulary in a SentencePiece ``tokenizer.model`` (protobuf ``ModelProto``).

    Raises:
        ModelError: not such a file.
    """
    data = Path(path).read_bytes()
    try:
        return _sentencepiece_pieces(data, str(path))
    except (IndexError, struct.error, UnicodeDecodeError, KeyError) as error:
        raise ModelError(
            f"{path} is not a SentencePiece model. Allowed: tokenizer.json, tekken.json, a SentencePiece "
            "tokenizer.model, a GGUF file; a tiktoken rank file needs its Encoding object"
        ) from error


def _sentencepiece_pieces(data: bytes, source: str) -> PieceModel:
    pieces: list[str] = []
    scores: list[float] = []
    types: list[int] = []
    trainer: dict[int, Any] = {}
    normalizer: dict[int, Any] = {}
    for number, value in _fields(data):
        if number == 1:  # SentencePiece {piece = 1, score = 2, type = 3}
            piece = dict(_fields(value))
            pieces.append(piece[1].decode("utf-8"))
            scores.append(struct.unpack("<f", piece[2])[0] if 2 in piece else 0.0)
            types.append(piece.get(3, PieceType.NORMAL))
        elif number == 2:  # TrainerSpec
            trainer = dict(_fields(value))
        elif number == 3:  # NormalizerSpec
            normalizer = dict(_fields(value))
    if not pieces:
        raise KeyError("no pieces")
    model_type = trainer.get(3, 1)
    if model_type not in (1, 2):
        raise ModelError(f"{source}: SentencePiece model type {model_type} is not read. Allowed: 1 (unigram), 2 (BPE)")
    eos = _signed(trainer.get(42, 2))
    bos = _signed(trainer.get(41, 1))
    return PieceModel(
        source=source,
        kind="unigram" if model_type == 1 else "bpe",
        pieces=pieces,
        types=types,
        scores=scores,
        unk_id=_signed(trainer.get(40, 0)),
        bos_id=bos if bos >= 0 else None,
        stop_ids=(eos,) if eos >= 0 else (),
        add_bos=model_type == 2 and bos >= 0,
        add_eos=model_type == 1 and eos >= 0,
        adds_prefix=bool(normalizer.get(3, 1)),
        squeezes_spaces=bool(normalizer.get(4, 1)),
        charsmap=normalizer.get(2, b""),
    )


def _signed(value: int) -> int:
    """Protobuf writes a negative int32 as a 64-bit two's complement."""
    return value - (1 << 64) if value >= 1 << 63 else value


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """(field number, value) of a protobuf message: int for varints, bytes for the rest.
    https://protobuf.dev/programming-guides/encoding"""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire == 2:
            size, at = _varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise KeyError(f"wire type {wire}")
        if at + size > len(data):
            raise IndexError
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise IndexError
