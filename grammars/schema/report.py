"""What a schema's keywords came to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from structgen.grammars.schema.document import Place, escaped


@dataclass(frozen=True)
class Report:
    """Which keywords of a JSON Schema are enforced.

    Attributes:
        draft: the draft that the schema was read as, e.g. ``"2020-12"``.
        places: the subschemas that a reference or keyword leads to.
    """

    draft: str
    places: tuple[Place, ...]

    @cached_property
    def enforced(self) -> tuple[str, ...]:
        """JSON pointers of the keywords that every generated text obeys exactly."""
        return _pointers(self.places, "enforced")

    @cached_property
    def annotations(self) -> tuple[str, ...]:
        """JSON pointers of keywords that demand nothing: titles, unknown keywords, unknown formats."""
        return _pointers(self.places, "annotations")

    @property
    def gated(self) -> tuple[str, ...]:
        """JSON pointers of keywords that are only checked when a value closes. None so far."""
        return ()

    @property
    def unsupported(self) -> tuple[str, ...]:
        """JSON pointers of keywords that are known but not built. A schema that has one is refused, so a
        report has none."""
        return ()


def _pointers(places: Iterable[Place], field: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for place in places:
        for keyword in getattr(place.rules, field):
            if place.contents is False:
                found[place.pointer] = None
            elif isinstance(place.contents, dict):
                found[f"{place.pointer}/{escaped(keyword)}"] = None
    return tuple(found)
