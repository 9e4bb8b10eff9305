"""``model_type`` -> model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

import torch
from torch import Tensor

from structgen.engine.layers.attention import LayerCache, Step
from structgen.engine.layers.linear import has_bf16_instructions
from structgen.engine.loader import Checkpoint, SafetensorsFolder, Source
from structgen.engine.model_config import Fields, ModelConfig, read_dtype
from structgen.errors import ModelError

if TYPE_CHECKING:
    from structgen.engine.models.llama import Llama

ModelImpl = Literal["auto", "native", "transformers"]


class Model(Protocol):
    """What the runner needs of a model; `Llama` says what each does."""

    config: ModelConfig
    dtype: torch.dtype
    device: torch.device

    @property
    def rope(self) -> Table: ...

    def forward(self, token_ids: Tensor, step: Step, caches: Sequence[LayerCache]) -> tuple[Tensor, Tensor]: ...

    def logits(self, x: Tensor, residual: Tensor) -> Tensor: ...


class Table(Protocol):
    """Rotary angles, made when the longest sequence is known."""

    def build(self, max_positions: int) -> Tensor: ...


_MODELS: dict[str, type[Llama]] = {}


def register(model_type: str) -> Callable[[type[Llama]], type[Llama]]:
    """Class decorator: this class is what checkpoints of ``model_type`` need."""

    def add(model: type[Llama]) -> type[Llama]:
        _MODELS[model_type] = model
        return model

    return add


def known_models() -> list[str]:
    """Every supported ``model_type``."""
    return sorted(_MODELS)


def model_class(model_type: str) -> type[Llama]:
    """The class for a ``model_type``.

    Raises:
        ModelError: it is unknown; the message lists the known ones.
    """
    if model_type not in _MODELS:
        raise ModelError(
            f"model type {model_type!r} is not supported natively; native models: {', '.join(known_models())}. Folders "
            "of other causal transformers architectures run with model_impl='auto' or 'transformers'"
        )
    return _MODELS[model_type]


def read_config(fields: Fields) -> ModelConfig:
    """What the fields of config.json mean to their model type.

    Raises:
        ModelError: the model type is unknown, a field is missing, or asks for something that is not supported.
    """
    model = model_class(str(fields["model_type"]))
    try:
        return model.read_config(fields)
    except KeyError as missing:
        raise ModelError(f"config.json: {missing} is missing") from None


def picks_native(source: Source, model_impl: ModelImpl) -> bool:
    """Whether a checkpoint runs on a model of this package: "auto" takes one where there is one.

    Raises:
        ModelError: neither this package nor transformers can run it, or the option is unknown.
    """
    if model_impl not in ("auto", "native", "transformers"):
        raise ModelError(f"model_impl is {model_impl!r}; allowed: 'auto', 'native', 'transformers'")
    model_type = str(source.config_fields["model_type"])
    is_folder = isinstance(source, SafetensorsFolder)
    if model_impl == "transformers":
        if not is_folder:
            raise ModelError("model_impl='transformers' reads folders with safetensors; GGUF files run natively")
        return False
    if model_impl == "auto" and is_folder and model_type not in _MODELS:
        return False
    model_class(model_type)
    return True


def stored_dtype(source: Source, *, native: bool, device: torch.device) -> torch.dtype | None:
    """What ``dtype="auto"`` goes by: float32 or another.

    transformers' linear layers take 16 ms a *token* in bfloat16 on a processor without its instructions [measured].
    """
    if not native and device.type == "cpu" and not has_bf16_instructions():
        return torch.float32
    return read_dtype(source.config_fields)


def build_model(source: Source, *, dtype: torch.dtype, device: torch.device, model_impl: ModelImpl = "auto") -> Model:
    """The model of a checkpoint with its weights loaded.

    Raises:
        ModelError: model type, config or weights are not supported; nothing of a checkpoint is left out silently.
    """
    if not picks_native(source, model_impl):
        from structgen.engine.models.transformers_model import TransformersModel

        assert isinstance(source, SafetensorsFolder)
        return TransformersModel(source.folder, dtype=dtype, device=device)
    config = read_config(source.config_fields)
    model = model_class(config.model_type)(config, dtype=dtype, device=device)
    weights = Checkpoint(source)
    with torch.inference_mode():
        model.load(weights)
    weights.refuse_rest()
    return model
