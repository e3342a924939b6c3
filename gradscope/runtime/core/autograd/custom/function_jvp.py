"""Forward mode of custom functions: calls the user's jvp and checks its results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.runtime.core.autograd.forward.forward_grad import forward_base, fw_grad, set_fw_grad
from gradscope.runtime.core.autograd.modes.grad_mode import no_grad
from gradscope.runtime.core.errors.engine import jvps as errors
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors.placement import wrapped_on
from gradscope.runtime.core.tensors.tensor.tensor import Tensor

if TYPE_CHECKING:
    from gradscope.runtime.core.autograd.custom.custom_node import BackwardCFunction


class without_tangents:  # noqa: N801  (a context manager, used like `no_grad`)
    """The context of a jvp: tangents are ordinary tensors in it."""

    def __enter__(self) -> None:
        state = local.state
        self.enabled = state.fw_grad_enabled
        state.fw_grad_enabled = False
        state.refresh()

    def __exit__(self, *error: object) -> None:
        local.state.fw_grad_enabled = self.enabled
        local.state.refresh()


class untracked(no_grad):  # noqa: N801
    """The context of a forward while a dual level is open: no recording, no tangents."""

    def __enter__(self) -> None:
        super().__enter__()
        self.tangents = without_tangents()
        self.tangents.__enter__()

    def __exit__(self, *error: object) -> None:
        self.tangents.__exit__(*error)
        super().__exit__(*error)


def give_tangents(
    ctx: BackwardCFunction, args: Sequence[Any], returned: Sequence[Any], outputs: Sequence[Any]
) -> None:
    """Compute the tangents of the outputs by the user's jvp, if an input has one.

    `returned` is what forward returned, `outputs` what the caller receives for it.
    """
    inputs = [value if isinstance(value, Tensor) else None for value in args]
    tangents = [None if value is None else fw_grad(value) for value in inputs]
    if all(tangent is None for tangent in tangents):
        return
    given = _Given(inputs, tangents)
    dirty = {id(tensor) for tensor in ctx.dirty_tensors or ()}
    constant = {id(tensor) for tensor in ctx.non_differentiable or ()}
    found = _called(ctx, given, len(outputs))
    for position, (raw, output, tangent) in enumerate(zip(returned, outputs, found, strict=True)):
        if not isinstance(raw, Tensor):
            continue
        if id(raw) in constant or raw._array.dtype.kind not in "fcV":
            if tangent is not None:
                raise errors.jvp_surplus(position)
            continue
        if tangent is None:
            raise errors.jvp_none(position)
        if id(raw) in dirty and any(raw is value for value in inputs):
            given.check_written(raw, tangent)
            set_fw_grad(output, tangent, written=True)
        else:
            set_fw_grad(output, tangent, written=given.check_view(output, tangent))
        ctx.extra().remember_tangent(position, output._meta.fw_grad)


def _called(ctx: BackwardCFunction, given: _Given, count: int) -> tuple[Any, ...]:
    """The result of jvp: a tangent, or None, for each output."""
    tangents = given.filled() if ctx.materialize_grads else given.tangents
    with without_tangents():
        made = ctx._forward_cls.jvp(ctx, *tangents)
    found = made if isinstance(made, tuple) else (made,)
    for position, tangent in enumerate(found):
        if tangent is not None and not isinstance(tangent, Tensor):
            raise errors.jvp_type(tangent, position)
    if len(found) != count:
        raise errors.jvp_count(count, len(found))
    return found


def _base_of(tensor: Any) -> Any:
    """The tensor that owns the tangent: the base of a view, otherwise the tensor."""
    base = forward_base(tensor)
    return tensor if base is None else base


class _Given:
    """The inputs of a call and their tangents, as they were before jvp."""

    def __init__(self, inputs: Sequence[Any], tangents: Sequence[Any]) -> None:
        self.inputs = inputs
        self.tangents = tangents
        self.versions = [None if t is None else t._version for t in tangents]
        self.bases = {
            id(_base_of(value)): position
            for position, value in reversed(list(enumerate(inputs)))
            if value is not None
        }

    def filled(self) -> list[Any]:
        """The tangents, zeros for inputs without one."""
        return [
            wrapped_on(np.zeros(value._array.shape, value._array.dtype), value.device)
            if tangent is None and value is not None and value._array.dtype.kind in "fcV"
            else tangent
            for value, tangent in zip(self.inputs, self.tangents, strict=True)
        ]

    def check_written(self, raw: Any, tangent: Any) -> None:
        """Check that the tangent of a modified input was modified, too."""
        position = next(i for i, value in enumerate(self.inputs) if value is raw)
        before = self.tangents[position]
        if before is None:
            return
        if tangent._version == self.versions[position]:
            raise errors.jvp_not_in_place()
        if tangent is not before:
            raise errors.jvp_not_as_is()

    def check_view(self, output: Any, tangent: Any) -> bool:
        """Check that the tangent of a view of an input is a view of the input's tangent.

        Returns whether it is a view of an input without one, which counts as a write.
        """
        base = forward_base(output)
        position = None if base is None else self.bases.get(id(base))
        if position is None:
            return False
        before = self.tangents[position]
        if before is None:
            return True
        shown = forward_base(tangent)
        if shown is None:
            raise errors.jvp_no_view()
        whole = forward_base(before)
        if whole is not None and shown is not whole:
            raise errors.jvp_other_base()
        if whole is None and shown is not before:
            raise errors.jvp_other_view()
        return False
