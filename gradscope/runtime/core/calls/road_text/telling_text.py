"""The part of a road that calls the probe; see Note [Telling in numbers] in probe.py."""

from __future__ import annotations

from gradscope.runtime.core.rows.plan import RoadPlan


def begins(plan: RoadPlan, road: str) -> list[str]:
    """Lines that check for a watcher, and then read the clock."""
    return [f"tell = {watcher_method(plan, road)}", "begin = 0 if tell is None else clock()"]


def watcher_method(plan: RoadPlan, road: str) -> str:
    """The watcher's method for such calls, as text; None at run time without a watcher."""
    if plan.kind == "inplace":
        return "probe.wrote"
    if not _ordinary(plan, road):
        return "probe.op"
    if plan.kind == "view":
        return "probe.call"
    return "(probe.call if state.special else probe.noted)" if road == "full" else "probe.noted"


def tell_call(plan: RoadPlan, road: str) -> str:
    """The call of that method."""
    if not _ordinary(plan, road):
        made = "(made,)" if plan.outputs == 1 else "made"
        return f"tell(op, {_tensor_tuple(plan)}, {made}, node, begin, state)"
    meta = "((result.shape, result.dtype),) if node is None else node.input_metadata"
    given = f"op, op.number, node, made, {meta}, state, begin, getframe({_DEPTH[road]})"
    return f"tell({given}, {', '.join(_inputs(plan, road))})"


_DEPTH = {"short": 1, "number": 2, "full": 3}
"""Number of frames from a road up to its caller (see Note [Roads of an operation])."""


def _ordinary(plan: RoadPlan, road: str) -> bool:
    """Whether a call always has one or two tensors and one result."""
    regular = not any(p.many or p.optional for p in plan.tensors) and not _held(plan)
    return plan.outputs == 1 and regular and len(_inputs(plan, road)) in (1, 2)


def _inputs(plan: RoadPlan, road: str) -> list[str]:
    return [p.name for p in plan.tensors if not (road == "number" and p.name == "other")]


def _held(plan: RoadPlan) -> list[str]:
    """The options that hold tensors, such as the indices of an index."""
    return [slot.source for slot in plan.slots if slot.kind == "held"]


def _tensor_tuple(plan: RoadPlan) -> str:
    if plan.tensors and plan.tensors[0].many:
        rest = "".join(f", {p.name}" for p in plan.tensors[1:])
        return f"(*{plan.tensors[0].name}{rest},)"
    names = "".join(f"{p.name}, " for p in plan.tensors)
    return f"({names}{''.join(f'*{name}, ' for name in _held(plan))})"
