"""The grammar library: Lark grammars that come with structgen, by name."""

from __future__ import annotations

import difflib
from importlib.resources import files

from structgen.errors import GrammarError


def names() -> list[str]:
    """The grammars of the library, sorted: ``["arithmetic", "csv", ...]``."""
    found = (item.name for item in files(__name__).iterdir())
    return sorted(name.removesuffix(".lark") for name in found if name.endswith(".lark"))


def find(name: str) -> str:
    """The text of a grammar; ``name`` with or without ``.lark``.

    Raises:
        GrammarError: the library has no such grammar; the message lists those it has.
    """
    stem = name.removesuffix(".lark")
    known = names()
    if stem not in known:
        near = difflib.get_close_matches(stem, known, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise GrammarError(f"the grammar library has no {name!r} (it has: {', '.join(known)}){hint}")
    return files(__name__).joinpath(stem + ".lark").read_text(encoding="utf-8")
