"""Declaration of operations: one row contains everything that the rest of the runtime needs.

    mul = op(
        "MulBackward0",
        lambda self, other: self * other,
        ELEMENTWISE,
        PROMOTES,
        self=lambda grad, other: grad * other,
        other=lambda grad, self: grad * self,
    )

A derivative's parameter names are its save list: an input, `result` (or an output's name),
`<input>_shape`, `<input>_numel`, `<input>_strides`, `<input>_dtype`, `<input>_sym_argsize_<dim>`
(one size), an option, or `needs`. Values that only an unwanted gradient
needs are not saved. ELEMENTWISE is the rule of the tangent, see rows/traits.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from gradscope.runtime.core.calls.late import add_names
from gradscope.runtime.core.calls.road_text import call_text
from gradscope.runtime.core.calls.road_text.scope import scope_of
from gradscope.runtime.core.calls.words import w
from gradscope.runtime.core.generated.first_call import LazyFunction, road_of
from gradscope.runtime.core.rows.description import description
from gradscope.runtime.core.rows.operation import REGISTRY, Formula, Operation
from gradscope.runtime.core.rows.parameters import BY_NAME, REQUIRED, parameters
from gradscope.runtime.core.rows.plan import Memory, Parameter, RoadPlan, Slot
from gradscope.runtime.core.rows.traits import (
    BY_HAND,
    COMPARES,
    ELEMENTWISE,
    F_ONLY,
    FLOATS,
    FUNCTION_ONLY,
    GAPS,
    IN_STORAGE,
    INTERNAL,
    LINEAR,
    MATRICES,
    METHOD_ONLY,
    PRODUCT,
    PROMOTES,
    REDUCES,
    REPLAYED,
    TENSORS_ONLY,
    TRANSPOSED,
    UNKNOWN,
    Constants,
    HoldsTensors,
    Joint,
    Named,
    NumberInputs,
    Outputs,
    Refused,
    Sequences,
    Tensors,
    Trait,
    asks_rule,
    hidden,
    holds,
    joint,
    jvp,
    numbers,
    outputs,
    overload,
    refuses,
    sequence,
    shows,
    tensors,
)

__all__ = [
    "BY_HAND",
    "COMPARES",
    "ELEMENTWISE",
    "FLOATS",
    "FUNCTION_ONLY",
    "F_ONLY",
    "GAPS",
    "INTERNAL",
    "IN_STORAGE",
    "LINEAR",
    "METHOD_ONLY",
    "PRODUCT",
    "PROMOTES",
    "REDUCES",
    "REPLAYED",
    "TENSORS_ONLY",
    "TRANSPOSED",
    "UNKNOWN",
    "Memory",
    "family",
    "hidden",
    "holds",
    "inplace",
    "joint",
    "jvp",
    "like",
    "numbers",
    "op",
    "outputs",
    "overload",
    "refuses",
    "sequence",
    "shows",
    "tensors",
    "view",
    "w",
]


def op(
    node_name: str | None, forward: Callable[..., Any], *traits: Trait, **derivatives: Any
) -> Any:
    """Declare an operation. Returns the public function."""
    return _declare(node_name, forward, traits, derivatives, "plain")


def view(node_name: str, forward: Callable[..., Any], *traits: Trait, **derivatives: Any) -> Any:
    """Declare an operation whose result shares storage and version counter with its input."""
    return _declare(node_name, forward, traits, derivatives, "view")


def inplace(
    function: Any, forward: Callable[..., Any] | None = None, memory: Memory | None = None
) -> Any:
    """Declare the in-place twin, with the same node and derivative.

    It clones `self` first if a gradient needs it.
    """
    source: Operation = function.op
    plan = source.plan
    needs_self = any(slot.kind == "input" and slot.source == "self" for slot in plan.slots)
    made = RoadPlan(
        parameters=plan.parameters,
        differentiable=plan.differentiable,
        slots=plan.slots,
        outputs=1,
        kind="inplace",
        same_dtype=plan.same_dtype,
        float_only=plan.float_only,
        numbers=plan.numbers,
        refused=plan.refused,
        clones_self=needs_self,
        memory=memory,
        direct=isinstance(source.kernel, np.ufunc)
        and not forward
        and COMPARES not in source.traits,
    )
    twin = Operation(
        source.node_name,
        forward or source.kernel,
        made,
        source.formulas,
        source.traits,
        source.joint,
    )
    twin.inplace_of = source
    return _finish(twin)


def _declare(
    node_name: str | None,
    forward: Callable[..., Any],
    traits: tuple[Trait, ...],
    derivatives: dict[str, Any],
    kind: str,
) -> Any:
    joints = [t for t in traits if isinstance(t, Joint)]
    if joints:
        differentiable, formulas = joints[0].names, tuple(Formula(each.by) for each in joints)
    else:
        differentiable, formulas = tuple(derivatives), tuple(map(Formula, derivatives.values()))
    names = next((t.names for t in traits if isinstance(t, Outputs)), ("result",))
    without = next((t.without for t in traits if isinstance(t, Outputs)), ())
    parameters = _parameters(forward, traits, differentiable)
    plan = RoadPlan(
        parameters=parameters,
        differentiable=tuple(p.name for p in parameters if p.name in differentiable),
        slots=(
            *_slots(node_name, parameters, differentiable, formulas, names, traits),
            *_constant(traits),
        ),
        outputs=len(names) if names != ("*",) else 0,
        kind=kind,
        same_dtype=PROMOTES in traits or COMPARES in traits,
        float_only=FLOATS in traits,
        numbers=TENSORS_ONLY not in traits,
        refused="".join(t.kinds for t in traits if isinstance(t, Refused) and not t.by_numpy),
        nondifferentiable_outputs=tuple(names.index(n) for n in without),
        layout_rule_asked=asks_rule(forward, traits, kind),
        matrices=MATRICES in traits,
        gaps=GAPS in traits,
    )
    if plan.differentiable != tuple(differentiable):
        raise TypeError(
            f"{node_name}: derivatives are declared for {differentiable}, "
            f"the forward takes them as {plan.differentiable}"
        )
    made = Operation(node_name or "", forward, plan, formulas, traits, bool(joints))
    return _finish(made)


def _parameters(
    forward: Callable[..., Any], traits: Sequence[Trait], differentiable: Sequence[str]
) -> tuple[Parameter, ...]:
    """The forward's parameters; those of a NumPy function are named self and other."""
    extra = {n for t in traits if isinstance(t, Tensors) for n in t.names}
    many = {n for t in traits if isinstance(t, Sequences) for n in t.names}
    plain = {n for t in traits if isinstance(t, NumberInputs) for n in t.names}
    promotes = PROMOTES in traits or COMPARES in traits
    keep = F_ONLY in traits or INTERNAL in traits
    if isinstance(forward, np.ufunc):
        names = ("self", "other")[: forward.nin]
        return tuple(Parameter(n, "input" if n == "self" else n, tensor=True) for n in names)
    made: list[Parameter] = []
    for p in parameters(forward):
        has_default = p.default is not REQUIRED
        is_tensor = (
            p.name in differentiable
            or p.name in extra
            or p.name in many
            or p.name == "self"
            or (p.name == "other" and promotes)
        ) and p.name not in plain
        made.append(
            Parameter(
                name=p.name,
                public="input" if p.name == "self" and not keep else p.name,
                tensor=is_tensor,
                many=p.name in many,
                not_promoted=p.name in extra,
                optional=is_tensor and has_default,
                keyword_only=p.kind is BY_NAME,
                has_default=has_default,
                default=p.default if has_default else None,
            )
        )
    return tuple(made)


