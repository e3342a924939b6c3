"""All there is about one node, tensor or operation."""

from __future__ import annotations

import pytest

import gradscope
import gradscope.runtime as torch
from gradscope.errors import UnknownNameError
from gradscope.scene.answers.answer import Answer
from gradscope.scene.answers.things import chosen_node, chosen_op, chosen_tensor
from gradscope.trace.schema import (
    Frame,
    GraphTask,
    HookBegin,
    HookKind,
    Mark,
    Node,
    NodeBegin,
    NodeEnd,
    Op,
    Phase,
    Place,
    Push,
    Saved,
    Span,
    Stack,
    Storage,
    Tensor,
    Thread,
    Value,
    Version,
    Why,
)
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of
from tests.shared.example_traces import mean_of_squares


def a_program() -> Trace:
    """`y = x.exp()` inside a span, a write to it, and a backward that ran its node."""
    return trace_of(
        Thread(0, "MainThread"),
        Frame(0, "a.py", 3, "<module>", "y = x.exp()"),
        Stack(0, 0),
        Storage(1, bytes=12),
        Tensor(1, shape=(3,), dtype="float32", storage=1, op=5, name="y"),
        Tensor(2, shape=(), dtype="float32", storage=1),
        Op(
            5,
            "exp.default",
            path="AutogradCPU CPU",
            begin=100,
            end=140,
            outputs=(1,),
            node=7,
            stack=0,
            thread=0,
            phase=Phase.FORWARD,
        ),
        Op(6, "add_.Tensor", begin=150, inputs=(1,), why=Why.NO_GRAD, thread=0),
        Version(1, 1, old=0, new=1, op=6, t=155),
        Node(7, "ExpBackward0", op=5, inputs=(1,), stack=0, thread=0, t=130),
        Node(8, "ExpBackward0", t=135),
        Saved(0, node=7, slot="result", tensor=1, bytes=12, t=131),
        Value(3, Place.OP_OUTPUT, op=5, tensor=1, count=3, max=2.5, data="[1.0,2.5]"),
        Span(0, "forward", thread=0, begin=90, end=145),
        Mark(0, "here", "now", t=150, thread=0),
        GraphTask(9, roots=(7,), thread=0, begin=200, end=290),
        Push(task=9, node=7, t=210),
        HookBegin(task=9, node=7, hook=HookKind.PRE, name="clip", t=220),
        NodeBegin(task=9, node=7, t=250),
        NodeEnd(task=9, node=7, t=280),
    )


def sections(scene: Answer) -> dict[str, tuple[str, ...]]:
    return {section.title: section.lines for section in scene.sections}


def test_a_node_tells_its_runs_with_their_waits_its_spans_marks_saved_values_and_hooks() -> None:
    scene = chosen_node(a_program(), "7")
    found = sections(scene)

    assert scene.title == "ExpBackward0#1 (node 7)"
    assert ("line", "a.py:3: y = x.exp()") in scene.facts
    assert found["runs"] == ("backward 0: ran 1st, waited 40 ns in queue 0, own time 30 ns",)
    assert found["spans it was in"] == ("forward (55 ns), when it was created",)
    assert found["marks near it"] == (
        "here: now (20 ns after it was created)",
        "here: now (100 ns before it ran in backward 0)",
    )
    assert found["forward call that created it"] == (
        "exp.default (op 5) at a.py:3: y = x.exp(); took 40 ns",
    )
    assert found["values it saves"] == (
        "result: y [3] float32 (tensor 1), 12 bytes, version 0; still held",
    )
    assert found["backwards that started at it"] == ("backward 0",)
    assert any(line.startswith("1 hook_begin at 220 ns") for line in found["events"])
    assert any("hook pre, index 0, name clip" in line for line in found["events"])


