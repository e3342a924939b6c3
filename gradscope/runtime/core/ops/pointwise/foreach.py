"""`torch._foreach_…`: one function on each tensor of a list.

PyTorch has kernels for whole lists on GPUs. On the CPU it calls the function for each tensor, and
so does this runtime: a recording contains those calls.
"""

from __future__ import annotations

from gradscope.runtime.core.ops.reduce.norms import vector_norm
from gradscope.runtime.core.rows.offered import FUNCTIONS, METHODS

UNARY = (
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor",
    "frac", "lgamma", "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt",
    "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip
BINARY = ("add", "clamp_max", "clamp_min", "div", "maximum", "minimum", "mul", "pow", "sub")
WITH_NUMBER = {"maximum": "clamp_min", "minimum": "clamp_max"}


def _check(lists):
    first = lists[0]
    if not first:
        raise RuntimeError("Tensor list must have at least one tensor.")
    for other in lists[1:]:
        if len(other) != len(first):
            raise RuntimeError(
                "Tensor lists must have the same number of tensors, got "
                f"{len(first)} and {len(other)}"
            )


def _spread(other, count):
    """One operand for each tensor."""
    if isinstance(other, list | tuple):
        return other
    return [other] * count


def _on_each(name, tensors, *operands, **options):
    """Call a method of each tensor; operands are lists, or one for all."""
    _check([tensors, *(o for o in operands if isinstance(o, list | tuple))])
    spread = [_spread(operand, len(tensors)) for operand in operands]
    made = [
        METHODS[name](tensor, *rest, **options)
        for tensor, *rest in zip(tensors, *spread, strict=True)
    ]
    return list(tensors) if name.endswith("_") else tuple(made)


def _method_for(name, other, *, in_place):
    """The method for numbers or tensors: a bound may be either, also in place."""
    sample = other[0] if isinstance(other, list | tuple) and other else other
    plain = not hasattr(sample, "_array")
    if name in WITH_NUMBER and (plain or in_place):
        name = WITH_NUMBER[name]
    return name + "_" if in_place else name


def _unary(name):
    def function(self):
        return _on_each(name, self)

    return function


def _binary(name, *, in_place):
    def function(self, other, *, alpha=1):
        options = {} if alpha == 1 else {"alpha": alpha}
        return _on_each(_method_for(name, other, in_place=in_place), self, other, **options)

    return function


def _pointwise(name):
    def function(self, tensor1, tensor2, value=1, *, scalars=None):
        values = value if scalars is None else scalars
        _check([self, tensor1, tensor2])
        values = values.tolist() if hasattr(values, "_array") else values
        rows = zip(self, tensor1, tensor2, _spread(values, len(self)), strict=True)
        made = [METHODS[name](a, b, c, value=one) for a, b, c, one in rows]
        return list(self) if name.endswith("_") else tuple(made)

    return function


def lerp_(self, tensors1, weight):
    """Interpolate each tensor towards another one, in place."""
    return _on_each("lerp_", self, tensors1, weight)


def _lerp(self, tensors1, weight):
    return _on_each("lerp", self, tensors1, weight)


def _norm(self, ord=2, dtype=None):
    _check([self])
    return tuple(vector_norm(tensor, ord, dtype=dtype) for tensor in self)


def _zero_(self):
    return _on_each("zero_", self)


def _copy_(self, src, non_blocking=False):
    return _on_each("copy_", self, src)


def _clone(self, *, memory_format=None):
    return _on_each("clone", self)


def _max(self):
    _check([self])
    return tuple(METHODS["max"](tensor) for tensor in self)


def _offer(name, made):
    made.__name__ = made.__qualname__ = f"_foreach_{name}"
    FUNCTIONS[f"_foreach_{name}"] = made


for _name in UNARY:
    _offer(_name, _unary(_name))
    _offer(f"{_name}_", _unary(f"{_name}_"))
for _name in BINARY:
    _offer(_name, _binary(_name, in_place=False))
    _offer(f"{_name}_", _binary(_name, in_place=True))
for _name in ("addcdiv", "addcdiv_", "addcmul", "addcmul_"):
    _offer(_name, _pointwise(_name))
for _name, _made in {
    "lerp": _lerp, "lerp_": lerp_, "norm": _norm, "zero_": _zero_, "copy_": _copy_,
    "clone": _clone, "max": _max,
}.items():  # fmt: skip
    _offer(_name, _made)
