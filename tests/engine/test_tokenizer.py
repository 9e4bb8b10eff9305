"""The engine's tokenizer against transformers and the tokenizers library."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from real_tokenizers import SHARED_NAMES, smollm2_gguf, unpack

from structgen.engine.chat_template import render_chat
from structgen.engine.tokenizer import Tokenizer
from structgen.errors import ModelError, RequestError

WORDS = [
    "the", "Hello", " ", "SELECT", '{"a": 1}', "I'm", "DON'T", "they'll", "12", "345", "2024-01-02", "<|im_end|>",
    "\n\n", "    ", "naïve", "x.y/z?q=1", "日本語", "здравствуйте", "🙂", "👨‍👩‍👧", "<|im_start|>user\n", "\r\n", "\t",
    "\u00a0", "٣", "½", "é",
]  # fmt: skip

CHATS: list[list[dict[str, Any]]] = [
    [{"role": "user", "content": "hi"}],
    [{"role": "system", "content": "Be <b>brief</b>."}, {"role": "user", "content": "a\n"}],
    [
        {"role": "user", "content": "one é"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": "three 🙂"},
    ],
]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"é": {}}}}}]


@pytest.fixture(scope="module")
def smollm2() -> Tokenizer:
    return Tokenizer.load(smollm2_gguf())


@pytest.fixture
def tiny(tiny_model: Callable[..., Path]) -> Path:
    return tiny_model("llama")


def random_texts(count: int) -> list[str]:
    rng = random.Random()
    return ["".join(rng.choices(WORDS, k=rng.randrange(12))) for _ in range(count)]


# --- a model folder ---


def test_folder(tiny: Path) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(str(tiny))
    ours = Tokenizer.load(tiny)
    assert ours.eos_token_ids == (theirs.eos_token_id,)
    assert ours.bos_token_id == theirs.bos_token_id
    for text in random_texts(200):
        ids = ours.encode(text)
        assert ids == theirs.encode(text)
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)
        assert ours.decode(ids, skip_special_tokens=False) == theirs.decode(ids)


def test_vocabulary_of_the_models_size(tiny: Path) -> None:
    tokenizer = Tokenizer.load(tiny)
    wide = tokenizer.vocabulary_of_size(tokenizer.vocabulary.size + 10)
    assert wide is tokenizer.vocabulary_of_size(tokenizer.vocabulary.size + 10)
    assert wide.size == tokenizer.vocabulary.size + 10
    assert wide.eos_token_ids == tokenizer.eos_token_ids
    assert wide.encode("the") == tokenizer.encode("the", add_special_tokens=False)
    with pytest.raises(ModelError, match="smaller"):
        tokenizer.vocabulary_of_size(10)


def test_no_chat_template(tiny: Path) -> None:
    tokenizer = Tokenizer.load(tiny)
    assert not tokenizer.has_chat_template
    with pytest.raises(RequestError, match="no chat template"):
        tokenizer.apply_chat_template(CHATS[0])
    assert tokenizer.apply_chat_template(CHATS[0], chat_template="{{ messages[0].content }}") == "hi"


def copy_with(tiny: Path, folder: Path, config: dict[str, Any]) -> Path:
    (folder / "tokenizer.json").write_bytes((tiny / "tokenizer.json").read_bytes())
    old = json.loads((tiny / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(old | config))
    return folder


def test_where_chat_templates_are_found(tiny: Path, tmp_path: Path) -> None:
    named = [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}]
    folder = copy_with(tiny, tmp_path, {"chat_template": named})
    tokenizer = Tokenizer.load(folder)
    assert tokenizer.apply_chat_template(CHATS[0]) == "D"
    assert tokenizer.apply_chat_template(CHATS[0], tools=TOOLS) == "T"
    (folder / "chat_template.json").write_text('{"chat_template": "J"}')
    assert Tokenizer.load(folder).apply_chat_template(CHATS[0], tools=TOOLS) == "J"
    (folder / "chat_template.jinja").write_text("{{ eos_token }}")
    assert Tokenizer.load(folder).apply_chat_template(CHATS[0]) == "<|endoftext|>"
    copy_with(tiny, folder, {"chat_template": [3]})
    (folder / "chat_template.jinja").unlink()
    (folder / "chat_template.json").unlink()
    with pytest.raises(ModelError, match="list of name and template"):
        Tokenizer.load(folder)


@pytest.mark.parametrize("flags", [{}, {"add_bos_token": True}, {"add_eos_token": True, "add_bos_token": True}])
def test_start_and_end_by_tokenizer_config(tiny: Path, tmp_path: Path, flags: dict[str, bool]) -> None:
    folder = copy_with(tiny, tmp_path, flags | {"bos_token": "<|endoftext|>"})
    tokenizer = Tokenizer.load(folder)
    end = tokenizer.eos_token_ids[0]
    plain = tokenizer.encode("the", add_special_tokens=False)
    expected = [end] * ("add_bos_token" in flags) + plain + [end] * ("add_eos_token" in flags)
    assert tokenizer.encode("the") == expected


def test_bad_prompt(tiny: Path) -> None:
    with pytest.raises(RequestError, match="character 3"):
        Tokenizer.load(tiny).encode("the\udc00")


# --- chat templates ---

TEMPLATES = [
    "{% for m in messages %}\n  {%- if m.role == 'user' %}\nU: {{ m.content | trim }}\n  {%- else %}{% continue %}\n"
    "  {% endif %}\n{% endfor %}",
    "{{ tools | tojson }} {{ tools | tojson(indent=2) }} {{ bos_token }}{{ documents is none }}",
    "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% if ns.n == 2 %}{% break %}"
    "{% endif %}{{ m['content'] }}{% endfor %}{{ ns.n }}{{ dict(a=1)['a'] }}",
    "{% for m in messages %}{% generation %}{{ m.content }}{% set x = 1 %}{% endgeneration %}{{ x is defined }}"
    "{% endfor %}",
    "{{ messages[0].content | length }}{{ enable_thinking is defined and enable_thinking }}"
    "{% if add_generation_prompt %}<a>{% endif %}{{ '<b>' | safe }}{{ messages[-1]['content'] }}",
]


@pytest.mark.parametrize("template", TEMPLATES)
def test_templates_render_as_in_transformers(template: str) -> None:
    utils = pytest.importorskip("transformers.utils.chat_template_utils")
    for chat in CHATS:
        for prompt in (True, False):
            given = {"tools": TOOLS, "bos_token": "<s>", "enable_thinking": prompt}
            expected, _ = utils.render_jinja_template(
                [chat], chat_template=template, add_generation_prompt=prompt, **given
            )
            assert render_chat(template, chat, add_generation_prompt=prompt, **given) == expected[0]


QUICK = ("qwen3", "smollm2")
REAL = [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in (*SHARED_NAMES, "smollm2")]


@pytest.mark.parametrize("name", REAL)
def test_real_templates_render_as_in_transformers(name: str, tmp_path: Path) -> None:
    utils = pytest.importorskip("transformers.utils.chat_template_utils")
    tokenizer = Tokenizer.load(smollm2_gguf() if name == "smollm2" else unpack(name, tmp_path))
    if name == "gptoss":
        assert not tokenizer.has_chat_template
        return
    template = tokenizer.chat_templates["default"]
    for chat in CHATS:
        given = {"tools": None if name == "smollm2" else TOOLS, "add_generation_prompt": True}
        (expected,), _ = utils.render_jinja_template([chat], chat_template=template, **given, **tokenizer.token_names)
        assert tokenizer.apply_chat_template(chat, **given) == expected


def test_a_template_may_refuse() -> None:
    with pytest.raises(RequestError, match="roles must alternate"):
        render_chat("{{ raise_exception('roles must alternate') }}", CHATS[0])
    with pytest.raises(RequestError, match="content as one string"):
        render_chat("{{ 'a' + messages[0].content }}", [{"role": "user", "content": ["x"]}])
    with pytest.raises(RequestError, match="refuses"):  # the sandbox keeps templates from Python's insides
        render_chat("{{ ''.__class__.__mro__[1].__subclasses__() }}", CHATS[0])
    with pytest.raises(RequestError):
        render_chat("{% for %}", CHATS[0])


@pytest.mark.parametrize("messages", ["hi", [], None, {"role": "user"}, [{"content": "x"}], ["hi"], [{"role": 3}]])
def test_bad_messages(messages: Any) -> None:
    with pytest.raises(RequestError, match="messages"):
        render_chat("x", messages)


# --- SmolLM2 in its GGUF file ---


@pytest.mark.model
def test_smollm2(smollm2: Tokenizer) -> None:
    assert smollm2.eos_token_ids == (2,)
    assert smollm2.bos_token_id == 1
    assert smollm2.encode("a") == smollm2.encode("a", add_special_tokens=False)  # its file asks for no start token
    assert smollm2.encode("Hello <|im_end|>12") == [19556, 216, 2, 33, 34]
    ids = smollm2.chat_token_ids(CHATS[0])
    assert ids[0] == 1
    assert ids.count(2) == 2
    prompt = smollm2.apply_chat_template(CHATS[0])
    assert prompt.endswith("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")
    assert smollm2.decode(ids, skip_special_tokens=False) == prompt


@pytest.mark.model
@pytest.mark.slow
def test_smollm2_cuts_text_as_transformers_does(smollm2: Tokenizer) -> None:
    """transformers' own conversion of the file does not split digits, as the model's tokenizer.json does; with that
    put right, the ids are the same."""
    transformers = pytest.importorskip("transformers")
    from tokenizers import pre_tokenizers

    file = smollm2_gguf()
    theirs = transformers.AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name).backend_tokenizer
    digits = pre_tokenizers.Digits(individual_digits=True)
    theirs.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    for text in random_texts(2000):
        assert smollm2.encode(text) == theirs.encode(text).ids, text


# --- Mistral's tekken ---


def test_tekken_folder(tmp_path: Path) -> None:
    tekken = pytest.importorskip("mistral_common.tokens.tokenizers.tekken")
    from test_vocabulary import write_tekken

    write_tekken(tmp_path / "tekken.json")
    tokenizer = Tokenizer.load(tmp_path)
    theirs = tekken.Tekkenizer.from_file(tmp_path / "tekken.json")
    assert tokenizer.encode("the é") == theirs.encode("the é", bos=True, eos=False)
    inst = theirs.get_special_token("[INST]")
    assert tokenizer.encode("a[INST]the", add_special_tokens=False) == [10 + 97, inst, 10 + 257]
    assert tokenizer.bos_token_id == 1
    assert tokenizer.decode(tokenizer.encode("the 日本")) == "the 日本"
