"""Errors about how a custom Function is written, and what its forward marks and returns."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.errors.declare import Case, engine_error, engine_warning

LINK = "(Example: https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"


@engine_error("no-forward", "Write `forward(ctx, *inputs)` as a static method.")
def no_forward() -> Case:
    """A custom Function that does not define forward was applied.

    Example:
        class Nothing(torch.autograd.Function):
            pass

        Nothing.apply(torch.ones(3))
    """
    return Case(
        NotImplementedError,
        "You must implement the forward function for custom autograd.Function.",
    )


@engine_error(
    "no-setup-context", "Write `setup_context(ctx, inputs, output)`, or let forward take ctx."
)
def no_setup_context() -> Case:
    """`setup_context` was called on a custom Function that does not define it.

    Example:
        torch.autograd.Function.setup_context(None, (), None)
    """
    return Case(NotImplementedError, "setup_context is not implemented.")


@engine_error("no-vmap", "Write `vmap(info, in_dims, *args)` as a static method.")
def no_vmap() -> Case:
    """`vmap` was called on a custom Function that does not define it.

    Example:
        torch.autograd.Function.vmap(None, None)
    """
    return Case(
        NotImplementedError,
        "To use autograd.Function with vmap, you must either override the vmap staticmethod "
        "or set generate_vmap_rule=True.",
    )


@engine_error("function-called", "Call `apply` on the class: `Double.apply(x)`.")
def function_called() -> Case:
    """A custom Function was instantiated and called, which is the old, removed style.

    Example:
        import warnings

        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

        warnings.simplefilter("ignore")
        Double()(torch.ones(3))
    """
    return Case(
        RuntimeError,
        "Legacy autograd function with non-static forward method is deprecated. "
        f"Please use new-style autograd function with static forward method. {LINK}",
    )


@engine_error("dirty-not-returned", "Return from forward the tensor that was written to.")
def dirty_not_returned() -> Case:
    """Forward marked an input as dirty, but did not return it.

    The Function's node becomes the history of this tensor, so the Function has to return it.

    Example:
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.mark_dirty(x)
                return x.mul_(2).clone()

            @staticmethod
            def backward(ctx, grad):
                return grad * 2

        x = torch.ones(3, requires_grad=True) * 1
        Double.apply(x)
    """
    return Case(
        RuntimeError,
        "Some elements marked as dirty during the forward method were not returned as output. "
        "The inputs that are modified inplace must all be outputs of the Function.",
    )


@engine_error("dirty-leaf", "Pass a clone() of the leaf to the Function.")
def dirty_leaf(tensor: Any) -> Case:
    """Forward wrote to a leaf that requires grad (see leaf-in-place).

    Example:
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.mark_dirty(x)
                return x.mul_(2)

            @staticmethod
            def backward(ctx, grad):
                return grad * 2

        x = torch.ones(3, requires_grad=True)
        Double.apply(x)
    """
    return Case(
        RuntimeError,
        "a leaf Variable that requires grad has been used in an in-place operation.",
        tensor=tensor,
    )


@engine_error(
    "dirty-view", "Pass a clone() of the view to the Function, or return only one tensor."
)
def dirty_view(tensor: Any) -> Case:
    """Forward wrote to a view and returned several tensors.

    Example:
        class Both(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.mark_dirty(x)
                return x.mul_(2), x + 1

            @staticmethod
            def backward(ctx, grad, other):
                return grad * 2

        x = torch.ones(3, requires_grad=True) * 1
        view = x[:2]  # named below
        Both.apply(view)
    """
    return Case(
        RuntimeError,
        "If your Function modifies inplace an input that is a view of another Tensor, your "
        "Function cannot return more than one Tensor. This is not supported by the current "
        "autograd engine. You should either make sure the input is not a view (using "
        ".clone() for example) or make your Function only return one Tensor (potentially "
        "splitting it into two Functions: one doing the inplace that returns a single "
        "Tensor and a second one that does the other operations). You can ask on the forum "
        "https://discuss.pytorch.org/ if you need help to do this change.",
        tensor=tensor,
    )


@engine_error("dirty-type", "Pass to `mark_dirty` the tensors that forward wrote to.")
def dirty_type(position: int, value: Any) -> Case:
    """`mark_dirty` was called with something that is not a tensor.

    Example:
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.mark_dirty("x")
                return x * 2

        Double.apply(torch.ones(3, requires_grad=True))
    """
    return Case(  # as PyTorch, whose text ends before the number
        RuntimeError,
        "mark_dirty can only accept variables, but argument ",
        (f"Argument {position} is a {type(value).__name__}.",),
    )


@engine_error("not-differentiable-type", "Pass outputs of forward to `mark_non_differentiable`.")
def not_differentiable_type(value: Any) -> Case:
    """`mark_non_differentiable` was given something that is no tensor.

    Example:
        class Sign(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.mark_non_differentiable("x")
                return x.sign()

        Sign.apply(torch.ones(3, requires_grad=True))
    """
    return Case(  # as PyTorch, whose text ends before the name
        RuntimeError,
        "mark_non_differentiable only accepts variable arguments, but got ",
        (f"The argument is a {type(value).__name__}.",),
    )


@engine_error("save-type", "Save only tensors; store other values as attributes: `ctx.size = 3`.")
def save_type(position: int, value: Any) -> Case:
    """`save_for_backward` was called with something that is not a tensor.

    Example:
        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, factor):
                ctx.save_for_backward(factor)
                return x * factor

        Scale.apply(torch.ones(3, requires_grad=True), 2.0)
    """
    return Case(
        TypeError,
        "save_for_backward can only save variables, but argument "
        f"{position} is of type {type(value).__name__}",
    )


@engine_error(
    "save-for-forward-type", "Save only tensors; store other values as attributes: `ctx.size = 3`."
)
def save_for_forward_type() -> Case:
    """`save_for_forward` was called with something that is not a tensor.

    Example:
        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, factor):
                ctx.save_for_forward(factor)
                return x * factor

        Scale.apply(torch.ones(3, requires_grad=True), 2.0)
    """
    return Case(
        AssertionError,
        "save_for_forward expects all arguments to be tensors; you should save "
        "non-tensors as attributes on ctx.",
    )


@engine_error("marks-no-tuple", "Call methods such as `ctx.mark_dirty(x)`, which store tuples.")
def marks_no_tuple(name: str, value: Any) -> Case:
    """Forward assigned something that is not a tuple to an attribute of ctx that must be one.

    Example:
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.dirty_tensors = [x]
                return x

        x = torch.ones(3, requires_grad=True) * 1
        Double.apply(x)
    """
    return Case(  # as PyTorch, whose text ends before the name
        RuntimeError,
        f"autograd internal error: {name} attribute is expected to be a tuple but is ",
        (f"The attribute is a {type(value).__name__}.",),
    )


@engine_error("materialize-type", "Pass True or False.")
def materialize_type(value: Any) -> Case:
    """`set_materialize_grads` was called with something that is not a bool.

    Example:
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.set_materialize_grads("no")
                return x * 2

        Double.apply(torch.ones(3, requires_grad=True))
    """
    return Case(
        TypeError,
        "set_materialize_grads received an invalid combination of arguments - got (), but "
        "expected (bool)",
        (f"The argument is a {type(value).__name__}.",),
    )


@engine_error("saved-returned-input", "Save a view of it instead: `x.view_as(x)`.")
def saved_returned_input() -> Case:
    """`setup_context` saved an input that forward also returns.

    It is ambiguous whether the input is meant, or the output with its new history.

    Example:
        class Same(torch.autograd.Function):
            @staticmethod
            def forward(x):
                return x

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(*inputs)

        Same.apply(torch.ones(3, requires_grad=True))
    """
    return Case(
        RuntimeError,
        "An input that has been returned as-is as output is being saved for backward. "
        "This is not supported if you override setup_context. You should return and save "
        "a view of the input instead, e.g. with x.view_as(x) or setup ctx inside the "
        "forward function itself.",
    )


@engine_warning("dirty-not-input", "Pass to `mark_dirty` only inputs that forward wrote to.")
def dirty_not_input() -> Case:
    """Forward marked a tensor as dirty that is not one of its inputs.

    Example:
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                y = x * 2
                ctx.mark_dirty(y)
                return y

        Double.apply(torch.ones(3, requires_grad=True))
    """
    return Case(
        UserWarning,
        "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that "
        "have been mutated should be passed to ctx.mark_dirty().",
    )
