r"""Regular expressions: text -> syntax tree over code points -> expression over bytes.

The text is read by the standard library's own parser, so the Python dialect is ``re``'s by construction (and
``\p{...}`` is that of the ``regex`` package); the ``"ecma"`` dialect, for JSON Schema's ``pattern``, has its own reader
(ecma.py). Backreferences and conditionals are written out over the texts of their group (captures.py), atomic groups
with lookahead (atomic.py); anchors are decided where they stand (anchors.py), lookaround is kept exact (lookaround.py).

``lower`` gives the language of whole texts: that of ``re.fullmatch``, or ``re.search`` with ``search=True``.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, Literal, NamedTuple

from structgen.errors import GrammarError, GrammarTooComplex, UnsatisfiableGrammar, UnsupportedGrammar
from structgen.grammars import atomic, captures, ecma, lookaround, properties, unicode
from structgen.grammars.anchors import resolve
from structgen.grammars.charset import ANY, NEWLINE, CharSet
from structgen.grammars.ecma import boundary
from structgen.grammars.encoding import UTF8, Encoding
from structgen.grammars.expr import ALL, EPSILON, LAST_OUTCOME, NEVER, Alt, Expr, alt, out, rep, seq
from structgen.grammars.machine import Terminal
from structgen.grammars.pattern import (
    ANY_TEXT,
    EMPTY,
    NOTHING,
    Alternate,
    Anchor,
    Atomic,
    Backref,
    Chars,
    Concat,
    Conditional,
    Empty,
    Fold,
    Group,
    Look,
    Node,
    Repeat,
    alternate,
    concat,
    depth,
    literal_text,
    look,
    repeat,
    single,
)
from structgen.grammars.residual import state

if sys.version_info >= (3, 11):
    from re import _constants as sre  # type: ignore[attr-defined]
    from re import _parser as sre_parse  # type: ignore[attr-defined]
else:
    import sre_constants as sre
    import sre_parse

__all__ = [
    "ANY_TEXT", "EMPTY", "NOTHING", "Alternate", "Anchor", "Chars", "Concat", "Empty", "Look", "Node", "Repeat",
    "alternate", "concat", "literal_text", "lower", "machine", "parse",
]  # fmt: skip

MAX_DEPTH = 100
MAX_OPTIONAL = 256

Dialect = Literal["python", "ecma"]


def parse(pattern: str, flags: int = 0, *, dialect: Dialect = "python", ordered: bool = True) -> Node:
    """The syntax tree of ``pattern``.

    Args:
        pattern: the regular expression.
        flags: ``re.I | re.S | re.M | re.X | re.A`` in the Python dialect; inline flags are read too.
        dialect: ``"python"`` (the ``re`` module) or ``"ecma"`` (ECMA-262, as JSON Schema's ``pattern``).
        ordered: for lexers, which need the order of alternatives, and join patterns, so that groups are used by name
            only; False accepts more backreferences.

    Raises:
        GrammarError: the pattern is broken; ``column`` says where.
        UnsupportedGrammar: a backreference to a group with too many texts, and other things that no finite automaton
            of a sensible size can follow; the message gives the reason.
        GrammarTooComplex: nested too deeply, or too large when written out.
    """
    if not isinstance(pattern, str):
        raise GrammarError(f"a regex must be a str, not {type(pattern).__name__}")
    if flags & re.LOCALE:
        raise UnsupportedGrammar("the LOCALE flag has no meaning for text; leave it out", line=1, column=1)
    try:
        if dialect == "ecma":
            found = ecma.parse(pattern)
            node = _finished(pattern, found.node, found.groups, found.uses, ecma_rules=True, ordered=False)
        else:
            node = _python(pattern, flags, ordered)
    except RecursionError:
        raise _too_deep(pattern, "has groups in groups, deeper than Python reads them") from None
    deep = depth(node)
    if deep > MAX_DEPTH:
        raise _too_deep(
            pattern,
            f"is a tree of {deep:,} levels (limit: {MAX_DEPTH}): every sequence, alternative, repeat and lookaround "
            "inside another is one; groups that only enclose are none",
        )
    return node


def _python(pattern: str, flags: int, ordered: bool) -> Node:
    text, origin, sets = _without_properties(pattern)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = sre_parse.parse(text, flags)
        reader = _Reader(pattern, sets)
        node = reader.sequence(tree, _with_type(tree.state.flags))
    except re.error as error:
        line, column = _place(pattern, origin[min(error.pos or 0, len(text))])
        says = error.msg if not {*map(ord, error.msg)} & sets.keys() else "a property cannot be the bound of a range"
        raise GrammarError(f"broken regex {_short(pattern)}: {says}", line=line, column=column) from None
    except OverflowError as error:
        raise GrammarTooComplex(f"regex {_short(pattern)}: {error}", line=1, column=1) from None
    if not reader.captures and not reader.atomic:
        return node
    names = {number: name for name, number in tree.state.groupdict.items()}
    if ordered and (numbered := _found(pattern, r"\\[1-9]|\(\?\([0-9]")):
        line, column = _place(pattern, numbered[0])
        raise UnsupportedGrammar(
            f"regex {_short(pattern)}: a backreference by number counts the groups of all patterns of a lexer; give "
            "the group a name: (?P<name>...) and (?P=name)", line=line, column=column,
        )
    groups = dict(enumerate(_found(pattern, r"\((?:\?P<|(?!\?))"), 1))
    uses = {}
    for number in range(1, tree.state.groups):
        name = re.escape(names.get(number, ""))
        named = rf"|\(\?P={name}\)|\(\?\({name}\)" if name else ""
        uses[number] = next(iter(_found(pattern, rf"\\{number}(?!\d)|\(\?\({number}\){named}")), 0)
    return _finished(pattern, node, groups, uses, ecma_rules=False, ordered=ordered)


def _finished(
    pattern: str, node: Node, groups: dict[int, int], uses: dict[int, int], *, ecma_rules: bool, ordered: bool
) -> Node:
    """``node`` without groups, their uses, and atomic groups. ``groups``, ``uses``: where each begins."""
    try:
        return atomic.expand(captures.expand(node, ecma=ecma_rules, ordered=ordered))
    except captures.Refused as error:
        line, column = _place(pattern, uses.get(error.index, 0))
        group = _place(pattern, groups.get(error.index, 0))[1]
        raise error.kind(
            f"regex {_short(pattern)}: a backreference or conditional is written out over the texts of its group, "
            f"but group {error.index} (column {group}) {error}; write the alternatives out, or limit the group",
            line=line, column=column,
        ) from None
    except atomic.Refused as error:
        line, column = _place(pattern, next(iter(_found(pattern, r"\(\?>|[*+?}]\+|\(\?=\(")), 0))
        raise UnsupportedGrammar(
            f"regex {_short(pattern)}: an atomic group or possessive repeat is written with lookahead, but {error}; "
            "write its alternatives out", line=line, column=column,
        ) from None


_PROPERTY = re.compile(r"\\([pP])(?:\{(\^?)([^{}:=]*)(?:[:=]([^{}]*))?\}|([CLMNPSZ]))|\\.|.", re.DOTALL)


def _without_properties(pattern: str) -> tuple[str, list[int], dict[int, _Property]]:
    r"""The pattern with a character of its own for each ``\p{...}`` (``re`` has none), for each character of it the
    place that it comes from, and what those characters stand for."""
    if r"\p" not in pattern.lower():
        return pattern, list(range(len(pattern) + 1)), {}
    made: list[str] = []
    origin: list[int] = []
    sets: dict[int, _Property] = {}
    spare = (code for code in range(0x10FFFD, 0xF0000, -1) if chr(code) not in pattern)
    for found in _PROPERTY.finditer(pattern):
        text = found[0]
        if found[3] is not None or found[5]:
            code = next(spare)
            negated = (found[1] == "P") is not bool(found[2])
            sets[code] = _Property(found[5] or found[3], found[4], negated, found.start())
            text = chr(code)
        made.append(text)
        origin += range(found.start(), found.start() + len(text))
    return "".join(made), [*origin, len(pattern)], sets


class _Property(NamedTuple):
    name: str
    value: str | None
    negated: bool
    at: int


def _too_deep(pattern: str, why: str) -> GrammarTooComplex:
    return GrammarTooComplex(f"regex {_short(pattern)} {why}; flatten it", line=1, column=1)


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

    def __init__(self, pattern: str, sets: dict[int, _Property]) -> None:
        self.pattern = pattern
        self.sets = sets
        self.captures = bool(re.search(r"\\[1-9]|\(\?P=|\(\?\(", pattern))
        self.atomic = False
        self.literals: dict[tuple[int, int], Chars] = {}

    def sequence(self, tree: Any, flags: int) -> Node:
        return concat([self.item(op, argument, flags) for op, argument in tree])

    def item(self, op: Any, argument: Any, flags: int) -> Node:
        if op is sre.LITERAL:
            key = (argument, flags)
            return self.literals.get(key) or self.literals.setdefault(key, Chars(self._literal(argument, flags)))
        if op is sre.NOT_LITERAL:
            return Chars(~self._literal(argument, flags))
        if op is sre.ANY:
            return Chars(ANY if flags & re.DOTALL else ~NEWLINE)
        if op is sre.IN:
            return Chars(self._set(argument, flags))
        if op is sre.BRANCH:
            return alternate([self.sequence(branch, flags) for branch in argument[1]])
        if op is sre.SUBPATTERN:
            index, add, remove, body = argument
            if add & _TYPE_FLAGS:
                flags &= ~_TYPE_FLAGS
            inner = self.sequence(body, (flags | add) & ~remove)
            return inner if index is None or not self.captures else Group(index, inner)
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            return self._repeat(argument, flags, op is sre.MIN_REPEAT)
        if op is getattr(sre, "POSSESSIVE_REPEAT", None):
            self.atomic = True
            return Atomic(self._repeat(argument, flags, False, atomic_turns=True))
        if op is getattr(sre, "ATOMIC_GROUP", None):
            self.atomic = True
            return Atomic(self.sequence(argument, flags))
        if op is sre.GROUPREF:
            fold: Fold = "" if not flags & re.IGNORECASE else "python_ascii" if flags & re.ASCII else "python"
            return Backref(argument, fold)
        if op is sre.GROUPREF_EXISTS:
            index, yes, no = argument
            return Conditional(index, self.sequence(yes, flags), self.sequence(no or (), flags))
        if op is sre.AT:
            return self._anchor(argument, flags)
        if op in (sre.ASSERT, sre.ASSERT_NOT):
            direction, body = argument
            if direction < 0 and len(set(body.getwidth())) > 1:
                raise self._error(r"\(\?<[=!]", "look-behind requires fixed-width pattern", GrammarError)
            return look(self.sequence(body, flags), direction < 0, op is sre.ASSERT_NOT)  # 3.10 reads (?!) so
        if op is sre.FAILURE:
            return NOTHING
        raise self._error("", f"the construct {op} is not supported", UnsupportedGrammar)

    def _repeat(self, argument: Any, flags: int, lazy: bool, *, atomic_turns: bool = False) -> Node:
        lo, hi, body = argument
        turn = self.sequence(body, flags)
        return repeat(Atomic(turn) if atomic_turns else turn, int(lo), None if hi is sre.MAXREPEAT else int(hi), lazy)

    def _literal(self, code: int, flags: int) -> CharSet:
        if code in self.sets:
            return self._property(self.sets[code], flags)
        return self._cased(CharSet([(code, code)]), flags)

    def _property(self, asked: _Property, flags: int) -> CharSet:
        try:
            chars = properties.find(asked.name, asked.value, any_case=bool(flags & re.IGNORECASE))
        except LookupError as error:
            line, column = _place(self.pattern, asked.at)
            raise UnsupportedGrammar(f"regex {_short(self.pattern)}: {error}", line=line, column=column) from None
        if flags & re.ASCII:
            chars &= unicode.ASCII
        return ~chars if asked.negated else chars

    def _cased(self, chars: CharSet, flags: int) -> CharSet:
        return unicode.ignore_case(chars, bool(flags & re.ASCII)) if flags & re.IGNORECASE else chars

    def _set(self, items: Sequence[Any], flags: int) -> CharSet:
        ranges: list[tuple[int, int]] = []
        classes = CharSet(())
        negated = False
        for op, argument in items:
            if op is sre.NEGATE:
                negated = True
            elif op is sre.LITERAL and argument in self.sets:
                classes |= self._property(self.sets[argument], flags)
            elif op is sre.LITERAL:
                ranges.append((argument, argument))
            elif op is sre.RANGE:
                if {*argument} & self.sets.keys():
                    raise self._error(r"\\[pP]", "a property cannot be the bound of a range", GrammarError)
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
        word = _category(sre.CATEGORY_WORD, flags)
        return boundary(word, kind is sre.AT_NON_BOUNDARY, not_in_empty_text=sys.version_info < (3, 14))

    def _error(self, found: str, message: str, kind: type[GrammarError]) -> GrammarError:
        """An error at the first place where the text matches ``found``."""
        line, column = _place(self.pattern, next(iter(_found(self.pattern, found)), 0) if found else 0)
        return kind(f"regex {_short(self.pattern)}: {message}", line=line, column=column)


def _found(pattern: str, what: str) -> list[int]:
    """Where ``what`` occurs outside classes and escapes."""
    scan = re.compile(rf"(?P<hit>{what})|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
    return [match.start() for match in scan.finditer(pattern) if match["hit"]]


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


# ---------------------------------------------------------------------------------------------- lower


@lru_cache(maxsize=256)
def lower(node: Node, encoding: Encoding = UTF8, *, search: bool = False) -> Expr:
    """The language of the whole texts that ``node`` matches (``search``: that hold a match), spelled in
    ``encoding``. ``NEVER`` when no automaton is needed to see that nothing matches.

    Raises:
        GrammarTooComplex: nested too deeply.
    """
    if search:
        node = concat([ANY_TEXT, node, ANY_TEXT])
    try:
        return lookaround.chain(_Lowering(encoding).term(resolve(node)))
    except RecursionError:
        raise GrammarTooComplex("a regex is nested too deeply; flatten its groups") from None


WORDS_FROM = 8
"""So many literal alternatives become one trie; below, plain alternatives are as fast and shared."""


class _Lowering:
    """Turns a tree without anchors into an expression, or a term where it holds lookaround."""

    def __init__(self, encoding: Encoding) -> None:
        self.encoding = encoding
        self.memo: dict[int, tuple[Node, lookaround.Term]] = {}

    def term(self, node: Node) -> lookaround.Term:
        """Parts are shared in the tree; each is lowered once."""
        found = self.memo.get(id(node))
        if found is None:
            found = self.memo[id(node)] = (node, self._term(node))
        return found[1]

    def _term(self, node: Node) -> lookaround.Term:
        if isinstance(node, Empty):
            return EPSILON
        if isinstance(node, Chars):
            return self.encoding.chars(node.chars) if node.chars else NEVER
        if isinstance(node, Concat):
            return self._concat(node)
        if isinstance(node, Alternate):
            return self._alternate(node)
        if isinstance(node, Repeat):
            body = self.term(node.body)
            if isinstance(body, Expr):
                return rep(body, node.lo, node.hi)
            return lookaround.Turns(body, node.lo, node.hi)
        assert isinstance(node, Look)
        if node.behind:
            return lookaround.behind(self.term(node.body), node.negated)
        return lookaround.Ahead(self._rest(node.body), node.negated)

    def _rest(self, node: Node) -> lookaround.Term:
        """A lookahead's body, up to the end of the text. Any text at its end becomes any bytes: the rest of the
        pattern reads the same, and a lookahead that is settled is then seen to be."""
        if node == ANY_TEXT:
            return ALL
        if isinstance(node, Alternate):
            return _either([self._rest(item) for item in node.items])
        if isinstance(node, Look) and not node.behind:  # nothing follows
            body = self._rest(node.body)
            if isinstance(body, Expr):
                return EPSILON if body.nullable is not node.negated else NEVER
        if not isinstance(node, Concat):
            return self.term(node)
        items, end = node.items[:-1], node.items[-1]
        ahead = items[-1]
        if end == ANY_TEXT and isinstance(ahead, Look) and not ahead.behind and not ahead.negated:
            items, end = items[:-1], ahead.body  # it says itself what follows
        if not items:
            return self._rest(end)
        first, last = self.term(concat(items)), self._rest(end)
        if isinstance(first, Expr) and isinstance(last, Expr):
            return ALL if first.nullable and last is ALL else seq(first, last)
        return lookaround.Sequence((first, last))

    def _concat(self, node: Concat) -> lookaround.Term:
        text = literal_text(node)
        if text is not None:
            return self.encoding.text(text)
        terms: list[lookaround.Term] = []
        run: list[Expr] = []
        for is_text, items in groupby(node.items, key=lambda item: bool(single(item))):
            if is_text:
                run.append(self.encoding.text("".join(map(single, items))))
                continue
            for item in items:
                term = self.term(item)
                if isinstance(term, Expr):
                    run.append(term)
                else:
                    terms += [_join(run), term] if run else [term]
                    run = []
        if not terms:
            return _join(run)
        terms += [_join(run)] if run else []
        return lookaround.Sequence(tuple(terms))

    def _alternate(self, node: Alternate) -> lookaround.Term:
        items: list[Node] = list(node.items)
        found: list[lookaround.Term] = []
        if len(items) >= WORDS_FROM:
            texts = [literal_text(item) for item in items]
            words = {text: 0 for text in texts if text is not None}
            if len(words) >= WORDS_FROM:
                found.append(self.encoding.words(words))
                items = [item for item, text in zip(items, texts, strict=True) if text is None]
            items = _factored(items)
        found += [self.term(item) for item in items]
        return _either(found)


def _either(terms: Sequence[lookaround.Term]) -> lookaround.Term:
    plain = [term for term in terms if isinstance(term, Expr)]
    if len(plain) == len(terms):
        return alt(*plain)
    others = [term for term in terms if not isinstance(term, Expr)]
    return lookaround.Choice((*others, alt(*plain)) if plain else tuple(others))


def _join(parts: Sequence[Expr]) -> Expr:
    """A sequence without empty parts (``seq`` must keep them where parts have outcomes), equal neighbours
    counted: a hundred ``a?`` in a row are ``a{0,100}``."""
    joined: list[Expr] = []
    optional_run = 0
    for part, run in groupby(part for part in parts if part is not EPSILON):
        joined.append(_turns(part, len(list(run))))
        optional_run = optional_run + 1 if part.nullable else 0
        if optional_run > MAX_OPTIONAL:
            raise GrammarTooComplex(f"a regex has more than {MAX_OPTIONAL} optional parts in a row")
    return seq(*joined)


def _turns(body: Expr, times: int) -> Expr:
    """``body`` so many times."""
    if times == 1:
        return body
    if body.nullable and isinstance(body, Alt):
        return rep(alt(*[item for item in body.items if item is not EPSILON]), 0, times)
    return rep(body, times, times)


def _factored(items: list[Node]) -> list[Node]:
    """``ab|ac`` -> ``a(b|c)``: thousands of alternatives become few."""
    groups: dict[Node, list[Node]] = {}
    for item in items:
        first = item.items[0] if isinstance(item, Concat) else item
        groups.setdefault(first, []).append(concat(item.items[1:]) if isinstance(item, Concat) else EMPTY)
    return [
        concat([first, alternate(rests) if len(rests) > 1 else rests[0]]) for first, rests in groups.items()
    ]


def machine(pattern: str, flags: int = 0) -> Terminal:
    """The machine of ``re.fullmatch(pattern, text, flags)``.

    Raises:
        GrammarError: see ``parse`` and ``lower``; UnsatisfiableGrammar when nothing matches.
    """
    found = state(seq(lower(parse(pattern, flags, ordered=False)), out(LAST_OUTCOME)))
    if found is None:
        raise UnsatisfiableGrammar(f"nothing matches the regex {_short(pattern)}", line=1, column=1)
    return Terminal(found)
