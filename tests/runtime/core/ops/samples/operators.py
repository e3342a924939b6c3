"""Samples of what Python writes between tensors, and of aliases."""

from __future__ import annotations

import numpy as np

from tests.runtime.oracle import Fixed, Input, Real, Sample, Wrong, samples, wrong

SHAPE = (3, 4)
SAFE = Real((3, 4), 0.5, 2)
WHOLE = Fixed([[1, 2, 3], [4, 5, 6]])
FLAGS = Fixed(np.array([True, False, True]))


def written(name: str, code: str, *inputs: Input, **options: object) -> None:
    """A sample of the expression `code` in x and y."""
    compiled = compile(code, f"<sample of {name}>", "eval")
    samples(
        name,
        Sample(
            lambda torch, *given: eval(
                compiled, {"torch": torch, **dict(zip("xyz", given, strict=False))}
            ),
            *inputs,
            **options,
        ),
    )


def assigned(name: str, code: str, *inputs: Input, **options: object) -> None:
    """A sample of the statement `code`, in which x is a copy that is written to."""
    compiled = compile(code, f"<sample of {name}>", "exec")

    def call(torch: object, *given: object) -> object:
        names = {"torch": torch, **dict(zip("xyz", given, strict=False))}
        names["x"] = names["x"].clone()
        exec(compiled, names)
        return names["x"]

    samples(name, Sample(call, *inputs, **options))


for _name, _sign in {"add": "+", "sub": "-", "mul": "*", "truediv": "/"}.items():
    written(f"__{_name}__", f"x {_sign} y", SHAPE, SAFE)
    written(f"__{_name}__", f"x {_sign} 2", SHAPE)
    written(f"__{_name}__", f"x {_sign} 2.5", SHAPE)
    written(f"__r{_name}__", f"2 {_sign} x", SAFE)
    written(f"__r{_name}__", f"2.5 {_sign} x", Real((), 1, 2))
    assigned(f"__i{_name}__", f"x {_sign}= y", SHAPE, SAFE)
    assigned(f"__i{_name}__", f"x {_sign}= 2.5", SHAPE)
    wrong(
        f"__{_name}__",
        Wrong(lambda torch, x, s=_sign: eval(f"x {s} None", {"x": x}), (3,)),
        Wrong(lambda torch, x, s=_sign: eval(f"x {s} 'a'", {"x": x}), (3,)),
        Wrong(lambda torch, x, s=_sign: eval(f"x {s} [1, 2, 3]", {"x": x}), (3,)),
    )
written("__pow__", "x ** 2", SHAPE)
written("__pow__", "x ** y", SAFE, (4,))
written("__rpow__", "2 ** x", SHAPE)
written("__rpow__", "2.5 ** x", SHAPE)
assigned("__ipow__", "x **= 2", SHAPE)
for _name, _sign in {"floordiv": "//", "mod": "%"}.items():
    written(f"__{_name}__", f"x {_sign} y", SHAPE, SAFE, grad=_name == "mod")
    written(f"__{_name}__", f"x {_sign} 2", SHAPE, grad=_name == "mod")
    written(f"__r{_name}__", f"7 {_sign} x", SAFE, grad=False)
    assigned(f"__i{_name}__", f"x {_sign}= 2", SHAPE, grad=_name == "mod")
written("__matmul__", "x @ y", (3, 4), (4, 2))
written("__neg__", "-x", SHAPE)
written("__pos__", "+x * 2", SHAPE)
written("__abs__", "abs(x)", SHAPE)
written("__invert__", "~x", WHOLE, grad=False)
written("__invert__", "~x", FLAGS, grad=False)
for _name, _sign in {"and": "&", "or": "|", "xor": "^"}.items():
    written(f"__{_name}__", f"x {_sign} y", FLAGS, Fixed(np.array([True, True, False])), grad=False)
    written(f"__{_name}__", f"x {_sign} 3", WHOLE, grad=False)
    written(f"__r{_name}__", f"3 {_sign} x", WHOLE, grad=False)
    assigned(f"__i{_name}__", f"x {_sign}= 3", WHOLE, grad=False)
for _name, _sign in {"lshift": "<<", "rshift": ">>"}.items():
    written(f"__{_name}__", f"x {_sign} 1", WHOLE, grad=False)
    written(f"__r{_name}__", f"9 {_sign} x", WHOLE, grad=False)
    assigned(f"__i{_name}__", f"x {_sign}= 1", WHOLE, grad=False)
for _name, _sign in {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items():
    written(f"__{_name}__", f"x {_sign} y", SHAPE, SHAPE, grad=False)
    written(f"__{_name}__", f"x {_sign} 1", SHAPE, grad=False)
    written(f"__{_name}__", f"0.5 {_sign} x", SHAPE, grad=False)
written("__eq__", "(x == None, x != 'a')", SHAPE, grad=False)
wrong("__lt__", Wrong(lambda torch, x: x < None, (3,)))
for _name in ("rand", "ror", "rxor", "radd", "rmul"):
    wrong(
        f"__{_name}__",
        Wrong(lambda torch, x, n=_name: getattr(torch.Tensor, f"__{n}__")(3, x), (3,)),
    )
