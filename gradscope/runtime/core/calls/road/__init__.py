"""A road: the function that a call of an operation runs, from checks and kernel to node and probe.

It is written out for each operation, a part of its text in each file here; what it cannot do by
itself it leaves to `calls/long_way.py`.
"""
