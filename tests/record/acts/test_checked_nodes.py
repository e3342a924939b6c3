"""`--check-nodes` on real PyTorch: what is sampled, computed again, and found."""

from __future__ import annotations

import textwrap
import warnings
from pathlib import Path
from typing import Any

import pytest

import gradscope
from gradscope.analysis.findings import Severity
from gradscope.analysis.report import inspect
from gradscope.errors import UsageError
from gradscope.record.acts.kept.node_checks import NodeChoice
from gradscope.record.acts.kept.node_values import recording_of
from gradscope.record.acts.numbers.summaries.step_summaries import LOSSES
from gradscope.scene.timeline.checked_nodes import checked_words
from gradscope.trace.schema import Node, RowSharesAct
from gradscope.trace.trace import Trace

pytestmark = pytest.mark.torch

HEALTHY = """
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Linear(144, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 5),
    )
    for _ in range(2):
        x, y = torch.randn(8, 3, 8, 8), torch.randint(0, 5, (8,))
        F.cross_entropy(model(x), y).backward()
    numbers = torch.rand(4).tolist(), [p.grad.sum().item() for p in model.parameters()]
"""

WRONG_KERNEL = """
    library = torch.library.Library("aten", "IMPL")
    library.impl("tanh_backward", lambda grad, result: grad * (1 - result), "CPU")
    x = torch.linspace(0.1, 1, 5, requires_grad=True)
    y = x.tanh()
    y.sum().backward()
    library._destroy()
"""

HOOK = """
    x = torch.linspace(0.1, 1, 5, requires_grad=True)
    y = x.tanh()
    y.register_hook(lambda grad: grad * 0.5)
    y.sum().backward()
"""

OF_A_NODE = """
    x = torch.linspace(0.1, 1, 5, requires_grad=True)
    y = x.tanh()
    y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 3,))
    y.sum().backward()
"""

CUSTOM = """
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * x
    Square.apply(torch.linspace(0.1, 1, 5, requires_grad=True) * 3).sum().backward()
"""

HALF = """
    scale = torch.full((3,), 1e-4, dtype=torch.float16)
    x = torch.ones(3, dtype=torch.float16, requires_grad=True)
    y = x * scale
    y.backward(torch.full((3,), 1e-5, dtype=torch.float16))
"""


SPIKE = """
    torch.manual_seed(0)
    x = torch.randn(640, 8)
    y = x[:, :1] * 2
    y[177] = 4000.0
    data = torch.utils.data.TensorDataset(x, y)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for x, y in torch.utils.data.DataLoader(data, 16, shuffle=True):
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        optimizer.step()
"""


def checked(script: str, nodes: str = "all", level: str = "engine") -> tuple[Trace, dict[str, Any]]:
    """The trace of a script whose nodes are computed again, and its variables."""
    import torch

    code = compile(textwrap.dedent(script).lstrip(), "checked.py", "exec")
    names: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
    with (
        warnings.catch_warnings(),
        gradscope.record(on="torch", check_nodes=nodes, level=level) as recording,
    ):
        warnings.simplefilter("ignore")  # PyTorch warns of kernels that are replaced
        exec(code, names)
    return recording.trace(), names


def found(trace: Trace) -> list[tuple[str, str]]:
    """The rules about nodes and custom Functions, and the lines they name."""
    return [
        (each.slug, each.site.place)
        for each in inspect(trace).findings
        if each.rule in ("GS901", "GS905", "GS906", "GS907")
    ]


def test_a_healthy_program_says_how_many_nodes_were_checked_and_is_not_changed() -> None:
    import torch

    trace, names = checked(HEALTHY)
    alone: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
    exec(textwrap.dedent(HEALTHY), alone)

    facts = trace.meta["checked_nodes"]
    assert facts["agree"] >= 2 * 9
    assert (facts["differ"], facts["hooks"]) == (0, 0)
    assert "all agree" in next(checked_words(trace))
    assert not trace.meta.get("faults")
    assert [each for each in inspect(trace).findings if each.severity > Severity.NOTE] == []
    assert names["numbers"] == alone["numbers"]


def test_a_wrong_kernel_is_named_with_the_line_of_its_node() -> None:
    trace, _ = checked(WRONG_KERNEL)

    (finding,) = (each for each in inspect(trace).findings if each.rule == "GS905")
    assert finding.site.place == "checked.py:4"
    assert finding.severity is Severity.ERROR
    assert "TanhBackward0 (checked.py:4) returned a wrong gradient for `self`" in finding.message
    (node,) = (row.id for row in finding.evidence if row.table == "node")
    assert {row.id: row.name for row in trace.rows(Node)}[node] == "TanhBackward0"


def test_a_kernel_of_the_program_is_called_as_often_as_alone() -> None:
    _, names = checked("""
        calls = []
        def kernel(grad, result):
            calls.append(1)
            return grad * (1 - result * result)
        library = torch.library.Library("aten", "IMPL")
        library.impl("tanh_backward", kernel, "CPU")
        torch.linspace(0.1, 1, 5, requires_grad=True).tanh().sum().backward()
        library._destroy()
    """)

    assert len(names["calls"]) == 1


