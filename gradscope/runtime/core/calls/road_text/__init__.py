"""Generated code of operations: a *road* is the function that a call of an operation runs.

It includes checks, kernel, node and probe. `call_text.py` assembles it, the others write a part of
it each, `scope.py` has its globals. What it does not support it passes to `calls/long_way.py`.
"""
