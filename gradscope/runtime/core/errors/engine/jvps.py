"""Errors about the jvp of a custom Function."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.errors.declare import Case, engine_error

VIEW = "`g.view_as(g)` is a view of all of `g`."


@engine_error("jvp-missing", "Write `jvp(ctx, *tangents)` as a static method.")
def no_jvp() -> Case:
    """A custom Function that does not define jvp was applied to a dual tensor.

    Example:
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

        with torch.autograd.forward_ad.dual_level():
            Double.apply(torch.autograd.forward_ad.make_dual(torch.ones(3), torch.ones(3)))
    """
    return Case(
        NotImplementedError,
        "You must implement the jvp function for custom autograd.Function to use it with forward "
        "mode AD.",
    )


@engine_error(
    "jvp-type", "Return a tensor or None for each output; use a tuple for several outputs."
)
def jvp_type(value: Any, position: int) -> Case:
    """A custom Function's jvp returned something that is not a tensor.

    Example:
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def jvp(ctx, x_t):
                return 2

        with torch.autograd.forward_ad.dual_level():
            Double.apply(torch.autograd.forward_ad.make_dual(torch.ones(3), torch.ones(3)))
    """
    return Case(
        RuntimeError,
        f"expected Variable or None (got {type(value).__name__}) for grad output {position}.",
    )


@engine_error("jvp-count", "Return one tangent, or None, for each output of forward.")
def jvp_count(wanted: int, found: int) -> Case:
    """The number of tangents that jvp returned differs from the number of outputs of forward.

    Example:
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def jvp(ctx, x_t):
                return x_t * 2, None

        with torch.autograd.forward_ad.dual_level():
            Double.apply(torch.autograd.forward_ad.make_dual(torch.ones(3), torch.ones(3)))
    """
    return Case(
        RuntimeError,
        "Function's jvp returned an invalid number of forward gradients "
        f"(expected {wanted} but got {found})",
    )


@engine_error("jvp-surplus", "Return None at this position.")
def jvp_surplus(position: int) -> Case:
    """A custom Function's jvp returned a tangent for an output that is not differentiable.

    Example:
        class Both(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                sign = x.sign()
                ctx.mark_non_differentiable(sign)
                return x * 2, sign

            @staticmethod
            def jvp(ctx, x_t):
                return x_t * 2, x_t

        with torch.autograd.forward_ad.dual_level():
            Both.apply(torch.autograd.forward_ad.make_dual(torch.ones(3), torch.ones(3)))
    """
    return Case(
        RuntimeError,
        f"Function's jvp returned a gradient at position {position}, but  the corresponding "
        "forward output is not a differentiable Tensor.You should return None at that position "
        "instead.",
    )


@engine_error("jvp-none", "Return zeros for an output whose tangent is zero.")
def jvp_none(position: int) -> Case:
    """A custom Function's jvp returned None for a differentiable output."""
    return Case(
        RuntimeError,
        "Expected both tensor and its forward grad to be floating point or complex",
        known=(f"The jvp returned None for output {position}.",),
    )


@engine_error("jvp-not-in-place", "Write in place to the tangent that jvp receives, and return it.")
def jvp_not_in_place() -> Case:
    """Forward wrote to an input, but jvp did not write to the tangent of that input.

    Example:
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.mark_dirty(x)
                return x.mul_(2)

            @staticmethod
            def jvp(ctx, x_t):
                return x_t * 2

        with torch.autograd.forward_ad.dual_level():
            Double.apply(torch.autograd.forward_ad.make_dual(torch.ones(3), torch.ones(3)))
    """
    return Case(
        RuntimeError,
        "An inplace custom Function is not modifying the forward mode gradients inplace. If the "
        "forward is modifying an input inplace, then the jvp function must modify the "
        "corresponding gradient inplace.",
    )


@engine_error("jvp-not-as-is", "Return the same tangent object that jvp received.")
def jvp_not_as_is() -> Case:
    """Forward wrote to an input; jvp wrote to its tangent, but returned another tensor.

    Example:
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.mark_dirty(x)
                return x.mul_(2)

            @staticmethod
            def jvp(ctx, x_t):
                return x_t.mul_(2)[:]

        with torch.autograd.forward_ad.dual_level():
            Double.apply(torch.autograd.forward_ad.make_dual(torch.ones(3), torch.ones(3)))
    """
    return Case(
        RuntimeError,
        "An inplace custom Function is not returning the forward mode gradients as-is. If the "
        "forward is modifying an input inplace, then the jvp function must modify the gradient "
        "inplace and return it as-is.",
    )


@engine_error("jvp-no-view", f"Return the same view of the tangent; {VIEW}")
def jvp_no_view() -> Case:
    """Forward returned an input, or a view of it; jvp returned a tensor that is not a view.

    Example:
        class Same(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x

            @staticmethod
            def jvp(ctx, x_t):
                return x_t

        with torch.autograd.forward_ad.dual_level():
            Same.apply(torch.autograd.forward_ad.make_dual(torch.ones(3), torch.ones(3)))
    """
    return Case(
        RuntimeError,
        "A custom Function's forward is returning a view (or an input as-is) but the jvp is not "
        "returning a view.",
    )


@engine_error("jvp-other-view", f"Return a view of the tangent that jvp received; {VIEW}")
def jvp_other_view() -> Case:
    """Forward returned a view of an input; jvp returned a view of something else.

    Example:
        class Row(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.view(1, 3)

            @staticmethod
            def jvp(ctx, x_t):
                return x_t.clone().view(1, 3)

        with torch.autograd.forward_ad.dual_level():
            Row.apply(torch.autograd.forward_ad.make_dual(torch.ones(3), torch.ones(3)))
    """
    return Case(
        RuntimeError,
        "A custom Function is returning a view but the jvp is not returning a view of the given "
        "grad input.",
    )


@engine_error("jvp-other-base", f"Return a view of the tangent that jvp received; {VIEW}")
def jvp_other_base() -> Case:
    """Forward returned a view of a view; the view that jvp returned has a different base.

    Example:
        class Row(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.view(1, 2)

            @staticmethod
            def jvp(ctx, x_t):
                return x_t.clone().view(1, 2)

        with torch.autograd.forward_ad.dual_level():
            x = torch.autograd.forward_ad.make_dual(torch.ones(3), torch.ones(3))
            Row.apply(x[1:])
    """
    return Case(
        RuntimeError,
        "A custom Function is returning a view but the jvp is not returning a view of the same "
        "base as the given grad input.",
    )
