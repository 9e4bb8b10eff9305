"""The grammar half inside plain transformers: its model, its generate, our LogitsProcessor."""

from importlib.util import find_spec

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import structgen as sg
from structgen.engine.resolve import resolve_model
from structgen.integrations.transformers import GrammarLogitsProcessor

if find_spec("accelerate") is None:
    raise SystemExit("transformers needs accelerate to read a GGUF file: pip install accelerate")
file = resolve_model("smollm2")  # any checkpoint that transformers loads will do
tokenizer = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
model = AutoModelForCausalLM.from_pretrained(str(file.parent), gguf_file=file.name, dtype=torch.float32)

vocabulary = sg.Vocabulary.from_tokenizer(tokenizer, size=model.config.vocab_size)
grammar = sg.Grammar.from_json_schema(
    {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 20},
            "country": {"type": "string", "maxLength": 20},
            "inhabitants": {"type": "integer", "minimum": 0, "maximum": 99999999},
        },
        "required": ["city", "country", "inhabitants"],
        "additionalProperties": False,
    }
)
compiled = grammar.compile(vocabulary)  # may be shared: by threads, requests, calls

messages = [{"role": "user", "content": "Describe the city of Oslo in JSON."}]
inputs = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
processor = GrammarLogitsProcessor(compiled)
out = model.generate(
    **inputs, logits_processor=[processor], max_new_tokens=80, do_sample=False, pad_token_id=tokenizer.eos_token_id
)
text = tokenizer.decode(out[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
print(text)
assert processor.complete == [True]
assert grammar.matches(text)
