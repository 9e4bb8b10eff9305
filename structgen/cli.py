"""The command line: ``structgen [options] PROMPT`` and its commands.

Results go to standard output, everything else to standard error. Exit codes: 0 done, 1 the request failed,
2 wrong usage, 130 interrupted. Nothing heavy is imported before the arguments are known to be right.
"""

from __future__ import annotations

try:
    import json
    import os
    import sys
    from collections.abc import Sequence
    from contextlib import suppress
    from typing import TYPE_CHECKING, Any

    from structgen import arguments
    from structgen.console import OutputError, debugging, emit, forget, noticing_interrupts, open_streams, say, working
    from structgen.errors import GrammarError, ModelError, RequestError, StructgenError
except KeyboardInterrupt:  # Ctrl-C in the first moments: no traceback of half an import
    raise SystemExit(130) from None

if TYPE_CHECKING:
    import argparse
    from threading import Event

    from structgen.constraint import Constraint
    from structgen.engine.llm import LLM
    from structgen.engine.outputs import CompletionOutput, RequestOutput

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


class UsageError(StructgenError):
    """The command line asks for something that cannot be."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line; returns its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if "--debug" in words:
        os.environ["STRUCTGEN_DEBUG"] = "1"
    with noticing_interrupts() as interrupt:
        return _guarded(words, interrupt)


def _guarded(words: list[str], interrupt: Event) -> int:
    """The exit code of a command line; says what went wrong, in a line or two."""
    try:
        if not open_streams():
            raise OutputError("standard output is closed; there is no place for the result")
        try:
            code = _dispatch(words)
        except SystemExit as done:  # argparse: --help, or a usage error that is already on standard error
            code = done.code if isinstance(done.code, int) else USAGE
        emit("", flush=True)
        return code
    except KeyboardInterrupt:
        return _interrupted()
    except BrokenPipeError:
        forget(sys.stdout)
        say("standard output was closed; stopped")
        return FAILED
    except (UsageError, GrammarError, ModelError) as error:
        return _failed(error, USAGE)
    except StructgenError as error:
        return _failed(error, FAILED)
    except Exception as error:
        if interrupt.is_set():
            return _interrupted()
        if debugging():
            raise
        say(f"unexpected error: {type(error).__name__}: {str(error)[:500]}")
        say("this is a fault of structgen, not of your input; --debug shows where")
        return FAILED


def _failed(error: StructgenError, code: int) -> int:
    if debugging():
        raise error
    say(arguments.in_options(str(error)))
    return code


def _interrupted() -> int:
    say("interrupted")
    return INTERRUPTED


def _dispatch(words: list[str]) -> int:
    command = words[0] if words and words[0] in arguments.COMMANDS else None
    if command == "check":
        from structgen.check import run as check

        return check(arguments.check_parser().parse(words[1:]))
    if command == "warmup":
        return _warmup(arguments.warmup_parser().parse(words[1:]))
    if command == "bench":
        from structgen.bench import run as bench

        return bench(arguments.bench_parser().parse(words[1:]))
    if command == "serve":
        say("serve is not built yet; use structgen.LLM from Python, or the command line itself")
        return USAGE
    parser = arguments.generation_parser()
    return _generate(parser.parse(words), parser)


# ----------------------------------------------------------------------------------------------- generating


def _generate(args: argparse.Namespace, parser: arguments.Parser) -> int:
    if args.version:
        from structgen import __version__

        emit(f"structgen {__version__}\n")
        return DONE
    _check_usage(args)
    prompt = _prompt(args, parser)
    constraint = _constraint(args)
    params = _params(args)
    llm = load(args)
    asked = _asked(llm, prompt, constraint, args)
    if args.json or args.n > 1:
        with working("generating", quiet=args.quiet, slow_s=10.0):
            (request,) = llm.generate([asked], params, grammar=constraint.grammar)
        return _print_outputs(request, constraint, args)
    return _stream(llm, asked, params, constraint)


def _check_usage(args: argparse.Namespace) -> None:
    """Refuses what can be refused before anything is read or loaded."""
    if args.raw and args.system is not None:
        raise UsageError("--system has no place with --raw; put it into the prompt")
    if args.grammar is None and (args.start != "start" or args.parser != "lalr"):
        raise UsageError("--start and --parser belong to --grammar")
    if args.schema is None and (args.draft is not None or args.registry is not None):
        raise UsageError("--draft and --registry belong to --schema")
    named = {"the prompt": args.prompt, "--system": args.system, "--regex": args.regex, "--choices": args.choices}
    for name, text in [*named.items(), *(("--stop", stop) for stop in args.stop or ())]:
        if text is not None:
            check_text(name, text)
    if args.choices is not None and not all(args.choices.split(",")):
        raise UsageError(f"--choices {args.choices!r} has an empty choice; give texts between the commas: yes,no")


def check_text(name: str, text: str) -> None:
    """Refuses a word of the command line that is not UTF-8 (the bytes that are not arrive as lone surrogates)."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError(f"{name} is not UTF-8 text: byte {os.fsencode(text[error.start])!r}") from error


def _prompt(args: argparse.Namespace, parser: arguments.Parser) -> str:
    if args.prompt is not None and args.prompt != "-":
        prompt = str(args.prompt)
    elif sys.stdin is None:
        parser.error('standard input is closed; give a prompt: structgen "PROMPT"')
    elif args.prompt is None and sys.stdin.isatty():
        parser.error('no prompt: structgen "PROMPT", or give it on standard input; structgen --help shows more')
    else:
        prompt = read_stdin().strip("\n")
    if not prompt.strip():
        raise UsageError("the prompt is empty")
    return prompt


