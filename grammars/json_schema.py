"""JSON Schema as a machine: the face of the ``schema`` package.

Policies, where RFC 8259 and JSON Schema leave a choice:

* ``order``: ``"schema"`` writes the keys of an object in the order in which the schema names them (``properties``
  first, then names that only occur in ``required``), all others after them; ``"any"`` takes every order.
* ``whitespace``: ``"bounded"`` allows, between tokens, one space or one line break with at most 64 blanks of
  indentation; ``"compact"`` none; ``"pretty"`` exactly ``json.dumps(indent=2)``; ``"any"`` all that RFC 8259
  allows, also around the text.
* ``escapes``: ``"any"`` takes every spelling of a character in a string; ``"canonical"`` the one of
  ``json.dumps(ensure_ascii=False)``.
* ``numbers``: ``"plain"`` writes integers without point and exponent, and exponents only where a number has no
  bounds; ``"any"`` takes every spelling of a value, so that ``1.0`` and ``1e3`` are integers (not to draft 4, to
  which an integer has neither point nor exponent).

Keys never occur twice, and no string holds half a surrogate pair.

Which keywords count: those of the draft of the resource that they stand in. ``$schema`` names it, or a metaschema in
the registry whose own ``$schema`` leads to it and whose ``$vocabulary`` leaves keywords out (they are annotations
then); a required vocabulary that is unknown is refused. OpenAPI's keywords are annotations, as for every JSON Schema
validator: ``nullable`` (write ``"type": ["string", "null"]``), ``discriminator``, ``example``, ``xml``,
``externalDocs``. A ``discriminator`` neither narrows nor loosens its ``oneOf``: the branches say themselves, with a
``const`` or ``enum``, which tag is theirs. ``structgen check`` names the ones that do not.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from structgen.errors import GrammarError, GrammarTooComplex, UnsatisfiableGrammar
from structgen.grammars.encoding import JSON_ANY, JSON_CANONICAL
from structgen.grammars.expr import seq
from structgen.grammars.machine import Cell, Thread
from structgen.grammars.residual import state
from structgen.grammars.schema.arrays import MAX_CONTAINS
from structgen.grammars.schema.cases import MAX_WISHES
from structgen.grammars.schema.contents import private
from structgen.grammars.schema.document import Document, Draft, Place, draft_named
from structgen.grammars.schema.expand import check_built, check_circles
from structgen.grammars.schema.glance import Values, look
from structgen.grammars.schema.layout import LAYOUTS, Layout
from structgen.grammars.schema.limits import ENOUGH, Tally
from structgen.grammars.schema.nodes import SCALAR, Forest, Node, Style, explore
from structgen.grammars.schema.report import Report
from structgen.grammars.schema.scalars import check_numbers, check_pattern

__all__ = ["OPTIONS", "JsonMachine", "Report", "machine"]

OPTIONS = (
    "order", "whitespace", "escapes", "numbers", "format_assertion", "on_unsupported", "draft", "registry",
)  # fmt: skip
_ENCODINGS = {"any": JSON_ANY, "canonical": JSON_CANONICAL}
_DRAFTS = {Draft.D4: "4", Draft.D6: "6", Draft.D7: "7", Draft.D2019: "2019-09", Draft.D2020: "2020-12"}


def machine(
    schema: Mapping[str, Any] | bool | str,
    *,
    order: str = "schema",
    whitespace: str = "bounded",
    escapes: str = "any",
    numbers: str = "plain",
    format_assertion: bool = True,
    on_unsupported: str = "error",
    draft: str | int | None = None,
    registry: Any = None,
    known: str | bytes | None = None,
) -> tuple[JsonMachine, Report]:
    """The machine of all JSON texts that satisfy ``schema``, and what its keywords came to.

    Args:
        schema: a schema, or its JSON text (whose decimals are then kept exactly).
        format_assertion: whether ``format`` is enforced (every name that a draft defines, in every draft) or an
            annotation, whatever a metaschema's format vocabulary says.
        draft: the draft to read ``schema`` as, whatever its ``$schema`` says (``"7"``, ``"2020-12"``, ...); None:
            what ``$schema`` says, else the newest one in which the schema has a meaning. Resources inside it and
            documents of the registry follow a ``$schema`` of their own.
        registry: a ``referencing.Registry`` with the documents that references and ``$schema`` lead to. The drafts'
            metaschemas are known without it; nothing is ever fetched, unless by the registry's own ``retrieve``.
        known: ``contents.identity(schema)``, where the caller has it.

    Raises:
        GrammarError: a malformed schema or an unknown option.
        UnsatisfiableGrammar: nothing satisfies the schema.
        UnsupportedGrammar: a pattern that is no regular language, or a metaschema that is not known.
        GrammarTooComplex: a limit was reached.
    """
    _choice("order", order, ("schema", "any"))
    _choice("whitespace", whitespace, tuple(LAYOUTS))
    _choice("escapes", escapes, tuple(_ENCODINGS))
    _choice("numbers", numbers, ("plain", "any"))
    _choice("on_unsupported", on_unsupported, ("error", "gate"))
    gates = on_unsupported == "gate"
    contents = private(schema, known)
    style = Style(_ENCODINGS[escapes], LAYOUTS[whitespace], order == "any", numbers == "any")
    try:
        document = Document(contents, None if draft is None else draft_named(draft), registry, format_assertion, gates)
        scope = document.resources.root
        special = gates or scope.dialect.left_out or scope.dynamic
        places = None
        crowded = None if special else look(contents.schema, scope.draft)
        if crowded is not None:
            document.values = Values(contents.schema, scope.draft)
        else:
            places = _survey(document, style.any_numbers)
        root = Forest(style).node([document.root])
        if not root.satisfiable:
            raise _unsatisfiable(root)
        if gates:
            explore(root)
        else:
            if crowded is not None:
                together = _found(crowded, document.root) if crowded else []
            else:
                assert places is not None
                together = _crowded(places)
            if (places is not None and _meets_limits(places)) or not _has_room(root.forest, together):
                explore(root, MAX_EXPLORED)
    except RecursionError:
        raise GrammarTooComplex("the schema is nested too deeply") from None
    survey = (lambda: _survey(document, style.any_numbers)) if places is None else (lambda: places)
    return JsonMachine(root, document), Report(_DRAFTS[scope.draft], survey, document.resources.draft_from)


def _choice(name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise GrammarError(f"{name}={value!r} is unknown; use one of {', '.join(map(repr, known))}")


def _survey(document: Document, any_numbers: bool) -> list[Place]:
    """Every subschema that counts, with its shape checked. Raises what makes the schema unusable."""
    found: dict[Place, None] = {document.root: None}
    queue = [document.root]
    checked: set[str] = set()
    for place in queue:
        rules = place.rules
        for pattern in rules.patterns:
            if pattern not in checked:
                check_pattern(pattern, f"{place.pointer}/pattern")
                checked.add(pattern)
        if rules.multiples or rules.lo or rules.hi:
            check_numbers(rules, any_numbers)
        for pattern in rules.pattern_properties or ():
            if pattern not in checked:
                check_pattern(pattern, f"{place.pointer}/patternProperties")
                checked.add(pattern)
        for child in rules.children:
            if child not in found:
                found[child] = None
                queue.append(child)
    check_circles(found)
    for place in found:
        rules = place.rules
        unevaluated = rules.unevaluated_properties is not None or rules.unevaluated_items is not None
        if rules.one_of or rules.negations or rules.conditions or rules.contains or unevaluated:
            check_built(place)
    return list(found)


MAX_EXPLORED = 400
MAX_CROWDED = 6


def _has_room(forest: Forest, crowded: list[tuple[float, Place]]) -> bool:
    """Whether places of many choices can be written out; those of most are tried."""
    for _, place in sorted(crowded, key=lambda each: -each[0])[:MAX_CROWDED]:
        try:
            forest.node([place]).parts  # noqa: B018
        except GrammarTooComplex:  # on their own; what stands beside them may leave less
            return False
    return True


def _found(crowded: list[tuple[float, Any]], root: Place) -> list[tuple[float, Place]]:
    """The places of subschemas."""
    many = {id(at): many for many, at in crowded}
    found: list[tuple[float, Place]] = []
    seen, queue = {root}, [root]
    for place in queue:
        if not many:
            break
        if id(place.contents) in many:
            found.append((many.pop(id(place.contents)), place))
        for child in place.rules.children:
            if child not in seen:
                seen.add(child)
                queue.append(child)
    return found


def _crowded(places: list[Place]) -> list[tuple[float, Place]]:
    """The places that may have many alternatives, and how many choices between two these are: counted without regard
    to what they have in common."""
    known: dict[Place, float] = {}

    def choices(place: Place) -> float:
        found = known.get(place)
        if found is None:
            known[place] = 0.0  # of a circle
            rules = place.rules
            made = math.fsum(math.log2(len(group)) for group in (*rules.any_of, *rules.one_of)) + len(rules.conditions)
            if place.negated is not None:
                ways = len(rules.enforced) + len(rules.properties or ()) + len(rules.required)
                containers = (each for each in rules.values or () if isinstance(each, (dict, list)))
                made += math.log2(ways + 1) + math.fsum(math.log2(len(each) + 2) for each in containers)
            below = {*rules.all_of, *rules.negations, *(each for branches in rules.one_of for each in branches)}
            below.update(each for group in rules.any_of for alternative in group for each in alternative)
            below.update(each for condition in rules.conditions for each in condition if each is not None)
            found = known[place] = made + math.fsum(map(choices, below))
        return found

    return [(many, place) for place in places if (many := choices(place)) > ENOUGH]


def _meets_limits(places: list[Place]) -> bool:
    """Whether conjunctions may meet a limit that is not about alternatives (``limits``), have several ``contains`` on
    an array, or several subschemas that some key must fail."""
    contains = sum(len(place.rules.contains) for place in places)
    wishes = 0
    tally = Tally()
    for place in places:
        if isinstance(place.contents, dict):
            tally.add(place.contents)
            tally.names += place.negated is not None and "propertyNames" in place.contents
        if place.negated is not None:
            rules = place.rules
            contains += rules.items is not None or rules.unevaluated_items is not None
            for each in (*(rules.pattern_properties or {}).values(), rules.additional, rules.unevaluated_properties):
                wishes += each is not None and each.rules.types != 0
    return contains > MAX_CONTAINS or wishes > MAX_WISHES or not tally.is_little


def _unsatisfiable(root: Node) -> UnsatisfiableGrammar:
    """Follow the reason down to the places that contradict each other."""
    node, seen = root, {root}
    demands: dict[str, None] = {}
    while True:
        below = None
        for case in node.parts.cases:
            for key in case.required:
                child = case.node(key)
                if child is not None and child not in seen and not child.satisfiable:
                    below = child
        for plan in node.parts.arrays:
            for child in plan.inputs():
                if child not in seen and not child.satisfiable:
                    below = child
        if below is None:
            break
        demanding = [f"{at.pointer}/{key}" for at in _together(node) for key in at.rules.enforced if key in _DEMANDS]
        demands = dict.fromkeys([*demanding, *demands])
        node = below
        seen.add(node)
    keywords: dict[str, None] = {}
    for place in _together(node):
        for key in place.rules.enforced:
            if key == "false":
                keywords[f"{place.pointer} (false)"] = None
            elif key not in ("allOf", "$ref"):
                keywords[f"{place.pointer}/{key}"] = None
        for name, each in (place.rules.properties or {}).items():
            if name in place.rules.required and not each.rules.types:
                keywords[each.pointer] = None
    found = [*keywords, *(each for each in demands if f"{each} (false)" not in keywords)]
    if len(found) > 1:
        said = "no value satisfies this schema; these contradict each other: " + ", ".join(found[:12])
    elif found and found[0].endswith(" (false)"):
        said = "the schema is false, which no value satisfies"
    else:
        said = f"no value satisfies {found[0] if found else 'this schema'}"
        said += ", which is empty" if any(place.rules.values == () for place in _together(node)) else ""
    return UnsatisfiableGrammar(said, pointer=node.places[0].pointer if node.places else "#")


_DEMANDS = {"required", "dependentRequired", "minProperties", "minItems", "contains", "minContains"}
"""Keywords that make a value be there."""


def _together(node: Node) -> list[Place]:
    """The first places that hold together in ``node``."""
    found: dict[Place, None] = dict.fromkeys(node.places)
    for place in list(found):
        queue = [place]
        while queue and len(found) < 20:
            at = queue.pop()
            found[at] = None
            queue += [each for each in at.rules.all_of if each not in found]
    return list(found)


class JsonMachine:
    """One JSON text. ``document`` keeps the places alive."""

    def __init__(self, root: Node, document: Document) -> None:
        self.root = root
        self.document = document

    @property
    def schema(self) -> Any:
        """The schema, as JSON values that belong to this machine."""
        return self.document.root.contents

    def start(self, bottom: Cell) -> Sequence[Thread]:
        layout = self.root.forest.style.layout
        lead = layout.blank if layout.outer is not None else None
        begun = self.root.cached_state("root", lambda: self.root.body if lead is None else seq(lead, self.root.body))
        if begun is None:
            return ()
        return (Thread(self.root.guarded(begun), bottom.push(_RootFrame(self.root, False))),)


class _RootFrame(NamedTuple):
    """The whole text."""

    node: Node
    ended: bool

    @property
    def view(self) -> Hashable:
        return self

    def follow(self, cell: Cell, outcome: int, text: bytes | None) -> Sequence[Thread]:
        if self.ended:
            return cell.parent.resume()
        below = cell.replace(_RootFrame(self.node, True))
        return self._end(below) if outcome == SCALAR else self.node.enter(outcome, below, 0)

    def resume(self, cell: Cell) -> Sequence[Thread]:
        return self._end(cell)

    def _end(self, cell: Cell) -> Sequence[Thread]:
        layout: Layout = self.node.forest.style.layout
        found = list(cell.parent.resume())
        if layout.outer is not None:
            blank = state(layout.outer)
            assert blank is not None
            found.append(Thread(blank, cell))
        return found
