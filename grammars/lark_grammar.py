"""Lark grammars: text -> machine, in the reading of the ``lark`` package itself.

The real ``lark`` loads the grammar, so imports, templates, priorities, ``~m..n``, conflicts and their errors are its
own; its parse table and terminals are read off and run by ``lalr`` and ``lexer``. A text is accepted exactly when
``lark.Lark(grammar, parser="lalr", lexer=...).parse(text)`` accepts it.
"""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from structgen.errors import GrammarError, GrammarTooComplex, UnsatisfiableGrammar, UnsupportedGrammar
from structgen.grammars import regex
from structgen.grammars.lalr import END, ItemFilter, LalrMachine, LRState, Scanner, Tables
from structgen.grammars.lexer import Automaton
from structgen.grammars.machine import Bottom, Cell, Machine

OPTIONS: dict[str, Any] = {
    "lexer": "auto",
    "postlex": None,
    "source": None,
    "g_regex_flags": 0,
    "import_paths": (),
    "priority": "auto",
    "keep_all_tokens": False,
    "maybe_placeholders": True,
    "propagate_positions": False,
}
"""What ``machine`` takes besides start and parser, with the defaults. The last three shape lark's tree, not the
language."""
_LEXERS = {"lalr": ("auto", "contextual", "basic"), "earley": ("auto", "dynamic", "dynamic_complete", "basic")}


def machine(text: str, *, start: str = "start", parser: str = "lalr", **options: Any) -> Machine:
    """The machine of a Lark grammar. Machines are kept per process by text and options.

    Args:
        text: the grammar.
        start: the rule that whole texts derive from.
        parser: ``"lalr"``.
        options: see ``OPTIONS``. ``lexer`` is ``"contextual"`` (what ``"auto"`` means) or ``"basic"``; ``source``
            is the file that the text came from, for relative ``%import``; ``import_paths`` are folders for it.

    Raises:
        GrammarError: lark refuses the grammar, with its reason; an option is unknown.
        UnsupportedGrammar: ``parser="earley"``, ``postlex``, a regex feature that no automaton follows.
        UnsatisfiableGrammar: no text is accepted.
        GrammarTooComplex: nesting or a counted repeat beyond the limits.
    """
    if not isinstance(text, str):
        raise GrammarError(f"a Lark grammar must be a str, not {type(text).__name__}")
    _check(start, parser, options)
    full = {**OPTIONS, **options}
    full["import_paths"] = tuple(full["import_paths"])
    if full["lexer"] == "auto":
        full["lexer"] = "contextual"
    if full["import_paths"] or re.search(r"%import\s*\.", text):
        return _build(text, start, full)  # reads files, which may change
    return _kept(text, start, tuple(full.items()))


@lru_cache(maxsize=256)
def _kept(text: str, start: str, options: tuple[tuple[str, Any], ...]) -> Machine:
    return _build(text, start, dict(options))


