"""Samples of inverses."""

from __future__ import annotations

from tests.runtime.core.ops.written import cases, faults

SOME = ("float32", "float16", "bfloat16", "int64", "bool", "complex128")
M, B = (3, 3), (2, 3, 3)

for _name, _text in (("inverse", "torch.inverse({})"), ("linalg.inv", "torch.linalg.inv({})")):
    cases(_name, [M], _text.format("x + torch.eye(3, dtype=torch.float64) * 5"), dtypes=())
    cases(_name, [M], _text.format("x"), dtypes=SOME, tolerance=200.0)
    cases(_name, [B], _text.format("x"), _text.format("x.mT"), dtypes=(), tolerance=200.0)
    cases(_name, [(0, 3, 3)], _text.format("x"), dtypes=())
    cases(_name, [(2, 0, 0)], _text.format("x"), dtypes=())
    cases(_name, [(1, 1)], _text.format("x"), dtypes=())
    faults(_name, [(2, 3)], _text.format("x"), _text.format("x[0]"), _text.format("x[0, 0]"))
    faults(_name, [M], _text.format("x.half()"), _text.format("x > 0"))
cases("inverse", [M], "x.inverse()", dtypes=())
