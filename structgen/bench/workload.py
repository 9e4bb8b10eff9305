"""What the benchmarks run when nothing else is given: structured tasks and free prompts."""

from __future__ import annotations

from typing import Any

_TEXT = {"type": "string", "maxLength": 60}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


SCHEMAS: dict[str, Any] = {
    "person": _object(name=_TEXT, age={"type": "integer", "minimum": 0, "maximum": 130}, email=_TEXT),
    "weather": _object(
        city=_TEXT, unit={"enum": ["celsius", "fahrenheit"]}, days={"type": "integer", "minimum": 1, "maximum": 14}
    ),
    "invoice": _object(
        number={"type": "string", "pattern": "^INV-[0-9]{4}$"},
        lines={"type": "array", "maxItems": 3, "items": _object(item=_TEXT, price={"type": "number", "minimum": 0})},
        paid={"type": "boolean"},
    ),
    "event": _object(
        title=_TEXT, day={"type": "string", "format": "date"}, guests={"type": "array", "items": _TEXT, "maxItems": 4}
    ),
    "tree": {
        "$defs": {"node": _object(label=_TEXT, left={"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]})},
        "$ref": "#/$defs/node",
    },
    "choice": {
        "anyOf": [_object(kind={"const": "call"}, number=_TEXT), _object(kind={"const": "mail"}, address=_TEXT)]
    },
}

TASKS = (
    ("person", "Describe Ann Lee, who is 31 and writes from ann@example.org."),
    ("weather", "How will the weather be in Oslo in the next three days?"),
    ("invoice", "An invoice for two chairs and a table, already paid."),
    ("event", "A party for Tom's birthday with three friends."),
    ("tree", "A small tree with two nodes."),
    ("choice", "Ring 555 0100."),
)

PROMPTS = (
    "The history of the bicycle begins",
    "A good recipe for bread needs",
    "In the city of Bergen it rains because",
    "The difference between a list and a tuple is",
    "Once upon a time there was a fox who",
    "The first thing to learn about chess is",
    "Honey bees make honey by",
    "To change a tyre you first",
)
