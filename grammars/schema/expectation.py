"""What may come next in a JSON text, in words, found by trying it on the machine; and which keywords say so."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from structgen.errors import GrammarError
from structgen.grammars import machine as m
from structgen.grammars.machine import Machine, Thread
from structgen.grammars.residual import LOCK
from structgen.grammars.schema.document import Place, escaped
from structgen.grammars.schema.keywords import Rules
from structgen.grammars.schema.literals import places_for, satisfies
from structgen.grammars.schema.position import COLON, KEY, NEXT, VALUE, Position

Threads = tuple[Thread, ...]

MOST_WORDS = 12
_MOST_TRIED = 2_000
_MOST_NODES = 400
_OTHER_KEY = "\u2053 any other \u2053"
_PRINTABLE = [bytes([byte]) for byte in (*range(0x20, 0x7F), *range(0xC2, 0xF5))]
# The fields of ``Rules`` that a keyword fills, and those that say which members it is about.
_FIELDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "type": ("types", ()),
    "enum": ("values", ()),
    "const": ("values", ()),
    "minLength": ("min_length", ()),
    "maxLength": ("max_length", ()),
    "pattern": ("patterns", ()),
    "format": ("formats", ()),
    "minimum": ("lo", ()),
    "exclusiveMinimum": ("lo", ()),
    "maximum": ("hi", ()),
    "exclusiveMaximum": ("hi", ()),
    "multipleOf": ("multiples", ()),
    "required": ("required", ()),
    "properties": ("properties", ()),
    "patternProperties": ("pattern_properties", ()),
    "additionalProperties": ("additional", ("properties", "pattern_properties")),
    "propertyNames": ("names", ()),
    "minProperties": ("min_properties", ()),
    "maxProperties": ("max_properties", ()),
    "dependentRequired": ("dependents", ()),
    "dependencies": ("dependents", ()),
    "prefixItems": ("prefix", ()),
    "items": ("items", ("prefix",)),
    "additionalItems": ("items", ("prefix",)),
    "minItems": ("min_items", ()),
    "maxItems": ("max_items", ()),
    "uniqueItems": ("unique", ()),
    "contains": ("contains", ()),
    "not": ("negations", ()),
    "anyOf": ("any_of", ()),
    "oneOf": ("one_of", ()),
    "if": ("conditions", ()),
}


class Demand(NamedTuple):
    """A keyword that a value has to do with: its JSON pointer in the schema, and what it says there."""

    pointer: str
    value: Any


class Probe:
    """A machine that texts are tried on. Whitespace should be free, so that a number shows where it may end."""

    def __init__(self, machine: Machine, places: Iterable[Place]) -> None:
        self.machine = machine
        self.places = tuple(places)

    def start(self) -> Threads:
        with LOCK:
            return m.start(self.machine)

    def read(self, threads: Threads, data: bytes) -> Threads:
        with LOCK:
            return m.read(threads, data)

    def ends(self, threads: Threads) -> bool:
        with LOCK:
            return m.can_end(threads)

    # -- words

    def expected(self, threads: Threads, at: Position) -> list[str]:
        """What may stand at the start of the token at ``at``; ``threads`` are those before it."""
        if at.role == VALUE:
            words = self._values(threads)
            if at.first and self.read(threads, b"]"):
                words.append("the end of the array")
            return words
        if at.role == KEY:
            words = self._keys(threads, at)
            if at.first and self.read(threads, b"}"):
                words.append("the end of the object")
            return words
        if at.role == COLON:
            return ["a colon"]
        if at.role == NEXT:
            return list(self._after_member(threads, at))
        return ["the end of the text"]

    def missing(self, threads: Threads, at: Position) -> list[str]:
        """The keys without which the object that ``at`` stands in cannot end, as far as they are known."""
        if at.container != "{" or at.role not in (KEY, NEXT) or self.read(threads, b"}"):
            return []
        required = dict.fromkeys(key for place in self.places for key in place.rules.required if key not in at.keys)
        if at.role == NEXT:
            threads = self.read(threads, b",")
        return [key for key in list(required)[:_MOST_TRIED] if self.read(threads, _spelled(key))]

    def _after_member(self, threads: Threads, at: Position) -> Iterator[str]:
        closing, name = ("}", "object") if at.container == "{" else ("]", "array")
        comma = self.read(threads, b",")
        closes = bool(self.read(threads, closing.encode()))
        if comma:
            after = self._keys(comma, at) if at.container == "{" else []
            yield "a comma and " + (_joined(after, at.container) if after else "another item")
        if closes:
            yield f"the end of the {name}"

    def _keys(self, threads: Threads, at: Position) -> list[str]:
        known: dict[str, None] = {}
        for place in self.places:
            known.update(dict.fromkeys(place.rules.properties or ()))
            known.update(dict.fromkeys(place.rules.required))
        legal = [key for key in list(known)[:_MOST_TRIED] if self.read(threads, _spelled(key) + b":")]
        words = _shown([json.dumps(key, ensure_ascii=False) for key in legal])
        if self.read(threads, _spelled(_OTHER_KEY)):
            words.append("any other key" if words else "any key")
        else:
            begun = self.read(threads, b'"')
            first = {_spelled(key)[1:2] for key in legal}
            if begun and any(byte not in first and byte != b"\\" and self.read(begun, byte) for byte in _PRINTABLE):
                patterns = {p: None for place in self.places for p in place.rules.pattern_properties or ()}
                shown = f" ({', '.join(list(patterns)[:3])})" if patterns else ""
                words.append(f"a key of the form that the schema allows{shown}")
        return words

    def _values(self, threads: Threads) -> list[str]:
        spelled = {
            _spelled(value): None
            for place in self.places
            for value in place.rules.values or ()
            if not isinstance(value, (dict, list, tuple))
        }
        literals = [each for each in list(spelled)[:_MOST_TRIED] if self._whole(self.read(threads, each), each)]
        words: list[str] = []
        for kind, open_words in (("string", self._strings), ("number", self._numbers)):
            same = [each for each in literals if (each[:1] == b'"') == (kind == "string") and not each.isalpha()]
            words += open_words(threads, same)
        words += [each.decode() for each in (b"null", b"true", b"false") if self._whole(self.read(threads, each))]
        words += [f"an {name}" for byte, name in ((b"{", "object"), (b"[", "array")) if self.read(threads, byte)]
        if words == ["a string", "a number", "null", "true", "false", "an object", "an array"]:
            return ["any value"]
        return words

    def _strings(self, threads: Threads, literals: list[bytes]) -> list[str]:
        begun = self.read(threads, b'"')
        if not begun:
            return []
        found = self._enumerated(begun, b'"')
        if found is None:
            return ["a string"]
        return _shown(list(dict.fromkeys([each.decode() for each in literals] + [f'"{each}' for each in found])))

    def _numbers(self, threads: Threads, literals: list[bytes]) -> list[str]:
        starts = {bytes([byte]) for byte in b"0123456789-" if self.read(threads, bytes([byte]))}
        if not starts:
            return []
        if literals and len(literals) <= MOST_WORDS and starts <= {each[:1] for each in literals}:
            return [each.decode() for each in literals]
        bounds = [b.value for place in self.places for b in (place.rules.lo, place.rules.hi) if b is not None]
        near = {int(bound) + step for bound in bounds[:40] if abs(bound) < 10**40 for step in (-1, 0, 1)}
        tried = sorted({*near, 0, 1, -1, 7, 10, 50, 1000})
        wholes = any(self._whole(self.read(threads, b"%d" % each)) for each in tried)
        fractions = any(self._whole(self.read(threads, b"%d.5" % each)) for each in tried)
        return ["an integer" if wholes and not fractions else "a number"]

    def _enumerated(self, threads: Threads, end: bytes) -> list[str] | None:
        """All texts up to ``end``, as far as no escapes are needed; None: too many to list."""
        found: list[str] = []
        stack: list[tuple[Threads, bytes]] = [(threads, b"")]
        nodes = 0
        while stack:
            at, before = stack.pop()
            nodes += 1
            after = [(byte, self.read(at, byte)) for byte in _PRINTABLE]
            after = [(byte, left) for byte, left in after if left and byte != b"\\"]
            if len(after) > 40 or nodes > _MOST_NODES or len(found) > 5 * MOST_WORDS:
                return None
            for byte, left in reversed(after):
                if byte == end:
                    found.append((before + byte).decode("utf-8", "replace"))
                else:
                    stack.append((left, before + byte))
        return found

    def _whole(self, threads: Threads, spelled: bytes = b"") -> bool:
        return bool(threads) and (spelled[:1] == b'"' or self.ends(threads) or bool(self.read(threads, b" ")))

    def after(self, threads: Threads) -> list[str]:
        """The characters that may follow inside a token; none when they are many."""
        legal = [byte for byte in _PRINTABLE if self.read(threads, byte)]
        return [] if len(legal) > MOST_WORDS else [byte.decode("latin-1") for byte in legal]


# ------------------------------------------------------------------------------------------ keywords that say so


def places_at(root: Place, path: Sequence[str | int]) -> list[Place]:
    """The subschemas that may have to do with the value at ``path``, whatever branch they stand in."""
    now = together([root])
    for token in path:
        below: list[Place] = []
        for place in now:
            if isinstance(token, str):
                below += places_for(place.rules, token)
            elif token < len(place.rules.prefix):
                below.append(place.rules.prefix[token])
            elif place.rules.items is not None:
                below.append(place.rules.items)
        now = together(below)
    return now


def together(places: list[Place]) -> list[Place]:
    """These places and all that speak of the same value."""
    found: dict[Place, None] = dict.fromkeys(places)
    queue = list(found)
    while queue and len(found) < 500:
        rules = queue.pop(0).rules
        below = list(rules.all_of)
        for group in rules.any_of:
            below += [place for alternative in group for place in alternative]
        for branches in rules.one_of:
            below += branches
        for condition in rules.conditions:
            below += [place for place in condition[1:] if place is not None]
        for place in below:
            if place not in found:
                found[place] = None
                queue.append(place)
    return list(found)


def demands(places: Iterable[Place], value: Any) -> list[Demand]:
    """The keywords of ``places`` that ``value`` does not satisfy."""
    found: list[Demand] = []
    for place in places:
        if place.contents is False:
            found.append(Demand(place.pointer, False))
        if isinstance(place.contents, dict):
            for keyword in place.rules.enforced:
                if keyword in _FIELDS and keyword in place.contents and _violates(place, keyword, value):
                    found.append(Demand(f"{place.pointer}/{escaped(keyword)}", place.contents[keyword]))
    return found


def _violates(place: Place, keyword: str, value: Any) -> bool:
    field, beside = _FIELDS[keyword]
    made = Rules(place)
    try:
        for each in beside:
            setattr(made, each, getattr(place.rules, each))
        if beside and not satisfies(made, value):
            return False
        setattr(made, field, getattr(place.rules, field))
        return not satisfies(made, value)
    except (RecursionError, GrammarError):
        return False


def _spelled(value: Any) -> bytes:
    if isinstance(value, Decimal):
        return str(value).encode()
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _shown(words: list[str]) -> list[str]:
    if len(words) <= MOST_WORDS:
        return words
    return [*words[:MOST_WORDS], f"{len(words) - MOST_WORDS} more"]


def _joined(words: list[str], container: str) -> str:
    if container == "{" and len(words) == 1 and words[0].startswith('"'):
        return f"the key {words[0]}"
    if container == "{" and words[0].startswith('"'):
        return f"one of the keys {', '.join(words)}"
    return ", ".join(words)
