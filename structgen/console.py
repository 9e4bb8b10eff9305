"""Standard output and standard error: results, one-line messages, and progress that also reads well in a log file.

Either may be closed or full. A result that cannot be written is an OutputError; a message that cannot be written is
dropped, since the result matters more.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TextIO

from structgen.errors import StructgenError


class OutputError(StructgenError):
    """Standard output takes no more; the message says why."""


def open_streams() -> bool:
    """Opens what the shell has closed (``<&-``, ``>&-``, ``2>&-``) on the null device, so that no file that is opened
    later gets its number. Returns whether standard output was open. ``sys.stdin`` stays None where it was closed."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - open until the end
    return sys.stdout is not None


def emit(text: str, *, flush: bool = False) -> None:
    """Writes a piece of the result to standard output.

    Raises:
        BrokenPipeError: nobody reads it any more.
        OutputError: it cannot be written.
    """
    try:
        sys.stdout.write(text)
        if flush:
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except UnicodeEncodeError as error:
        raise OutputError(
            f"cannot write standard output: its encoding {error.encoding} has no "
            f"{error.object[error.start : error.start + 1]!a}; set PYTHONIOENCODING=utf-8"
        ) from error
    except OSError as error:
        forget(sys.stdout)
        raise OutputError(f"cannot write standard output: {error.strerror or error}") from error


def forget(stream: TextIO) -> None:
    """Points a stream at nothing, so that the interpreter's last flush of it does not complain."""
    with suppress(OSError, ValueError, AttributeError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)


def say(message: str, program: str = "structgen") -> None:
    """One message on standard error, with the program's name before it."""
    if sys.stderr is None:  # print would take standard output instead
        return
    try:
        print(f"{program}: {message}", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        forget(sys.stderr)


@contextmanager
def noticing_interrupts() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets, besides its KeyboardInterrupt: a C extension that is interrupted while it loads makes
    an ImportError of that one. A handler that somebody else has put there stays."""
    noticed = threading.Event()

    def notice(number: int, frame: FrameType | None) -> None:
        noticed.set()
        signal.default_int_handler(number, frame)

    ours = threading.current_thread() is threading.main_thread()
    ours = ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, notice)
    try:
        yield noticed
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def working(task: str, *, quiet: bool = False, slow_s: float = 1.0) -> Iterator[None]:
    """Shows that ``task`` is being done: a spinner on a terminal; elsewhere, once it takes longer than ``slow_s``
    seconds, a line that says so and one at the end."""
    if quiet:
        yield
        return
    if sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
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
