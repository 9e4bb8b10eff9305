"""Grammar: a constraint on a whole text, from any front end."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

from structgen.errors import GrammarError, UnsupportedGrammar
from structgen.grammars import machine as m
from structgen.grammars.machine import Machine, Thread
from structgen.grammars.recent import Recent
from structgen.grammars.residual import LOCK

if TYPE_CHECKING:
    from structgen.grammars.matcher import CompiledGrammar
    from structgen.grammars.vocabulary import Vocabulary


MAX_RECENT = 512
"""So many grammars of JSON Schemas are remembered, and as many compiled grammars for a vocabulary."""
MAX_RECENT_BYTES = 8 << 20
"""So many bytes of schema text they have; what is kept for a byte is 10 to 60 bytes, the automata left aside."""

_recent: Recent[Grammar] = Recent(MAX_RECENT, MAX_RECENT_BYTES)


class Grammar:
    """A constraint on a whole text. Make one with a ``from_...`` method; use it alone (``matches``) or on a vocabulary
    (``compile``).

    Attributes:
        machine: the abstract machine behind it.
        report: for JSON Schema, what is enforced and what is annotation only, with JSON pointers; else None.
        source: what it was made from, for messages.
        language: what a Lark grammar's first comment line calls it (``// SQL: ...`` gives ``SQL``), else None.
    """

    def __init__(
        self,
        machine: Machine,
        *,
        report: Any = None,
        source: str = "",
        convert: Callable[[str], Any] | None = None,
        schema: Any = None,
        language: str | None = None,
    ) -> None:
        self.machine = machine
        self.report = report
        self.source = source
        self.schema = schema
        self.language = language
        self._convert = convert
        self._bytes = 1_000
        """The size of its source, or a guess."""
        self._compiled: list[ref[CompiledGrammar]] = []

    # -- front ends

    @classmethod
    def from_json_schema(cls, schema: Any, **options: Any) -> Grammar:
        """JSON documents that satisfy ``schema`` (dict, bool, or JSON text).

        Options (see docs/reference.md): ``order``, ``whitespace``, ``escapes``, ``numbers``, ``format_assertion``,
        ``on_unsupported``, ``draft``, ``registry``. Raises GrammarError with ``.pointer``, and TypeError for an unknown
        option.

        The last grammars are remembered by the content of the schema and the options, so a schema that comes again
        costs a look-up. ``schema`` is copied: changing it later changes no grammar. (With ``registry``, whose
        documents may change, nothing is remembered.)
        """
        import json

        _check_names("from_json_schema", options)
        return cls._of_schema(schema, options, "JSON Schema", json.loads)

    @classmethod
    def from_type(cls, type_: Any, **options: Any) -> Grammar:
        """JSON documents that give a value of ``type_``: a pydantic model, dataclass, TypedDict, Enum, Literal, list,
        dict, tuple, union or primitive. Options as for ``from_json_schema``."""
        from structgen.grammars import types

        _check_names("from_type", options)
        name = getattr(type_, "__name__", repr(type_))
        schema = types.schema_of(type_)
        return cls._of_schema(schema, options, name, lambda text: types.value_of(type_, text), type_)

    @classmethod
    def _of_schema(
        cls, schema: Any, options: dict[str, Any], source: str, convert: Callable[[str], Any], type_: Any = None
    ) -> Grammar:
        """The grammar of a schema (of a type), made or remembered."""
        from structgen.grammars import json_schema
        from structgen.grammars.schema import contents

        known = contents.identity(schema)
        key = None
        if known is not None and options.get("registry") is None and _is_hashable(type_):
            # With their spelling: True and 1 are equal.
            key = cls, known, type_, tuple((name, repr(value)) for name, value in sorted(options.items()))
        found = None if key is None else _recent.get(key)
        if found is None:
            machine, report = json_schema.machine(schema, known=known, **options)
            copy = schema if isinstance(schema, str) else machine.schema
            found = cls(machine, report=report, source=source, convert=convert, schema=copy)
            if known is not None:
                found._bytes = len(known)
            if key is not None:
                _recent.put(key, found, found._bytes)
        return found

    @classmethod
    def from_regex(cls, pattern: str, flags: int = 0) -> Grammar:
        """Texts that ``re.fullmatch(pattern, text, flags)`` matches."""
        from structgen.grammars import regex

        return cls(regex.machine(pattern, flags), source=f"regex {pattern!r}")

    @classmethod
    def from_choices(cls, choices: Sequence[str]) -> Grammar:
        """Exactly one of the texts."""
        from structgen.grammars import choices as choices_

        return cls(choices_.machine(choices), source="choices")

    @classmethod
    def from_lark(
        cls, text: str | os.PathLike[str], start: str = "start", parser: str = "lalr", **options: Any
    ) -> Grammar:
        """Texts that ``lark.Lark(text, start=start, parser=parser).parse`` accepts. ``text`` is grammar text, or a
        path object of a file. Raises GrammarError for a file that cannot be read, and for a bad grammar."""
        from structgen.grammars import lark_grammar

        if isinstance(text, os.PathLike):
            path = os.fsdecode(text)
            text, options = _read(path), {"source": path, **options}
        machine = lark_grammar.machine(text, start=start, parser=parser, **options)
        header = re.match(r"//[ \t]*([^:\n]{1,40}):", text) if isinstance(text, str) else None
        return cls(machine, source="Lark grammar", language=header[1].strip() if header else None)

    @classmethod
    def from_gbnf(cls, text: str) -> Grammar:
        """Not built yet."""
        raise UnsupportedGrammar("GBNF grammars are not built yet; write the grammar in Lark's syntax (from_lark)")

    @classmethod
    def from_structural_tag(cls, tag: Any) -> Grammar:
        """Not built yet."""
        raise UnsupportedGrammar("structural tags are not built yet")

    @classmethod
    def turn(cls, **options: Any) -> Grammar:
        """Not built yet."""
        raise UnsupportedGrammar("whole-turn grammars (thinking, tool calls) are not built yet")

    # -- use

    def matches(self, text: str | bytes) -> bool:
        """Whether ``text``, whole, satisfies the grammar. Needs no tokenizer."""
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else bytes(text)
        threads = self._start()
        for byte in data:
            with LOCK:
                threads = m.step(threads, byte)
            if not threads:
                return False
        with LOCK:
            return m.can_end(threads)

    def prefix_length(self, text: str | bytes) -> int:
        """How many bytes of ``text``, from the first on, a text of the grammar may begin with."""
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else bytes(text)
        threads = self._start()
        for n, byte in enumerate(data):
            with LOCK:
                threads = m.step(threads, byte)
            if not threads:
                return n
        return len(data)

    def _start(self) -> tuple[Thread, ...]:
        with LOCK:
            return m.start(self.machine)

    def value(self, text: str) -> Any:
        """The value that a finished text stands for: parsed JSON, an instance of the type, else the text itself.
        Raises OutputValidationError where the type's own validators refuse it."""
        return self._convert(text) if self._convert is not None else text

    def compile(self, vocab: Vocabulary) -> CompiledGrammar:
        """Bind to a vocabulary. Cheap: tables fill as they are needed. The same object for the same vocabulary, as
        long as somebody holds it; the vocabulary holds those that were used last."""
        from structgen.grammars.matcher import CompiledGrammar

        found = next((each for at in self._compiled if (each := at()) is not None and each.vocab == vocab), None)
        if found is None:
            found = CompiledGrammar(self, vocab)
            self._compiled = [*(at for at in self._compiled if at() is not None), ref(found)]
        _compiled_for(vocab).put(self, found, self._bytes)
        return found

    def __repr__(self) -> str:
        return f"Grammar({self.source})"


