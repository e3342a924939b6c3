"""The dispatcher: chooses the kernels of a call of an operator, key by key.

`keys` defines the keys, `schema` the arguments of operators, `operator` the kernels by key, `calls`
how a call passes the keys, `rows` how built-in operations take part, and `library` and `custom_op`
how users register their own.
"""
