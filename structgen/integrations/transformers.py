"""A grammar inside ``transformers``' ``generate``.

vocabulary = Vocabulary.from_tokenizer(tokenizer, size=model.config.vocab_size)
processor = GrammarLogitsProcessor(grammar.compile(vocabulary))
model.generate(**inputs, logits_processor=[processor])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import LogitsProcessor

from structgen.errors import RequestError

if TYPE_CHECKING:
    from structgen.grammars.matcher import CompiledGrammar, Matcher


class GrammarLogitsProcessor(LogitsProcessor):
    """Keeps every row of a ``generate`` call inside a grammar; works with sampling, beams and several return sequences.

    One processor serves one ``generate`` call at a time; the next call starts anew. The end token is allowed exactly
    where the grammar may end. A text cut by ``max_new_tokens`` may be incomplete: see ``complete``.

    Args:
        compiled: ``Grammar.compile(vocabulary)``, with ``vocabulary.size`` the width of the model's logits.
    """

    def __init__(self, compiled: CompiledGrammar) -> None:
        self.compiled = compiled
        self._rows: dict[tuple[int, ...], Matcher] = {}
        self._order: list[Matcher] = []
        self._length = 0
        self._start = 0

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Scores with minus infinity for each token that the grammar forbids.

        Args:
            input_ids: ``(rows, tokens so far)``, int64.
            scores: ``(rows, vocabulary)``, float.
        """
        ids = [tuple(row) for row in input_ids.tolist()]
        self._order = self._matchers(ids)
        self._rows = dict(zip(ids, self._order, strict=True))
        self._length = len(ids[0])
        allowed = self._allowed(scores.shape[-1]).to(scores.device)
        return scores.masked_fill(~allowed, float("-inf"))

    @property
    def complete(self) -> list[bool]:
        """For each row at the last step: whether its text could end there."""
        return [matcher.is_finished or matcher.can_end() for matcher in self._order]

    def _matchers(self, ids: list[tuple[int, ...]]) -> list[Matcher]:
        """One matcher a row. Beams reorder rows, so a row is found by its tokens, and forked when shared."""
        length = self._length
        if not (self._rows and len(ids[0]) > length and all(row[:length] in self._rows for row in ids)):
            self._start = len(ids[0])
            return [self.compiled.matcher() for _ in ids]
        made = []
        for row in ids:
            matcher = self._rows[row[:length]].fork()
            for token in row[length:]:
                if matcher.is_finished:  # generate fills finished rows up with padding
                    break
                if not matcher.accept(token):
                    raise RequestError(
                        f"token {token} at position {len(row) - 1 - self._start} of the output is not allowed by the "
                        "grammar: another logits processor, forced tokens or an end token that the vocabulary does not "
                        f"know (it has {self.compiled.vocab.eos_token_ids}) chose it"
                    )
            made.append(matcher)
        return made

    def _allowed(self, width: int) -> torch.Tensor:
        size = self.compiled.vocab.size
        if width < size:
            raise RequestError(f"the model has {width} logits, the vocabulary {size} ids; they do not belong together")
        words: Any = np.zeros((len(self._order), (size + 31) // 32), dtype=np.int32)
        for row, matcher in zip(words, self._order, strict=True):
            if matcher.is_finished:
                row[:] = -1
            else:
                matcher.fill_bitmask(row)
        bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, :size]
        allowed = np.zeros((len(bits), width), dtype=bool)
        allowed[:, :size] = bits
        return torch.from_numpy(allowed)
