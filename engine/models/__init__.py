"""Models: one file per family of ``model_type``."""

from structgen.engine.models import gemma, granite, llama, mistral, mixtral, olmo2, phi3, qwen2, qwen3, qwen_moe
from structgen.engine.models.registry import build_model, known_models

__all__ = [
    "build_model",
    "gemma",
    "granite",
    "known_models",
    "llama",
    "mistral",
    "mixtral",
    "olmo2",
    "phi3",
    "qwen2",
    "qwen3",
    "qwen_moe",
]
