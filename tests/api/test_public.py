"""The one public list."""

from __future__ import annotations

import subprocess
import sys

import pytest

import structgen
from structgen import errors

# What users may rely on; a name may be added here, none may go.
PROMISED = {
    "AsyncLLM", "CompiledGrammar", "Grammar", "GrammarError", "GrammarTooComplex", "IncompleteOutput", "LLM",
    "Matcher", "OutputValidationError", "RequestError", "RequestOutput", "SamplingParams", "StructgenError",
    "UnsatisfiableGrammar", "UnsupportedGrammar", "Vocabulary", "__version__", "fill_bitmasks", "generate",
}  # fmt: skip


def test_the_list_holds_what_is_promised() -> None:
    assert set(structgen.__all__) >= PROMISED
    assert structgen.__all__ == sorted(structgen.__all__, key=structgen.__all__.index)
    assert len(structgen.__all__) == len(set(structgen.__all__))


@pytest.mark.parametrize("name", structgen.__all__)
def test_every_name_is_there_and_documented(name: str) -> None:
    value = getattr(structgen, name)
    if name != "__version__":
        assert value.__doc__, f"{name} has no docstring"
    assert name in dir(structgen)


def test_every_error_is_public() -> None:
    for name, value in vars(errors).items():
        if isinstance(value, type) and issubclass(value, errors.StructgenError):
            assert name in structgen.__all__


def test_errors_of_settings_are_value_errors() -> None:
    for error in (structgen.GrammarError, structgen.ModelError, structgen.RequestError):
        assert issubclass(error, ValueError)


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="nothing_like_it"):
        structgen.nothing_like_it  # noqa: B018


def test_star_import() -> None:
    code = "from structgen import *; Grammar, generate, LLM, __version__"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_version_is_that_of_the_distribution() -> None:
    from importlib.metadata import version

    assert structgen.__version__ == version("structgen")
