"""How a call of an operation is spelled out: one short function per operation, written when declared.

Everything that can be known from the declaration (how many tensors, which of them get gradients,
what is kept for backward) is settled here once, so that a call does only what is left to do.

# Note [Four roads]
From one text come four functions. `fast` takes tensors of one ordinary float type and nothing else;
whatever it does not recognise it hands to `dispatch.call`, which promotes, wraps numbers and asks the
modes, and then comes back on `full`. Each of the two exists once more with the lines that tell the
probe. When a watcher comes, the functions get the other code (probe.watch), so that an unwatched call
pays nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an operation, as the road sees it."""

    name: str
    public: str
    tensor: bool
    many: bool = False
    aside: bool = False  # an index or a mask: promotion leaves it alone
    optional: bool = False
    keyword_only: bool = False
    has_default: bool = False
    default: Any = None


@dataclass(frozen=True, slots=True)
class Slot:
    """One thing a node keeps: an input, an output, a shape or an option."""

    name: str
    kind: str  # "input", "output", "shape", "strides", "numel", "option", "constant"
    source: str
    wanted_by: tuple[int, ...]  # the inputs whose gradient reads it
    index: int = 0  # which output


@dataclass(frozen=True, slots=True)
class Plan:
    """All that the text of a road depends on."""

    parameters: tuple[Parameter, ...]
    differentiable: tuple[str, ...]
    slots: tuple[Slot, ...]
    outputs: int  # 0: a sequence whose length the call decides
    kind: str  # "plain", "view", "inplace"
    same_dtype: bool
    float_only: bool
    numbers: bool = True  # whether the second input may be a Python number
    refused: str = ""  # kinds of dtype that only the long way round knows what to say of
    clones_self: bool = False
    nondifferentiable_outputs: tuple[int, ...] = ()

    @property
    def tensors(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.parameters if p.tensor)


_compiled: dict[str, CodeType] = {}


def build(name: str, text: str, scope: dict[str, Any], defaults: Plan) -> FunctionType:
    """The function `text` defines, with its own code object and `scope` as its globals.

    Equal texts are compiled once; the code is copied, since its caches belong to one scope.
    """
    code = _compiled.get(text)
    if code is None:
        module = compile(text, f"<road of {name}>", "exec")
        code = next(c for c in module.co_consts if isinstance(c, CodeType))
        _compiled[text] = code
    function = FunctionType(code.replace(co_name=name, co_qualname=name), scope, name)
    positional = [p.default for p in defaults.parameters if p.has_default and not p.keyword_only]
    keyword = {p.public: p.default for p in defaults.parameters if p.has_default and p.keyword_only}
    function.__defaults__ = tuple(positional) or None
    function.__kwdefaults__ = keyword or None
    function.__module__ = "gradscope.runtime"
    return function


def signature(plan: Plan, *, public: bool = True) -> str:
    """The parameter list, with placeholders where defaults are set later."""
    parts: list[str] = []
    star = False
    for p in plan.parameters:
        if p.keyword_only and not star:
            parts.append("*")
            star = True
        name = p.public if public else p.name
        parts.append(f"{name}=None" if p.has_default else name)
    return ", ".join(parts)


def takes_number(plan: Plan) -> bool:
    """Whether the second input may be a Python number, which gives way in promotion."""
    names = [p.name for p in plan.tensors]
    ordinary = plan.same_dtype and plan.kind == "plain" and plan.numbers
    return ordinary and names == ["self", "other"]


def fast(plan: Plan, *, probed: bool, number: bool = False) -> str:
    """The text of the short road (see Note [Four roads]).

    With `number`, `other` is a Python number, which takes the dtype of the tensor.
    """
    arguments = ", ".join(p.public for p in plan.parameters)
    leave = f"return call(op, ({arguments}{',' if arguments else ''}))"
    lines = [f"def road({signature(plan)}):"]
    lines += ["    state = local.state", "    if state.special:", f"        {leave}"]
    lines += _renamed(plan)
    if takes_number(plan) and not number:
        lines += [
            "    kind = other.__class__",
            "    if kind is float or kind is int:",
            f"        return by_number({_pass_on(plan)})",
        ]
    if probed:
        lines += ["    begin = clock()"]
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
    lines += _body(plan, probed=probed, saving="number" if number else "fast")
    return "\n".join(lines) + "\n"


