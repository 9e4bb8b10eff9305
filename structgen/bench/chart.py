"""Charts of benchmarks. Needs matplotlib: ``pip install "structgen[bench]"``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from structgen.cli import UsageError
from structgen.errors import StructgenError

KINDS = (".png", ".svg")
_COLORS = ("#2a78d6", "#eb6834", "#1baf7a", "#eda100")  # ours first; told apart by colour-blind readers too
_INK, _GREY, _LINE = "#222222", "#666666", "#dddddd"

Panels = Mapping[str, Mapping[str, Mapping[str, float]]]  # title -> engine -> bar -> value


def check(path: str) -> None:
    """Refuses what cannot be drawn before hours are spent on measuring.

    Raises:
        UsageError: not a PNG or SVG file's name.
        StructgenError: matplotlib is missing, or the folder is.
    """
    if Path(path).suffix.lower() not in KINDS:
        raise UsageError(f"--chart {path!r}: the name must end in {' or '.join(KINDS)}")
    if not Path(path).absolute().parent.is_dir():
        raise StructgenError(f"--chart {path!r}: the folder {str(Path(path).parent)!r} does not exist")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise StructgenError('--chart needs matplotlib: pip install "structgen[bench]"') from error


def draw(
    path: str,
    panels: Panels,
    title: str,
    footer: Sequence[str],
    unit: str = "microseconds (log scale; lower is better)",
) -> None:
    """Bars on a logarithmic scale, a panel each, written to ``path`` (PNG or SVG by its ending)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(panels), 4.6), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for place, (name, engines) in zip(axes, panels.items(), strict=True):
        labels = list(next(iter(engines.values())))
        width = 0.8 / len(engines)
        for i, (engine, figures) in enumerate(engines.items()):
            xs = [x + (i - (len(engines) - 1) / 2) * width for x in range(len(labels))]
            ys = list(figures.values())
            bars = place.bar(xs, ys, width * 0.92, label=engine, color=_COLORS[i % len(_COLORS)])
            place.bar_label(bars, [_short(y) for y in ys], padding=2, fontsize=6.5, color=_INK)
        place.set_yscale("log")
        place.set_title(name, fontsize=10, color=_INK, loc="left")
        place.set_xticks(range(len(labels)), labels, fontsize=8.5)
        place.minorticks_off()
        place.tick_params(length=0, labelsize=8, colors=_GREY)
        place.grid(axis="y", color=_LINE, linewidth=0.6)
        place.set_axisbelow(True)
        place.margins(y=0.12)
        for side in ("top", "right", "left"):
            place.spines[side].set_visible(False)
        place.spines["bottom"].set_color(_LINE)
    axes[0].set_ylabel(unit, fontsize=8.5, color=_GREY)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper right", ncols=len(names), frameon=False, fontsize=9)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, color=_INK)
    figure.supxlabel("\n".join(footer), x=0.01, ha="left", fontsize=7, color=_GREY)
    try:
        figure.savefig(path)
    except OSError as error:
        raise StructgenError(f"cannot write the chart {path!r}: {error.strerror or error}") from error


def _short(value: float) -> str:
    unit = ""
    for bigger in ("k", "M"):
        if value >= 999.5:
            value, unit = value / 1000, bigger
    return f"{value:.0f}{unit}" if value >= 9.95 else f"{value:.1f}{unit}"