def test_a_node_that_returns_other_bits_when_called_twice_is_said_to_be_unsteady(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch

    from gradscope.watch.public import node_samples

    monkeypatch.setattr(node_samples, "called_again", lambda *_: (torch.zeros(5),))
    trace, _ = checked(WRONG_KERNEL)

    (finding,) = (each for each in inspect(trace).findings if each.rule == "GS905")
    assert "returned a wrong gradient for `self`, and another one when called again" in (
        finding.message
    )
    assert "the formula is not the reason" in finding.fix


@pytest.mark.parametrize(("script", "times"), [(HOOK, "0.5"), (OF_A_NODE, "3")])
def test_a_hook_that_replaces_a_gradient_is_named_and_the_node_is_not(
    script: str, times: str
) -> None:
    trace, _ = checked(script)

    (finding,) = (each for each in inspect(trace).findings if each.rule == "GS907")
    assert finding.site.place == "checked.py:3"
    assert found(trace) == [("gradient-replaced", "checked.py:3")]
    assert finding.severity is Severity.NOTE
    assert f"{times} times it" in finding.message
    assert trace.meta["checked_nodes"]["differ"] == 0


def test_a_custom_function_is_compared_with_its_forward_and_said_not_to_be_computed_again() -> None:
    trace, _ = checked(CUSTOM)

    assert found(trace) == [("wrong-backward", "checked.py:10")]
    assert trace.meta["checked_nodes"]["not_computed"]["a custom Function"] == {"SquareBackward": 1}
    assert any("a custom Function (SquareBackward 1)" in line for line in checked_words(trace))


def test_bits_that_float16_lost_are_named_in_a_note() -> None:
    trace, _ = checked(HALF)

    assert [each.severity for each in inspect(trace).findings if each.rule == "GS906"] == [
        Severity.NOTE
    ]
    assert found(trace) == [("gradient-bits-lost", "checked.py:3")]


def test_only_nodes_of_the_pattern_are_computed_again() -> None:
    trace, _ = checked(HEALTHY, "Native*")

    assert trace.meta["checked_nodes"]["agree"] == 2 * 2


def test_a_sample_that_causes_a_spike_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LOSSES, "share", 0)  # the loss of every step is read
    trace, _ = checked(SPIKE, "Addmm*", "values")

    (finding,) = (each for each in inspect(trace).findings if each.rule == "GS812")
    assert "of the gradient of 0.weight came from sample 177 of the data set" in finding.why


def test_shares_of_rows_are_those_of_the_gradients_of_each_sample() -> None:
    trace, names = checked("""
        torch.manual_seed(0)
        model = torch.nn.Linear(6, 3)
        x, weights = torch.randn(5, 6), torch.tensor([1.0, 5.0, 2.0, 0.1, 3.0])
        (model(x).sin().sum(1) * weights).mean().backward()
        norms = []
        for row, weight in zip(x, weights):
            loss = model(row[None]).sin().sum() * weight
            norms.append(float(torch.autograd.grad(loss, model.weight)[0].square().sum()))
    """)

    shares, *_ = trace.rows(RowSharesAct)
    norms = names["norms"]
    order = sorted(range(5), key=lambda row: -norms[row])[:3]
    assert (shares.many, [*shares.largest]) == (5, order)
    assert shares.shares == pytest.approx([norms[row] / sum(norms) for row in order], rel=1e-4)


def test_what_a_hook_has_packed_is_not_unpacked() -> None:
    trace, names = checked("""
        unpacked = []
        def unpack(packed):
            unpacked.append(1)
            return packed
        with torch.autograd.graph.saved_tensors_hooks(lambda x: x, unpack):
            y = torch.linspace(0.1, 1, 5, requires_grad=True).tanh()
        y.sum().backward()
    """)

    reasons = trace.meta["checked_nodes"]["not_computed"]
    assert reasons["a hook packed what it saved"] == {"TanhBackward0": 1}
    assert len(names["unpacked"]) == 1


@pytest.mark.parametrize("text", ["0%", "101%", "200.5%"])
def test_a_share_is_above_nothing_and_at_most_everything(text: str) -> None:
    with pytest.raises(UsageError, match="a share"):
        NodeChoice(text)


def test_a_share_takes_the_first_run_of_each_line_and_then_one_in_so_many() -> None:
    due = NodeChoice("25%")

    taken = [due("MulBackward0", (1, ())) for _ in range(9)]

    assert taken == [True, False, False, False, True, False, False, False, True]
    assert due("MulBackward0", (2, ()))
    assert due("AddBackward0", (1, ()))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"check_nodes": "all", "level": "graph"}, "needs level engine"),
        ({"keep_values": True}, "needs --check-nodes"),
        ({"check_nodes": "all", "on": "gradscope"}, "needs PyTorch"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        gradscope.record(**{"on": "torch", **options})


def test_kept_values_are_verified_later(tmp_path: Path) -> None:
    import torch

    path = tmp_path / "run.json"
    with gradscope.record(path, on="torch", check_nodes="Tanh*", keep_values=True):
        torch.linspace(0.1, 1, 5, requires_grad=True).tanh().sum().backward()

    kept = tmp_path / "run.values.npz"
    checked = gradscope.load(path).meta["checked_nodes"]
    assert checked["agree"] == 1
    assert checked["recording"] == recording_of(kept)
