"""``structgen check``: is the grammar usable, what is doubtful in it, and where do texts leave it. Needs no model."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from structgen.arguments import in_options
from structgen.console import emit, say
from structgen.errors import GrammarError
from structgen.verdicts import Verdict, judge, shortened

if TYPE_CHECKING:
    import argparse

    from structgen.grammars.grammar import Grammar
    from structgen.grammars.schema.lints import Lint

_MOST_POINTERS = 6
_WIDTH = 120  # where standard output is no terminal


def run(args: argparse.Namespace) -> int:
    """Runs ``structgen check``: 0 all is well, 1 a text is refused or the grammar has an error. Raises GrammarError
    (wrong usage) where a file cannot be read, and UsageError for words that do not fit together."""
    subject = _Subject(args)
    texts = subject.texts()
    try:
        grammar = subject.build({})
    except GrammarError as error:
        return _unusable(subject.name, error, args.json)
    found = _lints(grammar, args.whitespace)
    verdicts = [subject.judged(grammar, text, name) for name, text in texts]
    if args.json:
        emit(json.dumps(_object(subject.name, grammar, found, verdicts), ensure_ascii=False) + "\n")
    else:
        emit(f"{subject.name}: ok\n")
        if grammar.report is not None:
            emit(_tables(grammar.report, found, args.quiet))
        for verdict in verdicts:
            emit(verdict.describe() + "\n")
    return 0 if all(verdict.accepted for verdict in verdicts) else 1


def _unusable(name: str, error: GrammarError, as_json: bool) -> int:
    from structgen.console import debugging

    if debugging():
        raise error
    if as_json:
        said = {"type": type(error).__name__, "message": in_options(str(error))}
        for field in ("pointer", "line", "column"):
            if getattr(error, field) is not None:
                said[field] = getattr(error, field)
        emit(json.dumps({"grammar": name, "ok": False, "error": said, "texts": []}, ensure_ascii=False) + "\n")
    say(f"{name}: {in_options(str(error))}")
    return 1


class _Subject:
    """What the command line asks to be checked."""

    def __init__(self, args: argparse.Namespace) -> None:
        from structgen.cli import UsageError
        from structgen.constraint import registry

        self.args = args
        given = list(args.texts)
        if args.regex is not None and args.grammar is not None:
            given.insert(0, args.grammar)
        self.given = given
        if args.regex is None and args.grammar is None:
            raise GrammarError("nothing to check: structgen check GRAMMAR [TEXT...], or --regex R [TEXT...]")
        self.is_schema = args.regex is None and _is_schema(args.grammar)
        if not self.is_schema:
            options = ("order", "numbers", "whitespace", "draft", "registry", "no_format_assertion")
            for option in (each for each in options if getattr(args, each)):
                raise UsageError(f"--{option.replace('_', '-')} belongs to JSON Schemas")
        self.name = f"regex {args.regex}" if args.regex is not None else args.grammar
        if args.regex is None and not self.is_schema:
            _check_there(args.grammar)
        self._options: dict[str, Any] = {}
        self._schema = ""
        if self.is_schema:
            self._schema = self._schema_text()
            self._options = {
                "order": args.order or "any",
                "numbers": args.numbers or "any",
                "format_assertion": not args.no_format_assertion,
                "draft": args.draft,
                "registry": registry(args.registry),
            }
        self._variants: dict[tuple[tuple[str, str], ...], Grammar | None] = {}

    def _schema_text(self) -> str:
        from structgen.constraint import read_text

        if self.name.lstrip().startswith("{"):
            text, self.name = self.name, "schema"
            return text
        return read_text(self.name, "schema")

    def build(self, changed: dict[str, str]) -> Grammar:
        """The grammar, with some options changed. Raises GrammarError."""
        from structgen.constraint import grammar_file
        from structgen.grammars.grammar import Grammar

        if self.args.regex is not None:
            return Grammar.from_regex(self.args.regex)
        if not self.is_schema:
            return grammar_file(self.name, start=self.args.start, parser=self.args.parser)
        return Grammar.from_json_schema(self._schema, **{**self._options, "whitespace": "any", **changed})

    def texts(self) -> list[tuple[str, str]]:
        """The texts to judge, with their names."""
        from structgen.cli import check_text, read_stdin

        texts: list[tuple[str, str]] = []
        lines = self.args.lines
        for text in [*self.given, *(["-"] if lines and "-" not in self.given else [])]:
            if text != "-":
                check_text("TEXT", text)
                texts.append(_document(text) if self.is_schema else (shortened(text), text))
            elif lines:
                texts += [(shortened(line), line) for line in read_stdin().split("\n") if line]
            else:
                text = read_stdin().removesuffix("\n")
                texts.append((shortened(text), text))
        return texts

    # -- how other options would judge

    def judged(self, grammar: Grammar, text: str, name: str) -> Verdict:
        """The verdict, with a note where another policy would judge otherwise."""
        verdict = replace(judge(grammar, text), name=name)
        if not self.is_schema:
            return verdict
        if not verdict.accepted and self._options["numbers"] == "any":
            # Where every number may go on with an exponent, little can be said of one; the plain spelling says more.
            plain = self._variant({"numbers": "plain"})
            closer = verdict if plain is None else judge(plain, text)
            if closer.start == verdict.start:
                verdict = replace(closer, name=name)
        notes = [
            accepted if verdict.accepted else refused
            for option, other, accepted, refused in _POLICIES
            if self._options[option] != other and self._accepts({option: other}, text) not in (verdict.accepted, None)
        ]
        return replace(verdict, note="; ".join(note for note in notes if note))

    def _accepts(self, changed: dict[str, str], text: str) -> bool | None:
        grammar = self._variant(changed)
        return None if grammar is None else grammar.matches(text)

    def _variant(self, changed: dict[str, str]) -> Grammar | None:
        """The grammar with other options, or None where they cannot be."""
        key = tuple(changed.items())
        if key not in self._variants:
            try:
                self._variants[key] = self.build(changed)
            except GrammarError:
                self._variants[key] = None
        return self._variants[key]


# Option, its other value, and what to say where that judges otherwise: of an accepted text, and of a refused one.
_POLICIES = (
    (
        "order",
        "schema",
        'with order="schema", the default of generation, the keys come in the order of the schema; they do not here',
        "",
    ),
    ("order", "any", "", "it would be accepted in another order of its keys (--order any)"),
    (
        "numbers",
        "plain",
        'with numbers="plain", the default of generation, integers are written without point and exponent',
        "",
    ),
    ("numbers", "any", "", "it would be accepted with numbers in any spelling (--numbers any)"),
)


def _is_schema(name: str) -> bool:
    return name.lstrip().startswith("{") or Path(name).suffix.lower() == ".json"


def _check_there(name: str) -> None:
    """Raises GrammarError where no file and no grammar of the library has this name."""
    from structgen.constraint import grammar_file
    from structgen.grammars import library

    stem = name.removesuffix(".lark")
    if stem not in library.names() and (Path(name).is_dir() or not Path(name).exists()):
        grammar_file(name)


def _document(text: str) -> tuple[str, str]:
    """A document of a schema, with its name: the text itself, or the file of that name."""
    from structgen.constraint import is_file, is_json, read_text

    looks_like_a_name = Path(text).suffix.lower() in (".json", ".txt") and "\n" not in text
    if text.lstrip()[:1] not in ("{", "[", '"') and (looks_like_a_name or (is_file(text) and not is_json(text))):
        return text, read_text(text, "document")
    return shortened(text), text


# ------------------------------------------------------------------------------------------------------ printing


def _lints(grammar: Grammar, whitespace: str | None) -> list[Lint]:
    if grammar.report is None:
        return []
    from structgen.grammars.schema.lints import Subject, lints

    return lints(Subject(grammar.report, grammar.machine.root, whitespace or "bounded"))  # type: ignore[attr-defined]


def _tables(report: Any, found: list[Lint], quiet: bool) -> str:
    """The report, and the lints, kind by kind."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    terminal = sys.stdout.isatty()
    buffer = io.StringIO()
    size = {} if terminal else {"width": _WIDTH}
    console = Console(file=buffer, force_terminal=terminal, highlight=False, **size)  # type: ignore[arg-type]
    console.print(report if not quiet else escape(report.summary))
    if found:
        table = Table(title=f"{len(found)} lints", title_justify="left")
        for column in ("lint", "where", "what", "do"):
            table.add_column(column, overflow="fold")
        for (kind, message, advice), pointers in _grouped(found).items():
            more = f"\nand {len(pointers) - _MOST_POINTERS} more" if len(pointers) > _MOST_POINTERS else ""
            where = "\n".join(pointers[:_MOST_POINTERS]) + more
            table.add_row(*(escape(each) for each in (kind, where, message, advice)))
        console.print(table)
    else:
        console.print("no lints")
    return "".join(line.rstrip() + "\n" for line in buffer.getvalue().splitlines())


def _grouped(found: list[Lint]) -> dict[tuple[str, str, str], list[str]]:
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for lint in found:
        grouped.setdefault((lint.kind, lint.message, lint.advice), []).append(lint.pointer)
    return grouped


def _object(name: str, grammar: Grammar, found: list[Lint], verdicts: list[Verdict]) -> dict[str, Any]:
    report = grammar.report
    kinds = ("enforced", "gated", "annotations", "structure")
    return {
        "grammar": name,
        "ok": True,
        "report": None
        if report is None
        else {
            "draft": report.draft,
            "draft_from": report.draft_from,
            **{kind: list(getattr(report, kind)) for kind in kinds},
        },
        "lints": [
            {"kind": lint.kind, "pointer": lint.pointer, "message": lint.message, "advice": lint.advice}
            for lint in found
        ],
        "texts": [verdict.details for verdict in verdicts],
    }


__all__ = ["Verdict", "judge", "run"]
