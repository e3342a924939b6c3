"""The part of a watched road that tells the probe; see Note [Telling in numbers] in probe.py."""

from __future__ import annotations

from gradscope.runtime.plan import Plan


def tell(plan: Plan, saving: str) -> list[str]:
    """The lines that tell the probe; see Note [Telling in numbers] in probe.py."""
    inputs = [p.name for p in plan.tensors if not (saving == "number" and p.name == "other")]
    regular = not any(p.many or p.optional for p in plan.tensors)
    if plan.outputs != 1 or not regular or len(inputs) not in (1, 2):
        made = "(made,)" if plan.outputs == 1 else "made"
        return [f"probe.here.op(op, {_tensor_tuple(plan)}, {made}, node, begin, state)"]
    log = "one" if len(inputs) == 1 else "two"
    seen = "".join(f"n_{name}, " for name in inputs)
    odd = [
        f"{name}._versions is not None and ({name}._edge is None or {name}._versions.value)"
        for name in inputs
    ]
    numbered = [
        line
        for name in inputs
        for line in (
            f"n_{name} = {name}.seen",
            f"if n_{name} <= base:",
            f"    n_{name} = here.unknown({name})",
        )
    ]
    return [
        "end = clock()",
        "here = probe.here",
        f"frame = getframe({_DEPTH[saving]})",
        "site = here.sites.get(id(frame.f_code) + frame.f_lasti)",
        "if site is None:",
        "    site = here.site(frame)",
        "base = here.base",
        *numbered,
        "try:",
        "    number = here.number()",
        "except StopIteration:",
        "    number = here.window()",
        "context = state.context or here.context(state)",
        "if node is None:",
        "    made.seen = number",
        "    sequence, top = state.grad_enabled - 2, -1",
        "    meta = ((result.shape, result.dtype),)",
        "else:",
        "    node.seen = number",
        "    made.seen = number + 1",
        "    sequence, top, meta = node.sequence_nr, node.topological_nr, node.input_metadata",
        "layout = here.layouts.get(meta)",
        "if layout is None:",
        "    layout = here.layout(meta)",
        f"here.{log}((number, begin, end, context, op.number, sequence, top, {seen}site, layout))",
        f"if made._storage is not None or state.special or {' or '.join(odd)}:",
        f"    here.irregular(op, node, number, ({''.join(f'{n}, ' for n in inputs)}), made)",
        "if here.look is not None:",
        "    here.look.made(op, node, number, made, state)",
    ]


_DEPTH = {"fast": 1, "number": 2, "full": 3}
"""How far above a road the frame stands that called it (see Note [Four roads])."""


def _tensor_tuple(plan: Plan) -> str:
    if plan.tensors and plan.tensors[0].many:
        rest = "".join(f", {p.name}" for p in plan.tensors[1:])
        return f"(*{plan.tensors[0].name}{rest},)"
    names = ", ".join(p.name for p in plan.tensors)
    return f"({names},)" if names else "()"
