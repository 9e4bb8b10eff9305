"""Models: one file per ``model_type``."""

from structgen.engine.models import llama, mistral, qwen2, qwen3
from structgen.engine.models.registry import build_model, known_models

__all__ = ["build_model", "known_models", "llama", "mistral", "qwen2", "qwen3"]
