"""Regular expressions that are computed: ranges, moments between bounds, durations, networks, base64."""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import random
import re
from decimal import Decimal
from typing import Annotated, Any

import pydantic
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import Field

from structgen.grammars.pytypes import texts, times
from structgen.grammars.pytypes.ranges import at_least, at_most, fixed, integers

UTC = dt.timezone.utc


@given(st.integers(-(10**6), 10**6) | st.none(), st.integers(-(10**6), 10**6) | st.none(), st.integers(-(10**7), 10**7))
def test_integers(low: int | None, high: int | None, value: int) -> None:
    pattern = integers(low, high)
    for n in {value, *(b + d for b in (low, high) if b is not None for d in (-1, 0, 1))}:
        inside = (low is None or n >= low) and (high is None or n <= high)
        assert (pattern is not None and re.fullmatch(pattern, str(n)) is not None) == inside
    assert pattern is None or not re.fullmatch(pattern, "007")


decimals = st.decimals(-9999, 9999, allow_nan=False, allow_infinity=False, places=4) | st.integers(-99, 99).map(Decimal)


@given(decimals, st.booleans(), decimals, st.integers(0, 3))
def test_decimals(bound: Decimal, outside: bool, value: Decimal, zeros: int) -> None:
    for number in (value, bound, bound + Decimal("0.0001"), bound - Decimal("0.0001"), -bound):
        text = f"{number:f}" + ("0" * zeros if "." in f"{number:f}" else "")
        text = text.rstrip("0").rstrip(".") if zeros == 3 and "." in text else text
        assert bool(re.fullmatch(at_least(bound, outside), text)) == (number > bound if outside else number >= bound)
        assert bool(re.fullmatch(at_most(bound, outside), text)) == (number < bound if outside else number <= bound)


@given(st.dates(), st.dates(), st.dates())
def test_texts_of_one_length(low: dt.date, high: dt.date, value: dt.date) -> None:
    pattern = fixed(low.isoformat(), high.isoformat())
    assert (pattern is None) == (low > high)
    for day in (value, low, high):
        matched = pattern is not None and re.fullmatch(pattern, day.isoformat()) is not None
        assert matched == (low <= day <= high)


@given(
    st.sampled_from(["0.25", "0.05", "0.01", "0.5", "1", "2", "5", "10", "2.5", "12.5", "0.125", "20", "1000"]),
    decimals,
)
def test_multiples(factor: str, value: Decimal) -> None:
    pattern = texts.multiples(Decimal(factor))
    assert pattern is not None
    for number in (value, int(value) * Decimal(factor)):
        assert bool(re.fullmatch(pattern, f"{number:f}")) == (number % Decimal(factor) == 0)


def test_multiples_that_do_not_show_in_the_last_digits() -> None:
    assert texts.multiples(Decimal(3)) is None
    assert texts.multiples(Decimal("0.7")) is None


moments = st.datetimes(dt.datetime(2019, 12, 30), dt.datetime(2020, 1, 3)) | st.datetimes(
    dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30)
)
zones = st.sampled_from([UTC, dt.timezone(dt.timedelta(hours=5, minutes=30)), dt.timezone(dt.timedelta(hours=-11))])


@given(st.sampled_from(["naive", "local", "utc"]), moments, moments, st.booleans(), st.booleans(), moments, zones)
def test_moments_between_bounds(
    kind: str, low: dt.datetime, high: dt.datetime, above: bool, below: bool, value: dt.datetime, zone: dt.timezone
) -> None:
    """pydantic decides. Texts between UTC bounds are complete in UTC only, on the first and the last day."""
    assume(low < high)
    bounds = (low.replace(tzinfo=UTC), high.replace(tzinfo=UTC)) if kind == "utc" else (low, high)
    make: Any = Field
    field = make(**{"gt" if above else "ge": bounds[0], "lt" if below else "le": bounds[1]})
    adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(Annotated[dt.datetime, field])
    pattern = times.datetimes((bounds[0], above), (bounds[1], below), naive=kind == "naive")
    for moment in (value, low, high, low + (high - low) / 2):
        written = moment if kind == "naive" else moment.replace(tzinfo=zone)
        text = pydantic.TypeAdapter(dt.datetime).dump_json(written).decode()
        try:
            adapter.validate_json(text)
            inside = True
        except pydantic.ValidationError:
            inside = False
        got = re.fullmatch(pattern, text[1:-1]) is not None
        assert inside or not got, text
        if kind != "utc" or zone is UTC:
            assert got == inside, text


