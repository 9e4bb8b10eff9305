"""Fixtures of the tests of generate and the command line: a tiny random model in a folder."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from structgen import LLM

# A template in ChatML's manner; the tiny vocabulary has no special tokens for it, so its marks are plain text.
TEMPLATE = (
    "{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved llama with random weights, a byte tokenizer and a chat template."""
    source = Path(__file__).parents[1] / "engine" / "tiny.py"
    spec = importlib.util.spec_from_file_location("structgen_tests_tiny_model", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder: Path = module.make_tiny_model(tmp_path_factory.mktemp("tiny"))
    config = folder / "tokenizer_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "chat_template": TEMPLATE}))
    return folder


@pytest.fixture(scope="session")
def tiny_llm(tiny_folder: Path) -> Iterator[LLM]:
    with LLM(str(tiny_folder), dtype="float32") as llm:
        yield llm
