"""Generated code of calls: a short function for each operation, written at its first call.

Everything known from the declaration (the number of tensors, which of them get gradients, what is
saved for backward) is decided here once, so that a call does only what remains.

# Note [Roads of an operation]
One text generates up to three functions. The `short` road takes tensors of one ordinary float
dtype; the one for a `number` takes a Python number as its second operand. Other calls they pass to
`long_way.call`, which promotes, wraps numbers and calls the modes, and then calls the `full` road.
Each checks once, at its beginning, for a watcher, and reports the call to that one, though another
may have been set by then. Their lines are shown in tracebacks, in pdb and with
`linecache.getlines("<gradscope: mm>")`, once the operation was called.
"""

from __future__ import annotations

from gradscope.runtime.core.calls.road_text.node_text import (
    any_edge,
    edge_lines,
    keep_slot,
    node_lines,
    topological,
)
from gradscope.runtime.core.calls.road_text.telling_text import begins, tell_call, watcher_method
from gradscope.runtime.core.rows.parameters import FunctionParameter, declared, passed
from gradscope.runtime.core.rows.plan import Parameter, RoadPlan

__all__ = [
    "full",
    "short",
    "takes_number",
]


def with_out(plan: RoadPlan) -> RoadPlan:
    """The plan of a function that also takes `out=`."""
    out = Parameter("out", "out", tensor=False, keyword_only=True, has_default=True)
    return plan._replace(parameters=(*plan.parameters, out))


def takes_number(plan: RoadPlan) -> bool:
    """Whether the second input may be a Python number, which does not affect promotion."""
    names = [p.name for p in plan.tensors]
    ordinary = plan.same_dtype and plan.kind in {"plain", "inplace"} and plan.numbers
    return ordinary and names == ["self", "other"]


def short(plan: RoadPlan, *, number: bool = False, out: bool = False) -> str:
    """The text of the short road (see Note [Roads of an operation]).

    With `number`, `other` is a Python number, which takes the dtype of the tensor. With `out`, the
    function has a further argument: a tensor to write the result to.
    """
    arguments = ", ".join(p.public for p in plan.parameters)
    leave = f"return call(op, ({arguments}{',' if arguments else ''}))"
    lines = [f"def road({declared((with_out(plan) if out else plan).arguments)}):"]
    if out:
        lines += ["    if out is not None:", f"        return put_into(op, ({arguments},), out)"]
    lines += ["    state = local.state", "    if state.special:", f"        {leave}"]
    lines += _renamed(plan)
    if takes_number(plan) and not number:
        lines += [
            "    kind = other.__class__",
            "    if kind is float or kind is int:",
            f"        return by_number({passed(plan.arguments)})",
        ]
    lines += [f"    {line}" for line in begins(plan, "number" if number else "short")]
    lines += ["    try:"]
    lines += [
        f"        a_{p.name} = {_unwrap(p)}"
        for p in plan.tensors
        if not (number and p.name == "other")
    ]
    if not plan.tensors:
        lines += ["        pass"]
    lines += ["    except (AttributeError, TypeError):", f"        {leave}"]
    lines += [f"    {line}" if line else "" for line in _guards(plan, leave, number=number)]
    lines += _body(plan, road="number" if number else "short")
    return "\n".join(lines) + "\n"


def full(plan: RoadPlan) -> str:
    """The text of the path below the dispatcher: arrays are given, everything is supported."""
    lines = [f"def road({declared(arguments_in_full(plan))}):", "    state = local.state"]
    lines += [f"    tell = {watcher_method(plan, 'full')} if begin else None"]
    lines += _body(plan, road="full")
    return "\n".join(lines) + "\n"


def arguments_in_full(plan: RoadPlan) -> list[FunctionParameter]:
    """The parameters of the path below the dispatcher: arguments, arrays, start time."""
    names = [p.name for p in plan.parameters]
    return [
        FunctionParameter(name)
        for name in (*names, *(f"a_{p.name}" for p in plan.tensors), "begin")
    ]


