"""Parts of an operation that are created at its first call: node class and further paths."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from gradscope.runtime.core.calls.road_text import backward_text, call_text
from gradscope.runtime.core.calls.road_text.scope import scope_of
from gradscope.runtime.core.generated.first_call import LazyFunction, road_of
from gradscope.runtime.core.generated.texts import build
from gradscope.runtime.core.graph.node import OpNode
from gradscope.runtime.core.kernels.compile_notices import own_work
from gradscope.runtime.core.rows.operation import Operation
from gradscope.runtime.core.rows.traits import Hidden
from gradscope.runtime.core.state import upward


def add_names(made: Operation, scope: dict[str, Any]) -> None:
    """Add the remaining globals of a fast path, together with its code."""
    scope["Node"] = node_class(made)
    if call_text.takes_number(made.plan) and "by_number" not in scope:
        scope["by_number"] = number_road(made).function(scope)


@cache
def number_road(made: Operation) -> LazyFunction:
    """The fast path of an operation whose second input is a Python number."""
    text = partial(call_text.short, made.plan, number=True)
    return road_of("number", text, made, partial(_add_node, made), made.plan.arguments)


def _full_road(made: Operation) -> Any:
    text, arguments = partial(call_text.full, made.plan), call_text.arguments_in_full(made.plan)
    unbuilt = road_of("full", text, made, partial(_add_node, made), arguments)
    return unbuilt.function(made.road.__globals__)


def _add_node(made: Operation, scope: dict[str, Any]) -> None:
    scope["Node"] = node_class(made)


upward.full_road = _full_road


def node_class(made: Operation) -> type[OpNode] | None:
    """The class of the operation's nodes, created on first use; shared with the in-place twin."""
    if made.node_class is None and made.node_name:
        source = made.inplace_of
        with own_work(f"compiles {made.node_name}"):
            made.node_class = _node_class(made) if source is None else node_class(source)
    return made.node_class


def _node_class(made: Operation) -> type[OpNode]:
    scope = scope_of(made)
    formulas = {f"f_{i}": f.function for i, f in enumerate(made.formulas)}
    scope.update(formulas)
    runs = {
        f"run_{kind}": build(
            f"run_{kind}",
            backward_text.backward(
                made.plan, made.formulas, arrays=kind == "arrays", joint=made.joint
            ),
            scope,
            (),
            label=f"{made.node_name}, on {kind}",
        )
        for kind in ("arrays", "tensors")
    }
    body = {
        "__slots__": (),
        "op": made,
        "slots": _shown(made),
        "releases": any(s.kind in {"input", "output", "held"} for s in made.plan.slots),
        **runs,
    }
    return type(made.node_name, (OpNode,), {**body, "__module__": "gradscope.runtime"})


def _shown(made: Operation) -> tuple[str, ...]:
    """The names of slots for users; empty for hidden ones."""
    concealed = {n for t in made.traits if isinstance(t, Hidden) for n in t.names}
    endings = {"shape": "_sym_sizes", "strides": "_sym_strides", "numel": "_sym_numel"}
    concealed |= {s.name for s in made.plan.slots if s.kind == "dtype"}
    optional = {p.name for p in made.plan.parameters if p.optional}
    return tuple(
        ""
        if s.name in concealed
        else s.source + endings[s.kind] + ("_opt" if s.source in optional else "")
        if s.kind in endings
        else s.name
        for s in made.plan.slots
    )
