"""Random JSON Schemas over the keywords that are built, documents for them, and walks over a machine."""

from __future__ import annotations

import json
import random
from typing import Any

from structgen.grammars import machine as m

KEYS = ["a", "b", "ab", "é", "x-1", ""]
PATTERNS = ["^a", "b$", "^[ab]+$", "^x-", "1", "^(a|ab)$"]
STRINGS = ["", "a", "b", "ab", "aab", "é", "😀", 'q"', "1", "2024-02-29", "2023-02-29", "1.2.3.4", "1.2.3.400"]
FORMATS = ["date", "ipv4", "unknown-format"]
NUMBERS: list[Any] = [0, 1, -1, 2, 3, 10, 0.5, -2.5, 12]


def value(rng: random.Random, depth: int = 2) -> Any:
    kind = rng.randrange(8 if depth else 5)
    if kind == 0:
        return rng.choice([None, True, False])
    if kind in (1, 2):
        return rng.choice(NUMBERS)
    if kind in (3, 4):
        return rng.choice(STRINGS)
    if kind == 5:
        return [value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {key: value(rng, depth - 1) for key in rng.sample(KEYS, rng.randrange(4))}


def schema(rng: random.Random, depth: int = 3) -> Any:
    """A draft 2020-12 schema."""
    if rng.random() < 0.08:
        return rng.random() < 0.7
    made: dict[str, Any] = {}
    for _ in range(rng.choice([1, 1, 2, 2, 3, 4])):
        add = rng.choice(_LEAVES if depth == 0 or rng.random() < 0.4 else _NESTED)
        add(rng, made, depth - 1)
    return made


def _type(rng: random.Random, s: dict[str, Any], depth: int) -> None:
    names = ["null", "boolean", "integer", "number", "string", "array", "object"]
    s["type"] = rng.choice(names) if rng.random() < 0.7 else rng.sample(names, rng.randrange(1, 4))


def _values(rng: random.Random, s: dict[str, Any], depth: int) -> None:
    if rng.random() < 0.4:
        s["const"] = value(rng, 1)
    else:
        s["enum"] = [value(rng, 1) for _ in range(rng.randrange(1, 5))]


def _numbers(rng: random.Random, s: dict[str, Any], depth: int) -> None:
    s[rng.choice(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"])] = rng.choice(NUMBERS)
    if rng.random() < 0.2:
        s["multipleOf"] = rng.choice([1, 2, 0.5, 1.5, 3])


def _strings(rng: random.Random, s: dict[str, Any], depth: int) -> None:
    which = rng.randrange(3)
    if which == 0:
        s["minLength"] = rng.randrange(4)
    elif which == 1:
        s["maxLength"] = rng.randrange(4)
    elif rng.random() < 0.3:
        s["format"] = rng.choice(FORMATS)
    else:
        s["pattern"] = rng.choice(PATTERNS)


def _properties(rng: random.Random, s: dict[str, Any], depth: int) -> None:
    s["properties"] = {key: schema(rng, depth) for key in rng.sample(KEYS, rng.randrange(1, 4))}


def _required(rng: random.Random, s: dict[str, Any], depth: int) -> None:
    s["required"] = rng.sample(KEYS, rng.randrange(1, 3))


def _additional(rng: random.Random, s: dict[str, Any], depth: int) -> None:
    s["additionalProperties"] = False if rng.random() < 0.5 else schema(rng, depth)


def _patterns(rng: random.Random, s: dict[str, Any], depth: int) -> None:
    s["patternProperties"] = {p: schema(rng, depth) for p in rng.sample(PATTERNS, rng.randrange(1, 3))}


def _counts(rng: random.Random, s: dict[str, Any], depth: int) -> None:
    s[rng.choice(["minProperties", "maxProperties", "minItems", "maxItems"])] = rng.randrange(4)


def _dependent(rng: random.Random, s: dict[str, Any], depth: int) -> None:
    if rng.random() < 0.7:
        s["dependentRequired"] = {rng.choice(KEYS): rng.sample(KEYS, rng.randrange(1, 3))}
    else:
        s["dependentSchemas"] = {rng.choice(KEYS): schema(rng, depth)}


def _names(rng: random.Random, s: dict[str, Any], depth: int) -> None:
    s["propertyNames"] = schema(rng, 0)


def _items(rng: random.Random, s: dict[str, Any], depth: int) -> None:
    if rng.random() < 0.7:
        s["items"] = schema(rng, depth)
    if rng.random() < 0.4:
        s["prefixItems"] = [schema(rng, depth) for _ in range(rng.randrange(1, 3))]


def _contains(rng: random.Random, s: dict[str, Any], depth: int) -> None:
    s["contains"] = schema(rng, min(depth, 1))
    if rng.random() < 0.5:
        s["minContains"] = rng.randrange(3)
    if rng.random() < 0.3:
        s["maxContains"] = rng.randrange(1, 3)


def _unique(rng: random.Random, s: dict[str, Any], depth: int) -> None:
    s["uniqueItems"] = rng.random() < 0.9


def _unevaluated(rng: random.Random, s: dict[str, Any], depth: int) -> None:
    keyword = rng.choice(["unevaluatedProperties", "unevaluatedProperties", "unevaluatedItems"])
    s[keyword] = False if rng.random() < 0.6 else schema(rng, min(depth, 1))
    if rng.random() < 0.8:
        add = rng.choice([_combined, _combined, _if, _dependent, _contains, _items, _properties])
        add(rng, s, depth)


def _combined(rng: random.Random, s: dict[str, Any], depth: int) -> None:
    s[rng.choice(["anyOf", "oneOf", "allOf"])] = [schema(rng, depth) for _ in range(rng.randrange(1, 4))]


def _not(rng: random.Random, s: dict[str, Any], depth: int) -> None:
    s["not"] = schema(rng, depth)


def _if(rng: random.Random, s: dict[str, Any], depth: int) -> None:
    s["if"] = schema(rng, depth)
    for key in ("then", "else"):
        if rng.random() < 0.7:
            s[key] = schema(rng, depth)


def _ref(rng: random.Random, s: dict[str, Any], depth: int) -> None:
    s["$ref"] = "#/$defs/" + rng.choice("pq")


def _unevaluated(rng: random.Random, s: dict[str, Any], depth: int) -> None:
    s[rng.choice(["unevaluatedProperties", "unevaluatedProperties", "unevaluatedItems"])] = (
        False if rng.random() < 0.6 else schema(rng, min(depth, 1))
    )


_LEAVES = [_type, _type, _type, _values, _numbers, _strings, _required, _counts]
_NESTED = [
    *_LEAVES,
    _properties,
    _properties,
    _properties,
    _required,
    _additional,
    _patterns,
    _dependent,
    _names,
    _items,
    _items,
    _contains,
    _unique,
    _unevaluated,
    _unevaluated,
    _combined,
    _combined,
    _not,
    _if,
    _ref,
    _unevaluated,
]


_CLOSED_NAMES: list[Any] = [
    {"pattern": "^(a|ab)$"},
    {"enum": ["a", "b", "ab", "é"]},
    {"maxLength": 1},
    {"not": {"pattern": "b$"}},
    {"minLength": 2},
]
_VALUES: list[Any] = [
    *(True, False, {"type": "integer"}, {"type": "string"}),
    *({"const": 1}, {"enum": [0, 1, "a"]}, {"minimum": 2}),
]


def keyed(rng: random.Random, depth: int = 2) -> Any:
    """A schema about the keys of an object: what all of them must hold, some of them, and how many there are."""
    made: dict[str, Any] = {}
    for _ in range(rng.randrange(1, 4)):
        which = rng.randrange(9)
        if which == 0:
            made["properties"] = {key: rng.choice(_VALUES) for key in rng.sample(KEYS, rng.randrange(1, 3))}
        elif which == 1:
            made["patternProperties"] = {key: rng.choice(_VALUES) for key in rng.sample(PATTERNS, rng.randrange(1, 3))}
        elif which == 2:
            made["additionalProperties"] = rng.choice(_VALUES)
        elif which == 3:
            made["propertyNames"] = rng.choice(_CLOSED_NAMES)
        elif which == 4:
            made["required"] = rng.sample(KEYS, rng.randrange(1, 3))
        elif which == 5:
            made["minProperties"] = rng.randrange(4)
        elif which == 6:
            made["maxProperties"] = rng.randrange(1, 4)
        elif which == 7:
            made["dependentRequired"] = {key: rng.sample(KEYS, rng.randrange(1, 3)) for key in rng.sample(KEYS, 2)}
        elif depth:
            made["dependentSchemas"] = {rng.choice(KEYS): keyed(rng, depth - 1)}
    for _ in range(rng.choice([0, 1, 1, 2]) if depth else 0):
        keyword = rng.choice(["not", "allOf", "anyOf", "oneOf", "if"])
        if keyword == "not":
            made["not"] = keyed(rng, depth - 1)
        elif keyword == "if":
            for key in ("if", "then", "else"):
                if key == "if" or rng.random() < 0.6:
                    made[key] = keyed(rng, depth - 1)
        else:
            made[keyword] = [keyed(rng, depth - 1) for _ in range(rng.randrange(1, 4))]
    if rng.random() < 0.3:
        made["type"] = "object"
    return made


def evaluating(rng: random.Random, depth: int = 2, items: str = "prefixItems") -> Any:
    """A schema that evaluates some members. ``items``: what the draft calls the schemas of the first items."""
    made: dict[str, Any] = {}
    for _ in range(rng.randrange(1, 3)):
        which = rng.randrange(9)
        if which == 0:
            made["properties"] = {key: rng.choice(_VALUES) for key in rng.sample(KEYS, rng.randrange(1, 3))}
        elif which == 1:
            made["patternProperties"] = {rng.choice(PATTERNS): rng.choice(_VALUES)}
        elif which == 2 and rng.random() < 0.4:
            made["additionalProperties"] = rng.choice(_VALUES)
        elif which in (3, 4):
            made[items] = [rng.choice(_VALUES) for _ in range(rng.randrange(1, 3))]
        elif which == 5 and rng.random() < 0.4:
            made["items" if items == "prefixItems" else "additionalItems"] = rng.choice(_VALUES)
        elif which == 6 and items == "prefixItems":
            # In 2019-09 contains evaluates nothing (core, section 9.3.1.3), but both validators say that it does.
            made["contains"] = rng.choice(_VALUES)
            if rng.random() < 0.4:
                made["minContains"] = rng.randrange(2)
        elif which == 7:
            made["required"] = rng.sample(KEYS, 1)
        elif rng.random() < 0.5:
            made["type"] = rng.choice(["object", "array", ["object", "array"], ["array", "integer"]])
    for _ in range(rng.choice([0, 1, 1, 2]) if depth else 0):
        keyword = rng.choice(["not", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "$ref"])
        if keyword == "not":
            made["not"] = evaluating(rng, depth - 1, items)
        elif keyword == "if":
            for key in ("if", "then", "else"):
                if key == "if" or rng.random() < 0.6:
                    made[key] = evaluating(rng, depth - 1, items)
        elif keyword == "dependentSchemas":
            made[keyword] = {rng.choice(KEYS): evaluating(rng, depth - 1, items)}
        elif keyword == "$ref":
            made[keyword] = "#/$defs/p"
        else:
            made[keyword] = [evaluating(rng, depth - 1, items) for _ in range(rng.randrange(1, 4))]
    if rng.random() < (0.9 if depth == 2 else 0.25):
        made[rng.choice(["unevaluatedProperties", "unevaluatedItems"])] = rng.choice([False, False, *_VALUES])
    return made


def evaluating_root(rng: random.Random, items: str = "prefixItems") -> Any:
    """The same with a definition, which is recursive below a member."""
    made = evaluating(rng, 2, items)
    definition = evaluating(rng, 1, items)
    definition.pop("$ref", None)
    text = json.dumps(definition)
    if "$ref" in text:
        definition = {}
    if rng.random() < 0.3:
        definition["properties"] = {"b": {"$ref": "#/$defs/p"}}
    made["$defs"] = {"p": definition}
    return made


def members(rng: random.Random, n: int = 12) -> list[Any]:
    """Flat objects and arrays of what ``_VALUES`` speak of."""
    scalars = [0, 1, 2, 3, "a", "b", None, 0.5]
    found: list[Any] = []
    for _ in range(n):
        if rng.random() < 0.6:
            found.append({key: rng.choice(scalars) for key in rng.sample([*KEYS, "aab", "1"], rng.randrange(5))})
        elif rng.random() < 0.85:
            found.append([rng.choice(scalars) for _ in range(rng.randrange(5))])
        else:
            found.append({"b": {"b": {rng.choice(KEYS): rng.choice(scalars)}}})
    return found


def root(rng: random.Random) -> Any:
    """A schema with definitions, one of them recursive below a property."""
    made = schema(rng)
    if not isinstance(made, dict):
        return made
    made["$defs"] = {
        "p": {
            "type": ["object", "integer"],
            "properties": {"a": {"$ref": "#/$defs/p"}, "b": schema(rng, 1)},
            "required": rng.choice([[], ["b"], ["a"]]),
        },
        "q": _no_refs(schema(rng, 1)),
    }
    return made


DRAFTS = {
    "4": "http://json-schema.org/draft-04/schema#",
    "6": "http://json-schema.org/draft-06/schema#",
    "7": "http://json-schema.org/draft-07/schema#",
    "2019-09": "https://json-schema.org/draft/2019-09/schema",
    "2020-12": "https://json-schema.org/draft/2020-12/schema",
}


def in_draft(made: Any, draft: str) -> Any:
    """The schema ``root`` made, with the keywords of another draft, which it names."""
    text = json.dumps(_older(made, draft))
    if draft in ("4", "6", "7"):
        text = text.replace("#/$defs/", "#/definitions/")
    found = json.loads(text)
    return {"$schema": DRAFTS[draft], **found} if isinstance(found, dict) else found


def _older(made: Any, draft: str) -> Any:
    old = draft in ("4", "6", "7")
    if isinstance(made, bool):
        return made if draft != "4" else {} if made else {"not": {}}
    s: dict[str, Any] = {}
    for key, each in made.items():
        if key in ("enum", "const", "required", "dependentRequired", "type"):
            s[key] = each
        elif key in ("properties", "patternProperties", "dependentSchemas", "$defs"):
            s[key] = {name: _older(part, draft) for name, part in each.items()}
        elif isinstance(each, list):
            s[key] = [_older(part, draft) for part in each]
        elif isinstance(each, dict) or (isinstance(each, bool) and key != "uniqueItems"):
            s[key] = _older(each, draft)
        else:
            s[key] = each
    if draft == "2020-12":
        return s
    if "prefixItems" in s:
        if "items" in s:
            s["additionalItems"] = s.pop("items")
        s["items"] = s.pop("prefixItems")
    if not old:
        return s
    for key in ("minContains", "maxContains", "unevaluatedItems", "unevaluatedProperties"):
        s.pop(key, None)
    if "dependentRequired" in s or "dependentSchemas" in s:
        s["dependencies"] = {**s.pop("dependentRequired", {}), **s.pop("dependentSchemas", {})}
    if "$defs" in s:
        s["definitions"] = s.pop("$defs")
    if draft != "7":
        for key in ("if", "then", "else"):
            s.pop(key, None)
    if draft == "4":
        for key in ("contains", "propertyNames"):
            s.pop(key, None)
        if "const" in s:
            s["enum"] = [s.pop("const")]
        for bound in ("Minimum", "Maximum"):
            if "exclusive" + bound in s:
                s[bound.lower()] = s["exclusive" + bound]
                s["exclusive" + bound] = True
        s = {key: each for key, each in s.items() if each != [] or key not in ("required", "enum")}
    return s


def _no_refs(made: Any) -> Any:
    """Without references, so that no circle arises."""
    text = json.dumps(made)
    return True if "$ref" in text else made


def documents(rng: random.Random, made: Any, n: int = 12) -> list[Any]:
    """Values, many of them near the constants that the schema names."""
    pool: list[Any] = []
    queue = [made]
    while queue:
        at = queue.pop()
        if isinstance(at, dict):
            pool += at.get("enum", []) if isinstance(at.get("enum"), list) else []
            if "const" in at:
                pool.append(at["const"])
            queue += at.values()
        elif isinstance(at, list):
            queue += at

    def near(depth: int) -> Any:
        if pool and rng.random() < 0.3:
            return rng.choice(pool)
        if depth and rng.random() < 0.6:
            if rng.random() < 0.75:
                return {key: near(depth - 1) for key in rng.sample(KEYS, rng.randrange(5))}
            return [near(depth - 1) for _ in range(rng.randrange(4))]
        return value(rng, depth)

    return [near(rng.randrange(4)) for _ in range(n)]


def spelled(rng: random.Random, data: Any, blanks: tuple[str, ...] = ("", "", " ", "\n  ")) -> str:
    """``data`` as JSON text with random blanks and escapes; keys keep their order."""

    def blank() -> str:
        return rng.choice(blanks)

    if isinstance(data, dict):
        members = [
            f"{blank()}{_string(rng, k)}{blank()}:{blank()}{spelled(rng, v, blanks)}{blank()}" for k, v in data.items()
        ]
        return "{" + (",".join(members) or blank()) + "}"
    if isinstance(data, list):
        return "[" + (",".join(f"{blank()}{spelled(rng, v, blanks)}{blank()}" for v in data) or blank()) + "]"
    return _string(rng, data) if isinstance(data, str) else json.dumps(data)


def _string(rng: random.Random, text: str) -> str:
    if rng.random() < 0.7:
        return json.dumps(text, ensure_ascii=rng.random() < 0.5)
    units = [text.encode("utf-16-be")[i : i + 2] for i in range(0, 2 * len(text.encode("utf-16-be")) // 2, 2)]
    return '"' + "".join(f"\\u{int.from_bytes(u, 'big'):04{rng.choice('xX')}}" for u in units) + '"'


def walk(rng: random.Random, machine: m.Machine, steps: int = 60) -> str | None:
    """Random legal bytes; the text if it came to an end, None if it was cut. Raises AssertionError in a dead end."""
    threads = m.start(machine)
    data = bytearray()
    for _ in range(steps):
        if m.can_end(threads) and rng.random() < 0.5:
            return data.decode()
        order = list(b'"}]{[:,ab01 ') + list(range(256))
        if rng.random() < 0.7:
            front = order[:12]
            rng.shuffle(front)
            order[:12] = front
        else:
            rng.shuffle(order)
        for byte in order:
            after = m.step(threads, byte)
            if after:
                threads = after
                data.append(byte)
                break
        else:
            assert m.can_end(threads), f"dead end after {bytes(data)!r}"
            return data.decode()
    return None
