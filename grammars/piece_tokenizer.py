"""A ``tokenizers.Tokenizer`` for a vocabulary stored as pieces (GGUF, SentencePiece)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from structgen.errors import ModelError
from structgen.grammars.piece_model import PieceModel, PieceType

# How text is cut before BPE, by llama.cpp's name (tokenizer.ggml.pre). Each pattern in turn isolates its matches in
# what the ones before it left. The patterns are those of the models' own tokenizer.json files.
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_LAST = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _LAST
_QWEN2 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _LAST
_QWEN35 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + _LAST
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def _cased(tail: str, digits: str) -> str:
    """Words cut at lower-to-upper case, as in o200k and tekken."""
    start = r"[^\r\n\p{L}\p{N}]?"
    words = f"{start}{_UPPER}*{_LOWER}+{tail}|{start}{_UPPER}+{_LOWER}*{tail}"
    return words + rf"|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|" + _LAST


_DEEPSEEK3 = (
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"""
    + _LAST,
)
_SPLITS: Mapping[tuple[str, ...], str] = {
    # patterns: the names that use them
    (_GPT2,): "gpt-2 phi-2 gigachat a.x-4.0 mellum mpt olmo jais trillion granite-docling exaone4",
    (r"\p{N}", _GPT2): "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2",
    (_LLAMA3,): "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 dbrx smaug-bpe glm4 chatglm-bpe",
    (_QWEN2,): "qwen2 deepseek-r1-qwen kormo megrez stablelm2 hunyuan solar-open grok-2",
    (_QWEN35,): "qwen35",
    (_cased("", r"\p{N}"),): "tekken",
    (_cased(_CONTRACTIONS + "?", r"\p{N}{1,3}"),): "gpt-4o llama4 kanana2 talkie minimax-m2",
    _DEEPSEEK3: "deepseek-v3 hunyuan-dense joyai-llm",
    (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]"): "default",
}
PRE_TOKENIZERS: Mapping[str, tuple[str, ...]] = {
    name: patterns for patterns, names in _SPLITS.items() for name in names.split()
}
# Whole words that are tokens are taken without replaying their merges.
_IGNORES_MERGES = frozenset(
    ("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "tekken")
)


def build_tokenizer(model: PieceModel) -> Any:
    """The ``tokenizers.Tokenizer`` that cuts text into ``model``'s pieces.

    Raises:
        ModelError: the pre-tokenizer's name is not known, or the file lacks merges or scores.
    """
    from tokenizers import AddedToken, Tokenizer, processors

    if model.kind == "bytelevel":
        tokenizer = _byte_level(model, Tokenizer)
    elif model.kind == "bpe":
        tokenizer = _sentencepiece_bpe(model, Tokenizer)
    else:
        tokenizer = _unigram(model, Tokenizer)
    spelled = model.pieces if model.kind == "bytelevel" else _spellings(model)
    typed = list(zip(spelled, model.types, strict=True))
    tokenizer.add_special_tokens(
        [AddedToken(p, normalized=False, special=True) for p, t in typed if t == PieceType.CONTROL and p]
    )
    tokenizer.add_tokens([AddedToken(p, normalized=False) for p, t in typed if t == PieceType.USER_DEFINED and p])
    before = [(model.pieces[i], i) for i in (model.bos_id,) if model.add_bos and i is not None]
    after = [(model.pieces[i], i) for i in model.stop_ids[:1] if model.add_eos]
    if before or after:
        start, end = [name for name, _ in before], [name for name, _ in after]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=[*start, "$A", *end],
            pair=[*start, "$A", "$B", *end],
            special_tokens=[*before, *after],
        )
    return tokenizer


