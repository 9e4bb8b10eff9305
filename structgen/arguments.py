"""The command line's words: parsers, their help, and what is said about a word that is not known."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Mapping, Sequence
from typing import IO, NoReturn

from structgen.console import emit, say

COMMANDS = {
    "check": "validate a grammar or schema, and say where texts leave it",
    "warmup": "compile the CPU kernels and load the model once",
    "bench": "measure masks, latency or throughput",
    "serve": "OpenAI-compatible server (not built yet)",
}

_EXAMPLES = """\
commands:
{commands}

examples:
  structgen --grammar sql.lark "Write an SQL query: the names of all users older than 30."
  structgen --schema person.json --json "Ann is 31 and lives in Oslo." | jq .value
  structgen --regex '[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}' "When did the first person walk on the moon?"
  structgen --choices yes,no "Is Oslo in Norway?"
  echo "Tell me a joke." | structgen --max-tokens 64

exit codes: 0 done, 1 the request failed or was cut before it was complete, 2 wrong usage, 130 interrupted.
Results go to standard output, everything else to standard error.
"""


class Parser(argparse.ArgumentParser):
    """argparse that takes options anywhere, and names the nearest known option for an unknown one.

    Args:
        hints: options of other commands, and what to do here in their place.
    """

    def __init__(
        self, prog: str, description: str, epilog: str | None = None, hints: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.hints = hints or {}

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        options, others = self._sorted(argv)
        arguments, unknown = self.parse_known_args([*options, *(["--", *others] if others else [])])
        for word in sorted(unknown, key=others.__contains__):  # options first
            if word != "--":
                self.refuse(word, others)
        return arguments

    def _sorted(self, argv: Sequence[str]) -> tuple[list[str], list[str]]:
        """The options with their values, and the other words: argparse wants those together."""
        known = {name: action for action in self._actions for name in action.option_strings}
        options: list[str] = []
        others: list[str] = []
        words = list(argv)
        while words:
            word = words.pop(0)
            if word == "--":
                return options, others + words
            name = word.split("=", 1)[0]
            if word in ("", "-") or word[0] != "-" or (name not in known and (" " in word or _is_number(word))):
                others.append(word)
                continue
            options.append(word)
            action = known.get(word)
            takes = action is not None and (action.nargs is None or action.nargs == "?")
            if takes and words and (words[0][:1] != "-" or words[0] == "-" or " " in words[0] or _is_number(words[0])):
                options.append(words.pop(0))
        return options, others

    def refuse(self, word: str, others: Sequence[str] = ()) -> NoReturn:
        near = difflib.get_close_matches(others[0], COMMANDS, n=1, cutoff=0.7) if others else []
        meant = f"did you mean the command {near[0]}?" if near and self.prog == "structgen" else ""
        if word in others:
            if not meant and self.prog == "structgen":
                meant = "put a prompt of several words in quotes"
            self.error(f"unexpected argument {word!r}; {meant or f'see {self.prog} --help'}")
        name = word.split("=", 1)[0]
        if name in self.hints:
            self.error(f"there is no {name} here; {self.hints[name]}")
        known = [option for action in self._actions for option in action.option_strings if option.startswith("--")]
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
        hint = f"did you mean {close[0]}?" if close else f"see {self.prog} --help"
        self.error(f"unknown option {name}; {meant or hint}")

    def error(self, message: str) -> NoReturn:
        say(message, self.prog)
        sys.exit(2)

    def print_help(self, file: IO[str] | None = None) -> None:  # type: ignore[override]
        if file is None:
            emit(self.format_help())
        else:
            super().print_help(file)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def in_options(message: str) -> str:
    """What an error says to callers from Python, said for the command line."""
    message = message.replace("Give draft=... to", "Give --draft D to")
    return message.replace("registry= a referencing.Registry that holds", "--registry URI=FILE (repeatable) with")


def generation_parser() -> Parser:
    listed = "\n".join(f"  structgen {name:<8} {text}" for name, text in COMMANDS.items())
    parser = Parser(
        "structgen",
        "Generates text that is guaranteed to satisfy a grammar, JSON Schema, regex or list of choices.",
        _EXAMPLES.format(commands=listed),
    )
    parser.add_argument("prompt", nargs="?", metavar="PROMPT", help="the prompt; '-' or nothing: from standard input")

    held = parser.add_argument_group("constraint (one at most)").add_mutually_exclusive_group()
    held.add_argument("--grammar", metavar="FILE", help="Lark grammar: a file, or a name of the library (sql.lark)")
    held.add_argument("--schema", metavar="FILE", help="JSON Schema: a file, or the JSON text itself")
    held.add_argument("--regex", metavar="R", help="regular expression, Python's dialect, matching the whole output")
    held.add_argument("--choices", metavar="A,B", help="one of these texts, separated by commas")

    lark = parser.add_argument_group("grammar")
    lark.add_argument("--start", default="start", metavar="RULE", help="start rule of the grammar (default: start)")
    lark.add_argument("--parser", default="lalr", metavar="NAME", help="lark parser to follow (default: lalr)")

    _documents(parser.add_argument_group("schema"))

    model = parser.add_argument_group("model")
    _model(model)
    model.add_argument("--raw", action="store_true", help="give the prompt as is, without the chat template")
    model.add_argument("--system", metavar="TEXT", help="system message of the chat")
    model.add_argument("--no-show-schema", action="store_true", help="do not tell the model the form of the answer")

    sampling = parser.add_argument_group("sampling")
    sampling.add_argument("--max-tokens", type=int, default=512, metavar="N", help="most tokens (default: 512)")
    sampling.add_argument("--temperature", type=float, default=0.0, metavar="T", help="0 is greedy (default: 0)")
    sampling.add_argument("--top-p", type=float, metavar="P", help="nucleus sampling")
    sampling.add_argument("--top-k", type=int, metavar="K", help="sample among the K likeliest")
    sampling.add_argument("--min-p", type=float, metavar="P", help="drop tokens less likely than P times the likeliest")
    sampling.add_argument("--seed", type=int, metavar="S", help="makes sampling repeatable")
    sampling.add_argument("--stop", action="append", metavar="TEXT", help="end at this text (may be repeated)")
    sampling.add_argument("-n", "--n", type=int, default=1, metavar="N", help="number of outputs (default: 1)")

    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print one JSON object: text, value, counts, times")
    _common(output)
    output.add_argument("--version", action="store_true", help="print the version")
    return parser


_CHECK_HINTS = {
    "--choices": "write the choices as a regex: structgen check --regex 'yes|no' TEXT",
    "--grammar": "give the file as GRAMMAR: structgen check sql.lark TEXT",
    "--schema": "give the schema as GRAMMAR: structgen check person.json TEXT",
}


def check_parser() -> Parser:
    parser = Parser(
        "structgen check",
        "Validates a grammar or schema and says for each TEXT whether it is accepted, and if not, where it goes wrong\n"
        "and what was allowed there. Of a JSON Schema also: what each keyword came to, and what is doubtful in it.\n"
        "Needs no model.",
        "exit codes: 0 all is well, 1 a text is refused or the grammar has an error, 2 wrong usage.",
        _CHECK_HINTS,
    )
    parser.add_argument(
        "grammar",
        nargs="?",
        metavar="GRAMMAR",
        help="Lark file, library name (sql.lark), JSON Schema file (*.json), or the JSON text of a schema itself",
    )
    parser.add_argument(
        "texts", nargs="*", metavar="TEXT", help="texts to judge, or JSON files; '-': standard input, whole"
    )
    parser.add_argument("--regex", metavar="R", help="a regular expression in place of GRAMMAR")
    parser.add_argument("--lines", action="store_true", help="standard input holds one text a line")
    parser.add_argument("--start", default="start", metavar="RULE", help="start rule of a Lark grammar")
    parser.add_argument("--parser", default="lalr", metavar="NAME", help="lark parser to follow (default: lalr)")

    schema = parser.add_argument_group("JSON Schema")
    schema.add_argument("--order", choices=("any", "schema"), help="order of keys in the texts (default: any)")
    schema.add_argument("--numbers", choices=("any", "plain"), help="spelling of numbers in the texts (default: any)")
    schema.add_argument(
        "--whitespace",
        choices=("bounded", "compact", "pretty", "any"),
        help="what is linted, as it is generated with (default: bounded); in the texts all of it is fine",
    )
    _documents(schema)
    schema.add_argument("--no-format-assertion", action="store_true", help="formats are annotations")

    parser.add_argument("--json", action="store_true", help="print one JSON object")
    _common(parser)
    return parser


def warmup_parser() -> Parser:
    parser = Parser("structgen warmup", "Compiles the CPU kernels into their on-disk cache and loads the model once.")
    _model(parser)
    _common(parser)
    return parser


def bench_parser() -> Parser:
    parser = Parser(
        "structgen bench",
        "Measures one thing and prints a table, or with --json one JSON object.\n\n"
        "  masks       times to and between masks over JSON Schemas or Lark grammars, beside peers with --vs\n"
        "  latency     time to first token and between tokens, one request at a time, with and without a grammar\n"
        "  throughput  tokens per second of batches, beside other engines with --vs",
    )
    parser.add_argument("what", choices=("masks", "latency", "throughput"), metavar="{masks,latency,throughput}")
    parser.add_argument("data", nargs="?", metavar="SCHEMAS", help="masks: .json or .jsonl file, folder, or builtin")
    parser.add_argument("--data", "--schemas", dest="data_option", metavar="SCHEMAS", help="the same as SCHEMAS")
    parser.add_argument("--grammars", metavar="G", help="masks: instead, a .lark file, folder, or library")
    parser.add_argument("--tokenizer", metavar="T", help="masks: tokenizer.json, folder or GGUF (default: the model's)")
    parser.add_argument("--limit", type=int, default=100, metavar="N", help="masks: schemas at most (default: 100)")
    parser.add_argument("--batch", default="1,16", metavar="A,B", help="throughput: batch sizes (default: 1,16)")
    parser.add_argument("--tokens", type=int, default=64, metavar="N", help="tokens a request (default: 64)")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="measurements each; medians are shown")
    parser.add_argument(
        "--vs",
        metavar="A,B",
        help="peers in the same run; masks: llguidance,xgrammar; throughput: transformers,llama-cpp",
    )
    parser.add_argument("--passes", type=int, default=2, metavar="N", help="masks: visits to each schema (default: 2)")
    parser.add_argument(
        "--gc", action=argparse.BooleanOptionalAction, default=True, help="masks: garbage collector (default: on)"
    )
    parser.add_argument(
        "--timeout", type=float, default=60, metavar="S", help="masks: seconds at most at a schema (default: 60)"
    )
    parser.add_argument("--chart", metavar="OUT", help="masks, throughput: draw a chart, a .png or .svg file")
    _model(parser)
    parser.add_argument(
        "--json", nargs="?", const=True, default=False, metavar="OUT", help="print one JSON object, or write it to OUT"
    )
    _common(parser)
    return parser


def _documents(group: argparse._ActionsContainer) -> None:
    group.add_argument("--draft", metavar="D", help="4, 6, 7, 2019-09 or 2020-12, whatever $schema says")
    group.add_argument(
        "--registry",
        action="append",
        metavar="[URI=]FILE",
        help="a document that $ref or $schema leads to, by its $id or by URI (may be repeated)",
    )


def _model(group: argparse._ActionsContainer) -> None:
    group.add_argument("--model", default="smollm2", metavar="M", help="folder, GGUF file, hub id or smollm2 (default)")
    group.add_argument("--dtype", default="auto", metavar="D", help="auto, float32 or bfloat16")
    group.add_argument("--device", default="auto", metavar="D", help="auto, cpu or cuda")
    group.add_argument("--max-model-len", type=int, metavar="N", help="context length (default: the model's)")


def _common(group: argparse._ActionsContainer) -> None:
    group.add_argument("-q", "--quiet", action="store_true", help="no progress on standard error")
    group.add_argument("--debug", action="store_true", help="show tracebacks (or set STRUCTGEN_DEBUG=1)")
