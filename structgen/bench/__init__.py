"""``structgen bench``: each module measures one thing and gives a `Report`."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from structgen.console import emit

if TYPE_CHECKING:
    import argparse


@dataclass(frozen=True, slots=True)
class Report:
    """One measurement.

    Attributes:
        title: what was measured.
        rows: figures, one dict a row, the same keys in each; numbers carry their unit in the key.
        notes: what a reader must know to trust the figures.
        details: more for ``--json`` only.
    """

    title: str
    rows: Sequence[dict[str, Any]]
    notes: Sequence[str] = ()
    details: dict[str, Any] = field(default_factory=dict)

    def table(self) -> str:
        """Aligned columns for a terminal."""
        keys = list(self.rows[0]) if self.rows else []
        cells = [[key.replace("_", " ") for key in keys]] + [[_cell(row.get(key)) for key in keys] for row in self.rows]
        widths = [max(len(line[i]) for line in cells) for i in range(len(keys))]
        lines = []
        for first, *others in cells:
            padded = [text.rjust(width) for text, width in zip(others, widths[1:], strict=True)]
            lines.append("  ".join([first.ljust(widths[0]), *padded]))
        return "\n".join([self.title, *lines, *self.notes])

    def json(self) -> str:
        """The same, with the machine it ran on, as one JSON object."""
        made = {"title": self.title, "rows": list(self.rows), "notes": list(self.notes), **self.details}
        return json.dumps({**made, "machine": machine()}, ensure_ascii=False)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def machine() -> dict[str, Any]:
    """What figures depend on: processor, cores, load, versions."""
    from importlib.metadata import PackageNotFoundError, version

    versions: dict[str, str | None] = {}
    for name in ("structgen", "torch", "numba", "numpy", "transformers", "tokenizers", "llguidance", "xgrammar"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "versions": versions,
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def percentile(values: Sequence[float], share: float) -> float | None:
    """The value below which ``share`` (0 to 1) of the values lie, nearest rank; None without values."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]


def run(args: argparse.Namespace) -> int:
    """Runs ``structgen bench`` and prints its report."""
    from structgen.console import say

    wrong = _misplaced(args)
    if wrong is not None:
        say(wrong)
        return 2
    if isinstance(args.json, str):
        _check_target(args.json)
    if args.what == "masks":
        from structgen.bench.masks import measure
    elif args.what == "latency":
        from structgen.bench.latency import measure
    else:
        from structgen.bench.throughput import measure
    report = measure(args)
    if isinstance(args.json, str):
        _write(args.json, report.json() + "\n")
    emit((report.json() if args.json is True else report.table()) + "\n")
    return 0


def _misplaced(args: argparse.Namespace) -> str | None:
    """What is wrong with options that belong to another measurement."""
    if args.vs is not None:
        if args.what == "latency":
            return "--vs belongs to throughput and masks, not to latency"
        engines = {"transformers", "llama-cpp"} & {name.partition("=")[0] for name in args.vs.split(",")}
        if bool(engines) != (args.what == "throughput"):
            return (
                f"--vs {args.vs}: transformers and llama-cpp belong to throughput; masks has --vs with any of "
                "llguidance, xgrammar, separated by commas"
            )
    if args.what == "latency" and args.chart is not None:
        return "--chart belongs to masks and throughput, not to latency"
    if args.what != "masks" and args.grammars is not None:
        return f"--grammars belongs to masks, not to {args.what}"
    return None


def _check_target(path: str) -> None:
    """Refuses, before hours are spent on measuring, to write over a file that is not a report: ``--json`` may have
    taken the schemas for its own word.

    Raises:
        UsageError: there is such a file, or no such folder.
    """
    from structgen.cli import UsageError

    target = Path(path)
    if not target.absolute().parent.is_dir():
        raise UsageError(f"--json {path!r}: the folder {str(target.parent)!r} does not exist")
    if target.exists():
        try:
            found = json.loads(target.read_bytes())
        except (OSError, ValueError):
            found = None
        if not (isinstance(found, dict) and "machine" in found):
            raise UsageError(
                f"--json {path!r}: this file exists and is no report of structgen bench. Give another name; to print "
                "the JSON, put --json last"
            )


def _write(path: str, text: str) -> None:
    from structgen.errors import StructgenError

    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise StructgenError(f"cannot write {path!r}: {error.strerror or error}") from error
