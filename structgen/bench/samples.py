"""What masks are measured on: schemas or Lark grammars, with texts to walk along."""

from __future__ import annotations

import gzip
import json
import lzma
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from structgen.bench.workload import SCHEMAS
from structgen.errors import GrammarError, RequestError
from structgen.grammars.grammar import Grammar
from structgen.grammars.library import find, names

if TYPE_CHECKING:
    from structgen.grammars.matcher import CompiledGrammar
    from structgen.grammars.vocabulary import Vocabulary

WALK_TOKENS = 64  # of a random text, before it is led to its end
_END_BYTES = 4096  # a text whose end is further off is left out


@dataclass(frozen=True, slots=True)
class Document:
    """A text, and whether the grammar should accept it (None: nobody has said)."""

    text: str
    valid: bool | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """A JSON Schema, or a Lark grammar's text, with documents (may be none)."""

    name: str
    schema: Any = None
    lark: str | None = None
    documents: tuple[Document, ...] = ()

    def grammar(self) -> Grammar:
        """Our grammar, with JSON taken as widely as the peers take it by default.

        Raises:
            GrammarError: it cannot be used.
        """
        if self.lark is not None:
            return Grammar.from_lark(self.lark, parser="earley" if "// parser: earley" in self.lark else "lalr")
        return Grammar.from_json_schema(self.schema, whitespace="any", numbers="any")

    def has_pattern(self) -> bool:
        """Whether regular expressions occur in the schema."""
        return self.lark is None and '"pattern' in json.dumps(self.schema)


def built_in() -> Iterator[Sample]:
    """The package's own small schemas, without documents."""
    for name, schema in SCHEMAS.items():
        yield Sample(name, schema)


def read_samples(where: str) -> Iterator[Sample]:
    """Samples of a ``.json`` schema, a ``.jsonl`` file (also .xz, .gz), or a folder of either.

    A line, or a file, is a schema, or an object with ``schema``, perhaps ``name``, and perhaps ``tests``: a list of
    ``{"valid": true, "data": ...}`` (the layout of JSONSchemaBench and MaskBench).

    Raises:
        GrammarError: nothing there, or no JSON.
    """
    path = Path(where)
    if path.is_dir():
        found = [p for p in sorted(path.rglob("*")) if p.is_file() and ".json" in p.name]
        if not found:
            raise GrammarError(f"the folder {where!r} holds no .json or .jsonl files")
        for one in found:
            yield from _read_file(one)
        return
    if not path.is_file():
        raise GrammarError(f"there is no file or folder {where!r}")
    yield from _read_file(path)


def _read_file(path: Path) -> Iterator[Sample]:
    opener: Any = {".xz": lzma.open, ".gz": gzip.open}.get(path.suffix, open)
    with opener(path, "rt", encoding="utf-8") as file:
        texts = enumerate(file, 1) if ".jsonl" in path.name else [(1, file.read())]
        for number, text in texts:
            if not text.strip():
                continue
            try:
                found = json.loads(text)
            except json.JSONDecodeError as error:
                line = number if ".jsonl" in path.name else error.lineno
                raise GrammarError(f"{path} is not JSON: {error.msg}", line=line, column=error.colno) from error
            yield _sample(found, f"{path.name}:{number}" if ".jsonl" in path.name else path.name)


def _sample(found: Any, name: str) -> Sample:
    if not isinstance(found, dict) or "schema" not in found:
        return Sample(name, found)
    tests = found.get("tests", ())
    documents = tuple(Document(json.dumps(t["data"], ensure_ascii=False), bool(t.get("valid"))) for t in tests)
    return Sample(str(found.get("name", name)), found["schema"], documents=documents)


def read_grammars(where: str) -> Iterator[Sample]:
    """Samples of a ``.lark`` file, a folder of them, or ``library``: the package's own.

    Texts lie beside NAME.lark in NAME.accept.txt and NAME.reject.txt: one a line, or, for texts of several lines,
    separated by lines ``===``.

    Raises:
        GrammarError: nothing there.
    """
    if where == "library":
        for name in names():
            yield Sample(name, lark=find(name))
        return
    path = Path(where)
    files = sorted(path.rglob("*.lark")) if path.is_dir() else [path]
    if not files:
        raise GrammarError(f"the folder {where!r} holds no .lark files")
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
        except OSError as error:
            known = "a .lark file, a folder of them, or library"
            raise GrammarError(f"cannot read {str(file)!r}: {error.strerror}. --grammars takes {known}") from error
        found = [
            Document(one, valid)
            for valid, kind in ((True, "accept"), (False, "reject"))
            for one in _texts(file.with_name(f"{file.stem}.{kind}.txt"))
        ]
        yield Sample(file.stem, lark=text, documents=tuple(found))


def _texts(path: Path) -> list[str]:
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    if "===" not in lines:
        return [line for line in lines if line]
    joined = "\n".join(lines).removesuffix("\n")
    return [text for text in joined.split("\n===\n") if text]


def random_documents(sample: Sample, vocabulary: Vocabulary, count: int = 2) -> tuple[Document, ...]:
    """Texts of the grammar: random tokens of printable ASCII where some are legal, then the shortest way to an end;
    JSON is then written as ``json.dumps`` writes it. The same for the same name."""
    chooser = random.Random(sample.name)
    try:
        grammar = sample.grammar()
        compiled = grammar.compile(vocabulary)
    except GrammarError:
        return ()
    found = (_random_text(compiled, _plain(vocabulary), chooser) for _ in range(count))
    texts = [text if sample.lark is not None else _dumped(text) for text in found if text is not None]
    return tuple(Document(text) for text in texts if text is not None and grammar.matches(text))


@lru_cache(maxsize=1)
def _plain(vocabulary: Vocabulary) -> NDArray[np.bool_]:
    tokens = [data or b"\n" for data in vocabulary.tokens]
    return np.array([data.isascii() and data.decode().isprintable() for data in tokens])


def _random_text(compiled: CompiledGrammar, plain: NDArray[np.bool_], chooser: random.Random) -> str | None:
    matcher, data = compiled.matcher(), b""
    for _ in range(chooser.randrange(WALK_TOKENS)):
        allowed = matcher.allowed_tokens()
        wanted = allowed[plain[allowed]]
        token = chooser.choice((wanted if len(wanted) else allowed).tolist() or [-1])
        piece = compiled.vocab.tokens[token] if token >= 0 else None
        if piece is None:  # an end, or nothing
            break
        matcher.accept(token)
        data += piece
    rest = matcher.shortest_completion()
    if rest is None or len(rest) > _END_BYTES:
        return None
    try:
        return (data + rest).decode("utf-8")
    except UnicodeDecodeError:
        return None


def _dumped(text: str) -> str | None:
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, allow_nan=False)
    except ValueError:  # a number too large for a float
        return None


def token_walks(sample: Sample, vocabulary: Vocabulary) -> tuple[tuple[tuple[int, ...], bool | None], ...]:
    """The documents (random ones where the sample has none) as tokens; those that cannot be written are left out."""
    made = []
    for document in sample.documents or random_documents(sample, vocabulary):
        try:
            made.append((tuple(vocabulary.encode(document.text)), document.valid))
        except RequestError:  # half a surrogate pair
            continue
    return tuple(made)
