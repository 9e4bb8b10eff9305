"""The on-disk store: what is found again, and all that must not be."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from structgen.grammars import disk_store, token_files, token_store
from structgen.grammars import trie as tries
from structgen.grammars.token_bytes import BYTE_LETTERS
from structgen.grammars.token_sources import TokenTable, digest_of
from structgen.grammars.trie import Trie
from structgen.grammars.vocabulary import Vocabulary

KEY = disk_store.key_of(b"key")
ARRAYS = {"a": np.arange(6, dtype=np.int32).reshape(2, 3), "none": np.empty(0, dtype=np.uint8)}


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(disk_store.VARIABLE, str(tmp_path / "store"))
    return tmp_path / "store"


def entry() -> Path:
    place = disk_store.folder()
    assert place is not None
    (found,) = place.glob("*.npz")
    return found


def same(found: disk_store.Arrays | None) -> bool:
    return (
        found is not None and list(found) == list(ARRAYS) and all(np.array_equal(found[n], ARRAYS[n]) for n in ARRAYS)
    )


def test_found_again() -> None:
    assert disk_store.load("rows", KEY) is None
    assert disk_store.save("rows", KEY, ARRAYS)
    found = disk_store.load("rows", KEY)
    assert same(found)
    assert found is not None
    found["a"][0, 0] = 9  # a copy of the caller's own
    assert same(disk_store.load("rows", KEY))
    assert disk_store.load("rows", disk_store.key_of(b"other")) is None
    assert disk_store.load("other", KEY) is None
    assert disk_store.save("rows", KEY, {"a": np.zeros(1)})
    assert list(disk_store.load("rows", KEY) or ()) == ["a"]


def test_every_damage_is_noticed() -> None:
    """Any byte flipped, any length cut: the arrays are the same or there are none."""
    disk_store.save("rows", KEY, ARRAYS)
    path = entry()
    whole = path.read_bytes()
    chooser = random.Random(0)
    lost = 0
    for place in chooser.sample(range(len(whole)), 400):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << chooser.randrange(8)
        path.write_bytes(damaged)
        found = disk_store.load("rows", KEY)
        assert found is None or same(found)
        lost += found is None
    assert lost > 100
    for length in (0, 1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert disk_store.load("rows", KEY) is None
    assert disk_store.save("rows", KEY, ARRAYS)
    assert same(disk_store.load("rows", KEY))


def test_files_of_others() -> None:
    disk_store.save("rows", KEY, ARRAYS)
    path = entry()
    np.savez(path, **ARRAYS)
    assert disk_store.load("rows", KEY) is None  # it does not say which entry it is
    other = path.with_name(f"rows-{disk_store.key_of(b'other')}.npz")
    disk_store.save("rows", KEY, ARRAYS)
    path.rename(other)
    assert disk_store.load("rows", disk_store.key_of(b"other")) is None
    np.save(path.with_suffix(".npy"), np.array([{}], dtype=object), allow_pickle=True)
    path.with_suffix(".npy").rename(path)
    assert disk_store.load("rows", KEY) is None  # never a pickle
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", b"no array")
    assert disk_store.load("rows", KEY) is None
    path.unlink()
    path.mkdir()
    assert disk_store.load("rows", KEY) is None
    assert not disk_store.save("rows", KEY, ARRAYS)


def test_objects_and_names_are_refused() -> None:
    with pytest.raises(ValueError, match="Python objects"):
        disk_store.save("rows", KEY, {"a": np.array([None])})
    for kind, key in (("../rows", KEY), ("rows", "../x"), ("", KEY), ("Rows", KEY)):
        with pytest.raises(ValueError, match="a kind is"):
            disk_store.load(kind, key)


def test_off_and_unwritable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(disk_store.VARIABLE, disk_store.OFF)
    assert disk_store.folder() is None
    assert not disk_store.save("rows", KEY, ARRAYS)
    assert disk_store.load("rows", KEY) is None
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(disk_store.VARIABLE, str(tmp_path / "file"))  # a folder cannot be made there
    assert not disk_store.save("rows", KEY, ARRAYS)
    assert disk_store.load("rows", KEY) is None


def test_where_it_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(disk_store.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert str(disk_store.folder()).startswith(str(tmp_path / "xdg" / "structgen" / "grammars"))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # the specification says: ignore it
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert str(disk_store.folder()).startswith(str(tmp_path / "home" / ".cache" / "structgen"))


def test_size_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [disk_store.key_of(bytes([i])) for i in range(4)]
    big = {"a": np.zeros(10_000, dtype=np.uint8)}
    for age, key in enumerate(keys[:3]):
        assert disk_store.save("rows", key, big)
        place = disk_store.folder()
        assert place is not None
        os.utime(place / f"rows-{key}.npz", (age, age))
    assert disk_store.load("rows", keys[0]) is not None  # used just now
    (place / "somebody else's").write_bytes(bytes(100_000))
    left_behind, at_work = place / ".old.part", place / ".new.part"
    for path in (left_behind, at_work):
        path.write_bytes(b"x")
    os.utime(left_behind, (time.time() - 7200,) * 2)
    monkeypatch.setattr(disk_store, "MAX_BYTES", 32_000)
    assert disk_store.save("rows", keys[3], big)
    assert [disk_store.load("rows", key) is not None for key in keys] == [True, False, True, True]
    assert (place / "somebody else's").exists()
    assert not left_behind.exists()
    assert at_work.exists()


WRITER = """
import numpy as np
from structgen.grammars import disk_store
for i in range(60):
    number = {number} + i % 2
    disk_store.save("rows", {key!r}, {{"a": np.full(50_000, number), "b": np.full(3, number)}})
    found = disk_store.load("rows", {key!r})
    assert found is not None and len(set(found["a"]) | set(found["b"])) == 1
