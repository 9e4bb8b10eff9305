"""What the runner says while it warms up."""

from __future__ import annotations

import time
from collections.abc import Callable

import numba
import pytest
import torch

from structgen import kernels
from structgen.engine import runner


def _warmed(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> None:
    monkeypatch.setattr(kernels, "warmup", lambda dtype, device: work())
    runner._warm_up(torch.float32, torch.device("cpu"))


def test_only_compiling_is_announced(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def one(x: int) -> int:
        return x + 1

    kernel = numba.njit(one)
    kernel_too = numba.njit(one)

    def compile_all() -> None:
        kernel.compile("int64(int64)")
        kernel_too.compile("int64(int64)")

    _warmed(monkeypatch, compile_all)
    assert capsys.readouterr().err.count("compiling the model kernels") == 1
    _warmed(monkeypatch, compile_all)  # all is there
    _warmed(monkeypatch, lambda: time.sleep(1.2))  # a busy machine
    assert capsys.readouterr().err == ""
