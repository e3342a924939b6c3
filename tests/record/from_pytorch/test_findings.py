"""What `inspect` finds in faulty programs on real PyTorch: the rule, and the line it names."""

from __future__ import annotations

import textwrap

import pytest

import gradscope
from gradscope.analysis.findings import Certainty, Finding, Severity
from gradscope.analysis.report import inspect
from gradscope.analysis.rules import all_rules
from gradscope.analysis.rules.registry import LEVELS
from gradscope.trace.schema import Error, GraphTask, Skipped
from gradscope.trace.schema.tables import Order
from gradscope.trace.spec import check
from gradscope.trace.trace import Trace

pytestmark = pytest.mark.torch


def recorded(script: str, level: str) -> Trace:
    """The trace of a script that may end in an exception."""
    import torch

    code = compile(textwrap.dedent(script).lstrip(), "faulty.py", "exec")
    recording = gradscope.record(level=level, on="torch")
    try:
        with recording:
            exec(code, {"torch": torch, "F": torch.nn.functional, "recording": recording})
    except Exception:  # as the script means to
        pass
    return recording.trace()


def found(script: str, level: str = "engine") -> list[Finding]:
    return [each for each in inspect(recorded(script, level)).findings if each.rule != "GS101"]


def test_a_write_to_what_a_node_had_saved_is_found_at_the_line_that_wrote() -> None:
    (finding,) = found("""
        x = torch.ones(3, requires_grad=True)
        y = x.exp()
        y.add_(1)
        y.sum().backward()
    """)

    assert (finding.rule, finding.site.place) == ("GS302", "faulty.py:3")
    assert finding.message == (
        "add_ at faulty.py:3 wrote in place to 'result' of ExpBackward0 (created at faulty.py:2), "
        "which backward needed unchanged: saved at version 0, now 1"
    )
    assert "faulty.py:4" in finding.why


def test_a_step_of_an_optimizer_between_forward_and_backward_is_named() -> None:
    """Two backwards through one discriminator, and its step between them: PyTorch names no step."""
    (finding,) = found("""
        judge = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
        optimizer = torch.optim.SGD(judge.parameters(), lr=0.1)
        fake = torch.ones(2, 4, requires_grad=True) * 2
        judged, wrong = judge(fake.detach()).sum(), judge(fake).sum()
        judged.backward()
        optimizer.step()
        wrong.backward()
    """)

    assert (finding.rule, finding.site.place) == ("GS302", "faulty.py:6")
    assert finding.message.startswith(
        "SGD.step at faulty.py:6 wrote to the parameter that AddmmBackward0"
    )
    assert "saved as 'mat2'" in finding.message
    assert "between that line and the backward called at faulty.py:7" in finding.why
    assert finding.certainty is Certainty.INFERRED


def test_a_write_to_an_input_that_was_saved_is_found_too() -> None:
    (finding,) = found("""
        w = torch.ones(3, 3, requires_grad=True)
        hidden = torch.ones(2, 3) @ w
        loss = (hidden @ w).sum()
        hidden += 1
        (loss + hidden.sum()).backward()
    """)

    assert (finding.rule, finding.site.place) == ("GS302", "faulty.py:4")
    assert "'self' of MmBackward0" in finding.message


def test_a_write_that_no_backward_came_to_is_found_at_its_line() -> None:
    for write in ("with torch.no_grad(): y.mul_(2)", "z = y.mul_(2)", "y.detach()[0] = 2"):
        (finding,) = found(f"""
        x = torch.ones(3, requires_grad=True)
        y = x.sigmoid()
        loss = y.sum()
        {write}
        loss.backward()
        """)

        assert (finding.rule, finding.site.place) == ("GS302", "faulty.py:4")
        assert finding.message.endswith("saved at version 0, now 1")


def test_a_write_is_found_once_where_notes_were_handed_on_before_its_node_was_met() -> None:
    (finding,) = found("""
        x = torch.ones(3, requires_grad=True)
        y = x.sigmoid()
        loss = y.sum()
        z = y.mul_(2)
        try:
            loss.backward()
        finally:
            recording.session.flush()
    """)

    assert (finding.rule, finding.site.place) == ("GS302", "faulty.py:4")
    assert "more after it" not in finding.message


TRIED = """
    w = torch.ones(3, requires_grad=True)
    for turn in range(3):
        if turn == 0:
            shapes = torch.zeros(3, requires_grad=True)
            (gradient,) = torch.autograd.grad((w / shapes).sum(), shapes)
            {then}
        (w * 2).sum().backward()
    """


@pytest.mark.parametrize(
    ("then", "severity"), [("pass", Severity.NOTE), ("w.data += gradient", Severity.ERROR)]
)
def test_a_birth_that_only_autograd_grad_came_to_is_a_note(then: str, severity: Severity) -> None:
    births = [each for each in found(TRIED.format(then=then), "values") if each.rule == "GS201"]

    assert (births[0].severity, births[0].site.place) == (severity, "faulty.py:5")


@pytest.mark.parametrize(("chance", "rules"), [(0.0, []), (0.5, ["GS512"])])
def test_dropout_by_chance_nought_is_the_same_in_training(chance: float, rules: list[str]) -> None:
    """At this level its call is recorded, too, though it returns what it is given."""
    findings = found(
        f"""
        model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Dropout({chance}))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.rand(3, 2)).pow(2).mean().backward()
            optimizer.step()
            with torch.no_grad():
                model(torch.rand(3, 2))
        """,
        "full",
    )

    assert [each.rule for each in findings] == rules


