"""Any causal transformers architecture, run by transformers' own code over our paged cache.

transformers lets its models' attention be replaced by a registered function (its `AttentionInterface`). Ours writes
keys and values to the step's slots and attends over the sequences' blocks, so that chunks, batches and shared prefixes
work as for the native models: a step's tokens are one row for transformers, told apart by their positions alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from structgen import kernels
from structgen.engine.layers.attention import LayerCache, Step
from structgen.engine.model_config import ModelConfig
from structgen.errors import ModelError
from structgen.kernels import reference

_NAME = "structgen_paged"
_POSITIONS = ("max_position_embeddings", "max_seq_len", "n_positions", "max_sequence_length", "seq_length")
_HARMLESS_TENSORS = ("position_ids", "cache_position", "position_embeddings")  # they are applied before attention


@dataclass(slots=True)
class _Pass:
    """One run of the decoder; without a step, a trial that records what each layer's attention asks for."""

    step: Step | None = None
    caches: Sequence[LayerCache] = ()
    asked: dict[int, _Asked] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Asked:
    kv_heads: int
    key_dim: int
    value_dim: int
    window: int | None
    problem: str | None


_CURRENT: ContextVar[_Pass] = ContextVar("structgen_pass")


def _attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """What transformers calls: query [1, heads, T, D], key and value [1, kv_heads, T, D] -> [1, T, heads, D]."""
    current = _CURRENT.get()
    window = int(sliding_window) if sliding_window else None
    heads, tokens, value_dim = query.shape[1], query.shape[2], value.shape[3]
    if current.step is None:
        problem = _find_problem(module, query, attention_mask, others)
        if module.layer_idx in current.asked:
            problem = "attends more than once in a layer"
        asked = _Asked(key.shape[1], key.shape[3], value_dim, window, problem)
        current.asked[module.layer_idx] = asked
        return query.new_zeros((1, tokens, heads, value_dim)), None
    scale = float(query.shape[3] ** -0.5 if scaling is None else scaling)
    step, cache = current.step, current.caches[module.layer_idx]
    dim = cache.keys.shape[3]
    query, key, value = (
        functional.pad(x[0].transpose(0, 1), (0, dim - x.shape[3])).to(cache.keys.dtype) for x in (query, key, value)
    )
    reference.write_kv(key, value, step.slots, cache.keys, cache.values)
    seen = kernels.paged_attention(
        torch.cat((query, key, value), dim=1).reshape(tokens, -1),
        cache.keys,
        cache.values,
        step.query_starts,
        step.context_lens,
        step.block_tables,
        step.owners,
        num_heads=heads,
        scale=scale,
        window=window,
        softcap=softcap,
    )
    return seen.view(1, tokens, heads, dim)[..., :value_dim].contiguous(), None


def _find_problem(module: Any, query: Tensor, mask: Tensor | None, others: dict[str, Any]) -> str | None:
    """What the paged attention cannot do, or None."""
    if mask is not None:
        return "gives its attention a mask of its own"
    if others.get("is_causal", getattr(module, "is_causal", True)) is False:
        return "has attention that is not causal"
    extra = [name for name, x in others.items() if isinstance(x, Tensor) and name not in _HARMLESS_TENSORS]
    return f"gives its attention {', '.join(extra)}, which is not supported" if extra else None


class _NoTable:
    """In place of `RopeTable`: transformers' code rotates by itself."""

    def __init__(self, config: Any) -> None:
        self._rope = getattr(config, "rope_parameters", None) or {}
        self._context = getattr(config, "max_position_embeddings", None)

    def build(self, max_positions: int) -> Tensor:
        kind = self._rope.get("rope_type")
        original = self._rope.get("original_max_position_embeddings") or self._context
        if kind in ("longrope", "dynamic") and original and max_positions > original:
            raise ModelError(
                f"max_model_len is {max_positions}; with model_impl='transformers' and rope type {kind!r} at most "
                f"{original}: beyond it transformers changes the angles of keys that are in the cache already"
            )
        return torch.empty(0)


