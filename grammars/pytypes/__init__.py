"""Python types as JSON Schema: the parts behind ``grammars/types.py``.

``adapters`` asks pydantic for a type, ``generator`` is its schema generator made as strict as its parser, ``fields``
writes the members of models, ``keys`` those of dicts, ``finish`` is the last walk over a schema; ``texts``, ``times``,
``ranges`` and ``dialects`` hold regular expressions; ``signatures`` reads functions.
"""
