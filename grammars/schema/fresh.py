"""Fresh keys: those of an object that no schema names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from structgen.errors import GrammarTooComplex
from structgen.grammars.expr import NEVER, Expr, alt, both, literal, matches, neg, seq, tagged
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


Feature = str | Place
"""A regular expression that is found in a key, or a subschema that the key satisfies."""


class Wish(NamedTuple):
    """Some key that has all features in ``needed`` and none in ``barred`` has a value that satisfies ``place``
    (None: any value)."""

    needed: int
    barred: int
    place: Place | None


def readings(wishes: tuple[Place | None, ...], open_to: int) -> Iterator[int]:
    """The sets of wishes for which a key may be counted that is in the scope of ``open_to``, largest first. Those for
    any value come along by themselves."""
    free = sum(1 << i for i in range(len(wishes)) if open_to >> i & 1 and wishes[i] is None)
    subset = others = open_to & ~free
    while True:
        yield subset | free
        if not subset:
            return
        subset = (subset - 1) & others


class Fresh:
    """Keys that are not declared: their language, and what their values must be. The *class* of a key is the set of
    features that it has, as bits.

    Args:
        layers: for each rule of the conjunction its patterns (as numbers of features) with their places, and the
            place for keys that match none of them.
    """

    def __init__(
        self,
        forest: Forest,
        features: tuple[Feature, ...],
        layers: tuple[tuple[tuple[tuple[int, Place], ...], Place | None], ...],
        names: Node | None,
        wishes: tuple[Wish, ...] = (),
    ) -> None:
        self.forest = forest
        self.features = features
        self.layers = layers
        self.names = names
        self.wishes = wishes
        self._nodes: dict[tuple[int, int], Node] = {}
        self._body: Expr | None = None
        self._open: bool | None = None
        self._states: dict[tuple[frozenset[str], int, int | None], State | None] = {}
        self._parts: dict[int, Expr] = {}
        self._supplies: dict[tuple[int, int, frozenset[str]], bool] = {}
        if wishes and len(features) > MAX_PATTERNS:
            raise GrammarTooComplex(
                f"more than {MAX_PATTERNS} different patterns and propertyNames apply to one object, and some key must "
                "fail what they demand",
                pointer=next((each.place.pointer for each in wishes if each.place is not None), None),
            )

    def node(self, bits: int, met: int = 0) -> Node:
        """The node of the value of a key of the class ``bits`` that is counted for the wishes ``met``."""
        found = self._nodes.get((bits, met))
        if found is None:
            places = []
            for pairs, rest in self.layers:
                matched = [place for i, place in pairs if bits >> i & 1]
                places += matched
                if not matched and rest is not None:
                    places.append(rest)
            for i, wish in enumerate(self.wishes):
                if met >> i & 1 and wish.place is not None:
                    places.append(wish.place)
            found = self._nodes[bits, met] = self.forest.node(places)
        return found

    def readings(self, bits: int) -> list[int]:
        """The sets of wishes for which a key of the class ``bits`` may be counted, largest first."""
        scope = sum(
            1 << i
            for i, wish in enumerate(self.wishes)
            if bits & wish.needed == wish.needed and not bits & wish.barred
        )
        return list(readings(tuple(wish.place for wish in self.wishes), scope))

    def _feature(self, i: int) -> Expr:
        """The keys that have the feature."""
        feature = self.features[i]
        if isinstance(feature, str):
            return pattern_expr(feature, self.forest.style.encoding)
        return self.forest.node((feature,)).parts.texts

    @property
    def subsets(self) -> range:
        return range(1 << len(self.features))

    def inputs(self) -> list[Node]:
        """Nodes whose satisfiability decides which keys there are."""
        if self.wishes:
            return [self.node(bits, met) for bits in self.subsets for met in {0, *self.readings(bits)}]
        if len(self.features) <= MAX_PATTERNS:
            return [self.node(bits) for bits in self.subsets]
        return [self.node(0), self.forest.node([place for pairs, _ in self.layers for _, place in pairs])]

    def _bad(self, truth: Callable[[Node], bool]) -> set[int]:
        """The pattern sets whose keys can have no value."""
        if len(self.features) > MAX_SUBSETS:
            # One node that demands everything: if it has values, so has every weaker one.
            every = [place for pairs, _ in self.layers for _, place in pairs]
            if len(self.layers) > 1:
                every += [rest for _, rest in self.layers if rest is not None]
            if truth(self.forest.node(every)):
                return set() if truth(self.node(0)) else {0}
        if len(self.features) > MAX_PATTERNS:
            raise GrammarTooComplex(
                f"more than {MAX_PATTERNS} different patternProperties that contradict each other apply to one object",
                pointer=self.layers[0][0][0][1].pointer,
            )
        return {bits for bits in self.subsets if not truth(self.node(bits))}

    def check(self) -> None:
        """Raises GrammarTooComplex for more patterns than are told apart."""
        if len(self.features) > MAX_PATTERNS:
            self._bad(lambda node: node.satisfiable)

    @property
    def _same_for_all(self) -> bool:
        """The value does not depend on the features of a key."""
        if self.wishes or len(self.features) > MAX_SUBSETS:
            return False
        return len({self.node(bits) for bits in self.subsets}) == 1

    @cached_property
    def _only_class(self) -> int | None:
        """The class of all usable keys, where that is in plain sight."""
        if self.wishes or not 0 < len(self.features) <= MAX_SUBSETS:
            return None
        good = [bits for bits in self.subsets if self.node(bits).satisfiable]
        return good[0] if len(good) == 1 else None

    @property
    def _base(self) -> Expr:
        return self.forest.style.encoding.any_text if self.names is None else self.names.parts.texts

    def body(self, truth: Callable[[Node], bool]) -> Expr:
        """The inside of a key whose value can be satisfied."""
        base = self._base
        bad = self._bad(truth)
        if not bad:
            return base
        if len(bad) == 1 << len(self.features):
            return NEVER
        found = [self._feature(i) for i in range(len(self.features))]
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

    def part(self, classes: int) -> Expr:
        """The insides of the keys of some classes (bit b: keys whose class is b), usable or not."""
        found = self._parts.get(classes)
        if found is None:
            found = self._parts[classes] = self._part(classes)
        return found

    def _part(self, classes: int) -> Expr:
        every = (1 << (1 << len(self.features))) - 1
        if classes == every:
            return self._base
        with_feature = []
        for i in range(len(self.features)):
            having = sum(1 << bits for bits in self.subsets if bits >> i & 1)
            expr = self._feature(i)
            if classes == having:
                return both(self._base, expr)
            if classes == every & ~having:
                return both(self._base, neg(expr))
            with_feature.append(expr)
        return alt(
            *(
                both(self._base, *(each if bits >> i & 1 else neg(each) for i, each in enumerate(with_feature)))
                for bits in self.subsets
                if classes >> bits & 1
            )
        )

    def supplies(self, classes: int, wanted: int, taken: frozenset[str]) -> bool:
        """Whether there are ``wanted`` keys of some classes that are not ``taken``."""
        key = (classes, wanted, taken)
        found = self._supplies.get(key)
        if found is None:
            part = self.part(classes)
            number = languages.distinct(part, wanted + len(taken))
            found = number >= wanted + len(taken)
            if not found and number >= wanted:
                found = number - sum(_contains(part, each) for each in taken) >= wanted
            self._supplies[key] = found
        return found

    def few(self, limit: int, kind: int) -> bool:
        """Whether there are usable keys of the class ``kind``, but fewer than ``limit``. (Without wishes all are one
        class.)"""
        if self.wishes:
            known = 1 << kind
            return self.supplies(known, 1, frozenset()) and not self.supplies(known, limit, frozenset())
        return self.language is not NEVER and not self.at_least(limit, frozenset())

    def start(self, taken: frozenset[str], depth: int, classes: int | None = None) -> State | None:
        """The terminal of a key that is not ``taken``, of some classes (None: of all that are usable). Its outcome is
        the class of the key."""
        language = self.language if classes is None else self.part(classes)
        is_open = self.open if classes is None else languages.endless(language)
        taken = frozenset() if is_open else self._scarce(language, taken)
        key = (taken, depth, classes)
        if key not in self._states:
            lead = self.forest.style.layout.before_item(depth)
            left = self._without(language, taken)
            only = self._only_class if classes is None else None
            whole = NEVER if left is NEVER else seq(lead, QUOTE, left, QUOTE if only is None else literal(b'"', only))
            if whole is not NEVER and only is None and not self._same_for_all:
                whole = tagged(whole, [seq(lead, QUOTE, self._feature(i), QUOTE) for i in range(len(self.features))])
            self._states[key] = state(whole)
        return self._states[key]

    def at_least(self, wanted: int, taken: frozenset[str], truth: Callable[[Node], bool] | None = None) -> bool:
        """Whether ``wanted`` more keys exist."""
        if wanted <= 0:
            return True
        if truth is None and self.open:
            return self.language is not NEVER
        language = self.language if truth is None else self.body(truth)
        if languages.raw(language) >= wanted + len(taken):
            return True
        return languages.distinct(self._without(language, taken), wanted) >= wanted

    def scarce(self, taken: frozenset[str]) -> frozenset[str]:
        """Those of the keys that may leave nothing behind what begins them, where they are ``taken``. The others make
        no difference before the end of a key."""
        if self.open:
            return frozenset()
        return self._scarce(self.language, taken)

    def _scarce(self, language: Expr, taken: frozenset[str]) -> frozenset[str]:
        others = 1 << len(taken).bit_length()  # few different numbers, so that answers are met again
        return frozenset(key for key in taken if spellable(key) and not languages.is_spare(language, key, others))

    def _without(self, language: Expr, taken: frozenset[str]) -> Expr:
        spelled = [key for key in sorted(taken) if spellable(key)]
        if not spelled:
            return language
        return both(language, neg(self.forest.style.encoding.words(dict.fromkeys(spelled, 0))))


@lru_cache(maxsize=4096)
def _contains(part: Expr, key: str) -> bool:
    return spellable(key) and matches(part, json.dumps(key, ensure_ascii=False)[1:-1].encode())


def spellable(text: str) -> bool:
    """Whether a JSON text may hold it: no half of a surrogate pair."""
    return text.isascii() or not any(0xD800 <= ord(char) <= 0xDFFF for char in text)
