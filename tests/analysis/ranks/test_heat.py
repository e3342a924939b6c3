"""What each rank did in each step, in numbers."""

from __future__ import annotations

import numpy as np

from gradscope.analysis.ranks.heat import rank_steps
from gradscope.analysis.ranks.merge import merged
from gradscope.analysis.ranks.one_rank import only
from gradscope.trace.schema import NONE, Act, GraphTask, Place, Replicated, StepAct, Value
from gradscope.trace.trace import Trace
from tests.analysis.ranks.several_ranks import MS, several_ranks
from tests.shared.example_traces import two_layers_program


def test_the_time_of_a_step_is_without_waits_for_other_ranks() -> None:
    trace = several_ranks(3, slow={(1, 2): 4 * MS, (0, 2): 4 * MS}, late={(1, 2): 300_000})

    found = rank_steps(trace)

    assert found is not None
    assert (found.ranks, found.steps) == ((0, 1, 2), (0, 1, 2))
    waited = 300_000
    assert found.ns.tolist() == [
        [MS, MS, 4 * MS - waited],
        [MS, MS, 4 * MS],
        [MS, MS, MS - waited],
    ]


def test_a_step_that_did_not_end_has_no_time() -> None:
    found = rank_steps(several_ranks(2))

    assert found is not None
    assert (found.ns == NONE).all()
    assert (found.alike != NONE).all()


def test_ranks_with_other_nodes_are_not_alike() -> None:
    same, other = (rank_steps(several_ranks(3, alike=alike)) for alike in (True, False))

    assert same is not None
    assert other is not None
    assert same.alike.tolist() == [[0] * 3] * 3
    assert other.alike.T.tolist() == [[0, 1, 2]] * 3


def trained(rank: int, grads: list[tuple[float, ...]], bad: int = NONE) -> Trace:
    """A rank with the norms of the gradients in each step, and a step with a NaN."""
    program = two_layers_program(len(grads))
    tasks = [row for row in program.rows if isinstance(row, GraphTask)]
    program.rows.append(Replicated(parameters=(0,)))
    for number, (task, norms) in enumerate(zip(tasks, grads, strict=True)):
        act = program.id("act")
        program.rows += [
            Act(act, "step", step=task.step, t=program.tick()),
            StepAct(act, many=len(norms), grad=norms),
            Value(program.id("value"), Place.NODE_INPUT, step=task.step, nan=int(number == bad)),
        ]
    return program.trace(rank=rank, host="one")


def test_norms_and_nonfinite_values_are_those_of_the_steps() -> None:
    norms = [(3.0, 4.0), (), (float("nan"), 6.0)]
    found = rank_steps(merged([trained(0, norms), trained(1, norms, bad=2)]))

    assert found is not None
    assert found.norm[0, [0, 2]].tolist() == [5.0, 6.0]
    assert np.isnan(found.norm[:, 1]).all()
    assert found.non_finite.tolist() == [[0, 0, 0], [0, 0, 1]]
    assert found.alike.tolist() == [[0, 0, 0], [0, 0, 1]]


def test_replicas_with_other_gradients_are_not_alike() -> None:
    many = [trained(rank, [(3.0,), (3.0 + (rank == 1),)]) for rank in range(3)]
    found = rank_steps(merged(many))

    assert found is not None
    assert found.alike.tolist() == [[0, 0], [0, 1], [0, 0]]


def test_one_process_has_no_ranks() -> None:
    assert rank_steps(only(several_ranks(2), 1)) is None
