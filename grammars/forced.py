"""What must come next, as bytes and as the tokens that the tokenizer writes for them.

A grammar forces bytes far more often than it forces a token: after ``{"na`` only ``me":`` can follow, but in many
tokens. The model has learnt one way to write them, its tokenizer's. Tokens are forced only where that way does not
depend on what comes later (the boundary rule): ``": `` may still become ``": "`` when a text follows.

The rule rests on a property of BPE (van Antwerpen and Neubeck, "So many tokens, so little time", 2024; Berglund and van
der Merwe, "Formalizing BPE tokenization", 2023): the first k tokens of an encoding are the encoding of what they spell.
So if the token that reaches past the end of the known text begins at byte p, the tokens before it are
``encode(text[:p])``, and what all possible p have in common is certain. A p is possible when some token begins with
``text[p:]`` and goes on with a byte that the grammar allows. Text is cut into words before BPE, by rules that look at
characters ahead; a sample of continuations of each class of characters is tried for these.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from structgen.errors import RequestError
from structgen.grammars import machine as m
from structgen.grammars.residual import Checked, FreshKey, Recorded, State

if TYPE_CHECKING:
    from structgen.grammars.machine import Thread
    from structgen.grammars.trie import Trie
    from structgen.grammars.vocabulary import Vocabulary

ANY_BYTE = (1 << 256) - 1
LIMIT = 1024  # forced bytes that are looked for
CONTEXT_BYTES = 128  # of the text before that are looked at to begin with, and
MOST_CONTEXT_BYTES = 4096  # at most
_MARGIN_BYTES = 32  # that words and merges do not reach across
_BETWEEN_WORDS = re.compile(rb"(?<=[A-Za-z]) (?=[A-Za-z])")
# One of each class that tokenizers tell apart, and pairs that are cut differently from their first character. Longer
# tokens of the same class are found in the trie.
_SAMPLES = ("a", "A", "é", "中", "\u0301", "1", " ", "  ", " a", "\n", "\t", "'s", ".", "/", "😀")
_COMPOSED = ("\u3099", "\u1161")  # with what no ASCII text ends in


def next_bytes(threads: Sequence[Thread]) -> int:
    """The bytes that may come next: bit b is set when byte b may."""
    found = 0
    queue = list(threads)
    while queue:
        thread = queue.pop()
        queue.extend(m.ended(thread))
        inner = thread.residual
        while isinstance(inner, (FreshKey, Recorded, Checked)):
            inner = inner.inner
        assert isinstance(inner, State)
        for byte, mask in inner.expr.classes():
            if inner.advance(byte) is not None:
                found |= mask
    return found


def forced_bytes(threads: Sequence[Thread], limit: int) -> tuple[bytes, int]:
    """The bytes that must come next, up to the first choice, possible end, or ``limit``, and (as bits) which bytes may
    follow them."""
    found = bytearray()
    while threads:
        choices = next_bytes(threads)
        if len(found) >= limit or m.can_end(threads) or choices & (choices - 1):
            return bytes(found), choices
        byte = choices.bit_length() - 1
        threads = m.read(threads, bytes([byte])) if choices else ()
        if threads:
            found.append(byte)
    return bytes(found), 0


def forced_tokens(vocab: Vocabulary, trie: Trie, before: bytes, forced: bytes, follows: int) -> list[int]:
    """The tokens that the tokenizer writes for ``forced``, as many as it writes whatever comes after.

    Args:
        trie: of all tokens of ``vocab``.
        before: the end of the text so far, from a place where words part, or all of it.
        forced: the bytes that must come next.
        follows: the bytes that may come after them, as bits.

    Returns:
        Ids; none when the tokenizer would join the first forced byte with the text before, or when its tokens depend on
        all of a text (Unigram).
    """
    if not vocab.tokens_are_local:
        return []
    whole = before + forced
    data = _whole_characters(whole)
    if len(data) < len(whole):
        follows = 1 << whole[len(data)]
    certain = _encode(vocab, data)
    if not certain or vocab.decode(certain) != data:  # it cannot be written, or is written in another form
        return []
    for other in _possible(vocab, trie, data, follows):
        same = next((i for i, (a, b) in enumerate(zip(certain, other, strict=False)) if a != b), None)
        certain = certain[: len(other) if same is None else same]
    reached = 0
    for count, token in enumerate(certain):
        if reached == len(before):
            return certain[count:]
        reached += len(vocab.tokens[token] or b"")
        if reached > len(before):
            break
    return []


def _possible(vocab: Vocabulary, trie: Trie, data: bytes, follows: int) -> Iterator[list[int]]:
    """Encodings of ``data`` with something behind it, or of that of its beginnings which is certain then."""
    for start in range(len(data) - 1, max(len(data) - trie.shared.longest, 0) - 1, -1):
        if _goes_on(trie, data[start:], follows):
            known = _whole_characters(data[:start])
            tokens = _encode(vocab, known) or []
            # A token that begins inside a character: where the one before it begins is not known.
            yield tokens if len(known) == start else tokens[:-2]
    for sample in _SAMPLES if data[-1] < 0x80 else (*_SAMPLES, *_COMPOSED):
        whole = _encode(vocab, data + sample.encode()) if follows >> sample.encode()[0] & 1 else None
        if whole is not None:  # else the tokenizer cannot write it, so it cannot follow
            yield whole


def _goes_on(trie: Trie, data: bytes, follows: int) -> bool:
    """Whether a token begins with ``data`` and goes on with a byte of ``follows``."""
    node = trie.root
    for byte in data:
        node = trie.child(node, byte)
        if node < 0:
            return False
    starts, _, below = trie.kids
    return any(follows >> byte & 1 for byte in below[starts[node] : starts[node + 1]].tolist())


def _encode(vocab: Vocabulary, data: bytes) -> list[int] | None:
    try:
        return vocab.encode(data.decode())
    except (RequestError, UnicodeDecodeError):
        return None


def _whole_characters(data: bytes) -> bytes:
    """``data`` without the beginning of a character at its end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            wanted = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if wanted > back else data
        if byte < 0x80:
            break
    return data


def context(pieces: Iterator[bytes]) -> bytes | None:
    """The end of a text, from a place where words part, or all of it; None when no such place is near.

    Args:
        pieces: the text, last piece first.
    """
    parts: list[bytes] = []
    size = 0
    wanted = CONTEXT_BYTES
    for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size < wanted:
            continue
        text = b"".join(reversed(parts))
        cuts = [found.start() for found in _BETWEEN_WORDS.finditer(text, 0, size - _MARGIN_BYTES)]
        if cuts:
            return text[cuts[-1] :]
        if size >= MOST_CONTEXT_BYTES:
            return None
        wanted = 2 * size
    return b"".join(reversed(parts))
