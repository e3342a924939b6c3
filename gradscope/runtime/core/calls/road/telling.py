"""The part of a watched road that tells the probe; see Note [Telling in numbers] in probe.py."""

from __future__ import annotations

from gradscope.runtime.core.rows.plan import Plan


def tell(plan: Plan, saving: str) -> list[str]:
    """The lines that tell the probe; see Note [Telling in numbers] in probe.py."""
    inputs = [p.name for p in plan.tensors if not (saving == "number" and p.name == "other")]
    regular = not any(p.many or p.optional for p in plan.tensors) and not _held(plan)
    if plan.outputs != 1 or not regular or len(inputs) not in (1, 2):
        made = "(made,)" if plan.outputs == 1 else "made"
        return [f"probe.here.op(op, {_tensor_tuple(plan)}, {made}, node, begin, state)"]
    tell = "call" if plan.kind == "view" else "noted"
    meta = "((result.shape, result.dtype),) if node is None else node.input_metadata"
    given = f"op, op.number, node, made, {meta}, state, begin, getframe({_DEPTH[saving]})"
    if saving == "full" and tell == "noted":
        tell = "call if state.special else probe.noted"
        return [f"(probe.{tell})({given}, {', '.join(inputs)})"]
    return [f"probe.{tell}({given}, {', '.join(inputs)})"]


_DEPTH = {"fast": 1, "number": 2, "full": 3}
"""How far above a road the frame stands that called it (see Note [Four roads])."""


def _held(plan: Plan) -> list[str]:
    """The options that hold tensors, such as the indices of an index."""
    return [slot.source for slot in plan.slots if slot.kind == "held"]


def _tensor_tuple(plan: Plan) -> str:
    if plan.tensors and plan.tensors[0].many:
        rest = "".join(f", {p.name}" for p in plan.tensors[1:])
        return f"(*{plan.tensors[0].name}{rest},)"
    names = "".join(f"{p.name}, " for p in plan.tensors)
    return f"({names}{''.join(f'*{name}, ' for name in _held(plan))})"
