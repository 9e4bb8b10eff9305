"""Chat templates: messages -> prompt text, with the Jinja environment that Hugging Face models are written for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from structgen.errors import RequestError


def render_chat(
    template: str,
    messages: Sequence[Mapping[str, Any]],
    *,
    add_generation_prompt: bool = True,
    **variables: Any,
) -> str:
    """The prompt that ``template`` makes of ``messages``.

    Args:
        template: Jinja source from a tokenizer_config.json, chat_template.jinja or GGUF file.
        messages: dicts with at least a ``role``.
        add_generation_prompt: end with the start of the assistant's answer.
        variables: what else the template may read: special token names, ``tools``, ``documents``, its own switches.

    Raises:
        RequestError: bad messages, or the template refuses them or is broken.
    """
    from jinja2 import TemplateError

    check_messages(messages)
    shown = {"tools": None, "documents": None} | variables
    try:
        text: str = _compile(template).render(
            messages=list(messages), add_generation_prompt=add_generation_prompt, **shown
        )
    except TemplateError as error:
        raise RequestError(f"the model's chat template refuses these messages: {error}") from error
    except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError) as error:
        raise RequestError(
            f"the model's chat template cannot render these messages ({type(error).__name__}: {error}). Most templates "
            "take content as one string, and roles system, user, assistant"
        ) from error
    return text


def check_messages(messages: Any) -> None:
    """Refuse anything but a non-empty list of objects with a role.

    Raises:
        RequestError: naming the first message that is wrong.
    """
    if isinstance(messages, (str, Mapping)) or not isinstance(messages, Sequence) or not messages:
        raise RequestError(
            f'messages is {str(messages)[:60]!r}; give a non-empty list such as [{{"role": "user", "content": "..."}}]'
        )
    for i, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise RequestError(
                f"messages[{i}] is {str(message)[:60]!r}; each message is an object with a role (system, user, "
                "assistant, tool) and content"
            )


@lru_cache(maxsize=32)
def _compile(template: str) -> Any:
    """The template in the sandbox that transformers uses: blocks trimmed, no HTML escapes in ``tojson``, loop controls,
    ``raise_exception``, ``strftime_now``, and ``{% generation %}`` as a plain block."""
    from jinja2 import TemplateError, nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.parser import Parser
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """Marks the assistant's words for training; here only its content matters."""

        tags = {"generation"}  # noqa: RUF012 (jinja2's own declaration)

        def parse(self, parser: Parser) -> nodes.Node:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.Scope(body).set_lineno(line)

    def raise_exception(message: str) -> None:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return environment.from_string(template)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
