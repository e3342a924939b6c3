"""Errors about the arguments of backward and grad."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.errors.declare import Case, engine_error, engine_warning


@engine_error(
    "no-grad-fn",
    "Compute it from a tensor that requires grad. Look for what cut the graph: `no_grad`, "
    "`detach()`, `.data`, `item()`, a new tensor, or an integer operation.",
)
def no_grad_fn(index: int, tensor: Any) -> Case:
    """A backward was called on a tensor without a graph behind it.

    No input of the tensor requires grad, or the graph between them was cut.

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


@engine_error("not-a-scalar", "Reduce it to one number (`.sum()`, `.mean()`), or pass `gradient=`.")
def not_a_scalar(shape: Any, tensor: Any) -> Case:
    """A backward was called on a tensor of several elements, without a gradient for them.

    Example:
        x = torch.ones(3, requires_grad=True)
        y = x * 2  # named below
        y.backward()
    """
    return Case(
        RuntimeError,
        "grad can be implicitly created only for scalar outputs",
        (f"The tensor has the shape {list(shape)}.",),
        tensor=tensor,
    )


@engine_error("not-real", "Take `.abs()` or `.real` of it, or pass `gradient=`.")
def not_real(dtype: Any, tensor: Any) -> Case:
    """A backward was called on a complex number, without a gradient for it.

    Example:
        z = torch.tensor(1 + 2j, requires_grad=True)
        (z * 2).backward()  # named below
    """
    return Case(
        RuntimeError,
        f"grad can be implicitly created only for real scalar outputs but got {dtype}",
        tensor=tensor,
    )


@engine_error("seed-shape", "Pass a gradient that has the shape of the output.")
def seed_shape(index: int, seed: Any, output: Any) -> Case:
    """The gradient passed to backward has a different shape than its output.

    Example:
        x = torch.ones(3, requires_grad=True)
        (x * 2).backward(torch.ones(2))
    """
    return Case(
        RuntimeError,
        f"Mismatch in shape: grad_output[{index}] has a shape of {seed} and "
        f"output[{index}] has a shape of {output}.",
    )


@engine_error(
    "seed-dtype", "Pass a complex gradient for a complex output, a real one for a real output."
)
def seed_dtype(index: int, seed: Any, output: Any) -> Case:
    """Of the gradient passed to backward and its output, one is complex and the other is not.

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
    """A row of a batch of gradients has a different shape than its output.

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


@engine_error("batch-of-edge", "Pass the tensor itself as output.")
def batch_of_edge() -> Case:
    """`is_grads_batched=True` was used with an edge as output.

    Example:
        x = torch.ones(3, requires_grad=True)
        edge = torch.autograd.graph.get_gradient_edge(x * 2)
        torch.autograd.grad(edge, x, torch.ones(5, 2), is_grads_batched=True)
    """
    return Case(RuntimeError, "Batched grads are not supported with GradientEdge")


@engine_error("seed-type", "Pass a tensor: `torch.tensor(1.0)`.")
def seed_type(seed: Any) -> Case:
    """The gradient passed to backward is not a tensor.

    Example:
        x = torch.ones(3, requires_grad=True)
        torch.autograd.backward(x.sum(), [1.0])
    """
    return Case(
        TypeError, f"gradients can be either Tensors or None, but got {type(seed).__name__}"
    )


@engine_error("seed-count", "Pass one gradient, or None, for each output.")
def seed_count(roots: int, seeds: int) -> Case:
    """The number of gradients passed to backward differs from the number of outputs.

    Example:
        x = torch.ones(3, requires_grad=True)
        torch.autograd.backward([x * 2, x * 3], [torch.ones(3)])
    """
    return Case(RuntimeError, f"got {roots} tensors and {seeds} gradients")


