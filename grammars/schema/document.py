"""Where a subschema stands: its draft, its base URI, its JSON pointer, and what a reference there means."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from structgen.errors import GrammarError, UnsupportedGrammar

if TYPE_CHECKING:
    from structgen.grammars.schema.keywords import Rules


class Draft(IntEnum):
    D4 = 4
    D6 = 6
    D7 = 7
    D2019 = 2019
    D2020 = 2020

    @property
    def uri(self) -> str:
        return _URIS[self]


_URIS = {
    Draft.D4: "http://json-schema.org/draft-04/schema",
    Draft.D6: "http://json-schema.org/draft-06/schema",
    Draft.D7: "http://json-schema.org/draft-07/schema",
    Draft.D2019: "https://json-schema.org/draft/2019-09/schema",
    Draft.D2020: "https://json-schema.org/draft/2020-12/schema",
}
_NAMES = {"4": Draft.D4, "6": Draft.D6, "7": Draft.D7, "2019-09": Draft.D2019, "2020-12": Draft.D2020}
_KNOWN = ", ".join(repr(name) for name in _NAMES)


def draft_named(name: object) -> Draft:
    """The draft that a caller names: ``"7"``, ``7``, ``"draft-07"``, ``"draft7"`` or its URI."""
    text = str(name).rstrip("#")
    by_uri = _by_uri(text)
    if by_uri is not None:
        return by_uri
    short = text.lower().removeprefix("draft").lstrip("-").lstrip("0")
    if short in _NAMES:
        return _NAMES[short]
    raise GrammarError(f"unknown draft {name!r}; known: {_KNOWN}")


def _by_uri(uri: str) -> Draft | None:
    bare = uri.rstrip("#").replace("https://", "http://")
    for draft, known in _URIS.items():
        if bare == known.replace("https://", "http://"):
            return draft
    return None


def draft_of(schema: Any) -> Draft:
    """The draft that a schema declares; without ``$schema`` the newest draft in which it has a meaning
    (a boolean ``exclusiveMinimum`` is draft 4's, an array of ``items`` ended with 2019-09)."""
    if isinstance(schema, dict) and "$schema" in schema:
        return declared_draft(schema["$schema"], "#/$schema")
    draft = Draft.D2020
    queue = [schema]
    while queue:
        at = queue.pop()
        if isinstance(at, dict):
            for key, value in at.items():
                if key in ("exclusiveMinimum", "exclusiveMaximum") and isinstance(value, bool):
                    return Draft.D4
                if key == "items" and isinstance(value, list):
                    draft = Draft.D2019
                if key not in ("enum", "const", "default", "example", "examples"):
                    queue.append(value)
        elif isinstance(at, list):
            queue.extend(at)
    return draft


def declared_draft(uri: Any, pointer: str) -> Draft:
    if not isinstance(uri, str):
        raise GrammarError(f"$schema must be a string with a draft's URI, not {uri!r}", pointer=pointer)
    found = _by_uri(uri)
    if found is None:
        raise UnsupportedGrammar(
            f"$schema {uri!r} names no known draft; known: "
            + ", ".join(_URIS.values())
            + ". Give draft=... to read it as one of them.",
            pointer=pointer,
        )
    return found


def escaped(token: str) -> str:
    """A JSON pointer token (RFC 6901), for messages."""
    return token.replace("~", "~0").replace("/", "~1")


class Scope:
    """A schema resource: a root with a base URI and a draft."""

    __slots__ = ("_known", "_resolver", "draft", "draft_fixed", "origin", "outer", "registry", "root")

    def __init__(
        self,
        root: Any,
        draft: Draft,
        registry: Any,
        *,
        outer: Scope | None = None,
        resolver: Any = None,
        origin: str = "#",
        draft_fixed: bool = False,
        known: dict[tuple[int, Draft], Scope] | None = None,
    ) -> None:
        self.root = root
        self.draft = draft
        self.registry = registry
        self.outer = outer
        self.origin = origin
        self.draft_fixed = draft_fixed
        self._resolver = resolver
        # All scopes of a document; they keep their roots alive, so identities stay unique.
        self._known: dict[tuple[int, Draft], Scope] = {} if known is None else known
        self._known[id(root), draft] = self

    @property
    def resolver(self) -> Any:
        """A ``referencing`` resolver at this resource; made when a reference first needs it."""
        if self._resolver is None:
            import referencing.jsonschema

            spec = _specification(self.draft)
            resource = spec.create_resource(self.root)
            if self.outer is not None:
                self._resolver = self.outer.resolver.in_subresource(resource)
            else:
                registry = referencing.jsonschema.EMPTY_REGISTRY if self.registry is None else self.registry
                registry = _bundled().combine(registry)
                self._resolver = registry.resolver_with_root(resource)
        return self._resolver

    def enter(self, contents: Any, origin: str) -> Scope:
        """The scope inside ``contents``: another one if it has an ``$id`` of its own."""
        if contents is self.root or not has_id(contents, self.draft):
            return self
        draft = self.draft
        if "$schema" in contents and not self.draft_fixed:
            draft = declared_draft(contents["$schema"], f"{origin}/$schema")
        return self._known.get((id(contents), draft)) or Scope(
            contents, draft, self.registry, outer=self, origin=origin, draft_fixed=self.draft_fixed, known=self._known
        )

    def find(self, ref: str, pointer: str) -> tuple[Any, Scope, str]:
        """What ``ref`` means here: contents, scope and pointer. Never asks the network."""
        if ref == "#":
            return self.root, self, self.origin
        if ref.startswith("#/"):
            found = self._walk(ref)
            if found is not None:
                return found
        import referencing.exceptions

        try:
            resolved = self.resolver.lookup(ref)
            root = resolved.resolver.lookup("#").contents
        except referencing.exceptions.Unresolvable as error:
            raise GrammarError(
                f"$ref {ref!r} leads nowhere ({type(error).__name__}). Documents are never fetched: put it into "
                "$defs, or give registry= a referencing.Registry that holds it",
                pointer=pointer,
            ) from None
        except (ValueError, AttributeError, TypeError, KeyError, IndexError) as error:
            raise GrammarError(f"$ref {ref!r} cannot be resolved: {error}", pointer=pointer) from None
        draft = self.draft
        if root is self.root:
            return resolved.contents, self, _display(ref)
        if isinstance(root, dict) and "$schema" in root and not self.draft_fixed:
            draft = declared_draft(root["$schema"], f"{ref}/$schema")
        found_scope = self._known.get((id(root), draft)) or Scope(
            root,
            draft,
            self.registry,
            resolver=resolved.resolver,
            origin=_display(ref),
            draft_fixed=self.draft_fixed,
            known=self._known,
        )
        return resolved.contents, found_scope, _display(ref)

    def _walk(self, ref: str) -> tuple[Any, Scope, str] | None:
        """A pointer within this resource; None when it leaves the plain road (an ``$id`` inside, an error)."""
        at = self.root
        for token in ref[2:].split("/"):
            token = unquote(token).replace("~1", "/").replace("~0", "~")
            if isinstance(at, dict):
                if token not in at:
                    return None
                at = at[token]
            elif isinstance(at, list) and token.isdigit() and int(token) < len(at):
                at = at[int(token)]
            else:
                return None
            if has_id(at, self.draft):
                return None
        return at, self, self.origin + ref[1:]


def _display(ref: str) -> str:
    return ref if "#" in ref else ref + "#"


def has_id(contents: Any, draft: Draft) -> bool:
    """Whether ``contents`` changes the base URI."""
    if not isinstance(contents, dict):
        return False
    if draft <= Draft.D7 and "$ref" in contents:
        return False
    uri = contents.get("id" if draft == Draft.D4 else "$id")
    return isinstance(uri, str) and not uri.startswith("#")


def _specification(draft: Draft) -> Any:
    import referencing.jsonschema as known

    return {
        Draft.D4: known.DRAFT4,
        Draft.D6: known.DRAFT6,
        Draft.D7: known.DRAFT7,
        Draft.D2019: known.DRAFT201909,
        Draft.D2020: known.DRAFT202012,
    }[draft]


def _bundled() -> Any:
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

    return REGISTRY


class Place:
    """A subschema at its place. Places are interned (one contents, one place) and compare by identity."""

    __slots__ = ("_rules", "contents", "document", "negated", "parent", "scope", "token")

    def __init__(self, document: Any, contents: Any, scope: Scope, parent: Place | str, token: str) -> None:
        self.document = document
        self.contents = contents
        self.scope = scope
        self.parent = parent
        self.token = token
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
        if self._rules is None:
            from structgen.grammars.schema.keywords import read

            self._rules = read(self)
        return self._rules

    def __repr__(self) -> str:
        return f"Place({self.pointer})"


class Document:
    """All places of one schema, and its options.

    Args:
        assert_formats: whether ``format`` is enforced or an annotation.
    """

    def __init__(self, schema: Any, draft: Draft | None, registry: Any, assert_formats: bool) -> None:
        self.assert_formats = assert_formats
        self._places: dict[tuple[int, int], Place] = {}
        scope = Scope(schema, draft or draft_of(schema), registry, draft_fixed=draft is not None)
        self.root = self.place(schema, scope, "#", "")

    def place(self, contents: Any, scope: Scope, parent: Place | str, token: str) -> Place:
        """The place of ``contents``; ``token`` is the escaped pointer below ``parent``."""
        if isinstance(contents, dict):
            inner = scope
            if contents is not scope.root and has_id(contents, scope.draft):
                inner = scope.enter(contents, Place(self, contents, scope, parent, token).pointer)
            key = (id(contents), id(inner))
            found = self._places.get(key)
            if found is None:
                found = self._places[key] = Place(self, contents, inner, parent, token)
            return found
        return Place(self, contents, scope, parent, token)

    def made(self, rules: Rules, origin: Place) -> Place:
        """A place that stands in no text: a rewriting of ``origin``."""
        place = Place(self, None, origin.scope, origin, "")
        place._rules = rules
        return place
