"""Token ids -> text, a token at a time."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from structgen.grammars.vocabulary import Vocabulary

_new_decoder = codecs.getincrementaldecoder("utf-8")


class Detokenizer:
    """The text of one request as it grows.

    A token's bytes are all it needs: an unfinished character is held back until its bytes are there, so U+FFFD appears
    only for bytes that can never become a character, or at the end. What ``push`` and ``flush`` give, joined, is the
    UTF-8 decoding of the joined bytes.

    SentencePiece tokenizers put a space before a text and their ``decode`` takes it off again. A generated text goes on
    from a prompt, so its first space is part of it and is kept; ``starts_text=True`` (ids of a whole text) drops it.

    Args:
        vocabulary: the model's vocabulary.
        skip_special_tokens: leave special tokens out; otherwise their names appear.
        starts_text: the ids are those of a whole text.
    """

    def __init__(self, vocabulary: Vocabulary, *, skip_special_tokens: bool = True, starts_text: bool = False) -> None:
        self._tokens = vocabulary.tokens
        self._names = {} if skip_special_tokens else {i: name for name, i in vocabulary.special.items()}
        self._strips = starts_text and vocabulary.strips_leading_space
        self._decoder = _new_decoder("replace")
        self.reset()

    def reset(self) -> None:
        """Forget the tokens so far."""
        self._drops_space = self._strips
        self._decoder.reset()

    def push(self, token_id: int) -> str:
        """The new text that ``token_id`` completes; "" while a character is unfinished.

        Raises:
            IndexError: the id is not in the vocabulary.
        """
        data = self._tokens[token_id]
        if data is None:
            return self._special(token_id)
        if self._drops_space:
            self._drops_space = False
            data = data.removeprefix(b" ")
        return self._decoder.decode(data)

    def flush(self) -> str:
        """The end of the text: U+FFFD if a character was left unfinished."""
        return self._decoder.decode(b"", final=True)

    def _special(self, token_id: int) -> str:
        name = self._names.get(token_id)
        if name is None:
            return ""
        unfinished = self.flush()  # a name cannot stand inside a character
        return unfinished + name
