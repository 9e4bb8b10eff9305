"""The wheel: built from a copy of the tree, installed away from the checkout, imported there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("structgen", "grammars", "engine", "kernels")
FILES = ("pyproject.toml", "README.md", "LICENSE")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = tmp_path_factory.mktemp("tree")
    ignore = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc")
    for part in PARTS:
        shutil.copytree(ROOT / part, tree / part, symlinks=True, ignore=ignore)
    for name in FILES:
        shutil.copy(ROOT / name, tree / name)
    out = tmp_path_factory.mktemp("wheel")
    # No isolation: the setuptools of this environment is the build's only need, and tests should not download.
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(tree)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (made,) = out.glob("*.whl")
    return made


def test_contents(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert "structgen/py.typed" in names
    assert "structgen/grammars/expr.py" in names
    assert "structgen/engine/config.py" in names
    for source in (ROOT / "grammars" / "library").glob("*.lark"):
        assert f"structgen/grammars/library/{source.name}" in names
    assert {"structgen/grammars/library/sql.lark", "structgen/grammars/library/json.lark"} <= names
    top = {name.split("/", 1)[0] for name in names}
    assert {part for part in top if not part.endswith(".dist-info")} == {"structgen"}
    assert any(name.endswith("/LICENSE") for name in names)


def test_import_away_from_the_checkout(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "env"
    venv.create(home, with_pip=False, symlinks=True)
    python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    # What `pip install --no-deps` does with a wheel of pure Python, without needing pip in there.
    site = Path(
        subprocess.run(
            [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            capture_output=True, text=True, check=True,
        ).stdout.strip()
    )  # fmt: skip
    zipfile.ZipFile(wheel).extractall(site)
    # The dependencies come from this environment, but not its editable install of structgen: a plain path entry
    # does not run that folder's own .pth files.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    code = """
import importlib.util, sys, pathlib
import structgen, structgen.grammars
from structgen.grammars.expr import EPSILON
assert pathlib.Path(structgen.__file__).is_relative_to(sys.prefix), structgen.__file__
assert pathlib.Path(structgen.grammars.__file__).is_relative_to(sys.prefix), structgen.grammars.__file__
assert structgen.Grammar.from_regex("a+").matches("aa")
import structgen.engine.config
for bare in ("engine", "kernels", "grammars"):
    assert importlib.util.find_spec(bare) is None, bare
assert "torch" not in sys.modules
print(structgen.__version__)
"""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        [python, "-c", code], cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    entry = (site / f"structgen-{done.stdout.strip()}.dist-info" / "entry_points.txt").read_text()
    assert "structgen = structgen.cli:main" in entry
