"""The key-value header of a GGUF file, read without touching the tensors.

The ``gguf`` package makes a numpy view of every string of every array (4 s for a vocabulary of 49k); the header is
simple enough to read in tens of milliseconds. Layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterable, Iterator
from os import PathLike
from typing import Any

import numpy as np

from structgen.errors import ModelError

MAGIC = b"GGUF"

# Value types of the format: number -> (struct letter, numpy dtype).
_SCALARS: dict[int, tuple[str, str]] = {
    0: ("B", "<u1"),
    1: ("b", "<i1"),
    2: ("H", "<u2"),
    3: ("h", "<i2"),
    4: ("I", "<u4"),
    5: ("i", "<i4"),
    6: ("f", "<f4"),
    7: ("?", "|b1"),
    10: ("Q", "<u8"),
    11: ("q", "<i8"),
    12: ("d", "<f8"),
}
_STRING, _ARRAY = 8, 9


def read_gguf_metadata(path: str | PathLike[str], *, skip: Iterable[str] = ()) -> dict[str, Any]:
    """Every key of the header with its value: numbers, bools, str, list[str], or a numpy array of numbers.
    Strings that are not UTF-8 come with surrogate escapes. Keys in ``skip`` are passed over (large arrays).

    Raises:
        ModelError: not a GGUF file, a version or byte order that is not read, or a file cut short.
    """
    with open(path, "rb") as file:
        try:
            view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            raise ModelError(f"{path} is empty, not a GGUF file") from None
        with view:
            try:
                return dict(Header(view, str(path), frozenset(skip)).pairs())
            except (struct.error, IndexError) as error:
                raise ModelError(f"{path} is cut short: its GGUF header ends too early. Fetch it again.") from error


class Header:
    """A cursor over the header."""

    def __init__(self, data: mmap.mmap, path: str, skip: frozenset[str]) -> None:
        self._data = data
        self._path = path
        self._skip = skip
        self._at = 0

    def pairs(self) -> Iterator[tuple[str, Any]]:
        if self._data[:4] != MAGIC:
            raise ModelError(f"{self._path} is not a GGUF file: it begins with {self._data[:4]!r}, not b'GGUF'")
        self._at = 4
        version = self._number("I")
        if version not in (2, 3):
            raise ModelError(
                f"{self._path} is GGUF version {version}; versions 2 and 3, little-endian, are read. Convert it anew."
            )
        self._number("Q")  # how many tensors
        for _ in range(self._number("Q")):
            key = self._string()
            kind = self._number("I")
            value = self._value(kind, key in self._skip)
            if key not in self._skip:
                yield key, value

    def _number(self, letter: str) -> Any:
        value = struct.unpack_from("<" + letter, self._data, self._at)[0]
        self._at += struct.calcsize("<" + letter)
        return value

    def _string(self) -> str:
        size = self._number("Q")
        start, self._at = self._at, self._at + size
        if self._at > len(self._data):
            raise IndexError
        return self._data[start : self._at].decode("utf-8", "surrogateescape")

    def _value(self, kind: int, is_skipped: bool) -> Any:
        if kind in _SCALARS:
            return self._number(_SCALARS[kind][0])
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            raise ModelError(f"{self._path}: value type {kind} is not part of the GGUF format; is the file damaged?")
        inner, count = self._number("I"), self._number("Q")
        if inner == _STRING:
            return self._strings(count, is_skipped)
        if inner in _SCALARS:
            return self._numbers(_SCALARS[inner][1], count)
        return [self._value(inner, is_skipped) for _ in range(count)]

    def _strings(self, count: int, is_skipped: bool) -> list[str]:
        """The hot loop: hundreds of thousands of short strings, each after its 8-byte length."""
        data, at, end = self._data, self._at, len(self._data)
        length_at = struct.Struct("<Q").unpack_from
        found: list[str] = []
        for _ in range(count):
            start = at + 8
            at = start + length_at(data, at)[0]
            if at > end:
                raise IndexError
            if not is_skipped:
                found.append(data[start:at].decode("utf-8", "surrogateescape"))
        self._at = at
        return found

    def _numbers(self, dtype: str, count: int) -> Any:
        size = np.dtype(dtype).itemsize * count
        start, self._at = self._at, self._at + size
        if self._at > len(self._data):
            raise IndexError
        return np.frombuffer(self._data[start : self._at], dtype=dtype)