def _renamed(plan: RoadPlan) -> list[str]:
    return [f"    {p.name} = {p.public}" for p in plan.parameters if p.name != p.public]


def _unwrap(p: Parameter) -> str:
    if p.many:
        return f"[t._array for t in {p.name}]"
    if p.optional:
        return f"None if {p.name} is None else {p.name}._array"
    return f"{p.name}._array"


def _guards(plan: RoadPlan, leave: str, *, number: bool) -> list[str]:
    """The conditions of the short road: one ordinary dtype for all."""
    single = [p for p in plan.tensors if not (p.many or p.optional or p.not_promoted)]
    lines: list[str] = []
    if number:
        single = single[:1]
    if (plan.float_only or number) and single:
        lines += [
            f"dtype = a_{single[0].name}.dtype",
            "if dtype is not FLOAT32 and dtype is not FLOAT64:",
            f"    {leave}",
        ]
    if number:
        lines += [
            "numbers = NUMBERS32 if dtype is FLOAT32 else NUMBERS64",
            "a_other = numbers.get(other)",
            "if a_other is None:",
            "    a_other = number_array(other, dtype, numbers)",
        ]
    if plan.matrices:
        dims = " == ".join(["2", *(f"a_{p.name}.ndim" for p in single)])
        lines += [f"if not {dims}:", f"    {leave}"]
    if plan.same_dtype and len(single) > 1:
        first = "dtype" if plan.float_only else f"a_{single[0].name}.dtype"
        lines += [
            line
            for p in single[1:]
            for line in (f"if a_{p.name}.dtype is not {first}:", f"    {leave}")
        ]
    if plan.same_dtype and single:
        lines += [
            line
            for p in plan.tensors
            if p.optional and not (p.many or p.not_promoted)
            for line in (
                f"if a_{p.name} is not None and a_{p.name}.dtype is not a_{single[0].name}.dtype:",
                f"    {leave}",
            )
        ]
    if plan.refused and single and not plan.float_only and not number:
        lines += [f'if a_{single[0].name}.dtype.kind in "{plan.refused}":', f"    {leave}"]
    if plan.same_dtype and plan.tensors and plan.tensors[0].many:
        lines += [f"if not one_dtype(a_{plan.tensors[0].name}):", f"    {leave}"]
    return lines


def _body(plan: RoadPlan, *, road: str) -> list[str]:
    if plan.kind == "inplace":
        return _inplace_body(plan, road=road)
    lines = [*_computed(plan), *_wrapping(plan)]
    if plan.differentiable:
        lines += ["    if state.grad_enabled:"]
        lines += [f"        {line}" for line in edge_lines(plan, road)]
        lines += [f"        if {any_edge(plan)}:"]
        lines += [f"            {line}" for line in node_lines(plan, road)]
    lines += _attach(plan)
    lines += ["    if tell is not None:", f"        {tell_call(plan, road)}", "    return made"]
    return lines


def _computed(plan: RoadPlan, into: str = "") -> list[str]:
    """The kernel's call, and the error if NumPy refuses it."""
    arguments = ", ".join(filter(None, (_array_arguments(plan), into)))
    return [
        "    try:",
        f"        result = kernel({arguments})",
        "    except Exception as error:",
        f"        refused(op, error, ({''.join(f'a_{p.name}, ' for p in plan.tensors)}))",
        "        raise",
        *([] if into else _laid(plan)),
    ]


def _laid(plan: RoadPlan) -> list[str]:
    """The result in the layout of its row's rule."""
    given = "".join(f"*a_{p.name}, " if p.many else f"a_{p.name}, " for p in plan.tensors)
    lay = f"    result = lie(result, ({given}))"
    if plan.layout_rule_asked == "always":
        return [lay]
    if plan.layout_rule_asked == "odd" and not (plan.tensors[0].many or plan.tensors[0].optional):
        return [f"    if not a_{plan.tensors[0].name}.flags.c_contiguous:", f"    {lay}"]
    return []


