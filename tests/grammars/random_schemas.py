"""Random JSON Schemas over the keywords that are built, documents for them, and walks over a machine."""

from __future__ import annotations

import json
import random
from typing import Any

from structgen.grammars import machine as m

KEYS = ["a", "b", "ab", "é", "x-1", ""]
PATTERNS = ["^a", "b$", "^[ab]+$", "^x-", "1", "^(a|ab)$"]
STRINGS = ["", "a", "b", "ab", "aab", "é", "😀", 'q"', "1"]
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
    _combined,
    _combined,
    _not,
    _if,
    _ref,
]


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
