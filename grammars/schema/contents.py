"""What a caller gives as a schema: checked to be JSON, and copied, so that later changes to it change no grammar."""

from __future__ import annotations

import json
import marshal
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from structgen.errors import GrammarError, GrammarTooComplex
from structgen.grammars.schema.dialects import escaped


def identity(schema: Any) -> str | bytes | None:
    """Equal for schemas whose texts are equal, and for no others: ``1``, ``1.0`` and ``true`` differ, and so do
    members in another order. None where that cannot be told quickly.

    The second version of ``marshal``'s format depends on the types and values alone, not on which objects are shared;
    it is several times as fast as ``json.dumps``, and refuses subclasses."""
    if type(schema) is str:
        return schema
    try:
        return marshal.dumps(schema, 2)
    except ValueError:
        return None


class Contents(NamedTuple):
    """A schema as JSON values that nobody else holds, and what was seen in passing.

    Attributes:
        schema: the schema.
        has_dynamic_anchors: a ``$dynamicAnchor`` or ``$recursiveAnchor`` may stand somewhere in it.
        is_timeless: it surely has a meaning in the newest draft (``dialects.newest_draft``).
    """

    schema: Any
    has_dynamic_anchors: bool = True
    is_timeless: bool = False


def private(schema: Any, known: str | bytes | None = None) -> Contents:
    """``schema`` (or the schema that it is the text of), checked and copied.

    Args:
        known: its ``identity``, where the caller has it.

    Raises:
        GrammarError: it is no JSON, or neither an object nor a boolean.
        GrammarTooComplex: it is a text nested too deeply to be read.
    """
    if isinstance(schema, str):
        contents = _read(schema)
    else:
        known = identity(schema) if known is None else known
        if known is None:
            _check(schema)
            return Contents(_with_decimals(_copied(schema)))
        assert isinstance(known, bytes)
        contents = marshal.loads(known)
    seen = _look_through(contents)
    if seen is None:
        _check(contents)
        return Contents(_with_decimals(contents))
    return seen


_LONG = 10**4_000
"""Python neither reads nor writes integers of a little more digits; in schemas they are decimals."""
_SCALARS = frozenset((str, int, float, bool, Decimal, type(None)))
_NOTED = frozenset(("$dynamicAnchor", "$recursiveAnchor", "items", "exclusiveMinimum", "exclusiveMaximum"))


def _look_through(schema: Any) -> Contents | None:
    """What is seen in ``schema``, which does not hold itself; None unless it is an object or a boolean, and JSON."""
    if type(schema) is not dict:
        return Contents(schema, False, True) if type(schema) is bool else None
    stack: list[Any] = [schema]
    has_anchors, is_timeless = False, True
    while stack:
        at = stack.pop()
        if type(at) is dict:
            try:
                "".join(at)  # the quickest way to see that all keys are texts
            except TypeError:
                return None
            if not _NOTED.isdisjoint(at):
                has_anchors = has_anchors or "$dynamicAnchor" in at or "$recursiveAnchor" in at
                is_timeless = is_timeless and not (
                    type(at.get("items")) is list
                    or type(at.get("exclusiveMinimum")) is bool
                    or type(at.get("exclusiveMaximum")) is bool
                )
            at = at.values()
        for each in at:
            kind = type(each)
            if kind is dict or kind is list:
                stack.append(each)
            elif kind is not str and (kind not in _SCALARS or (kind is int and not -_LONG < each < _LONG)):
                return None
    return Contents(schema, has_anchors, is_timeless)


class FarDecimal(Decimal):
    """A number whose exponent is beyond ``Decimal``, which only an annotation may have. It is not finite, and shows
    as it is spelled."""

    __slots__ = ("spelled",)
    spelled: str

    def __new__(cls, spelled: str) -> FarDecimal:
        made = super().__new__(cls, "NaN")
        made.spelled = spelled
        return made

    def __str__(self) -> str:
        return self.spelled if len(self.spelled) < 60 else self.spelled[:30] + "..." + self.spelled[-25:]

    __repr__ = __str__


def _read(text: str) -> Any:
    try:
        try:
            return json.loads(text, parse_float=Decimal)
        except (InvalidOperation, ValueError) as error:
            if isinstance(error, json.JSONDecodeError):
                raise
            return json.loads(text, parse_float=_decimal, parse_int=Decimal)  # some number is very long or far
    except json.JSONDecodeError as error:
        raise GrammarError(f"the schema is no JSON: {error.msg}", line=error.lineno, column=error.colno) from None
    except RecursionError:
        raise GrammarTooComplex("the schema is nested too deeply to be read") from None


def _decimal(spelled: str) -> Decimal:
    try:
        return Decimal(spelled)
    except InvalidOperation:
        digits, _, _ = spelled.lower().partition("e")
        return FarDecimal(spelled) if digits.strip("-0.") else Decimal(0)


def _with_decimals(contents: Any) -> Any:
    """``contents``, its integers of very many digits replaced by decimals."""
    queue = [contents]
    seen: set[int] = set()
    while queue:
        at = queue.pop()
        if not isinstance(at, (dict, list)) or id(at) in seen:
            continue
        seen.add(id(at))
        for key, value in at.items() if isinstance(at, dict) else enumerate(at):
            if isinstance(value, int) and not -_LONG < value < _LONG:
                at[key] = Decimal(value)
            else:
                queue.append(value)
    return contents


def _check(schema: Any) -> None:
    """Raise GrammarError for what JSON cannot hold: keys that are no text, values of other types, circles."""
    if not isinstance(schema, (dict, bool)):
        raise GrammarError(f"a JSON Schema is an object or a boolean, not {type(schema).__name__}", pointer="#")
    stack: list[tuple[Any, str, bool]] = [(schema, "#", False)]
    above: set[int] = set()
    while stack:
        value, pointer, leave = stack.pop()
        if leave:
            above.discard(id(value))
        elif isinstance(value, (dict, list, tuple)):
            if id(value) in above:
                raise GrammarError("the schema contains itself; use $ref for recursion", pointer=pointer)
            above.add(id(value))
            stack.append((value, pointer, True))
            if isinstance(value, dict):
                for key in value:
                    if not isinstance(key, str):
                        raise GrammarError(f"the key {key!r} is no text", pointer=pointer)
                stack += [(part, f"{pointer}/{escaped(key)}", False) for key, part in value.items()]
            else:
                stack += [(part, f"{pointer}/{i}", False) for i, part in enumerate(value)]
        elif value is not None and not isinstance(value, (str, bool, int, float, Decimal)):
            raise GrammarError(f"{value!r} ({type(value).__name__}) is no JSON value", pointer=pointer)
        elif type(value) is Decimal and not value.is_finite():
            raise GrammarError(f"{value!r} is no JSON value", pointer=pointer)


def _copied(schema: Any) -> Any:
    """``schema``, which is JSON, however deeply nested. What stands in a tuple stays as it is."""
    copies: dict[int, Any] = {}
    made = [schema]
    queue: list[Any] = [made]
    while queue:
        at = queue.pop()
        for key, value in at.items() if isinstance(at, dict) else enumerate(at):
            if isinstance(value, (dict, list)):
                copy = copies.get(id(value))
                if copy is None:
                    copy = copies[id(value)] = dict(value) if isinstance(value, dict) else list(value)
                    queue.append(copy)
                at[key] = copy
    return made[0]