def _slots(
    node_name: str | None,
    parameters: Sequence[Parameter],
    differentiable: Sequence[str],
    formulas: Sequence[Formula],
    results: Sequence[str],
    traits: Sequence[Trait],
) -> tuple[Slot, ...]:
    """The slots for the formulas' words, in PyTorch's order: by name, outputs last."""
    held = {n for t in traits if isinstance(t, HoldsTensors) for n in t.names}
    is_joint = any(isinstance(t, Joint) for t in traits)
    wanted: dict[str, list[int]] = {}
    for i, formula in enumerate(formulas):
        for word in formula.words:
            if word not in ("grad", "grads", "needs"):
                wanted.setdefault(word, []).append(i)
    known = {p.name: p for p in parameters}
    slots: list[Slot] = []
    for word, asked in wanted.items():
        by = () if is_joint else tuple(asked)
        if word in results:
            slots.append(Slot(word, "output", word, by, results.index(word)))
        elif word in known:
            kind = "input" if known[word].tensor else "held" if word in held else "option"
            slots.append(Slot(word, kind, word, by))
        elif (fact := _fact_of_an_input(word)) and fact[1] in known:
            slots.append(Slot(word, fact[0], fact[1], by, fact[2]))
        else:
            raise TypeError(
                f"{node_name}: a derivative asks for '{word}', which is no input, output, option "
                f"or shape of this operation; it has {', '.join([*known, *results])}"
            )
    return tuple(sorted(slots, key=lambda slot: (slot.kind == "output", slot.name)))


