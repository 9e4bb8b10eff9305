"""The reference names everything there is to name, and what it links to exists."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

import structgen
from structgen import arguments
from structgen.engine.config import EngineConfig, SamplingParams

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", structgen.__all__)
def test_public_names(name: str) -> None:
    assert f"`{name}`" in REFERENCE


@pytest.mark.parametrize("settings", [SamplingParams, EngineConfig])
def test_options(settings: type) -> None:
    missing = [field.name for field in fields(settings) if f"`{field.name}`" not in REFERENCE]
    assert not missing


@pytest.mark.parametrize(
    "parser", [arguments.generation_parser, arguments.check_parser, arguments.warmup_parser, arguments.bench_parser]
)
def test_command_line_options(parser: object) -> None:
    made = parser()  # type: ignore[operator]
    options = [word for action in made._actions for word in action.option_strings if word.startswith("--")]
    assert [word for word in options if word not in REFERENCE] == []


@pytest.mark.parametrize("command", arguments.COMMANDS)
def test_commands(command: str) -> None:
    assert f"`structgen {command}" in REFERENCE


def documents() -> list[Path]:
    return [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.name)
def test_links_and_file_names_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    links = [target.split("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target]
    missing = [target for target in links if target and not (path.parent / target).exists()]
    named = re.findall(r"`((?:grammars|engine|kernels|structgen|tests|docs)/[\w/]+(?:\.\w+|/))`", text)
    missing += [name for name in named if not (ROOT / name).exists()]
    assert not missing


def test_readme_is_one_page() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 110
