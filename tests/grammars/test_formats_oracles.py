"""Formats that are no textbook languages, against their oracles: node for ``regex``, ``idna`` for host names."""

from __future__ import annotations

import json
import random
import shutil
import subprocess

import idna
import pytest
import random_patterns

from structgen.grammars import formats
from structgen.grammars.encoding import JSON_ANY, UTF8
from structgen.grammars.expr import matches
from structgen.grammars.residual import state

POOL = "ab-0é中あア・·l\u0375αאب׳٠۰क\u094d\u200d\u200c_A"
PIECES = [
    *"abc()[]{}|*+?^$.\\/-,:=!<>0123",
    *("(?:", "(?=", "(?!", "(?<=", "(?<!", "(?<a>", "(?<b>", "\\k<a>", "\\1", "\\2", "\\d", "\\b", "\\B", "\\w"),
    *("\\u0041", "\\u{1F600}", "\\x41", "\\cA", "\\0", "\\/", "\\-", "\\p{L}", "\\p{Nope}", "{2}", "{2,1}", "{1,}"),
    *("[^a]", "[a-z]", "[z-a]", "[\\d-z]", "[\\b]", "[]", "[^]", "*?", "??", "é", "😀"),
]
SCRIPT = """
const asked = JSON.parse(require("fs").readFileSync(0));
console.log(JSON.stringify(asked.map(p => { try { new RegExp(p, "u"); return true } catch { return false } })));
"""


def accepts(name: str, text: str) -> bool:
    return matches(formats.expr(name, UTF8), text.encode())


def test_regex_agrees_with_node() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    rng = random.Random()
    asked = ["".join(rng.choice(PIECES) for _ in range(rng.randrange(1, 7))) for _ in range(600)]
    for _ in range(300):
        source = random_patterns.pattern(rng, 3, anchors=False, looks=True)
        at = rng.randrange(len(source) + 1)
        asked.append(source[:at] + rng.choice(["", *PIECES]) + source[at + rng.randrange(2) :])
    done = subprocess.run([node, "-e", SCRIPT], input=json.dumps(asked), capture_output=True, text=True, check=True)
    verdicts = json.loads(done.stdout)
    assert sum(verdicts) > 100
    for source, verdict in zip(asked, verdicts, strict=True):
        assert accepts("regex", source) == verdict, source


def encoded(label: str) -> str | None:
    """The A-label of a label (the label itself when it is plain); None when IDNA 2008 knows none."""
    try:
        return idna.encode(label).decode()
    except (idna.IDNAError, UnicodeError):
        return None


def test_labels_agree_with_idna() -> None:
    rng, valid = random.Random(), 0
    for _ in range(1_500):
        some = rng.sample(POOL, 3)
        label = "".join(rng.choice(some) for _ in range(rng.randrange(1, 5)))
        ascii_label = encoded(label)
        if label.isascii():
            # Upper case and plain labels are host names of old; idna maps and refuses by rules of its own.
            continue
        valid += ascii_label is not None
        assert accepts("idn-hostname", label) == (ascii_label is not None), (label, ascii_label)
        if ascii_label is not None:
            assert accepts("hostname", ascii_label), (label, ascii_label)
            assert accepts("idn-email", f"é@{label}.example"), label
    assert valid > 50


def test_a_labels_agree_with_idna() -> None:
    rng, valid = random.Random(), 0
    for _ in range(1_500):
        tail = list(idna.encode(rng.choice(["é", "aé", "中あ", "bücher", "αβ"])).decode()[4:])
        if rng.random() < 0.7:
            tail[rng.randrange(len(tail))] = rng.choice("abcdefghijklmnopqrstuvwxyz0123456789-")
        label = "xn--" + "".join(tail)
        try:
            good = idna.encode(idna.decode(label)).decode() == label
        except (idna.IDNAError, UnicodeError, IndexError):
            good = False
        valid += good
        assert accepts("hostname", label) == good, label
    assert valid > 100


@pytest.mark.parametrize("name", ["regex", "hostname", "idn-hostname", "idn-email", "email"])
def test_walks_come_to_an_end(name: str) -> None:
    """Random texts never get where nothing may follow."""
    rng, ended = random.Random(), 0
    for _ in range(15):
        at = state(formats.expr(name, JSON_ANY))
        for _ in range(150):
            assert at is not None
            if at.outcomes and rng.random() < 0.1:
                ended += 1
                break
            likely = [b for b in b"abcxn-.@\\()[]{}|*+?^$19" if at.advance(b) is not None]
            if not likely or rng.random() < 0.2:
                likely = [b for b in range(256) if at.advance(b) is not None]
            if not likely:
                assert at.outcomes
                break
            at = at.advance(rng.choice(likely))
    assert ended
