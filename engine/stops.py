"""Stop strings in a growing text."""

from __future__ import annotations

from collections.abc import Sequence

from structgen.errors import RequestError


class StopStrings:
    """Finds the first stop string in a text that comes in pieces, and holds back no more than may begin one.

    Which one is found does not depend on how the text is cut into pieces: the match that *ends* first, since generation
    stops there; of several that end at the same character, the longest.

    Args:
        stop: strings to look for; none means that everything passes.
        include: whether the text that passes ends with the stop string or just before it.

    Raises:
        RequestError: an empty stop string, or something that is not a string.

    Example:
        >>> stops = StopStrings(["END"])
        >>> stops.feed("the E"), stops.feed("ND of it")
        (('the ', None), ('', 'END'))
    """

    def __init__(self, stop: Sequence[str] = (), include: bool = False) -> None:
        self._include = include
        self._automaton = _Automaton(_checked(stop))
        self._node = 0
        self._held = ""  # the end of the text that may begin a stop string
        self._hit: str | None = None

    def feed(self, text: str) -> tuple[str, str | None]:
        """Add ``text``. Gives what may be shown now and the stop string found, if any. After a find nothing passes."""
        if self._hit is not None:
            return "", self._hit
        automaton, node = self._automaton, self._node
        pending = self._held + text
        for end, char in enumerate(text, start=len(self._held) + 1):
            node = automaton.next(node, char)
            hit = automaton.hits[node]
            if hit is not None:
                self._hit, self._held = hit, ""
                return pending[: end if self._include else end - len(hit)], hit
        self._node = node
        cut = len(pending) - automaton.depths[node]
        self._held = pending[cut:]
        return pending[:cut], None

    def reset(self) -> None:
        """Forget the text so far."""
        self._held, self._node, self._hit = "", 0, None

    def finish(self) -> str:
        """What is still held back, when the text ends without a stop string."""
        rest, self._held, self._node = self._held, "", 0
        return rest


def _checked(stop: Sequence[str]) -> list[str]:
    strings = [stop] if isinstance(stop, str) else list(stop)
    for string in strings:
        if not isinstance(string, str) or not string:
            raise RequestError(f"stop={string!r}: a stop string is a text of at least one character")
    return strings


class _Automaton:
    """All stop strings at once (Aho and Corasick, 1975): node 0 is the empty text, every other node a start of some
    stop string; a text is at the node of its longest end that is such a start.

    Attributes:
        depths: length of a node's text.
        hits: the longest stop string that a node's text ends with.
    """

    def __init__(self, strings: Sequence[str]) -> None:
        self._children: list[dict[str, int]] = [{}]
        self._fallback = [0]
        self.depths = [0]
        self.hits: list[str | None] = [None]
        for string in strings:
            self._insert(string)
        self._link()

    def next(self, node: int, char: str) -> int:
        """The node after reading ``char``."""
        while char not in self._children[node]:
            if node == 0:
                return 0
            node = self._fallback[node]
        return self._children[node][char]

    def _insert(self, string: str) -> None:
        node = 0
        for char in string:
            child = self._children[node].setdefault(char, len(self._children))
            if child == len(self._children):
                self._children.append({})
                self._fallback.append(0)
                self.depths.append(self.depths[node] + 1)
                self.hits.append(None)
            node = child
        self.hits[node] = string

    def _link(self) -> None:
        """Fallbacks, level by level: a node's is its longest proper end that is a start too."""
        level = list(self._children[0].values())
        while level:
            for node in level:
                for char, child in self._children[node].items():
                    self._fallback[child] = self.next(self._fallback[node], char)
                    self.hits[child] = self.hits[child] or self.hits[self._fallback[child]]
            level = [child for node in level for child in self._children[node].values()]
