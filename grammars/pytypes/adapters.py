"""pydantic's adapter of a type, and what to say where there is none."""

from __future__ import annotations

import enum
import functools
import operator
import sys
import types
import typing
from typing import Annotated, Any, cast

import pydantic
import typing_extensions
from pydantic_core import SchemaError

from structgen.errors import GrammarError, UnsatisfiableGrammar
from structgen.grammars.pytypes.reasons import USABLE, type_name, unusable

Adapter = pydantic.TypeAdapter[Any]
UNDESCRIBED = (
    pydantic.errors.PydanticUserError, SchemaError, NameError, TypeError, AttributeError, RecursionError, ImportError,
)  # fmt: skip
"""What pydantic raises for types that it cannot describe (ImportError: a package that the type needs)."""


def adapter(target: Any) -> Adapter:
    """The adapter of a type, from a cache where it can be hashed; an adapter is taken as it is.

    Raises:
        GrammarError: no type, or one that pydantic cannot describe.
        UnsatisfiableGrammar: ``Never``.
    """
    if isinstance(target, (str, bytes, int, float)) and not isinstance(target, enum.Enum):
        hint = " (a JSON Schema text must be parsed first: json.loads)" if isinstance(target, str) else ""
        raise GrammarError(f"{target!r} is not a type{hint}.\nUsable: {USABLE}.")
    if target is typing.NoReturn or target is typing_extensions.Never:
        raise UnsatisfiableGrammar(f"{type_name(target)}: no value is of this type")
    try:
        hash(target)
    except TypeError:
        return _make(target)
    return _cached(target)


def _make(target: Any) -> Adapter:
    try:
        made: Adapter = target if isinstance(target, pydantic.TypeAdapter) else pydantic.TypeAdapter(modern(target))
        made.core_schema  # noqa: B018  (a forward reference that cannot be resolved shows here)
    except UNDESCRIBED as error:
        raise unusable(target, error) from error
    return made


# Bounded: types made in a loop must not pile up.
_cached = functools.lru_cache(maxsize=256)(_make)


def modern(target: Any) -> Any:
    """``typing.TypedDict`` classes made anew with ``typing_extensions``: pydantic asks for it before 3.12."""
    if sys.version_info >= (3, 12):
        return target
    if typing.is_typeddict(target) and type(target).__module__ == "typing":
        fields: dict[str, Any] = {}
        for name, hint in typing_extensions.get_type_hints(target, include_extras=True).items():
            required, bare = _requirement(hint)
            if required is None:  # no marker: total=True or False of its class
                required = name in target.__required_keys__
            marker: Any = typing_extensions.Required if required else typing_extensions.NotRequired
            fields[name] = marker[modern(bare)]
        make: Any = typing_extensions.TypedDict
        made = make(target.__name__, fields)
        made.__doc__ = target.__doc__
        if hasattr(target, "__pydantic_config__"):
            made.__pydantic_config__ = target.__pydantic_config__
        return made
    arguments = typing.get_args(target)
    origin = typing.get_origin(target)
    if not arguments or origin is typing.Literal or origin is None:
        return target
    new = tuple(modern(a) for a in arguments)
    if all(now is old for now, old in zip(new, arguments, strict=True)):
        return target
    if origin is Annotated:
        return cast(Any, Annotated).__class_getitem__((new[0], *target.__metadata__))
    if hasattr(target, "copy_with"):
        return target.copy_with(new)
    return functools.reduce(operator.or_, new) if isinstance(target, types.UnionType) else origin[new]


def _requirement(hint: Any) -> tuple[bool | None, Any]:
    """Whether ``Required`` or ``NotRequired`` stands around ``hint`` (None: neither), and what is inside."""
    origin = typing.get_origin(hint)
    for module in (typing, typing_extensions):
        for name, required in (("Required", True), ("NotRequired", False)):
            if origin is not None and origin is getattr(module, name, None):
                return required, typing.get_args(hint)[0]
    return None, hint