class TransformersModel:
    """A model of the transformers package with the interface of the native ones.

    Args:
        folder: a checkpoint with config.json and safetensors.
        dtype: of weights and activations.
        device: where it runs.

    Raises:
        ModelError: transformers does not know the architecture, lacks weights for it, or its attention cannot be
            replaced; the message says which.
    """

    def __init__(self, folder: Path, *, dtype: torch.dtype, device: torch.device) -> None:
        self._model = _load(folder, dtype).to(device).eval()
        self.dtype = dtype
        self.device = device
        self.rope = _NoTable(self._model.config)
        self._decoder = self._model.get_decoder()
        self._decode = self._decoder.forward
        self._given: Tensor | None = None
        if "position_ids" not in inspect.signature(self._decode).parameters:
            raise ModelError(_refusal(self._model.config.model_type, "takes no positions (position_ids)"))
        self._decoder.forward = self._forward_or_given
        self.config = self._read_config()

    def _forward_or_given(self, *args: Any, **kwargs: Any) -> Any:
        if self._given is None:
            return self._decode(*args, **kwargs)
        return self._output(last_hidden_state=self._given)

    def _run(self, token_ids: Tensor, positions: Tensor, current: _Pass) -> Tensor:
        token = _CURRENT.set(current)
        try:
            out = self._decoder(input_ids=token_ids[None], position_ids=positions[None], use_cache=False)
        finally:
            _CURRENT.reset(token)
        self._output = type(out)  # what the rest of the model's code expects of its decoder
        hidden: Tensor = out.last_hidden_state[0]
        return hidden

    @torch.inference_mode()
    def _read_config(self) -> ModelConfig:
        """Sizes as a trial shows them: config classes name them in too many ways."""
        config = self._model.config
        trial = _Pass()
        hidden = self._run(
            torch.zeros(2, dtype=torch.int64, device=self.device), torch.arange(2, device=self.device), trial
        )
        problem = _check(config, trial.asked)
        if problem is not None:
            raise ModelError(_refusal(config.model_type, problem))
        context = next((value for name in _POSITIONS if (value := getattr(config, name, None))), None)
        if context is None:
            raise ModelError(_refusal(config.model_type, "does not say its context length in config.json"))
        first = trial.asked[0]
        return ModelConfig(
            model_type=config.model_type,
            vocab_size=self.logits(hidden, hidden).shape[1],
            hidden_size=hidden.shape[1],
            intermediate_size=0,
            num_layers=len(trial.asked),
            num_heads=config.num_attention_heads,
            num_kv_heads=first.kv_heads,
            head_dim=-(-max(first.key_dim, first.value_dim) // 8) * 8,
            max_position=int(context),
            rms_norm_eps=0.0,
            tie_word_embeddings=bool(getattr(config, "tie_word_embeddings", False)),
            windows=tuple(trial.asked[i].window for i in range(len(trial.asked))),
            dtype=self.dtype,
        )

    def forward(self, token_ids: Tensor, step: Step, caches: Sequence[LayerCache]) -> tuple[Tensor, Tensor]:
        """token ids int64 [T] -> hidden states [T, H], twice: the second stands for the native models' residual."""
        hidden = self._run(token_ids, step.positions, _Pass(step, caches))
        return hidden, hidden

    def logits(self, x: Tensor, residual: Tensor) -> Tensor:
        """Rows of what `forward` returned, [R, H] -> float32 [R, vocab_size].

        The whole model runs, with its decoder giving these rows: scales and caps of logits are in its code alone.
        """
        self._given = x[None]
        try:
            ids = torch.zeros((1, x.shape[0]), dtype=torch.int64, device=x.device)
            logits: Tensor = self._model(input_ids=ids, use_cache=False).logits[0]
        finally:
            self._given = None
        return logits.float()


def _load(folder: Path, dtype: torch.dtype) -> Any:
    import transformers

    transformers.AttentionInterface.register(_NAME, _attend)
    try:
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
    except (ValueError, KeyError, OSError) as error:
        raise ModelError(f"{folder}: transformers cannot read its config.json: {_first_line(error)}") from None
    kind = config.model_type
    if getattr(config, "is_encoder_decoder", False):
        raise ModelError(_refusal(kind, "is an encoder with a decoder; only decoders are supported"))
    parts = [name for name in ("vision_config", "audio_config") if getattr(config, name, None) is not None]
    if parts:
        raise ModelError(_refusal(kind, f"is multimodal ({', '.join(parts)}); only text models are supported"))
    if type(config) not in transformers.MODEL_FOR_CAUSAL_LM_MAPPING:
        raise ModelError(_refusal(kind, "is no causal language model of the installed transformers"))
    architecture = transformers.MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    if getattr(architecture, "_is_stateful", False):
        raise ModelError(_refusal(kind, "keeps a recurrent state beside attention"))
    if not getattr(architecture, "_supports_attention_backend", True):
        raise ModelError(_refusal(kind, "does not use transformers' attention interface"))
    try:
        loaded: Any = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, attn_implementation=_NAME, local_files_only=True, output_loading_info=True
        )
    except (ValueError, KeyError, OSError, RuntimeError, ImportError) as error:
        raise ModelError(f"{folder}: transformers cannot load it: {_first_line(error)}") from None
    model, loading = loaded
    wrong = {name: sorted(map(str, loading[name])) for name in ("missing_keys", "unexpected_keys", "mismatched_keys")}
    if any(wrong.values()):
        said = "; ".join(f"{name}: {', '.join(keys[:3])}" for name, keys in wrong.items() if keys)
        raise ModelError(f"{folder}: the weights do not fit the architecture {kind!r}: {said}")
    return model


def _check(config: Any, asked: dict[int, _Asked]) -> str | None:
    """Why the trial shows a model that the paged cache cannot serve, or None."""
    layers = int(config.num_hidden_layers)
    if not asked:
        return "does not use transformers' attention interface"
    if set(asked) != set(range(layers)):
        return f"calls attention in {len(asked)} of its {layers} layers; the others may keep a state"
    for one in asked.values():
        if one.problem is not None:
            return one.problem
    if len({(one.kv_heads, one.key_dim, one.value_dim) for one in asked.values()}) > 1:
        return "has layers with keys of different sizes"
    kinds = getattr(config, "layer_types", None)
    if kinds is not None:
        unknown = sorted(set(kinds) - {"full_attention", "sliding_attention"})
        if unknown:
            return f"has layers of a kind that is not supported: {', '.join(unknown)}"
        if any(kind == "sliding_attention" and asked[i].window is None for i, kind in enumerate(kinds[:layers])):
            return "has sliding windows that it does not tell its attention"
        return None
    has_window = getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True)
    if has_window and all(one.window is None for one in asked.values()):
        return "has a sliding window that it does not tell its attention"
    return None


def _refusal(model_type: str, problem: str) -> str:
    from structgen.engine.models.registry import known_models

    return (
        f"model type {model_type!r} {problem}, so model_impl='transformers' cannot run it; native models are "
        f"{', '.join(known_models())}"
    )


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0] or type(error).__name__
