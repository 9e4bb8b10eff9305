"""``Vocabulary``: what each token id of a model means in bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from operator import index
from typing import Any, SupportsIndex

from structgen.errors import ModelError
from structgen.grammars.token_sources import TokenTable, digest_of, read_tokens


class Vocabulary:
    """The tokens of one model: id -> bytes. Immutable; equal vocabularies have equal fingerprints.

    Special tokens and end-of-text ids have no bytes: they are symbols beside the text, also when the text spells
    their name. Several ids may have the same bytes. The bytes are what a token adds in the middle of a text; where
    the tokenizer drops a space at the very start of a text (Llama-2), ``strips_leading_space`` says so.

    Attributes:
        size: how many ids there are: the width of the logits.
        tokens: bytes of each id, None for an id without bytes (special, unused, padding).
        eos_token_ids: every id that ends a generation, ascending; () when the tokenizer names none.
        special: names of special tokens -> id.
        strips_leading_space: the tokenizer's own ``decode`` drops one space at the start of a text.

    Example:
        >>> v = Vocabulary.from_tokenizer([b"a", b"b", None], eos_token_ids=2)
        >>> v.decode([0, 1, 2])
        b'ab'
    """

    size: int
    tokens: tuple[bytes | None, ...]
    eos_token_ids: tuple[int, ...]
    special: dict[str, int]
    strips_leading_space: bool

    def __init__(self, table: TokenTable, *, eos_token_ids: tuple[int, ...], size: int) -> None:
        """Use ``from_tokenizer``. ``table.tokens`` must hold no bytes at or past ``size``."""
        tokens = [data if data else None for data in table.tokens[:size]]
        tokens += [None] * (size - len(tokens))
        digest = table.digest if size == len(table.tokens) else None
        for token_id in eos_token_ids:
            if tokens[token_id] is not None:
                tokens[token_id] = digest = None
        self.__dict__.update(
            size=size,
            tokens=tuple(tokens),
            eos_token_ids=eos_token_ids,
            special={name: i for name, i in table.special.items() if i < size},
            strips_leading_space=table.strips_leading_space,
            _encoder=table.encoder,
            _digest=digest,
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Vocabulary is immutable; {name!r} cannot be set")

    def __getstate__(self) -> dict[str, Any]:
        """Without the compiled grammars that it holds (see ``Grammar.compile``)."""
        return {name: value for name, value in self.__dict__.items() if name != "_recent"}

    @classmethod
    def from_tokenizer(
        cls, x: Any, *, eos_token_ids: Iterable[int] | int | None = None, size: int | None = None
    ) -> Vocabulary:
        """The vocabulary of tokenizer ``x``.

        Args:
            x: the path of a tokenizer.json, tekken.json, SentencePiece tokenizer.model or GGUF file, or of a folder
                holding one; a transformers tokenizer; a ``tokenizers.Tokenizer``; a tiktoken ``Encoding``; a
                mistral-common tokenizer; or the tokens as ``list[bytes | None]``.
            eos_token_ids: the ids that end a generation. Without it: generation_config.json (else config.json)
                beside a path together with the tokenizer's own end token; the object's end token; the GGUF's
                end-of-text, -turn and -message ids. A list of bytes, or a tokenizer that names none, has none: then
                nothing ends a generation but a limit.
            size: width of the model's logits, where that is more than the tokenizer's ids (padding has no bytes).
                It may cut ids without bytes off the end, never ids with bytes.

        Raises:
            ModelError: nothing there, not a tokenizer, tokens without bytes of their own (WordPiece), a wrong size or
                end id.
        """
        if isinstance(x, Vocabulary):
            return x._resized(eos_token_ids, size)
        table = read_tokens(x)
        width = _width(table, size)
        stops = table.eos_token_ids if eos_token_ids is None else _ids(eos_token_ids)
        if eos_token_ids is None and size is not None:
            stops = tuple(i for i in stops if i < size)
        for token_id in stops:
            if not 0 <= token_id < width:
                raise ModelError(f"end id {token_id} is not in the vocabulary: its ids are 0 to {width - 1}")
        return cls(table, eos_token_ids=tuple(sorted(set(stops))), size=width)

    def _resized(self, eos_token_ids: Iterable[int] | int | None, size: int | None) -> Vocabulary:
        """This vocabulary with another width or other end ids (old end ids stay without bytes)."""
        if size in (None, self.size) and eos_token_ids is None:
            return self
        table = TokenTable(
            tokens=self.tokens,
            special=self.special,
            eos_token_ids=self.eos_token_ids,
            encoder=self.__dict__["_encoder"],
            strips_leading_space=self.strips_leading_space,
        )
        stops = self.eos_token_ids if eos_token_ids is None else _ids(eos_token_ids)
        width = _width(table, size)
        stops = tuple(i for i in stops if i < width) if eos_token_ids is None else stops
        for token_id in stops:
            if not 0 <= token_id < width:
                raise ModelError(f"end id {token_id} is not in the vocabulary: its ids are 0 to {width - 1}")
        return Vocabulary(table, eos_token_ids=tuple(sorted(set(stops))), size=width)

    @property
    def tokenizer(self) -> Any:
        """The object that cuts text into tokens; loaded at first use from a path, None for a list of bytes."""
        encoder = self.__dict__["_encoder"]
        return None if encoder is None else encoder.tokenizer

    @property
    def can_encode(self) -> bool:
        """Whether ``encode`` can be used (a list of bytes has nothing to cut text with)."""
        return self.__dict__["_encoder"] is not None

    @property
    def tokens_are_local(self) -> bool:
        """Whether the tokens of a text change only near its end when the text goes on (BPE)."""
        encoder = self.__dict__["_encoder"]
        return encoder is not None and encoder.is_local

    def encode(self, text: str) -> list[int]:
        """The ids that the tokenizer cuts ``text`` into, as if in the middle of a longer text: no special tokens, no
        space put before it, and names of special tokens in ``text`` are plain text. So ``decode`` gives the text's
        bytes back, save where the tokenizer normalises text (Qwen composes it to NFC).

        Raises:
            ModelError: this vocabulary has no tokenizer.
            RequestError: the text cannot be written in these tokens, or holds half a surrogate pair.
        """
        encoder = self.__dict__["_encoder"]
        if encoder is None:
            raise ModelError(
                "this Vocabulary was made from a list of bytes and cannot encode text. Make it from a tokenizer: "
                "Vocabulary.from_tokenizer(path or object)"
            )
        ids: list[int] = encoder.encode(text, self.tokens)
        return ids

    def decode(self, ids: Iterable[int]) -> bytes:
        """The joined bytes of ``ids``; ids without bytes add nothing.

        Raises:
            ModelError: an id outside the vocabulary.
        """
        return b"".join([self.tokens[self._checked(i)] or b"" for i in ids])

    def _checked(self, token_id: int) -> int:
        if not 0 <= token_id < self.size:
            raise ModelError(f"token id {token_id} is not in the vocabulary: its ids are 0 to {self.size - 1}")
        return token_id

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything that masks depend on: bytes of the ids, end ids and special names."""
        digest = hashlib.blake2b(self.__dict__["_digest"] or digest_of(self.tokens), digest_size=16)
        digest.update(repr((self.eos_token_ids, sorted(self.special.items()))).encode())
        return digest.hexdigest()

    def __len__(self) -> int:
        return self.size

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return self is other or self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        with_bytes = sum(data is not None for data in self.tokens)
        return f"Vocabulary(size={self.size}, with_bytes={with_bytes}, eos_token_ids={self.eos_token_ids})"


def _ids(value: Iterable[int] | int) -> tuple[int, ...]:
    try:
        return (index(value),) if isinstance(value, SupportsIndex) else tuple(index(i) for i in value)
    except TypeError:
        raise ModelError(f"eos_token_ids={value!r}: give an id, or the ids as a list of integers") from None


def _width(table: TokenTable, size: int | None) -> int:
    """``size``, or as many ids as there are tokens. Ids without bytes may be cut off: some models' logits are
    narrower than their tokenizers (Gemma-3's image token)."""
    if size is None:
        return len(table.tokens)
    last = _last_with_bytes(table.tokens)
    if size <= last or size < 1:
        raise ModelError(
            f"size={size} is smaller than the vocabulary: id {last} has bytes. Give the width of the model's logits "
            f"(at least {last + 1})"
        )
    return size


def _last_with_bytes(tokens: Sequence[bytes | None]) -> int:
    return next((i for i in range(len(tokens) - 1, -1, -1) if tokens[i]), -1)
