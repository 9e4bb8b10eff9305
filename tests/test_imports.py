"""Who may import whom: DESIGN's dependency drawing, checked on the source."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# What each part of the tree must never import, by the first words of the module's name.
FORBIDDEN = {
    "grammars": ("torch", "triton", "transformers", "structgen.engine", "structgen.kernels", "structgen.api"),
    "kernels": ("structgen.grammars", "structgen.engine", "structgen.api"),
    "engine": ("structgen.api", "structgen.cli", "structgen.chat", "structgen.bench", "structgen.integrations"),
}
TORCHLESS = ("scheduler", "blocks", "request", "stops", "detokenize", "config", "metrics", "outputs")
BARE = ("engine", "kernels", "grammars")


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, module) of every import in a file; those that only type checkers see are left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    hidden = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in hidden:
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("import_module", "__import__"):
            yield from ((node.lineno, str(a.value)) for a in node.args[:1] if isinstance(a, ast.Constant))


def begins(module: str, names: tuple[str, ...]) -> bool:
    return any(module == name or module.startswith(name + ".") for name in names)


def sources(folder: str) -> list[Path]:
    found = sorted((ROOT / folder).rglob("*.py"))
    assert found, f"no sources under {folder}"
    return found


@pytest.mark.parametrize("package", FORBIDDEN)
def test_directions(package: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: imports {module}"
        for path in sources(package)
        for line, module in imports(path)
        if begins(module, FORBIDDEN[package])
    ]
    assert not wrong, "\n".join(wrong)


def test_parts_of_the_engine_without_torch() -> None:
    wrong = []
    for name in TORCHLESS:
        path = ROOT / "engine" / f"{name}.py"
        assert path.exists(), f"{path} is named in the design"
        wrong += [
            f"{path.name}:{line}: imports {module}" for line, module in imports(path) if begins(module, ("torch",))
        ]
    assert not wrong, "\n".join(wrong)


def test_nobody_imports_the_bare_names() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: imports {module}"
        for folder in ("grammars", "engine", "kernels", "structgen", "tests", "examples", "benchmarks")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, module in imports(path)
        if begins(module, BARE)
    ]
    assert not wrong, "\n".join(wrong)


LIGHT = """
import sys, importlib
sys.path.insert(0, {root!r})
import structgen
import structgen.grammars
{more}
heavy = [name for name in ("torch", "transformers", "numba", "pydantic") if name in sys.modules]
sys.exit("imported: " + ", ".join(heavy) if heavy else 0)
"""


@pytest.mark.parametrize(
    "more",
    [
        "",
        "dir(structgen); structgen.StructgenError; structgen.SamplingParams",
        "from structgen.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass",
        "from structgen.cli import main\ntry: main(['check', '--help'])\nexcept SystemExit: pass",
    ],
    ids=["import", "names", "help", "subcommand help"],
)
def test_light_start(more: str) -> None:
    code = LIGHT.format(root=str(ROOT), more=more)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_grammar_half_never_imports_torch() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "import structgen as sg\n"
        "g = sg.Grammar.from_json_schema({'type': 'object', 'properties': {'a': {'type': 'integer'}}})\n"
        "assert g.matches('{\"a\": 1}')\n"
        "v = sg.Vocabulary.from_tokenizer([b'{', b'}', b'\"a\": ', b'1', b''], eos_token_ids=[4])\n"
        "assert g.compile(v).matcher().accept(0)\n"
        "sys.exit('torch was imported' if 'torch' in sys.modules else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
