"""Mixture of experts: each token goes through the few feed-forward layers that a router picks (arXiv:1701.06538)."""

from __future__ import annotations

import torch
from torch import Tensor

from structgen.engine.layers.linear import Linear
from structgen.engine.layers.mlp import GatedMLP
from structgen.engine.loader import Checkpoint
from structgen.engine.model_config import Experts, ModelConfig


class SparseMLP:
    """hidden [T, H] -> sum of the picked experts, weighted by the router's softmax [T, H].

    A token's sum is taken in the order of the experts' numbers, so it does not depend on the batch.
    """

    def __init__(self, config: ModelConfig, experts: Experts, *, dtype: torch.dtype, device: torch.device) -> None:
        hidden = config.hidden_size
        self._experts = experts
        self._router = Linear(hidden, (experts.count,), bias=False, dtype=dtype, device=device)
        self._mlps = [
            GatedMLP(config, dtype=dtype, device=device, inner=experts.inner, names=experts.names)
            for _ in range(experts.count)
        ]
        self._shared: GatedMLP | None = None
        if experts.shared_inner:
            self._shared = GatedMLP(config, dtype=dtype, device=device, inner=experts.shared_inner)
            self._shared_gate = Linear(hidden, (1,), bias=False, dtype=dtype, device=device)

    def load(self, weights: Checkpoint, name: str) -> None:
        self._router.load(weights, f"{name}.gate")
        for i, mlp in enumerate(self._mlps):
            mlp.load(weights, f"{name}.experts.{i}")
        if self._shared is not None:
            self._shared.load(weights, f"{name}.shared_expert")
            self._shared_gate.load(weights, f"{name}.shared_expert_gate")

    def __call__(self, hidden: Tensor) -> Tensor:
        shares, picked = self._router(hidden).float().softmax(-1).topk(self._experts.per_token, dim=-1)
        if self._experts.normalise:
            shares = shares / shares.sum(-1, keepdim=True)
        out = torch.zeros(hidden.shape, dtype=torch.float32, device=hidden.device)
        for expert in sorted(set(picked.flatten().tolist())):
            rows, places = torch.where(picked == expert)
            out.index_add_(0, rows, self._mlps[expert](hidden[rows]).float() * shares[rows, places, None])
        if self._shared is not None:
            out += torch.sigmoid(self._shared_gate(hidden).float()) * self._shared(hidden).float()
        return out.to(hidden.dtype)
