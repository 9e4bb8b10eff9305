"""SQL from a grammar of the library, and from a smaller one that only reads your own tables."""

import structgen as sg

prompt = "Write an SQL query: the names of all users older than 30, sorted by age."
print("any SQL:   ", sg.generate(prompt, grammar="sql.lark", max_tokens=80))

# A grammar text of your own. No other table or column can be named, and nothing can be written or dropped.
OWN = r"""
start: "SELECT " columns " FROM users" [" WHERE " condition] [" ORDER BY " column [" DESC"]] ";"
columns: column (", " column)*
condition: column " " OPERATOR " " value
column: "id" | "name" | "age" | "city"
OPERATOR: "=" | "<>" | "<=" | ">=" | "<" | ">"
value: NUMBER | TEXT
NUMBER: /[0-9]{1,6}/
TEXT: /'[A-Za-z ]{1,20}'/
"""
own = sg.Grammar.from_lark(OWN)
query = sg.generate(prompt, grammar=own, max_tokens=80)
print("own tables:", query)
assert own.matches(query)
