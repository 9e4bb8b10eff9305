"""Time to the first mask of a schema, and between masks, over many schemas."""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from structgen.bench import Report, percentile
from structgen.bench.workload import Sample, built_in, read_samples
from structgen.console import working
from structgen.errors import GrammarError, StructgenError
from structgen.grammars.grammar import Grammar
from structgen.grammars.vocabulary import Vocabulary

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from structgen.grammars.matcher import CompiledGrammar

_WALK = 64  # tokens of a random walk, where a schema comes without documents


@dataclass(slots=True)
class _Times:
    """Nanoseconds, and what went wrong."""

    first: list[float] = field(default_factory=list)
    between: list[float] = field(default_factory=list)
    again: list[float] = field(default_factory=list)
    schemas: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    refused_documents: list[str] = field(default_factory=list)


def measure(args: argparse.Namespace) -> Report:
    """Walks every schema's documents (or a random text) token by token."""
    vocabulary = _vocabulary(args)
    where = args.data_option or args.data
    samples: Iterator[Sample] = read_samples(where) if where else built_in()
    row = np.zeros((vocabulary.size + 31) // 32, dtype=np.uint32)
    with working("compiling the mask kernels", quiet=args.quiet):
        warm = Grammar.from_json_schema({"type": "object"}).compile(vocabulary).matcher()
        warm.fill_bitmask(row)
    times = _Times()
    with working("measuring", quiet=args.quiet):
        for sample in itertools.islice(samples, args.limit):
            _measure(sample, vocabulary, row, times)
    return _report(times, vocabulary, where or "the built-in schemas")


def _vocabulary(args: argparse.Namespace) -> Vocabulary:
    source = args.tokenizer
    if source is None:
        from structgen.engine.resolve import resolve_model

        source = resolve_model(args.model)
    with working("reading the tokenizer", quiet=args.quiet):
        return Vocabulary.from_tokenizer(source)


def _measure(sample: Sample, vocabulary: Vocabulary, row: Any, times: _Times) -> None:
    start = time.perf_counter_ns()
    try:
        compiled = Grammar.from_json_schema(sample.schema).compile(vocabulary)
        compiled.matcher().fill_bitmask(row)
    except GrammarError as error:
        times.refused[type(error).__name__] += 1
        return
    times.first.append(time.perf_counter_ns() - start)
    times.schemas += 1
    for document in sample.documents:
        tokens = vocabulary.encode(document)
        if not _walk(compiled, tokens, row, times.between):
            times.refused_documents.append(sample.name)
            continue
        _walk(compiled, tokens, row, times.again)
    if not sample.documents:
        tokens = _random_text(compiled, sample.name)
        _walk(Grammar.from_json_schema(sample.schema).compile(vocabulary), tokens, row, times.between)
        _walk(compiled, tokens, row, times.again)


def _walk(compiled: CompiledGrammar, tokens: list[int], row: Any, times: list[float]) -> bool:
    matcher = compiled.matcher()
    for token in tokens:
        start = time.perf_counter_ns()
        matcher.fill_bitmask(row)
        taken = matcher.accept(token)
        times.append(time.perf_counter_ns() - start)
        if not taken:
            return False
    return matcher.can_end() or len(tokens) == _WALK


def _random_text(compiled: CompiledGrammar, name: str) -> list[int]:
    """Tokens of a random text; the same for the same name."""
    chooser = random.Random(name)
    matcher = compiled.matcher()
    ends = set(compiled.vocab.eos_token_ids)
    tokens: list[int] = []
    while len(tokens) < _WALK:
        allowed = [int(t) for t in matcher.allowed_tokens() if int(t) not in ends]
        if not allowed:
            break
        tokens.append(chooser.choice(allowed))
        matcher.accept(tokens[-1])
    return tokens


def _report(times: _Times, vocabulary: Vocabulary, where: str) -> Report:
    if not times.schemas:
        raise StructgenError(f"none of the schemas of {where} could be used: {dict(times.refused)}")
    rows = []
    for name, values in (
        ("first mask, from the schema on", times.first),
        ("mask and accept, first visit", times.between),
        ("mask and accept, again", times.again),
    ):
        rows.append(
            {
                "microseconds": name,
                "n": len(values),
                "p50": _us(percentile(values, 0.5)),
                "p90": _us(percentile(values, 0.9)),
                "p99": _us(percentile(values, 0.99)),
                "max": _us(max(values, default=None)),
            }
        )
    notes = [f"{times.schemas} schemas of {where}; vocabulary of {vocabulary.size:,} tokens"]
    if times.refused:
        notes.append(f"refused schemas: {', '.join(f'{n} {name}' for name, n in times.refused.most_common())}")
    if times.refused_documents:
        notes.append(
            f"documents refused: {len(times.refused_documents)} ({', '.join(times.refused_documents[:3])} ...)"
        )
    details = {"refused": dict(times.refused), "refused_documents": times.refused_documents}
    return Report("Masks", rows, notes, details)


def _us(nanoseconds: float | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / 1000
