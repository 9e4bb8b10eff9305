"""Unicode labels of domain names: IDNA 2008 (RFC 5890 to 5893).

The classes of code points are derived as RFC 5892 says, from ``unicodedata``: characters that the running Python's
Unicode does not know are unassigned.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

from structgen.grammars import properties
from structgen.grammars.charset import CharSet

_EXCEPTIONS = {  # RFC 5892, section 2.6
    **dict.fromkeys((0xDF, 0x3C2, 0x6FD, 0x6FE, 0xF0B, 0x3007), "valid"),
    **dict.fromkeys((0xB7, 0x375, 0x5F3, 0x5F4, 0x30FB, *range(0x660, 0x66A), *range(0x6F0, 0x6FA)), "context"),
    **dict.fromkeys((0x640, 0x7FA, 0x302E, 0x302F, *range(0x3031, 0x3036), 0x303B), ""),
    0x200C: "context",
    0x200D: "context",
}
_LETTER_DIGITS = frozenset({"Ll", "Lu", "Lo", "Nd", "Lm", "Mn", "Mc"})
_JAMO_AND_SYMBOLS = CharSet([(0x1100, 0x11FF), (0xA960, 0xA97F), (0xD7B0, 0xD7FF), (0x20D0, 0x20FF),
                             (0x1D100, 0x1D24F)])  # fmt: skip
_BLOCKS = (
    (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF), (0x2CEB0, 0x2EBEF), (0x2EBF0, 0x2EE5F), (0x30000, 0x3134F), (0x31350, 0x323AF),
    (0x323B0, 0x3347F),
)  # fmt: skip
_IDEOGRAPHS = CharSet(_BLOCKS)
"""Blocks without compatibility characters: no need to normalise each."""
LAST = 0x3347F
"""No later code point is valid (what is assigned above are ignorable characters and private use)."""

_RTL = frozenset({"R", "AL", "AN"})
_IN_RTL = frozenset({"R", "AL", "AN", "EN", "ES", "CS", "ET", "ON", "BN", "NSM"})
_IN_LTR = frozenset({"L", "EN", "ES", "CS", "ET", "ON", "BN", "NSM"})
_ARABIC_DIGITS, _EXTENDED_DIGITS = (frozenset(map(chr, range(zero, zero + 10))) for zero in (0x660, 0x6F0))


@lru_cache(maxsize=65536)
def kind(code: int) -> str:
    """``"valid"`` (PVALID), ``"context"`` (CONTEXTJ, CONTEXTO), or ``""`` (DISALLOWED, UNASSIGNED): RFC 5892,
    section 3."""
    if code in _EXCEPTIONS:
        return _EXCEPTIONS[code]
    char = chr(code)
    if code < 0x80:
        return "valid" if char.islower() or char.isdigit() or char == "-" else ""
    if unicodedata.category(char) not in _LETTER_DIGITS:
        return ""
    if code in _IDEOGRAPHS:
        return "valid"
    if code in _JAMO_AND_SYMBOLS or code > LAST:
        return ""
    normal = unicodedata.normalize
    if normal("NFKC", normal("NFKC", char).casefold()) != char:
        return ""
    return "" if code in _ignorable() else "valid"


@lru_cache(maxsize=1)
def _ignorable() -> CharSet:
    return properties.find("Default_Ignorable_Code_Point")


@lru_cache(maxsize=1)
def permitted() -> CharSet:
    """Every character outside of ASCII that some label holds."""
    return _ideographs() | CharSet((code, code) for code in _others())


@lru_cache(maxsize=1)
def _ideographs() -> CharSet:
    """Characters of the large blocks, where all are alike; only the last of a block may be unassigned."""
    found = []
    for lo, hi in _BLOCKS:
        while hi >= lo and unicodedata.category(chr(hi)) == "Cn":
            hi -= 1
        found.append((lo, hi))
    return CharSet(found)


@lru_cache(maxsize=1)
def _others() -> tuple[int, ...]:
    # The table's Unicode is later than Python's, so it has all of these.
    some = properties.find("L") | properties.find("M") | properties.find("Nd") | CharSet((c, c) for c in _EXCEPTIONS)
    return tuple(code for code in (some & CharSet([(0x80, LAST)])) - _IDEOGRAPHS if kind(code))


@lru_cache(maxsize=4)
def written(right_to_left: bool, left_to_right: bool) -> CharSet:
    """Permitted characters outside of ASCII that labels of these directions hold."""
    allowed = (_IN_RTL if right_to_left else frozenset()) | (_IN_LTR if left_to_right else frozenset())
    found = CharSet((code, code) for code in _others() if unicodedata.bidirectional(chr(code)) in allowed)
    return found | _ideographs() if left_to_right else found


@lru_cache(maxsize=1)
def marks() -> CharSet:
    """Permitted characters that begin no label."""
    return CharSet((code, code) for code in _others() if unicodedata.category(chr(code)).startswith("M"))


@lru_cache(maxsize=2)
def plain(right_to_left: bool) -> CharSet:
    """Characters outside of ASCII that may follow any other one of a label of that direction."""
    allowed = {"R", "AL", "NSM"} if right_to_left else {"L", "NSM"}
    found = CharSet(
        (code, code)
        for code in _others()
        if unicodedata.bidirectional(chr(code)) in allowed
        and kind(code) == "valid"
        and not unicodedata.combining(chr(code))
        and code not in _composing()
    )
    return found if right_to_left else found | _ideographs()


@lru_cache(maxsize=1)
def _composing() -> frozenset[int]:
    """Characters that may become one with the character before them (NFC_Quick_Check=Maybe)."""
    seconds = set()
    for code in range(0xC0, 0x12000):
        parts = unicodedata.decomposition(chr(code)).split() if code not in _IDEOGRAPHS else ()
        if len(parts) == 2 and not parts[0].startswith("<"):
            seconds.add(int(parts[1], 16))
    return frozenset(seconds)


class _Joining(NamedTuple):
    left: CharSet
    right: CharSet
    dual: CharSet


@lru_cache(maxsize=1)
def _joining() -> _Joining:
    lines = (files("structgen.grammars") / "data" / "joining.txt").read_text(encoding="ascii").splitlines()
    found = {}
    for line in lines:
        if not line.startswith("#"):
            name, spans = line.split("\t")
            edges = [span.split("-") for span in spans.split()]
            found[name] = CharSet((int(edge[0], 16), int(edge[-1], 16)) for edge in edges)
    return _Joining(found["L"], found["R"], found["D"])


def _transparent(char: str) -> bool:
    return unicodedata.category(char) in ("Mn", "Me", "Cf") and char not in "\u200c\u200d"


@lru_cache(maxsize=8)
def _script(name: str) -> CharSet:
    return properties.find("Script", name)


class Label(NamedTuple):
    """What the rules say of a label that is not ASCII.

    Attributes:
        dead: it breaks a rule, whatever follows.
        valid: it keeps all rules as it is.
        mixed: it breaks a rule whatever is inserted anywhere.
        rtl: it holds a character written from right to left (RFC 5893).
        fits: it keeps the rule of bidirectional names.
        wants: characters one of which must still come, in order of preference; () if none must.
        next: where only some characters may come next, those.
    """

    dead: bool
    valid: bool
    mixed: bool = False
    rtl: bool = False
    fits: bool = False
    wants: tuple[Sequence[int], ...] = ()
    next: CharSet | None = None


@lru_cache(maxsize=65536)
def examine(text: str, normal: bool = True) -> Label:
    """The rules of RFC 5891, section 4.2.3, and RFC 5893, section 2, for a text of permitted characters.

    Args:
        normal: whether normalization form C is demanded.
    """
    dead = text[0] == "-" or text[2:4] == "--" or unicodedata.category(text[0]).startswith("M")
    dead = dead or (normal and not unicodedata.is_normalized("NFC", text))
    wants: list[Sequence[int]] = []
    upcoming: CharSet | None = None
    if text.endswith("-"):
        wants.append(_BASIC)
    for i, char in enumerate(text):
        if char in _CONTEXT:
            ok, want = _in_context(text, i)
            dead = dead or not ok
            if want:
                wants.append(_lower(want))
                upcoming = _next(want)
    mixed = not (_ARABIC_DIGITS.isdisjoint(text) or _EXTENDED_DIGITS.isdisjoint(text))
    rtl, fits, clash, ending = direction(text)
    mixed = mixed or clash
    if rtl and not fits and not mixed:
        if ending:
            letters = {ord(char) for char in text if unicodedata.bidirectional(char) in ("R", "AL")}
            wants.append((ord("0"), *sorted(letters)))
        else:
            dead = True
    dead = dead or mixed
    return Label(dead, not dead and not wants, mixed, rtl, fits, tuple(wants), upcoming)


_BASIC = tuple(map(ord, "a0"))
_CONTEXT = frozenset("\u200c\u200d\u00b7\u0375\u05f3\u05f4\u30fb")
_VIRAMA = 9


def _in_context(text: str, at: int) -> tuple[bool, str]:
    """Whether a character may stand there (RFC 5892, appendix A), and what must still come for it."""
    char, before = text[at], text[at - 1 : at] if at else ""
    after = text[at + 1 : at + 2]
    if char == "\u00b7":
        return before == "l" and after in ("", "l"), "" if after else "l"
    if char == "\u0375":
        if not after:
            return True, "Greek"
        return ord(after) in _script("Greek"), ""
    if char in "\u05f3\u05f4":
        return before != "" and ord(before) in _script("Hebrew"), ""
    if char == "\u30fb":
        found = any(ord(each) in _script(name) for each in text for name in ("Hiragana", "Katakana", "Han"))
        return True, "" if found else "Kana"
    if before and unicodedata.combining(before) == _VIRAMA:
        return True, ""
    if char == "\u200d":
        return False, ""
    joining = _joining()
    i = at - 1
    while i >= 0 and _transparent(text[i]):
        i -= 1
    if i < 0 or (ord(text[i]) not in joining.left and ord(text[i]) not in joining.dual):
        return False, ""
    i = at + 1
    while i < len(text) and _transparent(text[i]):
        i += 1
    if i == len(text):
        return True, "Joining"
    return ord(text[i]) in joining.right or ord(text[i]) in joining.dual, ""


@lru_cache(maxsize=8)
def _lower(name: str) -> tuple[int, ...]:
    """Valid characters to complete a context with."""
    if name == "l":
        return (ord("l"),)
    if name == "Joining":
        chars = _joining().right | _joining().dual
    elif name == "Kana":
        chars = _script("Hiragana") | _script("Katakana") | CharSet([(0x4E00, 0x4E00)])
    else:
        chars = _script(name)
    return tuple(code for code in chars if kind(code) == "valid" and code not in _composing())


@lru_cache(maxsize=8)
def _next(want: str) -> CharSet | None:
    """What may come next where ``want`` must come."""
    if want == "l":
        return CharSet.of("l")
    if want == "Greek":
        return _script("Greek")
    if want == "Kana":
        return None
    transparent = CharSet((code, code) for code in _others() if _transparent(chr(code)))
    return _joining().right | _joining().dual | transparent


class Direction(NamedTuple):
    rtl: bool
    fits: bool
    clash: bool
    """No insertion mends it."""
    ending: bool
    """All is well but the end."""


def direction(text: str) -> Direction:
    """The bidi rule (RFC 5893, section 2)."""
    classes = [unicodedata.bidirectional(char) for char in text]
    rtl = not _RTL.isdisjoint(classes)
    if not rtl and classes[0] != "L":
        return Direction(False, False, False, False)
    ends = next((each for each in reversed(classes) if each != "NSM"), "NSM")
    if not rtl:
        inside = all(each in _IN_LTR for each in classes)
        return Direction(False, inside and ends in ("L", "EN"), False, inside)
    clash = any(each not in _IN_RTL for each in classes) or ("EN" in classes and "AN" in classes)
    starts = classes[0] in ("R", "AL")
    return Direction(True, starts and not clash and ends in ("R", "AL", "EN", "AN"), clash, starts and not clash)