@engine_error("seeds-twice", "Pass only `grad_tensors`.")
def seeds_twice() -> Case:
    """Gradients were passed by both the new name and the old name of the argument.

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

    That graph leads back to the leaf, so neither is freed while the other is held. The warning is
    shown once in a process.

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
    "Pass only inputs that the output is computed from, or pass allow_unused=True to get None "
    "(with materialize_grads=True: zeros).",
)
def unused_input(index: int, tensor: Any) -> Case:
    """`grad` was called with an input that the outputs are not computed from.

    Often it is a different tensor of the same values: a later copy, or a replaced parameter.

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
    "input-without-grad", "Set requires_grad before the forward pass, or leave the tensor out."
)
def input_without_grad(tensor: Any) -> Case:
    """An input of `grad`, or of `inputs=`, does not require grad.

    Example:
        x = torch.ones(3, requires_grad=True)
        y = x.detach()  # named below
        torch.autograd.grad(x.sum(), y)
    """
    return Case(
        RuntimeError, "One of the differentiated Tensors does not require grad", tensor=tensor
    )


@engine_error(
    "no-inputs",
    "Pass at least one input, or leave `inputs` out to get the gradients of all leaves.",
)
def no_inputs(caller: str) -> Case:
    """`inputs` is empty.

    Example:
        x = torch.ones(3, requires_grad=True)
        x.sum().backward(inputs=[])
    """
    return Case(RuntimeError, f"`inputs` argument to `{caller}()` cannot be empty.")


@engine_error("input-type", "Pass tensors, or edges from `torch.autograd.graph`.")
def input_type(given: Any) -> Case:
    """An element of `inputs` is not a tensor.

    Example:
        x = torch.ones(3, requires_grad=True)
        torch.autograd.grad(x.sum(), ["x"])
    """
    return Case(
        RuntimeError,
        f"all inputs have to be Tensors or GradientEdges, but got {type(given).__name__}",
    )


@engine_error("inputs-mapping", "Pass a dict, or a sequence.")
def inputs_mapping(caller: str, given: Any) -> Case:
    """`inputs` is a mapping, but not a dict.

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


@engine_error("output-type", "Pass tensors, or edges from `torch.autograd.graph`.")
def output_type() -> Case:
    """A backward was called on something that is not a tensor.

    Example:
        torch.autograd.backward([3.0])
    """
    return Case(AssertionError, "Expected output to be a torch.Tensor")


@engine_error("materialize-unused", "Leave allow_unused out: unused inputs get zeros.")
def materialize_unused() -> Case:
    """`materialize_grads=True` returns zeros for unused inputs, `allow_unused=False` forbids them.

    Example:
        x = torch.ones(3, requires_grad=True)
        torch.autograd.grad(x.sum(), x, allow_unused=False, materialize_grads=True)
    """
    return Case(
        ValueError,
        "Expected allow_unused to be True or not passed when "
        "materialize_grads=True, but got: allow_unused=False.",
    )


@engine_error("materialize-edge", "Pass the tensor itself, or leave materialize_grads out.")
def materialize_edge() -> Case:
    """`materialize_grads=True` was used with an edge, which has no device to make zeros on.

    Example:
        x = torch.ones(3, requires_grad=True)
        y = x * 2
        edge = torch.autograd.graph.get_gradient_edge(y)
        torch.autograd.grad(x.sum(), edge, materialize_grads=True)
    """
    return Case(
        RuntimeError, "materialize_grads cannot be used when the given input is a GradientEdge"
    )


@engine_error("edge-without-grad", "Get the edge of a tensor that requires grad.")
def edge_without_grad(tensor: Any) -> Case:
    """The edge of a tensor that does not require grad was requested; it has none.

    Example:
        y = torch.ones(3) * 2  # named below
        torch.autograd.graph.get_gradient_edge(y)
    """
    return Case(
        RuntimeError,
        "It is not possible to get the gradient edge for a Tensor that does not require gradients",
        tensor=tensor,
    )


@engine_error("left-over", "Report this as a bug of gradscope: a count of gradients was wrong.")
def left_over(count: int) -> Case:
    """A backward ended while nodes were still waiting for gradients.

    No program can cause this: it would be a bug of the engine.
    """
    waiting = f"{count} nodes were still waiting for gradients."
    return Case(RuntimeError, "could not compute gradients for some functions", (waiting,))


@engine_error("callback-outside", "Queue it in a hook or in a custom Function's backward.")
def callback_outside() -> Case:
    """A callback for the end of a backward was queued while no backward was running.

    Example:
        from torch.autograd import Variable

        Variable._execution_engine.queue_callback(print)
    """
    return Case(RuntimeError, "Final callbacks can only be installed during backward pass.")
