"""Compiling and launching numba kernels: on all threads of torch where that is cheap, else on one."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numba
import torch

from structgen.kernels.cpu.bits import JIT

_config: Any = numba.config
# numba's own order prefers tbb. OpenMP comes first here because torch's pool is OpenMP too: a parallel region costs
# 3 us and the two pools do not disturb each other; numba's "workqueue" costs 160 us. [measured, 2 cores]
_config.THREADING_LAYER_PRIORITY = ["omp", "tbb", "workqueue"]


def _has_cheap_threads() -> bool:
    wanted = _config.THREADING_LAYER
    if wanted == "workqueue":
        return False
    for pool, layer in (("omppool", "omp"), ("tbbpool", "tbb")):
        if wanted in (layer, "default", "safe", "threadsafe", "forksafe"):
            try:  # the module fails to load where its library (libgomp, libtbb) is missing
                importlib.import_module(f"numba.np.ufunc.{pool}")
            except ImportError:
                continue
            return True
    return False


_CHEAP_THREADS = _has_cheap_threads()


def use_threads() -> bool:
    """Whether kernels run in parallel: torch has several threads and numba's thread pool is cheap to call."""
    return _CHEAP_THREADS and torch.get_num_threads() > 1


def match_torch_threads() -> None:
    """Let the numba kernels called from this thread use as many threads as torch does."""
    if use_threads():
        numba.set_num_threads(min(torch.get_num_threads(), int(_config.NUMBA_NUM_THREADS)))


class Kernel:
    """One function compiled twice, lazily: ``prange`` in parallel, and as a plain loop."""

    def __init__(self, function: FunctionType) -> None:
        # numba's disk cache names its files after the function, not after the options, so the copies need two names.
        serial = FunctionType(function.__code__, function.__globals__, function.__name__ + "_serial")
        serial.__qualname__ = serial.__name__
        serial.__module__ = function.__module__
        self.__doc__ = function.__doc__
        self._serial = numba.njit(**JIT)(serial)
        self._parallel = numba.njit(parallel=True, **JIT)(function)

    def __call__(self, *args: Any) -> None:
        (self._parallel if use_threads() else self._serial)(*args)

    def compile(self, *types: Any) -> None:
        """Compile (or load from the disk cache) the variant that would run now for these argument types."""
        (self._parallel if use_threads() else self._serial).compile(types)


def kernel(function: Callable[..., None]) -> Kernel:
    """Decorator: a numba kernel whose outer loop is ``prange``."""
    assert isinstance(function, FunctionType)
    return Kernel(function)
