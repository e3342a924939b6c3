"""One node at a moment, against the whole state there."""

from __future__ import annotations

from hypothesis import given

import gradscope.runtime as torch
from gradscope.analysis.state.backward import BackwardState
from gradscope.analysis.state.moments import Moments
from gradscope.analysis.state.node_at import NodeAt, Stage, node_at
from gradscope.analysis.state.state import at
from gradscope.record.recorder import record
from gradscope.scene.answers.node_now import hooks
from gradscope.trace.schema import NONE, HookBegin, Node
from gradscope.trace.trace import Trace
from tests.programs import Program, outcome, programs
from tests.shared.example_traces import mean_of_squares, shared_weight
from tests.shared.searching import searching


@searching(15)
@given(programs())
def test_a_node_is_where_the_state_says_at_every_moment(program: Program) -> None:
    with record() as recording:
        outcome(torch, program)
    trace = recording.trace()
    nodes = trace.table(Node)["id"].tolist()
    for moment in range(len(at(trace, 0))):
        for backward in at(trace, moment).backwards:
            found = [node_at(trace, node, backward.task.id, moment) for node in nodes]
            assert by_stage(found) == by_state(backward)
            for each in found:
                if each.stage in (Stage.WAITING, Stage.READY, Stage.TAKEN):
                    came = [(g.source, g.index) for g in backward.arrived(each.node)]
                    assert each.came == len(came)
                    sent = [(s.node, s.index) for s in each.senders if s.sent != NONE]
                    assert sorted(sent) == sorted(came)


def by_stage(found: list[NodeAt]) -> list[set[int]]:
    stages = ({Stage.WAITING}, {Stage.READY}, {Stage.RUNNING, Stage.TAKEN})
    return [{each.node for each in found if each.stage in these} for these in stages]


def by_state(backward: BackwardState) -> list[set[int]]:
    return [
        {each.node for each in backward.all_waiting()},
        {each.node for each in backward.queued},
        {each.node for each in backward.running},
    ]


def the_last(trace: Trace, name: str, moment: int = -1) -> NodeAt:
    state = at(trace, moment)
    node = [row.id for row in trace.rows(Node) if row.name == name][-1]
    backward = at(trace, len(state) // 2).backward
    assert backward is not None
    return node_at(trace, node, backward.task.id, state.moment)


def test_neighbours_are_told_by_their_edges() -> None:
    trace = mean_of_squares()
    add = the_last(trace, "AddBackward0")

    assert add.stage is Stage.DONE
    assert [(each.index, each.input_nr) for each in add.senders] == [(0, 0), (1, 0)]
    assert add.count == add.came == 2
    assert not add.missing
    assert [each.stage for each in add.receivers] == [Stage.DONE]


def test_of_very_many_neighbours_the_first_are_told_and_all_are_counted() -> None:
    trace = shared_weight(250)
    nodes = [row.id for row in trace.rows(Node) if row.name == "AccumulateGrad"]
    found = [node_at(trace, node, NONE, 0) for node in nodes]
    leaf = max(found, key=lambda each: each.sender_count)

    assert leaf.sender_count == 250
    assert len(leaf.senders) == 200


def test_outside_of_backwards_a_node_has_its_edges_only() -> None:
    trace = mean_of_squares()
    found = node_at(trace, trace.table(Node)["id"].tolist()[0], NONE, 0)

    assert found.stage is Stage.OUTSIDE
    assert found.since == found.count == NONE


def test_hooks_of_a_node_are_called_or_to_come() -> None:
    with record() as recording:
        w = torch.ones(2, requires_grad=True)
        h = w * 2
        h.register_hook(lambda grad: grad * 2)
        h.sum().backward()
    trace = recording.trace()
    (begins,) = (int(each) for each in trace.once(Moments).of(HookBegin))

    before, after = (the_last(trace, "MulBackward0", moment) for moment in (begins - 1, begins))

    assert [(each.moment, each.called) for each in before.hooks] == [(begins, False)]
    assert after.hooks[0].called
    assert hooks(before).endswith(f"<lambda> not called before moment {begins}")
    assert hooks(after).endswith(f"<lambda> called at moment {begins}")
