"""How a module's backward hooks get the gradients of its inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradscope.runtime.core import probe
from gradscope.runtime.core.errors.engine import module_hooks as errors
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.state.warned import warn
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.nn.modules._functions import BackwardHookFunction

FORWARD_PRE, FORWARD, BACKWARD_PRE, BACKWARD = range(8, 12)
"""Kinds of hooks, as reported to a watcher. The smaller numbers are hooks of tensors and nodes."""

FIRING = (
    "Full backward hook is firing when gradients are computed with respect to module outputs since "
    "no inputs require gradients. See "
    "https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html"
    "#torch.nn.Module.register_full_backward_hook for more details."
)


def heard(module: Any, kind: int, index: int, hook: Callable[..., Any], *args: Any) -> Any:
    """Call one of a module's hooks, and report it to the watcher if there is one."""
    here, state = probe.here, local.state
    if here is None:
        return hook(*args)
    node = state.node if kind >= BACKWARD_PRE else None
    here.module_hook_begins(state.task, node, module, kind, index, hook)
    found = None
    try:
        found = hook(*args)
    finally:
        here.hook_ends(state.task, node, kind, index, found is not None, ())
    return found


class BackwardHook:
    """One call of a module that has backward hooks.

    Its inputs and its outputs each pass through an identity node. The node of the outputs stores
    their gradients for the hooks, which run when the node of the inputs has its own.
    """

    def __init__(
        self,
        module: Any,
        user_hooks: Sequence[Callable[..., Any]],
        user_pre_hooks: Sequence[Callable[..., Any]],
    ) -> None:
        self.user_hooks = user_hooks
        self.user_pre_hooks = user_pre_hooks
        self.module = module
        self.grad_outputs: Any = None
        self.n_outputs = -1
        self.output_tensors_index: list[int] | None = None
        self.n_inputs = -1
        self.input_tensors_index: list[int] | None = None

    def setup_input_hook(self, args: Any) -> Any:
        """The arguments to call the module with: tensors pass through a node."""
        made, self.input_tensors_index = _behind_a_node(args, self._of_inputs)
        self.n_inputs = len(args)
        return made

    def setup_output_hook(self, args: Any) -> Any:
        """The result to return to the caller: tensors pass through a node."""
        outputs = args if isinstance(args, tuple) else (args,)
        made, self.output_tensors_index = _behind_a_node(outputs, self._of_outputs)
        self.n_outputs = len(outputs)
        return made if isinstance(args, tuple) else made[0]

    def _of_outputs(self, _: Any, grad_output: Any) -> Any:
        """Post-hook of the node at the outputs: their gradients are complete."""
        grads = _spread(self.output_tensors_index or (), grad_output, self.n_outputs)
        expected = len(grads)
        for index, hook in enumerate(self.user_pre_hooks):
            found = heard(self.module, BACKWARD_PRE, index, hook, self.module, grads)
            if found is None:
                continue
            if len(found) != expected:
                raise errors.module_pre_hook_count(hook, len(found), expected)
            grads = found
        if self.input_tensors_index is None:
            self._without_inputs(grads)
        else:
            self.grad_outputs = grads
        return tuple(grads[i] for i in self.output_tensors_index or ())

    def _without_inputs(self, grads: Any) -> None:
        """Run the hooks now: no input requires grad, so none gets a gradient."""
        warn(FIRING)
        nothing = (None,) * self.n_inputs
        for index, hook in enumerate(self.user_hooks):
            found = heard(self.module, BACKWARD, index, hook, self.module, nothing, grads)
            if found is None or (isinstance(found, tuple) and all(each is None for each in found)):
                continue
            raise errors.module_hook_without_inputs(hook)

    def _of_inputs(self, grad_input: Any, _: Any) -> Any:
        """Post-hook of the node at the inputs: their gradients are complete."""
        if self.grad_outputs is None:
            return None  # they did not come through the module, as in a double backward
        where = self.input_tensors_index or ()
        grads = _spread(where, grad_input, self.n_inputs)
        for index, hook in enumerate(self.user_hooks):
            found = heard(self.module, BACKWARD, index, hook, self.module, grads, self.grad_outputs)
            if found is None:
                continue
            if len(found) != len(grads):
                raise errors.module_hook_count(hook, len(found), len(grads))
            grads = found
        self.grad_outputs = None
        return tuple(grads[i] for i in where)


def _spread(where: Sequence[int], values: Sequence[Any], size: int) -> Any:
    """Values at these positions, None at all others."""
    made: list[Any] = [None] * size
    for place, value in zip(where, values, strict=True):
        made[place] = value
    return tuple(made)


def _behind_a_node(args: Any, arrived: Callable[..., Any]) -> tuple[Any, list[int] | None]:
    """The values passed through one node, and the positions of its outputs; None if there are none.

    `arrived` is the node's post-hook.
    """
    where = [i for i, arg in enumerate(args) if isinstance(arg, Tensor)]
    if not (local.state.grad_enabled and any(args[i].requires_grad for i in where)):
        return args, None

    def hook(grad_inputs: Any, grad_outputs: Any) -> Any:  # PyTorch's errors call it by this name
        return arrived(grad_inputs, grad_outputs)

    hook.__qualname__ = arrived.__qualname__
    tensors = BackwardHookFunction.apply(*[args[i] for i in where])
    next(t.grad_fn for t in tensors if t.grad_fn is not None).register_hook(hook)
    made = list(args)
    for place, tensor in zip(where, tensors, strict=True):
        made[place] = tensor
    return tuple(made) if type(args) is tuple else type(args)(*made), where
