"""String formats against the standard library, jsonschema, and the official test suite where it is at hand."""

from __future__ import annotations

import calendar
import ipaddress
import json
import random
import re
import tarfile
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.errors import GrammarError
from structgen.grammars import formats
from structgen.grammars.encoding import JSON_ANY, JSON_CANONICAL, UTF8
from structgen.grammars.expr import NEVER, is_empty, matches
from structgen.grammars.residual import state

SUITE = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "json_schema_test_suite.tar.xz"
seeds = st.integers(0, 2**32)


def accepts(name: str, text: str) -> bool:
    return matches(formats.expr(name, UTF8), text.encode())


def mutated(rng: random.Random, text: str, alphabet: str) -> str:
    """``text`` with up to two characters lost, added, changed or doubled."""
    for _ in range(rng.choice([0, 1, 1, 2])):
        at = rng.randint(0, len(text))
        way = rng.randrange(4)
        if way == 0:
            text = text[:at] + text[at + 1 :]
        elif way == 1:
            text = text[:at] + rng.choice(alphabet) + text[at:]
        elif way == 2:
            text = text[:at] + rng.choice(alphabet) + text[at + 1 :]
        else:
            text = text[:at] + text[max(at - 3, 0) : at] + text[at:]
    return text


def parses(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


@given(seeds)
@settings(max_examples=120, deadline=None)
def test_ip_addresses(seed: int) -> None:
    rng = random.Random(seed)
    four = ".".join(str(rng.choice([0, 1, 9, 10, 99, 100, 199, 249, 255, 256, rng.randint(0, 300)])) for _ in range(4))
    groups = [f"{rng.randrange(1 << rng.choice([4, 8, 16])):x}" for _ in range(rng.randint(1, 8))]
    six = ":".join(groups)
    if rng.random() < 0.7:
        cut = rng.randint(0, len(groups))
        six = ":".join(groups[:cut]) + "::" + ":".join(groups[cut:])
    if rng.random() < 0.3:
        six = six.rstrip(":") + rng.choice([":", "::"]) + four
    for _ in range(6):
        text = mutated(rng, four, "0123456789.")
        assert accepts("ipv4", text) == parses(ipaddress.IPv4Address, text), text
        text = mutated(rng, six, "0123456789abcdefABCDEF:.")
        assert accepts("ipv6", text) == parses(ipaddress.IPv6Address, text), text


def is_date(text: str) -> bool:
    if not re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return False
    year, month, day = map(int, text.split("-"))
    return year > 0 and 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]


def utc_minutes(text: str) -> int:
    """Minutes of a time of day after 00:00 UTC; negative on the day before."""
    offset = re.search("([+-])(..):(..)$", text)
    shift = 0 if offset is None else (int(offset[2]) * 60 + int(offset[3])) * (1 if offset[1] == "+" else -1)
    return int(text[:2]) * 60 + int(text[3:5]) - shift


