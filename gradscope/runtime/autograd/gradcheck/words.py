"""Messages of gradcheck."""

from __future__ import annotations

from typing import Any

NOT_REENTRANT = (
    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple "
    "times gives different values, although analytical gradient matches numerical gradient."
    "The tolerance for nondeterminism was {tolerance}.\n\n"
    "Two backwards through one graph with the same gradient gave different numbers. If that is as "
    "it should be (a sum in no fixed order, say), allow for it with `nondet_tol=...`. Otherwise "
    "look for random numbers, or for state that a backward changes."
)

NOT_ZERO = "Numerical gradient for function expected to be zero"

UNDEFINED_REFUSED = (
    "Expected backward function to handle undefined output grads. "
    'Please look at "Notes about undefined output gradients" in "tools/autograd/derivatives.yaml"'
    "\nA gradient that never came reaches a backward as None where its Function said "
    "`set_materialize_grads(False)`, and must then be treated as zeros."
)

UNDEFINED_NOT_ZERO = (
    "Expected all input grads to be undefined or zero when all output grads are undefined or zero. "
    'Please look at "Notes about undefined output gradients" in "tools/autograd/derivatives.yaml"'
    "\nThis backward makes a gradient out of none: what it returns must be zeros, or None, when it "
    "gets nothing else."
)

UNDEFINED_WARNING = (
    "Backwards compatibility: New undefined gradient support checking feature is enabled by "
    "default, but it may break existing callers of this function. If this is true for you, you can "
    'call this function with "check_undefined_grad=False" to disable the feature'
)

BATCHED = (
    "gradcheck or gradgradcheck failed while testing batched gradient computation.\n"
    "A backward for several gradients at once must give what one backward for each of them gives. "
    "To leave this out, say `check_batched_grad=False`."
)

BATCHED_FORWARD = (
    "gradcheck failed while testing batched gradient computation with forward-mode AD.\n"
    "One pass with several tangents must give what one pass with each of them gives. To leave this "
    "out, say `check_batched_forward_grad=False`."
)

CLOSE_NUMBER_BY_NUMBER = (
    "Fast gradcheck failed but element-wise differences are small. This means that the test "
    "might've passed in slow_mode!\n"
    "Each number is close enough by itself, their weighted sum is not: `fast_mode=False` compares "
    "number by number."
)


def not_close(analytical: Any, numerical: Any, output: int, at: int, case: Any) -> str:
    """Message: two derivatives of an output by an input differ."""
    of_complex = (at if case.forward else output) in case.complex_indices
    part = "imaginary" if case.imaginary else "real"
    elements = "inputs" if case.forward else "outputs"
    which = f"While considering the {part} part of complex {elements} only, " if of_complex else ""
    mode = "computed with forward mode " if case.forward else ""
    return (
        f"{which}Jacobian {mode}mismatch for output {output} with respect to input {at},\n"
        f"numerical:{numerical}\nanalytical:{analytical}\n"
    )


def in_slow_mode(analytical: Any, numerical: Any, *, close: bool) -> str:
    """Addition to a message of fast mode: the full matrices."""
    difference = (numerical - analytical).abs().max()
    text = (
        "\nThe above quantities relating the numerical and analytical jacobians are computed \n"
        "in fast mode: weighted sums of all numbers. Number by number the jacobians are\n\n"
        f"Numerical:\n {numerical}\nAnalytical:\n{analytical}\n\n"
        f"The max per-element difference (slow mode) is: {difference}.\n"
    )
    return text + CLOSE_NUMBER_BY_NUMBER if close else text


def batched_differs(output: int, at: int, found: Any, expected: Any, text: str) -> str:
    return (
        f"For output {output} and input {at}:\n\n{text}\n\nGot:\n{found}\n\nExpected:\n{expected}"
    )


def overlapping(index: int) -> str:
    return (
        f"The {index}th input has a dimension with stride 0. gradcheck only supports inputs that "
        "are non-overlapping to be able to compute the numerical gradients correctly. You should "
        "call .contiguous on the input before passing it to gradcheck."
    )


def not_double(index: int) -> str:
    return (
        f"Input #{index} requires gradient and is not a double precision floating point or "
        "complex. This check will likely fail if all the inputs are not of double precision "
        "floating point or complex. "
    )


NOTHING_TO_CHECK = (
    "gradcheck expects at least one input tensor to require gradient, "
    "but none of them have requires_grad=True."
)
