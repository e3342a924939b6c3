"""Generated backwards, and the words of their formulas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradscope.runtime.core.rows.parameters import declared, passed
from gradscope.runtime.core.rows.plan import RoadPlan, Slot


def backward(plan: RoadPlan, formulas: Sequence[Any], *, arrays: bool, joint: bool) -> str:
    """The text of a node's backward: on arrays, or on tensors for `create_graph`."""
    many = any(p.many for p in plan.tensors)
    lines = ["def run(node, grads):", "    saved = node._saved", "    if saved is None:"]
    lines += ["        return without_saved(node)"]
    if plan.slots:
        lines += [f"    {''.join(f's_{i}, ' for i in range(len(plan.slots)))}= saved"]
    if joint or many:
        lines += [f"    {line}" for line in _unpack(plan.slots, range(len(plan.slots)), arrays)]
        lines += _incoming(plan, arrays=arrays)
        needs = "tuple([f is not None for f, _ in node.next_functions])"
        call = _formula_call("f_0", formulas[0], needs)
        lines += [f"    return {call}"]
        return "\n".join(lines) + "\n"
    single = len(plan.differentiable) == 1
    if not single:
        places = range(len(plan.differentiable))
        lines += [f"    {', '.join(f'(n_{i}, _)' for i in places)} = node.next_functions"]
    # As in PyTorch: everything saved is unpacked, in order, also for an undefined gradient.
    for k, slot in enumerate(plan.slots):
        unpacked = [f"    {line}" for line in _unpack(plan.slots, [k], arrays)]
        if not single and slot.kind == "input" and len(slot.wanted_by) == 1:
            unpacked = [f"    if n_{slot.wanted_by[0]} is not None:", f"    {unpacked[0]}"]
        lines += unpacked
    lines += _incoming(plan, arrays=arrays)
    for name in sorted(plan.differentiable):  # PyTorch's order: a double backward shows it
        i = plan.differentiable.index(name)
        pad = "    " if single else "        "
        if not single:
            lines += [f"    g_{i} = None", f"    if n_{i} is not None:"]
        lines += [f"{pad}g_{i} = {_formula_call(f'f_{i}', formulas[i])}"]
    lines += [f"    return ({''.join(f'g_{i}, ' for i in range(len(formulas)))})"]
    return "\n".join(lines) + "\n"


def _incoming(plan: RoadPlan, *, arrays: bool) -> list[str]:
    none = "return (None,) * len(node.next_functions)"
    if plan.outputs == 1:
        return ["    grad = grads[0]", "    if grad is None:", f"        {none}"]
    if plan.gaps:
        return ["    grad = grads", "    if all([g is None for g in grads]):", f"        {none}"]
    kind = "arrays" if arrays else "tensors"
    return [
        f"    grad = defined_{kind}(node, grads)",
        "    if grad is None:",
        f"        {none}",
    ]


def _unpack(slots: Sequence[Slot], used: Any, arrays: bool) -> list[str]:
    lines: list[str] = []
    for k in used:
        slot = slots[k]
        if slot.kind == "held":
            lines += [f"v_{slot.name} = unpack_tensor(node, s_{k}, {k})"]
        elif slot.kind not in {"input", "output"}:
            lines += [f"v_{slot.name} = s_{k}"]
        elif arrays and slot.kind == "output":
            kept = f"s_{k}.__class__ is SavedVariable and s_{k}.hooks is None"
            kept = f"{kept} and s_{k}.version == s_{k}.versions.value"
            unpacked = f"unpack_array(node, s_{k}, {k})"
            lines += [f"v_{slot.name} = s_{k}.array if {kept} else {unpacked}"]
        elif arrays:
            untouched = f"s_{k}.__class__ is Tensor and s_{k}._versions is None"
            unpacked = f"unpack_array(node, s_{k}, {k})"
            lines += [f"v_{slot.name} = s_{k}._array if {untouched} else {unpacked}"]
        else:
            lines += [f"v_{slot.name} = unpack_tensor(node, s_{k}, {k})"]
    return lines


def _formula_call(name: str, formula: Any, needs: str = "None") -> str:
    if hands_on(formula):
        return "grad"
    words = [
        "grad" if w in ("grad", "grads") else needs if w == "needs" else f"v_{w}"
        for w in formula.words
    ]
    return f"{name}({', '.join(words)})"


def hands_on(formula: Any) -> bool:
    """Whether a formula is just `lambda grad: grad`."""
    code = getattr(formula.function, "__code__", None)
    return code is not None and formula.words == ("grad",) and code.co_code == _SAME


_SAME = (lambda grad: grad).__code__.co_code


def word(plan: RoadPlan) -> str:
    """The text of a formula's word: the kernel on an array, the operation on a tensor."""
    first = plan.parameters[0].public
    to_kernel = (f"{p.name}={p.public}" if p.keyword_only else p.public for p in plan.parameters)
    return (
        f"def road({declared(plan.arguments)}):\n"
        f"    if {first}.__class__ is ndarray:\n"
        f"        return kernel({', '.join(to_kernel)})\n"
        f"    return function({passed(plan.arguments)})\n"
    )