def test_a_write_by_what_is_no_call_is_said_to_be_one_that_was_not_seen() -> None:
    (finding,) = found("""
        x = torch.ones(3, requires_grad=True)
        y = x.sigmoid()
        torch.autograd.graph.increment_version(y)
        y.sum().backward()
    """)

    assert (finding.rule, finding.site.place) == ("GS302", "faulty.py:2")
    assert finding.message.endswith("it is at version 1, and expected version 0")
    assert "are not recorded" in finding.why


def test_a_graph_that_was_let_go_of_is_found_at_the_line_that_leads_into_it() -> None:
    (finding,) = found("""
        w = torch.ones(3, requires_grad=True)
        state = torch.zeros(3)
        for _ in range(2):
            state = (state + w).tanh()
            loss = (state * w).sum()
            loss.backward()
    """)

    assert (finding.rule, finding.site.place) == ("GS303", "faulty.py:4")
    assert "were freed by the backward called at faulty.py:6" in finding.message


def test_a_second_backward_of_the_same_graph_is_found_where_it_was_called() -> None:
    (finding,) = found("""
        x = torch.ones(3, requires_grad=True)
        loss = x.exp().sum()
        loss.backward()
        loss.backward()
    """)

    assert (finding.rule, finding.site.place) == ("GS303", "faulty.py:4")
    assert "retain_graph=True" in finding.fix


def test_a_hook_that_raises_is_found_with_the_node_it_is_on() -> None:
    (finding,) = found("""
        x = torch.ones(3, requires_grad=True)
        y = x.exp()
        y.register_hook(lambda grad: grad.nom())
        y.sum().backward()
    """)

    assert (finding.rule, finding.site.place) == ("GS301", "faulty.py:2")
    assert finding.message.startswith(
        "ExpBackward0, created at faulty.py:2, raised AttributeError: "
    )


def test_a_gradient_that_is_none_is_found_at_the_line_that_used_it() -> None:
    (finding,) = found("""
        x = torch.ones(3, requires_grad=True)
        y = x * 2
        y.sum().backward()
        print(y.detach().grad.norm())
    """)

    assert (finding.rule, finding.site.place) == ("GS301", "faulty.py:4")
    assert "'NoneType' object has no attribute 'norm'" in finding.message


def test_a_function_that_returns_too_few_gradients_is_found_at_the_line_that_called_it() -> None:
    (finding,) = found("""
        class Add(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, y):
                return x + y
            @staticmethod
            def backward(ctx, grad):
                return grad
        x = torch.ones(3, requires_grad=True)
        z = Add.apply(x, x)
        z.sum().backward()
    """)

    assert (finding.rule, finding.site.place) == ("GS301", "faulty.py:9")
    assert "returned an incorrect number of gradients" in finding.message


def test_an_error_names_the_node_that_was_under_way_at_every_depth() -> None:
    trace = recorded(
        """
        x = torch.ones(3, requires_grad=True)
        y = x.exp()
        def hook(grad):
            with torch.enable_grad():
                z = x.sin()
                z.register_hook(lambda grad: grad.nom())
                torch.autograd.grad(z.sum(), x)
        y.register_hook(hook)
        y.sum().backward()
    """,
        "engine",
    )

    assert trace.table(GraphTask)["order"].tolist() == [Order.FORETOLD] * 2
    assert [(row.type, row.task) for row in trace.events(Error)] == [
        ("AttributeError", 2), ("AttributeError", 1),
    ]  # fmt: skip
    assert all(row.node >= 0 for row in trace.events(Error))


def test_what_cannot_be_seen_is_said_not_to_be_checked() -> None:
    for level, lacking in {"graph": {"GS302", "GS303"}, "engine": set[str]()}.items():
        report = inspect(recorded("torch.ones(1, requires_grad=True).exp().backward()", level))
        rules = [rule for rule in all_rules() if rule.always]
        higher = {rule.id for rule in rules if LEVELS.index(rule.needs) > LEVELS.index(level)}
        by_text = {rule.id for rule in rules if "source" in rule.reads}  # of no file here
        assert {each.rule for each in report.unchecked} == higher | lacking | by_text


def test_rules_about_writes_are_not_checked_where_calls_are_not_seen() -> None:
    import torch

    with gradscope.record(on="torch", native=False) as recording:
        torch.ones(1, requires_grad=True).exp().backward()
    unchecked = {each.rule: each for each in inspect(recording.trace()).unchecked}

    assert "GS201" in unchecked
    assert {each for each in unchecked if unchecked[each].lacks == ("version",)} == {
        "GS302",
        "GS404",
    }


def test_nothing_is_told_of_nodes_behind_one_that_raised() -> None:
    trace = recorded(
        """
        class Bad(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2
            @staticmethod
            def backward(ctx, grad):
                raise ValueError("bad")
        x = torch.ones(3, requires_grad=True)
        y = x * 1
        torch.autograd.grad(Bad.apply(y).sum(), y)
    """,
        "engine",
    )

    assert check(trace) == []
    assert [row.type for row in trace.events(Error)] == ["ValueError"]
    assert len(trace.table(Skipped)) == 0
