"""The libraries whose masks are compared, behind one small surface.

Each runs with its own defaults, on one thread; where JSON may be spelled in several ways (blanks, exponents) ours is
widened to what the peers take, so that all judge the same documents.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from structgen.cli import UsageError
from structgen.errors import GrammarError, StructgenError
from structgen.grammars.vocabulary import Vocabulary

if TYPE_CHECKING:
    from structgen.bench.samples import Sample


class MaskEngine(ABC):
    """One library.

    Attributes:
        name: the word for ``--vs``.
        package: what pip calls it; its version is reported.
        module: what Python calls it.
        reads_lark: whether it takes Lark grammars.
        row: the mask row that ``fill`` writes, 32-bit words.
        ends: ids that end a text.
    """

    name: ClassVar[str]
    package: ClassVar[str]
    module: ClassVar[str]
    reads_lark: ClassVar[bool] = True
    row: NDArray[Any]
    ends: Sequence[int]

    @abstractmethod
    def load(self) -> None:
        """Import what is needed, compiled kernels too."""

    @abstractmethod
    def build(self, source: str, vocabulary: Vocabulary | None, hugging_face: Any) -> None:
        """The tokenizer side, once a process: this call is timed."""

    @abstractmethod
    def compile(self, sample: Sample) -> Any:
        """The grammar, ready for matchers. Raises an Exception when it is refused."""

    @abstractmethod
    def matcher(self, compiled: Any) -> Any:
        """A fresh matcher."""

    @abstractmethod
    def fill(self, matcher: Any) -> None:
        """Write the mask of the next token into ``row``."""

    @abstractmethod
    def accept(self, matcher: Any, token: int) -> bool:
        """Take a token."""

    def problem(self, matcher: Any) -> str | None:
        """What is wrong with a matcher, by its own account."""
        return None

    def allows(self, token: int) -> bool:
        """Whether the row that was filled last has the bit of ``token``."""
        return token < 32 * len(self.row) and bool(int(self.row[token >> 5]) >> (token & 31) & 1)


class Ours(MaskEngine):
    name = package = module = "structgen"

    def load(self) -> None:
        import structgen.grammars.json_schema
        import structgen.grammars.matcher  # noqa: F401

    def build(self, source: str, vocabulary: Vocabulary | None, hugging_face: Any) -> None:
        from structgen.grammars.matcher import tables

        self.vocabulary = vocabulary or Vocabulary.from_tokenizer(source)
        tables(self.vocabulary)
        self.row = np.zeros((self.vocabulary.size + 31) // 32, dtype=np.int32)
        self.ends = self.vocabulary.eos_token_ids

    def compile(self, sample: Sample) -> Any:
        return sample.grammar().compile(self.vocabulary)

    def matcher(self, compiled: Any) -> Any:
        return compiled.matcher()

    def fill(self, matcher: Any) -> None:
        matcher.fill_bitmask(self.row)

    def accept(self, matcher: Any, token: int) -> bool:
        taken: bool = matcher.accept(token)
        return taken


class LLGuidance(MaskEngine):
    """``LLMatcher``; a deep copy of a compiled one is a fresh state. The mask goes through a pointer taken once, as its
    own numpy helper does, less that helper's 2 us a call."""

    name = package = module = "llguidance"

    def load(self) -> None:
        self._matcher = import_module("llguidance").LLMatcher
        self._reader = import_module("llguidance.hf").from_tokenizer
        self._allocate = import_module("llguidance.numpy").allocate_token_bitmask

    def build(self, source: str, vocabulary: Vocabulary | None, hugging_face: Any) -> None:
        self._tokenizer = self._reader(hugging_face)
        mask = self._allocate(1, self._tokenizer.vocab_size)
        self.row = mask[0]
        self.ends = self._tokenizer.eos_tokens
        self._place = self.row.ctypes.data, self.row.nbytes

    def compile(self, sample: Sample) -> Any:
        kind = {"json_schema": sample.schema} if sample.lark is None else {"lark_grammar": sample.lark}
        compiled = self._matcher(self._tokenizer, json.dumps({"grammars": [kind]}), log_level=0)
        if compiled.is_error():
            raise GrammarError(compiled.get_error())
        return compiled

    def matcher(self, compiled: Any) -> Any:
        return compiled.deep_copy()

    def fill(self, matcher: Any) -> None:
        matcher.unsafe_compute_mask_ptr(*self._place)

    def accept(self, matcher: Any, token: int) -> bool:
        taken: bool = matcher.consume_token(token)
        return taken

    def problem(self, matcher: Any) -> str | None:
        return matcher.get_error() if matcher.is_error() else None


class XGrammar(MaskEngine):
    name = package = module = "xgrammar"
    reads_lark = False

    def load(self) -> None:
        import torch

        torch.set_num_threads(1)
        self._library = import_module("xgrammar")
        self._matcher = self._library.GrammarMatcher

    def build(self, source: str, vocabulary: Vocabulary | None, hugging_face: Any) -> None:
        info = self._library.TokenizerInfo.from_huggingface(hugging_face)
        self._compiler = self._library.GrammarCompiler(info, max_threads=1)
        self._mask = self._library.allocate_token_bitmask(1, info.vocab_size)
        self.row = self._mask.numpy()[0]
        self.ends = info.stop_token_ids

    def compile(self, sample: Sample) -> Any:
        return self._compiler.compile_json_schema(json.dumps(sample.schema))

    def matcher(self, compiled: Any) -> Any:
        return self._matcher(compiled)

    def fill(self, matcher: Any) -> None:
        matcher.fill_next_token_bitmask(self._mask)

    def accept(self, matcher: Any, token: int) -> bool:
        taken: bool = matcher.accept_token(token)
        return taken


ENGINES: dict[str, type[MaskEngine]] = {engine.name: engine for engine in (Ours, LLGuidance, XGrammar)}
PEERS = tuple(name for name in ENGINES if name != Ours.name)


def peers(words: str | None, lark: bool) -> list[str]:
    """The engines that ``--vs`` names.

    Raises:
        UsageError: one that is not known, or cannot do it.
        StructgenError: one that is not installed.
    """
    found = [] if words is None else [word.strip() for word in words.split(",") if word.strip()]
    for name in found:
        if name not in PEERS:
            known = ", ".join(PEERS)
            raise UsageError(f"--vs {name!r} is not a library whose masks can be measured; allowed: {known}")
        engine = ENGINES[name]
        if lark and not engine.reads_lark:
            raise UsageError(f"--vs {name} has no place with --grammars: {name} does not read Lark grammars")
        try:
            import_module(engine.module)
        except ImportError as error:
            raise StructgenError(
                f"--vs {name} needs the package {engine.package}: pip install {engine.package} ({error})"
            ) from error
    return list(dict.fromkeys(found))


def version_of(name: str) -> str:
    """The installed version of an engine."""
    try:
        return version(ENGINES[name].package)
    except PackageNotFoundError:
        return "?"


def hugging_face(vocabulary: Vocabulary) -> Any:
    """The tokenizer as the transformers object that the peers take.

    Raises:
        UsageError: it is not one of the ``tokenizers`` library.
    """
    from transformers import PreTrainedTokenizerFast

    inner = vocabulary.tokenizer
    if inner is None or not hasattr(inner, "to_str"):
        raise UsageError("--vs needs a tokenizer.json or GGUF tokenizer: the peers read no others")
    names = {i: name for name, i in vocabulary.special.items()}
    stops = [names[i] for i in vocabulary.eos_token_ids if i in names]
    wrap: Any = PreTrainedTokenizerFast
    return wrap(tokenizer_object=inner, eos_token=stops[0] if stops else None)
