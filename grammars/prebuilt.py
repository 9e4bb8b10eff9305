"""Standard residuals: what strings of most schemas begin with, walked once for a vocabulary and then stored."""

from __future__ import annotations

from structgen.grammars import formats
from structgen.grammars.encoding import JSON_ANY
from structgen.grammars.expr import literal, rep, seq
from structgen.grammars.residual import state
from structgen.grammars.trie import Trie

FORMATS = ("date-time", "date", "time", "email", "uri", "uuid", "hostname", "ipv4")
"""Those that real schemas use most."""


def prebuild(trie: Trie) -> None:
    """Walk the standard residuals over a whole vocabulary whose store has nothing yet. Callers hold ``LOCK``."""
    if trie.stored is None or not trie.stored.is_empty:
        return
    quote = literal(b'"')
    text = seq(JSON_ANY.any_text, quote)
    char = JSON_ANY.any_text.body  # type: ignore[attr-defined]
    limited = seq(rep(char, 0, trie.shared.longest), quote)  # counted: one walk for all limits
    for expr in (text, limited, *(seq(formats.expr(name, JSON_ANY), quote) for name in FORMATS)):
        begun = state(expr)
        assert begun is not None
        begun.split(trie)
