"""Notes about what is not known of backwards."""

from __future__ import annotations

from gradscope.scene.answers.not_recorded import inferred, not_added_up
from gradscope.trace.schema import GraphTask, Order
from tests.shared.by_hand import trace_of


def test_a_backward_with_other_sums_lacks_only_what_was_added() -> None:
    trace = trace_of(
        *(GraphTask(id, order=order) for id, order in enumerate((Order.FORETOLD, Order.OTHERWISE))),
        GraphTask(2, order=Order.NOT_THE_SUMS),
        meta={"inferred": ["push"]},
    )

    (note,) = not_added_up(trace)
    assert "1 backward (backward 2)" in note
    *_, lost = inferred(trace, "push", "counts")
    assert "1 backward (backward 1)" in lost


def test_without_such_a_backward_there_is_no_note() -> None:
    assert not_added_up(trace_of(GraphTask(0, order=Order.FORETOLD))) == ()