@given(st.times(), st.times(), st.booleans(), st.booleans(), st.times())
def test_times_between_bounds(low: dt.time, high: dt.time, above: bool, below: bool, value: dt.time) -> None:
    pattern = times.times((low, above), (high, below))
    for time in (value, low, high):
        inside = (time > low if above else time >= low) and (time < high if below else time <= high)
        assert bool(re.fullmatch(pattern, time.isoformat() + "Z")) == inside


deltas = st.timedeltas(dt.timedelta(days=-999_999_900), dt.timedelta(days=999_999_900)) | st.builds(
    dt.timedelta,
    days=st.integers(-800, 800),
    seconds=st.sampled_from([0, 0, 1, 59, 3600, 86399]) | st.integers(0, 86399),
)


@given(deltas, deltas, st.booleans(), st.booleans(), deltas)
def test_durations(low: dt.timedelta, high: dt.timedelta, above: bool, below: bool, value: dt.timedelta) -> None:
    """Complete for whole seconds; fractions of a second only where the whole second is inside."""
    bounded = times.durations(low, high, above, below)
    for delta in (value, low, high):
        text = pydantic.TypeAdapter(dt.timedelta).dump_json(delta).decode()[1:-1]
        assert re.fullmatch(times.DURATION, text)
        inside = (delta > low if above else delta >= low) and (delta < high if below else delta <= high)
        got = re.fullmatch(bounded, text) is not None
        assert inside or not got, text
        if not delta.microseconds:
            assert got == inside, text


@pytest.mark.parametrize(("text", "good"), [
    ("P3D", True), ("PT1H30M", True), ("PT1H5S", True), ("PT0.5S", True), ("-P1D", True), ("P2W", True),
    ("P1Y35D", True), ("P", False), ("PT", False), ("P1DT", False), ("3 days", False), ("P1D2Y", False),
    ("P9999999999D", False),
])  # fmt: skip
def test_forms_of_durations(text: str, good: bool) -> None:
    assert bool(re.fullmatch(times.DURATION, text)) == good


def test_networks() -> None:
    seed = random.SystemRandom().randrange(1 << 40)
    rng = random.Random(seed)
    networks, addresses = re.compile(texts.ipv6_networks()), re.compile(texts.IPV6)
    small = re.compile(texts.ipv4_networks())
    for _ in range(1500):
        bits = rng.choice([128, 128, 32])
        prefix = rng.randint(0, bits)
        number = rng.getrandbits(bits) >> (bits - prefix) << (bits - prefix)
        for at in range(0, bits, 16):
            if rng.random() < 0.5:
                number &= ~(0xFFFF << at)
        kind: Any = ipaddress.IPv6Network if bits == 128 else ipaddress.IPv4Network
        text = str(kind((number, prefix)))
        pattern = networks if bits == 128 else small
        assert pattern.fullmatch(text), f"seed {seed}: {text}"
        place = rng.randrange(len(text))
        changed = text[:place] + rng.choice("0123456789abcdef:/.") + text[place + rng.randrange(2) :]
        try:
            kind(changed)
            real = True
        except ValueError:
            real = False
        assert real or not pattern.fullmatch(changed), f"seed {seed}: {changed}"
        if bits == 128:
            address = changed.split("/")[0]
            try:
                ipaddress.IPv6Address(address)
                real = True
            except ValueError:
                real = False
            assert real or not addresses.fullmatch(address), f"seed {seed}: {address}"


@given(st.binary(max_size=9), st.integers(0, 5), st.integers(0, 5) | st.none())
def test_base64(data: bytes, low: int, more: int | None) -> None:
    high = None if more is None else low + more
    inside = len(data) >= low and (high is None or len(data) <= high)
    text = bytes(byte & 127 for byte in data)
    for url, encode in ((False, base64.b64encode), (True, base64.urlsafe_b64encode)):
        assert bool(re.fullmatch(texts.base64(low, high, url=url, text=False), encode(data).decode())) == inside
        assert bool(re.fullmatch(texts.base64(low, high, url=url, text=True), encode(text).decode())) == inside
        if any(byte > 127 for byte in data):
            assert not re.fullmatch(texts.base64(low, high, url=url, text=True), encode(data).decode())
    assert bool(re.fullmatch(texts.hexadecimal(low, high), data.hex())) == inside
