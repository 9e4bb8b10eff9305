"""A date by a regular expression, a verdict by a list of choices."""

import re

import structgen as sg

DATE = r"(19|20)\d\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
date = sg.generate("On which day did people first walk on the moon? Answer as YYYY-MM-DD.", regex=DATE)
print(date)
assert re.fullmatch(DATE, date)

reviews = ["I loved every minute of it.", "A waste of time and money.", "It was a film."]
questions = [f"Is this review positive, negative or neutral?\n{review}" for review in reviews]
for review, verdict in zip(reviews, sg.generate(questions, choices=["positive", "negative", "neutral"]), strict=True):
    print(f"{verdict:8}  {review}")

# The same with a seed and a temperature: other words, never another form.
for seed in (1, 2, 3):
    print(sg.generate("Make up a licence plate.", regex=r"[A-Z]{2}-\d{4}", temperature=1.0, seed=seed))
