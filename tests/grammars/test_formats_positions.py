"""Formats that count and remember: their tables, masks and ways to an end, and the company of other keywords."""

from __future__ import annotations

import contextlib
import json
import random
import time
import unicodedata

import numpy as np
import pytest
from brute import check_walk
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.grammars import Grammar, Vocabulary, formats
from structgen.grammars.encoding import JSON_ANY, JSON_CANONICAL, UTF8
from structgen.grammars.expr import NEVER, Expr, both, matches
from structgen.grammars.formats import hosts, idna, label_lengths, punycode
from structgen.grammars.lifted import _under, completion, decoded, lifted
from structgen.grammars.residual import state
from structgen.grammars.schema.scalars import pattern_expr

seeds = st.integers(0, 2**32)
POOLS = (
    "abcdefghijklmnopqrstuvwxyz0123456789-l", "αβγδεζη͵σς", "абвг", "中文字々〇", "あいう・アー", "éüößñ·ll", "𠀀𠀁",
    "اب\u200cتم٠١۰", "אבג׳״1", "한국가", "कखग\u094d\u200d\u200cे", "ABC", "e\u0301\u0327",
)  # fmt: skip


def word(rng: random.Random, longest: int = 30) -> str:
    pools = rng.sample(POOLS, rng.choice([1, 1, 2, 3]))
    return "".join(rng.choice(rng.choice(pools)) for _ in range(rng.choice([1, 2, 3, 4, 6, longest // 2, longest])))


# ------------------------------------------------------------------------------------------------ characters


@given(seeds)
@settings(max_examples=200, deadline=None)
def test_spellings_of_characters_are_read_back(seed: int) -> None:
    rng = random.Random(seed)
    lo, hi = rng.choice([(0, 0x80), (0x80, 0x800), (0x800, 0xD800), (0xE000, 0x10000), (0x10000, 0x110000)])
    code = rng.randrange(lo, hi)
    for encoding in (UTF8, JSON_ANY):
        spelled = rng.choice(encoding.spellings(chr(code)))
        assert decoded(spelled) == code
        for i in range(1, len(spelled)):
            begun = spelled[:i]
            assert code in _under(begun)
            lo, hi = rng.choice(_under(begun).ranges)
            other = rng.choice([lo, hi, rng.randint(lo, hi)])
            if not 0xD800 <= other <= 0xDFFF:
                assert any(each.startswith(begun) for each in encoding.spellings(chr(other))), (begun, other)


# ------------------------------------------------------------------------------------------------ labels


@given(seeds)
@settings(max_examples=150, deadline=None)
def test_punycode_is_that_of_the_standard_library(seed: int) -> None:
    rng = random.Random(seed)
    text = word(rng)
    if not text.isascii():
        assert punycode.length(text) == len(text.encode("punycode"))
        spelled = text.encode("punycode").decode()
        if spelled == spelled.lower():
            assert punycode.decoded(spelled) == text
    spelled = "".join(rng.choice("abcdefghijklmnopqrstuvwxyz0123456789-") for _ in range(rng.randint(1, 10)))
    try:
        text = spelled.encode().decode("punycode")
        expected = text if text.encode("punycode").decode() == spelled and not text.isascii() else None
    except UnicodeError:
        expected = None
    assert punycode.decoded(spelled) == expected
    number, run = rng.choice([rng.randrange(60), rng.randrange(10**7)]), punycode.Run("abc", bias=rng.randrange(120))
    assert run.digits(number) == len(run.spelled(number))
    read: punycode.Run | None = run
    for digit in run.spelled(number):
        read = None if read is None else read.read(digit)
    assert read == (run.inserted(number) if run.target(number)[0] <= 0x10FFFF else None)


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_lengths_of_many_labels(seed: int) -> None:
    rng = random.Random(seed)
    begin = word(rng, 12)
    texts = [word(rng, 16) for _ in range(20)]
    lengths = np.empty(len(texts), dtype=np.int32)
    offsets = np.cumsum([0, *map(len, texts)])
    codes = np.array([ord(char) for text in texts for char in text], dtype=np.int32)
    label_lengths.octets(np.array(list(map(ord, begin)), dtype=np.int32), codes, offsets, 63, lengths)
    for text, length in zip(texts, lengths.tolist(), strict=True):
        whole = begin + text
        expected = len(whole) if whole.isascii() else 4 + punycode.length(whole)
        assert length == min(expected, 64), whole


def test_classes_of_characters_are_those_of_rfc_5892() -> None:
    """Save for what the running Python's Unicode does not know yet, or the oracle's."""
    package = pytest.importorskip("idna", reason="the oracle of international names is not installed")
    from idna.intranges import intranges_contain

    classes = package.idnadata.codepoint_classes
    whole = idna.permitted()
    for code in range(0x80, 0x34000):
        known = unicodedata.category(chr(code)) != "Cn"
        listed = any(intranges_contain(code, classes[each]) for each in ("PVALID", "CONTEXTJ", "CONTEXTO"))
        assert (code in whole) == bool(idna.kind(code))
        if known and not 0xD800 <= code <= 0xDFFF:
            assert bool(idna.kind(code)) == listed, hex(code)


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_names_with_several_labels(seed: int) -> None:
    """Against ``idna``, with the rule for whole names of RFC 5893 on top."""
    package = pytest.importorskip("idna", reason="the oracle of international names is not installed")
    rng = random.Random(seed)
    labels = [word(rng) for _ in range(rng.choice([1, 2, 3]))]
    for i, label in enumerate(labels):
        if rng.random() < 0.2:
            with contextlib.suppress(package.IDNAError):
                labels[i] = package.alabel(label).decode()
    name = rng.choice(".。．｡").join(labels)
    try:
        package.encode(name)
        spelled = [package.ulabel(label) for label in labels]
        expected = True
    except package.IDNAError:
        expected, spelled = False, []
    if any(unicodedata.bidirectional(char) in ("R", "AL", "AN") for label in spelled for char in label):
        try:
            for label in spelled:
                package.check_bidi(label, check_ltr=True)
        except package.IDNAError:
            expected = False
    assert matches(formats.expr("idn-hostname", UTF8), name.encode()) == expected, name


def test_limits_of_names() -> None:
    name, international = (formats.expr(each, UTF8) for each in ("hostname", "idn-hostname"))
    for expr in (name, international):
        assert matches(expr, b".".join([b"a" * 63] * 3 + [b"a" * 61]))
        assert not matches(expr, b".".join([b"a" * 63] * 3 + [b"a" * 62]))
        assert not matches(expr, b"a" * 64)
    longest = max(n for n in range(1, 64) if len(("ü" * n).encode("punycode")) <= 59)
    assert matches(international, ("ü" * longest).encode())
    assert not matches(international, ("ü" * (longest + 1)).encode())
    label = ("ü" * longest).encode("punycode")
    full = b".".join([b"xn--" + label] * 3 + [b"a" * (253 - 3 * (len(label) + 5))])
    assert matches(international, full)
    assert not matches(international, full + b"a")
    assert matches(name, full)


# ------------------------------------------------------------------------------------------------ ways to an end


def beginning(name: str, rng: random.Random) -> bytes:
    """Where it is hard to go on: near limits, in A-labels, in the middle of conditions."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789-"
    full = ".".join(["a" * 60] * rng.choice([0, 3, 4])) + "."
    tail = "xn--" + "".join(rng.choice(letters) for _ in range(rng.choice([0, 3, 20, 50, 56])))
    hard = {
        "hostname": [tail, full.lstrip(".") + tail[:8], "xn-", "a" * 62],
        "idn-hostname": [
            *(tail, full.lstrip("."), "0a.", "אב.", "l·", "・", "α͵", "中" * 14, "ü" * 50, "בי-", "بي\u200c")
        ],
        "idn-email": ["é" * 32 + "@", '"é\\', "a@中-", "a@[IPv6:", "a@・"],
        "regex": [
            *(r"(?<a>x)\k<b", r"((?<=(a|[z-", r"\12(", r"[\ud83d\udc95-\ud83", r"\p{Script_E"),
            *("(?<a", r"\u{1", "a{12,1"),
        ],
        "time": ["23:59:60", "12:00:60.", "12:00:60-", "12:00:00+2"],
        "date-time": ["2024-02-29T", "2024-06-30T12:00:60", "2024-07-01T12:00:60.5", "2024-07-01T23:59:"],
    }
    return rng.choice(["", *hard.get(name, [])]).encode()


@pytest.mark.parametrize("name", sorted(formats.FORMATS))
def test_no_beginning_is_a_dead_end(name: str) -> None:
    rng = random.Random()
    for i in range(12):
        encoding = (UTF8, JSON_ANY, JSON_CANONICAL)[i % 3]
        at: Expr = formats.expr(name, encoding)
        for char in beginning(name, rng).decode():
            for byte in encoding.spellings(char)[0]:
                at = at.derive(byte)
            if at is NEVER:
                break
        for _ in range(25):
            if at is NEVER:
                break  # the beginning itself was none
            choices = [left for byte, _ in at.classes() if (left := at.derive(byte)) is not NEVER]
            assert choices or at.outcomes, (name, at)
            if not choices:
                break
            at = rng.choice(choices)
        if at is not NEVER and (data := completion(at)) is not None:
            assert matches(at, data), (at, data)


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_proposed_ends_are_long_enough(seed: int) -> None:
    rng = random.Random(seed)
    least = rng.choice([0, 1, 5, 70, 130])
    for name in ("hostname", "idn-hostname", "regex", "time", "date-time"):
        at = formats.expr(name, UTF8)
        for byte in beginning(name, rng):
            at = at.derive(byte)
        data = None if at is NEVER else completion(at, least)
        if data is not None:
            assert matches(at, data)
            assert len(data.decode()) >= least


# ------------------------------------------------------------------------------------------------ masks


@pytest.mark.parametrize("name", ["regex", "hostname", "idn-hostname", "idn-email"])
def test_masks_are_those_of_brute_force(name: str, synthetic_vocabulary: Vocabulary) -> None:
    """Positions that remember are looked up through their loose twins: no token more, none less."""
    rng = random.Random()
    grammar = Grammar.from_json_schema({"type": "array", "items": {"type": "string", "format": name}})
    compiled = grammar.compile(synthetic_vocabulary)
    for jump in (2, 5, 9):
        check_walk(grammar, compiled, rng, steps=2, jump=jump)


HARD = {
    "regex": [
        *('"[a', '"[\\\\ud83d', '"(?<ab', '"(?<ab>x)(?<ab', '"\\\\k<a', '"(a)\\\\1', '"(a', '"\\\\u{1', '"a{2,', '"[z-')
    ],
    "hostname": ['"xn--', '"xn--9n2bp8q', '"xn--' + "ab" * 27, '"x', '"' + "a" * 60],
    "idn-hostname": [
        *('"l·', '"・', '"中文', '"אב', '"אב.', '"0a.', '"α͵', '"بي\u200c', '"xn--9n2bp8q', '"' + "中" * 14, '"A')
    ],
    "idn-email": ['"é', '"é@中', '"é@a-', '"' + "é" * 31],
}  # fmt: skip


@pytest.mark.parametrize("name", HARD)
def test_masks_where_much_is_remembered(name: str) -> None:
    pieces = [bytes([i]) for i in range(256)]
    more = [
        *("a", "ab.", '",', 'a"', "-a", "xn--", "中", "文。", "あ", "・", "אב", "a-", "]", "[a-z]", "(?<", "ab>"),
        *("\\\\1", "\\u00", "\\u0061", "\\\\d", "a)", "))", "l", "é", "\u0301", ".com"),
        *('@a.b"', "9n2b", "p8q", "۰", "١"),
    ]
    rng = random.Random()
    more += ["".join(rng.choice(more) for _ in range(3)) for _ in range(150)]
    pieces += [*(text.encode() for text in more), "中".encode()[:2]]
    vocab = Vocabulary.from_tokenizer([None, *pieces], eos_token_ids=0)
    grammar = Grammar.from_json_schema({"type": "string", "format": name})
    compiled = grammar.compile(vocab)
    for text in HARD[name]:
        matcher = compiled.matcher()
        assert matcher.accept_text(text), text
        expected = [id for id in range(1, vocab.size) if matcher.fork().accept_text(vocab.tokens[id] or b"")]
        assert sorted(set(matcher.allowed_tokens().tolist()) - {0}) == expected, text


def test_masks_of_remembering_formats_leave_no_states_behind() -> None:
    """A mask in a name of a group or in an A-label makes no state for each token."""
    rng = random.Random(1)
    names = {"".join(rng.choice("abcdefghij") for _ in range(8)).encode() for _ in range(3_000)}
    vocab = Vocabulary.from_tokenizer([None, *(bytes([i]) for i in range(256)), *sorted(names)], eos_token_ids=0)
    for name, text in (("regex", '"(?<q'), ("hostname", '"xn--ab'), ("idn-hostname", '"中')):
        matcher = Grammar.from_json_schema({"type": "string", "format": name}).compile(vocab).matcher()
        assert matcher.accept_text(text)
        at = state(formats.expr(name, JSON_ANY))
        assert at is not None
        before = at.store.count
        assert len(matcher.allowed_tokens()) > 3_000
        assert at.store.count - before < 1_500


# ------------------------------------------------------------------------------------------------ with other keywords

TOGETHER = [
    ({"format": "date-time", "pattern": r"\+00:00$"}, "2024-01-01T00:00:00+00:00", "2024-01-01T00:00:00Z"),
    ({"format": "date-time", "minLength": 21}, "2024-01-01T00:00:00.5Z", "2024-01-01T00:00:00Z"),
    ({"format": "time", "pattern": r"^\d\d:00"}, "12:00:01Z", "12:01:00Z"),
    ({"format": "uri", "pattern": "^https?://"}, "https://a/", "ftp://a/"),
    ({"format": "uri", "maxLength": 2083}, "a:" + "b" * 2081, "a:" + "b" * 2082),
    ({"format": "email", "maxLength": 254}, "a@b", "a" * 60 + "@" + ".".join(["b" * 60] * 4)),
    ({"format": "email", "pattern": r"@example\.com$"}, "jo@example.com", "jo@example.org"),
    ({"format": "hostname", "minLength": 3}, "a.b", "ab"),
    ({"format": "hostname", "pattern": r"\.com$"}, "a.com", "a.org"),
    ({"format": "hostname", "maxLength": 255}, "a.com", "a."),
    ({"format": "ipv6", "pattern": "^fe80:"}, "fe80::1", "fe81::1"),
    ({"format": "regex", "minLength": 1}, "(a)", ""),
    ({"format": "regex", "pattern": r"^\^"}, "^a", "a"),
    ({"not": {"format": "date-time"}}, "x", "2024-01-01T00:00:00Z"),
    ({"not": {"format": "hostname"}}, "a b", "xn--9n2bp8q"),
    ({"not": {"format": "regex"}}, "(", "()"),
]


@pytest.mark.parametrize(("keywords", "good", "bad"), TOGETHER)
def test_formats_with_other_keywords(
    keywords: dict[str, object], good: str, bad: str, synthetic_vocabulary: Vocabulary
) -> None:
    began = time.process_time()
    grammar = Grammar.from_json_schema({"type": "string", **keywords})
    matcher = grammar.compile(synthetic_vocabulary).matcher()
    assert matcher.allowed_tokens().size
    assert matcher.accept_text('"')
    assert matcher.allowed_tokens().size
    assert time.process_time() - began < 3.0
    assert grammar.matches(json.dumps(good))
    assert not grammar.matches(json.dumps(bad))


def test_contradictions_are_seen_without_counting() -> None:
    """A host name that wants two @ is refuted by names without lengths, which have few states."""
    impossible = both(formats.expr("hostname", UTF8), pattern_expr("@", UTF8))
    assert state(impossible) is None
    rough = both(lifted(hosts.Host(hosts.IDN_HOSTNAME, used=90, text="ab"), UTF8), pattern_expr("_", UTF8))
    assert state(rough) is None
