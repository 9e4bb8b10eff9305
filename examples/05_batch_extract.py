"""Many texts at once: one batch, one value each, and a failure that takes nobody along."""

import time
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

import structgen as sg


@dataclass
class Order:
    item: Annotated[str, Field(max_length=30)]
    count: Annotated[int, Field(ge=1, le=999)]
    urgency: Literal["low", "normal", "high"]


MAILS = [
    "Hello, please send us 12 office chairs, no hurry.",
    "We need 3 printers today, it is urgent!",
    "One coffee machine for the kitchen, please.",
    "Could you deliver 250 pencils next week?",
    "Our only server is broken. Send 1 power supply at once!",
    "Please put 40 notebooks on our next order.",
    "Two desks and nothing else.",
    "Rush order: 8 monitors.",
]

start = time.perf_counter()
orders = sg.generate(
    [f"Extract the order from this mail: {mail}" for mail in MAILS],
    schema=Order,
    max_tokens=64,
    return_exceptions=True,  # a failed request is an exception in its place, the others are values
)
took = time.perf_counter() - start
for mail, order in zip(MAILS, orders, strict=True):
    print(f"{mail}\n    {order!r}")
print(f"{len(MAILS)} mails in {took:.1f} s")
