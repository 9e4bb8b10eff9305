"""Processes that run mask engines: a survey of each alone (verdicts, memory), and races (times, all taking turns).

A first visit happens once in a process, so each race is a fresh one. A process that crashes, or is silent for too long,
costs the schema it was at: it is left out for that engine, and the process starts again.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from structgen.bench.mask_engines import ENGINES, MaskEngine, hugging_face, version_of
from structgen.bench.samples import Sample
from structgen.errors import StructgenError
from structgen.grammars.vocabulary import Vocabulary

Walks = tuple[tuple[tuple[int, ...], bool | None], ...]
Told = Callable[[int], None]
CACHE = "STRUCTGEN_CACHE_DIR"
_ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"), "1"),
    "TOKENIZERS_PARALLELISM": "false",
}


@dataclass(frozen=True)
class Job:
    """What a process is to do.

    Attributes:
        engines: names; the first is ours.
        tokenizer: what ``Vocabulary.from_tokenizer`` takes.
        samples: with their documents as tokens.
        cache: the folder of the on-disk store, or "off".
        skip: numbers of the samples to leave out.
        turn: which race this is, so that another engine begins.
    """

    engines: tuple[str, ...]
    tokenizer: str
    samples: Sequence[tuple[Sample, Walks]]
    cache: str
    passes: int = 2
    collects: bool = True
    skip: frozenset[int] = frozenset()
    turn: int = 0


@dataclass
class Times:
    """Microseconds of one engine in one race.

    Attributes:
        first: from the schema to its first mask.
        again: the same for the same schema once more.
        visits: mask and accept, one list a visit; each holds one list a schema.
    """

    first: list[float] = field(default_factory=list)
    again: list[float] = field(default_factory=list)
    visits: list[list[list[float]]] = field(default_factory=list)


@dataclass
class Survey:
    """One engine alone.

    Attributes:
        build_s: the tokenizer side, from a tokenizer that is loaded.
        build_mb: memory that it takes.
        compiled_mb: memory that a compiled schema with its first mask takes, its share of tables for all included.
        visited_mb: the same after a walk along each of its documents.
        refused: number of the sample -> why.
        wrong: (number of the sample, what went wrong) of each document whose verdict is not the given one.
        documents: that have a verdict.
    """

    version: str = ""
    build_s: float = 0.0
    build_mb: float | None = None
    compiled_mb: float | None = None
    visited_mb: float | None = None
    refused: dict[int, str] = field(default_factory=dict)
    wrong: list[tuple[int, str]] = field(default_factory=list)
    documents: int = 0


# ------------------------------------------------------------------------------------------- inside the processes


def survey(job: Job, told: Told) -> Survey:
    """Compile and walk everything once with one engine, keeping all of it."""
    (name,) = job.engines
    found = Survey(version_of(name))
    engine, found.build_s, found.build_mb = _built(name, job)
    gc.collect()
    before = _resident_mb()
    kept = {}
    for number, (sample, _) in enumerate(job.samples):
        told(number)
        if number in job.skip:
            found.refused[number] = "crashed or took too long"
            continue
        try:
            compiled = engine.compile(sample)
            engine.fill(engine.matcher(compiled))
        except Exception as error:  # each library has its own errors
            found.refused[number] = f"{type(error).__name__}: {error}"[:300]
            continue
        kept[number] = compiled
    found.compiled_mb = _growth(before, len(kept))
    for number, compiled in kept.items():
        told(number)
        for tokens, valid in job.samples[number][1]:
            matcher = engine.matcher(compiled)
            verdict = _walk(engine, matcher, tokens, [])
            if valid is not None:
                found.documents += 1
                if verdict != valid:
                    said = engine.problem(matcher) or ("refuses a valid text" if valid else "accepts an invalid text")
                    found.wrong.append((number, said))
    found.visited_mb = _growth(before, len(kept))
    return found


def _growth(before: float | None, schemas: int) -> float | None:
    """MB a schema since ``before``."""
    gc.collect()
    now = _resident_mb()
    return None if before is None or now is None or not schemas else (now - before) / schemas


def race(job: Job, told: Told) -> tuple[dict[str, Times], float]:
    """Times of all engines, and the seconds that our tokenizer side took. The engines take turns schema by schema."""
    engines: list[MaskEngine] = []
    ours_s = 0.0
    for name in job.engines:
        engine, took, _ = _built(name, job)
        engines.append(engine)
        ours_s = ours_s or took
    times = {name: Times(visits=[[] for _ in range(job.passes)]) for name in job.engines}
    gc.collect()
    gc.freeze()  # what is there for good is not looked through at every collection, as in any server
    if not job.collects:
        gc.disable()
    for number, (sample, walks) in enumerate(job.samples):
        told(number)
        if not job.collects:
            gc.collect()
        for i in range(0 if number in job.skip else len(engines)):
            engine = engines[(i + number + job.turn) % len(engines)]
            _time(engine, sample, walks, times[engine.name])
    return times, ours_s


def prepare(job: Job, told: Told) -> None:
    """Build the tokenizer side, so that the on-disk store has it."""
    _built(job.engines[0], job)


def _built(name: str, job: Job) -> tuple[MaskEngine, float, float | None]:
    """An engine with its tokenizer side built and its code warm; seconds and MB of that side."""
    engine = ENGINES[name]()
    vocabulary = outside = None
    if name != "structgen":
        vocabulary = Vocabulary.from_tokenizer(job.tokenizer)
        outside = hugging_face(vocabulary)
    engine.load()
    gc.collect()
    before, start = _resident_mb(), time.perf_counter()
    engine.build(job.tokenizer, vocabulary, outside)
    took, after = time.perf_counter() - start, _resident_mb()
    is_lark = job.samples[0][0].lark is not None
    warm = Sample("warm", lark='start: "a"') if is_lark else Sample("warm", {"type": "object"})
    engine.fill(engine.matcher(engine.compile(warm)))
    return engine, took, None if before is None or after is None else after - before


def _time(engine: MaskEngine, sample: Sample, walks: Walks, times: Times) -> None:
    wall, cpu = time.perf_counter_ns, time.thread_time_ns
    used, start = cpu(), wall()
    compiled = engine.compile(sample)
    engine.fill(engine.matcher(compiled))
    end = wall()
    times.first.append(min(end - start, cpu() - used) / 1000)
    for visit in times.visits:
        steps: list[float] = []
        for tokens, _ in walks:
            _walk(engine, engine.matcher(compiled), tokens, steps)
        visit.append(steps)
    used, start = cpu(), wall()
    engine.fill(engine.matcher(engine.compile(sample)))
    end = wall()
    times.again.append(min(end - start, cpu() - used) / 1000)


def _walk(engine: MaskEngine, matcher: Any, tokens: Sequence[int], times: list[float]) -> bool:
    """Whether masks and ``accept`` take all tokens and the text may end. A step is the mask and the acceptance of one
    token. Its time is wall or CPU time, whichever is less: a step that was interrupted by another process shows what it
    cost, not what it waited."""
    wall, cpu = time.perf_counter_ns, time.thread_time_ns
    fill, accept, allows = engine.fill, engine.accept, engine.allows
    for token in tokens:
        used, start = cpu(), wall()
        fill(matcher)
        end = wall()
        took = min(end - start, cpu() - used)
        if not allows(token):
            times.append(took / 1000)
            return False
        used, start = cpu(), wall()
        taken = accept(matcher, token)
        end = wall()
        times.append((took + min(end - start, cpu() - used)) / 1000)
        if not taken:
            return False
    fill(matcher)
    return engine.problem(matcher) is None and any(engine.allows(i) for i in engine.ends)


def _resident_mb() -> float | None:
    """Memory of this process; None where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


