"""Errors about leaves and their gradients: flags, `.grad`, and what is only for leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradscope.runtime.core.errors.declare import Case, engine_error, engine_warning


@engine_error(
    "integer-gradient",
    "Convert it to a floating dtype first: `.float()`, or `dtype=torch.float32`.",
)
def integer_gradient(text: str, tensor: Any) -> Case:
    """`requires_grad` was set for an integer or bool tensor.

    A derivative needs continuous values.

    Example:
        x = torch.tensor([1, 2, 3])
        x.requires_grad_()
    """
    return Case(RuntimeError, text, tensor=tensor)


@engine_error(
    "flag-of-non-leaf",
    "Use `detach()` to get a tensor of the same values that does not require grad.",
)
def flag_of_non_leaf(hint: str, tensor: Any) -> Case:
    """`requires_grad` of an operation's result was set; its inputs decide it.

    Example:
        y = torch.ones(3, requires_grad=True) * 2  # named below
        y.requires_grad_(False)
    """
    return Case(
        RuntimeError,
        f"you can only change requires_grad flags of leaf variables.{hint}",
        tensor=tensor,
    )


@engine_error("flag-type", "Assign True or False.")
def flag_type() -> Case:
    """`requires_grad` was assigned something that is not a bool, or deleted.

    Example:
        x = torch.ones(3)
        x.requires_grad = 1
    """
    return Case(RuntimeError, "requires_grad must be a bool")


@engine_error("integer-data", "Assign data of a floating dtype.")
def integer_data(tensor: Any) -> Case:
    """`.data` of a tensor that requires grad was assigned an integer tensor.

    Example:
        x = torch.ones(3, requires_grad=True)
        x.data = torch.tensor([1, 2, 3])
    """
    return Case(
        RuntimeError,
        "data set to a tensor that requires gradients must be floating point or complex dtype",
        tensor=tensor,
    )


@engine_error("data-deleted", "Delete the tensor.")
def data_deleted() -> Case:
    """`.data` was deleted.

    Example:
        x = torch.ones(3)
        del x.data
    """
    return Case(RuntimeError, "Deleting tensor data is not allowed. Delete tensor instead!")


@engine_error(
    "grad-does-not-fit", "Set `.grad` to None when you assign data of another shape to the leaf."
)
def grad_does_not_fit(text: str, tensor: Any) -> Case:
    """A gradient arrived at a leaf whose `.grad` has another shape.

    Example:
        x = torch.ones(3, requires_grad=True)
        x.sum().backward()
        x.data = torch.ones(2)
        (x * 2).sum().backward()  # named below
    """
    return Case(RuntimeError, text, tensor=tensor)


@engine_error(
    "leaf-with-history",
    "Write to a clone of the leaf, or run the forward pass again after the write.",
)
def leaf_with_history(tensor: Any) -> Case:
    """A gradient arrived for a leaf that has since become the result of an in-place operation.

    Its `requires_grad` was turned off, so that the write was allowed; the graph that was made
    before still leads to it as a leaf.

    Example:
        x = torch.ones(3, requires_grad=True)
        y = x * 2
        x.requires_grad_(False)
        x.mul_(y)  # named below
        x.sum().backward()  # named below
    """
    return Case(
        RuntimeError,
        "leaf variable has been moved into the graph interior",
        tensor=tensor,
        writes=tensor._versions,
    )


@engine_error("grad-type", "Assign a tensor, or None.")
def grad_type(value: Any) -> Case:
    """`.grad` was assigned something that is not a tensor.

    Example:
        x = torch.ones(3, requires_grad=True)
        x.grad = 0
    """
    return Case(
        TypeError,
        "assigned grad expected to be a Tensor or None but got grad of type "
        f"{type(value).__name__}",
    )


@engine_error("grad-is-itself", "Assign a clone() of the tensor.")
def grad_is_itself(tensor: Any) -> Case:
    """A tensor was assigned to its own `.grad`.

    Example:
        x = torch.ones(3, requires_grad=True)
        x.grad = x
    """
    return Case(RuntimeError, "can't assign Variable as its own grad", tensor=tensor)


@engine_error("grad-dtype", "Convert it first: `x.grad = g.to(x.dtype)`.")
def grad_dtype(found: str, wanted: str, tensor: Any) -> Case:
    """`.grad` was assigned a tensor of another dtype.

    Example:
        x = torch.ones(3, requires_grad=True)
        x.grad = torch.ones(3, dtype=torch.float64)
    """
    return Case(
        RuntimeError,
        f"attempting to assign a gradient with dtype '{found}' to a tensor with grad_dtype "
        f"'{wanted}'. The gradient must match the tensor's grad_dtype (defaults to the tensor's "
        "dtype). You can set the tensor's grad_dtype attribute with a specific dtype, or None to "
        "allow any dtype. Set grad_dtype with caution. Diverging the dtypes of a tensor and its "
        "gradient may break downstream systems that assume they match.",
        tensor=tensor,
    )


@engine_error("grad-dtype-of-non-leaf", "Only the gradient of a leaf can have another dtype.")
def grad_dtype_of_non_leaf(what: str, tensor: Any) -> Case:
    """`grad_dtype` of an operation's result was read or set.

    Example:
        y = torch.ones(3, requires_grad=True) * 2  # named below
        y.grad_dtype = torch.float64
    """
    return Case(RuntimeError, f"grad_dtype can only be {what} on leaf tensors.", tensor=tensor)


@engine_error("grad-dtype-type", "Assign a dtype, such as `torch.float32`, or None to allow any.")
def grad_dtype_type(value: Any) -> Case:
    """`grad_dtype` was set to something that is not a dtype.

    Example:
        torch.ones(3, requires_grad=True).grad_dtype = "float64"
    """
    given = type(value).__name__
    return Case(RuntimeError, f"grad_dtype must be a torch.dtype or None, but got {given}")


@engine_error("grad-dtype-of-another", "Set `x.grad = None` first.")
def grad_dtype_of_another(wanted: str, found: str, tensor: Any) -> Case:
    """`grad_dtype` was set while `.grad` holds a gradient of another dtype.

    Example:
        x = torch.ones(3, requires_grad=True)
        x.sum().backward()
        x.grad_dtype = torch.float64
    """
    return Case(
        RuntimeError,
        f"Cannot set grad_dtype to '{wanted}' because there is already a gradient with dtype "
        f"'{found}'. Please clear the gradient (.grad = None) before changing grad_dtype, or "
        "ensure the new grad_dtype matches the existing gradient's dtype.",
        tensor=tensor,
    )


@engine_error("grad-device", "Move it to the tensor's device first: `x.grad = g.to(x.device)`.")
def grad_device(found: str, wanted: str, tensor: Any) -> Case:
    """`.grad` was assigned a tensor on another device.

    Example without PyTorch:
        x = torch.ones(3, device="sim:0", requires_grad=True)
        x.grad = torch.ones(3)
    """
    return Case(
        RuntimeError,
        f"attempting to assign a gradient with device type '{found}' to a tensor with device type "
        f"'{wanted}'. Please ensure that the gradient and the tensor are on the same device",
        tensor=tensor,
    )


@engine_error("grad-shape", "Reshape it to the tensor's shape first.")
def grad_shape(found: Sequence[int], wanted: Sequence[int], tensor: Any) -> Case:
    """`.grad` was assigned a tensor of another shape.

    Example:
        x = torch.ones(3, requires_grad=True)
        x.grad = torch.ones(2)
    """
    return Case(
        RuntimeError,
        f"attempting to assign a gradient of size '{list(found)}' to a tensor of "
        f"size '{list(wanted)}'. Please ensure that the gradient and the tensor are the same size",
        tensor=tensor,
    )


@engine_error("numpy-with-grad", "Use `x.detach().numpy()`: a NumPy array has no history.")
def numpy_with_grad(tensor: Any) -> Case:
    """`numpy()` was called on a tensor that requires grad; its history would be lost silently.

    Example:
        y = torch.ones(3, requires_grad=True) * 2  # named below
        y.numpy()
    """
    return Case(
        RuntimeError,
        "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
        tensor=tensor,
    )


@engine_error("out-with-grad", "Leave `out` out, or call under `torch.no_grad()`.")
def out_with_grad(name: str, tensor: Any) -> Case:
    """An operation with `out=` was called where history is recorded.

    Example:
        x = torch.ones(3, requires_grad=True)
        torch.add(x, 1, out=torch.empty(3))
    """
    return Case(
        RuntimeError,
        f"{name}(): functions with out=... arguments don't support automatic differentiation, "
        "but one of the arguments requires grad.",
        tensor=tensor,
    )


@engine_error(
    "out-of-dtype", "Pass an `out` tensor that has the dtype of the result, or leave `out` out."
)
def out_of_dtype(text: str, tensor: Any) -> Case:
    """The result cannot be stored in the dtype of the tensor passed as `out`.

    Example:
        torch.add(torch.ones(3), 1, out=torch.empty(3, dtype=torch.int64))
    """
    return Case(RuntimeError, text, tensor=tensor)


@engine_error("out-count", "Pass one tensor for each result.")
def out_of_count(name: str, wanted: int, given: int) -> Case:
    """The list passed as `out` does not have one tensor for each result.

    Example:
        torch.unbind_copy(torch.ones(2), out=[torch.empty(())])
    """
    return Case(
        RuntimeError, f"{name} expected an out= argument of size {wanted}, got size {given}"
    )


@engine_error(
    "out-elsewhere", "Pass an `out` tensor on the device of the inputs, or leave `out` out."
)
def out_elsewhere(text: str, tensor: Any) -> Case:
    """The tensor passed as `out` is on another device than the result.

    Example:
        torch.add(torch.ones(3), 1, out=torch.empty(3, device="meta"))
    """
    return Case(RuntimeError, text, tensor=tensor)


@engine_error("copy-of-node", "Copy the leaves, and run the forward pass again.")
def copy_of_node(node: Any) -> Case:
    """`copy`, `deepcopy` or `pickle` found a node. It belongs to its graph, which is not copied.

    Example:
        import copy

        y = torch.ones(3, requires_grad=True) * 2  # named below
        copy.copy(y.grad_fn)
    """
    return Case(TypeError, f"cannot pickle '{type(node).__name__}' object", node=node)


@engine_error(
    "copy-of-non-leaf", "Copy `x.detach()`, or copy only objects whose tensors are leaves."
)
def copy_of_non_leaf(tensor: Any) -> Case:
    """`deepcopy` found the result of an operation, and the graph behind it cannot be copied.

    Example:
        import copy

        y = torch.ones(3, requires_grad=True) * 2  # named below
        copy.deepcopy(y)
    """
    return Case(
        RuntimeError,
        "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
        "protocol at the moment.  If you were attempting to deepcopy a module, this may be "
        "because of a torch.nn.utils.weight_norm usage, see "
        "https://github.com/pytorch/pytorch/pull/103001",
        tensor=tensor,
    )


@engine_warning(
    "grad-of-non-leaf", "Call `retain_grad()` on it before backward, or read `.grad` of a leaf."
)
def grad_of_non_leaf(tensor: Any) -> Case:
    """`.grad` of an operation's result was read; only leaves get a `.grad`.

    Example:
        y = torch.ones(3, requires_grad=True) * 2  # named below
        y.grad
    """
    return Case(
        UserWarning,
        "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad "
        "attribute won't be populated during autograd.backward(). If you indeed want the .grad "
        "field to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. "
        "If you access the non-leaf Tensor by mistake, make sure you access the leaf Tensor "
        "instead. See github.com/pytorch/pytorch/pull/30531 for more information.",
        tensor=tensor,
    )


@engine_warning("number-of-history", "Convert the detached tensor: `float(x.detach())`.", once=True)
def number_of_history(tensor: Any) -> Case:
    """A tensor that requires grad was converted to a Python number; no gradient flows through it.

    The warning is shown once in a process, and only where history is recorded. `x.item()` returns
    the same number without the warning.

    Example:
        y = torch.ones(1, requires_grad=True) * 2  # named below
        float(y)
    """
    return Case(
        UserWarning,
        "Converting a tensor with requires_grad=True to a scalar may lead to unexpected "
        "behavior.\nConsider using tensor.detach() first.",
        tensor=tensor,
    )
