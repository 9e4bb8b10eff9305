"""Schema resources: where base URIs begin, what anchors they have, and what a reference in one means.

``referencing`` holds the documents that a caller gives; nothing here ever asks the network.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

from structgen.errors import GrammarError, UnsupportedGrammar
from structgen.grammars.schema.contents import Contents
from structgen.grammars.schema.dialects import Dialect, Draft, dialect_at, draft_at, escaped, newest_draft

RECURSIVE = ""
"""The name under which ``$recursiveAnchor: true`` stands among dynamic anchors (no anchor has an empty name)."""

Dynamic = tuple[tuple[str, "Scope"], ...]
"""A dynamic scope, as far as it counts: for each dynamic anchor the outermost resource on the way that has it."""

_OLD, _NEW = (Draft.D4, Draft.D2019), (Draft.D2019, Draft.D2020)
_ALL, _SINCE_6, _SINCE_7 = (Draft.D4, Draft.D2020), (Draft.D6, Draft.D2020), (Draft.D7, Draft.D2020)

# Where subschemas stand: in the keyword's value, in its items, or in its members.
_SCHEMA = {
    "additionalItems": _OLD,
    "additionalProperties": _ALL,
    "contains": _SINCE_6,
    "contentSchema": _NEW,
    "if": _SINCE_7,
    "then": _SINCE_7,
    "else": _SINCE_7,
    "items": _ALL,
    "not": _ALL,
    "propertyNames": _SINCE_6,
    "unevaluatedItems": _NEW,
    "unevaluatedProperties": _NEW,
}
_LIST = {"allOf": _ALL, "anyOf": _ALL, "oneOf": _ALL, "prefixItems": (Draft.D2020, Draft.D2020), "items": _OLD}
_TABLE = {
    "$defs": _NEW,
    "definitions": _ALL,
    "dependentSchemas": _NEW,
    "patternProperties": _ALL,
    "properties": _ALL,
    "dependencies": (Draft.D4, Draft.D7),
}


def _within(table: dict[str, tuple[Draft, Draft]], keyword: str, draft: Draft) -> bool:
    span = table.get(keyword)
    return span is not None and span[0] <= draft <= span[1]


def identifier(contents: Any, draft: Draft) -> str | None:
    """The ``$id`` by which ``contents`` changes the base URI, or None."""
    if not isinstance(contents, dict):
        return None
    draft = draft_at(contents.get("$schema")) or draft
    if draft <= Draft.D7 and "$ref" in contents:  # siblings of $ref do not count
        return None
    uri = contents.get("id" if draft == Draft.D4 else "$id")
    return uri if isinstance(uri, str) and not uri.startswith("#") else None


def joined(base: str, reference: str) -> str:
    """A reference resolved against a base (RFC 3986, section 5); ``urljoin`` knows few schemes."""
    made = urljoin(base, reference)
    if made == reference and "://" in base and ":" not in reference.split("/")[0]:
        scheme, _, rest = base.partition(":")
        made = scheme + urljoin(f"http:{rest}", reference)[4:]
    return made


class Found(NamedTuple):
    """What a reference leads to."""

    contents: Any
    scope: Scope
    pointer: str


class Scope:
    """A schema resource: a root with a base URI and a dialect. Compares by identity.

    Attributes:
        origin: how messages name its root: ``"#"``, a pointer in the document, or a URI with ``#``.
    """

    __slots__ = ("_anchors", "_dynamic", "_dynamic_inside", "dialect", "origin", "outer", "resources", "root", "uri")

    def __init__(
        self, resources: Resources, root: Any, uri: str, dialect: Dialect, origin: str, outer: Scope | None = None
    ) -> None:
        self.resources = resources
        self.root = root
        self.uri = uri
        self.dialect = dialect
        self.origin = origin
        self.outer = outer
        self._anchors: dict[str, tuple[Any, str]] | None = None
        self._dynamic: dict[str, Any] = {}
        self._dynamic_inside: bool | None = None if outer is None else outer._dynamic_inside

    @property
    def draft(self) -> Draft:
        return self.dialect.draft

    def enter(self, contents: Any, pointer: str) -> Scope:
        """The scope inside ``contents``, which stands at ``pointer``: another one if it has an ``$id`` of its own."""
        if contents is self.root:
            return self
        uri = identifier(contents, self.draft)
        return self if uri is None else self.resources.embedded(self, contents, uri, pointer)

    def find(self, reference: str, pointer: str, keyword: str = "$ref") -> Found:
        """What ``reference`` means here, dynamic anchors taken for plain ones.

        Args:
            pointer: where the reference stands, for messages.

        Raises:
            GrammarError: it leads nowhere.
        """
        scope, fragment = self, reference[1:]
        if not reference.startswith("#"):
            uri, fragment = urldefrag(joined(self.uri, reference))
            named = self if uri == self.uri else self.resources.at(uri, self)
            if named is None:
                raise GrammarError(_nowhere(keyword, reference, f"there is no document {uri!r}"), pointer=pointer)
            scope = named
        if not fragment:
            return Found(scope.root, scope, scope.origin)
        if fragment.startswith("/"):
            found = scope._walk(fragment)
            what = "its pointer leads to no value"
        else:
            found = scope._anchor(unquote(fragment))
            what = f"the resource has no anchor {unquote(fragment)!r}{_near(unquote(fragment), scope.anchors)}"
        if found is None:
            raise GrammarError(_nowhere(keyword, reference, what), pointer=pointer)
        return found

    def _walk(self, fragment: str) -> Found | None:
        """A JSON pointer, through resources embedded on the way."""
        at, scope, origin, below = self.root, self, self.origin, ""
        kind = "schema"
        for token in fragment[1:].split("/"):
            token = unquote(token).replace("~1", "/").replace("~0", "~")
            if isinstance(at, dict):
                if token not in at:
                    return None
                at = at[token]
                kind = _inside(kind, token, at, scope.draft)
            elif isinstance(at, list):
                if not (token.isascii() and token.isdigit()) or int(token) >= len(at):
                    return None
                at = at[int(token)]
                kind = "schema" if kind == "list" else ""
            else:
                return None
            below += f"/{escaped(token)}"
            if kind == "schema":
                inner = scope.enter(at, origin + below)
                if inner is not scope:
                    scope, origin, below = inner, inner.origin, ""
        return Found(at, scope, origin + below)

    def _anchor(self, name: str) -> Found | None:
        found = self.anchors.get(name)
        return None if found is None else Found(found[0], self, found[1])

    @property
    def anchors(self) -> dict[str, tuple[Any, str]]:
        """The subschemas that ``$anchor``, ``$dynamicAnchor`` and old ``$id: "#..."`` name, with their pointers."""
        if self._anchors is None:
            self._read()
        assert self._anchors is not None
        return self._anchors

    @property
    def dynamic(self) -> dict[str, Any]:
        """The subschemas that dynamic anchors name."""
        if self._dynamic_inside is None:
            self._dynamic_inside = _mentions(self.root, ("$dynamicAnchor", "$recursiveAnchor"))
        if self._dynamic_inside and self._anchors is None:
            self._read()
        return self._dynamic

    def extended(self, dynamic: Dynamic) -> Dynamic:
        """The dynamic scope after this resource is entered."""
        if self.draft < Draft.D2019 or not self.dynamic:
            return dynamic
        known = dict(dynamic)
        for name in self.dynamic:
            known.setdefault(name, self)
        return dynamic if len(known) == len(dynamic) else tuple(sorted(known.items(), key=lambda item: item[0]))

    def _read(self) -> None:
        """Collect the anchors of this resource, and of all that are embedded in it."""
        queue = [self]
        while queue:
            scope = queue.pop()
            if scope._anchors is None:
                scope._anchors = {}
                scope._collect(queue)

    def _collect(self, embedded: list[Scope]) -> None:
        assert self._anchors is not None
        if self.draft == Draft.D2019 and isinstance(self.root, dict) and self.root.get("$recursiveAnchor") is True:
            self._dynamic[RECURSIVE] = self.root
        stack = [(self.root, "")]
        while stack:
            at, below = stack.pop()
            if not isinstance(at, dict):
                continue
            inner = self.enter(at, self.origin + below)
            if inner is not self:
                self.resources.know(inner)
                embedded.append(inner)
                continue
            for name in _names(at, self.draft):
                self._anchors.setdefault(name, (at, self.origin + below))
            if self.draft == Draft.D2020 and isinstance(at.get("$dynamicAnchor"), str):
                self._dynamic.setdefault(at["$dynamicAnchor"], at)
            stack.extend((each, below + token) for each, token in _subschemas(at, self.draft))

    def __repr__(self) -> str:
        return f"Scope({self.origin})"


def _names(contents: dict[str, Any], draft: Draft) -> Iterator[str]:
    if draft >= Draft.D2019:
        names = [contents.get("$anchor"), contents.get("$dynamicAnchor") if draft == Draft.D2020 else None]
        yield from (name for name in names if isinstance(name, str))
    elif "$ref" not in contents:
        uri = contents.get("id" if draft == Draft.D4 else "$id")
        if isinstance(uri, str) and uri.startswith("#"):
            yield uri[1:]


def _inside(kind: str, token: str, value: Any, draft: Draft) -> str:
    """What stands at ``token`` below a value of this kind: a schema, a list or table of schemas, or no schema."""
    if kind == "table":
        return "schema"
    if kind != "schema":
        return ""
    if isinstance(value, list):
        return "list" if _within(_LIST, token, draft) else ""
    if _within(_SCHEMA, token, draft):
        return "schema"
    return "table" if _within(_TABLE, token, draft) else ""


def _subschemas(contents: dict[str, Any], draft: Draft) -> Iterator[tuple[Any, str]]:
    """The subschemas right below ``contents``, with their pointers."""
    for keyword, value in contents.items():
        kind = _inside("schema", keyword, value, draft)
        if kind == "schema":
            yield value, f"/{keyword}"
        elif kind == "list":
            yield from ((each, f"/{keyword}/{i}") for i, each in enumerate(value))
        elif kind == "table" and isinstance(value, dict):
            yield from ((each, f"/{keyword}/{escaped(name)}") for name, each in value.items())


def _mentions(root: Any, keys: tuple[str, ...]) -> bool:
    """Whether one of ``keys`` stands anywhere in ``root``: a quick look before anchors are collected."""
    stack = [root]
    while stack:
        at = stack.pop()
        if isinstance(at, dict):
            if any(key in at for key in keys):
                return True
            stack.extend(at.values())
        elif isinstance(at, list):
            stack.extend(at)
    return False


def _nowhere(keyword: str, reference: str, why: str) -> str:
    return (
        f"{keyword} {reference!r} leads nowhere: {why}. Documents are never fetched: put it into $defs, or give "
        "registry= a referencing.Registry that holds it"
    )


def _near(name: str, known: dict[str, Any]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f" (did you mean {near[0]!r}?)" if near else ""


class Resources:
    """All resources that a document consists of and refers to.

    Args:
        draft: what to read the document as, whatever its ``$schema`` says; None: what it says, else a guess.
        registry: a ``referencing.Registry`` with other documents, or None.

    Attributes:
        root: the document itself.
        draft_from: who said its draft: ``"$schema"``, ``"argument"`` or ``"guess"``.
    """

    def __init__(self, contents: Contents, draft: Draft | None, registry: Any) -> None:
        schema = contents.schema
        self._given = registry
        self._registry: Any = None
        self._embedded: dict[tuple[int, Scope], Scope] = {}
        self._own: dict[str, Scope] = {}
        self._others: dict[tuple[str, Draft], Scope] = {}
        self._fixed = draft
        self._replaced = schema.get("$schema") if isinstance(schema, dict) else None
        if registry is not None:
            _check_registry(registry)
        self.draft_from = "$schema"
        if draft is not None:
            dialect, self.draft_from = Dialect(draft), "argument"
        elif isinstance(schema, dict) and "$schema" in schema:
            dialect = self._declared(schema["$schema"], "#/$schema")
        else:
            dialect, self.draft_from = Dialect(Draft.D2020 if contents.is_timeless else newest_draft(schema)), "guess"
        uri = identifier(schema, dialect.draft)
        base = "" if uri is None else urldefrag(uri)[0]
        self.root = self._own[base] = Scope(self, schema, base, dialect, "#")
        if not contents.has_dynamic_anchors:
            self.root._dynamic_inside = False

    def embedded(self, outer: Scope, contents: dict[str, Any], uri: str, pointer: str) -> Scope:
        """The resource at ``contents``, inside ``outer``."""
        found = self._embedded.get((id(contents), outer))
        if found is None:
            base = urldefrag(joined(outer.uri, uri))[0]
            known = self._others.get((base, outer.draft))
            if known is not None and known.root is contents:
                found = known
            else:
                dialect = self._dialect(contents, outer.dialect, pointer, self._in_document(outer))
                found = Scope(self, contents, base, dialect, pointer, outer)
            self._embedded[id(contents), outer] = found
        return found

    def know(self, scope: Scope) -> None:
        """Make an embedded resource known by its URI."""
        if self._in_document(scope):
            self._own.setdefault(scope.uri, scope)
        elif scope.outer is not None:
            self._others.setdefault((scope.uri, scope.outer.draft), scope)

    def _in_document(self, scope: Scope) -> bool:
        while scope.outer is not None:
            scope = scope.outer
        return scope is self.root

    def at(self, uri: str, referrer: Scope) -> Scope | None:
        """The resource with this URI; one that does not say its draft is read as its referrer's."""
        if uri not in self._own:
            _ = self.root.anchors  # reads the document, and meets its resources on the way
        if uri in self._own:
            return self._own[uri]
        found = self._others.get((uri, referrer.draft))
        if found is not None:
            return found
        contents = self.contents(uri)
        if contents is None:
            return None
        if contents is self.root.root:
            return self.root
        origin = uri + "#"
        dialect = self._dialect(contents, Dialect(referrer.draft), origin, False)
        base = self._base(uri, contents, identifier(contents, dialect.draft))
        found = self._others.get((base, referrer.draft)) or Scope(self, contents, base, dialect, origin)
        self._others[uri, referrer.draft] = self._others[base, referrer.draft] = found
        return found

    def _base(self, uri: str, contents: Any, own: str | None) -> str:
        """The base URI of what was found at ``uri``. A relative ``$id`` is resolved against that, but once: for a
        resource inside a document of the registry, ``uri`` is what comes out."""
        base = uri if own is None else urldefrag(joined(uri, own))[0]
        return base if base in (own, uri) or self.contents(base) is contents else uri

    def contents(self, uri: str) -> Any:
        """The document at ``uri`` that the caller gave, or one of the drafts' metaschemas; None: there is none."""
        import referencing.exceptions

        try:
            retrieved = self._documents().get_or_retrieve(uri)
        except referencing.exceptions.NoSuchResource:
            return None
        except referencing.exceptions.Unretrievable as error:
            raise GrammarError(
                f"the document {uri!r} cannot be retrieved from the registry: {error.__cause__}"
            ) from error
        except (ValueError, AttributeError, TypeError, KeyError, IndexError) as error:
            raise GrammarError(f"a document of the registry is malformed: {error}") from error
        self._registry = retrieved.registry
        return retrieved.value.contents

    def _documents(self) -> Any:
        if self._registry is None:
            from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

            self._registry = REGISTRY if self._given is None else REGISTRY.combine(self._given)
        return self._registry

    def _dialect(self, contents: Any, inherited: Dialect, pointer: str, in_document: bool) -> Dialect:
        if not isinstance(contents, dict) or "$schema" not in contents:
            return inherited
        uri = contents["$schema"]
        if self._fixed is not None and in_document and uri == self._replaced:
            return Dialect(self._fixed)
        try:
            return self._declared(uri, f"{pointer}/$schema")
        except UnsupportedGrammar:
            if self._fixed is None:
                raise
            return Dialect(self._fixed)

    def _declared(self, uri: Any, pointer: str) -> Dialect:
        return dialect_at(uri, pointer, self.contents)


def _check_registry(registry: Any) -> None:
    import referencing

    if not isinstance(registry, referencing.Registry):
        raise GrammarError(
            f"registry must be a referencing.Registry, not {type(registry).__name__}; make one with "
            "referencing.Registry().with_contents([(uri, schema), ...], "
            "default_specification=referencing.jsonschema.DRAFT202012)"
        )
