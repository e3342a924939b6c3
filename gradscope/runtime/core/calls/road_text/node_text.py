"""The part of a road that creates a node: its edges, its number, its saved values."""

from __future__ import annotations

from gradscope.runtime.core.rows.plan import RoadPlan, Slot


def edge_lines(plan: RoadPlan, road: str) -> list[str]:
    """The edges of the differentiable inputs: an edge, or something false."""
    lines: list[str] = []
    for p in plan.tensors:
        if p.name not in plan.differentiable:
            continue
        if road == "number" and p.name == "other":
            lines += ["e_other = None"]
            continue
        if p.many:
            lines += [f"e_{p.name} = [t._edge or (t._meta and edge_of(t)) for t in {p.name}]"]
        else:
            guard = f"{p.name} is not None and " if p.optional else ""
            lines += [
                f"e_{p.name} = {guard}({p.name}._edge or ({p.name}._meta and edge_of({p.name})))"
            ]
    return lines


def any_edge(plan: RoadPlan) -> str:
    many = {p.name for p in plan.tensors if p.many}
    tests = [f"any(e_{n})" if n in many else f"e_{n}" for n in plan.differentiable]
    return " or ".join(tests) or "False"


def node_lines(plan: RoadPlan, road: str) -> list[str]:
    many = {p.name for p in plan.tensors if p.many}
    parts = [
        f"*[e or NOWHERE for e in e_{n}]" if n in many else f"e_{n} or NOWHERE"
        for n in plan.differentiable
    ]
    lines = [
        "node = new(Node)",
        f"node.next_functions = functions = ({', '.join(parts)},)",
        "node.sequence_nr = next(state.sequence)",
        *topological(plan, many),
        *_kept_result(plan, road),
        f"node._saved = {saved_tuple(plan, road)}",
        "node._extra = None",
        "node.record_nr = 0",
    ]
    if plan.outputs == 1:
        lines += [
            "dtype = result.dtype",
            "made_shape = result.shape",
            "meta = last_meta[0]",
            "if meta[0][1] is not dtype or meta[0][0] != made_shape:",
            "    last_meta[0] = meta = ((made_shape, dtype),)",
            "node.input_metadata = meta",
        ]
        lines += ["made._edge = (node, 0)"] if plan.kind != "view" else []
    else:
        lines += [f"connect(node, made, {plan.nondifferentiable_outputs})"]
    if road == "full" or plan.outputs != 1:
        lines += ["finish(node, state)"]
    elif not plan.float_only and road != "number":
        lines += ["if dtype is not FLOAT32 and dtype is not FLOAT64:", "    finish(node, state)"]
    return lines


def topological(plan: RoadPlan, many: set[str]) -> list[str]:
    """One more than the highest topological number of the next nodes."""
    any_order = "node.topological_nr = above(functions)"
    if many:
        return [any_order]
    counted = [f"    {line}" for line in _topological(plan.differentiable)]
    # An edge that leads nowhere has no node. It is treated as missing for counts and saving.
    absent = [f"    e_{n} = e_{n} if e_{n} and e_{n}[0] else None" for n in plan.differentiable]
    return ["try:", *counted, "except AttributeError:", f"    {any_order}", *absent]


def _topological(names: tuple[str, ...]) -> list[str]:
    if len(names) == 1:
        return [f"node.topological_nr = e_{names[0]}[0].topological_nr + 1"]
    lines = [f"top = e_{names[0]}[0].topological_nr if e_{names[0]} else 0"]
    for name in names[1:]:
        lines += [
            f"if e_{name} and e_{name}[0].topological_nr > top:",
            f"    top = e_{name}[0].topological_nr",
        ]
    return [*lines, "node.topological_nr = top + 1"]


def _kept_result(plan: RoadPlan, road: str) -> list[str]:
    """The work of `save_output` for a new result, without hooks."""
    if not _keeps_new_result(plan, road):
        return []
    return [
        "made._versions = versions = new(VersionCounter)",
        "kept = new(SavedVariable)",
        "kept.tensor = kept.hooks = kept.edge = None",
        "kept.array = result",
        "kept.versions = versions",
        "versions.value = kept.version = kept.nr = 0",
    ]


def _keeps_new_result(plan: RoadPlan, road: str) -> bool:
    kept = any(slot.kind == "output" for slot in plan.slots)
    return kept and road != "full" and plan.outputs == 1 and plan.kind == "plain"


def saved_tuple(plan: RoadPlan, road: str) -> str:
    return "(" + "".join(f"{keep_slot(plan, slot, road)}, " for slot in plan.slots) + ")"


def keep_slot(plan: RoadPlan, slot: Slot, road: str) -> str:
    if slot.kind in {"option", "constant"}:
        return slot.source
    if slot.kind == "held":
        return f"[{_held(road)} for t in {slot.source}]"
    if slot.kind == "dtype":
        return f"{slot.source}._array.dtype"
    if slot.kind == "size":
        return f"a_{slot.source}.shape[{slot.nr}]"
    if slot.kind == "numel":
        return f"a_{slot.source}.size"
    if slot.kind == "shape":
        p = next(p for p in plan.parameters if p.name == slot.source)
        if p.many:
            return f"[a.shape for a in a_{p.name}]"
        absent = f" if a_{p.name} is not None else (0,)" if p.optional else ""
        return f"(a_{p.name}.shape{absent})"
    if slot.kind == "strides":
        return f"(a_{slot.source}.strides if e_{slot.source} else ())"
    if slot.kind == "output" and _keeps_new_result(plan, road):
        value = "kept"
    elif slot.kind == "output":
        made = "made" if plan.outputs == 1 else f"made[{slot.nr}]"
        value = f"save_output({made}, node, {slot.nr}, state)"
    else:
        value = _keep_input(plan, slot.source, road)
    # As in PyTorch: an output is always saved; an input unless the only gradient that reads it is
    # unwanted.
    if slot.kind == "output" or len(slot.wanted_by) != 1 or len(plan.differentiable) == 1:
        return value
    return f"({value} if e_{plan.differentiable[slot.wanted_by[0]]} else None)"


def _held(road: str) -> str:
    if road == "full":
        return "save_input(t, state)"
    return "t if t is None or t._versions is None else save_input(t, state)"


def _keep_input(plan: RoadPlan, name: str, road: str) -> str:
    """The tensor itself if it was never written to, otherwise a SavedVariable with its version."""
    p = next(p for p in plan.parameters if p.name == name)
    if p.many:
        return f"[save_input(t, state) for t in {name}]"
    if road == "number" and name == "other":
        return "a_other"
    if road == "full" or p.optional:
        return f"save_input({name}, state)"
    return f"({name} if {name}._versions is None else save_input({name}, state))"
