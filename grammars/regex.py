r"""Regular expressions: text -> syntax tree over code points -> expression over bytes.

The text is read by the standard library's own parser, so the Python dialect is ``re``'s by construction; the
``"ecma"`` dialect (JSON Schema ``pattern``) is first rewritten into it. The tree keeps what the Lark lexers
need and a plain regex ignores: the order of alternatives and laziness.

``lower`` gives the language of whole texts: ``re.fullmatch``, or ``re.search`` with ``search=True``.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from structgen.errors import GrammarError, GrammarTooComplex, UnsatisfiableGrammar, UnsupportedGrammar
from structgen.grammars import unicode
from structgen.grammars.charset import ANY, NEWLINE, CharSet
from structgen.grammars.encoding import UTF8, Encoding
from structgen.grammars.expr import EPSILON, NEVER, Expr, alt, rep, seq
from structgen.grammars.machine import Terminal
from structgen.grammars.residual import state

if sys.version_info >= (3, 11):
    from re import _constants as sre  # type: ignore[attr-defined]
    from re import _parser as sre_parse  # type: ignore[attr-defined]
else:
    import sre_constants as sre
    import sre_parse

MAX_DEPTH = 150

Dialect = Literal["python", "ecma"]


class Node:
    """Base of the syntax tree. Trees are immutable and compare by content."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Empty(Node):
    """The empty text."""


@dataclass(frozen=True, slots=True)
class Chars(Node):
    """One character out of a set (an empty set matches nothing)."""

    chars: CharSet


