"""What the benchmarks run when nothing else is given: structured tasks and free prompts."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from structgen.errors import GrammarError

_TEXT = {"type": "string", "maxLength": 60}


@dataclass(frozen=True, slots=True)
class Sample:
    """A schema with documents that satisfy it (JSON texts; may be none)."""

    name: str
    schema: Any
    documents: tuple[str, ...] = ()


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


def built_in() -> Iterator[Sample]:
    """The schemas above, without documents."""
    for name, schema in SCHEMAS.items():
        yield Sample(name, schema)


def read_samples(where: str) -> Iterator[Sample]:
    """Samples of a ``.json`` schema, a ``.jsonl`` file (also .xz, .gz), or a folder of either.

    A line, or a file, is a schema, or an object with ``schema``, perhaps ``name``, and perhaps ``tests``: a list of
    ``{"valid": true, "data": ...}`` (the layout of JSONSchemaBench).

    Raises:
        GrammarError: nothing there, or no JSON.
    """
    path = Path(where)
    if path.is_dir():
        found = [p for p in sorted(path.rglob("*")) if p.is_file() and ".json" in p.name]
        if not found:
            raise GrammarError(f"the folder {where!r} holds no .json or .jsonl files")
        for one in found:
            yield from _read_file(one)
        return
    if not path.is_file():
        raise GrammarError(f"there is no file or folder {where!r}")
    yield from _read_file(path)


def _read_file(path: Path) -> Iterator[Sample]:
    opener: Any = {".xz": lzma.open, ".gz": gzip.open}.get(path.suffix, open)
    with opener(path, "rt", encoding="utf-8") as file:
        texts = enumerate(file, 1) if ".jsonl" in path.name else [(1, file.read())]
        for number, text in texts:
            if not text.strip():
                continue
            try:
                found = json.loads(text)
            except json.JSONDecodeError as error:
                line = number if ".jsonl" in path.name else error.lineno
                raise GrammarError(f"{path} is not JSON: {error.msg}", line=line, column=error.colno) from error
            yield _sample(found, f"{path.name}:{number}" if ".jsonl" in path.name else path.name)


def _sample(found: Any, name: str) -> Sample:
    if not isinstance(found, dict) or "schema" not in found:
        return Sample(name, found)
    valid = [test["data"] for test in found.get("tests", ()) if test.get("valid")]
    documents = tuple(json.dumps(data, ensure_ascii=False) for data in valid)
    return Sample(str(found.get("name", name)), found["schema"], documents)