def _byte_level(model: PieceModel, new: Any) -> Any:
    from tokenizers import Regex, decoders, models, pre_tokenizers

    patterns = PRE_TOKENIZERS.get(model.pre)
    if patterns is None:
        raise ModelError(
            f"{model.source} names pre-tokenizer {model.pre!r}, which is not known, so texts cannot be tokenised as in "
            f"training. Known: {', '.join(sorted(PRE_TOKENIZERS))}. Put the model's tokenizer.json beside it instead"
        )
    if not model.merges:
        raise ModelError(f"{model.source} has no tokenizer.ggml.merges; convert the model anew")
    # The space that parts the two is never the first character (a piece may itself begin with one).
    cuts = [(merge, merge.index(" ", 1)) for merge in model.merges]
    merges = [(merge[:at], merge[at + 1 :]) for merge, at in cuts]
    vocab = {piece: i for i, piece in enumerate(model.pieces)}
    tokenizer = new(models.BPE(vocab, merges, ignore_merges=model.pre in _IGNORES_MERGES))
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*splits, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _sentencepiece_bpe(model: PieceModel, new: Any) -> Any:
    from tokenizers import decoders, models, normalizers

    if len(model.scores) != len(model.pieces) and not model.merges_by_place:
        raise ModelError(f"{model.source}: {len(model.pieces)} pieces but {len(model.scores)} scores")
    if model.charsmap:
        raise ModelError(f"{model.source}: a SentencePiece BPE model with a normalisation map is not built")
    pieces = _spellings(model)
    spaced = (t == PieceType.USER_DEFINED and " " in p for p, t in zip(pieces, model.types, strict=True))
    if model.squeezes_spaces and any(spaced):
        raise ModelError(f"{model.source}: pieces of spaces in a model that joins runs of spaces are not built")
    unk = pieces[model.unk_id] if model.unk_id is not None and model.unk_id >= 0 else None
    vocab = {piece: i for i, piece in enumerate(pieces)}
    merges = list(_merges(model, pieces, vocab))
    has_bytes = PieceType.BYTE in model.types
    tokenizer = new(models.BPE(vocab, merges, unk_token=unk, fuse_unk=True, byte_fallback=has_bytes))
    prefix = [normalizers.Prepend("▁")] if model.adds_prefix else []
    squeeze = _squeeze(model, normalizers)
    tokenizer.normalizer = normalizers.Sequence([*squeeze, *prefix, normalizers.Replace(" ", "▁")])
    strip = [decoders.Strip(" ", 1, 0)] if model.adds_prefix else []
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    )
    return tokenizer


def _unigram(model: PieceModel, new: Any) -> Any:
    from tokenizers import decoders, models, normalizers, pre_tokenizers

    if len(model.scores) != len(model.pieces):
        raise ModelError(f"{model.source}: {len(model.pieces)} pieces but {len(model.scores)} scores")
    scored = list(zip(_spellings(model), model.scores, strict=True))
    tokenizer = new(models.Unigram(scored, model.unk_id, PieceType.BYTE in model.types))
    compiled = [normalizers.Precompiled(model.charsmap)] if model.charsmap else []
    tokenizer.normalizer = normalizers.Sequence([*compiled, *_squeeze(model, normalizers)])
    scheme = "always" if model.adds_prefix else "never"
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    tokenizer.decoder = decoders.Sequence(
        [decoders.ByteFallback(), decoders.Metaspace(prepend_scheme=scheme), decoders.Fuse()]
    )
    return tokenizer


def _squeeze(model: PieceModel, normalizers: Any) -> list[Any]:
    """SentencePiece's remove_extra_whitespaces: runs become one space, none is left at the end."""
    from tokenizers import Regex

    if not model.squeezes_spaces:
        return []
    return [normalizers.Replace(Regex(r"\A +| +\z"), ""), normalizers.Replace(Regex(" {2,}"), " ")]


def _spellings(model: PieceModel) -> list[str]:
    return [_escaped(piece, kind) for piece, kind in zip(model.pieces, model.types, strict=True)]


def _escaped(piece: str, kind: int) -> str:
    """How a piece is written where text is looked up: user-defined pieces are matched in the text as it is, the others
    where every space is a ``▁`` already. Converters write either."""
    return piece.replace("▁", " ") if kind == PieceType.USER_DEFINED else piece.replace(" ", "▁")


def _merges(model: PieceModel, pieces: list[str], vocab: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """SentencePiece BPE joins the neighbours whose whole scores best: the same as merges ranked by that score."""
    can_join = {p for p, t in zip(pieces, model.types, strict=True) if t == PieceType.NORMAL}
    if model.merges_by_place:
        order = sorted(range(len(pieces)))
    else:
        order = sorted(range(len(pieces)), key=lambda i: (-model.scores[i], i))
    for i in order:
        piece = pieces[i]
        if piece not in can_join:
            continue
        cuts = range(1, len(piece))
        known = [(left, right) for k in cuts if (left := piece[:k]) in can_join and (right := piece[k:]) in can_join]
        yield from sorted(known, key=lambda pair: (vocab[pair[0]], vocab[pair[1]]))
