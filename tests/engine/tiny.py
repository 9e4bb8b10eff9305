"""Tiny random models with a byte-level tokenizer: they load in milliseconds and need no download."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

EOS = "<|endoftext|>"
MERGES = ["t h", "th e", "i n", "e r", "a n", "an d", "Ġ t", "Ġ a", '" :', "Ġ the", "Ġ { ", "0 0"]
VOCAB_SIZE = 288  # logits width: a few ids more than the tokenizer has, as in many real checkpoints


def make_tokenizer(path: Path) -> int:
    """Write tokenizer.json and its config (256 bytes, a few merges, an end token); return the end token's id."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {symbol: i for i, symbol in enumerate(alphabet)}
    merges = []
    for merge in MERGES:
        left, right = merge.split()[:2]
        if left in vocab and right in vocab:
            merges.append((left, right))
            vocab.setdefault(left + right, len(vocab))
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(EOS, special=True)])
    tokenizer.save(str(path / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": EOS, "model_max_length": 512}
    (path / "tokenizer_config.json").write_text(json.dumps(config))
    return int(tokenizer.token_to_id(EOS))


def make_tiny_model(
    path: Path,
    model_type: str = "llama",
    *,
    seed: int = 0,
    max_shard_size: str = "5GB",
    **overrides: Any,
) -> Path:
    """Save a random 2-layer model (64 wide, 4 query heads, 2 KV heads) and its tokenizer to ``path``.

    Args:
        path: folder, made when missing.
        model_type: "llama", "qwen2", "qwen3" or "mistral".
        seed: of the random weights.
        max_shard_size: smaller than the weights makes a sharded checkpoint.
        overrides: fields of the transformers config class.

    Returns:
        ``path``.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    path.mkdir(parents=True, exist_ok=True)
    eos_token_id = make_tokenizer(path)
    fields: dict[str, Any] = {
        "vocab_size": VOCAB_SIZE,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "bos_token_id": None,
        "pad_token_id": None,
        "eos_token_id": eos_token_id,
        "initializer_range": 0.2,  # wide, so that greedy tokens are well apart
    }
    if model_type == "qwen3":
        fields["head_dim"] = 24  # unlike hidden_size / heads, as in the real ones
    fields.update(overrides)
    config = AutoConfig.for_model(model_type, **fields)
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias") or "norm" in name:  # initialised to 0 and 1: a loader that skips them must fail
                parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(path, max_shard_size=max_shard_size)
    return path
