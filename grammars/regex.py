r"""Regular expressions: text -> syntax tree over code points -> expression over bytes.

The text is read by the standard library's own parser, so the Python dialect is ``re``'s by construction; the
``"ecma"`` dialect (JSON Schema ``pattern``) is first rewritten into it (ecma.py). Anchors are decided where
they stand (anchors.py), lookaround is kept exact (lookaround.py). Backreferences and conditionals are refused.

``lower`` gives the language of whole texts: that of ``re.fullmatch``, or ``re.search`` with ``search=True``.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, Literal

from structgen.errors import GrammarError, GrammarTooComplex, UnsatisfiableGrammar, UnsupportedGrammar
from structgen.grammars import lookaround, unicode
from structgen.grammars.anchors import resolve
from structgen.grammars.charset import ANY, NEWLINE, CharSet
from structgen.grammars.ecma import to_python
from structgen.grammars.encoding import UTF8, Encoding
from structgen.grammars.expr import EPSILON, NEVER, Alt, Expr, alt, rep, seq
from structgen.grammars.machine import Terminal
from structgen.grammars.pattern import (
    ANY_TEXT,
    EMPTY,
    NOTHING,
    Alternate,
    Anchor,
    Chars,
    Concat,
    Empty,
    Look,
    Node,
    Repeat,
    alternate,
    concat,
    depth,
    has,
    literal_text,
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
        text, origin = to_python(pattern)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = sre_parse.parse(text, flags)
        node = _Reader(pattern, dialect).sequence(tree, _with_type(tree.state.flags))
    except re.error as error:
        line, column = _place(pattern, origin[min(error.pos or 0, len(text))])
        if error.msg.lower() == r"bad escape \p":
            raise UnsupportedGrammar(
                f"regex {_short(pattern)}: Python's re has no Unicode properties \\p{{...}}; write a set of "
                "characters", line=line, column=column,
            ) from None
        raise GrammarError(f"broken regex {_short(pattern)}: {error.msg}", line=line, column=column) from None
    except OverflowError as error:
        raise GrammarTooComplex(f"regex {_short(pattern)}: {error}", line=1, column=1) from None
    except RecursionError:
        raise _too_deep(pattern) from None
    if depth(node) > MAX_DEPTH:
        raise _too_deep(pattern)
    return node


def _too_deep(pattern: str) -> GrammarTooComplex:
    return GrammarTooComplex(
        f"regex {_short(pattern)} is nested too deeply (limit: {MAX_DEPTH} levels); flatten its groups",
        line=1, column=1,
    )


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
        self.python = dialect == "python"
        self.newline = NEWLINE if self.python else unicode.ECMA_NEWLINE

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
        if op is getattr(sre, "POSSESSIVE_REPEAT", None):
            lo, hi, body = argument
            limit = None if hi is sre.MAXREPEAT else int(hi)
            return self._atomic(self._repeat(self.sequence(body, flags), int(lo), limit, False), r"[*+?}]\+")
        if op is getattr(sre, "ATOMIC_GROUP", None):
            return self._atomic(self.sequence(argument, flags), r"\(\?>")
        if op is sre.AT:
            return self._anchor(argument, flags)
        if op in (sre.ASSERT, sre.ASSERT_NOT):
            direction, body = argument
            if direction < 0 and self.python and len(set(body.getwidth())) > 1:
                raise self._error(r"\(\?<[=!]", "look-behind requires fixed-width pattern", GrammarError)
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

    def _atomic(self, node: Node, found: str) -> Node:
        """``(?>node)``: only its first match counts. Written with lookahead, where that is exact."""
        if _is_single_way(node):
            return node
        if isinstance(node, Concat) and all(map(_is_single_way, node.items[:-1])):
            return concat([*node.items[:-1], self._atomic(node.items[-1], found)])
        if isinstance(node, Alternate):
            ways: list[Node] = []
            for i, item in enumerate(node.items):
                earlier = [Look(alternate(node.items[:i]), False, True)] if i else []
                ways.append(concat([*earlier, self._atomic(item, found)]))
            return alternate(ways)
        if isinstance(node, Repeat) and _is_single_way(node.body) and has(node.body, Chars):
            body, lo, hi = node.body, node.lo, node.hi
            if node.lazy:
                return self._repeat(body, lo, lo, True)
            ends = Look(body, False, True)
            if hi is None:
                return Concat((node, ends))
            fewer = concat([self._repeat(body, lo, hi - 1, False), ends]) if lo < hi else NOTHING
            return alternate([fewer, self._repeat(body, hi, hi, False)])
        raise self._error(
            found, "an atomic group or possessive repeat around a choice depends on the order of matching; it is "
            "not supported here, write the alternatives out", UnsupportedGrammar,
        )

    def _unsupported(self, op: Any) -> GrammarError:
        found, what = {
            "GROUPREF": (r"\\[1-9]|\(\?P=|\\k<", "a backreference"),
            "GROUPREF_EXISTS": (r"\(\?\(", "a conditional group"),
        }.get(str(op), ("", f"the construct {op}"))
        return self._error(
            found, f"{what} depends on what was captured before, which an automaton cannot follow; write the "
            "alternatives out", UnsupportedGrammar,
        )

    def _error(self, found: str, message: str, kind: type[GrammarError]) -> GrammarError:
        """An error at the first place where the text matches ``found``."""
        line, column = _place(self.pattern, _find(self.pattern, found))
        return kind(f"regex {_short(self.pattern)}: {message}", line=line, column=column)


def _is_single_way(node: Node) -> bool:
    """Whether ``node`` matches in at most one way at any place."""
    if isinstance(node, Concat):
        return all(map(_is_single_way, node.items))
    return not isinstance(node, (Alternate, Repeat))


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


@lru_cache(maxsize=256)
def lower(node: Node, encoding: Encoding = UTF8, *, search: bool = False) -> Expr:
    """The language of the whole texts that ``node`` matches (``search``: that hold a match), spelled in
    ``encoding``. ``NEVER`` when no automaton is needed to see that nothing matches.

    Raises:
        UnsupportedGrammar: a lookahead inside a lookbehind.
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
        body = self.term(node.body)
        if not node.behind:
            return lookaround.Ahead(body, node.negated)
        if _looks_ahead(body):
            raise UnsupportedGrammar(
                "a lookahead (or end anchor) inside a lookbehind is not supported; put it behind the lookbehind"
            )
        return lookaround.Behind(lookaround.chain(body), node.negated)

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
            texts = {text: 0 for item in items if (text := literal_text(item)) is not None}
            if len(texts) >= WORDS_FROM:
                found.append(self.encoding.words(texts))
                items = [item for item in items if literal_text(item) is None]
            items = _factored(items)
        found += [self.term(item) for item in items]
        plain = [term for term in found if isinstance(term, Expr)]
        if len(plain) == len(found):
            return alt(*plain)
        others = [term for term in found if not isinstance(term, Expr)]
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


def _looks_ahead(term: lookaround.Term) -> bool:
    if isinstance(term, (lookaround.Sequence, lookaround.Choice)):
        return any(map(_looks_ahead, term.items))
    if isinstance(term, lookaround.Turns):
        return _looks_ahead(term.body)
    return isinstance(term, lookaround.Ahead)


def machine(pattern: str, flags: int = 0) -> Terminal:
    """The machine of ``re.fullmatch(pattern, text, flags)``.

    Raises:
        GrammarError: see ``parse`` and ``lower``; UnsatisfiableGrammar when nothing matches.
    """
    found = state(lower(parse(pattern, flags)))
    if found is None:
        raise UnsatisfiableGrammar(f"nothing matches the regex {_short(pattern)}", line=1, column=1)
    return Terminal(found)