def _check_names(method: str, options: dict[str, Any]) -> None:
    """Raise TypeError for an option that grammars of JSON Schemas do not have."""
    if not options:
        return
    from structgen.grammars.json_schema import OPTIONS

    for name in options:
        if name not in OPTIONS:
            near = difflib.get_close_matches(name, OPTIONS, 1)
            hint = f"did you mean {near[0]!r}? It has" if near else "it has"
            raise TypeError(f"Grammar.{method} has no option {name!r}; {hint} {', '.join(OPTIONS)}")


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _compiled_for(vocab: Vocabulary) -> Recent[CompiledGrammar]:
    """The compiled grammars that were used last. The vocabulary itself holds them, since they hold it: whoever lets it
    go lets all of them go."""
    found = vocab.__dict__.get("_recent")
    if found is None:
        found = vocab.__dict__.setdefault("_recent", Recent(MAX_RECENT, MAX_RECENT_BYTES))
    made: Recent[CompiledGrammar] = found
    return made


def _read(path: str) -> str:
    """The UTF-8 text of a grammar file. Raises GrammarError, with the file's name, where it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise GrammarError(
            f"the grammar file {path!r} is not UTF-8 text: {error.reason} at byte {error.start}"
        ) from error
    except OSError as error:
        raise GrammarError(f"the grammar file {path!r} cannot be read: {error.strerror}") from error
    except ValueError as error:  # a NUL in the name
        raise GrammarError(f"{path!r} cannot be the name of a grammar file: {error}") from error