def full(plan: Plan, *, probed: bool) -> str:
    """The text of the road below the dispatcher: arrays are given, everything is allowed."""
    arrays = [f"a_{p.name}" for p in plan.tensors]
    names = [p.name for p in plan.parameters]
    lines = [f"def road({', '.join([*names, *arrays])}, begin):", "    state = local.state"]
    lines += _body(plan, probed=probed, saving="full")
    return "\n".join(lines) + "\n"


def _pass_on(plan: Plan) -> str:
    return ", ".join(
        f"{p.public}={p.public}" if p.keyword_only else p.public for p in plan.parameters
    )


def _renamed(plan: Plan) -> list[str]:
    return [f"    {p.name} = {p.public}" for p in plan.parameters if p.name != p.public]


def _unwrap(p: Parameter) -> str:
    if p.many:
        return f"[t._array for t in {p.name}]"
    if p.optional:
        return f"None if {p.name} is None else {p.name}._array"
    return f"{p.name}._array"


def _guards(plan: Plan, leave: str, *, number: bool) -> list[str]:
    """What the short road must make sure of: one ordinary dtype all over."""
    single = [p for p in plan.tensors if not (p.many or p.optional or p.aside)]
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
    if plan.same_dtype and len(single) > 1:
        first = "dtype" if plan.float_only else f"a_{single[0].name}.dtype"
        lines += [
            line
            for p in single[1:]
            for line in (f"if a_{p.name}.dtype is not {first}:", f"    {leave}")
        ]
    if plan.refused and single and not plan.float_only and not number:
        lines += [f'if a_{single[0].name}.dtype.kind in "{plan.refused}":', f"    {leave}"]
    if plan.same_dtype and plan.tensors and plan.tensors[0].many:
        lines += [f"if not one_dtype(a_{plan.tensors[0].name}):", f"    {leave}"]
    return lines


def _body(plan: Plan, *, probed: bool, saving: str) -> list[str]:
    if plan.kind == "inplace":
        return _inplace_body(plan, probed=probed)
    lines = [*_computed(plan), *_wrapping(plan)]
    if plan.differentiable:
        lines += ["    if state.grad_enabled:"]
        lines += [f"        {line}" for line in _edges(plan, saving)]
        lines += [f"        if {_any_edge(plan)}:"]
        lines += [f"            {line}" for line in _node(plan, saving)]
    lines += _attach(plan)
    if probed:
        lines += [f"    {line}" for line in _tell(plan, saving)]
    lines += ["    return made"]
    return lines


def _computed(plan: Plan) -> list[str]:
    """The kernel's call, and what is said when NumPy refuses it."""
    return [
        "    try:",
        f"        result = kernel({_array_arguments(plan)})",
        "    except (ValueError, TypeError) as error:",
        f"        refused(op, error, ({''.join(f'a_{p.name}, ' for p in plan.tensors)}))",
        "        raise",
    ]


def _array_arguments(plan: Plan) -> str:
    """What the kernel is called with: arrays for tensors, the rest as it is."""
    values = [(p, f"a_{p.name}" if p.tensor else p.name) for p in plan.parameters]
    return ", ".join(f"{p.name}={value}" if p.keyword_only else value for p, value in values)


def _tell(plan: Plan, saving: str) -> list[str]:
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


def _wrapping(plan: Plan) -> list[str]:
    """Tensors around the kernel's arrays, still without history."""
    if plan.outputs != 1:
        return ["    made = wrap_all(result)", "    node = None"]
    lines = [
        "    if result.__class__ is not ndarray:",
        "        result = asarray(result)",
        "    made = new(Tensor)",
        "    made._array = result",
        "    made._edge = None",
        "    made._meta = None",
        "    made.seen = 0",
        "    node = None",
    ]
    if plan.kind != "view":
        lines += ["    made._versions = None", "    made._storage = None"]
    return lines


def _edges(plan: Plan, saving: str) -> list[str]:
    """Where the gradients of the differentiable inputs go: an edge, or something false."""
    lines: list[str] = []
    for p in plan.tensors:
        if p.name not in plan.differentiable:
            continue
        if saving == "number" and p.name == "other":
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


def _any_edge(plan: Plan) -> str:
    many = {p.name for p in plan.tensors if p.many}
    tests = [f"any(e_{n})" if n in many else f"e_{n}" for n in plan.differentiable]
    return " or ".join(tests) or "False"


