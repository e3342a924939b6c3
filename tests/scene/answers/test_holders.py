"""What keeps a parameter, a node or a step's graph in memory, and what is not known of it."""

from __future__ import annotations

import re

import pytest

from gradscope.analysis.report import inspect
from gradscope.errors import UnknownNameError
from gradscope.scene.answers.answer import Answer
from gradscope.scene.answers.holders import who_holds
from tests.scene.answers.a_training import BOTH, a_training
from tests.scene.answers.test_memory_use import PROGRAM


def title(answer: Answer) -> str:
    return re.sub(r"[^\s(]*/(?=train\.py)", "", answer.title)


@BOTH
def test_of_a_parameter_its_module_optimizer_and_those_that_saved_it_are_told(engine: str) -> None:
    answer = who_holds(a_training(engine), "head.weight")

    assert title(answer) == (
        "head.weight: held by module head and by SGD (train.py:17); backwards 0 to 3 released it."
    )
    assert answer.facts[0][1].startswith("64 bytes")


@BOTH
def test_of_a_node_it_is_told_whose_result_holds_its_graph_and_which_name(engine: str) -> None:
    answer = who_holds(a_training(engine, program=PROGRAM), "SigmoidBackward0#4")
    last = answer.sections[-1]

    assert title(answer) == (
        "SigmoidBackward0#4 at train.py:6: 1 saved value still held (8.00 KiB), released by no "
        "backward; the list `kept` held graphs of 3 of 4 steps, possibly this one."
    )
    assert last.title == "a reference to a result of these nodes keeps it alive"
    assert last.lines[0].startswith("SumBackward0#4 (grad_fn of tensor")
    assert any("names are checked" in note for note in answer.notes)


@BOTH
def test_of_a_step_it_is_told_what_is_left_of_it_and_the_list_that_held_its_graph(
    engine: str,
) -> None:
    answer = who_holds(a_training(engine, program=PROGRAM), "step 1")

    assert title(answer) == (
        "step 1: backward 1 released the saved values; the list `kept` held graphs of 3 of 4 "
        "steps, possibly this one."
    )
    assert ("still saved", "nothing") in answer.facts
    assert answer.sections[0].lines[0].endswith(": kept.append(loss)")


@BOTH
@pytest.mark.parametrize("wanted", ["kept", "name kept", "`kept`"])
def test_a_name_that_memory_tells_of_can_be_asked_about(engine: str, wanted: str) -> None:
    answer = who_holds(a_training(engine, program=PROGRAM), wanted)

    assert title(answer).startswith(
        "the list `kept`: 3 tensors with graphs of 3 of 4 steps, stored"
    )
    assert answer.sections == ()
    assert answer.facts == ()


@BOTH
def test_at_level_graph_what_was_not_recorded_is_said_and_nothing_is_claimed(engine: str) -> None:
    answer = who_holds(a_training(engine, "graph", PROGRAM), "step 1")

    assert answer.title == "step 1: what nodes saved was not recorded."
    assert answer.notes[0].endswith("use --level engine")


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("head.wieght", "did you mean head.weight"),
        ("step 9", "no step 9: its steps are 0 to 3"),
        ("TanhBackward0", "4 nodes; choose one"),
        ("#beef", "no finding '#beef'"),
    ],
)
def test_what_is_not_there_is_answered_with_what_is(wanted: str, said: str) -> None:
    with pytest.raises(UnknownNameError, match=said):
        who_holds(a_training("gradscope"), wanted)


def test_graph_kept_says_what_backwards_let_go_of() -> None:
    whole = PROGRAM.replace("retain_graph=step == 3", "")
    told, kept = (
        next(each.why for each in inspect(a_training("gradscope", program=program)).findings
             if each.rule == "GS601")
        for program in (whole, PROGRAM)
    )  # fmt: skip

    assert told.endswith("alive (a backward has released the tensors they saved)")
    assert kept.endswith("alive, and 2 of 8 saved tensors, which no backward released")
