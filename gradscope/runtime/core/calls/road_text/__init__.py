"""The texts of roads: a *road* is the function that a call of an operation runs.

It has checks, kernel, node and probe in one. `call_text.py` puts it together, the others write a
part of it each, `scope.py` has what it may name. What it cannot do by itself it leaves to
`calls/long_way.py`.
"""