def is_time(text: str) -> bool:
    found = re.fullmatch(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(\.[0-9]+)?([zZ]|[+-]([0-9]{2}):([0-9]{2}))", text)
    if not found:
        return False
    hour, minute, second = (int(found[i]) for i in (1, 2, 3))
    if hour > 23 or minute > 59 or int(found[6] or 0) > 23 or int(found[7] or 0) > 59:
        return False
    return second <= 59 or (second == 60 and utc_minutes(text) % 1440 == 1439)


def is_date_time(text: str) -> bool:
    date, clock = text[:10], text[11:]
    if text[10:11] not in ("T", "t") or not is_date(date) or not is_time(clock):
        return False
    if clock[6:8] != "60":
        return True
    day_before = utc_minutes(clock) < 0
    return date[5:] in (("07-01", "01-01") if day_before else ("06-30", "12-31"))


@given(seeds)
@settings(max_examples=150, deadline=None)
def test_dates_and_times(seed: int) -> None:
    rng = random.Random(seed)
    year = rng.choice([0, 1, 4, 100, 400, 1900, 2000, 2024, 2023, 9999, rng.randint(0, 9999)])
    day = rng.choice([1, 28, 29, 30, 31, rng.randint(0, 32)])
    date = f"{year:04}-{rng.randint(0, 13):02}-{day:02}"
    hour, minute = rng.randint(0, 24), rng.choice([59, rng.randint(0, 60)])
    zones = ["Z", "z", "+00:00", "-00:00", f"+{rng.randint(0, 24):02}:{rng.randint(0, 60):02}"]
    ahead = (60 * hour + minute + 1) % 1440
    zones += [f"+{ahead // 60:02}:{ahead % 60:02}", f"-{(1440 - ahead) // 60:02}:{-ahead % 60:02}"]
    second = f"{rng.choice([0, 59, 60, 60, 61]):02}"
    clock = f"{hour:02}:{minute:02}:{second}{rng.choice(['', '.5', '.000001'])}{rng.choice(zones)}"
    for _ in range(4):
        text = mutated(rng, date, "0123456789-")
        assert accepts("date", text) == is_date(text), text
        text = mutated(rng, clock, "0123456789:.Zz+-") if rng.random() < 0.5 else clock
        assert accepts("time", text) == is_time(text), text
        for day_text in (date, f"{year:04}-{rng.choice(['06-30', '07-01', '12-31', '01-01', '05-31'])}"):
            text = day_text + rng.choice("TTt ") + clock
            assert accepts("date-time", text) == is_date_time(text), text


@pytest.mark.parametrize("year", [1, 4, 100, 400, 1600, 1900, 2000, 2023, 2024, 2100, 4000, 9996, 9999])
def test_leap_years(year: int) -> None:
    assert accepts("date", f"{year:04}-02-29") == calendar.isleap(year)


def is_a_label(label: str) -> bool:
    idna = pytest.importorskip("idna", reason="the oracle of international names is not installed")
    return parses(idna.ulabel, label)


@given(seeds)
@settings(max_examples=100, deadline=None)
def test_host_names_and_mail(seed: int) -> None:
    rng = random.Random(seed)
    sizes = [rng.choice([1, 2, 3, 10, 61, 62, 63, 64]) for _ in range(rng.randint(1, 5))]
    labels = ["".join(rng.choice("ax9nN-X") for _ in range(size)) for size in sizes]
    host = mutated(rng, ".".join(labels), "xn-.a_")
    label = r"(?!-)[0-9A-Za-z-]{1,63}(?<!-)"
    is_domain = bool(re.fullmatch(rf"{label}(\.{label})*", host)) and len(host) <= 253
    decodes = all(is_a_label(part) for part in host.split(".") if part.lower().startswith("xn--"))
    assert accepts("hostname", host) == (is_domain and decodes), host
    local = mutated(rng, "a." * rng.choice([0, 1, 31, 32]) + "b", "a.!")
    dots = bool(re.fullmatch(r"[ab!]+(\.[ab!]+)*", local)) and len(local) <= 64
    assert accepts("email", f"{local}@{host}") == (dots and is_domain), (local, host)


@given(seeds)
@settings(max_examples=100, deadline=None)
def test_uris(seed: int) -> None:
    rfc3987 = pytest.importorskip("rfc3987", reason="the URI oracle is not installed")
    rng = random.Random(seed)
    sample = rng.choice(
        [
            "http://user:pw@example.com:80/a/b;c?q=1&r=%20#frag",
            "urn:isbn:0-12",
            "ftp://[2001:db8::7]/x",
            "mailto:a@b.c",
            "//host/p",
            "../a:b/c?d",
            "a:b",
            "http://[v1.x:y]:/",
            "file:///etc/x",
            "?q#f",
            "/é/ü?\ue000",
        ]
    )
    for _ in range(5):
        text = mutated(rng, sample, "ab:/?#[]@!%20é<>{} .")
        for rule in ("URI", "URI_reference", "IRI", "IRI_reference"):
            name = rule.lower().replace("_", "-")
            assert accepts(name, text) == bool(rfc3987.match(text, rule)), (name, text)


SAMPLES: dict[str, tuple[list[str], list[str]]] = {
    "uuid": (
        ["123e4567-E89B-12d3-a456-426614174000"],
        ["123e4567e89b12d3a456426614174000", "g23e4567-e89b-12d3-a456-426614174000"],
    ),
    "duration": (["P3Y6M4DT12H30M5S", "P1W", "PT36H", "P1M"], ["P", "PT", "P1Y1D", "PT1H1S", "P1W1D", "1D", "P1S"]),
    "email": (
        ["jo@example.com", '"a b"@x', "a+b@[127.0.0.1]", "x@[IPv6:1::2]", "a@[ipv6:::]"],
        ["jo", "@x", "a..b@x", "a@-x", "a b@x", "a@[1.2.3]", "a@[IPv6:1:2:3:4:5:6:7::]", '"a"b"@x'],
    ),
    "uri": (["a:", "https://x/", "a:b?c#d"], ["", "/a", "http://[::1", "a:%4", "1a:b"]),
    "json-pointer": (["", "/", "/a~0b~1/é"], ["a", "/~", "/~2", "#/a"]),
    "relative-json-pointer": (["0", "1/a", "10#"], ["", "01", "-1", "0#/a", "1a"]),
    "uri-template": (["", "a{b}", "{+a,b:3,c*}", "{?x.y}", "é"], ["{", "}", "{}", "{a b}", "{!a}", "{a:0}", "<"]),
}  # fmt: skip


@pytest.mark.parametrize("name", SAMPLES)
def test_samples(name: str) -> None:
    accepted, rejected = SAMPLES[name]
    for text in accepted:
        assert accepts(name, text), text
    for text in rejected:
        assert not accepts(name, text), text


def walked(name: str, rng: random.Random) -> str | None:
    """A random text of a format; None if it did not end soon enough."""
    at = formats.expr(name, UTF8)
    familiar = rng.random() < 0.5
    text = b""
    for _ in range(60):
        if at.outcomes and rng.random() < 0.2:
            break
        choices = [(byte, mask) for byte, mask in at.classes() if at.derive(byte) is not NEVER]
        if familiar:
            choices = [each for each in choices if each[0] < 0x80] or choices
        if not choices:
            break
        _, mask = rng.choice(choices)
        byte = rng.choice([b for b in range(256) if mask >> b & 1])
        at = at.derive(byte)
        assert state(at) is not None
        text += bytes([byte])
    return text.decode() if at.outcomes else None


def is_reserved(name: str) -> bool:
    """Whether a label has hyphens third and fourth: RFC 5890 reserves such names, RFC 1123 knows nothing of it, and
    some are in use (r1---sn-x.example), so they are host names here."""
    return any(label[2:4] == "--" for label in re.split("[.@]", name))


@pytest.mark.parametrize("name", sorted(formats.FORMATS))
@given(seed=seeds)
@settings(max_examples=6, deadline=None)
def test_what_is_walked_is_valid_elsewhere(name: str, seed: int) -> None:
    r"""Random texts are taken by jsonschema-rs or by jsonschema's own checker (which knows some formats only with
    optional packages, and looks only for an @ in mail). Each has faults that the other has not: ``[V1.a]`` is a host
    (RFC 3986, ABNF has no case), U+AB65 a Greek letter after U+0375, ``"\ "`` a quoted pair (RFC 5321)."""
    jsonschema_rs = pytest.importorskip("jsonschema_rs", reason="the second validator is not installed")
    value = walked(name, random.Random(seed))
    if value is None or name == "regex" or (name in ("hostname", "email") and is_reserved(value)):
        return
    if (name in ("time", "date-time") and ":60" in value) or (name in ("email", "idn-email") and "\\ " in value):
        return
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "format": name}
    verdicts = [jsonschema_rs.validator_for(schema, validate_formats=True).is_valid(value)]
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    if name in checker.checkers and name not in ("email", "idn-email"):
        verdicts.append(checker.conforms(value, name))
    assert any(verdicts), value


