"""The dispatcher: which kernel a call of an operator runs, key by key.

`keys` says which keys there are, `schema` what an operator takes, `operator` which kernel it has
for a key, `calls` how a call goes down the keys, `rows` how the built-in operations take part, and
`library` and `custom_op` how users register their own.
"""
