"""The command line without a model: usage, messages, exit codes. No message is ever a traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from structgen.cli import main
from structgen.console import say, working
from structgen.errors import ModelError

ENV = {**os.environ, "PYTHONUNBUFFERED": "1"}


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(list(words))
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return code, out, err


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "broken.json").write_text('{"type": "object",\n  "properties": }')
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "bad.json").write_text('{"properties": {"a": {"type": "objekt"}}}')
    (tmp_path / "good.json").write_text('{"type": "object", "properties": {"a": {"type": "integer"}}}')
    (tmp_path / "bytes.json").write_bytes(b'{"a": "\xff"}')
    (tmp_path / "bad.lark").write_text('start: "a" colum\n')
    (tmp_path / "good.lark").write_text('start: "a" "b"*\n')
    (tmp_path / "old.gbnf").write_text('root ::= "a"\n')
    return tmp_path


@pytest.mark.parametrize("words", [["--help"], ["check", "--help"], ["bench", "--help"], ["warmup", "--help"]])
def test_help(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    code, out, err = run(capsys, *words)
    assert code == 0
    assert "structgen" in out
    assert not err


def test_help_of_check_names_what_grammar_may_be(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "check", "--help")
    assert "or the JSON text of a schema itself" in " ".join(out.split())


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--version")
    assert code == 0
    assert out.startswith("structgen 0.")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--grammer", "sql.lark", "hi"], "did you mean --grammar?"),
        (["--max-token=5", "hi"], "did you mean --max-tokens?"),
        (["--zzz", "hi"], "unknown option --zzz; see structgen --help"),
        (["two", "prompts"], "unexpected argument 'prompts'; put a prompt of several words in quotes"),
        (["two", "--json", "prompts"], "unexpected argument 'prompts'; put a prompt"),
        (["chekc", "foo"], "did you mean the command check?"),
        (["--json", "chekc", "foo"], "did you mean the command check?"),
        (["bnech", "masks", "--vs", "x"], "did you mean the command bench?"),
        (["chekc", "--lines"], "unknown option --lines; did you mean the command check?"),
        (["warmup", "x"], "structgen warmup: unexpected argument 'x'; see structgen warmup --help"),
        (["bench", "masks", "a", "b"], "unexpected argument 'b'; see structgen bench --help"),
        (["check", "--choices", "a,b", "a"], "no --choices here; write the choices as a regex"),
        (["check", "--schema=x.json", "1"], "no --schema here; give the schema as GRAMMAR"),
        (["check", "sql.lark", "--grammar", "x"], "no --grammar here; give the file as GRAMMAR"),
        (["check", "a", "--regex"], "expected one argument"),
        (["check", "--regex", "--json"], "expected one argument"),
        (["check", "--", "--json"], "--json"),
        (["--registry", "a=b", "hi"], "--draft and --registry belong to --schema"),
        (["--regex", "a", "--choices", "b", "hi"], "not allowed with"),
        (["--max-tokens", "many", "hi"], "invalid int value"),
        (["--max-tokens", "0", "hi"], "max_tokens is 0"),
        (["--temperature", "-1", "hi"], "temperature is -1.0"),
        (["--top-p", "1.5", "hi"], "top_p is 1.5"),
        (["-n", "0", "hi"], "n is 0"),
        ([""], "the prompt is empty"),
        (["  \n"], "the prompt is empty"),
        (["--start", "x", "hi"], "belong to --grammar"),
        (["serve"], "not built yet"),
        (["bench", "nothing"], "invalid choice"),
        (["bench", "masks", "--vs", "transformers"], "belong to throughput"),
        (["bench", "latency", "--vs", "llguidance"], "--vs belongs to throughput and masks"),
        (["bench", "throughput", "--vs", "vllm"], "transformers and llama-cpp belong to throughput"),
        (["bench", "latency", "--chart", "a.png"], "--chart belongs to masks and throughput"),
        (["check"], "nothing to check"),
        (["check", "--lies", "sql.lark"], "did you mean --lines?"),
        (["--choices", "", "hi"], "has an empty choice"),
        (["--choices", ",", "hi"], "has an empty choice"),
        (["--choices", "yes,", "hi"], "has an empty choice"),
        (["--raw", "--system", "x", "hi"], "--system has no place with --raw"),
        (["a\udcff"], "the prompt is not UTF-8 text: byte b'\\xff'"),
        (["--system", "a\udcff", "hi"], "--system is not UTF-8"),
        (["--stop", "a\udcff", "hi"], "--stop is not UTF-8"),
        (["check", "--regex", "a", "a\udcff"], "TEXT is not UTF-8"),
    ],
)
def test_wrong_usage(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.setattr("structgen.api.engine_for", lambda *_: pytest.fail("the model is loaded"))
    code, out, err = run(capsys, *words)
    assert code == 2
    assert said in err
    assert not out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--schema", "missing.json", "hi"], "no schema file 'missing.json'"),
        (["--schema", "{}/broken.json", "hi"], "line 2, column 17: {}/broken.json is not JSON"),
        (["--schema", "{}/list.json", "hi"], "holds list; a JSON Schema is an object"),
        (["--schema", "{}/bytes.json", "hi"], "is not UTF-8 text"),
        (["--schema", "{}", "hi"], "is a folder"),
        (["--schema", "[1]", "hi"], "the schema text holds list; a JSON Schema is an object or a boolean"),
        (["--schema", "5", "hi"], "the schema text holds int; a JSON Schema is an object or a boolean"),
        (["--grammar", "{}", "hi"], "is a folder, not a grammar file"),
        (["check", "{}"], "is a folder, not a grammar file"),
        (["check", "{}/bytes.json"], "is not UTF-8 text"),
        (["--schema", "{}/bad.json", "hi"], "#/properties/a"),
        (["--grammar", "missing.lark", "hi"], "The library has: "),
        (["--grammar", "sqll.lark", "hi"], "Did you mean sql.lark?"),
        (["--grammar", "{}/bad.lark", "hi"], "colum"),
        (["--grammar", "{}/old.gbnf", "hi"], "GBNF grammars are not built yet"),
        (["--grammar", "{}/good.json", "hi"], "--schema"),
        (["--grammar", "{}/good.lark", "--start", "nowhere", "hi"], "nowhere"),
        (["--regex", "a(b", "hi"], "column"),
        (["check", "missing.lark"], "The library has: "),
    ],
)
def test_bad_constraints(capsys: pytest.CaptureFixture[str], files: Path, words: list[str], said: str) -> None:
    code, out, err = run(capsys, *(word.replace("{}", str(files)) for word in words))
    assert code == 2
    assert said.replace("{}", str(files)) in err
    assert not out


def test_check_accepts_and_refuses(capsys: pytest.CaptureFixture[str], files: Path) -> None:
    code, out, err = run(capsys, "check", str(files / "good.lark"), "abb", "a")
    assert (code, err) == (0, "")
    assert out.splitlines()[1:] == ["accepted  abb", "accepted  a"]
    code, out, _ = run(capsys, "check", str(files / "good.lark"), "abb", "abxb", "")
    assert code == 1
    assert "line 1, column 3: 'x' cannot stand here; expected b or the end" in out
    assert "  | abxb\n  |   ^" in out
    assert "line 1, column 1: the text ends too early; expected a" in out


@pytest.mark.parametrize("options", [["--order", "schema"], ["--json"], ["--order=any", "-q"], ["--draft", "7", "-q"]])
def test_options_stand_anywhere(capsys: pytest.CaptureFixture[str], files: Path, options: list[str]) -> None:
    words = ["check", f"{files}/good.json", '{"a": 1}', '{"a": -1}']
    seen = {run(capsys, *words[:n], *options, *words[n:])[:2] for n in range(1, len(words) + 1)}
    assert len(seen) == 1
    assert seen.pop()[0] == 0


def test_texts_that_look_like_options(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["-1", "-2.5e3"], ["--", "-1"], ["--", "-1", "-2"], ["-q", "-1", "--", "-2"]):
        code, out, _ = run(capsys, "check", '{"type": "number"}', *words)
        assert code == 0
        assert out.count("accepted  -") == len([word for word in words if word[1:2].isdigit()])
    code, out, _ = run(capsys, "check", "--regex", ".*", "--", "--json", "a -- b", "- one")
    assert code == 0
    assert [f"accepted  {text}" in out for text in ("--json", "a -- b", "- one")] == [True] * 3


def _no_model(*_: object) -> None:
    raise ModelError("here")


def test_documents_of_remote_references(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    refs = {"a": {"$ref": "https://x.org/y.json"}, "b": {"$ref": "urn:b"}}
    (tmp_path / "ref.json").write_text(json.dumps({"properties": refs}))
    (tmp_path / "y.json").write_text('{"type": "integer"}')
    (tmp_path / "b.json").write_text('{"$id": "urn:b", "type": "null"}')
    for words in (["check", f"{tmp_path}/ref.json"], ["--schema", f"{tmp_path}/ref.json", "hi"]):
        code, _, err = run(capsys, *words)
        assert code
        assert "--registry URI=FILE (repeatable)" in err
        assert "registry=" not in err
    given = ["--registry", f"https://x.org/y.json={tmp_path}/y.json", "--registry", f"{tmp_path}/b.json"]
    code, out, _ = run(capsys, "check", f"{tmp_path}/ref.json", '{"a": 1}', *given, '{"b": null}')
    assert code == 0
    assert out.count("accepted") == 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("structgen.api.engine_for", _no_model)  # it comes so far
        code, _, err = run(capsys, "--schema", f"{tmp_path}/ref.json", *given, "hi")
    assert (code, err) == (2, "structgen: here\n")


def test_an_unknown_metaschema_names_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "check", '{"$schema": "https://x.org/m"}')
    assert code == 1
    assert "Give --draft D" in err
    assert "--registry URI=FILE (repeatable) with its metaschema" in err


def test_numbers_that_python_does_not_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "long.json").write_text('{"maximum": 1' + "0" * 5000 + "}")
    code, _, err = run(capsys, "--schema", f"{tmp_path}/long.json", "hi")
    assert code == 2
    assert "cannot be read" in err
    code, out, err = run(capsys, "check", f"{tmp_path}/long.json", "1", "1e99999999999999999999", "-" + "9" * 5000)
    assert code == 1
    assert out.count("accepted") == 2
    assert not err


def test_check_names_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "check", "--regex", r"(\w+\n)+end", "one\ntwo\nthree!\nend")
    assert code == 1
    assert "line 3, column 6: '!' cannot stand here" in out
    assert "  | three!\n  |      ^" in out


def test_check_json(capsys: pytest.CaptureFixture[str], files: Path) -> None:
    code, out, _ = run(capsys, "check", "--json", str(files / "good.json"), '{"a": 1}', '{"a": "x"}')
    assert code == 1
    made = json.loads(out)
    assert [text["accepted"] for text in made["texts"]] == [True, False]
    assert (made["texts"][1]["line"], made["texts"][1]["column"]) == (1, 7)
    assert made["report"]["draft"] == "2020-12"
    assert "#/properties/a/type" in made["report"]["enforced"]


def test_check_reads_standard_input() -> None:
    command = [sys.executable, "-m", "structgen", "check", "--regex", "[ab]+", "--lines"]
    done = subprocess.run(command, input="ab\nba\nx\n", capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert [line.split()[0] for line in done.stdout.splitlines() if line[0] in "ar" and "  " in line] == [
        "accepted", "accepted", "refused",
    ]  # fmt: skip


def shell(line: str, **env: str) -> tuple[int, str, str]:
    """Runs a line of sh in which ``$S`` is structgen."""
    words = {**os.environ, "S": f"{sys.executable} -m structgen", **env}
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False, timeout=60, env=words)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX pipes")
def test_grammars_from_pipes(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    line = f"(echo 'start: \"a\"' > {tmp_path}/pipe &) ; $S check {tmp_path}/pipe a"
    assert shell(line) == (0, f"{tmp_path}/pipe: ok\naccepted  a\n", "")
    assert shell("""echo 'start: "a"' | $S check /dev/stdin b""")[0] == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", ["check --regex a a", "--version", "--help"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_full_output(words: str, unbuffered: str) -> None:
    code, _, err = shell(f"$S {words} > /dev/full", PYTHONUNBUFFERED=unbuffered)
    assert (code, err) == (1, "structgen: cannot write standard output: No space left on device\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_closed_and_full_streams() -> None:
    code, _, err = shell("$S check --regex a a >&-")
    assert code == 1
    assert err == "structgen: standard output is closed; there is no place for the result\n"
    for closed in ("2>&-", "2>/dev/full"):
        assert shell(f"$S --zzz {closed}") == (2, "", "")
        assert shell(f"$S check --regex a a {closed}") == (0, "regex a: ok\naccepted  a\n", "")
    code, out, err = shell("$S <&-")
    assert (code, out) == (2, "")
    assert "give a prompt" in err
    assert shell("$S check --regex a - <&-")[0] == 2


def test_messages_never_stop_a_result(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    say("lost")
    with working("task", slow_s=0.0):
        pass
    assert capsys.readouterr().out == ""


def test_help_is_fast() -> None:
    command = [sys.executable, "-m", "structgen", "--help"]
    took = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run(command, capture_output=True, check=True, timeout=60)
        took.append(time.perf_counter() - start)
    assert min(took) < 0.5


def test_closed_pipe() -> None:
    texts = ["a" * 50] * 3000
    command = [sys.executable, "-m", "structgen", "check", "--regex", "a+", *texts]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENV) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        err = process.stderr.read().decode()
        assert process.wait(60) == 1
    assert "standard output was closed" in err
    assert "Traceback" not in err
    assert "Exception ignored" not in err


def heed_interrupts() -> None:
    """Jobs in the background of a shell ignore them, and so do their children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_interrupt() -> None:
    command = [sys.executable, "-m", "structgen", "check", "--regex", "a+", "-"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENV,
        preexec_fn=heed_interrupts,
    ) as process:
        time.sleep(1.0)  # it waits for standard input now
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"interrupted" in err
    assert b"Traceback" not in err


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_interrupt_that_an_extension_turns_into_another_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*_: object) -> None:
        with suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        raise ImportError("half loaded")

    heed_interrupts()
    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr("structgen.check.judge", load)
    code, _, err = run(capsys, "check", "--regex", "a", "a")
    assert (code, err) == (130, "structgen: interrupted\n")
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("module", ["structgen.cli", "structgen.__main__"])
def test_interrupt_while_importing(module: str) -> None:
    code = (
        "import sys, builtins\n"
        "real = builtins.__import__\n"
        "def stop(name, *rest):\n"
        "    if name == 'structgen.errors': raise KeyboardInterrupt\n"
        "    return real(name, *rest)\n"
        "builtins.__import__ = stop\n"
        f"import {module}\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (130, b"")


def test_unexpected_errors_are_short(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("structgen.check.judge", lambda grammar, text: 1 / 0)
    code, _, err = run(capsys, "check", "--regex", "a", "a")
    assert code == 1
    assert "unexpected error: ZeroDivisionError" in err
    assert "--debug" in err
    monkeypatch.setenv("STRUCTGEN_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        main(["check", "--regex", "a", "a"])
