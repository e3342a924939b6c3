"""What breakpoints find, in a trace of a small program."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

import gradscope.runtime as torch
from gradscope.analysis.findings import Evidence, Finding, Severity
from gradscope.analysis.identity.sites import Site
from gradscope.analysis.report import inspect
from gradscope.analysis.state.breakpoints.hits import hits
from gradscope.analysis.state.breakpoints.kinds import KINDS, moment_shown
from gradscope.analysis.state.moments import Moments as OfTrace
from gradscope.analysis.state.state import at
from gradscope.errors import GradscopeError
from gradscope.record.recorder import mark, record
from gradscope.scene.moments import MomentWords
from gradscope.trace.schema import NONE, Act, Frame, Module, Op, Source, Stack
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of


def doubled(grad: torch.Tensor) -> torch.Tensor:
    return grad * 2


@pytest.fixture(scope="module")
def trace() -> Trace:
    """Two steps of a model; in the second a square root of zero is taken."""
    torch.manual_seed(0)
    with record(level="values") as recording:
        model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for number in range(2):
            optimizer.zero_grad()
            hidden = model(torch.ones(4, 3))
            hidden.register_hook(doubled)
            scaled = hidden * (1 - number)
            (scaled * scaled).sum(1).sqrt().sum().backward()
            optimizer.step()
        mark("over")
    return recording.trace()


@pytest.fixture(scope="module")
def said(trace: Trace) -> Callable[[str], list[str]]:
    say = MomentWords(trace)
    return lambda text: [say.said(at(trace, moment).happened) for moment in hits(trace, text)]


Said = Callable[[str], list[str]]


def test_nodes_are_found_by_name_pattern_leaf_and_module(said: Said) -> None:
    assert said("node SqrtBackward0") == ["SqrtBackward0#1 begins", "SqrtBackward0#2 begins"]
    assert said("node Sq*") == said("node SqrtBackward0") == said("SqrtBackward0")
    assert said("node Tanh*#2") == ["TanhBackward0#2 begins"]
    assert said("node 0.weight") == ["AccumulateGrad (0.weight) begins"] * 2
    in_module = said("module 1")
    assert [each for each in in_module if each.endswith("begins")] == [
        "TanhBackward0#1 begins", "TanhBackward0#2 begins",
    ]  # fmt: skip
    assert sum(each.startswith("tanh(") for each in in_module) == 2


def test_calls_lines_hooks_and_gradients(said: Said, trace: Trace) -> None:
    assert len(said("op sqrt")) == len(said("op sq*")) == 2
    assert len(said("hook doubled")) == len(said("replaced doubled")) == 2
    assert [each.partition(":")[0] for each in said("grad 0.*")] == [
        f"a gradient arrives in .grad of 0.{name}" for name in ("bias", "weight") * 2
    ]
    line = next(
        MomentWords(trace).line(at(trace, moment).happened) for moment in hits(trace, "op sqrt")
    )
    here = said(line)
    assert [each.partition("(")[0] for each in here] == [
        "mul", "SumBackward0#1 begins", "mul", "SumBackward0#2 begins",
    ]  # fmt: skip


def test_acts_steps_marks_writes_and_every_event(said: Said) -> None:
    assert said("mark over") == ["mark over"]
    assert len(said("backward")) == len(said("act zero_grad")) == len(said("act step")) == 2
    assert said("step 1")[0].startswith("step 1 begins")
    assert all("is written in place" in each for each in said("write 0.weight"))
    assert len(said("write 0.weight")) >= 2
    assert len(said("release Tanh*")) == 2
    assert len(said("push SqrtBackward0")) == 2


def test_births_and_findings(said: Said) -> None:
    assert said("inf") == ["SqrtBackward0#2 ends"]
    assert said("nan")[0].startswith("MulBackward0#")
    assert said("finding GS201") != []
    assert said("finding #") == said("finding GS*")


def test_conditions_and_counts(said: Said) -> None:
    assert said("node * if count == 2 nth 1")[0].startswith("MulBackward0")
    both = said("node SqrtBackward0")
    assert said("node SqrtBackward0 if waited > 0ns") == both
    assert said("node SqrtBackward0 if waited > 100s") == []
    assert said("node SqrtBackward0 if took > 0ns nth 2") == both[1:]
    assert said("op sqrt if zero >= 4") == said("op sqrt nth 2")
    assert said("decrement if remaining > 0") != []
    assert said("node SqrtBackward0 nth 3") == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("node Sqr", "did you mean SqrtBackward0"),
        ("node Foo*", r"no node 'Foo\*'"),
        ("op sqr", "did you mean sqrt"),
        ("grad 0.wight", "did you mean 0.weight"),
        ("module encoder", "this trace has no module 'encoder'"),
        ("nowhere.py:3", "nothing was recorded at nowhere.py:3"),
        ("node * if wated > 1", "there is no field 'wated'"),
        ("nan loss", "nan takes no name"),
        ("bogus", "bogus"),
    ],
)
def test_a_wrong_name_is_an_error_with_the_nearest(trace: Trace, text: str, complaint: str) -> None:
    with pytest.raises(GradscopeError, match=complaint):
        hits(trace, text)


def test_what_was_not_recorded_is_said() -> None:
    with record(level="engine") as recording:
        torch.ones(2, requires_grad=True).sum().backward()

    for text in ("nan", "node * if norm > 1"):
        with pytest.raises(GradscopeError, match="use --level values"):
            hits(recording.trace(), text)


def test_every_kind_says_what_it_is_and_takes_any(trace: Trace) -> None:
    for kind in KINDS.values():
        assert kind.says
        assert list(hits(trace, kind.name)) == sorted(hits(trace, kind.name))


def test_a_finding_about_an_error_leads_to_the_write_to_blame() -> None:
    with record() as recording, contextlib.suppress(RuntimeError):
        x = torch.ones(2, requires_grad=True)
        kept = x * 1
        loss = (kept * kept).sum()
        kept.add_(1)
        loss.backward()
    trace = recording.trace()
    finding = next(each for each in inspect(trace).findings if each.slug == "modified-in-place")

    for wanted in ("finding modified-in-place", f"finding #{finding.id[:4]}"):
        assert [at(trace, moment).happened.TABLE for moment in hits(trace, wanted)] == ["op"]
    backward = at(trace, hits(trace, "error")[0]).backwards[0]
    assert backward.progress == (2, 4)  # of the graph: the sum and the product have begun


def test_what_was_read_in_the_source_is_no_moment() -> None:
    trace = trace_of(
        Act(0, kind="warning", t=1),
        Act(1, kind="statement", t=2),
        Act(2, kind="seed", t=3),
    )
    moments = trace.once(OfTrace)

    assert len(moments) == 2
    assert moments.of(Act).tolist() == [0, NONE, 1]
    assert hits(trace, "act").tolist() == [0, 1]


def test_a_leaf_no_gradient_comes_to_is_said_to_get_none() -> None:
    with record() as recording:
        model = torch.nn.Linear(3, 2)
        (model.weight.sum() + model.bias.detach().sum()).backward()
        model(torch.ones(1, 3))
    with pytest.raises(GradscopeError, match=r"no gradient arrives at bias; why bias explains it"):
        hits(recording.trace(), "grad bia*")


def test_the_end_of_a_modules_path_will_do() -> None:
    with record() as recording:
        inner = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Tanh()))
        inner(torch.ones(2, requires_grad=True)).sum().backward()
    trace = recording.trace()
    path = max((row.path for row in trace.rows(Module)), key=len)

    assert "." in path
    assert hits(trace, f"module …{path[path.index('.') + 1 :]}").tolist()


def test_a_finding_read_in_the_source_leads_to_its_line() -> None:
    trace = trace_of(
        Frame(0, file="a.py", line=3), Stack(0, frame=0),
        Op(0, name="mul", stack=0, begin=1, end=2), Source(0, file="a.py", text="x"),
    )  # fmt: skip
    rests = (Evidence("source", 0),)
    finding = Finding("GS1", "x", Severity.WARNING, "", Site("a.py:3"), rests, "", "")

    assert moment_shown(trace, finding) == 0
