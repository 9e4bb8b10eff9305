"""Fresh keys: those of an object that no schema names."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from structgen.errors import GrammarTooComplex
from structgen.grammars.encoding import JSON_CANONICAL
from structgen.grammars.expr import NEVER, Expr, alt, both, neg, seq, tagged
from structgen.grammars.residual import State, state
from structgen.grammars.schema import languages
from structgen.grammars.schema.document import Place
from structgen.grammars.schema.scalars import QUOTE, pattern_expr

if TYPE_CHECKING:
    from structgen.grammars.schema.nodes import Forest, Node

MAX_SUBSETS = 4
MAX_PATTERNS = 8


def decode_key(spelled: bytes) -> str:
    """The key that ``spelled`` (blanks, quotes and all) means."""
    decoded: str = json.loads(spelled)
    return decoded


class Fresh:
    """Keys that are not declared: their language, and what their values must be.

    Args:
        layers: for each rule of the conjunction its patterns (as numbers) with their places, and the place
            for keys that match none of them.
    """

    def __init__(
        self,
        forest: Forest,
        patterns: tuple[str, ...],
        layers: tuple[tuple[tuple[tuple[int, Place], ...], Place | None], ...],
        names: Node | None,
    ) -> None:
        self.forest = forest
        self.patterns = patterns
        self.layers = layers
        self.names = names
        self._nodes: dict[int, Node] = {}
        self._body: Expr | None = None
        self._open: bool | None = None
        self._states: dict[tuple[frozenset[str] | None, int], State | None] = {}

    def node(self, bits: int) -> Node:
        """The node of the value of a key that matches exactly the patterns in ``bits``."""
        found = self._nodes.get(bits)
        if found is None:
            places = []
            for pairs, rest in self.layers:
                matched = [place for i, place in pairs if bits >> i & 1]
                places += matched
                if not matched and rest is not None:
                    places.append(rest)
            found = self._nodes[bits] = self.forest.node(places)
        return found

    @property
    def subsets(self) -> range:
        return range(1 << len(self.patterns))

    def inputs(self) -> list[Node]:
        """Nodes whose satisfiability decides which keys there are."""
        if len(self.patterns) <= MAX_PATTERNS:
            return [self.node(bits) for bits in self.subsets]
        return [self.node(0), self.forest.node([place for pairs, _ in self.layers for _, place in pairs])]

    def _bad(self, truth: Callable[[Node], bool]) -> set[int]:
        """The pattern sets whose keys can have no value."""
        if len(self.patterns) > MAX_SUBSETS:
            # One node that demands everything: if it has values, so has every weaker one.
            every = [place for pairs, _ in self.layers for _, place in pairs]
            if len(self.layers) > 1:
                every += [rest for _, rest in self.layers if rest is not None]
            if truth(self.forest.node(every)):
                return set() if truth(self.node(0)) else {0}
        if len(self.patterns) > MAX_PATTERNS:
            raise GrammarTooComplex(
                f"more than {MAX_PATTERNS} different patternProperties that contradict each other apply to one object",
                pointer=self.layers[0][0][0][1].pointer,
            )
        return {bits for bits in self.subsets if not truth(self.node(bits))}

    @property
    def _same_for_all(self) -> bool:
        """The value does not depend on the patterns that a key matches."""
        return len(self.patterns) <= MAX_SUBSETS and len({self.node(bits) for bits in self.subsets}) == 1

    def body(self, truth: Callable[[Node], bool]) -> Expr:
        """The inside of a key whose value can be satisfied."""
        encoding = self.forest.style.encoding
        base = encoding.any_text if self.names is None else self.names.parts.texts
        bad = self._bad(truth)
        if not bad:
            return base
        if len(bad) == 1 << len(self.patterns):
            return NEVER
        found = [pattern_expr(pattern, encoding) for pattern in self.patterns]
        parts = []
        no_other = 0 in bad
        if no_other:
            parts.append(alt(*found))
        bad.discard(0)
        ruled_out: list[int] = []
        for bits in sorted(bad, key=int.bit_count):
            if any(bits & low == low for low in ruled_out):
                continue
            inside = [found[i] for i in range(len(found)) if bits >> i & 1]
            if all(more in bad for more in self.subsets if more & bits == bits):
                ruled_out.append(bits)
            else:
                inside += [neg(found[i]) for i in range(len(found)) if not bits >> i & 1]
            parts.append(neg(both(*inside)))
        if self.names is not None or not no_other:
            parts.append(base)
        return both(*parts)

    @property
    def language(self) -> Expr:
        if self._body is None:
            self._body = self.body(lambda node: node.satisfiable)
        return self._body

    @property
    def open(self) -> bool:
        """Keys cannot run out, wherever one has got to."""
        if self._open is None:
            self._open = self.language is NEVER or languages.endless(self.language)
        return self._open

    def left(self, taken: frozenset[str]) -> Expr:
        """The keys that are not ``taken``."""
        if self.open or not taken:
            return self.language
        return both(self.language, neg(self.forest.style.encoding.words(dict.fromkeys(sorted(taken), 0))))

    def start(self, taken: frozenset[str], depth: int) -> State | None:
        """The terminal of a key. Its outcome is the set of patterns that the key matches."""
        key = (None if self.open else taken, depth)
        if key not in self._states:
            layout, encoding = self.forest.style.layout, self.forest.style.encoding
            left = self.left(taken)
            lead = layout.before_item(depth)
            whole = NEVER if left is NEVER else seq(lead, QUOTE, left, QUOTE)
            if whole is not NEVER and not self._same_for_all:
                whole = tagged(whole, [seq(lead, QUOTE, pattern_expr(p, encoding), QUOTE) for p in self.patterns])
            self._states[key] = state(whole)
        return self._states[key]

    def at_least(self, wanted: int, taken: frozenset[str], truth: Callable[[Node], bool] | None = None) -> bool:
        """Whether ``wanted`` more keys exist."""
        if wanted <= 0:
            return True
        if truth is not None:
            language = self.body(truth)
            if taken:
                language = both(language, neg(self.forest.style.encoding.words(dict.fromkeys(sorted(taken), 0))))
            return _distinct(language) >= wanted
        if self.open:
            return self.language is not NEVER
        return _distinct(self.left(taken)) >= wanted


def _distinct(language: Expr) -> int:
    """How many keys (up to a limit): every text has one canonical spelling."""
    if language is NEVER or languages.endless(language):
        return 0 if language is NEVER else languages.MANY
    return languages.size(both(language, JSON_CANONICAL.any_text))