@dataclass(frozen=True, slots=True)
class Concat(Node):
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alternate(Node):
    """The first that leads to a match wins in ``re``; the order does not matter to a whole-text language."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat(Node):
    """``body`` ``lo`` to ``hi`` times (None: without end); ``lazy`` prefers fewer."""

    body: Node
    lo: int
    hi: int | None
    lazy: bool = False


AnchorKind = Literal["start", "end", "end_nl", "line_start", "line_end"]


@dataclass(frozen=True, slots=True)
class Anchor(Node):
    r"""A place in the text: ``start`` (``\A``), ``end`` (``\Z``), ``end_nl`` (Python's ``$``: the end, or
    before a final newline), ``line_start`` and ``line_end`` (``^`` and ``$`` with MULTILINE)."""

    kind: AnchorKind


@dataclass(frozen=True, slots=True)
class Look(Node):
    r"""Lookahead or lookbehind. ``\b`` and ``\B`` are written with these."""

    body: Node
    behind: bool
    negated: bool


EMPTY = Empty()
NOTHING = Chars(CharSet(()))
ANY_TEXT = Repeat(Chars(ANY), 0, None)


def concat(items: Iterable[Node]) -> Node:
    flat: list[Node] = []
    for item in items:
        if isinstance(item, Concat):
            flat += item.items
        elif item == NOTHING:
            return NOTHING
        elif not isinstance(item, Empty):
            flat.append(item)
    return EMPTY if not flat else flat[0] if len(flat) == 1 else Concat(tuple(flat))


def alternate(items: Iterable[Node]) -> Node:
    flat: dict[Node, None] = {}
    for item in items:
        for part in item.items if isinstance(item, Alternate) else (item,):
            if part != NOTHING:
                flat[part] = None
    return NOTHING if not flat else next(iter(flat)) if len(flat) == 1 else Alternate(tuple(flat))


# ---------------------------------------------------------------------------------------------- parse


def parse(pattern: str, flags: int = 0, *, dialect: Dialect = "python") -> Node:
    """The syntax tree of ``pattern``.

    Args:
        pattern: the regular expression.
        flags: ``re.I | re.S | re.M | re.X | re.A`` in the Python dialect; inline flags are read too.
        dialect: ``"python"`` (the ``re`` module) or ``"ecma"`` (ECMA-262, as JSON Schema's ``pattern``).

    Raises:
        GrammarError: the pattern is broken; ``column`` says where.
        UnsupportedGrammar: backreferences and conditionals, which no finite automaton can follow.
        GrammarTooComplex: nested too deeply.
    """
    if not isinstance(pattern, str):
        raise GrammarError(f"a regex must be a str, not {type(pattern).__name__}")
    if flags & re.LOCALE:
        raise UnsupportedGrammar("the LOCALE flag has no meaning for text; leave it out", line=1, column=1)
    text, origin = pattern, list(range(len(pattern) + 1))
    if dialect == "ecma":
        from structgen.grammars.ecma import to_python

        text, origin = to_python(pattern)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = sre_parse.parse(text, flags)
        node = _Reader(pattern, dialect).sequence(tree, _with_type(tree.state.flags))
    except re.error as error:
        line, column = _place(pattern, origin[min(error.pos or 0, len(text))])
        raise GrammarError(f"broken regex {_short(pattern)}: {error.msg}", line=line, column=column) from None
    except OverflowError as error:
        raise GrammarTooComplex(f"regex {_short(pattern)}: {error}", line=1, column=1) from None
    except RecursionError:
        raise _too_deep(pattern) from None
    if _depth(node) > MAX_DEPTH:
        raise _too_deep(pattern)
    return node


def _too_deep(pattern: str) -> GrammarTooComplex:
    return GrammarTooComplex(
        f"regex {_short(pattern)} is nested too deeply (limit: {MAX_DEPTH} levels); flatten its groups",
        line=1, column=1,
    )


def _depth(node: Node) -> int:
    deepest, queue = 0, [(node, 1)]
    while queue:
        at, depth = queue.pop()
        deepest = max(deepest, depth)
        if isinstance(at, (Concat, Alternate)):
            queue += [(item, depth + 1) for item in at.items]
        elif isinstance(at, (Repeat, Look)):
            queue.append((at.body, depth + 1))
    return deepest


def _short(pattern: str) -> str:
    shown = repr(pattern)
    return shown if len(shown) <= 80 else shown[:77] + "..."


def _place(pattern: str, position: int) -> tuple[int, int]:
    before = pattern[:position]
    return before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1


def _with_type(flags: int) -> int:
    return flags if flags & re.ASCII else flags | re.UNICODE


_TYPE_FLAGS = int(re.ASCII | re.LOCALE | re.UNICODE)


class _Reader:
    """Turns the standard library's parse tree into ours."""

    def __init__(self, pattern: str, dialect: Dialect) -> None:
        self.pattern = pattern
        self.newline = NEWLINE if dialect == "python" else unicode.ECMA_NEWLINE

    def sequence(self, tree: Any, flags: int) -> Node:
        return concat([self.item(op, argument, flags) for op, argument in tree])

    def item(self, op: Any, argument: Any, flags: int) -> Node:
        if op is sre.LITERAL:
            return Chars(self._cased(CharSet([(argument, argument)]), flags))
        if op is sre.NOT_LITERAL:
            return Chars(~self._cased(CharSet([(argument, argument)]), flags))
        if op is sre.ANY:
            return Chars(ANY if flags & re.DOTALL else ~self.newline)
        if op is sre.IN:
            return Chars(self._set(argument, flags))
        if op is sre.BRANCH:
            return alternate([self.sequence(branch, flags) for branch in argument[1]])
        if op is sre.SUBPATTERN:
            _, add, remove, body = argument
            if add & _TYPE_FLAGS:
                flags &= ~_TYPE_FLAGS
            return self.sequence(body, (flags | add) & ~remove)
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            lo, hi, body = argument
            inner = self.sequence(body, flags)
            limit = None if hi is sre.MAXREPEAT else int(hi)
            return self._repeat(inner, int(lo), limit, op is sre.MIN_REPEAT)
        if op is sre.AT:
            return self._anchor(argument, flags)
        if op in (sre.ASSERT, sre.ASSERT_NOT):
            direction, body = argument
            if not body:  # (?!): how 3.10 reads the pattern that never matches
                return NOTHING if op is sre.ASSERT_NOT else EMPTY
            return Look(self.sequence(body, flags), direction < 0, op is sre.ASSERT_NOT)
        if op is sre.FAILURE:
            return NOTHING
        raise self._unsupported(op)

    @staticmethod
    def _repeat(body: Node, lo: int, hi: int | None, lazy: bool) -> Node:
        if hi == 0 or isinstance(body, Empty):
            return EMPTY
        return body if lo == hi == 1 else Repeat(body, lo, hi, lazy)

    def _cased(self, chars: CharSet, flags: int) -> CharSet:
        return unicode.ignore_case(chars, bool(flags & re.ASCII)) if flags & re.IGNORECASE else chars

    def _set(self, items: Sequence[Any], flags: int) -> CharSet:
        ranges: list[tuple[int, int]] = []
        classes = CharSet(())
        negated = False
        for op, argument in items:
            if op is sre.NEGATE:
                negated = True
            elif op is sre.LITERAL:
                ranges.append((argument, argument))
            elif op is sre.RANGE:
                ranges.append(argument)
            else:
                classes |= _category(argument, flags)
        found = self._cased(CharSet(ranges), flags) | classes
        return ~found if negated else found

    def _anchor(self, kind: Any, flags: int) -> Node:
        multiline = flags & re.MULTILINE
        if kind is sre.AT_BEGINNING:
            return Anchor("line_start" if multiline else "start")
        if kind is sre.AT_END:
            return Anchor("line_end" if multiline else "end_nl")
        if kind is sre.AT_BEGINNING_STRING:
            return Anchor("start")
        if kind is sre.AT_END_STRING:
            return Anchor("end")
        word = Chars(_category(sre.CATEGORY_WORD, flags))
        return _boundary(word, kind is sre.AT_NON_BOUNDARY)

    def _unsupported(self, op: Any) -> UnsupportedGrammar:
        found, what = {
            "GROUPREF": (r"\\[1-9]|\(\?P=|\\k<", "a backreference"),
            "GROUPREF_EXISTS": (r"\(\?\(", "a conditional group"),
            "ATOMIC_GROUP": (r"\(\?>", "an atomic group"),
            "POSSESSIVE_REPEAT": (r"[*+?}]\+", "a possessive repeat"),
        }.get(str(op), ("", f"the construct {op}"))
        line, column = _place(self.pattern, _find(self.pattern, found))
        why = "depends on " + ("what was captured" if "GROUPREF" in str(op) else "the order of matching")
        return UnsupportedGrammar(
            f"regex {_short(self.pattern)}: {what} {why}, which an automaton cannot follow; "
            "write the alternatives out", line=line, column=column,
        )


def _find(pattern: str, what: str) -> int:
    """Where ``what`` occurs outside classes and escapes."""
    scan = re.compile(rf"(?P<hit>{what})|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL) if what else None
    for match in scan.finditer(pattern) if scan else ():
        if match["hit"]:
            return match.start()
    return 0


def _category(kind: Any, flags: int) -> CharSet:
    name = str(kind).removeprefix("CATEGORY_")
    negated = name.startswith("NOT_")
    name = name.removeprefix("NOT_").lower()
    if flags & re.ASCII:
        found = {
            "digit": unicode.ASCII_DIGIT, "space": unicode.ASCII_SPACE, "word": unicode.ASCII_WORD,
        }[name]
    else:
        found = unicode.category(name)
    return ~found if negated else found


def _boundary(word: Node, negated: bool) -> Node:
    before, not_before = Look(word, True, False), Look(word, True, True)
    after, not_after = Look(word, False, False), Look(word, False, True)
    if not negated:
        return Alternate((Concat((before, not_after)), Concat((not_before, after))))
    outside: Node = Concat((not_before, not_after))
    if sys.version_info < (3, 14):  # there \B does not match the empty text
        any_char = Chars(ANY)
        outside = Concat((outside, Alternate((Look(any_char, True, False), Look(any_char, False, False)))))
    return Alternate((Concat((before, after)), outside))


# ---------------------------------------------------------------------------------------------- lower


def lower(node: Node, encoding: Encoding = UTF8, *, search: bool = False) -> Expr:
    """The language of the whole texts that ``node`` matches (``search``: that hold a match), spelled in
    ``encoding``. ``NEVER`` when nothing matches.

    Raises:
        UnsupportedGrammar: lookaround.
        GrammarTooComplex: nested too deeply.
    """
    if search:
        node = concat([ANY_TEXT, node, ANY_TEXT])
    try:
        return _Lowering(encoding).run(node, True, True)
    except RecursionError:
        raise GrammarTooComplex("a regex is nested too deeply; flatten its groups") from None


class _Lowering:
    def __init__(self, encoding: Encoding) -> None:
        self.encoding = encoding

    def run(self, node: Node, start: bool, end: bool) -> Expr:
        """The texts that ``node`` matches when it begins at the start of the text, and ends at its end
        (or not, as the flags say). Anchors only get easier to satisfy with a flag set."""
        if isinstance(node, Empty):
            return EPSILON
        if isinstance(node, Chars):
            return self.encoding.chars(node.chars) if node.chars else NEVER
        if isinstance(node, Anchor):
            holds = {"start": start, "end": end, "end_nl": end}.get(node.kind)
            if holds is None:
                raise UnsupportedGrammar("MULTILINE anchors are not built yet")
            return EPSILON if holds else NEVER
        if isinstance(node, Look):
            raise UnsupportedGrammar("lookaround in a regex is not built yet")
        if isinstance(node, Alternate):
            return alt(*[self.run(item, start, end) for item in node.items])
        if isinstance(node, Repeat):
            return self._repeat(node, start, end)
        assert isinstance(node, Concat)
        return self._concat(node.items, start, end)

    def _concat(self, items: tuple[Node, ...], start: bool, end: bool) -> Expr:
        if not any(map(_anchored, items)):
            return self._plain(items)
        if len(items) == 1:
            return self.run(items[0], start, end)
        head, tail = items[0], items[1:]
        first = self.run(head, start, False)
        last = self._concat(tail, False, end)
        found = [_join(first, last)]
        if start and first.nullable:
            found.append(self._concat(tail, True, end))
        if end and last.nullable:
            found.append(self.run(head, start, True))
        if start and end and self.run(head, True, True).nullable and self._concat(tail, True, True).nullable:
            found.append(EPSILON)
        return alt(*found)

    def _plain(self, items: tuple[Node, ...]) -> Expr:
        parts: list[Expr] = []
        text = ""
        for item in items:
            char = _single(item)
            if char:
                text += char
                continue
            if text:
                parts.append(self.encoding.text(text))
                text = ""
            parts.append(self.run(item, False, False))
        if text:
            parts.append(self.encoding.text(text))
        return _join(*parts)

    def _repeat(self, node: Repeat, start: bool, end: bool) -> Expr:
        lo, hi = node.lo, node.hi
        middle = self.run(node.body, False, False)
        if not _anchored(node.body):
            return rep(middle, lo, hi)
        first = self.run(node.body, start, False)
        last = self.run(node.body, False, end)
        only = self.run(node.body, start, end)
        if first.nullable or last.nullable or middle.nullable:
            lo = 0
        found = []
        if node.lo == 0 or only.nullable:
            found.append(EPSILON)
        if lo <= 1:
            found.append(only)
        if hi is None or hi >= 2:
            found.append(_join(first, rep(middle, max(lo - 2, 0), None if hi is None else hi - 2), last))
        return alt(*found)


def _join(*parts: Expr) -> Expr:
    """A sequence without empty parts (``seq`` must keep those after a part with outcomes)."""
    return seq(*[part for part in parts if part is not EPSILON])


def _single(node: Node) -> str:
    """The only character that ``node`` matches, or ""."""
    if isinstance(node, Chars) and len(node.chars) == 1:
        code = node.chars.ranges[0][0]
        return "" if 0xD800 <= code <= 0xDFFF else chr(code)
    return ""


def _anchored(node: Node) -> bool:
    if isinstance(node, (Concat, Alternate)):
        return any(map(_anchored, node.items))
    if isinstance(node, Repeat):
        return _anchored(node.body)
    return isinstance(node, (Anchor, Look))


def machine(pattern: str, flags: int = 0) -> Terminal:
    """The machine of ``re.fullmatch(pattern, text, flags)``.

    Raises:
        GrammarError: see ``parse`` and ``lower``; UnsatisfiableGrammar when nothing matches.
    """
    found = state(lower(parse(pattern, flags)))
    if found is None:
        raise UnsatisfiableGrammar(f"nothing matches the regex {_short(pattern)}", line=1, column=1)
    return Terminal(found)
