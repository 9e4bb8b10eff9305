"""The bytes of a token, from how a tokenizer spells it.

A tokenizer's vocabulary spells tokens in an alphabet of its own: GPT-2's byte letters, SentencePiece's ``▁`` and
``<0x0A>``. Its *decoder* (a pipeline in tokenizer.json) says how to read the spelling. What is wanted here is the
bytes that a token adds **in the middle of a text**: steps that only touch the edges of a whole text (the space that
Llama-2 drops at the start) add nothing to a token, and decoders that look at neighbours (WordPiece, CTC) give a
token no bytes of its own, so they are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from structgen.errors import ModelError

# A spelling on its way through the pipeline: still text, or bytes that are not text by themselves.
Piece = str | bytes
Step = Callable[[Sequence[Piece]], list[Piece]]

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_NO_FIXED_BYTES = (
    "so a token has no bytes of its own and cannot be constrained. Allowed: byte-level BPE (ByteLevel), "
    "SentencePiece style (Metaspace, or Replace + ByteFallback + Fuse), or the tokens themselves as list[bytes | None]"
)


def _byte_letters() -> dict[int, str]:
    """GPT-2's alphabet: byte -> the character that stands for it. Printable Latin-1 stands for itself, the other
    68 bytes take U+0100 and up, in order (Radford et al., "Language Models are Unsupervised Multitask Learners")."""
    letters = {b: chr(b) for b in (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))}
    others = [b for b in range(256) if b not in letters]
    letters.update((b, chr(0x100 + i)) for i, b in enumerate(others))
    return letters


BYTE_LETTERS: Mapping[int, str] = _byte_letters()
LETTER_BYTES: Mapping[str, int] = {letter: byte for byte, letter in BYTE_LETTERS.items()}
# Code point -> byte, 0xFFFF for characters outside the alphabet; the last entry stands for all higher ones.
_LETTER_TABLE = np.full(0x145, 0xFFFF, dtype=np.uint16)
for _letter, _byte in LETTER_BYTES.items():
    _LETTER_TABLE[ord(_letter)] = _byte


def byte_level_bytes(spellings: Sequence[str]) -> list[bytes]:
    """Each byte-level spelling as bytes; a spelling with a character outside the alphabet stands for its own UTF-8
    (what the ``tokenizers`` library does)."""
    text = "".join(spellings)
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    values = _LETTER_TABLE[np.minimum(points, len(_LETTER_TABLE) - 1)]
    data = (values & 0xFF).astype(np.uint8).tobytes()
    ends = np.cumsum(np.fromiter(map(len, spellings), dtype=np.int64, count=len(spellings)))
    bounds = [0, *ends.tolist()]
    result = [data[a:b] for a, b in pairwise(bounds)]
    outside = np.flatnonzero(values == 0xFFFF)
    for index in set(np.searchsorted(ends, outside, side="right").tolist()):
        result[index] = spellings[index].encode("utf-8", "surrogatepass")
    return result


class TokenDecoder(NamedTuple):
    """How one tokenizer's spellings become bytes.

    Attributes:
        decode: all spellings at once, in the middle of a text.
        is_byte_level: spelled in GPT-2's byte letters.
        strips_leading_space: the tokenizer's own decode drops a space at the very start of a text.
    """

    decode: Callable[[Sequence[str]], list[bytes]]
    is_byte_level: bool = False
    strips_leading_space: bool = False


def token_decoder(decoder: Any, pre_tokenizer: Any = None) -> TokenDecoder:
    """Read the ``decoder`` of a tokenizer.json (already parsed). Without one, a ByteLevel or Metaspace
    ``pre_tokenizer`` tells the alphabet.

    Raises:
        ModelError: a decoder whose tokens have no bytes of their own, or an unknown one.
    """
    if decoder is None:
        decoder = _alphabet_of(pre_tokenizer)
    steps = _flat(decoder, "decoders")
    if [step["type"] for step in steps] == ["ByteLevel"]:
        return TokenDecoder(byte_level_bytes, is_byte_level=True)
    reader = _Pipeline()
    for step in steps:
        reader.add(step)
    return TokenDecoder(reader.decode, reader.is_byte_level, reader.strips_leading_space)


def _flat(node: Any, inner: str) -> list[dict[str, Any]]:
    """The steps of a decoder or pre-tokenizer; sequences may be nested."""
    if node is None:
        return []
    if not isinstance(node, dict) or "type" not in node:
        raise ModelError(f"a decoder must be an object with a type, not {node!r}")
    if node["type"] == "Sequence":
        return [step for part in node.get(inner, []) for step in _flat(part, inner)]
    return [node]


def _alphabet_of(pre_tokenizer: Any) -> dict[str, Any]:
    for step in _flat(pre_tokenizer, "pretokenizers"):
        if step["type"] in ("ByteLevel", "Metaspace"):
            return step
    raise ModelError(f"the tokenizer has no decoder: whole words would be joined by spaces, {_NO_FIXED_BYTES}")


class _Pipeline:
    """Decoder steps, each as a function on one token."""

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._is_fused = False
        self.is_byte_level = False
        self.strips_leading_space = False

    def decode(self, spellings: Sequence[str]) -> list[bytes]:
        pieces: Sequence[Piece] = spellings
        for step in self._steps:  # each over the whole vocabulary: a quarter of the time of token by token
            pieces = step(pieces)
        return [p if isinstance(p, bytes) else p.encode("utf-8", "surrogatepass") for p in pieces]

    def add(self, step: dict[str, Any]) -> None:
        kind = step["type"]
        add = getattr(self, f"_add_{kind.lower()}", None)
        if add is None:
            raise ModelError(f"decoder {kind!r} looks at neighbouring tokens or is unknown, {_NO_FIXED_BYTES}")
        if self.is_byte_level and kind != "Fuse":
            raise ModelError(f"decoder {kind!r} after ByteLevel would change bytes across tokens, {_NO_FIXED_BYTES}")
        add(step)

    def _add_bytelevel(self, step: dict[str, Any]) -> None:
        self.is_byte_level = True
        self._steps.append(_byte_level)

    def _add_bytefallback(self, step: dict[str, Any]) -> None:
        self._steps.append(_byte_fallback)

    def _add_fuse(self, step: dict[str, Any]) -> None:
        self._is_fused = True

    def _add_replace(self, step: dict[str, Any]) -> None:
        pattern = step["pattern"].get("String") if isinstance(step["pattern"], dict) else step["pattern"]
        if pattern is None:
            raise ModelError(f"decoder Replace with a regex ({step['pattern']}) is not read, {_NO_FIXED_BYTES}")
        if self._is_fused and len(pattern) > 1:
            raise ModelError(f"decoder Replace of {pattern!r} after Fuse reaches across tokens, {_NO_FIXED_BYTES}")
        content = step["content"]
        self._steps.append(partial(_replace, pattern, content))

    def _add_strip(self, step: dict[str, Any]) -> None:
        char, start, stop = step["content"], step.get("start", 0), step.get("stop", 0)
        if not self._is_fused:
            self._steps.append(lambda pieces: [_strip(piece, char, start, stop) for piece in pieces])
            return
        if stop:
            raise ModelError(f"decoder Strip of {char!r} at the end of the text, {_NO_FIXED_BYTES}")
        if start and char == " ":
            self.strips_leading_space = True
        elif start:
            raise ModelError(f"decoder Strip of {char!r} at the start of the text, {_NO_FIXED_BYTES}")

    def _add_metaspace(self, step: dict[str, Any]) -> None:
        mark = step.get("replacement", "▁")
        scheme = step.get("prepend_scheme") or ("always" if step.get("add_prefix_space", True) else "never")
        self.strips_leading_space |= scheme != "never"
        self._steps.append(partial(_replace, mark, " "))


def _byte_level(pieces: Sequence[Piece]) -> list[Piece]:
    texts = byte_level_bytes([piece if isinstance(piece, str) else "" for piece in pieces])
    return [piece if isinstance(piece, bytes) else data for piece, data in zip(pieces, texts, strict=True)]


def _replace(pattern: str, content: str, pieces: Sequence[Piece]) -> list[Piece]:
    return [piece.replace(pattern, content) if isinstance(piece, str) else piece for piece in pieces]


def _byte_fallback(pieces: Sequence[Piece]) -> list[Piece]:
    return [_byte_piece(piece) if len(piece) == 6 and isinstance(piece, str) else piece for piece in pieces]


def _byte_piece(piece: str) -> Piece:
    """``<0x41>`` as its byte; ASCII stays text, since later steps see it as such."""
    match = _BYTE_PIECE.fullmatch(piece)
    if match is None:
        return piece
    value = int(match[1], 16)
    return chr(value) if value < 0x80 else bytes([value])


def _strip(piece: Piece, char: str, start: int, stop: int) -> Piece:
    """Up to ``start`` leading and ``stop`` trailing ``char`` taken off."""
    if not isinstance(piece, str):
        return piece
    lead = 0
    while lead < min(start, len(piece)) and piece[lead] == char:
        lead += 1
    end = len(piece)
    while end > lead and len(piece) - end < stop and piece[end - 1] == char:
        end -= 1
    return piece[lead:end]
