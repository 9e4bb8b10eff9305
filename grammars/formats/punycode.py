"""Punycode (RFC 3492): the spelling of Unicode labels in ASCII, and how it may go on.

Text comes without the ``xn--`` in front. A number is a string of digits, the least first; each number inserts one
character, and characters are inserted in the order of their code points.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from structgen.grammars.charset import MAX_CODE_POINT

BASE, T_MIN, T_MAX, SKEW, DAMP, FIRST_BIAS, FIRST = 36, 1, 26, 38, 700, 72, 0x80
DIGITS = "abcdefghijklmnopqrstuvwxyz0123456789"
_VALUE = {digit: value for value, digit in enumerate(DIGITS)}


def _threshold(at: int, bias: int) -> int:
    return min(max(at - bias, T_MIN), T_MAX)


def _adapted(delta: int, length: int, first: bool) -> int:
    """The next bias (section 6.1)."""
    delta = delta // DAMP if first else delta // 2
    delta += delta // length
    at = 0
    while delta > (BASE - T_MIN) * T_MAX // 2:
        delta //= BASE - T_MIN
        at += BASE
    return at + (BASE - T_MIN + 1) * delta // (delta + SKEW)


class Run(NamedTuple):
    """What has been decoded so far, with the number being read.

    Attributes:
        text: decoded so far.
        char, place: from where the next number counts: the code point last inserted, and the place behind it.
        bias: as in RFC 3492.
        delta, weight, at: of the number being read: its value so far, the weight of its next digit, and BASE times
            that digit's number.
    """

    text: str
    char: int = FIRST
    place: int = 0
    bias: int = FIRST_BIAS
    delta: int = 0
    weight: int = 1
    at: int = BASE

    @property
    def whole(self) -> bool:
        """No number is begun."""
        return self.at == BASE

    def digits(self, more: int) -> int:
        """How many digits it takes to add ``more`` times the next digit's weight."""
        count, at = 1, self.at
        while (t := _threshold(at, self.bias)) <= more:
            more = (more - t) // (BASE - t)
            at += BASE
            count += 1
        return count

    def spelled(self, more: int) -> str:
        """Those digits."""
        text, at = "", self.at
        while (t := _threshold(at, self.bias)) <= more:
            text += DIGITS[t + (more - t) % (BASE - t)]
            more = (more - t) // (BASE - t)
            at += BASE
        return text + DIGITS[more]

    def target(self, delta: int) -> tuple[int, int]:
        """(code point, place) that a number inserts."""
        steps, place = divmod(self.place + delta, len(self.text) + 1)
        return self.char + steps, place

    def least(self, char: int) -> int:
        """The least number that inserts this code point or a later one."""
        return max((char - self.char) * (len(self.text) + 1) - self.place, 0)

    def inserted(self, delta: int) -> Run:
        char, place = self.target(delta)
        text = self.text[:place] + chr(char) + self.text[place:]
        return Run(text, char, place + 1, _adapted(delta, len(text), self.place == 0))

    def read(self, digit: str) -> Run | None:
        """One more digit (lower case); None: the number is too large."""
        value, t = _VALUE[digit], _threshold(self.at, self.bias)
        delta = self.delta + value * self.weight
        if self.target(delta)[0] > MAX_CODE_POINT:
            return None
        if value < t:
            return self.inserted(delta)
        return self._replace(delta=delta, weight=self.weight * (BASE - t), at=self.at + BASE)


@lru_cache(maxsize=65536)
def run(text: str) -> Run | None:
    """``text`` (lower case) read to its end; None where it decodes to nothing."""
    if text == "-":
        return None  # a delimiter with nothing before it is not written; with another one behind it, it is text
    if text.endswith("-") or not text:
        return Run(text[:-1])
    before = run(text[:-1])
    return None if before is None else before.read(text[-1])


def decoded(text: str) -> str | None:
    """What ``text`` (lower case) stands for; None if it is not the Punycode of a text that is not ASCII."""
    read = run(text)
    if read is None or not read.whole or read.text.isascii():
        return None
    return read.text


@lru_cache(maxsize=65536)
def length(text: str) -> int:
    """The length of the Punycode of ``text``."""
    basic = sum(char < "\x80" for char in text)
    total = basic + (basic > 0)
    handled, bias, first = basic, FIRST_BIAS, True
    last, delta = FIRST, 0
    codes = [ord(char) for char in text]
    for code in sorted({code for code in codes if code >= FIRST}):
        delta += (code - last) * (handled + 1)
        last = code
        for each in codes:
            if each < code:
                delta += 1
            elif each == code:
                q, at = delta, BASE
                while True:
                    total += 1
                    t = at - bias
                    t = T_MIN if t < T_MIN else T_MAX if t > T_MAX else t
                    if q < t:
                        break
                    q = (q - t) // (BASE - t)
                    at += BASE
                handled += 1
                bias = _adapted(delta, handled, first)
                first = False
                delta = 0
        delta += 1
        last += 1
    return total


def most_digits(delta: int) -> int:
    """The most digits that a number up to ``delta`` can take, whatever the bias."""
    count, reach = 1, 1
    # The fewest values with `count` digits: thresholds 1 as long as they may be, 26 after.
    while reach <= delta:
        count += 1
        reach = min(_below(count, ones) for ones in range(count + 1))
    return count


@lru_cache(maxsize=256)
def _below(digits: int, ones: int) -> int:
    """All numbers below this one take at most ``digits`` digits, where the first ``ones`` thresholds are 1 and the
    others 26."""
    value = T_MIN if digits <= ones else T_MAX
    for at in range(digits - 1, 0, -1):
        t = T_MIN if at <= ones else T_MAX
        value = t + value * (BASE - t)
    return value
