"""Errors about what backward and grad were called with."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.errors.declare import Case, engine_error, engine_warning


@engine_error(
    "no-grad-fn",
    "Let something that requires grad lead to it: see where it was cut off (`no_grad`, `detach()`, "
    "`.data`, `item()`, a new tensor, an integer operation).",
)
def no_grad_fn(index: int, tensor: Any) -> Case:
    """A backward was to start at a tensor that no gradient can leave.

    Nothing that requires grad went into it, or it was cut off from what did.

    Example:
        w = torch.ones(3, requires_grad=True)
        with torch.no_grad():
            loss = w.sum()  # named below
        loss.backward()
    """
    return Case(
        RuntimeError,
        f"element {index} of tensors does not require grad and does not have a grad_fn",
        tensor=tensor,
    )


@engine_error(
    "not-a-scalar", "Reduce it to one number (`.sum()`, `.mean()`), or give the gradient to start."
)
def not_a_scalar(shape: Any, tensor: Any) -> Case:
    """A backward was to start at several numbers, without saying how much each of them counts.

    Example:
        x = torch.ones(3, requires_grad=True)
        y = x * 2  # named below
        y.backward()
    """
    return Case(
        RuntimeError,
        "grad can be implicitly created only for scalar outputs",
        (f"It has the shape {list(shape)}.",),
        tensor=tensor,
    )


@engine_error("not-real", "Take `.abs()` or `.real` of it, or give the gradient to start with.")
def not_real(dtype: Any, tensor: Any) -> Case:
    """A backward was to start at a complex number, which has no slope of its own.

    Example:
        z = torch.tensor(1 + 2j, requires_grad=True)
        (z * 2).backward()  # named below
    """
    return Case(
        RuntimeError,
        f"grad can be implicitly created only for real scalar outputs but got {dtype}",
        tensor=tensor,
    )


@engine_error("seed-shape", "Give a gradient of the shape of the output.")
def seed_shape(index: int, seed: Any, output: Any) -> Case:
    """The gradient to start with has another shape than the output it is for.

    Example:
        x = torch.ones(3, requires_grad=True)
        (x * 2).backward(torch.ones(2))
    """
    return Case(
        RuntimeError,
        f"Mismatch in shape: grad_output[{index}] has a shape of {seed} and "
        f"output[{index}] has a shape of {output}.",
    )


@engine_error("seed-dtype", "Give a complex gradient for a complex output, a real one for a real.")
def seed_dtype(index: int, seed: Any, output: Any) -> Case:
    """Of the gradient to start with and the output it is for, one is complex and one is not.

    Example:
        x = torch.ones(3, requires_grad=True)
        (x * 2).backward(torch.ones(3, dtype=torch.complex64))
    """
    return Case(
        RuntimeError,
        "For complex Tensors, both grad_output and output are required to have the same dtype. "
        f"Mismatch in dtype: grad_output[{index}] has a dtype of {seed} and "
        f"output[{index}] has a dtype of {output}.",
    )


@engine_error("batch-shape", "Stack the gradients along a new first dimension.")
def batch_shape(index: int, seed: Any, output: Any) -> Case:
    """A row of a batch of gradients has another shape than the output it is for.

    Example:
        x = torch.ones(3, requires_grad=True)
        torch.autograd.grad(x * 2, x, torch.ones(5, 2), is_grads_batched=True)
    """
    return Case(
        RuntimeError,
        "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the "
        "batch dimension. The sizes of the remaining dimensions are expected to match the shape of "
        f"corresponding output, but a mismatch was detected: grad_output[{index}] has a shape of "
        f"{seed} and output[{index}] has a shape of {output}. If you only want some "
        "tensors in `grad_output` to be considered batched, consider using vmap.",
    )


@engine_error("batch-of-edge", "Start from the tensor itself.")
def batch_of_edge() -> Case:
    """A batch of gradients was to start from an edge.

    Example:
        x = torch.ones(3, requires_grad=True)
        edge = torch.autograd.graph.get_gradient_edge(x * 2)
        torch.autograd.grad(edge, x, torch.ones(5, 2), is_grads_batched=True)
    """
    return Case(RuntimeError, "Batched grads are not supported with GradientEdge")


@engine_error("seed-type", "Give a tensor: `torch.tensor(1.0)`.")
def seed_type(seed: Any) -> Case:
    """The gradient to start with is no tensor.

    Example:
        x = torch.ones(3, requires_grad=True)
        torch.autograd.backward(x.sum(), [1.0])
    """
    return Case(
        TypeError, f"gradients can be either Tensors or None, but got {type(seed).__name__}"
    )


@engine_error("seed-count", "Give one gradient, or None, for each output.")
def seed_count(roots: int, seeds: int) -> Case:
    """There are not as many gradients to start with as outputs.

    Example:
        x = torch.ones(3, requires_grad=True)
        torch.autograd.backward([x * 2, x * 3], [torch.ones(3)])
    """
    return Case(RuntimeError, f"got {roots} tensors and {seeds} gradients")


@engine_error("seeds-twice", "Use `grad_tensors` alone.")
def seeds_twice() -> Case:
    """The gradients to start with were given under the new name and the old one.

    Example:
        import warnings

        warnings.simplefilter("ignore")
        x = torch.ones(3, requires_grad=True)
        one = torch.ones(3)
        torch.autograd.backward(x * 2, grad_tensors=one, grad_variables=one)
    """
    return Case(
        RuntimeError,
        "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to "
        "`backward()`. Please only use `grad_tensors`.",
    )


@engine_warning(
    "grad-holds-graph",
    "Use `torch.autograd.grad(..., create_graph=True)`, or set `.grad` to None after use.",
    once=True,
)
def grad_holds_graph() -> Case:
    """`backward(create_graph=True)` leaves gradients in `.grad` that hold their own graph.

    That graph leads back to the leaf, and so neither is freed while the other is held. It is said
    once in a process.

    Example:
        x = torch.ones(3, requires_grad=True)
        (x * x).sum().backward(create_graph=True)
    """
    return Case(
        UserWarning,
        "Using backward() with create_graph=True will create a reference cycle between the "
        "parameter and its gradient which can cause a memory leak. We recommend using "
        "autograd.grad when creating the graph to avoid this. If you have to use this function, "
        "make sure to reset the .grad fields of your parameters to None after use to break the "
        "cycle and avoid the leak.",
    )


@engine_error(
    "unused-input",
    "Ask for what leads to the output, or pass allow_unused=True and get None (with "
    "materialize_grads=True: zeros).",
)
def unused_input(index: int, tensor: Any) -> Case:
    """`grad` was asked about a tensor that the outputs do not come from.

    Often it is a tensor of the same value: a copy made later, a parameter that was replaced.

    Example:
        x = torch.ones(3, requires_grad=True)
        used = x * 2
        unused = x * 2  # named below
        torch.autograd.grad(used.sum(), unused)
    """
    return Case(
        RuntimeError,
        f"The differentiated Tensor at index {index} appears to not have been used in the "
        "graph. Set allow_unused=True if this is the desired behavior.",
        tensor=tensor,
    )


@engine_error(
    "input-without-grad", "Set requires_grad before the forward pass, or do not ask about it."
)
def input_without_grad(tensor: Any) -> Case:
    """`grad`, or `inputs=`, was asked about a tensor that does not require grad.

    Example:
        x = torch.ones(3, requires_grad=True)
        y = x.detach()  # named below
        torch.autograd.grad(x.sum(), y)
    """
    return Case(
        RuntimeError, "One of the differentiated Tensors does not require grad", tensor=tensor
    )


@engine_error("no-inputs", "Ask for something, or leave `inputs` out: then all leaves get theirs.")
def no_inputs(caller: str) -> Case:
    """`inputs` was given and is empty.

    Example:
        x = torch.ones(3, requires_grad=True)
        x.sum().backward(inputs=[])
    """
    return Case(RuntimeError, f"`inputs` argument to `{caller}()` cannot be empty.")


@engine_error("input-type", "Give tensors, or edges from `torch.autograd.graph`.")
def input_type(given: Any) -> Case:
    """One of `inputs` is no tensor.

    Example:
        x = torch.ones(3, requires_grad=True)
        torch.autograd.grad(x.sum(), ["x"])
    """
    return Case(
        RuntimeError,
        f"all inputs have to be Tensors or GradientEdges, but got {type(given).__name__}",
    )


@engine_error("inputs-mapping", "Give a dict, or a sequence.")
def inputs_mapping(caller: str, given: Any) -> Case:
    """`inputs` is a mapping of another type than dict.

    Example:
        from types import MappingProxyType

        x = torch.ones(3, requires_grad=True)
        torch.autograd.grad(x.sum(), MappingProxyType({"x": x}))
    """
    return Case(
        TypeError,
        f"`inputs` argument to `{caller}()` must be a dict, not {type(given).__name__}. "
        "Other Mapping types are not supported.",
    )


@engine_error("output-type", "Give tensors, or edges from `torch.autograd.graph`.")
def output_type() -> Case:
    """A backward was to start at something that is no tensor.

    Example:
        torch.autograd.backward([3.0])
    """
    return Case(AssertionError, "Expected output to be a torch.Tensor")


@engine_error("materialize-unused", "Leave allow_unused out: zeros stand for what is unused.")
def materialize_unused() -> Case:
    """`materialize_grads=True` makes zeros for unused inputs, `allow_unused=False` refuses them.

    Example:
        x = torch.ones(3, requires_grad=True)
        torch.autograd.grad(x.sum(), x, allow_unused=False, materialize_grads=True)
    """
    return Case(
        ValueError,
        "Expected allow_unused to be True or not passed when "
        "materialize_grads=True, but got: allow_unused=False.",
    )


@engine_error("materialize-edge", "Ask for the tensor itself, or leave materialize_grads out.")
def materialize_edge() -> Case:
    """An edge knows no device to make zeros on.

    Example:
        x = torch.ones(3, requires_grad=True)
        y = x * 2
        edge = torch.autograd.graph.get_gradient_edge(y)
        torch.autograd.grad(x.sum(), edge, materialize_grads=True)
    """
    return Case(
        RuntimeError, "materialize_grads cannot be used when the given input is a GradientEdge"
    )


@engine_error("edge-without-grad", "Ask for the edge of a tensor that requires grad.")
def edge_without_grad(tensor: Any) -> Case:
    """No gradient arrives at this tensor, so there is no place where it would.

    Example:
        y = torch.ones(3) * 2  # named below
        torch.autograd.graph.get_gradient_edge(y)
    """
    return Case(
        RuntimeError,
        "It is not possible to get the gradient edge for a Tensor that does not require gradients",
        tensor=tensor,
    )


@engine_error("left-over", "Report it: a count of gradients was wrong.")
def left_over(count: int) -> Case:
    """A backward ended while nodes still waited for gradients.

    No program can bring that about: it would be a fault of the engine.
    """
    waiting = f"{count} nodes were still waiting for gradients."
    return Case(RuntimeError, "could not compute gradients for some functions", (waiting,))


@engine_error("callback-outside", "Queue it in a hook or in a custom Function's backward.")
def callback_outside() -> Case:
    """A callback for the end of a backward was queued while none was running.

    Example:
        from torch.autograd import Variable

        Variable._execution_engine.queue_callback(print)
    """
    return Case(RuntimeError, "Final callbacks can only be installed during backward pass.")
