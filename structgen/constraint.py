"""From the words of a call or a command line (schema, regex, grammar, choices) to a Grammar."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from structgen.errors import GrammarError, RequestError, UnsupportedGrammar

if TYPE_CHECKING:
    from structgen.grammars.grammar import Grammar


@dataclass(frozen=True, slots=True)
class Constraint:
    """What one request is held to.

    Attributes:
        grammar: None for free text.
        schema: the JSON Schema behind it, for showing it to the model; None when there is none.
        choices: the choices behind it, else None.
        target: the type whose value is wanted; None gives the text itself.
    """

    grammar: Grammar | None = None
    schema: Any = None
    choices: tuple[str, ...] | None = None
    target: Any = None

    @property
    def language(self) -> str | None:
        """What a Lark grammar calls its texts ("SQL"), else None."""
        return None if self.grammar is None else self.grammar.language

    def value(self, text: str) -> Any:
        """What a complete text stands for. Raises OutputValidationError where the type refuses it."""
        if self.target is not None:
            from structgen.grammars.types import value_of

            return value_of(self.target, text)
        return text


def constraint_of(
    *,
    schema: Any = None,
    regex: str | None = None,
    grammar: Any = None,
    choices: Iterable[str] | None = None,
    documents: Mapping[str, Any] | None = None,
) -> Constraint:
    """The one constraint that is given, or a free one.

    Args:
        documents: options of ``Grammar.from_json_schema`` about what the schema refers to (``draft``, ``registry``).

    Raises:
        RequestError: more than one is given.
        GrammarError: it cannot be used.
    """
    named = {"schema": schema, "regex": regex, "grammar": grammar, "choices": choices}
    given = [name for name, value in named.items() if value is not None]
    if len(given) > 1:
        raise RequestError(f"{' and '.join(given)} are given together; give one constraint a request")
    if schema is not None:
        return _from_schema(schema, documents or {})
    if regex is not None:
        return Constraint(_regex(regex))
    if grammar is not None:
        return Constraint(load_grammar(grammar))
    if choices is not None:
        return _from_choices(choices)
    return Constraint()


def _from_schema(schema: Any, documents: Mapping[str, Any]) -> Constraint:
    from structgen.grammars.grammar import Grammar
    from structgen.grammars.types import schema_of, shown_schema_of

    if isinstance(schema, Grammar):
        raise RequestError("schema is a Grammar; pass it as grammar=")
    # Canonical escapes: the same values; small models otherwise wander off into \uXXXX.
    grammar = Grammar.from_json_schema(schema_of(schema, closed=True), escapes="canonical", **documents)
    return Constraint(grammar, schema=shown_schema_of(schema), target=schema)


def _regex(pattern: Any) -> Grammar:
    from structgen.grammars.grammar import Grammar

    if hasattr(pattern, "pattern") and hasattr(pattern, "flags"):  # re.compile(...): str patterns carry re.UNICODE
        return Grammar.from_regex(pattern.pattern, pattern.flags)
    if not isinstance(pattern, str):
        raise RequestError(f"regex is {pattern!r}; allowed: a pattern text or re.compile(...)")
    return Grammar.from_regex(pattern)


def _from_choices(choices: Iterable[str]) -> Constraint:
    from structgen.grammars.grammar import Grammar

    if isinstance(choices, (str, bytes, Mapping)):
        raise RequestError(f"choices is {choices!r}; allowed: a list of texts")
    listed = tuple(choices)
    for choice in listed:
        if not isinstance(choice, str):
            raise RequestError(f"choices holds {choice!r}; allowed: texts")
    return Constraint(Grammar.from_choices(listed), choices=listed)


# ------------------------------------------------------------------------------------------------ grammars


def load_grammar(source: Any, *, start: str = "start", parser: str = "lalr") -> Grammar:
    """A Grammar from a Grammar, a file, the name of a library grammar (``"sql.lark"``), or Lark text.

    A text with a line break or a colon is a grammar; anything else is a name: a file, else the library's.
    """
    from structgen.grammars.grammar import Grammar

    if isinstance(source, Grammar):
        return source
    if isinstance(source, os.PathLike):
        return grammar_file(os.fspath(source), start=start, parser=parser)
    if not isinstance(source, str):
        raise RequestError(f"grammar is {source!r}; allowed: a Grammar, a file, a library name or Lark text")
    if "\n" in source or (":" in source and not is_file(source)):
        return Grammar.from_lark(source, start=start, parser=parser)
    return grammar_file(source, start=start, parser=parser)


def grammar_file(name: str, *, start: str = "start", parser: str = "lalr") -> Grammar:
    """The Grammar in a file (or pipe), else the library's of that name.

    Raises:
        GrammarError: there is neither, and the message lists the library; or it cannot be read.
        UnsupportedGrammar: the file is of a kind that is not built.
    """
    from structgen.grammars import library
    from structgen.grammars.grammar import Grammar

    if is_file(name):
        path = Path(name)
        suffix = path.suffix.lower()
        if suffix == ".gbnf":
            raise UnsupportedGrammar(f"{name}: GBNF grammars are not built yet; write the grammar in Lark's syntax")
        if suffix == ".json":
            raise GrammarError(f"{name} looks like a JSON Schema; pass it as schema (--schema {name})")
        return Grammar.from_lark(path, start=start, parser=parser)
    known = [f"{stem}.lark" for stem in library.names()]
    if name in known or f"{name}.lark" in known:
        return Grammar.from_lark(library.find(name), start=start, parser=parser)
    if _is_folder(name):
        raise GrammarError(f"{name!r} is a folder, not a grammar file")
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise GrammarError(
        f"there is no grammar file {name!r}, and none of that name in the library.{hint} "
        f"The library has: {', '.join(known)}"
    )


def is_file(name: str) -> bool:
    """Whether ``name`` can be read as a file: there, and no folder. Pipes and devices (``<(...)``, ``/dev/stdin``) can.
    False for what cannot be a name (too long, a NUL in it)."""
    try:
        return Path(name).exists() and not Path(name).is_dir()
    except (OSError, ValueError):
        return False


def _is_folder(name: str) -> bool:
    try:
        return Path(name).is_dir()
    except (OSError, ValueError):
        return False


def schema_file(name: str) -> Any:
    """The JSON Schema in a file, or in the text itself when it begins with ``{``, or is JSON and no file's name.

    Raises:
        GrammarError: no such file, no JSON, or no schema; the message names the line and column.
    """
    if name.lstrip().startswith("{") or (not is_file(name) and is_json(name)):
        text, where = name, "the schema text"
    else:
        text, where = read_text(name, "schema"), name
    try:
        schema = json.loads(text)
    except RecursionError as error:
        raise GrammarError(f"{where} is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise GrammarError(f"{where} is not JSON: {error.msg}", line=error.lineno, column=error.colno) from error
    except ValueError as error:  # Python reads no integer of more than some thousand digits
        raise GrammarError(f"{where} cannot be read: {error}") from error
    if not isinstance(schema, (dict, bool)):
        raise GrammarError(f"{where} holds {type(schema).__name__}; a JSON Schema is an object or a boolean")
    return schema


def registry(given: Sequence[str] | None) -> Any:
    """A ``referencing.Registry`` of the documents that references lead to: ``FILE`` (by its ``$id``) or ``URI=FILE``;
    None where none are given."""
    if not given:
        return None
    import referencing
    import referencing.jsonschema

    resources = []
    for each in given:
        uri, _, file = each.rpartition("=")
        contents = schema_file(file)
        named = contents.get("$id", contents.get("id")) if isinstance(contents, dict) else None
        known_by = uri or named
        if not isinstance(known_by, str):
            raise GrammarError(f"{file} has no $id; say by which URI it is known: --registry URI={file}")
        default = referencing.jsonschema.DRAFT202012
        resources.append((known_by, referencing.Resource.from_contents(contents, default_specification=default)))
    return referencing.Registry().with_resources(resources)


def is_json(text: str) -> bool:
    """Whether ``text`` is a JSON text."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def read_text(name: str, what: str) -> str:
    """The UTF-8 text of a file. Raises GrammarError where it cannot be read."""
    try:
        return Path(name).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise GrammarError(f"there is no {what} file {name!r}") from error
    except IsADirectoryError as error:
        raise GrammarError(f"{name!r} is a folder, not a {what} file") from error
    except UnicodeDecodeError as error:
        raise GrammarError(f"{name!r} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except OSError as error:
        raise GrammarError(f"{name!r} cannot be read: {error.strerror}") from error
    except ValueError as error:  # a NUL in the name
        raise GrammarError(f"{name!r} cannot be the name of a {what} file: {error}") from error
