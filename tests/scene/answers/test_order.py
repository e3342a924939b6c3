"""Why a node ran when it did: what it waited for and what went before it, on both engines."""

from __future__ import annotations

import re

import pytest

from gradscope.errors import UnknownNameError
from gradscope.scene.answers.order import order
from gradscope.trace.schema import GraphTask, Node, NodeBegin, Order
from tests.scene.answers.a_training import BOTH, a_training
from tests.scene.answers.test_grad_of import lines_of
from tests.shared.by_hand import trace_of


@BOTH
def test_what_a_node_waited_for_and_what_went_before_it_is_told_with_the_reason(
    engine: str,
) -> None:
    answer = order(a_training(engine), "TBackward0#2")

    said = re.sub(r"[^\s(]*/(?=train\.py)", "", answer.title)
    assert re.match(
        r"TBackward0#2 at train\.py:10 ran \d+th of 16 in backward 0 at train\.py:23: it became "
        r"ready when AddmmBackward0#2 had sent the only gradient it needs, and then 1 other",
        said,
    )
    assert [re.sub(r" [\d,]+\)$", ")", line) for line in lines_of(answer)] == [
        "AddmmBackward0 (train.py:10), 8th to run, sent a gradient: the last",
        "AccumulateGrad (head.bias)" + " (train.py:10)" * (engine == "torch")
        + " accumulates a leaf's gradient, which always runs first",
        "TanhBackward0 (train.py:8) was created earlier (sequence number)",
    ]  # fmt: skip
    assert bool(answer.notes) == (engine == "torch")  # there it is inferred


@BOTH
def test_of_a_leaf_other_backwards_are_told_in_short(engine: str) -> None:
    answer = order(a_training(engine), "head.bias")

    assert ("waits for", "2 gradients") in answer.facts
    assert answer.sections[0].lines[0].endswith("1 still missing")
    assert re.match(r"backward 1: ran \d+th of 16, after", answer.sections[-1].lines[0])


@BOTH
def test_at_level_graph_it_is_said_that_no_order_was_recorded(engine: str) -> None:
    answer = order(a_training(engine, "graph"), "TBackward0#2")

    assert answer.title.startswith("None of 4 backwards is known to have reached TBackward0#2")
    assert answer.notes[0].endswith("use --level engine")


def test_an_order_that_the_rules_do_not_foretell_is_not_explained() -> None:
    trace = trace_of(
        Node(0, "MulBackward0", sequence_nr=1),
        GraphTask(5, order=Order.OTHERWISE),
        NodeBegin(task=5, node=0, t=9),
    )

    answer = order(trace, "MulBackward0")

    assert answer.title.endswith("predict another order, so the reason is not known.")


def test_a_node_that_is_not_there_is_answered_with_those_that_come_near() -> None:
    with pytest.raises(UnknownNameError, match="did you mean TanhBackward0#1"):
        order(a_training("gradscope"), "TanBackward0")
