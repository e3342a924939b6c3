"""Errors about what a node's backward returned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradscope.runtime.core.errors.declare import Case, engine_error


@engine_error(
    "gradient-count",
    "Return one value for each argument of forward (without ctx): a gradient or None.",
)
def gradient_count(node: Any, wanted: int, found: int) -> Case:
    """The backward of a custom Function returned the wrong number of gradients.

    Example:
        class Product(torch.autograd.Function):
            @staticmethod
            def forward(ctx, a, b):
                return a * b

            @staticmethod
            def backward(ctx, grad):
                return grad

        x = torch.ones(3, requires_grad=True)
        y = Product.apply(x, x)  # named below
        y.sum().backward()  # named below
    """
    return Case(
        RuntimeError,
        f"function {node.name()} returned an incorrect number of gradients "
        f"(expected {wanted}, got {found})",
        node=node,
    )


@engine_error("node-gradient-count", "Return one gradient for each of its `next_functions`.")
def node_gradient_count(node: Any, wanted: int, found: int) -> Case:
    """The number of gradients that a node returned differs from its number of edges."""
    return Case(
        RuntimeError,
        f"Function {node.name()} returned an invalid number of gradients - "
        f"got {found}, but expected {wanted}",
        node=node,
    )


@engine_error("gradient-for-no-tensor", "Return None at this position.")
def gradient_for_no_tensor(node: Any, position: int) -> Case:
    """A custom Function's backward returned a gradient for an argument that is not a tensor.

    Example:
        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, factor):
                return x * factor

            @staticmethod
            def backward(ctx, grad):
                return grad, grad

        x = torch.ones(3, requires_grad=True)
        y = Scale.apply(x, 2.0)  # named below
        y.sum().backward()  # named below
    """
    return Case(
        RuntimeError,
        f"function {node.name()} returned a gradient different than None at position "
        f"{position}, but the corresponding forward input was not a Variable",
        node=node,
    )


@engine_error("gradient-type", "Return tensors, or None where there is no gradient.")
def gradient_type(node: Any, value: Any) -> Case:
    """The backward of a custom Function returned something that is not a tensor.

    Example:
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, grad):
                return 2.0

        x = torch.ones(3, requires_grad=True)
        y = Double.apply(x)  # named below
        y.sum().backward()  # named below
    """
    return Case(RuntimeError, f"expected Variable or None (got {type(value).__name__})", node=node)


@engine_error(
    "gradient-shape",
    "Return a gradient that has the shape of the input, or can be summed to it.",
)
def gradient_shape(node: Any, index: int, found: Sequence[int], wanted: Sequence[int]) -> Case:
    """A node returned a gradient whose shape does not fit its input.

    Example:
        class Rows(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.sum(0)

            @staticmethod
            def backward(ctx, grad):
                return grad

        x = torch.ones(2, 3, requires_grad=True)
        y = Rows.apply(x)  # named below
        y.sum().backward()  # named below
    """
    return Case(
        RuntimeError,
        f"Function {node.name()} returned an invalid gradient at index {index} - got "
        f"{list(found)} but expected shape compatible with {list(wanted)}",
        node=node,
    )


@engine_error("gradient-device", "Return the gradient on the device of the input: `.to(x.device)`.")
def gradient_device(node: Any, index: int, found: Any, wanted: Any) -> Case:
    """A node returned a gradient on another device than its input.

    Example without PyTorch:
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, grad):
                return torch.full((3,), 2.0)

        x = torch.ones(3, device="sim:0", requires_grad=True)
        y = Double.apply(x)  # named below
        y.sum().backward()  # named below
    """
    return Case(
        RuntimeError,
        f"Function {node.name()} returned an invalid gradient at index {index} - "
        f"expected device {wanted} but got {found}",
        node=node,
    )


@engine_error("gradient-dtype", "Return a real gradient for a real input: take its `.real`.")
def gradient_dtype(node: Any, index: int, found: Any, wanted: Any) -> Case:
    """A node returned a complex gradient for a real input.

    Example:
        class Turn(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1j

            @staticmethod
            def backward(ctx, grad):
                return grad * -1j

        x = torch.ones(3, requires_grad=True)
        y = Turn.apply(x)  # named below
        y.abs().sum().backward()  # named below
    """
    return Case(
        RuntimeError,
        "Expected isFloatingType(grad.scalar_type()) || (input_is_complex == "
        "grad_is_complex) to be true, but got false.  (Could this error message be improved?  If "
        "so, please report an enhancement request to PyTorch.)",
        (f"{node.name()} returned {found} at index {index} for an input of {wanted}.",),
        node=node,
    )


@engine_error(
    "nan-gradient",
    "Check the inputs of the operation at the line above. `gradscope trace --level values` and "
    "then `gradscope inspect` show where the first NaN was produced, and from which values.",
)
def nan_gradient(node: Any, index: int) -> Case:
    """In anomaly mode, a node returned a gradient that contains NaN.

    The error names the first node that returned one. The NaN may have been produced before it: in
    a sum of two infinite gradients, or in a hook.

    Example:
        x = torch.zeros(3, requires_grad=True)
        with torch.autograd.set_detect_anomaly(True):
            y = x.sqrt() * 0  # named below
            y.sum().backward()  # named below
    """
    return Case(
        RuntimeError,
        f"Function '{node.name()}' returned nan values in its {index}th output.",
        node=node,
    )


@engine_error("no-backward", "Write `backward(ctx, *grad_outputs)` as a static method.")
def no_backward(node: Any) -> Case:
    """A backward reached a custom Function that does not define backward.

    Example:
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

        x = torch.ones(3, requires_grad=True)
        Double.apply(x).sum().backward()  # named below
    """
    return Case(
        NotImplementedError,
        "You must implement either the backward or vjp method for your custom "
        "autograd.Function to use it with backward mode AD.",
        node=node,
    )


@engine_error("backward-and-vjp", "Define only one of the two.")
def backward_and_vjp(name: str) -> Case:
    """A custom Function defines both `backward` and `vjp`, two names for the same method.

    Example:
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, grad):
                return grad * 2

            vjp = backward

        x = torch.ones(3, requires_grad=True)
        Double.apply(x).sum().backward()  # named below
    """
    return Case(
        RuntimeError,
        "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. "
        "You should only implement one of them.",
        (f"{name} defines both.",),
    )


@engine_error(
    "once-differentiable",
    "Remove @once_differentiable, and write backward with differentiable operations on tensors.",
)
def once_differentiable(message: str, name: str) -> Case:
    """A second derivative needs a backward that is marked as not differentiable.

    Example:
        from torch.autograd.function import once_differentiable

        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            @once_differentiable
            def backward(ctx, grad):
                return 2 * ctx.saved_tensors[0] * grad

        x = torch.ones(3, requires_grad=True)
        y = (Square.apply(x) ** 2).sum()
        (grad,) = torch.autograd.grad(y, x, create_graph=True)
        grad.sum().backward()  # named below
    """
    return Case(
        RuntimeError, message, (f"The backward of {name} returned the gradient that it reached.",)
    )
