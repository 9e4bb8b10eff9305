"""How far a long measurement is: a bar on a terminal, else a line from time to time."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from structgen.console import say

_EVERY_S = 10.0


@contextmanager
def progress(task: str, total: int, *, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """Gives a function to be called with the number (from 0) of each step that is begun."""
    if quiet or sys.stderr is None:
        yield lambda number: None
        return
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
            bar = shown.add_task(task, total=total)
            yield lambda number: shown.update(bar, completed=number)
        return
    said = time.perf_counter()

    def tell(number: int) -> None:
        nonlocal said
        if time.perf_counter() - said >= _EVERY_S:
            said = time.perf_counter()
            say(f"{task}: {number} of {total}")

    yield tell
