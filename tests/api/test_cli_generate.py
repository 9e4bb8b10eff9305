"""The command line with a model: a tiny one with random weights, so what it says is noise, in the right form."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from structgen.cli import main

Runner = Callable[..., tuple[int, str, str]]

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 5}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tiny_folder: Path) -> Runner:
    def runner(*words: str) -> tuple[int, str, str]:
        code = main(["--model", str(tiny_folder), "--dtype", "float32", *words])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return runner


def test_text_goes_to_standard_output(run: Runner) -> None:
    code, out, _ = run("--regex", r"[a-c]{3}-\d", "hi")
    assert code == 0
    assert re.fullmatch(r"[a-c]{3}-\d\n", out)
    assert run("--choices", "left,right", "hi")[1].strip() in ("left", "right")
    assert run("--grammar", "iso_datetime.lark", "hi")[0] == 0


def test_streamed_and_whole_outputs_agree(run: Runner) -> None:
    words = ["--schema", json.dumps(PERSON), "--temperature", "1.0", "--seed", "7", "hi"]
    streamed = run(*words)[1]
    whole = json.loads(run("--json", *words)[1])
    assert streamed == whole["text"] + "\n"
    assert whole["value"] == json.loads(streamed)
    assert set(whole["value"]) == {"name", "age"}


def test_json_object(run: Runner, tiny_folder: Path) -> None:
    code, out, _ = run("--json", "--max-tokens", "5", "--raw", "hi")
    assert code == 0
    made = json.loads(out)
    assert made["model"] == str(tiny_folder)
    assert made["finish_reason"] in ("length", "stop")
    assert 1 <= made["completion_tokens"] <= 5
    assert made["prompt_tokens"] == 2
    assert made["incomplete"] is False
    assert made["metrics"]["ttft_s"] > 0
    assert made["metrics"]["forward_passes"] >= 1


def test_several_outputs(run: Runner) -> None:
    words = ["--regex", "[a-z]{8}", "--temperature", "1.5", "--seed", "1", "-n", "3", "hi"]
    lines = run(*words)[1].splitlines()
    assert len(lines) == 3
    assert all(re.fullmatch("[a-z]{8}", line) for line in lines)
    made = json.loads(run("--json", *words)[1])
    assert [one["text"] for one in made["outputs"]] == lines


def test_cut_before_complete(run: Runner) -> None:
    words = ["--schema", json.dumps(PERSON), "--max-tokens", "3", "hi"]
    code, out, err = run(*words)
    assert code == 1
    assert out.startswith("{")
    assert "cut after 3 tokens, before it was complete" in err
    code, out, err = run("--json", *words)
    assert code == 1
    assert json.loads(out)["incomplete"] is True
    assert "value" not in json.loads(out)


def test_free_text_that_is_cut(run: Runner) -> None:
    code, out, err = run("--max-tokens", "2", "--raw", "hi")
    assert code == 0
    assert out
    if err:
        assert "--max-tokens allows more" in err


def test_prompt_longer_than_the_context(run: Runner) -> None:
    code, out, err = run("long " * 3000)
    assert code == 1
    assert not out
    assert "token" in err


def test_standard_input(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    def given(data: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))

    given(b"hello\n")
    made = json.loads(run("--json", "--raw", "--max-tokens", "1")[1])
    assert made["prompt_tokens"] == len("hello")
    given(b"hello")
    assert json.loads(run("--json", "--raw", "--max-tokens", "1", "-")[1])["prompt_tokens"] == len("hello")
    given(b"\n")
    assert run("--raw")[0] == 2
    given(b"\xff")
    code, _, err = run("--raw")
    assert code == 2
    assert "not UTF-8" in err


def test_missing_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--model", "./nowhere.gguf", "hi"]) == 2
    assert "nowhere.gguf" in capsys.readouterr().err


def test_wrong_engine_option(capsys: pytest.CaptureFixture[str], tiny_folder: Path) -> None:
    assert main(["--model", str(tiny_folder), "--dtype", "float33", "hi"]) == 2
    assert "allowed: auto, float32" in capsys.readouterr().err


def test_raw_has_no_system(run: Runner) -> None:
    code, _, err = run("--raw", "--system", "x", "hi")
    assert code == 2
    assert "--system" in err


def test_warmup(capsys: pytest.CaptureFixture[str], tiny_folder: Path) -> None:
    assert main(["warmup", "--model", str(tiny_folder), "--dtype", "float32"]) == 0
    assert "ready" in capsys.readouterr().out


@pytest.mark.parametrize("what", ["latency", "throughput"])
def test_bench(capsys: pytest.CaptureFixture[str], tiny_folder: Path, what: str) -> None:
    words = ["bench", what, "--model", str(tiny_folder), "--dtype", "float32", "--tokens", "8", "--repeat", "1"]
    assert main(words + (["--batch", "1,2"] if what == "throughput" else [])) == 0
    table = capsys.readouterr().out
    assert table.splitlines()[0].lower() == what
    assert len({len(line) for line in table.splitlines()[1:4]}) == 1
    assert main([*words, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["rows"]
    assert made["machine"]["cores"]


def test_bench_against_transformers(capsys: pytest.CaptureFixture[str], tiny_folder: Path) -> None:
    words = ["bench", "throughput", "--vs", "transformers", "--json", "--tokens", "4", "--repeat", "1", "--batch", "2"]
    assert main([*words, "--model", str(tiny_folder), "--dtype", "float32"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["engine"] for row in rows] == ["structgen", "transformers"]
    assert rows[1]["structgen_/_it"] == pytest.approx(rows[0]["tokens/s"] / rows[1]["tokens/s"])
    for row in rows:
        assert row["tokens/s"] > 0
        assert 0 < row["TTFT_p50"] <= row["TTFT_p99"] < row["e2e_p50"] <= row["e2e_p99"]
        assert row["TPOT_p50"] * 3 + row["TTFT_p50"] == pytest.approx(row["e2e_p50"], rel=0.5)


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_interrupt_while_generating(tiny_folder: Path) -> None:
    command = [sys.executable, "-m", "structgen", "--model", str(tiny_folder), "--raw", "--regex", "[a-z]{5000}"]
    with subprocess.Popen(
        [*command, "--max-tokens", "480", "hi"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read(1)  # it generates now
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    # 1: all of it was out before the signal came.
    assert (process.returncode, "interrupted" in err) in ((130, True), (1, False))


def test_closed_pipe_while_generating(tiny_folder: Path) -> None:
    command = [sys.executable, "-m", "structgen", "--model", str(tiny_folder), "--raw", "--regex", "[a-z]{5000}"]
    with subprocess.Popen(
        [*command, "--max-tokens", "480", "hi"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(3)
        process.stdout.close()
        err = process.stderr.read()
        assert process.wait(60) == 1
    assert "standard output was closed" in err
    assert "Traceback" not in err
    assert "Exception ignored" not in err
