r"""Regular expressions for texts in an order: digits of one length, whole numbers, decimals.

All are written in the dialect that ECMA-262 and Python share, without anchors and without capturing groups.
"""

from __future__ import annotations

from decimal import Decimal

__all__ = ["any_of", "at_least", "at_most", "fixed", "integers", "naturals"]


def any_of(choices: list[str]) -> str:
    """One of the expressions; ``(?!)`` (nothing) where there is none."""
    kept = list(dict.fromkeys(choices))
    if not kept:
        return "(?!)"
    return kept[0] if len(kept) == 1 else f"(?:{'|'.join(kept)})"


# ------------------------------------------------------------------------------------- texts of one length


def fixed(low: str, high: str) -> str | None:
    """Texts from ``low`` to ``high``, both included, that have digits where these have digits and equal them
    elsewhere (``fixed("2020-01-05", "2021-03-01")``); None when there is none.

    The two must have the same length and the same other characters.
    """
    if low > high:
        return None
    n = 0
    while n < len(low) and low[n] == high[n]:
        n += 1
    head = _plain(low[:n])
    if n == len(low):
        return head
    low, high = low[n:], high[n:]
    found = []
    first, last = int(low[0]), int(high[0])
    if low[1:] != _least(low[1:]):
        found.append(low[0] + _above(low[1:]))
        first += 1
    if high[1:] != _most(high[1:]):
        last -= 1
        if first <= last:
            found.append(_digits(first, last) + _free(low[1:]))
        found.append(high[0] + _below(high[1:]))
    elif first <= last:
        found.append(_digits(first, last) + _free(low[1:]))
    return head + any_of(found)


def _above(low: str) -> str:
    """``low`` and what comes after it."""
    return fixed(low, _most(low)) or ""


def _below(high: str) -> str:
    return fixed(_least(high), high) or ""


def _least(text: str) -> str:
    return "".join("0" if c.isdigit() else c for c in text)


def _most(text: str) -> str:
    return "".join("9" if c.isdigit() else c for c in text)


def _free(text: str) -> str:
    """Any digits in the places of the digits of ``text``."""
    made, n = [], 0
    while n < len(text):
        run = n
        while run < len(text) and text[run].isdigit():
            run += 1
        if run > n:
            made.append("[0-9]" if run - n == 1 else f"[0-9]{{{run - n}}}")
            n = run
        else:
            made.append(_plain(text[n]))
            n += 1
    return "".join(made)


def _digits(first: int, last: int) -> str:
    return str(first) if first == last else f"[{first}-{last}]"


def _plain(text: str) -> str:
    return "".join(c if c.isalnum() or c in "-:" else f"\\{c}" for c in text)


# ----------------------------------------------------------------------------------------------- integers


def naturals(low: int, high: int | None) -> str | None:
    """Whole numbers from ``low`` (0 or more) to ``high`` (None: no bound), without leading zeros."""
    if high is not None and high < low:
        return None
    found = []
    length = len(str(low))
    at = low
    while high is None or at <= high:
        most = 10**length - 1
        if high is None and at == 10 ** (length - 1) and length > 1:
            found.append(f"[1-9][0-9]{{{length - 1},}}")
            break
        text = fixed(str(at), str(most if high is None else min(most, high)))
        if text is not None:
            found.append(text)
        length += 1
        at = most + 1
    return any_of(found)


def integers(low: int | None, high: int | None) -> str | None:
    """Whole numbers between the bounds (None: no bound), without leading zeros and without ``-0``."""
    found = []
    if low is None or low < 0:
        text = naturals(1 if high is None or high >= 0 else -high, None if low is None else -low)
        if text is not None:
            found.append(f"-{text}")
    if high is None or high >= 0:
        text = naturals(max(low or 0, 0), high)
        if text is not None:
            found.append(text)
    return any_of(found) if found else None


# ----------------------------------------------------------------------------------------------- decimals

_UNSIGNED = r"(?:0|[1-9][0-9]*)(?:\.[0-9]+)?"
_ZERO = r"0(?:\.0+)?"
_NOT_ZERO = "[0-9]*[1-9][0-9]*"


def at_least(bound: Decimal, outside: bool) -> str:
    """Decimals from ``bound`` on (without it where ``outside``), written ``-?12.50``: no exponent, no leading zeros.
    ``-0`` is zero."""
    return _beyond(bound, outside, "", "-")


def at_most(bound: Decimal, outside: bool) -> str:
    """Decimals up to ``bound``; spelling as for ``at_least``."""
    return _beyond(-bound, outside, "-", "")


def _beyond(bound: Decimal, outside: bool, near: str, far: str) -> str:
    """``near`` is the sign of the numbers without an end, ``far`` the other one."""
    if bound > 0 or (bound == 0 and outside):
        return near + _larger(bound, outside)
    rest = _ZERO if bound == 0 else _smaller(-bound, outside)
    return any_of([near + _UNSIGNED, far + rest])


def _parts(value: Decimal) -> tuple[int, str]:
    whole, _, fraction = f"{value:f}".partition(".")
    return int(whole), fraction.rstrip("0")


def _larger(value: Decimal, outside: bool) -> str:
    whole, fraction = _parts(value)
    more = naturals(whole + 1, None)
    after = [f"{fraction[:k]}{_digits(int(d) + 1, 9)}[0-9]*" for k, d in enumerate(fraction) if d != "9"]
    after.append(fraction + (_NOT_ZERO if outside else "[0-9]*" if fraction else "[0-9]+"))
    same = rf"\.{any_of(after)}"
    return any_of([rf"{more}(?:\.[0-9]+)?", f"{whole}{same if outside or fraction else f'(?:{same})?'}"])


def _smaller(value: Decimal, outside: bool) -> str:
    whole, fraction = _parts(value)
    found = []
    less = naturals(0, whole - 1)
    if less is not None:
        found.append(rf"{less}(?:\.[0-9]+)?")
    if fraction:
        after = [f"{fraction[:k]}{_digits(0, int(d) - 1)}[0-9]*" for k, d in enumerate(fraction) if d != "0"]
        after += [fraction[:k] for k in range(1, len(fraction))]
        after += [] if outside else [f"{fraction}0*"]
        found.append(rf"{whole}(?:\.{any_of(after)})?")
    elif not outside:
        found.append(rf"{whole}(?:\.0+)?")
    return any_of(found)
