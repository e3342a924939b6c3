"""What goes from call to call is the same on both engines, as far as calls made nodes."""

from __future__ import annotations

from collections import Counter

import pytest

from gradscope.analysis.graph.forward.calls import ForwardCalls
from gradscope.analysis.graph.forward.flows import Flows
from gradscope.trace.schema import NONE, Node
from gradscope.trace.trace import Trace
from tests.analysis.likeness.engines import on_gradscope, on_pytorch
from tests.analysis.likeness.test_both_engines import EVERY
from tests.programs.ordinary import ROOMS, programs_of

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

NO_WAY_BACK = "a trace of PyTorch holds no nodes that no backward comes to"
IN_PLACE = "one engine writes gates in place, through views of one memory"
SLICES = "what our engine calls by the write, PyTorch calls CopySlices"
OTHERWISE = {
    "densities": NO_WAY_BACK,
    "penalty": NO_WAY_BACK,
    "attention": NO_WAY_BACK,
    "plain_recurrence": NO_WAY_BACK,
    "two_models": NO_WAY_BACK,
    "recurrent_cell": IN_PLACE,
    "gated_cell": IN_PLACE,
    "gated_recurrence": IN_PLACE,
    "packed_recurrence": IN_PLACE,
    "padding": SLICES,
    "through_a_view": SLICES,
    "into_rows": SLICES,
}
"""Programs in which other tensors are known to go from call to call, and why."""


def between(trace: Trace) -> Counter[tuple[str, str]]:
    """The nodes of pairs of calls of which one was given what the other made, by their names."""
    calls, nodes = trace.once(ForwardCalls), trace.table(Node)
    pairs = {(flow.maker, flow.user) for flow in trace.once(Flows).all if flow.maker != NONE}
    made = [pair for pair in pairs if NONE not in calls.node[list(pair)]]
    names = trace.texts(nodes["name"][nodes.positions(calls.node[[*sum(made, ())]])])
    return Counter(zip(names[::2], names[1::2], strict=True))


@pytest.mark.parametrize("room", ROOMS)
def test_tensors_go_from_call_to_call_alike_on_both_engines(room: str) -> None:
    differ = {}
    for program in programs_of(room)[::EVERY]:
        if program.__name__ in OTHERWISE:
            continue
        ours, theirs = between(on_gradscope(program)), between(on_pytorch(program))
        if ours != theirs:
            differ[program.__name__] = ours - theirs, theirs - ours

    assert differ == {}
