"""Object cases: what one conjunction demands of an object."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from structgen.errors import GrammarTooComplex
from structgen.grammars.residual import when_replaced
from structgen.grammars.schema.completion import Completion, Written
from structgen.grammars.schema.expand import referred
from structgen.grammars.schema.fresh import Feature, Fresh, Wish, readings, spellable
from structgen.grammars.schema.keywords import Rules, SomeKey
from structgen.grammars.schema.literals import accepts, in_scope, places_for

if TYPE_CHECKING:
    from structgen.grammars.schema.document import Place
    from structgen.grammars.schema.nodes import Forest, Node, Style

MAX_WISHES = 6
MAX_ANY = 32
"""The same where any value will do."""


_SPECIAL = frozenset(("dependents", "names", "pattern_properties", "some"))
"""Fields of ``Rules`` that say more of keys than most objects do."""


@lru_cache(maxsize=16)
def any_fresh(style: Style) -> Fresh:
    """Other keys of which nothing is said, shared by all grammars of a style."""
    from structgen.grammars.schema.nodes import any_value

    return Fresh(any_value(style).forest, (), (), None, ())


when_replaced(any_fresh.cache_clear)


class ObjectCase:
    """What one conjunction demands of an object."""

    def __init__(self, forest: Forest, rules: tuple[Rules, ...]) -> None:
        self.forest = forest
        self.rules = rules
        self._nodes: dict[tuple[str, int], Node | None] = {}
        self._readings: dict[str, tuple[int, ...]] = {}
        self._inputs: list[Node] | None = None
        self._only: Rules | None = None
        """All that is said of keys and their values, but for wishes."""
        self.dependents: dict[str, tuple[str, ...]] = {}
        self.names: tuple[Place, ...] = ()
        self.wishes: tuple[SomeKey, ...] = ()
        if len(rules) == 1 and _SPECIAL.isdisjoint(vars(rules[0])):
            self._read_simple(rules[0])
        else:
            self._read(rules)

    def _read_simple(self, rule: Rules) -> None:
        """What most objects demand, read at once."""
        self._only = rule
        self.min_properties, self.max_properties = rule.min_properties, rule.max_properties
        self.required: dict[str, None] = dict.fromkeys(rule.required)
        self.keys = tuple(dict.fromkeys((*(rule.properties or ()), *rule.required)))
        anything = rule.additional is None or rule.additional.contents is True
        self.fresh = any_fresh(self.forest.style) if anything else self._make_fresh()

    def _read(self, rules: tuple[Rules, ...]) -> None:
        self.min_properties = max((rule.min_properties for rule in rules), default=0)
        limits = [rule.max_properties for rule in rules if rule.max_properties is not None]
        self.max_properties = min(limits) if limits else None
        self.required = {key: None for rule in rules for key in rule.required}
        for rule in rules:
            for key, wanted in (rule.dependents or {}).items():
                self.dependents[key] = self.dependents.get(key, ()) + tuple(w for w in wanted if w != key)
        self.dependents = {key: wanted for key, wanted in self.dependents.items() if wanted}
        self.names = tuple(dict.fromkeys(place for rule in rules for place in rule.names))
        if len(rules) == 1 and not self.names and not rules[0].pattern_properties:
            self._only = rules[0]
        self.wishes = self._make_wishes()
        keys: dict[str, None] = {}
        for rule in rules:
            keys.update(dict.fromkeys(rule.properties or ()))
            for wish in rule.some:
                keys.update(dict.fromkeys(wish.keys))
        keys.update(self.required)
        for key, wanted in self.dependents.items():
            keys[key] = None
            keys.update(dict.fromkeys(wanted))
        self.keys = tuple(keys)
        self.fresh = self._make_fresh()

    def _make_wishes(self) -> tuple[SomeKey, ...]:
        """The wishes, without repetitions."""
        found: dict[object, SomeKey] = {}
        for rule in self.rules:
            for wish in rule.some:
                value = referred(wish.value)
                key = (frozenset(wish.keys), frozenset(wish.without), wish.pattern, wish.name)
                found[key, None if value.rules.empty else value] = wish._replace(value=value)
        if sum(not wish.value.rules.empty for wish in found.values()) > MAX_WISHES or len(found) > MAX_ANY:
            raise GrammarTooComplex(
                f"for more than {MAX_WISHES} subschemas some key must fail it (additionalProperties, "
                "patternProperties, propertyNames under not, or in a oneOf whose branches overlap)",
                pointer=self.rules[0].place.pointer,
            )
        return tuple(found.values())

    def _make_fresh(self) -> Fresh:
        features: dict[Feature, int] = {}
        layers = []
        for rule in self.rules:
            if not rule.pattern_properties and (rule.additional is None or rule.additional.rules.empty):
                continue
            pairs = tuple(
                (features.setdefault(pattern, len(features)), place)
                for pattern, place in (rule.pattern_properties or {}).items()
            )
            layers.append((pairs, rule.additional))
        wishes = []
        for wish in self.wishes:
            needed = barred = 0
            for feature in (wish.pattern, wish.name):
                if feature is not None:
                    needed |= 1 << features.setdefault(feature, len(features))
            for pattern in wish.without:
                barred |= 1 << features.setdefault(pattern, len(features))
            wishes.append(Wish(needed, barred, None if wish.value.rules.empty else wish.value))
        names = self.forest.node(self.names) if self.names else None
        key = (tuple(features), tuple(layers), names, tuple(wishes))
        made: Fresh = self.forest.interned(
            key, lambda: Fresh(self.forest, tuple(features), tuple(layers), names, tuple(wishes))
        )
        return made

    def node(self, key: str, met: int = 0) -> Node | None:
        """The node of the value of ``key``, counted for the wishes ``met``; None when the key itself is forbidden by
        propertyNames."""
        if (key, met) not in self._nodes:
            allowed = all(accepts(place, key) for place in self.names)
            places = [place for rule in self.rules for place in places_for(rule, key)]
            places += [wish.value for i, wish in enumerate(self.wishes) if met >> i & 1]
            self._nodes[key, met] = self.forest.node(places) if allowed and spellable(key) else None
        return self._nodes[key, met]

    def takes(self, key: str, truth: Callable[[Node], bool]) -> bool:
        """Whether ``key`` may be there, given which nodes have values."""
        if self._takes_plainly(key):
            return True
        node = self.node(key)
        return node is not None and truth(node)

    def _takes_plainly(self, key: str) -> bool:
        """Whether a glance shows that ``key`` may be there."""
        if self._only is None:
            return False
        properties = self._only.properties
        place = properties.get(key) if properties else None
        place = self._only.additional if place is None else place
        return (place is None or place.document.has_values(place)) and spellable(key)

    def readings(self, key: str) -> tuple[int, ...]:
        """The sets of wishes for which ``key`` may be counted, largest first."""
        found = self._readings.get(key)
        if found is None:
            scope = sum(1 << i for i, wish in enumerate(self.wishes) if in_scope(wish, key))
            places = tuple(None if wish.value.rules.empty else wish.value for wish in self.wishes)
            found = self._readings[key] = tuple(readings(places, scope))
        return found

    def inputs(self) -> list[Node]:
        """Nodes whose satisfiability decides that of the case."""
        if self._inputs is None:
            self._inputs = self._make_inputs()
        return self._inputs

    def _make_inputs(self) -> list[Node]:
        keys = self.keys if self.min_properties or self.dependents or self.wishes else tuple(self.required)
        found = [
            node
            for key in keys
            for met in ({0, *self.readings(key)} if self.wishes else (0,))
            if not (met == 0 and self._takes_plainly(key)) and (node := self.node(key, met)) is not None
        ]
        if self.min_properties > len(self.required) or self.wishes:
            found += self.fresh.inputs()
        return found

    def everything(self) -> list[Node]:
        """The nodes of all values."""
        found = [
            node
            for key in self.keys
            for met in ({0, *self.readings(key)} if self.wishes else (0,))
            if (node := self.node(key, met)) is not None
        ]
        return found + self.fresh.inputs()

    def needs(self, keys: Iterator[str] | list[str]) -> set[str]:
        """The keys, and all that they depend on."""
        found: set[str] = set()
        queue = list(keys)
        while queue:
            key = queue.pop()
            if key not in found:
                found.add(key)
                queue.extend(self.dependents.get(key, ()))
        return found

    def feasible(self, truth: Callable[[Node], bool]) -> bool:
        """Whether an object exists, given which nodes have values."""
        need = self.needs(list(self.required))
        if self.max_properties is not None and max(len(need), self.min_properties) > self.max_properties:
            return False
        if not all(self.takes(key, truth) for key in need):
            return False
        if self.min_properties <= len(need) and not self.wishes:
            return True
        whole = Completion(self, self.keys, truth)
        return whole.possible(Written(0, (1 << len(self.keys)) - 1, unmet=(1 << len(self.wishes)) - 1))
