"""Why functions stop being finite, and what to write instead."""

from __future__ import annotations

import re

from gradscope.analysis.nonfinite.births import Birth
from gradscope.trace.schema import Place

Remedy = tuple[str, str]  # reason, fix

BY_PLACE: dict[Place, Remedy] = {
    Place.BUFFER: (
        "each gradient that arrived was finite; their sum is not",
        "scale the loss down, or use a wider dtype; check the nodes that send to this one",
    ),
    Place.HOOK: (
        "the hook received a finite gradient and returned this one",
        "check the hook: division by a norm of zero, scaling, or a mask are the usual causes",
    ),
    Place.GRAD: (
        "the new gradient and the one already in `.grad` were finite; their sum is not",
        "call zero_grad() between steps, or scale the loss down",
    ),
    Place.SEED: (
        "the gradient argument of backward() was not finite",
        "check what is passed to backward(gradient=…)",
    ),
    Place.LEAF: (
        "it was not finite when the program first used it: in the data, or in an initial parameter",
        "check the data with torch.isfinite(x).all() where it is loaded",
    ),
    Place.NODE_INPUT: (
        "no recorded operation explains it: something between two nodes changed the gradient",
        "check the hooks of this node",
    ),
}

FORWARD: dict[str, Remedy] = {
    "log": ("log(0) is −Inf, and log of a negative number is NaN", "torch.log(x.clamp_min(1e-12))"),
    "div": (
        "a division by zero is ±Inf, and 0/0 is NaN",
        "keep the divisor away from zero: x / (y + eps)",
    ),
    "exp": (
        "exp(x) overflows above x = 88.7 in float32",
        "work with logarithms, or subtract the maximum first",
    ),
    "sqrt": ("the square root of a negative number is NaN", "torch.sqrt(x.clamp_min(0))"),
    "rsqrt": ("1/√0 is Inf, and 1/√x of a negative x is NaN", "torch.rsqrt(x + eps)"),
    "reciprocal": ("1/0 is Inf", "keep the argument away from zero"),
    "Inf pow": (
        "the power is beyond the range of the dtype, or 0 has a negative exponent",
        "scale the base, or use a wider dtype; where it may be 0, x.clamp_min(eps) ** p",
    ),
    "NaN pow": (
        "a negative number to a fractional power is NaN",
        "keep the base positive: x.clamp_min(eps) ** p",
    ),
    "NaN xlogy": (
        "kl_div takes the log of its target, which is NaN for a log-probability below 0",
        "pass softmax(…) as the target instead of log_softmax(…), or set log_target=True",
    ),
    "NaN std": (
        "the standard deviation of one value divides by n − 1 = 0",
        "set unbiased=False, or leave out groups of one element",
    ),
    "NaN var": (
        "the variance of one value divides by n − 1 = 0",
        "set unbiased=False, or leave out groups of one element",
    ),
    "add": ("the sum is beyond the range of the dtype", "scale down, or use a wider dtype"),
    "sub": ("the difference is beyond the range of the dtype", "scale down, or use a wider dtype"),
    "NaN optimizer": (
        "the step divides 0 by 0: the gradient was always 0, and the optimizer's eps is 0 as well",
        "set the optimizer's eps above 0",
    ),
    "Inf optimizer": (
        "the update took the values beyond the range of the dtype",
        "lower the learning rate, or clip the gradients: torch.nn.utils.clip_grad_norm_",
    ),
    "norm": (
        "the squares add up beyond the range of the dtype",
        "divide by the largest element first, or use a wider dtype",
    ),
    "NaN mean": ("the mean of no elements is 0/0", "check that the tensor is not empty"),
    "Inf mean": ("the sum is beyond the range of the dtype", "scale down, or use a wider dtype"),
    "acos": ("acos is only defined from −1 to 1", "clamp the argument to [−1 + eps, 1 − eps]"),
    "asin": ("asin is only defined from −1 to 1", "clamp the argument to [−1 + eps, 1 − eps]"),
    "mul": (
        "the product is beyond the range of the dtype, or 0 · Inf",
        "scale the factors, or use a wider dtype",
    ),
    "sum": (
        "the sum is beyond the range of the dtype",
        "use mean, scale down, or use a wider dtype",
    ),
    "matmul": (
        "the products add up beyond the range of the dtype",
        "scale the factors, or use a wider dtype",
    ),
}

OUT_OF_INF: dict[str, Remedy] = {
    "softmax": (
        "every element was −Inf, as when a whole row is masked; or one was +Inf",
        "leave at least one element of each row unmasked, and avoid +Inf",
    ),
}

