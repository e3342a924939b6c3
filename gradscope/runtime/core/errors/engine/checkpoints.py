"""Errors about checkpoints: a second run that differs, a backward that is not supported."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.errors.declare import Case, engine_error

_DEPENDS = (
    "Make the function independent of values that change between the two runs: a counter, a "
    "global, data read from elsewhere. `debug=True` shows which operations each run called."
)


def _defined(function: Any) -> str:
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", None) or type(function).__name__
    place = "" if code is None else f", {code.co_filename}:{code.co_firstlineno}"
    return f"The checkpointed function is {name}{place}."


@engine_error("checkpoint-count", _DEPENDS)
def other_count(kind: Any, expected: int, found: int, function: Any) -> Case:
    """A checkpointed function saved fewer tensors when backward ran it again.

    The n-th tensor saved in the second run replaces the n-th tensor of the first run.
    """
    return Case(
        kind,
        "torch.utils.checkpoint: A different number of tensors was saved during the original "
        "forward and recomputation.\n"
        f"Number of tensors saved during forward: {expected}\n"
        f"Number of tensors saved during recomputation: {found}.",
        (_defined(function),),
    )


@engine_error("checkpoint-surplus", _DEPENDS)
def surplus(kind: Any, function: Any) -> Case:
    """A checkpointed function saved more tensors when backward ran it again.

    With early stop, the default, the second run ends before this can happen.
    """
    return Case(
        kind,
        "torch.utils.checkpoint: trying to save more tensors during recomputation than during the "
        "original forward pass.",
        (_defined(function),),
    )


@engine_error("checkpoint-metadata", _DEPENDS)
def other_metadata(kind: Any, differing: str, function: Any) -> Case:
    """A checkpointed function saved tensors of other shapes or dtypes when it ran again."""
    return Case(
        kind,
        "torch.utils.checkpoint: Recomputed values for the following tensors have different "
        f"metadata than during the forward pass.\n{differing}",
        (_defined(function),),
    )


@engine_error("checkpoint-read-twice", "Read `ctx.saved_tensors` once, into local variables.")
def read_twice(kind: Any, extra: str) -> Case:
    """A saved tensor of a checkpoint was read twice in one backward.

    It is released when it is read, because a checkpoint exists to save memory.
    """
    return Case(
        kind,
        "torch.utils.checkpoint: Unpack is being triggered for a tensor that was already unpacked "
        f"once. {extra}If you are calling ctx.saved_tensors in backward, make sure to do so only "
        "once. Otherwise please open an issue with details on your use case.",
    )


@engine_error(
    "checkpoint-partial", "Use `use_reentrant=False`, or compute all gradients with `backward()`."
)
def partial(node: Any) -> Case:
    """A backward that computes only some gradients reached a reentrant checkpoint.

    The checkpoint runs its own backward, which does not know the requested inputs.

    Example:
        from torch.utils.checkpoint import checkpoint

        x = torch.ones(3, requires_grad=True)
        y = checkpoint(torch.sin, x, use_reentrant=True)  # named below
        torch.autograd.grad(y.sum(), x)  # named below
    """
    return Case(
        RuntimeError,
        "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing "
        "an `inputs` parameter to .backward(). To resolve this error, you can either set "
        "use_reentrant=False, or call .backward() without passing the `inputs` argument.",
        node=node,
    )


@engine_error(
    "checkpoint-without-gradient",
    "Use `use_reentrant=False`, or move detached computation out of the checkpoint.",
)
def without_gradient(node: Any) -> Case:
    """No output of a reentrant checkpoint required grad when it ran again.

    Example:
        from torch.utils.checkpoint import checkpoint

        x = torch.ones(3, requires_grad=True)
        y = checkpoint(lambda x: x.detach() * 2, x, use_reentrant=True)  # named below
        y.sum().backward()  # named below
    """
    return Case(
        RuntimeError,
        "none of output has requires_grad=True, this checkpoint() is not necessary",
        node=node,
    )
