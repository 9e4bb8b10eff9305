"""model_impl: which code runs a checkpoint, and which architectures are refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from structgen import LLM, SamplingParams
from structgen.engine.models.llama import Llama
from structgen.engine.models.transformers_model import TransformersModel
from structgen.engine.runner import Runner
from structgen.errors import ModelError

TinyModel = Callable[..., Path]


def make_runner(path: Path, **options: Any) -> Runner:
    return Runner(path, **{"dtype": "float32", "device": "cpu", "kv_cache_tokens": 64, **options})


def save(path: Path, model_type: str, **fields: Any) -> Path:
    """A random checkpoint of any architecture; ``fields`` are all its config class gets."""
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig, AutoModel, AutoModelForCausalLM

    config = AutoConfig.for_model(model_type, **fields)
    auto = AutoModelForCausalLM if type(config) in MODEL_FOR_CAUSAL_LM_MAPPING else AutoModel
    auto.from_config(config).save_pretrained(path)
    return path


def test_which_code_runs(tiny_model: TinyModel) -> None:
    llama, gpt2 = tiny_model("llama"), tiny_model("gpt2", n_inner=96)
    assert isinstance(make_runner(llama).model, Llama)
    assert isinstance(make_runner(llama, model_impl="native").model, Llama)
    assert isinstance(make_runner(llama, model_impl="transformers").model, TransformersModel)
    assert isinstance(make_runner(gpt2).model, TransformersModel)
    with pytest.raises(ModelError, match=r"'gpt2' is not supported natively; .*llama.*model_impl='auto'"):
        make_runner(gpt2, model_impl="native")
    with pytest.raises(ModelError, match="model_impl is 'vllm'; allowed: 'auto', 'native', 'transformers'"):
        make_runner(gpt2, model_impl="vllm")


def test_sizes_come_from_a_trial(tiny_model: TinyModel) -> None:
    """Names of config classes differ; heads of 12 are padded to 16 in the cache."""
    config = make_runner(tiny_model("olmo", hidden_size=48)).model.config
    assert (config.num_layers, config.num_heads, config.num_kv_heads, config.head_dim) == (2, 4, 2, 16)
    assert (config.vocab_size, config.max_position) == (288, 512)


SMALL = {"vocab_size": 64, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "n_positions": 32}
REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "other attention": ("bloom", {}, "'bloom' does not use transformers' attention interface.*native models are"),
    "encoder and decoder": ("t5", {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}, "encoder"),
    "no language model": ("vit", {"intermediate_size": 16, "image_size": 16}, "is no causal language model"),
    "recurrent": ("mamba", {"state_size": 4}, "'mamba' keeps a recurrent state"),
    "sinks": (
        "gpt_oss",
        {"head_dim": 8, "num_key_value_heads": 1, "num_local_experts": 2, "num_experts_per_tok": 1},
        "'gpt_oss' gives its attention s_aux",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_architectures_that_are_refused(name: str, tmp_path: Path) -> None:
    model_type, fields, message = REFUSED[name]
    with pytest.raises(ModelError, match=message):
        make_runner(save(tmp_path, model_type, **(SMALL | fields)))


def test_weights_that_do_not_fit(tiny_model: TinyModel, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = tiny_model("gpt2", n_inner=96)
    weights = load_file(folder / "model.safetensors")
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    name = "transformer.h.1.mlp.c_fc.weight"
    save_file({k: v for k, v in weights.items() if k != name}, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=f"missing_keys: {name}"):
        make_runner(tmp_path)
    save_file(weights | {"more": torch.zeros(2)}, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match="unexpected_keys: more"):
        make_runner(tmp_path)


def test_angles_that_change_with_the_length(tiny_model: TinyModel) -> None:
    """transformers would change them under keys that are cached."""
    rope = {
        "rope_type": "longrope",
        "rope_theta": 1000.0,
        "short_factor": [1.0] * 8,
        "long_factor": [2.0] * 8,
    }
    folder = tiny_model("phi3", rope_parameters=rope, original_max_position_embeddings=32)
    with pytest.raises(ModelError, match=r"max_model_len is 64; .*'longrope' at most 32"):
        make_runner(folder, model_impl="transformers")
    make_runner(folder, model_impl="transformers", max_model_len=32)
    make_runner(folder)


def test_the_option_reaches_the_model(tiny_model: TinyModel) -> None:
    folder = str(tiny_model("llama"))
    texts, greedy = set(), SamplingParams(temperature=0.0, max_tokens=12, ignore_eos=True)
    for model_impl, kind in (("native", Llama), ("transformers", TransformersModel)):
        llm = LLM(folder, dtype="float32", device="cpu", kv_cache_tokens=512, model_impl=model_impl)
        assert isinstance(llm._front.runner.model, kind)  # type: ignore[attr-defined]
        texts.add(llm.generate("ab", greedy)[0].outputs[0].token_ids)
        llm.shutdown()
    assert len(texts) == 1
