"""Stop strings against a search of the whole text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structgen.engine.stops import StopStrings
from structgen.errors import RequestError

LETTERS = "ab\n🙂"
strings = st.text(LETTERS, min_size=1, max_size=5)


def expected(text: str, stops: list[str], include: bool) -> tuple[str, str | None]:
    """The match that ends first; of those, the longest."""
    ends = [(text.index(s) + len(s), -len(s), s) for s in stops if s in text]
    if not ends:
        return text, None
    end, _, hit = min(ends)
    return text[: end if include else end - len(hit)], hit


@given(st.lists(st.text(LETTERS, max_size=6)), st.lists(strings, max_size=4), st.booleans())
def test_pieces_give_what_the_whole_text_gives(pieces: list[str], stops: list[str], include: bool) -> None:
    finder = StopStrings(stops, include)
    shown, found = "", None
    for i, piece in enumerate(pieces):
        text, found = finder.feed(piece)
        shown += text
        if found is not None:
            assert finder.feed("more") == ("", found)
            assert finder.finish() == ""
            break
        so_far = "".join(pieces[: i + 1])
        # Held back: exactly the longest end that some stop string starts with.
        held = max((k for k in range(len(so_far) + 1) if _begins(so_far[len(so_far) - k :], stops)), default=0)
        assert len(so_far) - len(shown) == held
    else:
        shown += finder.finish()
    assert (shown, found) == expected("".join(pieces), stops, include)


def _begins(end: str, stops: list[str]) -> bool:
    return any(s.startswith(end) for s in stops) if end else True


def test_a_long_stop_string_costs_its_length() -> None:
    long = "ab" * 50_000 + "c"
    finder = StopStrings([long])
    assert finder.feed("ab" * 50_001) == ("ab", None)
    assert finder.feed("c!") == ("", long)


def test_one_string_is_one_stop_string() -> None:
    assert StopStrings("END").feed("the END") == ("the ", "END")


@pytest.mark.parametrize("stop", [[""], ["a", ""], [3], [b"a"], [None]])
def test_bad_stop_strings_are_refused(stop: list[str]) -> None:
    with pytest.raises(RequestError, match="stop="):
        StopStrings(stop)