def test_a_node_tells_where_its_gradients_go_and_where_they_come_from() -> None:
    found = sections(chosen_node(mean_of_squares(), "MulBackward0#1"))

    assert found["sends gradients to"] == (
        "output 0: AddBackward0 (node 0) at ex.py:4",
        "output 1: AddBackward0 (node 0) at ex.py:4",
    )
    assert found["receives gradients from"] == ("MulBackward0#2 (node 3) at ex.py:5, output 0",)


def test_an_operation_tells_the_keys_it_went_through_and_why_it_made_no_node() -> None:
    exp, add = chosen_op(a_program(), "5"), chosen_op(a_program(), "add_")

    assert ("path", "AutogradCPU CPU") in exp.facts
    assert ("why", "made") in exp.facts
    assert ("why", "no grad") in add.facts
    assert sections(exp)["spans it was in"] == ("forward (55 ns), when it started",)
    assert "data [1.0,2.5]" in sections(exp)["recorded values"][0]
    assert sections(exp)["node it created"] == ("ExpBackward0#1 (node 7) at a.py:3",)
    assert sections(add)["its in-place writes"] == ("by add_ through y [3] float32 (tensor 1)",)


def test_a_tensor_tells_its_memory_who_shares_it_and_each_write() -> None:
    scene = chosen_tensor(a_program(), "y")
    found = sections(scene)

    assert scene.title == "y [3] float32 (tensor 1)"
    assert found["storage 1"] == ("bytes 12 bytes, allocated at 0 ns",)
    assert found["tensors that share its storage"] == ("scalar float32 (tensor 2)",)
    assert found["in-place writes to it"] == ("by add_",)
    assert found["calls that returned it"] == ("exp at a.py:3: y = x.exp()",)
    assert found["calls that used it as an input"] == ("add_",)
    assert found["nodes that saved it"] == (
        "ExpBackward0#1 (node 7) at a.py:3, as result; still held",
    )


def test_what_is_not_there_is_answered_with_what_is() -> None:
    trace = a_program()

    with pytest.raises(UnknownNameError, match=r"no tensor '99': its tensors have the ids 1 to 2$"):
        chosen_tensor(trace, "99")
    with pytest.raises(UnknownNameError, match=r"no op 'z': its ops have the ids 5 to 6$"):
        chosen_op(trace, "z")
    with pytest.raises(UnknownNameError, match=r"^this trace has no op '0': it holds no ops$"):
        chosen_op(trace_of(Node(0, "A")), "0")
    with pytest.raises(
        UnknownNameError, match="no node has the id 99: the nodes of this trace are"
    ):
        chosen_node(trace, "99")


def test_a_name_that_several_have_is_answered_with_their_ids() -> None:
    with pytest.raises(UnknownNameError, match=r"2 nodes; choose one: ExpBackward0#1 \(7\), Exp"):
        chosen_node(a_program(), "ExpBackward0")
    with pytest.raises(UnknownNameError, match="2 ops are called 'mul'; choose one: 1, 2"):
        chosen_op(mean_of_squares(), "mul")


DIVERGES = """\
w = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.SGD([w], lr=0.1)
for step in range(3):
    loss = (w * (float("nan") if step == 2 else 1.0)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
"""


def test_a_tensor_tells_who_wrote_to_it_and_which_steps_were_not_finite() -> None:
    with gradscope.record() as recording:
        exec(compile(DIVERGES, "diverges.py", "exec"), {"torch": torch, "__name__": "diverges"})
    scene = chosen_tensor(recording.trace(), "w")
    found = sections(scene)

    titles = [*found]
    assert titles.index("in-place writes to it") < titles.index("optimizer steps that updated it")
    seen, bad, *moves = found["optimizer steps that updated it"]
    assert seen.startswith("first seen to hold NaN after step 2")
    assert bad == "SGD: the update of step 2 was not finite, or too large to measure"
    assert all("of 2 measured, of 3 steps)" in each for each in moves)
    assert dict(scene.facts)["version"] == "0 when it was first recorded, 3 after the last write"
    assert not any("cut" in each for each in found["what the program did to it"])  # only printed
