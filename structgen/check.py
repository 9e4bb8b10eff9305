"""``structgen check``: is the grammar usable, and where do texts leave it. Needs no model and no tokenizer."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from structgen.console import emit
from structgen.errors import GrammarError

if TYPE_CHECKING:
    import argparse

    from structgen.grammars.grammar import Grammar

# What may follow is found by trying each character; longer texts would make that slow.
_LONGEST_FOR_HINTS = 2000


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the grammar says about one text.

    Attributes:
        accepted: the whole text satisfies the grammar.
        offset: characters that a text of the grammar may begin with; all of them when the text only ends early.
        expected: characters that may stand at ``offset``, in short; "" when that is not known.
    """

    text: str
    accepted: bool
    offset: int = 0
    expected: str = ""

    @property
    def line(self) -> int:
        return self.text.count("\n", 0, self.offset) + 1

    @property
    def column(self) -> int:
        return self.offset - (self.text.rfind("\n", 0, self.offset) + 1) + 1

    def describe(self) -> str:
        """The verdict, with the offending line and a caret under the place."""
        shown = self.text if len(self.text) <= 60 and "\n" not in self.text else _shortened(self.text)
        if self.accepted:
            return f"accepted  {shown}"
        ends = self.offset >= len(self.text)
        what = "the text ends too early" if ends else f"{self.text[self.offset]!r} cannot stand here"
        if not self.expected and ends:
            what = "the text is not complete"
        wanted = f"; expected {self.expected}" if self.expected else ""
        line = self.text.split("\n")[self.line - 1]
        first = max(0, self.column - 61)
        excerpt = line[first : first + 100]
        caret = " " * (self.column - 1 - first) + "^"
        return (
            f"refused   {shown}\n  line {self.line}, column {self.column}: {what}{wanted}\n  | {excerpt}\n  | {caret}"
        )


def judge(grammar: Grammar, text: str) -> Verdict:
    """The grammar's verdict on a text."""
    if grammar.matches(text):
        return Verdict(text, True)
    data = text.encode("utf-8", "surrogatepass")
    taken = data[: grammar.prefix_length(data)]
    offset = len(taken.decode("utf-8", "ignore"))
    return Verdict(text, False, offset, _expected(grammar, text[:offset]))


def _expected(grammar: Grammar, begin: str) -> str:
    if len(begin) > _LONGEST_FOR_HINTS:
        return ""
    before = begin.encode("utf-8", "surrogatepass")
    candidates = [chr(c) for c in (*range(0x21, 0x7F), 0x20, 0x0A, 0x09)]
    legal = [c for c in candidates if grammar.prefix_length(before + c.encode()) > len(before)]
    if len(legal) == len(candidates):
        return "any character"
    if not legal:
        return "the end of the text" if grammar.matches(begin) else ""
    pieces = [_ranges([c for c in legal if c > " "])]
    if any(c <= " " for c in legal):
        pieces.append("a blank")
    if grammar.matches(begin):
        pieces.append("the end")
    return " or ".join(piece for piece in pieces if piece)


def _ranges(characters: list[str]) -> str:
    """Characters in order, with runs of three and more written as ranges: ``" 0-9 a-z _``."""
    runs: list[list[str]] = []
    for c in characters:
        if runs and ord(c) == ord(runs[-1][-1]) + 1:
            runs[-1].append(c)
        else:
            runs.append([c])
    return " ".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else " ".join(run) for run in runs)


def _shortened(text: str) -> str:
    flat = text.replace("\n", "\\n")
    return flat if len(flat) <= 60 else f"{flat[:57]}..."


# ------------------------------------------------------------------------------------------------- the command


def run(args: argparse.Namespace) -> int:
    """Runs ``structgen check``; 0: all accepted, 1: a text is refused. Raises GrammarError for a bad grammar."""
    name, grammar, texts = _subject(args)
    verdicts = [judge(grammar, text) for text in texts]
    if args.json:
        emit(json.dumps(_object(name, grammar, verdicts), ensure_ascii=False) + "\n")
    else:
        emit(f"{name}: ok\n")
        report = _report_lines(grammar.report)
        if report:
            emit("\n".join(report) + "\n")
        for verdict in verdicts:
            emit(verdict.describe() + "\n")
    return 0 if all(verdict.accepted for verdict in verdicts) else 1


def _subject(args: argparse.Namespace) -> tuple[str, Grammar, list[str]]:
    from structgen.constraint import grammar_file, schema_file
    from structgen.grammars.grammar import Grammar

    given = list(args.texts)
    if args.regex is not None:
        if args.grammar is not None:
            given.insert(0, args.grammar)
        return f"regex {args.regex}", Grammar.from_regex(args.regex), _texts(given, args.lines)
    if args.grammar is None:
        raise GrammarError("nothing to check: structgen check GRAMMAR [TEXT...], or --regex R [TEXT...]")
    texts = _texts(given, args.lines)
    if args.grammar.lstrip().startswith("{") or Path(args.grammar).suffix.lower() == ".json":
        name = args.grammar if Path(args.grammar).suffix else "schema"
        return name, Grammar.from_json_schema(schema_file(args.grammar)), texts
    return args.grammar, grammar_file(args.grammar, start=args.start, parser=args.parser), texts


def _texts(given: list[str], lines: bool) -> list[str]:
    from structgen.cli import check_text, read_stdin

    texts: list[str] = []
    for text in [*given, *(["-"] if lines and "-" not in given else [])]:
        if text != "-":
            check_text("TEXT", text)
            texts.append(text)
        elif lines:
            texts += [line for line in read_stdin().split("\n") if line]
        else:
            texts.append(read_stdin().removesuffix("\n"))
    return texts


# What a report says of keywords, in the order of its lines.
_KINDS = {
    "enforced": "enforced exactly",
    "gated": "checked when a value closes",
    "annotations": "annotation only, no text is refused for it",
}
_MOST_POINTERS = 12


def _report_lines(report: Any) -> list[str]:
    """A JSON Schema's report: for each kind of keyword, how many there are, and where."""
    if report is None:
        return []
    lines = [f"  read as draft {report.draft}"]
    for kind, meaning in _KINDS.items():
        pointers = getattr(report, kind)
        if pointers:
            more = f" and {len(pointers) - _MOST_POINTERS} more" if len(pointers) > _MOST_POINTERS else ""
            lines.append(f"  {meaning} ({len(pointers)}): {', '.join(pointers[:_MOST_POINTERS])}{more}")
    return lines


def _report_object(report: Any) -> dict[str, Any] | None:
    if report is None:
        return None
    return {"draft": report.draft, **{kind: list(getattr(report, kind)) for kind in _KINDS}}


def _object(name: str, grammar: Grammar, verdicts: list[Verdict]) -> dict[str, Any]:
    return {
        "grammar": name,
        "ok": True,
        "report": _report_object(grammar.report),
        "texts": [
            {
                "text": v.text,
                "accepted": v.accepted,
                **({} if v.accepted else {"line": v.line, "column": v.column, "expected": v.expected}),
            }
            for v in verdicts
        ],
    }


__all__ = ["Verdict", "judge", "run"]

if __name__ == "__main__":
    sys.exit("use: structgen check")
