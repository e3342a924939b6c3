"""Calls of operations on dual tensors: the result, and its tangent.

# Note [Tangents from rows]
A row's declaration of its derivative also defines its tangent: one of LINEAR, ELEMENTWISE, PRODUCT,
REDUCES, TRANSPOSED or `jvp(…)` (traits.py), used in jvp_rules.py. A view is linear. An in-place
operation follows its out-of-place twin, and writes into the existing tangent. Tangents are computed
by operations on tensors, so that they have their own graph, from inputs without tangents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradscope.runtime.core.autograd.forward.forward_grad import fw_grad, plainly, set_fw_grad
from gradscope.runtime.core.autograd.forward.jvp_rules import (
    TangentCall,
    fitted,
    reads_self,
    rule_of,
)
from gradscope.runtime.core.rows.operation import Operation
from gradscope.runtime.core.rows.traits import COMPARES
from gradscope.runtime.core.state import upward
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors.placement import on_device
from gradscope.runtime.core.tensors.views.in_place import before_write


def call(
    op: Operation, values: Sequence[Any], arrays: Sequence[Any], begin: int, where: Any
) -> Any:
    """The last step of a call while a dual level is open."""
    tangents = _tangents(op, values) if local.state.fw_grad_enabled else None
    if not tangents:
        made = _run(op, values, arrays, begin, where)
        if COMPARES in op.traits and op.plan.kind == "inplace":
            _clear(made)
        return made
    rule = rule_of(op)
    written = op.plan.kind == "inplace"
    given = values
    if written and reads_self(op, rule):
        with plainly():
            before = before_write(values[0])
            given = [before if value is values[0] else value for value in values]
    if written and local.state.grad_enabled and tangents.get("self") is not None:
        with plainly():  # the old tangent will be overwritten, and its node may need it
            tangents["self"] = tangents["self"].clone()
    made = _run(op, values, arrays, begin, where)
    there = [t for one in tangents.values() for t in (one if isinstance(one, list) else (one,))]
    with plainly():
        found = rule(TangentCall(op, given, tangents, made))
    if op.plan.outputs == 1:
        _give(op, made, found, there, written=written)
    else:
        for one, tangent in zip(made, found, strict=True):
            _give(op, one, tangent, there, written=False)
    return made


def _clear(made: Any) -> None:
    """Zero the tangent of a result that does not depend on its inputs, as of a comparison."""
    before = fw_grad(made)
    if before is not None:
        with plainly():
            before.zero_()


def _run(
    op: Operation, values: Sequence[Any], arrays: Sequence[Any], begin: int, where: Any
) -> Any:
    """The call without tangents, on device `where` unless None."""
    if where is not None:
        return on_device(op, values, arrays, begin, where)
    return op.full(*values, *arrays, begin)


def _tangents(op: Operation, values: Sequence[Any]) -> dict[str, Any]:
    """The tangents of differentiable inputs that have one."""
    found: dict[str, Any] = {}
    for p, value in zip(op.plan.parameters, values, strict=True):
        if not p.tensor or value is None or p.name not in op.plan.differentiable:
            continue
        if p.many:
            several = [fw_grad(one) for one in value]
            if any(one is not None for one in several):
                found[p.name] = several
        elif (tangent := fw_grad(value)) is not None:
            found[p.name] = tangent
    return found


def _give(op: Operation, made: Any, tangent: Any, given: Sequence[Any], *, written: bool) -> None:
    """Set the tangent of a result; in place if the result was written to."""
    if tangent is None or made is None or made._array.dtype.kind not in "fcV":
        return
    before = fw_grad(made) if written else None
    with plainly():
        if before is not None:
            tangent = before.copy_(tangent)
        else:
            tangent = fitted(tangent, made)
            if op.plan.kind != "view" and _is_not_its_own(tangent, given):
                tangent = tangent.clone()
    set_fw_grad(made, tangent, written=written)
    if any(slot.kind == "output" for slot in op.plan.slots):
        _remember(made)


def _remember(made: Any) -> None:
    """Let the node that saves this output save its tangent."""
    if made._edge is not None:
        node, nr = made._edge
    elif made.requires_grad and made._is_view():
        node, nr = made._base._edge[0].fn, 0  # written through a view
    else:
        return
    node.extra().remember_tangent(nr, made._meta.fw_grad)


def _is_not_its_own(tangent: Any, given: Sequence[Any]) -> bool:
    """Whether a tangent cannot be written to: a read-only view, or shared with an input."""
    return not tangent._array.flags.writeable or any(_overlap(tangent, one) for one in given)


def _overlap(tangent: Any, other: Any) -> bool:
    return other is not None and (
        tangent is other
        or (tangent._array.base is not None and np.may_share_memory(tangent._array, other._array))
    )


upward.call_with_tangents = call
