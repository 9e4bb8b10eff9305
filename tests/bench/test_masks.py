"""``structgen bench masks``: verdicts, figures, documents, and what it refuses."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from structgen.bench import chart, percentile
from structgen.bench.mask_engines import PEERS, peers
from structgen.bench.mask_runs import Job, Processes, Times, survey
from structgen.bench.masks import figures, medians, slowest
from structgen.bench.samples import Document, Sample, built_in, random_documents, read_grammars, read_samples
from structgen.cli import UsageError, main
from structgen.errors import GrammarError, StructgenError
from structgen.grammars.token_bytes import BYTE_LETTERS
from structgen.grammars.vocabulary import Vocabulary

PAIR = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level tokenizer of single bytes and an end token."""
    vocab = {letter: i for i, letter in enumerate(BYTE_LETTERS.values())}
    tokenizer = Tokenizer(models.BPE(vocab, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<end>"])
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<end>"}))
    return folder


@pytest.fixture
def schemas(tmp_path: Path) -> Path:
    rows = [
        {
            "name": "pair",
            "schema": PAIR,
            "tests": [{"valid": True, "data": {"a": 1}}, {"valid": False, "data": {"a": "b"}}],
        },
        {"name": "text", "schema": {"type": "string", "maxLength": 5}},
        {"name": "refused", "schema": {"type": "string", "pattern": r"^(.*)-\1$"}},
        {"name": "judged wrongly", "schema": True, "tests": [{"valid": False, "data": [1]}]},
    ]
    path = tmp_path / "schemas.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_report(capsys: pytest.CaptureFixture[str], tokenizer_folder: Path, schemas: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    words = ["bench", "masks", "--schemas", str(schemas), "--tokenizer", str(tokenizer_folder), "--repeat", "1"]
    assert main([*words, "--json", str(out)]) == 0
    table = capsys.readouterr().out
    assert "3 schemas of schemas.jsonl that all compile (of 4)" in table
    assert str(tmp_path) not in table
    made = json.loads(out.read_text())
    ours = made["engines"]["structgen"]
    assert list(ours["refused"]) == ["refused"]
    assert ours["wrong_documents"] == [["judged wrongly", "accepts an invalid text"]]
    assert ours["documents"] == 3
    found = {row["figure"]: row["structgen"] for row in made["rows"]}
    assert 0 < found["TTFM p50, us"] <= found["TTFM max, us"]
    assert 0 < found["TBM visit 2 p50, us"] <= found["TBM visit 2 max, us"]
    assert found["TBM visit 1, no patterns, p99, us"] is not None
    assert made["machine"]["cores"]
    # A second run may replace its own report, but nothing else.
    assert main([*words, "--json", str(schemas)]) == 2
    assert "no report of structgen bench" in capsys.readouterr().err
    assert schemas.read_text().startswith('{"name": "pair"')


@pytest.mark.parametrize("peer", PEERS)
def test_beside_a_peer(capsys: pytest.CaptureFixture[str], tokenizer_folder: Path, schemas: Path, peer: str) -> None:
    if importlib.util.find_spec(peer) is None:
        pytest.skip(f"{peer} is not installed")
    words = ["bench", "masks", str(schemas), "--tokenizer", str(tokenizer_folder), "--vs", peer, "--json"]
    assert main([*words, "--repeat", "1", "--limit", "2", "--no-gc"]) == 0
    made = json.loads(capsys.readouterr().out)
    row = next(row for row in made["rows"] if row["figure"] == "TBM visit 2 p50, us")
    assert row[f"/ {peer}"] == pytest.approx(row["structgen"] / row[peer])
    assert made["engines"][peer]["wrong_documents"] == []


def test_lark_grammars(capsys: pytest.CaptureFixture[str], tokenizer_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "sum.lark").write_text('start: N ("+" N)*\nN: /[0-9]+/\n')
    (tmp_path / "sum.accept.txt").write_text("1+2\n30\n")
    (tmp_path / "sum.reject.txt").write_text("1+\n")
    words = ["bench", "masks", "--grammars", str(tmp_path), "--tokenizer", str(tokenizer_folder), "--passes", "1"]
    assert main([*words, "--repeat", "1", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["engines"]["structgen"]["documents"], made["engines"]["structgen"]["wrong_documents"]) == (3, [])
    assert not any("visit 2" in row["figure"] for row in made["rows"])


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is not None, reason="matplotlib is installed")
def test_chart_without_matplotlib(tmp_path: Path) -> None:
    with pytest.raises(StructgenError, match=r'pip install "structgen\[bench\]"'):
        chart.check(str(tmp_path / "chart.svg"))


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_chart(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / f"chart.{kind}"
    chart.check(str(path))
    panels = {"first": {"structgen": {"p50": 1.5, "max": 2e6}, "peer": {"p50": 30.0, "max": 999.6}}}
    chart.draw(str(path), panels, "A title", ["a footer"])
    head = path.read_bytes()[:200]
    assert head.startswith(b"\x89PNG") if kind == "png" else b"<?xml" in head


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--vs", "outlines"], "--vs 'outlines' is not a library whose masks can be measured; allowed: llguidance"),
        (["--vs", "xgrammar", "--grammars", "library"], "xgrammar does not read Lark grammars"),
        (["--chart", "chart.pdf"], "must end in .png or .svg"),
        (["--passes", "0"], "--passes 0: allowed are numbers from 1"),
        (["builtin", "--grammars", "library"], "schemas or --grammars, not both"),
        (["nowhere.jsonl"], "there is no file or folder 'nowhere.jsonl'"),
        (["--grammars", "nowhere.lark"], "cannot read 'nowhere.lark'"),
        (["--json", "nowhere/out.json"], "the folder 'nowhere' does not exist"),
    ],
)
def test_refused(capsys: pytest.CaptureFixture[str], tokenizer_folder: Path, words: list[str], said: str) -> None:
    assert main(["bench", "masks", *words, "--tokenizer", str(tokenizer_folder)]) == 2
    assert said in capsys.readouterr().err


def test_peer_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "llguidance", None)
    with pytest.raises(StructgenError, match="pip install llguidance"):
        peers("llguidance", lark=False)
    with pytest.raises(UsageError, match="allowed: llguidance, xgrammar"):
        peers("guidance", lark=False)


