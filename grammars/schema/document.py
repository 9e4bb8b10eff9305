"""Subschemas at their places: what each one says, in which resource, and under which dynamic scope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from structgen.errors import GrammarTooComplex
from structgen.grammars.schema.contents import Contents
from structgen.grammars.schema.dialects import Draft, draft_named, escaped
from structgen.grammars.schema.resources import Dynamic, Resources, Scope, identifier

if TYPE_CHECKING:
    from structgen.grammars.schema.glance import Values
    from structgen.grammars.schema.keywords import Rules

__all__ = ["Document", "Draft", "Place", "draft_named", "escaped"]

MAX_DYNAMIC_PLACES = 10_000


class Place:
    """A subschema at its place. Places are interned and compare by identity: one place for a subschema, or where
    ``$dynamicRef`` means different things by the way taken, one for each dynamic scope."""

    __slots__ = ("_rules", "contents", "document", "dynamic", "negated", "parent", "scope", "token")

    def __init__(
        self,
        document: Any,
        contents: Any,
        scope: Scope,
        parent: Place | str,
        token: str,
        dynamic: Dynamic = (),
    ) -> None:
        self.document = document
        self.contents = contents
        self.scope = scope
        self.parent = parent
        self.token = token
        self.dynamic = dynamic
        self.negated: Place | None = None
        self._rules: Rules | None = None

    @property
    def pointer(self) -> str:
        parts: list[str] = []
        at: Place | str = self
        while isinstance(at, Place):
            if at.token:
                parts.append(at.token)
            at = at.parent
        return at + "".join("/" + part for part in reversed(parts))

    @property
    def rules(self) -> Rules:
        """What it demands; read from its contents, or written as the opposite of ``negated``, when first asked for."""
        found = self._rules
        if found is None:
            if self.contents is None:
                from structgen.grammars.schema.negation import opposite

                return opposite(self)
            from structgen.grammars.schema.keywords import read

            found = self._rules = read(self)
        return found

    @rules.setter
    def rules(self, rules: Rules) -> None:
        self._rules = rules

    @rules.deleter
    def rules(self) -> None:
        self._rules = None

    def __repr__(self) -> str:
        return f"Place({self.pointer})"


class Document:
    """All places of one schema, and its options.

    Args:
        assert_formats: whether ``format`` is enforced or an annotation.
        gates: whether what cannot be written as an automaton is checked when a value closes, instead of refused.
    """

    def __init__(
        self, contents: Contents, draft: Draft | None, registry: Any, assert_formats: bool, gates: bool = False
    ) -> None:
        self.assert_formats = assert_formats
        self.gates = gates
        self._places: dict[tuple[int, Scope, Dynamic], Place] = {}
        self._dynamic_places = 0
        self.values: Values | None = None
        """What a glance shows of values, if it shows that the schema can be used."""
        self.written: set[Place] = set()
        """Negations that are written out, and places made for them."""
        self.resources = Resources(contents, draft, registry)
        self.root = self.place(contents.schema, self.resources.root, "#", "")

    def place(
        self, contents: Any, scope: Scope, parent: Place | str, token: str, dynamic: Dynamic | None = None
    ) -> Place:
        """The place of ``contents``.

        Args:
            scope: the resource that ``contents`` stands in.
            token: the escaped pointer below ``parent``.
            dynamic: the dynamic scope of what leads here; None: the parent's.
        """
        if dynamic is None:
            dynamic = parent.dynamic if isinstance(parent, Place) else ()
        if not isinstance(contents, dict):
            return Place(self, contents, scope, parent, token, dynamic)
        if not isinstance(parent, Place) or parent.scope is not scope:
            dynamic = scope.extended(dynamic)
        key = (id(contents), scope, dynamic)
        found = self._places.get(key)
        if found is None:
            inner = scope
            named = "$id" in contents or "id" in contents
            if named and contents is not scope.root and identifier(contents, scope.draft) is not None:
                inner = scope.enter(contents, Place(self, contents, scope, parent, token).pointer)
            if inner is not scope:
                dynamic = inner.extended(dynamic)
                found = self._places.get((id(contents), inner, dynamic))
            if found is None:
                found = Place(self, contents, inner, parent, token, dynamic)
            self._places[key] = found
            if inner is not scope:
                self._places[id(contents), inner, dynamic] = found
            if dynamic:
                self._count()
        return found

    def has_values(self, place: Place) -> bool:
        """Whether a glance shows that something satisfies ``place``."""
        return self.values is not None and place.contents is not None and self.values.satisfy(place.contents)

    def _count(self) -> None:
        self._dynamic_places += 1
        if self._dynamic_places > MAX_DYNAMIC_PLACES:
            raise GrammarTooComplex(
                f"dynamic anchors combine into more than {MAX_DYNAMIC_PLACES:,} subschemas; use $ref, or fewer "
                "resources with a $dynamicAnchor of their own"
            )

    def made(self, rules: Rules | None, origin: Place) -> Place:
        """A place that stands in no text: a rewriting of ``origin``. None: what it says is written later."""
        place = Place(self, None, origin.scope, origin, "", origin.dynamic)
        place._rules = rules
        return place
