"""Errors about values saved for backward: written to, released, packed and unpacked."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.errors.declare import Case, engine_error


@engine_error(
    "modified-in-place",
    "Write out of place (`y = y + 1` for `y += 1`), or write before the value is used, or to a "
    "clone().",
)
def modified_in_place(
    node: Any, slot: str, tensor: str, origin: str, writes: Any, expected: int, found: int
) -> Case:
    """A value that backward needs was written to after it was saved.

    The gradient would be computed from values that differ from those of the forward pass. Only
    saved values count: a write to a tensor that no derivative reads is allowed. All aliases share
    one version counter, so a write through a view, or to `x.detach()`, counts too.

    Example:
        x = torch.ones(3, requires_grad=True)
        y = x.exp()  # named below
        y.add_(1)  # named below
        y.sum().backward()  # named below
    """
    known = () if not slot else (f"{node.name()} had saved it as '{slot}', at version {expected}.",)
    return Case(
        RuntimeError,
        "one of the variables needed for gradient computation has been modified by an inplace "
        f"operation: [{tensor}]{origin} is at version {found}; "
        f"expected version {expected} instead. Hint: enable anomaly detection to find the "
        "operation that failed to compute its gradient, with "
        "torch.autograd.set_detect_anomaly(True, check_nan=False).",
        known,
        node=node,
        writes=writes,
        since=expected,
    )


@engine_error("saved-detached", "Use `y = y.detach()`, which leaves the saved tensor unchanged.")
def saved_detached(node: Any, slot: str, tensor: Any) -> Case:
    """A tensor that backward needs was detached from its history by `detach_()`.

    Example:
        x = torch.ones(3, requires_grad=True) * 1  # named below
        y = x * x  # named below
        x.detach_()
        y.sum().backward()  # named below
    """
    known = () if not slot else (f"{node.name()} had saved it as '{slot}'.",)
    return Case(
        RuntimeError,
        "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_()."
        "This is not supported, please use out-of-place `.detach()` instead",
        known,
        node=node,
        tensor=tensor,
    )


@engine_error(
    "freed-graph",
    "Call the first backward with retain_graph=True, or compute the forward pass again. If a "
    "tensor is carried from one step to the next, detach() it between them.",
)
def freed(node: Any) -> Case:
    """A node's saved values were needed, by a second backward or directly, after their release.

    A backward releases what each node saved as soon as the node has run, because saved values are
    most of the memory of a training step. Nodes that saved nothing (an addition, a sum) can run
    again. If the second graph is new but depends on the first, for example through a hidden state,
    detach the tensor that connects them.

    Example:
        w = torch.ones(3, requires_grad=True)
        hidden = (w * 2).tanh()  # named below
        hidden.sum().backward()  # named below
        loss = (hidden * 3).sum()  # named below
        loss.backward()  # named below
    """
    return Case(
        RuntimeError,
        "Trying to backward through the graph a second time (or directly access saved tensors "
        "after they have already been freed). Saved intermediate values of the graph are freed "
        "when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to "
        "backward through the graph a second time or if you need to access saved tensors after "
        "calling backward.",
        (f"{node.name()} has released its saved values.",),
        node=node,
        freed=True,
    )


@engine_error("saved-read-once", "Read `ctx.saved_tensors` once, into local variables.")
def saved_read_once(node: Any) -> Case:
    """A custom Function that releases its saved tensors on access reads them a second time.

    Example:
        class Square(torch.autograd.Function):
            clear_saved_tensors_on_access = True

            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            def backward(ctx, grad):
                return ctx.saved_tensors[0] * grad + ctx.saved_tensors[0] * grad

        x = torch.ones(3, requires_grad=True)
        y = Square.apply(x)  # named below
        y.sum().backward()  # named below
    """
    return Case(
        RuntimeError,
        "saved_tensors can only be accessed once when clear_saved_tensors_on_access=True "
        "is set on the autograd.Function. Either access saved_tensors only once, or set "
        "clear_saved_tensors_on_access=False.",
        node=node,
    )


@engine_error("pack-hook-wrote", "Let the pack hook return a changed copy instead.")
def pack_hook_wrote(hook: Any) -> Case:
    """A pack hook wrote to its argument, which is the tensor of the program itself.

    Example:
        def pack(tensor):  # named below
            return tensor.mul_(2)

        x = torch.ones(3, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed):
            x.exp()
    """
    return Case(
        RuntimeError,
        "A saved tensor pack hook is modifying its input in place. "
        "Tensors provided as input to pack hook cannot be modified by in-place operations "
        "as this can lead to unexpected side-effects. Please open an issue if you need to "
        "perform in-place operations on the input to a pack hook.",
        hook=hook,
    )


@engine_error(
    "unpack-hook-type", "Let the unpack hook return the tensor that the pack hook received."
)
def unpack_hook_type(hook: Any, value: Any) -> Case:
    """An unpack hook returned something that is not a tensor.

    Example:
        def unpack(packed):  # named below
            return packed.tolist()

        x = torch.ones(3, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
            y = x.exp()
        y.sum().backward()  # named below
    """
    return Case(
        TypeError,
        "Output of saved tensor unpack_hook expected to be a Tensor but got "
        f"result of type {type(value).__name__}",
        hook=hook,
    )


@engine_error("saved-hooks-twice", "Register one pair of hooks that does both.")
def saved_hooks_twice() -> Case:
    """A saved value can have one pair of hooks, and this one already has a pair.

    Example:
        y = torch.ones(3, requires_grad=True).exp()
        saved = y.grad_fn._raw_saved_result
        saved.register_hooks(lambda tensor: tensor, lambda packed: packed)
        saved.register_hooks(lambda tensor: tensor, lambda packed: packed)
    """
    return Case(
        RuntimeError,
        "Calling register_hooks on a saved tensor whose hooks have already been set. "
        "Hint: only one pair of hooks is allowed at a time.",
    )


@engine_error(
    "saved-hooks-disabled",
    "Do not use `saved_tensors_hooks`, or what is built on it (checkpoint, save_on_cpu), inside "
    "the block that disables them.",
)
def saved_hooks_disabled(message: str) -> Case:
    """Saved-tensor hooks were used in a block that disables them. The block sets the message.

    It is raised for hooks inside such a block, and for such a block inside hooks.

    Example:
        with torch.autograd.graph.disable_saved_tensors_hooks("no hooks in here"):
            with torch.autograd.graph.save_on_cpu():
                pass
    """
    return Case(RuntimeError, message)


@engine_error("mutation-nested", "Use one context around everything.")
def mutation_nested() -> Case:
    """`allow_mutation_on_saved_tensors` was entered inside itself.

    Example:
        with torch.autograd.graph.allow_mutation_on_saved_tensors():
            with torch.autograd.graph.allow_mutation_on_saved_tensors():
                pass
    """
    return Case(RuntimeError, "allow_mutation_on_saved_tensors contexts cannot be nested")


@engine_error("mutation-outside", "Call backward inside the context as well.")
def mutation_outside() -> Case:
    """The backward of a graph made under `allow_mutation_on_saved_tensors` ran after the context.

    The context copies values that are overwritten, and releases these copies when it ends.

    Example:
        x = torch.ones(3, requires_grad=True)
        with torch.autograd.graph.allow_mutation_on_saved_tensors():
            y = x.exp()
        y.sum().backward()  # named below
    """
    return Case(  # as PyTorch: without a space between the two lines
        AssertionError,
        "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context"
        "in which the graph was originally recorded.",
    )
