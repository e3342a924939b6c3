"""What a trace tells of captured steps: plans, times of pieces, and what was not captured."""

from __future__ import annotations

from typing import Any

import pytest

import gradscope.runtime as torch
from gradscope.analysis.answers.captured import CaptureInfo as CapturedFacts, captured
from gradscope.analysis.state.replayed import replayed_at
from gradscope.errors import EmptyTraceError, UsageError
from gradscope.record.recorder import record
from gradscope.render.pictures import page_scene
from gradscope.runtime.fast.capture.captured import WORTH_FUSING, Captured
from gradscope.scene.answers.captured import NONE_CAPTURED, captures
from gradscope.scene.choices import ColorBy, GraphOf
from gradscope.scene.graph.graph import graph_scene
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.kinds import Form
from gradscope.trace.schema import NONE, Lack, Op, Phase, PlanCall, Replay
from gradscope.trace.trace import Trace
from tests.runtime.fast.capture.test_fusing import SHAPE, chain
from tests.shared.by_hand import trace_of

PLAN = GraphOptions(graph=GraphOf.PLAN)


def recorded(step: Any, *calls: tuple[Any, ...]) -> Trace:
    with record() as recording:
        for args in calls:
            step(*args)
    recording.stop()
    return recording.trace()


@pytest.fixture(scope="module")
def chained() -> tuple[Trace, CapturedFacts]:
    step, _ = chain(torch.float32, 12)
    given = (torch.ones(SHAPE),)
    trace = recorded(Captured(step), *[given] * (WORTH_FUSING + 12))
    (found,) = captured(trace)
    return trace, found


def test_a_plan_tells_its_calls_its_arrays_and_how_long_they_took(
    chained: tuple[Trace, CapturedFacts],
) -> None:
    _, step = chained
    (plan,) = step.plans
    calls = [label for piece in plan.pieces for label in piece.labels]

    assert step.name.endswith("step")
    assert "test_fusing.py:" in step.site.place
    assert calls.count("tanh") == 12
    assert {piece.phase for piece in plan.pieces} == {Phase.FORWARD, Phase.BACKWARD}
    assert all("test_fusing.py:" in piece.site.place for piece in plan.pieces)
    assert all(piece.ns >= 0 for piece in plan.pieces)
    assert 0 < plan.calls_ns <= plan.replay_ns
    assert [a.shape for a in plan.arrays.values() if a.role == "argument"] == [SHAPE]
    assert {a.name for a in plan.arrays.values() if a.role == "state"} == {"x", "y"}
    assert "x: memory, requires_grad, hooks, .grad" in plan.guards


def test_what_is_fused_says_its_formulas_and_what_it_saved(
    chained: tuple[Trace, CapturedFacts],
) -> None:
    _, step = chained
    (plan,) = step.plans
    kernels = [piece for piece in plan.pieces if piece.fused]

    assert kernels
    assert all(len(piece.formulas) == len(piece.labels) for piece in kernels)
    assert kernels[0].formulas[0] == "y0 = x0 * x1"
    assert len(plan.saved_ns) == len(kernels)
    assert all(before > 0 and now > 0 for before, now in plan.saved_ns)
    assert plan.before != NONE


def test_each_call_of_a_plan_is_found_among_the_calls_of_a_replay(
    chained: tuple[Trace, CapturedFacts],
) -> None:
    trace, _ = chained
    names = {op.id: op.name for op in trace.rows(Op)}
    last = list(trace.rows(Replay))[-1]
    calls = [c for c in trace.rows(PlanCall) if c.plan == last.plan and c.op != NONE]

    assert [names[call.op + last.shift] for call in calls] == [call.label for call in calls]


def test_the_picture_has_a_box_for_each_piece_with_what_is_looked_at_before(
    chained: tuple[Trace, CapturedFacts],
) -> None:
    trace, step = chained
    (plan,) = step.plans
    scene = graph_scene(trace, GraphOptions(graph=GraphOf.PLAN, everything=True))
    forms = [box.form for box in scene.boxes]
    drawn = {box.id for box in scene.boxes}

    assert forms.count(Form.KERNEL) == sum(piece.fused for piece in plan.pieces)
    assert len(scene.boxes) == len(plan.pieces) + 3  # guards, the argument, what is returned
    assert [group.title for group in scene.groups][1:] == ["forward", "backward"]
    assert all({arrow.tail, arrow.head} <= drawn for arrow in scene.arrows)
    kernel = next(box for box in scene.boxes if box.form is Form.KERNEL)
    assert "y0 = x0 * x1" in [line.text for line in kernel.lines]


def test_a_large_plan_is_folded_and_warm_by_time(chained: tuple[Trace, CapturedFacts]) -> None:
    trace, _ = chained
    scene = graph_scene(trace, GraphOptions(graph=GraphOf.PLAN, limit=4, color_by=ColorBy.TIME))
    folded = [box for box in scene.boxes if box.form is Form.FOLDED]

    assert [box.group for box in folded] == ["p1FORWARD", "p1BACKWARD"]
    assert max(box.heat for box in scene.boxes if box.heat is not None) == 1.0
    assert scene.notes[0].endswith("--all draws each")


def test_what_is_not_captured_is_said_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    weight = torch.ones(3, requires_grad=True)

    def step(x: Any) -> Any:
        weight.grad = None
        loss = (x * weight).sum()
        loss.backward()
        print(end="")
        return loss.detach() * 2

    first = step.__code__.co_firstlineno
    sizes = (2, 2, 2, 2, 2, 4, 4, 4)
    trace = recorded(Captured(step), *[(torch.ones(size, 3),) for size in sizes])
    whole, before, after = captured(trace)
    (cut,) = whole.lacks

    assert (cut.kind, cut.reason) == (Lack.PIECE, "print() is called")
    assert cut.site.place.endswith(f"test_captured.py:{first + 4}")
    assert (before.whole, before.lines) == (whole.id, (first + 1, first + 3))
    assert (after.whole, after.lines) == (whole.id, (first + 5, first + 5))
    assert [lack.kind for lack in before.lacks] == [Lack.FITTED]
    assert "args[0] was float32 of 2×3" in before.lacks[0].reason
    assert len(before.plans) == 2
    said = captures(trace).sections[0]
    assert said.title == "not captured, or captured again"
    assert said.lines[0].startswith(cut.site.place)
    assert [box.title for box in graph_scene(trace, PLAN).boxes].count("runs eagerly") == 1
    assert capsys.readouterr().err.count("replayed in pieces") == 1


def test_at_a_moment_of_a_replay_its_piece_is_known(chained: tuple[Trace, CapturedFacts]) -> None:
    trace, step = chained
    (plan,) = step.plans
    last = list(trace.rows(Replay))[-1]
    found = [replayed_at(trace, last.begin + end - 1) for end in last.ends]
    after = replayed_at(trace, last.begin + last.ends[-1])

    assert [(each.piece, each.labels, each.fused) for each in found if each is not None] == [
        (nr, piece.labels, piece.fused) for nr, piece in enumerate(plan.pieces, 1)
    ]
    assert after is None or after.piece == 0
    assert replayed_at(trace, 0) is None


def test_a_page_has_no_plan_and_says_what_has(chained: tuple[Trace, CapturedFacts]) -> None:
    with pytest.raises(UsageError, match=r"--graph plan -o plan\.svg"):
        page_scene(chained[0], PLAN)


def test_a_trace_without_captured_steps_says_how_to_have_one() -> None:
    trace = trace_of()

    assert captures(trace).title == NONE_CAPTURED
    with pytest.raises(EmptyTraceError, match="holds no plan"):
        graph_scene(trace, PLAN)