def _node(plan: Plan, saving: str) -> list[str]:
    many = {p.name for p in plan.tensors if p.many}
    parts = [
        f"*[e or NOWHERE for e in e_{n}]" if n in many else f"e_{n} or NOWHERE"
        for n in plan.differentiable
    ]
    lines = [
        "node = new(Node)",
        f"node.next_functions = functions = ({', '.join(parts)},)",
        "node.sequence_nr = state.next_sequence_nr()",
        *_topological(plan, many),
        f"node._saved = {_saved(plan, saving)}",
        "node._extra = None",
        "node.seen = 0",
    ]
    if plan.outputs == 1:
        lines += ["dtype = result.dtype", "node.input_metadata = ((result.shape, dtype),)"]
        lines += ["made._edge = (node, 0)"] if plan.kind != "view" else []
    else:
        lines += [f"connect(node, made, {plan.nondifferentiable_outputs})"]
    if saving == "full" or plan.outputs != 1:
        lines += ["finish(node, state)"]
    elif not plan.float_only and saving != "number":
        lines += ["if dtype is not FLOAT32 and dtype is not FLOAT64:", "    finish(node, state)"]
    return lines


def _topological(plan: Plan, many: set[str]) -> list[str]:
    """One more than the highest number among the nodes the gradients go to."""
    names = plan.differentiable
    if many:
        return ["node.topological_nr = 1 + max([f.topological_nr for f, _ in functions if f])"]
    if len(names) == 1:
        return [f"node.topological_nr = e_{names[0]}[0].topological_nr + 1"]
    lines = [f"top = e_{names[0]}[0].topological_nr if e_{names[0]} else 0"]
    for name in names[1:]:
        lines += [
            f"if e_{name} and e_{name}[0].topological_nr > top:",
            f"    top = e_{name}[0].topological_nr",
        ]
    return [*lines, "node.topological_nr = top + 1"]


def _saved(plan: Plan, saving: str) -> str:
    return "(" + "".join(f"{_keep(plan, slot, saving)}, " for slot in plan.slots) + ")"


def _keep(plan: Plan, slot: Slot, saving: str) -> str:
    if slot.kind in {"option", "constant"}:
        return slot.source
    if slot.kind == "numel":
        return f"a_{slot.source}.size"
    if slot.kind == "shape":
        many = any(p.many and p.name == slot.source for p in plan.parameters)
        return f"[a.shape for a in a_{slot.source}]" if many else f"a_{slot.source}.shape"
    if slot.kind == "strides":
        return f"(a_{slot.source}.strides if e_{slot.source} else ())"
    if slot.kind == "output":
        made = "made" if plan.outputs == 1 else f"made[{slot.index}]"
        value = f"save_output({made}, node, {slot.index}, state)"
    else:
        value = _keep_input(plan, slot.source, saving)
    # As PyTorch: an output is kept always, an input unless the one gradient that reads it is unwanted.
    if slot.kind == "output" or len(slot.wanted_by) != 1 or len(plan.differentiable) == 1:
        return value
    return f"({value} if e_{plan.differentiable[slot.wanted_by[0]]} else None)"


def _keep_input(plan: Plan, name: str, saving: str) -> str:
    """The tensor itself while nobody has written to it, else a SavedVariable with its version."""
    p = next(p for p in plan.parameters if p.name == name)
    if p.many:
        return f"[save_input(t, state) for t in {name}]"
    if saving == "number" and name == "other":
        return "a_other"
    if saving == "full" or p.optional:
        return f"save_input({name}, state)"
    return f"({name} if {name}._versions is None else save_input({name}, state))"


def _attach(plan: Plan) -> list[str]:
    if plan.kind != "view":
        return []
    source = plan.tensors[0].name
    options = "".join(f"{p.name}, " for p in plan.parameters if not p.tensor)
    function = "attach_view" if plan.outputs == 1 else "attach_views"
    return [f"    {function}(made, {source}, op, ({options}), node, state)"]


def _inplace_body(plan: Plan, *, probed: bool) -> list[str]:
    """Write into `self`, then give it its new history."""
    lines = [
        "    target = self",
        f"    check_inplace(self, ({''.join(f'{p.name}, ' for p in plan.tensors)}), state)",
        "    node = None",
        "    made = self",
    ]
    if plan.differentiable:
        lines += ["    if state.grad_enabled:"]
        lines += [f"        {line}" for line in _edges(plan, "full")]
        lines += [f"        if {_any_edge(plan)}:"]
        if plan.clones_self:
            lines += ["            self = before_write(self)", "            a_self = self._array"]
        lines += [f"            {line}" for line in _inplace_node(plan)]
    lines += [
        *_computed(plan),
        "    write(target, result)",
        "    if node is not None:",
        "        rebase_history(target, node)",
    ]
    outputs = [slot for slot in plan.slots if slot.kind == "output"]
    if outputs:
        lines += ["        save_results(node, target, state)"]
    if probed:
        lines += [
            f"    probe.here.wrote(op, {_tensor_tuple(plan).replace('self', 'target')},"
            " target, node, begin, state)"
        ]
    lines += ["    return target"]
    return lines


