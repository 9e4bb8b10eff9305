"""Matcher: one generation under a grammar, as a walk over interned configurations.

A **configuration** is a set of threads. It keeps its mask row and a dictionary token -> next configuration, so a
repeated step is two look-ups, and fork, rollback and draft trees keep an old reference. A new mask is put
together from parts that other configurations, and other grammars, have computed before: ``split`` results
(trie.py) and **summaries**: what of a suffix trie is accepted after a terminal has ended on a given stack. A
summary is remembered under the frames that it really looked at, so nesting depth and the past do not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from structgen.errors import GrammarError, GrammarTooComplex, UnsatisfiableGrammar
from structgen.grammars import distance, forced, walk
from structgen.grammars import machine as m
from structgen.grammars.machine import PROBE, Bottom, Cell, Machine, Thread
from structgen.grammars.prebuilt import prebuild
from structgen.grammars.residual import COMPLETE, LOCK, FreshKey, Recorded, Residual
from structgen.grammars.rows import Row, Rows, Target, as_words, write_rows
from structgen.grammars.trie import Part, Trie, joined, row_ids

if TYPE_CHECKING:
    from structgen.grammars.grammar import Grammar
    from structgen.grammars.vocabulary import Vocabulary

MAX_THREADS = 4096
MAX_CONFIGS = 30_000
MAX_SUMMARIES = 200_000
MAX_STEP_WORK = 500_000
"""Summaries that one mask may need: some ten seconds of work. Real grammars need a few, at most some hundred."""


_NONE: frozenset[int] = frozenset()


class Summary(NamedTuple):
    """What of a trie is accepted after a terminal: sets of tokens, and tokens that only the exact step decides."""

    parts: tuple[Part, ...]
    unsure: frozenset[int]


class Config:
    """An interned set of threads."""

    __slots__ = ("can_end", "next", "row", "threads")

    def __init__(self, threads: tuple[Thread, ...]) -> None:
        self.threads = threads
        self.can_end = m.can_end(threads)
        self.row: Row | None = None
        self.next: dict[int, Config | None] = {}


class _Tables:
    """What all grammars compiled for one vocabulary share: the token trie and the distinct rows."""

    def __init__(self, vocab: Vocabulary) -> None:
        self.words = (vocab.size + 31) // 32
        self.trie = Trie.of_tokens(vocab.tokens, self.words, vocab.fingerprint)
        end = np.zeros(self.words, dtype=np.uint32)
        walk.set_bits(end, np.array(vocab.eos_token_ids, dtype=np.int32))
        self.rows = Rows(self.words, end)
        self.target: Target | None = None
        """The caller's row that was filled last."""


_tables: WeakKeyDictionary[Vocabulary, _Tables] = WeakKeyDictionary()


def tables(vocab: Vocabulary) -> _Tables:
    """The shared tables of a vocabulary."""
    with LOCK:
        found = _tables.get(vocab)
        if found is None:
            found = _tables[vocab] = _Tables(vocab)
            prebuild(found.trie)
        return found


