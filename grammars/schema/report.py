"""What a schema's keywords came to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from structgen.grammars.residual import LOCK
from structgen.grammars.schema.document import Place, escaped
from structgen.grammars.schema.keywords import structure_of

if TYPE_CHECKING:
    from rich.table import Table

MEANINGS = {
    "gated": "checked when a value closes",
    "enforced": "enforced exactly",
    "annotations": "annotation only",
    "structure": "names and holds subschemas",
}
"""What may become of a keyword. A keyword of several kinds (read under two dynamic scopes) is of the first."""


class Line(NamedTuple):
    """All occurrences of a keyword that came to the same."""

    keyword: str
    kind: str
    pointers: tuple[str, ...]


class Report:
    """What the keywords of a JSON Schema came to. Each keyword of each reachable subschema stands in exactly one of
    ``enforced``, ``gated``, ``annotations`` and ``structure``; a schema with any other is refused. ``str(report)`` is
    a table for people, and rich prints it as one.

    Attributes:
        draft: the draft that the schema was read as, e.g. ``"2020-12"``.
        places: the subschemas that a reference or keyword leads to.
        draft_from: who said so: ``"$schema"``, ``"argument"``, or ``"guess"`` where nobody did.
    """

    def __init__(self, draft: str, survey: Callable[[], Iterable[Place]], draft_from: str = "$schema") -> None:
        """``survey`` gives the places when they are first asked for."""
        self.draft = draft
        self.draft_from = draft_from
        self._survey = survey

    @cached_property
    def places(self) -> tuple[Place, ...]:
        with LOCK:
            return tuple(self._survey())

    def __repr__(self) -> str:
        return f"Report(draft={self.draft!r}, draft_from={self.draft_from!r})"

    @property
    def enforced(self) -> tuple[str, ...]:
        """JSON pointers of the keywords that every generated text obeys exactly. ``false`` stands for itself."""
        return self._pointers("enforced")

    @property
    def gated(self) -> tuple[str, ...]:
        """JSON pointers of keywords that are checked when a value closes: none that fails them is ever completed,
        but a text may have to be begun anew."""
        return self._pointers("gated")

    @property
    def annotations(self) -> tuple[str, ...]:
        """JSON pointers of keywords that demand nothing: titles, unknown keywords, unknown formats, keywords of
        another draft, siblings of ``$ref`` up to draft 7, OpenAPI's ``nullable`` and ``discriminator``."""
        return self._pointers("annotations")

    @property
    def structure(self) -> tuple[str, ...]:
        """JSON pointers of keywords that name things and hold definitions: ``$id``, ``$defs``, ``$anchor``, ..."""
        return self._pointers("structure")

    @property
    def lines(self) -> tuple[Line, ...]:
        """The keywords, counted: in the order of ``MEANINGS``, then of the schema."""
        grouped: dict[tuple[str, str], list[str]] = {}
        for kind in MEANINGS:
            for pointer, (keyword, found) in self._kinds.items():
                if found == kind:
                    grouped.setdefault((keyword, kind), []).append(pointer)
        return tuple(Line(keyword, kind, tuple(pointers)) for (keyword, kind), pointers in grouped.items())

    @property
    def _kinds(self) -> dict[str, tuple[str, str]]:
        """Pointer -> keyword and what became of it. Not remembered: gates are found while a grammar is built."""
        found: dict[str, tuple[str, str]] = {}
        order = list(MEANINGS)
        for place in self.places:
            for pointer, keyword, kind in _keywords(place):
                before = found.get(pointer)
                if before is None or order.index(kind) < order.index(before[1]):
                    found[pointer] = keyword, kind
        return found

    def _pointers(self, kind: str) -> tuple[str, ...]:
        return tuple(pointer for pointer, (_, found) in self._kinds.items() if found == kind)

    @property
    def summary(self) -> str:
        """One line: the draft, and how many keywords came to what."""
        counts = ", ".join(
            f"{len(self._pointers(kind))} {name}"
            for kind, name in (("enforced", "enforced"), ("gated", "gated"), ("annotations", "annotation only"))
        )
        said = {"$schema": "", "argument": " (by argument)", "guess": " (a guess: it has no $schema)"}
        return f"draft {self.draft}{said[self.draft_from]}; keywords: {counts}"

    def __str__(self) -> str:
        rows = [(line.keyword, line.kind, str(len(line.pointers)), _some(line.pointers)) for line in self.lines]
        widths = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
        table = [
            f"  {row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]}".rstrip() for row in rows
        ]
        return "\n".join([self.summary, *table])

    def __rich__(self) -> Table:
        from rich.markup import escape
        from rich.table import Table

        table = Table(title=escape(self.summary), title_justify="left")
        table.add_column("keyword")
        table.add_column("what became of it")
        table.add_column("count", justify="right")
        table.add_column("where", overflow="fold")
        for line in self.lines:
            where = escape(_some(line.pointers))
            table.add_row(escape(line.keyword), MEANINGS[line.kind], str(len(line.pointers)), where)
        return table


def _keywords(place: Place) -> Iterator[tuple[str, str, str]]:
    """Pointer, keyword and kind of every keyword of a subschema."""
    if place.contents is False:
        yield place.pointer, "false", "enforced"
    if not isinstance(place.contents, dict):
        return
    base = place.pointer
    gated = getattr(place.rules, "gated", ())
    for kind, keywords in (
        ("gated", gated),
        ("enforced", place.rules.enforced),
        ("annotations", place.rules.annotations),
        ("structure", structure_of(place)),
    ):
        for keyword in keywords:
            if keyword in place.contents:
                yield f"{base}/{escaped(keyword)}", keyword, kind


def _some(pointers: tuple[str, ...], most: int = 3) -> str:
    more = f" and {len(pointers) - most} more" if len(pointers) > most else ""
    return ", ".join(pointers[:most]) + more