def _fact_of_an_input(word: str) -> tuple[str, str, int] | None:
    """The kind, input and dim of a word such as `self_shape` or `batch1_sym_argsize_0`."""
    source, _, kind = word.rpartition("_")
    if kind in ("shape", "dtype", "numel", "strides"):
        return kind, source, 0
    source, _, dim = word.rpartition("_sym_argsize_")
    return ("size", source, int(dim)) if dim.isdecimal() else None


def _constant(traits: Sequence[Trait]) -> tuple[Slot, ...]:
    options = [option for t in traits if isinstance(t, Constants) for option in t.values]
    return tuple(Slot(name, "constant", repr(value), ()) for name, value in options)


def _finish(made: Operation) -> Any:
    """Create the public function of an operation; its code is written at the first call."""
    made.replayed = REPLAYED in made.traits
    text = partial(call_text.short, made.plan)
    unbuilt = road_of("short", text, made, partial(add_names, made), made.plan.arguments)
    made.road = unbuilt.function(scope_of(made))
    made.road.op = made  # type: ignore[attr-defined]
    return made.road


def like(row: Any, name: str = "", **names: Any) -> Any:
    """A copy of a function in which some global names have other values."""
    scope = {**row.__globals__, **names}
    if "call" in names and "by_number" not in names:
        scope.pop("by_number", None)  # it has to call the same
    unbuilt: LazyFunction = scope["unbuilt_short"]
    made = unbuilt.function(scope)
    made.__name__ = made.__qualname__ = name or row.__name__
    made.__module__, made.__doc__ = row.__module__, row.__doc__
    made.__annotations__ = row.__annotations__
    made.__dict__.update(row.__dict__)
    return made


def family(namespace: dict[str, Any]) -> None:
    """Name and register the operations of a module, after its variable names.

    `sum__dim` is the overload `sum.dim`; `sum__default` is plain `sum`, for a module in which `sum`
    itself is the public function.
    """
    for name, value in list(namespace.items()):
        made = getattr(value, "op", None)
        if not isinstance(made, Operation) or made.name:
            continue
        base, _, variant = name.rpartition("__") if "__" in name else (name, "", "")
        variant = "" if variant == "default" else variant
        named = next((t.overload for t in made.traits if isinstance(t, Named)), variant)
        made.name = f"{base}.{named}" if named else base
        value.__doc__ = description(made)
        value.__name__ = base
        value.__qualname__ = base
        if made.name in REGISTRY:
            raise TypeError(f"the operation {made.name} is declared twice")
        made.number = len(REGISTRY)
        REGISTRY[made.name] = made
