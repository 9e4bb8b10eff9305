"""The Triton kernels, without a GPU: in triton's interpreter, and through triton's compiler for real GPUs.

Triton decides when it is imported whether it interprets, so each way runs in a process of its own.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed (it is for Linux only)")
@pytest.mark.parametrize(("file", "interpret"), [("triton_interpreted.py", "1"), ("triton_compiled.py", "0")])
def test_in_its_own_process(file: str, interpret: str) -> None:
    environment = os.environ | {"TRITON_INTERPRET": interpret}
    command = [sys.executable, "-m", "pytest", "-q", "--import-mode=importlib", str(HERE / file)]
    done = subprocess.run(command, env=environment, cwd=HERE.parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