SAME_AS = {
    **dict.fromkeys(("addmm", "addmv", "baddbmm", "bmm", "dot", "linear", "mm", "mv"), "matmul"),
    **dict.fromkeys(("cumprod", "prod", "square"), "mul"),
    **dict.fromkeys(("cosh", "exp2", "expm1", "sinh"), "exp"),
    **dict.fromkeys(("log10", "log1p", "log2"), "log"),
    "cumsum": "sum",
    "log_softmax": "softmax",
    "linalg_vector_norm": "norm",
}
"""Functions that stop being finite for the same reason as another."""

BACKWARD: dict[str, Remedy] = {
    "log": ("the derivative of log is 1/x, which is Inf at 0", "torch.log(x.clamp_min(1e-12))"),
    "div": (
        "the derivative divides by the divisor's square",
        "keep the divisor away from zero: x / (y + eps)",
    ),
    "sqrt": ("the derivative of sqrt is 1/(2·√x), which is Inf at 0", "torch.sqrt(x + eps)"),
    "rsqrt": ("the derivative of 1/√x is Inf at 0", "torch.rsqrt(x + eps)"),
    "pow": (
        "the derivative of x**p is p·x**(p−1), which is Inf at 0 for p < 1",
        "keep the base positive: x.clamp_min(eps) ** p",
    ),
    "norm": (
        "the derivative of the norm is x/‖x‖, which is 0/0 at x = 0",
        "(x.square().sum() + eps).sqrt()",
    ),
    "std": (
        "the derivative of std is Inf or NaN when all elements are equal",
        "(x.var() + eps).sqrt()",
    ),
    "acos": (
        "the derivative of acos is Inf at −1 and 1",
        "clamp the argument to [−1 + eps, 1 − eps]",
    ),
    "asin": (
        "the derivative of asin is Inf at −1 and 1",
        "clamp the argument to [−1 + eps, 1 − eps]",
    ),
    "mul": (
        (
            "the product with the other factor is beyond the range of the dtype, or 0 · Inf; "
            "where() and masks applied later do not prevent this, as they multiply by 0 afterwards"
        ),
        "replace the bad arguments before the function, not its results: f(where(ok, x, 1.0))",
    ),
    "exp": (
        "the gradient times exp(x) is beyond the range of the dtype",
        "work with logarithms, or clamp x",
    ),
}

FROM_INF: Remedy = (
    "an earlier Inf met a zero (0 · Inf) or an Inf of the other sign (Inf − Inf)",
    "fix the Inf first: it is among the findings, or came from outside",
)

UNEXPLAINED: Remedy = (
    "its operands were finite, and its result is beyond the range of the dtype or not defined",
    "print the operands' min() and max() before this line; scale them, or use a wider dtype",
)

UNEXPLAINED_BACKWARD: Remedy = (
    "its inputs were finite, and its result is beyond the range of the dtype or not defined",
    "scale the loss down, or use a wider dtype; `gradscope render --around` shows what came before",
)


UNSEEN = "an operand that was not recorded may have held it (no node created or saved it)"
UNSEEN_FIX = "check torch.isfinite(x).all() of the inputs of this line; if they are finite"


def remedy(function: str, birth: Birth) -> Remedy:
    """Why a NaN or an Inf originated at this place, and what to write instead."""
    why, fix = _remedy(function, birth)
    if birth.unchecked and birth.place is Place.OP_OUTPUT and not birth.from_inf:
        why = why.removeprefix("its operands were finite, and ")
        return f"{UNSEEN}; otherwise {why}", f"{UNSEEN_FIX}: {fix}"
    return why, fix


def _remedy(function: str, birth: Birth) -> Remedy:
    name = function.strip("_")
    name = SAME_AS.get(name, name)
    if birth.from_inf:
        return OUT_OF_INF.get(name, FROM_INF)
    if birth.place in BY_PLACE:
        return BY_PLACE[birth.place]
    if birth.place is Place.OP_OUTPUT:
        return FORWARD.get(f"{birth.kind} {name}") or FORWARD.get(name, UNEXPLAINED)
    return BACKWARD.get(_operation(function), UNEXPLAINED_BACKWARD)


def _operation(node_name: str) -> str:
    """The operation that a node differentiates: "norm" for "LinalgVectorNormBackward0"."""
    name = re.sub(r"Backward\d*$", "", node_name).lower()
    return "norm" if name.endswith("norm") else name
