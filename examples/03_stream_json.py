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
messages = [{"role": "user", "content": "A simple recipe for pancakes."}]
prompt = llm.tokenizer.apply_chat_template(messages)

seen = None
for event in llm.stream(prompt, sg.SamplingParams(max_tokens=120, temperature=0.0), schema=Recipe):
    print(event.delta, end="", flush=True)
    if event.partial != seen:  # a value so far: what a page could already show
        seen = event.partial
    if event.finish_reason is not None:
        print(f"\n\n{event.finish_reason}: {event.value!r}")
