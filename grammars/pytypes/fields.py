"""The members of models, dataclasses and TypedDicts, by the names under which pydantic looks for them.

A field is written under one name or path: its alias, the first single name among ``AliasChoices``, else the first
path, else its own name. Other names that the parser looks at (further choices, the field's own name with
``validate_by_name``) may hold the same values where keys are free, since the parser reads them there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from structgen.errors import UnsupportedGrammar

Schema = dict[str, Any]
Path = tuple[str | int, ...]

ALSO = "x-structgen-also"
"""Private keyword of an object: properties that are second spellings."""


@dataclass(frozen=True, slots=True)
class Member:
    """One field: where it is written first, where else the parser looks, and what it holds."""

    path: Path
    others: tuple[Path, ...]
    schema: Schema
    required: bool


def paths(name: str, alias: Any, *, by_alias: bool, by_name: bool, required: bool) -> tuple[Path, tuple[Path, ...]]:
    """The first path of a field, and the others at which the parser may look while the first is there or need not be.

    Args:
        alias: ``validation_alias`` of a core schema: a name, a path, or a list of paths; None without one.
        required: the first path is always there, so that what the parser tries after it does not count.
    """
    if alias is None or not by_alias:
        return (name,), ()
    if isinstance(alias, str):
        found: list[Path] = [(alias,)]
    elif alias and isinstance(alias[0], list):
        found = [tuple(path) for path in alias]
    else:
        found = [tuple(alias)]
    first = next((path for path in found if len(path) == 1), found[0])
    if required:
        found = found[: found.index(first)]
    elif by_name:
        found.append((name,))
    return first, tuple(path for path in dict.fromkeys(found) if path != first)


@dataclass(slots=True)
class _Tree:
    """What stands at one place: schemas of fields, and the places below."""

    schemas: list[Schema] = field(default_factory=list)
    below: dict[str | int, _Tree] = field(default_factory=dict)
    required: bool = False

    def put(self, path: Path, schema: Schema, required: bool) -> None:
        tree = self
        for step in path:
            tree = tree.below.setdefault(step, _Tree())
            tree.required |= required
        if schema not in tree.schemas:
            tree.schemas.append(schema)


def object_of(members: list[Member], *, closed: bool, where: str) -> Schema:
    """The object schema of ``members``.

    Args:
        closed: no key may be there where no field is found; else second spellings are checked as the parser does.
        where: the class, for messages.

    Raises:
        UnsupportedGrammar: paths that no object can have, or that JSON Schema cannot follow.
    """
    tree = _Tree()
    for member in members:
        tree.put(member.path, member.schema, member.required)
    names = list(tree.below)
    also: dict[str, Schema] = {}
    if not closed:
        second = _Tree()
        for member in members:
            for path in member.others:
                if path[0] not in tree.below:
                    second.put(path, member.schema, False)
                elif len(path) > 1:
                    tree.put(path, member.schema, False)
        also = {str(name): _at(part, where, loose=True, closed=False) for name, part in second.below.items()}
    properties = {str(name): _at(tree.below[name], where, loose=False, closed=closed) for name in names}
    made: Schema = {"type": "object", "properties": {**properties, **also}}
    required = [str(name) for name in names if tree.below[name].required]
    if required:
        made["required"] = required
    if also:
        made[ALSO] = list(also)
    return made


def _at(tree: _Tree, where: str, *, loose: bool, closed: bool) -> Schema:
    """The schema of a place.

    Args:
        loose: where something else stands, the parser looks elsewhere; so no type is demanded.
        closed: one of the fields below must be found.
    """
    parts = list(tree.schemas)
    steps = tree.below
    if steps:
        inner = {step: _at(part, where, loose=loose, closed=closed) for step, part in steps.items()}
        names = [step for step in steps if isinstance(step, str)]
        numbers = [step for step in steps if isinstance(step, int) and step >= 0]
        if len(names) == len(steps):
            below: Schema = {"type": "object", "properties": inner}
            required = [name for name in names if steps[name].required]
            if required:
                below["required"] = required
            elif closed:
                below["anyOf"] = [{"required": [name]} for name in names]
        elif len(numbers) == len(steps):
            below = {"type": "array", "prefixItems": [inner.get(n, True) for n in range(max(numbers) + 1)]}
            least = max((n + 1 for n in numbers if steps[n].required), default=min(numbers) + 1 if closed else 0)
            if least:
                below["minItems"] = least
        else:
            raise UnsupportedGrammar(
                f"{where}: AliasPath with a negative index, or with keys and indices at one place, has no JSON Schema"
            )
        if loose or parts:
            below.pop("type")
        parts.append(below)
    return parts[0] if len(parts) == 1 else {"allOf": parts}


def alias_settings(config: Mapping[str, Any]) -> tuple[bool, bool]:
    """Whether fields are looked for by alias, and by name."""
    by_alias = config.get("validate_by_alias")
    by_name = config.get("validate_by_name") or config.get("populate_by_name")
    return by_alias is not False, bool(by_name)
