"""Stream a value while it is being written: text as it comes, and the value so far."""

from typing import Annotated

from pydantic import BaseModel, Field

import structgen as sg

Short = Annotated[str, Field(max_length=30)]


class Recipe(BaseModel):
    title: Short
    minutes: Annotated[int, Field(ge=1, le=240)]
    ingredients: Annotated[list[Short], Field(min_length=2, max_length=4)]


llm = sg.LLM(model="smollm2")
messages = [
    {"role": "system", "content": 'Answer in JSON: {"title": string, "minutes": integer, "ingredients": [string]}'},
    {"role": "user", "content": "A simple recipe for pancakes."},
]
prompt = llm.tokenizer.chat_token_ids(messages)
grammar = sg.Grammar.from_type(Recipe, escapes="canonical")  # "e", never "\\u0065": the same values

for event in llm.stream(prompt, sg.SamplingParams(max_tokens=160, temperature=0.0), grammar=grammar):
    print(event.delta, end="", flush=True)
    if event.finish_reason is None and event.delta.endswith(","):
        print(f"    <- so far: {event.partial}", end="")  # what a page could show already
    if event.finish_reason is not None:
        print(f"\n{event.finish_reason}: {event.value!r}")