def test_process_that_dies_costs_one_schema(tokenizer_folder: Path) -> None:
    samples = [(Sample(str(i), PAIR), ()) for i in range(3)]
    job = Job(("structgen",), str(tokenizer_folder), samples, "off")
    with Processes(timeout_s=60) as processes:
        found = processes.run(_dying_survey, job)
    assert found.refused == {1: "crashed or took too long"}


def _dying_survey(job: Job, told: object) -> object:
    def tell(number: int) -> None:
        told(number)  # type: ignore[operator]
        if number == 1 and not job.skip:
            import os

            os._exit(7)

    return survey(job, tell)


def test_figures() -> None:
    steps = [float(i) for i in range(1, 101)]
    times = Times(first=[10.0, 30.0], again=[1.0, 3.0], visits=[[steps, [1000.0]], [[2.0], [4.0]]])
    found = figures(times, [True, False])
    assert found["TTFM avg"] == 20
    assert found["TTFM p50"] == 10
    assert found["TBM visit 1 max"] == 1000
    assert found["TBM visit 1, no patterns, p99"] == 99
    assert found["TBM visit 2 avg"] == 3
    assert slowest(times, ["x", "y"], 1) == {"TTFM": [("y", 30.0)], "TBM visit 1": [("y", 1000.0)]}
    assert medians([{"a": 1.0}, {"a": 5.0}, {"a": 2.0}]) == {"a": 2.0}
    assert percentile([], 0.5) is None


def test_random_documents_satisfy_their_grammar(tokenizer_folder: Path) -> None:
    vocabulary = Vocabulary.from_tokenizer(tokenizer_folder)
    for sample in [*built_in(), *read_grammars("library")]:
        made = random_documents(sample, vocabulary)
        assert made, sample.name
        assert made == random_documents(sample, vocabulary)
        assert all(sample.grammar().matches(document.text) for document in made)


def test_reading_samples(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(json.dumps(PAIR))
    row = {"name": "n", "schema": True, "tests": [{"data": "é", "valid": True}]}
    (tmp_path / "two.jsonl").write_text(json.dumps(row) + "\n\n")
    first, second = read_samples(str(tmp_path))
    assert (first.name, first.schema, first.documents) == ("one.json", PAIR, ())
    assert (second.name, second.documents) == ("n", (Document('"é"', True),))
    (tmp_path / "two.jsonl").write_text("{}\n{")
    with pytest.raises(GrammarError, match=re.escape("line 2, column 2: ") + ".*two.jsonl is not JSON"):
        list(read_samples(str(tmp_path / "two.jsonl")))


def test_reading_grammars(tmp_path: Path) -> None:
    (tmp_path / "g.lark").write_text('start: "a\\n"')
    (tmp_path / "g.accept.txt").write_text("a\n\n===\nb\n")
    (sample,) = read_grammars(str(tmp_path))
    assert sample.documents == (Document("a\n", True), Document("b", True))