def read_stdin() -> str:
    """All of standard input as UTF-8 text."""
    if sys.stdin is None:
        raise UsageError("standard input is closed; there is no text to read")
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except OSError as error:
        raise UsageError(f"standard input cannot be read: {error.strerror or error}") from error


def _constraint(args: argparse.Namespace) -> Constraint:
    from structgen.constraint import Constraint, constraint_of, grammar_file, registry, schema_file

    if args.grammar is not None:
        return Constraint(grammar_file(args.grammar, start=args.start, parser=args.parser))
    schema = schema_file(args.schema) if args.schema is not None else None
    choices = args.choices.split(",") if args.choices is not None else None
    documents = {"draft": args.draft, "registry": registry(args.registry)}
    return constraint_of(schema=schema, regex=args.regex, choices=choices, documents=documents)


def _params(args: argparse.Namespace) -> Any:
    from structgen.engine.config import SamplingParams

    optional = {"top_p": args.top_p, "top_k": args.top_k, "min_p": args.min_p, "stop": args.stop}
    given = {name: value for name, value in optional.items() if value is not None}
    try:
        return SamplingParams(
            max_tokens=args.max_tokens, temperature=args.temperature, seed=args.seed, n=args.n, **given
        )
    except RequestError as error:
        raise UsageError(str(error)) from error


def load(args: argparse.Namespace) -> LLM:
    """The engine that the command line asks for, with a line of progress."""
    from structgen.api import engine_for

    options = {name: getattr(args, name) for name in ("dtype", "device") if getattr(args, name) != "auto"}
    if args.max_model_len is not None:
        options["max_model_len"] = args.max_model_len
    with working(f"loading {args.model}", quiet=args.quiet):
        try:
            return engine_for(args.model, options)
        except ModelError:
            raise
        except RequestError as error:
            raise UsageError(str(error)) from error


def _asked(llm: LLM, prompt: str, constraint: Constraint, args: argparse.Namespace) -> str | list[int]:
    from structgen.api import chat_prompt
    from structgen.constraint import Constraint

    if args.raw:
        return prompt
    shown = Constraint() if args.no_show_schema else constraint
    return chat_prompt(llm, prompt, system=args.system, shown=shown)


def _stream(llm: LLM, asked: str | list[int], params: Any, constraint: Constraint) -> int:
    last: CompletionOutput | None = None
    text = ""
    try:
        for event in llm.stream(asked, params, grammar=constraint.grammar):
            if event.retracted and not sys.stdout.isatty():
                raise RequestError("the grammar led into a dead end after text was written; use --json, which waits")
            emit(f"\n{event.text}" if event.retracted else event.delta, flush=True)  # a reader can start again
            text = event.text
            last = event.output or last
    finally:
        if text and not text.endswith("\n"):
            with suppress(BrokenPipeError, OutputError):
                emit("\n", flush=True)
    return FAILED if last is None else _judge(last, constraint)


def _judge(output: CompletionOutput, constraint: Constraint) -> int:
    """The exit code of one output; says on standard error what is wrong with it."""
    from structgen.api import answer_of

    try:
        answer_of(output, constraint)
    except StructgenError as error:
        say(str(error))
        return FAILED
    if output.finish_reason == "length" and constraint.grammar is None:
        say(f"cut after {len(output.token_ids)} tokens; --max-tokens allows more")
    return DONE


def _print_outputs(request: RequestOutput, constraint: Constraint, args: argparse.Namespace) -> int:
    if request.error is not None and not request.outputs:
        raise request.error
    if args.json:
        described = [_described(output, constraint) for output in request.outputs]
        first = {"model": args.model, **described[0], "prompt_tokens": len(request.prompt_token_ids)}
        if len(described) > 1:
            first["outputs"] = described
        emit(json.dumps(first, ensure_ascii=False) + "\n")
    else:
        for output in request.outputs:
            emit(output.text + "\n")
    return max(_judge(output, constraint) for output in request.outputs)


def _described(output: CompletionOutput, constraint: Constraint) -> dict[str, Any]:
    made: dict[str, Any] = {"text": output.text}
    if constraint.schema is not None and not output.incomplete and output.error is None:
        with suppress(ValueError):
            made["value"] = json.loads(output.text)
    metrics = output.metrics
    gaps = sorted(metrics.itl_s)
    return {
        **made,
        "finish_reason": output.finish_reason,
        "stop_reason": output.stop_reason,
        "incomplete": output.incomplete,
        "error": str(output.error) if output.error is not None else None,
        "completion_tokens": len(output.token_ids),
        "metrics": {
            "queue_s": metrics.queue_s,
            "ttft_s": metrics.ttft_s,
            "itl_p50_s": gaps[len(gaps) // 2] if gaps else None,
            "e2e_s": metrics.e2e_s,
            "mask_s": metrics.mask_s,
            "masks": metrics.masks,
            "forward_passes": metrics.forward_passes,
            "num_cached_tokens": metrics.num_cached_tokens,
        },
    }


# ------------------------------------------------------------------------------------------------- warming up


def _warmup(args: argparse.Namespace) -> int:
    import time

    from structgen.engine.config import SamplingParams
    from structgen.grammars.grammar import Grammar

    start = time.perf_counter()
    llm = load(args)
    loaded = time.perf_counter()
    grammar = Grammar.from_json_schema({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
    with working("first tokens", quiet=args.quiet):
        llm.generate(["Hello", "Hello again"], SamplingParams(max_tokens=8, temperature=0.0), grammar=[grammar, None])
    done = time.perf_counter()
    emit(f"{args.model}: loaded in {loaded - start:.1f} s, first tokens in {done - loaded:.1f} s; ready\n")
    return DONE
