"""``model_type`` -> model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from structgen.engine.loader import Checkpoint, Source
from structgen.engine.model_config import Fields, ModelConfig
from structgen.errors import ModelError

if TYPE_CHECKING:
    from structgen.engine.models.llama import Llama

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
        raise ModelError(f"model type {model_type!r} is not supported; supported: {', '.join(known_models())}")
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


def build_model(source: Source, *, dtype: torch.dtype, device: torch.device) -> Llama:
    """The model of a checkpoint with its weights loaded.

    Raises:
        ModelError: model type, config or weights are not supported; nothing of a checkpoint is left out silently.
    """
    config = read_config(source.config_fields)
    model = model_class(config.model_type)(config, dtype=dtype, device=device)
    weights = Checkpoint(source)
    with torch.inference_mode():
        model.load(weights)
    weights.refuse_rest()
    return model
