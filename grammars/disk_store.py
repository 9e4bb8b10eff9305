"""What took long to compute, kept on disk between processes: named arrays under a kind and a key.

The folder is ``$STRUCTGEN_CACHE_DIR``, else ``$XDG_CACHE_HOME/structgen``, else ``~/.cache/structgen``;
``STRUCTGEN_CACHE_DIR=off`` turns the store off. Each entry is a file of its own, ``grammars/VERSION/KIND-KEY.npz``:
plain arrays, never pickles. A file is written beside its place and then moved there, so that any number of processes
may read and write at once and none sees half of one. A file that is damaged (each array has a checksum), of another
version, or of somebody else's making is as good as none. A folder that cannot be read or written is no error: the store
saves time, nothing depends on it. All files together stay under ``MAX_BYTES``; those that were not used for longest go
first (a file's modification time is when it was last used).

A key must name everything that the arrays depend on (``key_of``) but the package's own code: that is in the version,
so an entry need not be understood by any other build.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

VARIABLE = "STRUCTGEN_CACHE_DIR"
OFF = "off"
FORMAT = 1  # of the files; raise it when the meaning of any kind changes between releases
MAX_BYTES = 1 << 30
_ENTRY = re.compile(r"[a-z0-9_]+-[0-9a-f]+\.npz")
_LABEL = "__label__"  # the array that says which entry this is, and what is in it
_UNFINISHED_S = 3600.0  # a temporary file older than this was left behind by a process that died

Arrays = dict[str, NDArray[Any]]


def folder() -> Path | None:
    """Where entries lie; None when the store is off. The folder need not exist yet."""
    given = os.environ.get(VARIABLE, "")
    if given == OFF:
        return None
    if given:
        return Path(given).expanduser() / "grammars" / _version()
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    except RuntimeError:  # there is no home
        return None
    return root / "structgen" / "grammars" / _version()


@lru_cache(maxsize=1)
def _version() -> str:
    """The format, the package's version, and a hash of the state of the package's files: whoever changes the code, or
    installs another build of the same version, starts anew (1 ms)."""
    from structgen import __version__

    files = sorted(Path(__file__).resolve().parent.rglob("*.py"))
    states = [(path.name, state.st_size, state.st_mtime_ns) for path in files for state in (path.stat(),)]
    return f"{FORMAT}-{__version__}-{key_of(repr(states).encode())[:16]}"


def key_of(*parts: bytes) -> str:
    """A key for the content of ``parts``: SHA-256 of each with its length, in hexadecimal digits."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def digest_of(file: Path) -> bytes:
    """The SHA-256 of a file. (33 MB take 30 ms; reading them into memory first, 45.)"""
    digest, buffer = hashlib.sha256(), bytearray(1 << 18)
    with open(file, "rb", buffering=0) as opened:
        while count := opened.readinto(buffer):
            digest.update(memoryview(buffer)[:count])
    return digest.digest()


def load(kind: str, key: str) -> Arrays | None:
    """The arrays that were saved under ``kind`` and ``key``; None when there are none, or none that can be trusted.
    They are copies of the caller's own."""
    path = _path(kind, key)
    if path is None:
        return None
    try:
        with np.load(path, allow_pickle=False) as entry:
            found = {name: entry[name] for name in entry.files}  # reads all, and so checks all checksums
    except Exception:  # a damaged file makes zipfile, zlib, struct and numpy raise all kinds
        return None
    label = found.pop(_LABEL, None)
    if label is None or label.tobytes() != _label(path, found):
        return None
    with suppress(OSError):
        os.utime(path)
    return found


def save(kind: str, key: str, arrays: Mapping[str, NDArray[Any]]) -> bool:
    """Keep ``arrays`` under ``kind`` and ``key``, in place of what is there. Whether it could be done.

    Raises:
        ValueError: an array of Python objects.
    """
    path = _path(kind, key)
    if path is None:
        return False
    if any(array.dtype.hasobject for array in arrays.values()):
        raise ValueError("arrays of Python objects are not stored")
    label = np.frombuffer(_label(path, arrays), dtype=np.uint8)
    unfinished = None
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", suffix=".part", delete=False) as file:
            unfinished = file.name
            np.savez(file, allow_pickle=False, **{_LABEL: label}, **arrays)
        os.replace(unfinished, path)
    except OSError:
        if unfinished is not None:
            with suppress(OSError):
                os.unlink(unfinished)
        return False
    _bound(path.parent.parent)
    return True


def _label(path: Path, names: Iterable[str]) -> bytes:
    """A checksum covers an array, not the list of arrays, so that is part of the label."""
    return repr((path.name, *names)).encode()


def _path(kind: str, key: str) -> Path | None:
    name = f"{kind}-{key}.npz"
    if _ENTRY.fullmatch(name) is None:
        raise ValueError(f"{kind!r}, {key!r}: a kind is lower-case letters, digits and _, a key hexadecimal digits")
    place = folder()
    return None if place is None else place / name


def _bound(root: Path) -> None:
    """Delete what was not used for longest until ``MAX_BYTES`` are kept, over all versions, and what was left behind.
    Only files named like entries are touched."""
    entries = []
    for path in root.glob("*/*"):
        with suppress(OSError):
            state = path.stat()
            if _ENTRY.fullmatch(path.name):
                entries.append((state.st_mtime_ns, state.st_size, path))
            elif path.name.endswith(".part") and time.time() - state.st_mtime > _UNFINISHED_S:
                path.unlink()
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= MAX_BYTES:
            return
        with suppress(OSError):
            path.unlink()
            total -= size