# ------------------------------------------------------------------------------------------------ from the outside


class Processes:
    """Runs jobs, each in a fresh process, with a folder for the on-disk store that is theirs alone.

    Args:
        timeout_s: most seconds at one schema, before it counts as too slow.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._folder = Path(tempfile.mkdtemp(prefix="structgen-bench-"))
        self._log = self._folder / "stderr"

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def store(self, name: str, source: str | None = None) -> str:
        """A folder for the store, with what that of ``source`` holds."""
        path = self._folder / name
        if source is None:
            path.mkdir()
        else:
            shutil.copytree(source, path)
        return str(path)

    def run(self, work: Callable[[Job, Told], Any], job: Job, told: Told = lambda number: None) -> Any:
        """The result of ``work`` in a fresh process. A schema at which it dies or overruns is left out, and the work is
        done again: first visits should find what they find in any run.

        Args:
            told: called with the number of each schema that is begun.

        Raises:
            StructgenError: it fails elsewhere.
        """
        skip: set[int] = set()
        while True:
            at, found = self._try(work, Job(**{**vars(job), "skip": frozenset(skip)}), told)
            if not isinstance(found, Exception):
                return found
            if at < 0 or at in skip:
                said = self._log.read_text(errors="replace")[-2000:].rstrip()
                what = f"the measurement of {', '.join(job.engines)} failed: {found}"
                raise StructgenError(f"{what}\n{said}" if said else what) from found
            skip.add(at)

    def _try(self, work: Callable[[Job, Told], Any], job: Job, told: Told) -> tuple[int, Any]:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(theirs, work, job, str(self._log)), daemon=True)
        before = dict(os.environ)
        os.environ.update({**_ONE_THREAD, CACHE: job.cache})  # libraries read them when they are loaded
        try:
            process.start()
        finally:
            os.environ.clear()
            os.environ.update(before)
        theirs.close()
        at, limit = -1, 600.0  # importing, compiling kernels and building tokenizer sides are not limited tightly
        try:
            while ours.poll(limit):
                kind, value = ours.recv()
                if kind == "at":
                    at, limit = value, self._timeout_s
                    told(at)
                elif kind == "done":
                    return at, value
                else:
                    return -1, StructgenError(value)
            return at, StructgenError(f"nothing happened for {limit:g} s")
        except EOFError:
            process.join()
            return at, StructgenError(f"the process ended with code {process.exitcode}")
        finally:
            ours.close()
            process.kill()
            process.join()


def _work(conn: Connection, work: Callable[[Job, Told], Any], job: Job, log: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    # Some libraries warn about every other schema. Standard output is the report's.
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(file, stream)
    try:
        conn.send(("done", work(job, lambda number: conn.send(("at", number)))))
    except Exception as error:
        conn.send(("error", f"{type(error).__name__}: {error}"))