def _check(start: str, parser: str, options: dict[str, Any]) -> None:
    for name in options:
        if name not in OPTIONS:
            near = difflib.get_close_matches(name, ["start", "parser", *OPTIONS], 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            known = ", ".join(["start", "parser", *OPTIONS])
            raise GrammarError(f"unknown option {name!r} of a Lark grammar (known: {known}){hint}")
    if not isinstance(start, str):
        raise GrammarError(f"start must be the name of one rule, not {start!r}")
    if parser not in _LEXERS:
        raise GrammarError(f"unknown parser {parser!r}; give 'lalr' or 'earley'")
    lexer = options.get("lexer", "auto")
    if lexer not in _LEXERS[parser]:
        allowed = ", ".join(map(repr, _LEXERS[parser]))
        raise GrammarError(f"parser {parser!r} does not go with lexer {lexer!r}; give one of {allowed}")
    if parser == "earley":
        raise UnsupportedGrammar("parser='earley' is not built yet; use parser='lalr' if the grammar is LALR(1)")
    if options.get("postlex") is not None:
        raise UnsupportedGrammar("postlex (indentation) is not built yet; write the grammar without it")


class _Loaded:
    """Stands in for lark's lexers while it loads a grammar: keeps what they would be built from, and saves building
    them (which compiles a regex for each parser state)."""

    def __init__(self, conf: Any, states: dict[int, Iterable[str]] | None = None, always_accept: Any = ()) -> None:
        self.conf = conf
        self.states = states


def _load(text: str, start: str, options: dict[str, Any]) -> Any:
    """The ``lark.Lark`` of the grammar, its lexer replaced by ``_Loaded``."""
    import lark
    from lark.exceptions import LarkError, UnexpectedInput

    known = {name: value for name, value in options.items() if name not in ("source", "postlex", "import_paths")}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return lark.Lark(
                text, start=start, parser="lalr", source_path=options["source"],
                import_paths=list(options["import_paths"]),
                _plugins={"ContextualLexer": _Loaded, "BasicLexer": _Loaded}, **known,
            )
    except UnexpectedInput as error:
        line, column = _position(error, text)
        raise GrammarError(_first_lines(str(error)), line=line, column=column) from None
    except RecursionError:
        raise GrammarTooComplex(
            "the grammar is nested too deeply for lark to load (Python's recursion limit); flatten its groups"
        ) from None
    except OSError as error:
        raise GrammarError(f"%import: {error}", line=_line_of(text, r"%import\b"), column=1) from None
    except LarkError as error:
        line, column = _position(error, text)
        raise GrammarError(_first_lines(str(error)), line=line, column=column) from None
    except (AssertionError, ValueError, TypeError, KeyError, AttributeError, IndexError, re.error) as error:
        # lark checks a few mistakes with assertions only, such as a template used in a terminal
        lesson = f"{type(error).__name__}: {_first_lines(str(error))}"
        raise GrammarError(f"lark cannot load the grammar: {lesson}") from None


def _first_lines(message: str) -> str:
    return "\n".join(message.strip().splitlines()[:12])


def _position(error: Exception, text: str) -> tuple[int | None, int | None]:
    """Line and column of a lark error: its own, those in its message, or those of a name that it quotes."""
    line, column = getattr(error, "line", None), getattr(error, "column", None)
    if isinstance(line, int) and line > 0:
        return line, column if isinstance(column, int) and column > 0 else None
    message = str(error)
    found = re.search(r"line (\d+)(?:,)? column (\d+)", message)
    if found:
        return int(found[1]), int(found[2])
    inner = getattr(error, "__context__", None)
    if isinstance(inner, Exception) and isinstance(getattr(inner, "line", None), int):
        return _position(inner, text)
    for name in re.findall(r"'(\w+)'", message) + re.findall(r"\b([A-Z_][A-Z_0-9]+|[a-z_]\w*)\b", message):
        found = re.search(rf"\b{re.escape(name)}\b", text) if len(name) > 1 and f"'{name}'" in message else None
        if found:
            before = text[: found.start()]
            return before.count("\n") + 1, found.start() - before.rfind("\n")
    return None, None


def _line_of(text: str, pattern: str) -> int | None:
    found = re.search(pattern, text, re.MULTILINE)
    return text.count("\n", 0, found.start()) + 1 if found else None


def _line_of_terminal(text: str, terminal: Any) -> int | None:
    """Where a terminal is defined, imported, or written inside a rule."""
    name = re.escape(terminal.name)
    raw = getattr(terminal.pattern, "raw", None) or f"/{terminal.pattern.value}/"
    return (
        _line_of(text, rf"^[ \t]*[_A-Z0-9]*{name}\s*(?:\.\s*-?\d+)?\s*:")
        or _line_of(text, rf"^[ \t]*%(?:import|override|extend)\b.*\b{name.split('__')[-1]}\b")
        or _line_of(text, re.escape(raw))
    )


def _build(text: str, start: str, options: dict[str, Any]) -> Machine:
    loaded = _load(text, start, options)
    frontend = loaded.parser
    table = frontend.parser._parse_table
    conf = frontend.lexer.conf
    terminals = list(conf.terminals)
    number = {t.name: i for i, t in enumerate(terminals, 1)}
    flags = int(conf.g_regex_flags)
    states = frontend.lexer.states
    used = set(number) if states is None else {name for accepted in states.values() for name in accepted}
    used |= set(conf.ignore)
    patterns: list[regex.Node] = []
    for terminal in terminals:
        if terminal.name in used:
            _verify(text, terminal, flags)
            patterns.append(_pattern(text, terminal, flags))
        else:
            patterns.append(regex.NOTHING)  # in rules that the start rule never reaches
    unknown = [name for name in conf.ignore if name not in number]
    if unknown:
        raise GrammarError(f"%ignore names the terminal {unknown[0]}, which is not defined",
                           line=_line_of(text, rf"%ignore\s+{re.escape(unknown[0])}\b"), column=1)
    names = [t.user_repr() for t in terminals]
    ignored = [number[name] for name in conf.ignore]
    try:
        automaton = Automaton(patterns, names, ignored)
    except UnsupportedGrammar as error:
        named = next((t for t in terminals if f"terminal {t.user_repr()}:" in str(error)), terminals[0])
        raise UnsupportedGrammar(str(error), line=_line_of_terminal(text, named)) from None
    lexers = _Lexers([t for t in terminals if t.name in used], number, conf.ignore, flags)
    rows = []
    for actions in (table.states[i] for i in range(len(table.states))):
        rows.append(_row(text, actions, number, lexers, states is None))
    rules = [
        (rule.origin.name, tuple(number[s.name] if s.is_term else s.name for s in rule.expansion))
        for rule in frontend.parser_conf.rules
    ]
    absent = lexers.absent | {number[name] for name in used & set(number) if not automaton.is_possible(number[name])}
    filter = ItemFilter([*rules, ("$root", (start,))], "$root", absent)
    tables = Tables(
        rows, table.start_states[start], table.end_states[start], automaton, len(terminals),
        filter if filter.is_needed else None,
    )
    made = LalrMachine(tables)
    if not made.start(Cell(Bottom(), None)):
        raise UnsatisfiableGrammar(
            f"no text satisfies the grammar: nothing can be derived from the rule {start!r} that its lexer can read",
            line=_line_of(text, rf"^[ \t]*[?!_]*{re.escape(start)}\b"),
        )
    return made


def _verify(text: str, terminal: Any, flags: int) -> None:
    """lark's own checks on a terminal, made when it builds a lexer."""
    line = _line_of_terminal(text, terminal)
    try:
        re.compile(terminal.pattern.to_regexp(), flags)
    except (re.error, ValueError, OverflowError, RecursionError) as error:
        raise GrammarError(f"terminal {terminal.user_repr()}: Python's re cannot compile "
                           f"{terminal.pattern.value!r}: {error}", line=line) from None
    if terminal.pattern.min_width == 0:
        raise GrammarError(
            f"terminal {terminal.user_repr()} can match the empty text, which lark's lexers refuse; let it match at "
            "least one character and make its use optional", line=line,
        )


def _pattern(text: str, terminal: Any, flags: int) -> regex.Node:
    try:
        return regex.parse(terminal.pattern.to_regexp(), flags)
    except GrammarError as error:
        raise type(error)(f"terminal {terminal.user_repr()}: {error}", line=_line_of_terminal(text, terminal)) from None


class _Lexers:
    """lark's BasicLexer for any set of terminals, in numbers: their order, and the keywords a pattern gives way to."""

    def __init__(self, terminals: Sequence[Any], number: dict[str, int], ignore: Iterable[str], flags: int) -> None:
        self.number = number
        self.ignore = frozenset(ignore)
        self._made: dict[frozenset[str], Scanner] = {}
        self.order = sorted(
            terminals, key=lambda t: (-t.priority, -t.pattern.max_width, -len(t.pattern.value), t.name)
        )
        strings = [t for t in terminals if t.pattern.type == "str"]
        self.words: dict[str, list[Any]] = {}  # string terminal -> patterns that match the whole of it
        for pattern in terminals:
            if pattern.pattern.type != "re":
                continue
            compiled = re.compile(pattern.pattern.to_regexp(), flags)
            for string in strings:
                if string.priority == pattern.priority:
                    match = compiled.match(string.pattern.value)
                    if match and match.group(0) == string.pattern.value:
                        self.words.setdefault(string.name, []).append(pattern)

        self.absent = {
            number[name] for name in ignore
            if all(owner.name in self.ignore for owner in self.words.get(name, ()))
        }
        """Ignored terminals, save for those that come as the keyword of another."""

    def scanner(self, accepted: Iterable[str]) -> Scanner:
        names = frozenset(name for name in accepted if name in self.number) | self.ignore
        made = self._made.get(names)
        if made is None:
            here = [t for t in self.order if t.name in names]
            order, words = [], []
            for terminal in here:
                owners = [p for p in self.words.get(terminal.name, ()) if p.name in names]
                if owners:
                    words.append((self.number[terminal.name], sum(1 << self.number[p.name] for p in owners)))
                if not any(terminal.pattern.flags <= p.pattern.flags for p in owners):
                    order.append(self.number[terminal.name])
            made = self._made[names] = Scanner(tuple(order), tuple(words))
        return made


def _row(text: str, actions: dict[str, Any], number: dict[str, int], lexers: _Lexers, basic: bool) -> LRState:
    """One row of lark's table in numbers."""
    shifts: dict[int, int] = {}
    reduces: dict[int, tuple[int, str]] = {}
    gotos: dict[str, int] = {}
    for name, (action, argument) in actions.items():
        if action.name == "Reduce":
            reduces[_terminal(text, name, number)] = (len(argument.expansion), argument.origin.name)
        elif name in number:
            shifts[number[name]] = argument
        elif name.lstrip("_").isupper() and not name.startswith("$"):
            shifts[_terminal(text, name, number)] = argument
        else:
            gotos[name] = argument
    return LRState(lexers.scanner(lexers.number if basic else actions), shifts, reduces, gotos)


def _terminal(text: str, name: str, number: dict[str, int]) -> int:
    if name == "$END":
        return END
    if name not in number:
        raise UnsupportedGrammar(
            f"the terminal {name} has no pattern (%declare): only a postlex could make it, which is not built yet",
            line=_line_of(text, rf"^[ \t]*%declare\b.*\b{re.escape(name)}\b"),
        )
    return number[name]