def _inplace_node(plan: Plan) -> list[str]:
    many: set[str] = set()
    parts = [f"e_{n} or NOWHERE" for n in plan.differentiable]
    kept = ["None" if slot.kind == "output" else _keep(plan, slot, "full") for slot in plan.slots]
    return [
        "node = new(Node)",
        f"node.next_functions = functions = ({', '.join(parts)},)",
        "node.sequence_nr = state.next_sequence_nr()",
        *_topological(plan, many),
        f"node._saved = ({''.join(f'{k}, ' for k in kept)})",
        "node._extra = None",
        "node.seen = 0",
        "node.input_metadata = ((target._array.shape, target._array.dtype),)",
        "finish(node, state)",
    ]


def backward(plan: Plan, formulas: Sequence[Any], *, arrays: bool, joint: bool) -> str:
    """The text of a node's backward: on bare arrays, or on tensors for `create_graph`."""
    many = any(p.many for p in plan.tensors)
    lines = ["def run(node, grads):", "    saved = node._saved", "    if saved is None:"]
    lines += ["        freed(node)"]
    if plan.slots:
        lines += [f"    {''.join(f's_{i}, ' for i in range(len(plan.slots)))}= saved"]
    lines += _incoming(plan, arrays=arrays)
    if joint or many:
        lines += [f"    {line}" for line in _unpack(plan.slots, range(len(plan.slots)), arrays)]
        needs = "tuple([f is not None for f, _ in node.next_functions])"
        call = _formula_call("f_0", formulas[0], plan, arrays=arrays, needs=needs)
        lines += [f"    return {call}"]
        return "\n".join(lines) + "\n"
    single = len(plan.differentiable) == 1
    names = [f"e_{i}" for i in range(len(plan.differentiable))]
    if not single:
        lines += [f"    {', '.join(names)} = node.next_functions"]
    for name in sorted(plan.differentiable):  # PyTorch's order: a double backward shows it
        i = plan.differentiable.index(name)
        formula = formulas[i]
        used = [k for k, slot in enumerate(plan.slots) if slot.name in formula.words]
        pad = "    " if single else "        "
        if not single:
            lines += [f"    g_{i} = None", f"    if e_{i}[0] is not None:"]
        lines += [f"{pad}{line}" for line in _unpack(plan.slots, used, arrays)]
        lines += [f"{pad}g_{i} = {_formula_call(f'f_{i}', formula, plan, arrays=arrays)}"]
    lines += [f"    return ({''.join(f'g_{i}, ' for i in range(len(formulas)))})"]
    return "\n".join(lines) + "\n"


def _incoming(plan: Plan, *, arrays: bool) -> list[str]:
    none = "return (None,) * len(node.next_functions)"
    if plan.outputs == 1:
        return ["    grad = grads[0]", "    if grad is None:", f"        {none}"]
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
        if slot.kind not in {"input", "output"}:
            lines += [f"v_{slot.name} = s_{k}"]
        elif arrays:
            lines += [
                f"v_{slot.name} = s_{k}._array if s_{k}.__class__ is Tensor and"
                f" s_{k}._versions is None else unpack_array(node, s_{k}, {k})"
            ]
        else:
            lines += [f"v_{slot.name} = unpack_tensor(node, s_{k}, {k})"]
    return lines


def _formula_call(name: str, formula: Any, plan: Plan, *, arrays: bool, needs: str = "None") -> str:
    words = [
        "grad" if w in ("grad", "grads") else needs if w == "needs" else f"v_{w}"
        for w in formula.words
    ]
    return f"{name}({', '.join(words)})"


def word(plan: Plan) -> str:
    """The text of a formula's word: the kernel on an array, the operation on a tensor."""
    first = plan.parameters[0].public
    arguments = ", ".join(p.public for p in plan.parameters)
    return (
        f"def road({signature(plan)}):\n"
        f"    if {first}.__class__ is ndarray:\n"
        f"        return kernel({_kernel_arguments(plan)})\n"
        f"    return function({_pass_on(plan)})\n"
        if arguments
        else ""
    )


def _kernel_arguments(plan: Plan) -> str:
    return ", ".join(
        f"{p.name}={p.public}" if p.keyword_only else p.public for p in plan.parameters
    )
