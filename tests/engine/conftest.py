"""Fixtures of the engine tests."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


def _load_tiny() -> ModuleType:
    # The tests run with --import-mode=importlib, where sibling modules are not importable by name.
    spec = importlib.util.spec_from_file_location("structgen_tests_tiny", Path(__file__).with_name("tiny.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make_tiny_model: Callable[..., Path] = _load_tiny().make_tiny_model


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """``tiny_model(model_type="llama", **overrides) -> Path`` of a saved tiny model; equal calls share one folder."""
    made: dict[str, Path] = {}

    def tiny(model_type: str = "llama", **overrides: object) -> Path:
        key = repr((model_type, sorted(overrides.items())))
        if key not in made:
            made[key] = make_tiny_model(tmp_path_factory.mktemp(model_type), model_type, **overrides)
        return made[key]

    return tiny