@pytest.mark.parametrize("name", sorted(formats.FORMATS))
def test_every_format_in_json_strings(name: str) -> None:
    plain, any_spelling = formats.expr(name, UTF8), formats.expr(name, JSON_ANY)
    assert plain is not NEVER
    assert not is_empty(any_spelling)
    assert not is_empty(formats.expr(name, JSON_CANONICAL))
    accepted, rejected = SAMPLES.get(name, ([], []))
    for text in accepted + rejected:
        spelled = "".join(rf"\u{ord(char):04X}" for char in text).encode()
        assert matches(any_spelling, spelled) == (text in accepted)


def test_unknown_formats_are_named() -> None:
    with pytest.raises(GrammarError, match="no format 'dat'") as caught:
        formats.expr("dat", UTF8)
    assert type(caught.value) is GrammarError


def test_every_format_of_the_specifications_is_built() -> None:
    assert set(formats.FORMATS) == {
        "date-time", "date", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6",
        "uri", "uri-reference", "iri", "iri-reference", "uuid", "uri-template", "json-pointer",
        "relative-json-pointer", "regex",
    }  # fmt: skip


@pytest.mark.skipif(not SUITE.exists(), reason="the JSON Schema Test Suite is not here")
def test_official_suite() -> None:
    """All files of all drafts: nothing wrong, nothing refused."""
    seen: dict[str, int] = {}
    wrong = []
    with tarfile.open(SUITE) as archive:
        for member in archive:
            found = re.search(r"tests/(draft(?:4|6|7|2019-09|2020-12))/optional/format/.*[.]json$", member.name)
            if not found:
                continue
            file = archive.extractfile(member)
            assert file is not None
            for group in json.load(file):
                name = group["schema"].get("format") if isinstance(group["schema"], dict) else None
                for test in group["tests"] if name in formats.FORMATS else ():
                    if isinstance(test["data"], str):
                        seen[found[1]] = seen.get(found[1], 0) + 1
                        if accepts(name, test["data"]) != test["valid"]:
                            wrong.append((found[1], name, test["data"]))
    assert not wrong
    assert len(seen) == 5
    assert seen["draft2020-12"] > 500
