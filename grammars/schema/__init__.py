"""The JSON Schema front end. ``structgen.grammars.json_schema`` is its face.

document   where a subschema stands: drafts, base URIs, references
keywords   one subschema read into a ``Rules`` record; every keyword has one reader here
negation   the complement of a subschema, written as another subschema
expand     a conjunction of subschemas -> its alternatives, each a plain conjunction
unevaluated   which members the keywords of a place evaluate
literals   whether a value satisfies a subschema (for const and enum)
scalars    strings, numbers and literals as expressions
languages  how many keys a language has
nodes      a conjunction as something that can be generated
cases      what one conjunction demands of an object; fresh: keys that no schema names; completion: can it end
objects, arrays   plans and stack frames of the containers
layout     whitespace policies
"""
