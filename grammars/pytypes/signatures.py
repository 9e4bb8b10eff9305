"""Functions as types: the JSON object of a function's arguments.

Every parameter is a property, required unless it has a default. ``*args`` is an array under its own name; ``**kwargs``
are the keys beside the parameters, or the keys of its ``Unpack[TypedDict]``. Docstrings are not read.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_origin

import pydantic
import typing_extensions
from pydantic.fields import FieldInfo

from structgen.errors import GrammarError
from structgen.grammars.pytypes.adapters import UNDESCRIBED, modern
from structgen.grammars.pytypes.reasons import reason, type_name

_UNPACK = (typing_extensions.Unpack, getattr(typing, "Unpack", None))  # they differ before 3.12
_KINDS = (types.FunctionType, types.MethodType, functools.partial)  # built-in functions have no annotations


def is_function(target: Any) -> bool:
    """Whether ``target`` is a function or method written in Python, or a ``functools.partial``; not a type."""
    return isinstance(target, _KINDS)


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one function.

    Attributes:
        model: fields ``p0``, ``p1``, ..., so that parameters may have any name; the names are their aliases.
        names: field -> parameter (or key of ``**kwargs``).
        filled: fields whose default only pydantic knows (``x: int = Field(default=3)``).
    """

    model: type[pydantic.BaseModel]
    names: Mapping[str, str]
    filled: frozenset[str]


def arguments_of(function: Callable[..., Any]) -> Arguments:
    """Read a signature.

    Raises:
        GrammarError: it cannot be read, or pydantic cannot describe a parameter.
    """
    try:
        return _cached(function)
    except TypeError:  # no hash: a partial of a list
        return _make(function)


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters, annotations evaluated."""
    try:
        signature = inspect.signature(function)
        inner: Any = function
        while isinstance(inner, functools.partial):
            inner = inner.func
        hints = typing_extensions.get_type_hints(inspect.unwrap(inner), include_extras=True)
    except (ValueError, TypeError, NameError, AttributeError) as error:
        raise GrammarError(f"the arguments of {type_name(function)} cannot be read: {error}") from error
    return [p.replace(annotation=hints.get(p.name, Any)) for p in signature.parameters.values()]


def _make(function: Callable[..., Any]) -> Arguments:
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    filled = set()
    extra: Any = None
    for parameter in _parameters(function):
        annotation, default = modern(parameter.annotation), parameter.default
        if parameter.kind is parameter.VAR_KEYWORD:
            if get_origin(annotation) in _UNPACK:
                _unpack(get_args(annotation)[0], fields, names)
            else:
                extra = annotation
            continue
        field = f"p{len(fields)}"
        names[field] = parameter.name
        if parameter.kind is parameter.VAR_POSITIONAL:
            fields[field] = (tuple[annotation, ...], ())  # type: ignore[valid-type]
        else:
            fields[field] = (annotation, ... if default is parameter.empty else default)
            if default is parameter.empty or isinstance(default, FieldInfo):
                filled.add(field)
    name = getattr(function, "__name__", "arguments")
    config = pydantic.ConfigDict(
        extra="forbid" if extra is None else "allow", title=name, alias_generator=lambda field: names.get(field, field)
    )
    extras = {"__pydantic_extra__": dict[str, extra]} if extra is not None else {}
    try:
        base = types.new_class(
            "Base", (pydantic.BaseModel,), exec_body=lambda s: s.update(model_config=config, __annotations__=extras)
        )
        model: type[pydantic.BaseModel] = pydantic.create_model(name, __base__=base, __module__=__name__, **fields)
    except UNDESCRIBED as error:
        raise GrammarError(
            f"the arguments of {type_name(function)} cannot be generated: {reason(error, names)}. Annotate its "
            "parameters with types that JSON can spell, or bind the others with functools.partial."
        ) from error
    known = {f for f in filled if not model.model_fields[f].is_required()}
    return Arguments(model, names, frozenset(known))


# Bounded: functions made in a loop must not pile up.
_cached = functools.lru_cache(maxsize=256)(_make)


def _unpack(hint: Any, fields: dict[str, Any], names: dict[str, str]) -> None:
    for name, annotation in typing_extensions.get_type_hints(hint).items():
        field = f"p{len(fields)}"
        names[field] = name
        default = ... if name in hint.__required_keys__ else pydantic.Field(default_factory=lambda: None)
        fields[field] = (modern(annotation), default)


def values(arguments: Arguments, value: pydantic.BaseModel) -> dict[str, Any]:
    """What the text gives, by the names of the parameters, and the defaults that Python does not fill in."""
    given = value.model_fields_set | arguments.filled
    found = {name: getattr(value, field) for field, name in arguments.names.items() if field in given}
    return {**found, **(value.__pydantic_extra__ or {})}


def bind(function: Callable[..., Any], values: Mapping[str, Any]) -> inspect.BoundArguments:
    """The arguments that ``value_of`` gives, as a call: ``function(*bound.args, **bound.kwargs)``.

    Positional-only parameters and ``*args`` go where they belong.

    Raises:
        GrammarError: an argument is missing, or there is no parameter for it.
    """
    signature = inspect.signature(function)
    rest = dict(values)
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    open_keys = False
    by_position = any(p.kind is p.VAR_POSITIONAL and rest.get(p.name) for p in signature.parameters.values())
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            open_keys = True
        elif parameter.kind is parameter.VAR_POSITIONAL:
            positional += rest.pop(name, ())
        elif parameter.kind is parameter.KEYWORD_ONLY or (
            parameter.kind is parameter.POSITIONAL_OR_KEYWORD and not by_position
        ):
            if name in rest:
                keywords[name] = rest.pop(name)
        elif name in rest:
            positional.append(rest.pop(name))
        elif parameter.default is not parameter.empty and (by_position or rest.keys() & _positional(signature)):
            positional.append(parameter.default)
    if rest and not open_keys:
        raise GrammarError(f"{type_name(function)} has no parameter {next(iter(rest))!r}")
    try:
        return signature.bind(*positional, **keywords, **rest)
    except TypeError as error:
        raise GrammarError(f"{type_name(function)}: {error}") from error


def _positional(signature: inspect.Signature) -> set[str]:
    return {name for name, p in signature.parameters.items() if p.kind is p.POSITIONAL_ONLY}
