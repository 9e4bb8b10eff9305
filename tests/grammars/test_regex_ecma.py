"""The ECMA-262 dialect against a JavaScript engine (node), random patterns and those of real schemas."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import random_patterns

from structgen.errors import GrammarError, UnsupportedGrammar
from structgen.grammars import regex
from structgen.grammars.expr import Expr, matches

MASKBENCH = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "maskbench_dev.jsonl.xz"
PATTERNS = 3_000 if os.environ.get("STRUCTGEN_ALL") else 500

# For each pattern: null where it is broken in both readings, else whether it was read with the u flag, and verdicts.
SCRIPT = """
const verdicts = [];
for (const [pattern, texts] of JSON.parse(require("fs").readFileSync(0, "utf8"))) {
    let found = null, unicode = true;
    try { found = new RegExp(pattern, "u"); }
    catch { unicode = false; try { found = new RegExp(pattern); } catch {} }
    verdicts.push(found && [unicode, texts.map(text => found.test(text))]);
}
process.stdout.write(JSON.stringify(verdicts));
"""


def ask_node(asked: Sequence[tuple[str, Sequence[str]]]) -> list[Any]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    done = subprocess.run([node, "-e", SCRIPT], input=json.dumps(asked), capture_output=True, text=True, check=True)
    found: list[Any] = json.loads(done.stdout)
    return found


def ecma(source: str) -> Expr:
    return regex.lower(regex.parse(source, dialect="ecma"), search=True)


@pytest.mark.parametrize("annex_b", [False, True])
def test_random_patterns_agree_with_node(annex_b: bool) -> None:
    """Texts hold characters beyond U+FFFF only under the u flag (without it node counts UTF-16 units), and not beside
    ``\\B`` (which V8 finds between the two units of a character)."""
    rng = random.Random()
    asked = []
    for _ in range(PATTERNS):
        source = random_patterns.ecma_pattern(rng, rng.randint(1, 4), [0], annex_b=annex_b)
        source = f"^(?:{source})$" if rng.random() < 0.5 else source
        alphabet = "aab bc\nkKéÉ1-A_:{}]@" + ("" if annex_b or r"\B" in source else "\u212a😀")
        few = alphabet[: rng.choice([3, 6, len(alphabet)])]
        texts = ["".join(rng.choices(few, k=rng.randint(0, 6))) for _ in range(12)]
        asked.append((source, [*texts, "", "aa", "abab", "aab"]))
    pairs = matched = refused = 0
    for (source, texts), verdict in zip(asked, ask_node(asked), strict=True):
        try:
            made = ecma(source)
        except UnsupportedGrammar:
            refused += 1
            continue
        except GrammarError:
            assert verdict is None, source
            continue
        assert verdict is not None, source
        for text, expected in zip(texts, verdict[1], strict=True):
            pairs, matched = pairs + 1, matched + expected
            assert matches(made, text.encode()) == expected, (source, text, "u" if verdict[0] else "")
    assert matched > pairs / 5
    assert refused < PATTERNS / 50


AGREED = [
    r"^\u{1F600}$", r"^\uD83D\uDE00+$", r"^[\uD83D\uDE00-\uD83D\uDE4F]$", "^[^]$", "[]", "^[]|a$", r"^\cA\cz$",
    r"^\0$", r"\/a\-b", r"^[\w-.]+$", r"^[a-\d]$", r"^\_\ \:\@\%$", r"^x{$", r"^x{,3}$", "^{}$", "^]$", "^a]b}$",
    r"^\101\x41$", r"^[\101]$", r"^\8$", r"^(?=a)*a$", r"^(?!b){2}a$", "a**", "a{2}{3}", "(?<n>a)(?<n>b)", r"\k<n>",
    r"(?<n>a)\k<m>", r"(a", "a)", "[b-a]", r"[\d-\w]", "(?i)a", "(?P<n>a)", "(?>a)", "a++", "a{3,1}", "^+",
    r"(?<=a)+", r"\u{110000}", r"\u12", r"\x1", r"\c", r"[\c]", r"\1(a)", r"^(a\1)$", r"^(?:(a)|b)*\1$",
    r"^(?:(a)|(b)|\1)*\2$", r"^(a?)*\1$", r"^(aa?)*\1$", r"^(z)((aa?)?(bb?)?(c))*\3$", r"(?<=(a|b)\1)c",
    r"(?<=\1(a|b))c", r"(?<=([ab]+)([bc]+))$", r"^(?=(a+))\1b$", r"^(?:(?=(a))a)+\1$", r"(?<!^)a", r"^(?!$)",
    r"(?<=a(?=b))b", r"^\p{L}$", r"^\p{Lu}\P{Lu}$", r"^[\p{L}\p{N}]+$", r"^[^\p{L}]$", r"^\p{Script=Greek}+$",
    r"^\p{sc=Grek}+$", r"^\p{scx=Deva}$", r"^\p{Alphabetic}$", r"^\p{ASCII}$", r"^\p{Any}$",
    r"^\p{Emoji_Presentation}$", r"^\p{gc=Nd}$", r"^\p{White_Space}$", r"^.$", r"^\s$", r"^\S$", r"^\w$", r"^\d$",
    r"\bé", r"^[\b]$", r"^[\-\]\\]$", r"a|^$", "", "|", "()", "(?:)", r"^\t\v\f\r\n$",
]  # fmt: skip
TEXTS = [
    "", "a", "b", "aa", "ab", "ba", "aab", "abab", "aac", "bc", "abc", "c", "aaa", "😀", "😁", "😀😀", "\x01\x1a", "\0",
    "/a-b", ".", "-", "_ :@%", "x{", "x{,3}", "x", "{}", "]", "a]b}", "AA", "A", "8", "é", "Éa", "Σ", "αβγ", "Ab",
    "aB", "٣", "3", " ", "\u00a0", "\ufeff", "\n", "\u2028", "\r", "\x85", "\b", "\\", "zaacbbbcac", "z", "ababc",
    "\t\v\f\r\n", "ॐ", "१", "bb", "abb", "Kſ",
]  # fmt: skip


def test_written_patterns_agree_with_node() -> None:
    """The same verdicts and the same refusals, save that Python's spellings are taken, and escaped letters are not."""
    for source, verdict in zip(AGREED, ask_node([(source, TEXTS) for source in AGREED]), strict=True):
        try:
            made = ecma(source)
        except GrammarError:
            assert verdict is None or source in (r"\k<n>", r"\u{110000}", r"\u12", r"\x1"), source
            continue
        assert verdict is not None or source in ("(?i)a", "(?P<n>a)"), source
        for text, expected in zip(TEXTS, verdict[1] if verdict else (), strict=bool(verdict)):
            if verdict[0] or text.isascii() or max(text) <= "\uffff":
                assert matches(made, text.encode()) == expected, (source, text)