class CompiledGrammar:
    """A grammar bound to a vocabulary. It may be shared between threads and requests.

    Attributes:
        grammar: the grammar.
        vocab: the vocabulary.
        words: uint32 words of a mask row, ceil(vocab.size / 32).
    """

    def __init__(self, grammar: Grammar, vocab: Vocabulary) -> None:
        self.grammar = grammar
        self.vocab = vocab
        self._tables = tables(vocab)
        self._tokens = vocab.tokens
        self._eos = frozenset(vocab.eos_token_ids)
        self.words = self._tables.words
        self._configs: dict[frozenset[Thread], Config] = {}
        self._summaries: dict[Any, Any] = {}
        self._by_thread: dict[tuple[Residual, Cell], Summary] = {}
        self._count = 0
        self._work = 0
        self._dead_ends: dict[Config, frozenset[int]] = {}
        self._machine: Machine = grammar.machine
        with LOCK:
            self.initial = self._intern(m.start(self._machine, Cell(Bottom(), None)))
        if not self.initial.threads:
            raise UnsatisfiableGrammar(f"no text satisfies the {grammar.source or 'grammar'}")
        self.finished = Config(())
        self.finished.row = self._tables.rows.end
        self.finished.can_end = True
        self.finished.next = dict.fromkeys(self._eos, self.finished)

    def matcher(self) -> Matcher:
        """A fresh matcher, at the start of a text."""
        return Matcher(self)

    # -- configurations

    def _intern(self, threads: tuple[Thread, ...]) -> Config:
        key = frozenset(threads)
        found = self._configs.get(key)
        if found is None:
            if len(threads) > MAX_THREADS:
                raise GrammarTooComplex(
                    f"the text can be read in more than {MAX_THREADS} ways at once; make the grammar less ambiguous"
                )
            if len(self._configs) >= MAX_CONFIGS:
                self._restart()
            found = self._configs[key] = Config(threads)
        return found

    def _restart(self) -> None:
        """Drop what was remembered: values that grow (texts, counters) would fill the memory. Matchers at work keep
        their own references."""
        self._configs = {}
        self._summaries = {}
        self._by_thread = {}
        self._dead_ends = {}
        self.initial = self._intern(m.start(self._machine, Cell(Bottom(), None)))

    def successor(self, config: Config, token: int) -> Config | None:
        """The configuration after ``token``; None when it is illegal."""
        try:
            return config.next[token]
        except KeyError:
            pass
        if token in self._eos:
            found = self.finished if config.can_end else None
        else:
            data = self._tokens[token] if 0 <= token < len(self._tokens) else None
            if not data or config is self.finished:
                return None
            with LOCK:
                threads = m.read(config.threads, data)
                found = self._intern(threads) if threads else None
        if found is not None:
            config.next[token] = found
        return found

    # -- masks

    def row(self, config: Config) -> Row:
        """The mask row of a configuration."""
        row = config.row
        if row is None:
            with LOCK:
                self._work = 0
                row = config.row = self._mask(config)
        return row

    def _mask(self, config: Config) -> Row:
        rows = self._tables.rows
        if len(config.threads) == 1:
            listed, unsure = self._accepted(config.threads[0])
            if not unsure:
                return rows.of(listed, config.can_end)
        found = [self._accepted(thread) for thread in config.threads]
        parts = [part for each in found for part in each.parts]
        unsure = frozenset().union(*[each.unsure for each in found])
        if not unsure:
            return rows.of(parts, config.can_end)
        words = rows.of(parts, False).words
        ids = np.fromiter(unsure, dtype=np.int64, count=len(unsure))
        open_to: dict[bytes, list[int]] = {}
        for token in ids[(words[ids >> 5] >> (ids & 31).astype(np.uint32)) & 1 == 0].tolist():
            data = self._tokens[token]
            if data:
                open_to.setdefault(data, []).append(token)
        more = [token for data in m.readable(config.threads, open_to) for token in open_to[data]]
        return rows.of(parts, config.can_end, more)

    def _accepted(self, thread: Thread) -> Summary:
        """What of all tokens a thread accepts. Remembered without the text that a residual has read, where that does
        not matter: free keys and recorded values are all different."""
        residual, cell = thread
        trie = self._tables.trie
        while isinstance(residual, Recorded) or (isinstance(residual, FreshKey) and not residual.clashes(trie)):
            residual = residual.inner
        known = self._by_thread.get((residual, cell))
        if known is not None:
            return known
        split = residual.split(trie)
        parts = dict.fromkeys(split.stays)
        unsure: set[int] = set()
        for outcome, rest in split.ends:
            inner = self._summary(rest, cell, outcome)
            parts.update(dict.fromkeys(inner.parts))
            unsure |= inner.unsure
        if residual.outcomes and not cell.is_bottom:
            for outcome in residual.outcomes:
                inner = self._summary(trie, cell, outcome)
                parts.update(dict.fromkeys(inner.parts))
                unsure |= inner.unsure
        found = Summary(tuple(parts), frozenset(unsure) if unsure else _NONE)
        if len(self._by_thread) >= MAX_CONFIGS:
            self._by_thread.clear()
        self._by_thread[residual, cell] = found
        return found

    def _summary(self, trie: Trie, cell: Cell, outcome: int) -> Summary:
        """What of ``trie`` is accepted after the terminal above ``cell`` ended with ``outcome``."""
        if cell.is_bottom:
            return Summary((trie.here,) if trie.here else (), frozenset())
        key: Any = (trie.id, outcome, cell.view)
        table = self._summaries
        at = cell
        while True:
            found = table.get(key)
            if found is None:
                break
            if type(found) is Summary:
                return found
            table, at = found, at.parent
            key = at.view
        before, PROBE.depth = PROBE.depth, 1 << 60
        try:
            summary = self._summarise(trie, cell, outcome)
            self._remember(trie, cell, outcome, summary, PROBE.depth)
        finally:
            PROBE.depth = min(before, PROBE.depth)
        return summary

    def _remember(self, trie: Trie, cell: Cell, outcome: int, summary: Summary, depth: int) -> None:
        """Store a summary under the views of the cells that it read."""
        self._count += 1
        if self._count > MAX_SUMMARIES:
            self._summaries, self._count = {}, 0
        table: dict[Any, Any] = self._summaries
        key: Any = (trie.id, outcome, cell.view)
        at = cell
        while at.depth > depth:
            table = table.setdefault(key, {})
            at = at.parent
            key = at.view
        table[key] = summary

    def _summarise(self, trie: Trie, cell: Cell, outcome: int) -> Summary:
        self._work += 1
        if self._work > MAX_STEP_WORK:
            raise GrammarTooComplex(
                f"the mask of one step needs more than {MAX_STEP_WORK:,} summaries, in {cell.frame!r} of the "
                f"{self.grammar.source or 'grammar'}: too many readings of the text are open at once; make its "
                "alternatives exclude each other earlier"
            )
        parts: dict[Part, None] = {}
        unsure: set[int] = set()
        for residual, above in cell.follow(outcome):
            if residual is COMPLETE:
                unsure.update(_all_tokens(trie))  # what follows a recorded value depends on the value
                continue
            wanted: frozenset[int] = frozenset()
            volatile = False
            if isinstance(residual, Recorded):
                wanted, volatile = residual.wanted, residual.volatile
                residual = residual.inner
            fresh = isinstance(residual, FreshKey) and not wanted
            if isinstance(residual, FreshKey):
                residual = residual.inner
            if volatile:
                unsure.update(_touched(residual, trie))
                continue
            if trie.here is not None:
                parts[trie.here] = None
            if not trie.deeper:
                continue
            split = residual.split(trie)
            parts.update(dict.fromkeys(split.stays))
            for ended, rest in split.ends:
                if fresh or ended in wanted:
                    # Whether a key or item that begins and ends inside one token is new depends on those seen, which
                    # the view leaves out: leave those few tokens to the exact step.
                    unsure.update(_all_tokens(rest))
                else:
                    inner = self._summary(rest, above, ended)
                    parts.update(dict.fromkeys(inner.parts))
                    unsure |= inner.unsure
            if residual.outcomes and not above.is_bottom:
                for again in residual.outcomes:
                    inner = self._summary(trie, above, again)
                    parts.update(dict.fromkeys(inner.parts))
                    unsure |= inner.unsure
        return Summary(joined(parts, trie.shared.words), frozenset(unsure) if unsure else _NONE)


