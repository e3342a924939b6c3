"""AccumulateGrad: adds gradients to the `.grad` of a leaf."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from sys import getrefcount
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.runtime.core import probe
from gradscope.runtime.core.autograd.forward.forward_grad import fw_grad, plainly, set_fw_grad
from gradscope.runtime.core.autograd.hooks.hooks import POST_ACCUMULATE, Hooks, checked
from gradscope.runtime.core.errors.engine import tensor_hooks as errors
from gradscope.runtime.core.errors.engine.leaves import grad_does_not_fit, leaf_with_history
from gradscope.runtime.core.errors.numpy import mismatch
from gradscope.runtime.core.graph.input_buffer import ALONE
from gradscope.runtime.core.graph.new_node import remember
from gradscope.runtime.core.graph.node import LAST, Extra, Node, device_of
from gradscope.runtime.core.state import upward
from gradscope.runtime.core.state.array_calls import layout_only
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors.memory.storage import VersionCounter, dense
from gradscope.runtime.core.tensors.placement import mark, wrapped_on
from gradscope.runtime.core.tensors.tensor.autograd_meta import AutogradMeta
from gradscope.runtime.core.tensors.views.in_place import count_told_write

if TYPE_CHECKING:
    from gradscope.runtime.core.tensors.tensor.tensor import Tensor

STOLEN, CLONED, IN_PLACE, OUT_OF_PLACE = range(4)

_lock = threading.RLock()


def renew_lock() -> None:
    """Replace the lock in a forked child, where its holder does not exist."""
    global _lock  # noqa: PLW0603
    _lock = threading.RLock()


class AccumulateGrad(Node):
    """Adds the gradients that it receives to the `.grad` of a leaf."""

    __slots__ = ("variable",)
    variable: Tensor

    @layout_only
    def __init__(self, variable: Tensor) -> None:
        self.variable = variable
        self.next_functions = ()
        self.sequence_nr = LAST
        self.topological_nr = 0
        self._saved = ()
        self._extra = Extra()
        self.record_nr = 0
        self.input_metadata = ((variable._array.shape, variable._array.dtype),)
        if AutogradMeta.grad_dtypes and variable._meta is not None:
            wanted = variable._meta.dtype_of_grad(variable._array.dtype)
            self.input_metadata = ((variable._array.shape, wanted),)
        mark(self, variable)
        if local.state.anomaly:
            remember(self, local.state)

    def run_arrays(self, grads: Sequence[Any]) -> Sequence[Any]:
        grad = grads[0]
        if grad is not None and self._wanted():
            assert self._extra is not None
            post_hooks = bool(self._extra.post_hooks)  # it is held for them
            alone = getrefcount(grad) <= ALONE + post_hooks
            with _lock:
                how = self._accumulate_array(grad, alone=alone)
                self._tell(how)
        meta = self.variable._meta
        if meta is not None and meta.post_accumulate_hooks:
            self._run_hooks(meta.post_accumulate_hooks)
        return ()

    def run_tensors(self, grads: Sequence[Any]) -> Sequence[Any]:
        grad = grads[0]
        if grad is not None and self._wanted():
            with _lock:
                how = self._accumulate_tensor(grad)
                self._tell(how)
        meta = self.variable._meta
        if meta is not None and meta.post_accumulate_hooks:
            self._run_hooks(meta.post_accumulate_hooks)
        return ()

    def _wanted(self) -> bool:
        """Whether the tensor still is a leaf that requires grad."""
        meta = self.variable._meta
        if self.variable._edge is not None or (meta and meta.is_view and self.variable.history()):
            raise leaf_with_history(self.variable)
        return meta is not None and meta.requires_grad

    def _accumulate_tensor(self, grad: Any) -> int:
        meta = self.variable.meta()
        if not local.state.grad_enabled:
            if local.state.dispatch_modes and meta.grad is not None:
                meta.grad.add_(grad)  # modes see it
                return IN_PLACE
            if local.state.dispatch_modes:
                grad = grad.detach()  # as in PyTorch: modes see it
            how = self._accumulate_array(grad._array, alone=False)
            if how == IN_PLACE:
                _add_tangent(meta.grad, fw_grad(grad))
            return how
        if meta.grad is None:
            meta.grad = self._copied(grad)
            return CLONED
        meta.grad = meta.grad + grad
        return OUT_OF_PLACE

    def _copied(self, grad: Any) -> Any:
        """A copy laid out as the leaf, part of the graph of the gradient."""
        if not dense(self.variable._array):
            return grad.clone()
        made = np.empty_like(self.variable._array, grad._array.dtype, subok=False)
        return wrapped_on(made, device_of(self)).copy_(grad)

    @layout_only
    def _accumulate_array(self, grad: Any, *, alone: bool) -> int:
        meta = self.variable._meta
        assert meta is not None
        before = meta.grad
        if before is None:
            if alone and owns(grad) and self._fits(grad):
                meta.grad = wrapped_on(grad, device_of(self))
                return STOLEN
            made, written = self._laid_out(grad)
            meta.grad = held = wrapped_on(made, device_of(self))
            if written:
                held._versions = VersionCounter(1)
            return CLONED
        target = before._array
        try:
            np.add(target, grad, out=target)
        except ValueError:  # the leaf's data was replaced
            text = mismatch((target.shape, grad.shape))
            raise grad_does_not_fit(str(text), self.variable) from None
        count_told_write(before, "AccumulateGrad")
        return IN_PLACE

    @layout_only
    def _fits(self, grad: Any) -> bool:
        """Whether the layout is right for `.grad`: that of the leaf, if the leaf is dense."""
        leaf = self.variable._array
        if grad.strides == leaf.strides:
            return True
        return bool(grad.flags.c_contiguous and not dense(leaf))

    def _laid_out(self, grad: Any) -> tuple[Any, bool]:
        """A copy laid out as the leaf, and whether PyTorch allocates it first and writes then."""
        leaf = self.variable._array
        if not dense(leaf):
            return np.array(grad, order="C"), False
        if leaf.shape != grad.shape:
            return np.array(grad, order="C"), True
        made = np.empty_like(leaf, grad.dtype, subok=False)
        made[...] = grad
        return made, True

    def _tell(self, how: int) -> None:
        here = probe.here
        if here is not None:
            task = local.state.task
            here.accumulate(task, self, self.variable, how)
            if here.look is not None:
                here.look.grad(task, self, self.variable)

    def _run_hooks(self, hooks: Hooks) -> None:
        """Call the hooks. Each receives what the previous one returned, if anything."""
        task, here, given, returning = local.state.task, probe.here, self.variable, None
        for index, hook in enumerate(list(hooks.values())):
            if here is not None:
                here.hook_begins(task, self, POST_ACCUMULATE, index, hook)
            made = hook(given)
            if made is not None and made is not given:
                given, returning = checked(made, given, hook), hook
            if here is not None:
                here.hook_ends(task, self, POST_ACCUMULATE, index, False, (self.variable._grad,))
                if here.look is not None:
                    here.look.stepped(task, self, self.variable)
        if given is not self.variable:
            raise errors.accumulate_hook_result(returning)


def _add_tangent(grad: Any, tangent: Any) -> None:
    """Add the tangent of a gradient that is added in place."""
    if tangent is None:
        return
    before = fw_grad(grad)
    with plainly():
        if before is not None:
            before.add_(tangent)
            return
        tangent = tangent.clone()
    set_fw_grad(grad, tangent, written=True)


def owns(array: Any) -> bool:
    """Whether this array is the only owner of its memory."""
    base = array.base
    return base is None or (
        isinstance(base, np.ndarray) and base.base is None and getrefcount(base) <= ALONE
    )


upward.accumulator = AccumulateGrad
