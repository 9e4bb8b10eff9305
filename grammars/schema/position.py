"""Where in a JSON text one stands: which value is being written, and what kind of token comes next."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_BLANK = re.compile(r"[ \t\n\r]*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SCALAR = re.compile(r"[^\s,:{}\[\]\"]+")

VALUE, KEY, COLON, NEXT, END = "value", "key", "colon", "next", "end"


@dataclass(frozen=True, slots=True)
class Position:
    """The end of a text that JSON may begin with.

    Attributes:
        path: keys and indices to the value that is being written, or to the container whose key or comma comes next.
        role: what stands at ``start``: a value, a key, a colon, a comma or bracket (``next``), or nothing (``end``).
        start: index of the first character of the token that is being written; the length of the text between tokens.
        container: ``"{"``, ``"["`` or ``""``: what directly surrounds the token.
        keys: keys that the surrounding object already has.
        first: an item or key here is the first of its container, so that it may also close.
    """

    path: tuple[str | int, ...]
    role: str
    start: int
    container: str
    keys: tuple[str, ...]
    first: bool

    @property
    def pointer(self) -> str:
        """JSON pointer of ``path``; ``""`` is the whole text."""
        return "".join("/" + str(token).replace("~", "~0").replace("/", "~1") for token in self.path)


class _Open:
    """A container that is not closed yet."""

    __slots__ = ("index", "keys", "kind")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.index = 0
        self.keys: list[str] = []


def position(text: str) -> Position:
    """Where ``text``, the beginning of a JSON text, ends. Of what is no such beginning, the part before it counts."""
    stack: list[_Open] = []
    role, first, at = VALUE, False, 0

    def here(start: int) -> Position:
        path: list[str | int] = []
        for i, each in enumerate(stack):
            if i == len(stack) - 1 and role in (KEY, NEXT):
                break
            path.append(each.index if each.kind == "[" else each.keys[-1])
        top = stack[-1] if stack else None
        keys = tuple(top.keys) if top is not None and top.kind == "{" else ()
        if role in (VALUE, COLON) and keys:
            keys = keys[:-1]
        return Position(tuple(path), role, start, top.kind if top else "", keys, first)

    while True:
        found = _BLANK.match(text, at)
        assert found is not None
        at = found.end()
        if at == len(text):
            return here(at)
        char = text[at]
        if role == VALUE and char in "{[":
            stack.append(_Open(char))
            role, first = (KEY if char == "{" else VALUE), True
        elif char in "}]" and stack and (role == NEXT or first):
            stack.pop()
            role, first = (NEXT if stack else END), False
        elif role == NEXT and char == ",":
            top = stack[-1]
            top.index += 1
            role, first = (KEY if top.kind == "{" else VALUE), False
        elif role == COLON and char == ":":
            role = VALUE
        elif role in (KEY, VALUE):
            token = (_STRING if char == '"' else _SCALAR).match(text, at)
            if token is None or (role == VALUE and char != '"' and token.end() == len(text)):
                return here(at)  # inside the token: a number, too, goes on until something else follows
            if role == KEY:
                key = _decoded(token[0])
                if key is None:
                    return here(at)
                stack[-1].keys.append(key)
                role, first = COLON, False
            else:
                role, first = (NEXT if stack else END), False
            at = token.end()
            continue
        else:
            return here(at)
        at += 1


def _decoded(spelled: str) -> str | None:
    try:
        key = json.loads(spelled, strict=False)
    except ValueError:
        return None
    return key if isinstance(key, str) else None
