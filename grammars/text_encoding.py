"""Text -> token ids in the middle of a text, with each library's tokenizer."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

from structgen.errors import RequestError


class Encoder(Protocol):
    """Cuts text into token ids."""

    @property
    def tokenizer(self) -> Any:
        """The library's object; loaded at first use."""

    @property
    def is_local(self) -> bool:
        """Whether later text changes only the tokens at its edge: BPE, but not Unigram, which weighs whole texts."""

    def encode(self, text: str, tokens: Sequence[bytes | None]) -> list[int]:
        """Ids whose bytes in ``tokens`` make up ``text``: no special tokens, no space put before it."""


def check_text(text: str) -> str:
    """``text`` if it can be written in UTF-8.

    Raises:
        RequestError: it holds a lone surrogate.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise RequestError(
            f"the text holds half a surrogate pair ({text[error.start]!r} at character {error.start}), which is not "
            "Unicode text; decode it with errors='replace' where it comes from"
        ) from None
    return text


class PlainEncoder:
    """A library whose call for plain text already does what is wanted."""

    def __init__(
        self, load: Callable[[], Any], encode: Callable[[Any, str], Sequence[int]], *, is_local: bool = True
    ) -> None:
        self._load = load
        self._encode = encode
        self.is_local = is_local

    @cached_property
    def tokenizer(self) -> Any:
        return self._load()

    def encode(self, text: str, tokens: Sequence[bytes | None]) -> list[int]:
        return [int(i) for i in self._encode(self.tokenizer, check_text(text))]


class TiktokenEncoder(PlainEncoder):
    """tiktoken, names of special tokens taken as text."""

    def __init__(self, load: Callable[[], Any]) -> None:
        super().__init__(load, lambda encoding, text: encoding.encode_ordinary(text))


class HuggingFaceEncoder:
    """A ``tokenizers.Tokenizer``."""

    def __init__(self, load: Callable[[], Any]) -> None:
        self._load = load

    @cached_property
    def tokenizer(self) -> Any:
        return self._load()

    @cached_property
    def is_local(self) -> bool:
        model = self.tokenizer.model
        return type(model).__name__ == "BPE" and not model.dropout

    @cached_property
    def _inner(self) -> Any:
        """The tokenizer, or a copy that puts no space before a text."""
        return without_prefix(self.tokenizer)

    def encode(self, text: str, tokens: Sequence[bytes | None]) -> list[int]:
        ids = self._encode(check_text(text), tokens)
        self._check_whole(text, ids, tokens)
        return ids

    def _check_whole(self, text: str, ids: Sequence[int], tokens: Sequence[bytes | None]) -> None:
        """BPE leaves out, without a word, what it has no token for: SmolLM2 has none for byte 0x13."""
        written = b"".join([tokens[i] or b"" for i in ids])
        if written == text.encode():
            return
        normalizer = self._inner.normalizer
        normal = text if normalizer is None else normalizer.normalize_str(text)
        if written in (normal.encode(), normal.replace("▁", " ").encode()):
            return
        for at, char in enumerate(text):
            if not self._inner.encode(char, add_special_tokens=False).ids:
                raise _cannot_write(text, at)
        # Nothing is left out: normalisation looks at neighbours, or special names were cut.

    def _encode(self, text: str, tokens: Sequence[bytes | None]) -> list[int]:
        """A token without bytes stands for the name of a special token in the text: cut the text inside that name, so
        that no piece holds it, and try the pieces."""
        if not text:
            return []
        found = self._inner.encode(text, add_special_tokens=False)
        ids: list[int] = found.ids
        if all(tokens[i] is not None for i in ids):
            return ids
        silent = [span for i, span in zip(ids, found.offsets, strict=True) if tokens[i] is None]
        cuts = sorted({start + 1 for start, end in silent if end - start > 1})
        if not cuts:
            raise _cannot_write(text, silent[0][0])
        bounds = [0, *cuts, len(text)]
        pieces = [text[a:b] for a, b in pairwise(bounds)]
        return [i for piece in pieces for i in self._encode(piece, tokens)]


def _cannot_write(text: str, at: int) -> RequestError:
    return RequestError(
        f"the tokenizer cannot write {text[at : at + 1]!r} (character {at} of {text[:40]!r}): it has no token for it, "
        "nor for its bytes"
    )


def without_prefix(tokenizer: Any) -> Any:
    """``tokenizer`` itself if it adds nothing before a text and cuts nothing off, else a copy that does not."""
    parts = {name: part_state(getattr(tokenizer, name)) for name in ("normalizer", "pre_tokenizer")}
    bare = {name: _without_prefix(state) for name, state in parts.items()}
    if bare == parts and tokenizer.truncation is None and tokenizer.padding is None:
        return tokenizer
    from tokenizers import Tokenizer

    # The library reads parts only as members of a whole tokenizer.
    empty = {"version": "1.0", "model": {"type": "BPE", "vocab": {}, "merges": []}}
    shell = Tokenizer.from_str(json.dumps(empty | bare))
    copy = Tokenizer.from_str(tokenizer.to_str())
    copy.normalizer, copy.pre_tokenizer = shell.normalizer, shell.pre_tokenizer
    copy.no_truncation()
    copy.no_padding()
    return copy


def part_state(part: Any) -> Any:
    """A part of a ``tokenizers.Tokenizer`` (decoder, normaliser, ...) as in tokenizer.json."""
    return None if part is None else json.loads(part.__getstate__())


def _without_prefix(node: Any) -> Any:
    """A normaliser or pre-tokenizer without the steps that put something before a text."""
    if not isinstance(node, dict):
        return node
    kind = node["type"]
    if kind == "Prepend":
        return None
    if kind == "Metaspace":
        return node | {"prepend_scheme": "never"} if node.get("prepend_scheme") != "never" else node
    if kind == "ByteLevel":
        return node | {"add_prefix_space": False}
    if kind == "Sequence":
        name = "normalizers" if "normalizers" in node else "pretokenizers"
        kept = [_without_prefix(part) for part in node[name]]
        return node | {name: [part for part in kept if part is not None]}
    return node
