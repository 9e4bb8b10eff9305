"""What people see on standard error: one-line messages, and progress that also reads well in a log file."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress


def say(message: str) -> None:
    """One message on standard error, with the program's name before it."""
    with suppress(BrokenPipeError, ValueError):
        print(f"structgen: {message}", file=sys.stderr, flush=True)


@contextmanager
def working(task: str, *, quiet: bool = False, slow_s: float = 1.0) -> Iterator[None]:
    """Shows that ``task`` is being done: a spinner on a terminal; elsewhere, once it takes longer than ``slow_s``
    seconds, a line that says so and one at the end."""
    if quiet:
        yield
        return
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        from rich.console import Console

        with Console(stderr=True).status(f"{task} ..."):
            yield
        return
    start = time.perf_counter()
    timer = threading.Timer(slow_s, say, [f"{task} ..."])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
    took = time.perf_counter() - start
    if took >= slow_s:
        say(f"{task}: done in {took:.1f} s")


def debugging() -> bool:
    """Whether tracebacks are wanted (``--debug``, or STRUCTGEN_DEBUG set to anything but 0)."""
    return os.environ.get("STRUCTGEN_DEBUG", "0") not in ("", "0")