def _array_arguments(plan: RoadPlan) -> str:
    """The kernel's arguments: arrays for tensors, the rest unchanged."""
    values = [(p, f"a_{p.name}" if p.tensor else p.name) for p in plan.parameters]
    return ", ".join(f"{p.name}={value}" if p.keyword_only else value for p, value in values)


def _wrapping(plan: RoadPlan) -> list[str]:
    """Tensors from the kernel's arrays, still detached."""
    if plan.outputs != 1:
        return ["    made = wrap_all(result)", "    node = None"]
    lines = [
        "    if result.__class__ is not ndarray:",
        "        result = asarray(result)",
        "    made = new(Tensor)",
        "    made._array = result",
        "    made._edge = None",
        "    made._meta = None",
        "    made.record_nr = 0",
        "    node = None",
    ]
    if plan.kind != "view":
        lines += ["    made._versions = None", "    made._storage = None"]
    return lines


def _attach(plan: RoadPlan) -> list[str]:
    if plan.kind != "view":
        return []
    source = plan.tensors[0].name
    options = "".join(f"{p.name}, " for p in plan.parameters if not p.tensor)
    function = "attach_view" if plan.outputs == 1 else "attach_views"
    return [f"    {function}(made, {source}, op, ({options}), node, state)"]


def _inplace_body(plan: RoadPlan, *, road: str) -> list[str]:
    """Write to `self`, then set its new edge."""
    inputs = [p.name for p in plan.tensors if not (road == "number" and p.name == "other")]
    memory = "" if plan.memory is None else ", op.plan"
    lines = [
        "    target = self",
        f"    check_inplace(self, ({''.join(f'{name}, ' for name in inputs)}), state{memory})",
        "    node = None",
        "    made = self",
    ]
    if plan.differentiable:
        lines += ["    if state.grad_enabled:"]
        lines += [f"        {line}" for line in edge_lines(plan, road)]
        lines += [f"        if {any_edge(plan)}:"]
        lines += [f"            {line}" for line in _inplace_node(plan, road)]
    if plan.direct and road != "full":
        lines += [*_computed(plan, into="target._array"), "    count_write(target, op)"]
    else:
        lines += [*_computed(plan), "    write(target, result, op)"]
    if road == "full":
        lines += ["    if state.anomaly:", "        remember_writer(target._versions)"]
    lines += [
        "    if node is not None:",
        "        rebase_history(target, node)",
    ]
    outputs = [slot for slot in plan.slots if slot.kind == "output"]
    if outputs:
        lines += ["        save_results(node, target, state)"]
    given = f"(target, {', '.join(inputs[1:])})"
    lines += [
        "    if tell is not None:",
        f"        tell(op, {given}, target, node, begin, state)",
        "    return target",
    ]
    return lines


def _cloned(plan: RoadPlan) -> list[str]:
    """Copy `self` ahead of the write, if a gradient will read it.

    The kernel still gets the array of the target: some kernels write to it.
    """
    if not plan.clones_self:
        return []
    return [f"if {_clone_wanted(plan)}:", "    self = before_write(self)"]


def _clone_wanted(plan: RoadPlan) -> str:
    slot = next(s for s in plan.slots if s.kind == "input" and s.source == "self")
    if len(slot.wanted_by) != 1:
        return "True"
    return f"e_{plan.differentiable[slot.wanted_by[0]]}"


def _inplace_node(plan: RoadPlan, road: str) -> list[str]:
    many: set[str] = set()
    parts = [f"e_{n} or NOWHERE" for n in plan.differentiable]
    way = "number" if road == "number" else "full"
    kept = ["None" if slot.kind == "output" else keep_slot(plan, slot, way) for slot in plan.slots]
    return [
        "node = new(Node)",
        f"node.next_functions = functions = ({', '.join(parts)},)",
        "node.sequence_nr = next(state.sequence)",
        *_cloned(plan),
        *topological(plan, many),
        f"node._saved = ({''.join(f'{k}, ' for k in kept)})",
        "node._extra = None",
        "node.record_nr = 0",
        "node.input_metadata = ((target._array.shape, target._array.dtype),)",
        "finish(node, state)",
    ]
