"""Errors about in-place operations that autograd cannot record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradscope.runtime.core.errors.declare import Case, engine_error


@engine_error(
    "leaf-in-place",
    "Write under `torch.no_grad()` if this is an update of a parameter; otherwise make a new "
    "tensor: `y = x + 1`.",
)
def leaf_in_place(tensor: Any) -> Case:
    """An in-place operation would write to a leaf that requires grad while history is recorded.

    The leaf would become the result of an operation, and no leaf would be left to receive the
    gradient.

    Example:
        x = torch.ones(3, requires_grad=True)
        x.add_(1)
    """
    return Case(
        RuntimeError,
        "a leaf Variable that requires grad is being used in an in-place operation.",
        tensor=tensor,
    )


@engine_error(
    "leaf-view-in-place",
    "Write under `torch.no_grad()` if this is an update of a parameter; otherwise write to a "
    "clone().",
)
def leaf_view_in_place(tensor: Any) -> Case:
    """An in-place operation would write to a view of a leaf that requires grad.

    The write would change the leaf itself (see leaf-in-place).

    Example:
        x = torch.ones(3, requires_grad=True)
        x[0].zero_()  # named below
    """
    return Case(
        RuntimeError,
        "a view of a leaf Variable that requires grad is being used in an in-place operation.",
        tensor=tensor,
    )


@engine_error(
    "view-of-several",
    "Take views one at a time (`x[0]`, `x.select(0, 0)`), or write out of place.",
)
def view_of_several(made: str, tensor: Any) -> Case:
    """An in-place operation on one of several views from one call (`unbind`, `split`, `chunk`).

    Such views share one node, and its history cannot be rewritten for one view alone. The same
    error is raised when a view of this kind is used after its base was written to.

    Example:
        x = torch.ones(3, requires_grad=True) * 2
        first, *rest = x.unbind()  # named below
        first.add_(1)
    """
    return Case(
        RuntimeError,
        f"{made} This view is the output of a function that returns multiple "
        "views. Such functions do not allow the output views to be modified inplace. You should "
        "replace the inplace operation by an out-of-place one.",
        tensor=tensor,
    )


@engine_error("view-of-custom-function", "Return a clone() from the custom Function.")
def view_of_custom_function(made: str, tensor: Any) -> Case:
    """An in-place operation would write to a view that a custom Function returned.

    The history of the write would bypass the Function's own backward.

    Example:
        class Same(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.view_as(x)

            @staticmethod
            def backward(ctx, grad):
                return grad

        x = torch.ones(3, requires_grad=True) * 2
        y = Same.apply(x)  # named below
        y.add_(1)
    """
    return Case(
        RuntimeError,
        f"{made} This view was created inside a custom Function (or because "
        "an input was returned as-is) and the autograd logic to handle view+inplace would override "
        "the custom backward associated with the custom Function, leading to incorrect gradients. "
        "This behavior is forbidden. You can fix this by cloning the output of the custom "
        "Function.",
        tensor=tensor,
    )


AMBIGUOUS = (
    "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your "
    "code by moving both the view and the inplace either both inside the {} block (if you don't "
    "want the inplace to be tracked) or both outside (if you want the inplace to be tracked)."
)


@engine_error(
    "view-from-no-grad",
    "Take the view and write to it both inside or both outside `torch.no_grad()`.",
)
def view_from_no_grad(made: str, tensor: Any) -> Case:
    """A view that was taken under `no_grad` would be written to outside of it.

    It is not clear whether the write should be recorded.

    Example:
        x = torch.ones(3, requires_grad=True) * 2
        with torch.no_grad():
            first = x[:1]  # named below
        first.mul_(2)
    """
    return Case(RuntimeError, f"{made} {AMBIGUOUS.format('no_grad')}", tensor=tensor)


@engine_error(
    "view-from-inference-mode",
    "Take the view and write to it both inside or both outside `torch.inference_mode()`.",
)
def view_from_inference_mode(made: str, tensor: Any) -> Case:
    """A view that was taken in inference mode would be written to outside of it.

    Example:
        x = torch.ones(3)
        with torch.inference_mode():
            first = x[:1]  # named below
        first.mul_(torch.ones(1, requires_grad=True))
    """
    return Case(RuntimeError, f"{made} {AMBIGUOUS.format('inference_mode')}", tensor=tensor)


@engine_error("write-to-expanded", "Write to a clone() of the tensor.")
def write_to_expanded(tensor: Any) -> Case:
    """A tensor whose elements share memory (it is expanded, or its strides overlap) was written to.

    The value of a shared element after the write would not be defined.

    Example:
        x = torch.ones(1).expand(3)  # named below
        x.add_(torch.arange(3.0))
    """
    return Case(
        RuntimeError,
        "unsupported operation: more than one element of the written-to tensor refers to a "
        "single memory location. Please clone() the tensor before performing the operation.",
        tensor=tensor,
    )


@engine_error("write-overlaps-input", "Pass a clone() of the input.")
def write_overlaps_input(tensor: Any) -> Case:
    """An operation writes into memory that another operand reads in a different order.

    Example:
        x = torch.arange(6.0)
        x[1:].add_(x[:-1])  # named below
    """
    return Case(
        RuntimeError,
        "unsupported operation: some elements of the input tensor and the written-to tensor "
        "refer to a single memory location. Please clone() the tensor before performing the "
        "operation.",
        tensor=tensor,
    )


@engine_error("write-wrong-dtype", "Convert the operand first, or write out of place.")
def write_wrong_dtype(result: str, target: str, tensor: Any) -> Case:
    """The result of an in-place operation cannot be stored in the dtype of its tensor.

    Example:
        counts = torch.ones(3, dtype=torch.int64)
        counts.mul_(0.5)
    """
    return Case(
        RuntimeError,
        f"result type {result} can't be cast to the desired output type {target}",
        tensor=tensor,
    )


@engine_error("write-wrong-shape", "Write out of place, or expand the tensor and clone() it.")
def write_wrong_shape(target: Sequence[int], result: Sequence[int], writer: str = "") -> Case:
    """The result of an in-place operation has more elements than its tensor.

    Example:
        row = torch.ones(3)
        row.add_(torch.ones(2, 3))
    """
    if writer in ("addmm_", "addmv_", "baddbmm_"):
        sizes = f"input tensor size {list(target)} and output tensor size {list(result)}"
        return Case(RuntimeError, f"Bad in-place call: {sizes} should match")
    return Case(
        RuntimeError,
        f"output with shape {list(target)} doesn't match the broadcast shape {list(result)}",
    )


@engine_error("detach-view", "Use `detach()`, which returns a new tensor.")
def detach_view(tensor: Any) -> Case:
    """A view cannot be detached in place: its base would still lead to the same history.

    Example:
        x = torch.ones(3, requires_grad=True) * 2
        x[:1].detach_()  # named below
    """
    return Case(
        RuntimeError,
        "Can't detach views in-place. Use detach() instead. If you are using "
        "DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set as "
        "True, gradients are views of DDP buckets, and hence detach_() cannot be called on "
        "these gradients. To fix this error, please refer to the Optimizer.zero_grad() "
        "function in torch/optim/optimizer.py as the solution.",
        tensor=tensor,
    )


@engine_error(
    "resize-with-grad", "Make a new tensor with `x.reshape(...)`, or resize `x.detach()`."
)
def resize_with_grad(tensor: Any) -> Case:
    """A tensor that requires grad would be resized in place.

    Example:
        y = torch.ones(3, requires_grad=True) * 2  # named below
        y.resize_(2)
    """
    return Case(RuntimeError, "cannot resize variables that require grad", tensor=tensor)


@engine_error("set-without-derivative", "Write with `copy_`, which has a derivative.")
def set_without_derivative() -> Case:
    """A gradient reached a tensor whose memory was replaced by `set_`."""
    return Case(RuntimeError, "derivative for set_ is not implemented")


@engine_error("count-of-no-tensor", "Pass a tensor, or several tensors.")
def not_tensors(text: str) -> Case:
    """`increment_version` was called with something that is not a tensor.

    Example:
        torch.autograd.graph.increment_version([1])
    """
    return Case(RuntimeError, text)
