"""A Python type in, a value of that type out."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

import structgen as sg


class Address(BaseModel):
    city: Annotated[str, Field(max_length=30)]
    country: Annotated[str, Field(max_length=30)]


class Person(BaseModel):
    name: Annotated[str, Field(max_length=40)]
    age: Annotated[int, Field(ge=0, le=130)]
    mood: Literal["happy", "sad", "neutral"]
    address: Address | None = None


person = sg.generate("Ann Lee is 31 years old. She lives in Oslo, Norway, and is happy today.", schema=Person)
print(repr(person))
assert isinstance(person, Person)

# Not only models: anything that pydantic understands, and plain JSON Schemas.
numbers = sg.generate("The first three prime numbers.", schema=Annotated[list[int], Field(min_length=3, max_length=3)])
print(numbers)

settings = sg.generate(
    "Turn the lights on at half power.",
    schema={
        "type": "object",
        "properties": {"on": {"type": "boolean"}, "percent": {"type": "integer", "minimum": 0, "maximum": 100}},
        "required": ["on", "percent"],
        "additionalProperties": False,
    },
)
print(settings)

# What is cut before it is complete is an error that carries the text, never half a value.
try:
    sg.generate("Ann Lee is 31 years old.", schema=Person, max_tokens=5)
except sg.IncompleteOutput as cut:
    print(f"cut: {cut.text!r}")