PROPERTIES = [
    "Lu", "Ll", "Lt", "L", "LC", "N", "Nd", "P", "Pd", "S", "Sc", "Z", "Zs", "Cc", "Cf", "Uppercase_Letter",
    "Script=Latin", "Script=Cyrillic", "sc=Hira", "scx=Hang", "Script_Extensions=Arabic", "gc=Sm",
    "General_Category=Mark", "Uppercase", "Alpha", "Ideographic", "ID_Start", "XIDC", "Math", "Dash", "Hex_Digit",
    "ASCII_Hex_Digit", "Emoji", "Extended_Pictographic",
]  # fmt: skip


def test_properties_agree_with_node() -> None:
    rng = random.Random()
    # Characters that every Unicode release since 12 knows: releases differ in what they add.
    known = [(0, 0x520), (0x530, 0x850), (0x900, 0xBFF), (0x1E00, 0x2BFF), (0x3041, 0x30FF), (0x4E00, 0x4E40)]
    codes = [c for lo, hi in [*known, (0xAC00, 0xAC20), (0x1F600, 0x1F64F)] for c in range(lo, hi)]
    texts = [chr(c) for c in rng.sample(codes, 400)]
    sources = [f"^\\{rng.choice('pP')}{{{name}}}$" for name in PROPERTIES]
    apart = set()
    for source, verdict in zip(sources, ask_node([(source, texts) for source in sources]), strict=True):
        made = ecma(source)
        apart |= {text for text, want in zip(texts, verdict[1], strict=True) if matches(made, text.encode()) != want}
    assert len(apart) <= 4, apart


@pytest.mark.parametrize("fold", ["i", ""])
def test_case_agrees_with_node(fold: str) -> None:
    """``(?i:...)`` against the flag i, with u."""
    cased = [*"kK\u212asSſßẞσςΣéÉİiIıΐ\u1fd3ǆǅ"]
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    sources = [*cased, *(f"[^{c}]" for c in cased)]
    sources += [r"\w", r"\W", r"[^\W]", r"\p{Lu}", r"\P{Lu}", r"[^\P{Lu}]", "[a-z]", r"k\b"]
    script = "const [ps, ts, f] = JSON.parse(require('fs').readFileSync(0, 'utf8'));"
    script += "console.log(JSON.stringify(ps.map(p => ts.map(t => new RegExp('^(?:' + p + ')$', f + 'u').test(t)))))"
    asked = json.dumps([sources, cased, fold])
    done = subprocess.run([node, "-e", script], input=asked, capture_output=True, text=True, check=True)
    for source, verdicts in zip(sources, json.loads(done.stdout), strict=True):
        made = ecma(f"^(?{fold}:{source})$")
        for text, expected in zip(cased, verdicts, strict=True):
            assert matches(made, text.encode()) == expected, (source, text)


def _patterns_in(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return set().union(*map(_patterns_in, schema))
    if not isinstance(schema, dict):
        return set()
    found = {schema["pattern"]} if isinstance(schema.get("pattern"), str) else set()
    if isinstance(schema.get("patternProperties"), dict):
        found |= schema["patternProperties"].keys()
    return found.union(*map(_patterns_in, schema.values()))


@pytest.mark.skipif(not MASKBENCH.exists(), reason="the collection of real schemas is not here")
def test_patterns_of_real_schemas_agree_with_node() -> None:
    """None refused; texts along a pattern's path (as Python reads it), beside it, and of other patterns."""
    import lzma

    rng = random.Random()
    with lzma.open(MASKBENCH, "rt", encoding="utf-8") as lines:
        sources = sorted(set().union(*(_patterns_in(json.loads(line)["schema"]) for line in lines)))
    if not os.environ.get("STRUCTGEN_ALL"):
        sources = rng.sample(sources, 200)

    def near(source: str) -> str:
        try:
            return random_patterns.near(rng, source)
        except Exception:  # syntax that Python has not
            return random_patterns.text(rng)

    asked = []
    for source in sources:
        texts = [near(source) for _ in range(8)] + [near(rng.choice(sources)), random_patterns.text(rng)]
        asked.append((source, [text for text in texts if max(text, default="a") <= "\uffff"]))
    for (source, texts), verdict in zip(asked, ask_node(asked), strict=True):
        made = ecma(source)
        for text, expected in zip(texts, verdict[1], strict=True):
            assert matches(made, text.encode()) == expected, (source, text)
