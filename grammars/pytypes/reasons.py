"""Why a type cannot be used, for people: what pydantic says is about its own workings."""

from __future__ import annotations

import enum
import inspect
import re
import typing
from collections.abc import Mapping
from typing import Any

import pydantic
from pydantic_core import SchemaError

from structgen.errors import GrammarError

USABLE = (
    "pydantic models, dataclasses, TypedDict, NamedTuple, Enum, Literal, Optional and unions, list, tuple, "
    "set, dict, Annotated, str, int, float, bool, None, Decimal, datetime, date, time, timedelta, UUID, "
    "bytes, URLs and other types that pydantic can describe; functions; or a JSON Schema as a dict"
)


def type_name(target: Any) -> str:
    """A short name for messages."""
    if isinstance(target, type) and not typing.get_args(target):
        return target.__name__
    if typing.get_origin(target) is typing.Annotated:
        return f"Annotated[{type_name(typing.get_args(target)[0])}, ...]"
    return str(getattr(target, "__qualname__", target)) if inspect.isroutine(target) else str(target)


def unusable(target: Any, error: Exception, where: str = "") -> GrammarError:
    said = _no_type(target) or where + reason(error)
    return GrammarError(f"{type_name(target)} cannot be used as an output type: {said}.\nUsable: {USABLE}.")


def reason(error: Exception, names: Mapping[str, str] | None = None) -> str:
    """What is wrong, in one line without a period at its end.

    Args:
        names: what fields are called outside.
    """
    text = str(error).strip()
    if isinstance(error, SchemaError):
        return _refused(text, names or {})
    if "typing_extensions.TypedDict" in text:
        return "before Python 3.12 pydantic needs typing_extensions.TypedDict in place of typing.TypedDict"
    unknown = re.match(r"Unable to generate pydantic-core schema for (.*)\. Set `arbitrary", text, re.DOTALL)
    if unknown:
        named = re.fullmatch(r"<class '(?:.*\.)?([^.']+)'>", unknown[1])
        if named:
            return f"pydantic cannot describe the class {named[1]}; make it a dataclass or a pydantic model"
        return f"pydantic cannot describe {unknown[1]}"
    return text.split("\n", 1)[0].strip().removesuffix(".")


def _refused(text: str, names: Mapping[str, str]) -> str:
    """The reason of a ``SchemaError``, whose first lines lead to the place and whose last one says what is wrong."""
    where = "".join(f"{names.get(name, name)}: " for name in re.findall(r'Field "([^"]*)"', text))
    if "regex parse error:" in text:
        written = re.search(r"regex parse error:\n\s*(.*)\n\s*\^", text)
        said = text.rsplit("error: ", 1)[1]
        if "look-around" in said or "backreference" in said:
            said += (
                "; Python's re has them: write pattern=re.compile(...), or set regex_engine=\"python-re\" in the "
                "ConfigDict of the model"
            )
        return f"{where}pydantic cannot read the pattern{f' {written[1]}' if written else ''}: {said}"
    kinds = re.findall(r'Error building "([^"]*)"', text)
    said = re.sub(r"^\s*(?:\w+: )?", "", text.rsplit("\n", 1)[-1])
    return f"{where}an option of {kinds[-1]} is wrong: {said}" if kinds else where + said


def _no_type(target: Any) -> str | None:
    """What ``target`` is, if it is a value."""
    if isinstance(target, type) or typing.get_origin(target) is not None or inspect.isfunction(target):
        return None
    kind = type(target)
    if kind.__module__ in ("typing", "typing_extensions"):
        return "it needs types in brackets" if kind.__name__.endswith("SpecialForm") else None
    if inspect.isroutine(target):
        return "the arguments of a built-in function have no annotations; use a function written in Python"
    said = f"it is an object of the class {kind.__name__}, not a type"
    if isinstance(target, (list, tuple, set)):
        return f"{said}; write {kind.__name__}[...] with the types of its items"
    if isinstance(target, (enum.Enum, pydantic.BaseModel)) or hasattr(kind, "__dataclass_fields__"):
        return f"{said}; pass {kind.__name__} itself"
    return said