def _touched(residual: Residual, trie: Trie) -> list[int]:
    """The tokens that a residual, or one with fewer texts, may begin or end with."""
    found = [] if trie.here is None else trie.here.ids().tolist()
    split = residual.split(trie)
    for part in split.stays:
        found += part.ids().tolist()
    for end in split.ends:
        found += _all_tokens(end.rest)
    return found


def _all_tokens(trie: Trie) -> list[int]:
    """The tokens of a suffix trie, that of its root included."""
    last = trie.end[trie.root]
    found: list[int] = trie.tokens[trie.start[trie.root] : trie.start[last]].tolist()
    return found


class Matcher:
    """One generation under a grammar. Not thread-safe itself; many matchers may share a CompiledGrammar."""

    __slots__ = ("_compiled", "_config", "_history")

    def __init__(self, compiled: CompiledGrammar) -> None:
        self._compiled = compiled
        self._config = compiled.initial
        self._history: tuple[Config, int | bytes, Any] | None = None
        """The configuration before the last step, that step's token or text, and the history before it."""

    @property
    def compiled(self) -> CompiledGrammar:
        """The grammar and vocabulary."""
        return self._compiled

    @property
    def is_finished(self) -> bool:
        """An end token has been accepted."""
        return self._config is self._compiled.finished

    def can_end(self) -> bool:
        """Whether the text so far is complete."""
        return self._config.can_end

    def fill_bitmask(self, row: Any) -> None:
        """Write the mask of the next token into ``row``: uint32 or int32, numpy or torch (CPU), of
        ceil(vocab.size / 32) words; bit ``i & 31`` of word ``i >> 5`` says that id i is legal. End tokens are set
        exactly when the text may end."""
        compiled = self._compiled
        mask = self._config.row
        if mask is None:
            mask = compiled.row(self._config)
        target = compiled._tables.target
        if target is None or target.row is not row:
            # Most callers fill the same row again and again. (A tensor may get other memory meanwhile.)
            target = Target.of(row, compiled.words)
            if type(row) is np.ndarray:
                compiled._tables.target = target
        mask.write(target)

    @property
    def row(self) -> Row:
        """The mask of the next token as a row with an id: equal masks of all grammars of a vocabulary have one id, so
        that a device can keep a table of rows and be sent numbers. Rows of few tokens have them as a list."""
        return self._config.row or self._compiled.row(self._config)

    def allows(self, token_id: int) -> bool:
        """Whether ``accept(token_id)`` would succeed."""
        return self._compiled.successor(self._config, token_id) is not None

    def allowed_tokens(self) -> NDArray[np.int32]:
        """The legal ids, ascending, int32."""
        return row_ids(self._compiled.row(self._config).words)

    def accept(self, token_id: int) -> bool:
        """Take a token; False, and nothing changed, when it is illegal."""
        config = self._config
        after = config.next.get(token_id)
        if after is None:
            after = self._compiled.successor(config, token_id)
            if after is None:
                return False
        self._history = (config, token_id, self._history)
        self._config = after
        return True

    def accept_text(self, text: str | bytes) -> bool:
        """Take bytes that need not be tokens, as one step for ``rollback``; False, and nothing changed, when they are
        illegal."""
        data = text.encode() if isinstance(text, str) else bytes(text)
        if not data:
            return True
        if self.is_finished:
            return False
        with LOCK:
            threads = m.read(self._config.threads, data)
            if not threads:
                return False
            self._history = (self._config, data, self._history)
            self._config = self._compiled._intern(threads)
        return True

    def verify(self, token_ids: Sequence[int]) -> int:
        """How many of the drafts, from the first on, are legal. The state does not change."""
        config = self._config
        for n, token in enumerate(token_ids):
            after = self._compiled.successor(config, token)
            if after is None:
                return n
            config = after
        return len(token_ids)

    def verify_tree(self, token_ids: Sequence[int], parents: Sequence[int]) -> list[bool]:
        """Which nodes of a draft tree are legal: those whose token is legal after the tokens of all nodes above. The
        state does not change.

        Args:
            token_ids: the token of each node.
            parents: the number of the node above each, -1 for the current state; a parent comes before its children.

        Raises:
            GrammarError: lists of different lengths, or a parent that does not come before.
        """
        if len(token_ids) != len(parents):
            raise GrammarError(
                f"{len(token_ids)} tokens but {len(parents)} parents: each node of a draft tree has one of each"
            )
        configs: list[Config | None] = []
        for node, (token, parent) in enumerate(zip(token_ids, parents, strict=True)):
            if not -1 <= parent < node:
                raise GrammarError(
                    f"node {node} of the draft tree has parent {parent}; allowed: -1 (the current state) or an earlier "
                    f"node, 0 to {node - 1}"
                )
            above = self._config if parent < 0 else configs[parent]
            configs.append(None if above is None else self._compiled.successor(above, int(token)))
        return [config is not None for config in configs]

    def rollback(self, n: int) -> None:
        """Undo the last ``n`` accepted tokens (``accept_text`` counts as one). Raises ValueError for more than were
        accepted."""
        config, history = self._config, self._history
        for _ in range(n):
            if history is None:
                raise ValueError(f"cannot undo {n} tokens: fewer were accepted")
            config, _, history = history
        self._config, self._history = config, history

    def mark_dead(self, token_id: int) -> None:
        """Note, for all matchers of this compiled grammar, that ``token_id`` leads to a dead end from here. Masks stay
        as they are: the grammar allows it, and which tokens a caller tries first is the caller's affair."""
        dead = self._compiled._dead_ends
        dead[self._config] = dead.get(self._config, frozenset()) | {token_id}

    def dead_tokens(self) -> frozenset[int]:
        """The tokens that are legal here and known to lead to a dead end."""
        return self._compiled._dead_ends.get(self._config, frozenset())

    def fork(self) -> Matcher:
        """An independent matcher in the same state, in O(1)."""
        made = Matcher.__new__(Matcher)
        made._compiled, made._config, made._history = self._compiled, self._config, self._history
        return made

    def forced_bytes(self, limit: int = 1024) -> bytes:
        """The bytes that must come next, whatever is generated: up to the first choice, possible end, or ``limit``."""
        if self.is_finished:
            return b""
        with LOCK:
            return forced.forced_bytes(self._config.threads, limit)[0]

    def shortest_completion(self) -> bytes | None:
        """Bytes that complete the text, as few as were found; b"" where it may end. None when none was found within
        the limits of the search. What it finds is remembered, so asking again along that way is cheap."""
        if self.can_end():
            return b""
        way = distance.shortest_completion(self._config.threads)
        return None if way is None else way.text()

    def forced_tokens(self) -> list[int]:
        """The tokens of ``forced_bytes()`` that the tokenizer writes whatever comes after them; accepting them in order
        succeeds. The text is taken to begin where a token does.

        Empty when nothing is forced, when the tokenizer would join what is forced with the text before, or when its
        tokens depend on all of a text (Unigram). A vocabulary without a tokenizer (a list of bytes) has no way of its
        own to write a text: there a token is forced when it is the only legal one.
        """
        if self.is_finished:
            return []
        compiled = self._compiled
        if not compiled.vocab.can_encode:
            return self._only_tokens()
        with LOCK:
            data, follows = forced.forced_bytes(self._config.threads, forced.LIMIT)
        if not data:
            return []
        before = forced.context(self._pieces())
        if before is None:
            return []
        found = forced.forced_tokens(compiled.vocab, compiled._tables.trie, before, data, follows)
        return found[: self.verify(found)]

    def _only_tokens(self) -> list[int]:
        found: list[int] = []
        config = self._config
        while len(found) < forced.LIMIT:
            ids = row_ids(self._compiled.row(config).words)
            after = self._compiled.successor(config, int(ids[0])) if len(ids) == 1 else None
            if after is None or after is self._compiled.finished:
                break
            found.append(int(ids[0]))
            config = after
        return found

    def _pieces(self) -> Iterator[bytes]:
        """The text that was accepted, last step first."""
        history = self._history
        while history is not None:
            _, step, history = history
            yield step if isinstance(step, bytes) else self._compiled._tokens[step] or b""


def fill_bitmasks(matchers: Sequence[Matcher], rows: Any) -> None:
    """``fill_bitmask`` for a batch in one call: row i of ``rows`` is for ``matchers[i]``, the others stay as they are.
    The rows are written without the interpreter's lock, so that other threads go on meanwhile.

    Args:
        matchers: of one vocabulary.
        rows: [at least len(matchers), ceil(vocab.size / 32)], uint32 or int32, numpy or torch (CPU).

    Raises:
        GrammarError: too few rows, another shape or type, or matchers of different vocabularies.
    """
    if not matchers:
        return
    if len(matchers) > len(rows):
        raise GrammarError(f"{len(matchers)} matchers need as many rows; got {len(rows)}")
    words = matchers[0].compiled.words
    if any(matcher.compiled.words != words for matcher in matchers):
        raise GrammarError("the matchers of a batch must be of one vocabulary; their mask rows differ in length")
    target = as_words(rows, (len(rows), words))
    write_rows([matcher.row for matcher in matchers], target[: len(matchers)])
