"""Selection of calls: of a step or backward, around a call, or on the way from one.

Calls without a box (see aside.py) are left out, and counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from gradscope.analysis.graph.forward.aside import Aside
from gradscope.analysis.graph.forward.calls import ForwardCalls
from gradscope.analysis.graph.forward.flows import Flows
from gradscope.analysis.graph.selection import Selection, nodes_of_task
from gradscope.analysis.identity.backwards import backward_numbered
from gradscope.analysis.identity.leaves import leaf
from gradscope.analysis.identity.names import find_nodes, made_in_module, made_on_line, near
from gradscope.analysis.lookups import Ids, Links, links
from gradscope.analysis.program.modules import module_names
from gradscope.errors import UnknownNameError, UsageError
from gradscope.trace.arrays import without
from gradscope.trace.schema import NONE, Node, Tensor
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class SelectedCalls:
    """The selected calls, by place, in the order in which they started."""

    places: Ids
    focus: tuple[int, ...]
    aside: Ids  # places of calls whose results count as data
    left_out: tuple[int, int, int]  # number left out of the step or backward, by reason
    unconnected: int  # number left out whose inputs were not recorded


def select_calls(
    trace: Trace, selection: Selection, *, everything: bool, with_node: bool = False
) -> SelectedCalls:
    """The calls of a selection. Raises UnknownNameError for unknown names.

    `with_node`: of the program's calls only those that created a node.
    """
    if selection.critical:
        raise UsageError("--critical needs runs of nodes, so it works only with --graph backward")
    calls = trace.once(ForwardCalls)
    aside = np.zeros(0, np.int64)
    chosen = _of_step_and_backward(trace, calls, selection)
    left_out, unconnected = (0, 0, 0), 0
    if not everything:
        asides = trace.once(Aside)
        aside, left_out = asides.all, asides.counted(chosen)
        chosen[aside] = False
        if len(without(np.flatnonzero(chosen), calls.unconnected)):
            unconnected = int(chosen[calls.unconnected].sum())
            chosen[calls.unconnected] = False
    if with_node and not everything:
        chosen &= calls.node != NONE
    scope = set(np.flatnonzero(chosen).tolist())
    focus: tuple[int, ...] = ()
    if selection.path_to is not None:
        focus = _found(trace, selection.path_to, scope)
        scope = _reached(focus, _links(trace)[:1], scope, len(calls))
    if selection.around is not None:
        focus = _found(trace, selection.around, scope)
        scope = _reached(focus, _links(trace), scope, selection.hops)
    places = np.array(sorted(scope), np.int64)
    return SelectedCalls(places, focus, aside, left_out, unconnected)


def _of_step_and_backward(trace: Trace, calls: ForwardCalls, selection: Selection) -> np.ndarray:
    """A mask of the calls of the step that created nodes of the backward or ran in it."""
    chosen = np.ones(len(calls), bool)
    if selection.step is not None:
        steps = calls.ops["step"][calls.rows]
        chosen &= np.isin(steps, selection.steps(trace))
    if selection.backward is not None:
        task = backward_numbered(trace, selection.backward)
        made = np.isin(calls.node, sorted(nodes_of_task(trace, task)))
        chosen &= made | (calls.ops["task"][calls.rows] == task.id)
    return chosen


def _found(trace: Trace, name: str, scope: Collection[int]) -> tuple[int, ...]:
    found = tuple(place for place in find_calls(trace, name) if place in scope)
    if not found:
        raise UnknownNameError(
            f"{name!r} is not among the calls selected by --step, --task or --path-to, or it only "
            "fills parameters or data; leave these out, select others, or add --all"
        )
    return found


def _links(trace: Trace) -> tuple[Links, Links]:
    flows = trace.once(Flows)
    return links(flows.maker, flows.user), links(flows.user, flows.maker)


def _reached(
    starts: Iterable[int], adjacent: tuple[Links, ...], scope: set[int], hops: int
) -> set[int]:
    found = set(starts)
    frontier = sorted(found)
    for _ in range(hops):
        targets = {target for place in frontier for link in adjacent for target in link.of(place)}
        frontier = sorted(place for place in targets if place in scope and place not in found)
        if not frontier:
            break
        found.update(frontier)
    return found


def find_calls(trace: Trace, wanted: str) -> tuple[int, ...]:
    """The calls with a name, input tensor, module, line, or node.

    Raises UnknownNameError with similar names if there is none.
    """
    for find in (_by_name, _by_tensor, _by_module, _by_line, _by_node):
        found = find(trace, wanted)
        if len(found):
            return tuple(found)
    names = trace.once(ForwardCalls).names
    close = near(trace, wanted, names, _tensor_names(trace).values())
    hint = f": did you mean {', '.join(close)}?" if close else ""
    raise UnknownNameError(f"no call, tensor, module or source line is called {wanted!r}{hint}")


def _by_name(trace: Trace, wanted: str) -> list[int]:
    calls = trace.once(ForwardCalls)
    name, hash_mark, number = wanted.rpartition("#")
    if not (hash_mark and number.isascii() and number.isdigit()):
        return [place for place, each in enumerate(calls.names) if each == wanted]
    called = [place for place, each in enumerate(calls.names) if each == name]
    return called[int(number) - 1 : int(number)] if int(number) else []


def _by_tensor(trace: Trace, wanted: str) -> list[int]:
    """The calls with a data input of this name."""
    meant = {id for id, name in _tensor_names(trace).items() if name == wanted}
    users = (flow.user for flow in trace.once(Flows).all if flow.tensor in meant)
    return list(dict.fromkeys(users))


def _tensor_names(trace: Trace) -> dict[int, str]:
    tensors = trace.table(Tensor)
    made_by_none = tensors["id"][tensors["op"] == NONE].tolist()
    found = ((id, leaf(trace, id)) for id in made_by_none)
    return {id: each.name for id, each in found if each and each.name}


def _by_module(trace: Trace, wanted: str) -> list[int]:
    modules = trace.once(ForwardCalls).module
    known = {path for id, path in module_names(trace).items() if id in set(modules.tolist())}
    if not known:
        return []
    return np.flatnonzero(made_in_module(trace, modules, wanted)).tolist()


def _by_line(trace: Trace, wanted: str) -> list[int]:
    stacks = trace.once(ForwardCalls).stack
    return np.flatnonzero(made_on_line(trace, stacks, wanted)).tolist()


def _by_node(trace: Trace, wanted: str) -> list[int]:
    """The calls that created the nodes of this name or id."""
    if not len(trace.table(Node)):
        return []
    try:
        nodes = find_nodes(trace, wanted)
    except UnknownNameError:
        return []
    return np.flatnonzero(np.isin(trace.once(ForwardCalls).node, nodes)).tolist()
