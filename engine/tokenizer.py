"""``Tokenizer``: text <-> ids and chat prompts of one model, from its folder or GGUF file."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from structgen.engine.chat_template import render_chat
from structgen.engine.detokenize import Detokenizer
from structgen.errors import ModelError, RequestError
from structgen.grammars.gguf_metadata import MAGIC
from structgen.grammars.piece_model import PieceModel, read_gguf_pieces
from structgen.grammars.text_encoding import check_text
from structgen.grammars.token_files import read_json, token_name, tokenizer_file
from structgen.grammars.vocabulary import Vocabulary

_TOKEN_VARIABLES = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")


class Tokenizer:
    """How one model reads and writes text.

    Built on the ``tokenizers`` library and the files alone: importing transformers costs seconds.

    Attributes:
        vocabulary: the tokens as the tokenizer knows them; see ``vocabulary_of_size``.
        chat_templates: name -> Jinja source; ``default`` and sometimes ``tool_use``.
        token_names: ``bos_token`` and the like, as chat templates read them.
    """

    def __init__(
        self, vocabulary: Vocabulary, *, token_names: Mapping[str, str], chat_templates: Mapping[str, str]
    ) -> None:
        """Use ``load``."""
        self.vocabulary = vocabulary
        self.token_names = dict(token_names)
        self.chat_templates = dict(chat_templates)
        self._sized: dict[int, Vocabulary] = {vocabulary.size: vocabulary}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Tokenizer:
        """The tokenizer of a model folder, a tokenizer file or a GGUF file.

        Raises:
            ModelError: there is none, or one of a kind that is not read.
        """
        file = tokenizer_file(path)
        with open(file, "rb") as opened:
            is_gguf = opened.read(4) == MAGIC
        return cls._from_gguf(file) if is_gguf else cls._from_folder(file)

    @classmethod
    def _from_gguf(cls, file: Path) -> Tokenizer:
        pieces = read_gguf_pieces(file)
        templates = {"default": pieces.chat_template} if pieces.chat_template else {}
        return cls(Vocabulary.from_tokenizer(pieces), token_names=_gguf_names(pieces), chat_templates=templates)

    @classmethod
    def _from_folder(cls, file: Path) -> Tokenizer:
        vocabulary = Vocabulary.from_tokenizer(file)
        config = read_json(file.parent / "tokenizer_config.json") or {}
        names = {key: name for key in _TOKEN_VARIABLES if (name := token_name(config.get(key)))}
        extra = config.get("extra_special_tokens")
        if isinstance(extra, dict):
            names.update((key, name) for key, entry in extra.items() if (name := token_name(entry)))
        if file.name == "tekken.json":
            names = {"bos_token": "<s>", "eos_token": "</s>"} | names
        made = cls(vocabulary, token_names=names, chat_templates=_folder_templates(file.parent, config))
        made._adds = [config.get(f"add_{which}_token") is True for which in ("bos", "eos")]
        return made

    _adds: Sequence[bool] = (False, False)  # tokenizer_config.json's add_bos_token, add_eos_token

    @property
    def eos_token_ids(self) -> tuple[int, ...]:
        """Every id that ends a generation."""
        return self.vocabulary.eos_token_ids

    @property
    def bos_token_id(self) -> int | None:
        """The id that starts a text, or None. Whether ``encode`` puts it there is the tokenizer's own rule."""
        return self.vocabulary.special.get(self.token_names.get("bos_token", ""))

    def vocabulary_of_size(self, size: int) -> Vocabulary:
        """The vocabulary padded to the model's logits width ``size``; the same object for the same size.

        Raises:
            ModelError: an id with bytes lies at or past ``size``.
        """
        if size not in self._sized:
            self._sized[size] = Vocabulary.from_tokenizer(self.vocabulary, size=size)
        return self._sized[size]

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """``text`` as ids. Names of special tokens in it become those tokens, as everywhere in chat prompts.

        Args:
            text: the text.
            add_special_tokens: put the tokenizer's own start (and end) tokens around it.

        Raises:
            RequestError: half a surrogate pair in the text.
        """
        check_text(text)
        if hasattr(self._backend, "from_file") and not hasattr(self._backend, "get_vocab"):
            return self._encode_tekken(text, add_special_tokens)
        ids: list[int] = self._backend.encode(text, add_special_tokens=add_special_tokens).ids
        return ids

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = True) -> str:
        """The text of ``ids``, taken as a whole text; bytes that are no UTF-8 become U+FFFD. For a growing text use
        ``Detokenizer``."""
        reader = Detokenizer(self.vocabulary, skip_special_tokens=skip_special_tokens, starts_text=True)
        return "".join([*map(reader.push, ids), reader.flush()])

    @property
    def has_chat_template(self) -> bool:
        """Whether the model comes with a chat template."""
        return bool(self.chat_templates)

    def apply_chat_template(
        self, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool = True, **variables: Any
    ) -> str:
        """The prompt text for ``messages``. It already holds the special tokens: encode it with
        ``add_special_tokens=False`` (``chat_token_ids`` does).

        Args:
            messages: dicts with a role and content.
            add_generation_prompt: end with the start of the assistant's answer.
            variables: ``tools=``, ``documents=`` and what the template itself knows (``enable_thinking=``). A template
                given as ``chat_template=`` is used instead of the model's.

        Raises:
            RequestError: no template, or it refuses the messages.
        """
        template = variables.pop("chat_template", None) or self._template(bool(variables.get("tools")))
        shown = self.token_names | variables
        return render_chat(template, messages, add_generation_prompt=add_generation_prompt, **shown)

    def chat_token_ids(
        self, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool = True, **variables: Any
    ) -> list[int]:
        """``apply_chat_template`` as ids."""
        text = self.apply_chat_template(messages, add_generation_prompt, **variables)
        return self.encode(text, add_special_tokens=False)

    def _template(self, has_tools: bool) -> str:
        names = ("tool_use", "default") if has_tools else ("default",)
        for name in names:
            if name in self.chat_templates:
                return self.chat_templates[name]
        known = f" (it has {', '.join(sorted(self.chat_templates))})" if self.chat_templates else ""
        raise RequestError(
            f"this model has no chat template{known}: give the prompt as plain text, take the model's instruct or chat "
            "version, or pass chat_template= with a Jinja template"
        )

    @cached_property
    def _backend(self) -> Any:
        """The library's tokenizer, loaded at the first encode."""
        backend = self.vocabulary.tokenizer
        if hasattr(backend, "post_processor") and backend.post_processor is None:
            self._add_ends(backend)
        return backend

    def _add_ends(self, backend: Any) -> None:
        """A tokenizer.json without a post-processor leaves start and end to tokenizer_config.json."""
        from tokenizers import processors

        special = self.vocabulary.special
        keys = [key for key, adds in zip(("bos_token", "eos_token"), self._adds, strict=True) if adds]
        found = {key: self.token_names[key] for key in keys if self.token_names.get(key) in special}
        if not found:
            return
        start, end = ([found[key]] if key in found else [] for key in ("bos_token", "eos_token"))
        backend.post_processor = processors.TemplateProcessing(
            single=[*start, "$A", *end],
            pair=[*start, "$A", "$B", *end],
            special_tokens=[(name, special[name]) for name in found.values()],
        )

    def _encode_tekken(self, text: str, add_special_tokens: bool) -> list[int]:
        """mistral-common encodes plain text only, so the names of special tokens are cut out first."""
        special = self.vocabulary.special
        ids = [special["<s>"]] if add_special_tokens else []
        for part in self._special_names.split(text):
            if part in special:
                ids.append(special[part])
            elif part:
                ids += self._backend.encode(part, bos=False, eos=False)
        return ids

    @cached_property
    def _special_names(self) -> re.Pattern[str]:
        names = sorted(self.vocabulary.special, key=len, reverse=True)
        return re.compile("(" + "|".join(map(re.escape, names)) + ")")

    def __repr__(self) -> str:
        return f"Tokenizer({self.vocabulary!r}, has_chat_template={self.has_chat_template})"


def _gguf_names(pieces: PieceModel) -> dict[str, str]:
    ids = {"bos_token": pieces.bos_id, "unk_token": pieces.unk_id}
    if pieces.stop_ids:
        ids["eos_token"] = pieces.stop_ids[0]
    return {key: pieces.pieces[i] for key, i in ids.items() if i is not None and 0 <= i < len(pieces.pieces)}


def _folder_templates(folder: Path, config: Mapping[str, Any]) -> dict[str, str]:
    """Chat templates of a model folder: chat_template.jinja, else chat_template.json, else tokenizer_config.json."""
    jinja = folder / "chat_template.jinja"
    if jinja.is_file():
        return {"default": jinja.read_text(encoding="utf-8")}
    entry = (read_json(folder / "chat_template.json") or {}).get("chat_template") or config.get("chat_template")
    if entry is None:
        return {}
    if isinstance(entry, str):
        return {"default": entry}
    try:
        return {item["name"]: item["template"] for item in entry}
    except (TypeError, KeyError) as error:
        raise ModelError(
            f"chat_template of {folder} is neither a text nor a list of name and template: {json.dumps(entry)[:80]}"
        ) from error
