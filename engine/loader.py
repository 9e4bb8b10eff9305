"""Checkpoints: named tensors and the fields of a config, from a safetensors folder or a GGUF file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from structgen.engine.model_config import read_config_json
from structgen.errors import ModelError


class Source(Protocol):
    """Where tensors come from."""

    @property
    def config_fields(self) -> dict[str, Any]:
        """Fields of config.json."""

    @property
    def names(self) -> set[str]:
        """Names of all tensors, transformers'."""

    @property
    def is_quantised(self) -> bool:
        """Whether weights are stored in fewer than 16 bits."""

    def get(self, name: str) -> Tensor:
        """One tensor, in a floating dtype."""


class SafetensorsFolder:
    """A transformers checkpoint: config.json and one or more .safetensors files, each opened on first use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config_fields = read_config_json(folder)
        self._files = self._find_files()
        self._open: dict[str, Any] = {}

    def _find_files(self) -> dict[str, str]:
        index = self.folder / "model.safetensors.index.json"
        if index.exists():
            try:
                files: dict[str, str] = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
            except (ValueError, KeyError) as error:
                raise ModelError(f"{index} is damaged: {error!r}. Fetch it again.") from None
            missing = sorted({name for name in files.values() if not (self.folder / name).exists()})
            if missing:
                raise ModelError(f"{self.folder} lacks {', '.join(missing)}, which its index names. Fetch it again.")
            return files
        path = self.folder / "model.safetensors"
        if not path.exists():
            others = (".bin", ".pt", ".pth", ".gguf")
            found = sorted(file.name for file in self.folder.iterdir() if file.suffix in others)
            hint = f" (it has {', '.join(found)})" if found else ""
            raise ModelError(f"{self.folder} has no model.safetensors{hint}; only those and .gguf files are read")
        return dict.fromkeys(_open_safetensors(path).keys(), path.name)

    @property
    def names(self) -> set[str]:
        return set(self._files)

    @property
    def is_quantised(self) -> bool:
        return False

    def get(self, name: str) -> Tensor:
        file = self._files[name]
        if file not in self._open:
            self._open[file] = _open_safetensors(self.folder / file)
        tensor: Tensor = self._open[file].get_tensor(name)
        return tensor


def _open_safetensors(path: Path) -> Any:
    import safetensors

    try:
        return safetensors.safe_open(str(path), framework="pt")
    except (safetensors.SafetensorError, OSError) as error:
        raise ModelError(f"{path} is not a whole safetensors file ({error}). Fetch it again.") from None


class Checkpoint:
    """A source whose tensors are taken one by one, and which knows what nobody took.

    >>> weights = Checkpoint(source)
    >>> weights.take("model.norm.weight", (576,))
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._left = set(source.names)

    def has(self, name: str) -> bool:
        return name in self._left

    def take(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """The tensor of that name and shape.

        Raises:
            ModelError: it is missing, or has another shape.
        """
        if name not in self._left:
            raise ModelError(f"the checkpoint has no tensor {name!r}, which its config asks for")
        self._left.discard(name)
        tensor = self._source.get(name)
        if tuple(tensor.shape) != shape:
            raise ModelError(f"tensor {name!r} is {list(tensor.shape)}, but the config makes it {list(shape)}")
        return tensor

    def drop(self, name: str) -> None:
        """Say that a tensor is not needed."""
        self._left.discard(name)

    def refuse_rest(self) -> None:
        """Raise ModelError when tensors were not taken: the model would run without a part of its weights."""
        left = sorted(name for name in self._left if not name.endswith("rotary_emb.inv_freq"))  # old, derivable
        if left:
            some = ", ".join(left[:5]) + (", ..." if len(left) > 5 else "")
            raise ModelError(f"the checkpoint has {len(left)} tensors that its model type does not use: {some}")


def open_source(path: Path) -> Source:
    """A folder or a GGUF file.

    Raises:
        ModelError: neither.
    """
    if path.is_dir():
        return SafetensorsFolder(path)
    if not path.exists():
        raise ModelError(f"{path} does not exist")
    from structgen.engine.gguf_file import GGUFFile

    return GGUFFile(path)
