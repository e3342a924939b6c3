"""Samples of `torch._foreach_…`: one function on each tensor of a list.

Values only: PyTorch has nodes of its own for lists (ForeachExpBackward0), and gradscope those of
the calls on each tensor.
"""

from __future__ import annotations

from tests.runtime.core.ops.written import cases, faults
from tests.runtime.oracle import Real

PAIR = [Real((2, 3), 0.1, 0.9), Real((4,), 0.1, 0.9)]
FOUR = [Real((3,), 0.5, 2)] * 4
LISTS = "a, b = [x, y], [z, u]\n"
COPIES = "a, b = [x.clone(), y.clone()], [z, u]\n"
UNARY = (
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor",
    "frac", "lgamma", "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt",
    "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip
VALUES = {"dtypes": ("float32",), "strided": False, "grad": False}
BINARY = ("add", "clamp_max", "clamp_min", "div", "maximum", "minimum", "mul", "pow", "sub")

for _name in UNARY:
    made, written = f"_foreach_{_name}", f"_foreach_{_name}_"
    cases(made, PAIR, f"torch.{made}([x, y])", **VALUES)
    cases(
        written, PAIR, f"a = [x.clone(), y.clone()]\ntorch.{written}(a)\na",
        **VALUES,
    )  # fmt: skip
for _name in BINARY:
    made, written = f"_foreach_{_name}", f"_foreach_{_name}_"
    cases(
        made, FOUR, f"{LISTS}torch.{made}(a, b)", f"{LISTS}torch.{made}(a, 1.5)",
        f"{LISTS}torch.{made}(a, [1.5, 2.0])", **VALUES,
    )  # fmt: skip
    cases(
        written, FOUR, f"{COPIES}torch.{written}(a, b)\na", f"{COPIES}torch.{written}(a, 1.5)\na",
        **VALUES,
    )  # fmt: skip
for _name in ("addcdiv", "addcmul"):
    made, written = f"_foreach_{_name}", f"_foreach_{_name}_"
    cases(
        made, FOUR, f"{LISTS}torch.{made}(a, b, a)", f"{LISTS}torch.{made}(a, b, a, value=0.5)",
        f"{LISTS}torch.{made}(a, b, a, [0.5, 2.0])", **VALUES,
    )  # fmt: skip
    cases(
        written, FOUR, f"{COPIES}torch.{written}(a, b, b, value=0.5)\na",
        **VALUES,
    )  # fmt: skip
cases(
    "_foreach_lerp", FOUR, f"{LISTS}torch._foreach_lerp(a, b, 0.3)",
    f"{LISTS}torch._foreach_lerp(a, b, b)", **VALUES,
)  # fmt: skip
cases(
    "_foreach_lerp_", FOUR, f"{COPIES}torch._foreach_lerp_(a, b, 0.3)\na",
    **VALUES,
)  # fmt: skip
cases(
    "_foreach_norm", PAIR, "torch._foreach_norm([x, y])", "torch._foreach_norm([x, y], 1)",
    **VALUES,
)  # fmt: skip
cases("_foreach_max", PAIR, "torch._foreach_max([x, y])", **VALUES)
cases("_foreach_clone", PAIR, "torch._foreach_clone([x, y])", **VALUES)
cases("_foreach_copy_", FOUR, f"{COPIES}torch._foreach_copy_(a, b)\na", **VALUES)
cases(
    "_foreach_zero_", PAIR, "a = [x.clone(), y.clone()]\ntorch._foreach_zero_(a)\na",
    **VALUES,
)  # fmt: skip
faults("_foreach_exp", [(3,)], "torch._foreach_exp([])")
faults("_foreach_add", [(3,)], "torch._foreach_add([x, x], [x])", "torch._foreach_add([], [])")