"""


def test_processes_at_once() -> None:
    """Readers see one write or another, never parts of two."""
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER.format(number=10 * n, key=KEY)], stderr=subprocess.PIPE)
        for n in range(3)
    ]
    assert [(w.communicate(timeout=120)[1], w.returncode) for w in writers] == [(b"", 0)] * 3
    place = entry().parent
    assert [path.name for path in place.iterdir()] == [entry().name]


# ---------------------------------------------------------------------------------------- tokenizers and their tries


def tokenizer_file(folder: Path, *, extra: str = "zz") -> Path:
    """A byte-level tokenizer of more tokens than are left out of the store; not all letters are bytes."""
    letters = [BYTE_LETTERS[byte] for byte in range(256)]
    spellings = [*letters, *(a + b + c for a in letters[65:91] for b in letters[65:91] for c in letters[65:91]), extra]
    tokenizer = Tokenizer(models.BPE({spelling: i for i, spelling in enumerate(spellings)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<end>", "<other>"])
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<end>"}))
    return folder


def alike(a: Vocabulary, b: Vocabulary) -> bool:
    names = ("size", "tokens", "eos_token_ids", "special", "strips_leading_space", "fingerprint")
    return all(getattr(a, name) == getattr(b, name) for name in names)


def test_tokenizer_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tokenizer_file(tmp_path / "t")
    built = Vocabulary.from_tokenizer(folder)
    monkeypatch.setattr(token_files, "_parse_without_merges", lambda file: pytest.fail("it is parsed again"))
    stored = Vocabulary.from_tokenizer(folder)
    assert alike(stored, built)
    assert stored.encode("zaAAAb") == built.encode("zaAAAb")
    assert alike(Vocabulary.from_tokenizer(folder, size=20_000), Vocabulary.from_tokenizer(built, size=20_000))
    other = Vocabulary.from_tokenizer(folder, eos_token_ids=5)
    assert other.fingerprint != built.fingerprint
    assert other.tokens[5] is None


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "generation_config.json", "config.json"])
def test_every_file_that_counts_is_looked_at(tmp_path: Path, name: str) -> None:
    folder = tokenizer_file(tmp_path / "t")
    built = Vocabulary.from_tokenizer(folder)
    if name == "tokenizer.json":
        tokenizer_file(folder, extra="zzz")
    elif name == "tokenizer_config.json":
        (folder / name).write_text(json.dumps({"eos_token": "<other>"}))
    else:
        (folder / name).write_text(json.dumps({"eos_token_id": built.special["<other>"]}))
    assert not alike(Vocabulary.from_tokenizer(folder), built)


def test_trie_is_laid_out_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vocabulary = Vocabulary.from_tokenizer(tokenizer_file(tmp_path / "t"))
    words = (vocabulary.size + 31) // 32
    built = Trie.of_tokens(vocabulary.tokens, words, vocabulary.fingerprint)
    monkeypatch.setattr(tries, "_laid_out", lambda tokens: pytest.fail("it is laid out again"))
    stored = Trie.of_tokens(vocabulary.tokens, words, vocabulary.fingerprint)
    for name in ("byte", "depth", "end", "start", "tokens"):
        a, b = getattr(built, name), getattr(stored, name)
        assert a.dtype == b.dtype
        assert np.array_equal(a, b)
        assert b.flags.c_contiguous
        assert b.flags.writeable  # as the compiled loops expect
    assert stored.shared.longest == built.shared.longest


def test_tokens_that_look_like_what_parts_them() -> None:
    pieces: list[bytes | None] = [bytes([a, b]) for a in range(256) for b in range(256)]
    pieces += [b"\xff\xfe\0\0\0", b"\xff", b"\xfe\0\0\0", None, b""]
    table = TokenTable(pieces, {"<s>": 65_539}, (65_539,), None, True)
    token_store.save(KEY, table)
    found = token_store.load(KEY, None)  # type: ignore[arg-type]
    assert found is not None
    assert [data or None for data in found.tokens] == [data or None for data in pieces]
    assert (found.special, found.eos_token_ids, found.strips_leading_space) == ({"<s>": 65_539}, (65_539,), True)
    assert found.digest == digest_of(pieces)


def test_small_vocabularies_are_left_out(store: Path) -> None:
    vocabulary = Vocabulary.from_tokenizer([b"a", b"b"])
    Trie.of_tokens(vocabulary.tokens, 1, vocabulary.fingerprint)
    token_store.save(KEY, TokenTable([b"a"], {}, ()))
    assert not store.exists()
