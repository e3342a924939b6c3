"""The history of a gradient: the same words on both engines, and what lower levels lack."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gradscope.analysis.report import inspect
from gradscope.errors import UnknownNameError
from gradscope.scene.answers.answer import Answer
from gradscope.scene.answers.grad_of import grad_of
from gradscope.scene.answers.why_none import why_none
from gradscope.trace.schema import Node, Tensor
from tests.record.running import House
from tests.scene.answers.a_training import BOTH, a_training
from tests.shared.by_hand import trace_of


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def lines_of(answer: Answer) -> list[str]:
    """Without the folder of the script, ids and numbers after a point."""
    text = "\n".join(line for section in answer.sections for line in section.lines)
    return re.sub(r"[^\s(]*/(?=train\.py)|(?<=\d)\.\d+|#\d+", "", text).splitlines()


@BOTH
def test_every_step_of_a_gradients_way_is_told_with_its_line_and_norm(engine: str) -> None:
    answer = grad_of(a_training(engine, "values"), "body.weight")

    assert re.match(
        r"4 of 4 backwards sent body\.weight a gradient; after the last one", answer.title
    )
    assert answer.sections[0].title.startswith("backward 0; the same in the next 3 iterations")
    assert [re.sub(r"norm [\d.e+-]+\b.*", "norm", line) for line in lines_of(answer)] == [
        "cleared: SGD's zero_grad set it to None at train.py:22",
        "TBackward0 (train.py:8) sent a gradient, norm",
        "hook halved (train.py:13) replaced it: norm",
        "moved into .grad without a copy, in the backward at train.py:23, norm",
        "clipped by clip_grad_norm_ at train.py:24: total norm",
        "used by SGD's step at train.py:25, lr 0, update of norm",
    ]


@BOTH
def test_several_senders_are_told_together_with_how_they_were_added(engine: str) -> None:
    answer = grad_of(a_training(engine), "head.bias")

    assert lines_of(answer)[1:3] == [
        "2 × AddmmBackward0 (train.py:10) sent a gradient",
        "summed: 1 addition into a new tensor",
    ]
    assert any(
        note == "not recorded at level engine: norms; use --level values" for note in answer.notes
    )
    inferred = any(note.startswith("inferred from the engine's rules") for note in answer.notes)
    assert inferred == (engine == "torch")


@BOTH
def test_at_level_graph_those_that_could_send_are_told_and_which_level_says_more(
    engine: str,
) -> None:
    answer = grad_of(a_training(engine, "graph"), "head.bias")

    assert "was not recorded" in answer.title
    assert answer.sections[-1].title == "nodes with an edge to it"
    assert lines_of(answer)[-1] == "AddmmBackward0 at train.py:10"
    assert any("use --level engine" in note for note in answer.notes)


def test_the_gradient_of_what_is_no_leaf_is_told_with_the_hooks_on_it() -> None:
    trace = a_training("gradscope")
    tanh = next(node for node in trace.rows(Node) if node.name == "TanhBackward0")

    answer = grad_of(trace, str(tanh.inputs[0]))

    assert ("leaf", "no: its gradient is passed on, and kept only after retain_grad()") in (
        answer.facts
    )
    assert lines_of(answer)[-1] == "hook watched (train.py:11) left it unchanged"


def test_without_a_backward_none_brought_a_gradient() -> None:
    answer = grad_of(trace_of(Tensor(0, name="x", leaf=True)), "x")

    assert answer.title == "No backward was recorded, so x has no gradient."


@pytest.mark.parametrize("wanted", ["weight", "body.wieght"])
def test_a_name_that_is_nearly_right_is_answered_with_those_that_are(wanted: str) -> None:
    with pytest.raises(UnknownNameError, match=r"did you mean body\.weight"):
        grad_of(a_training("gradscope"), wanted)


def test_rounds_that_left_nan_are_told_apart_from_finite_ones() -> None:
    program = """\
weight = torch.ones(2, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.01)
for factor in (1.0, 1.0, float("nan"), float("inf")):
    optimizer.zero_grad()
    (weight * factor).sum().backward()
    optimizer.step()
"""
    answer = grad_of(a_training("gradscope", "values", program), "weight")

    assert answer.title.endswith("; after the last one, .grad has 2 Inf.")
    assert ("not finite", "2 NaN in .grad after backward 2, and after 1 more backward") in (
        answer.facts
    )
    assert [section.title.partition(" (")[0] for section in answer.sections] == [
        "backward 0; the same in the next 1 iteration",
        "backward 2; the same in the next 1 iteration",
    ]
    assert ", 2 Inf in the last" in answer.sections[1].title
    assert lines_of(answer)[-2].endswith("not finite: 2 NaN")


def test_a_step_that_finds_no_gradient_passes_the_tensor_over() -> None:
    program = """\
used, left = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD([*used.parameters(), *left.parameters()], lr=0.01)
optimizer.zero_grad()
used(torch.ones(1, 2)).sum().backward()
optimizer.step()
"""
    trace = a_training("gradscope", "values", program)
    left = max(row.id for row in trace.rows(Tensor) if row.leaf and row.shape == (1, 2)
               and row.requires_grad)  # fmt: skip
    answer = grad_of(trace, str(left), "why it")

    assert answer.title.endswith("a gradient; why it says why.")
    assert lines_of(answer)[-1] == "skipped by SGD's step at train.py:5: its .grad was None"


NO_GRADIENT = """import torch
class Half(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        return a + b
    @staticmethod
    def backward(ctx, grad):
        return grad, None
a, b = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
Half.apply(a, b).sum().backward()
"""


@BOTH
def test_a_node_that_returns_none_is_said_to_send_no_gradient(engine: str, house: House) -> None:
    house.write(NO_GRADIENT)
    house.trace("--on", engine, "script.py")
    (b,) = (row.id for row in house.recorded().rows(Tensor) if row.name == "b")

    answer = grad_of(house.recorded(), str(b))

    assert answer.title.startswith("No backward sent b a gradient")
    assert lines_of(answer) == ["HalfBackward (script.py:10) sent None (no gradient)"]
    assert why_none(house.recorded(), str(b)).title == (
        "1 of 1 backwards reached b without a gradient: a node on the way returned None."
    )


SPARSE = """import torch
torch.manual_seed(0)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one = torch.nn.Embedding(9, 4, sparse=True)
        self.mean = torch.nn.EmbeddingBag(9, 4, mode="mean", sparse=True)
        self.sum = torch.nn.EmbeddingBag(9, 4, mode="sum", sparse=True)
        self.most = torch.nn.EmbeddingBag(9, 4, mode="max")
    def forward(self, x):
        return self.one(x).sum(1) + self.mean(x) + self.sum(x) + self.most(x)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(2):
    optimizer.zero_grad()
    for _ in range(2):
        net(torch.randint(0, 9, (5, 3))).pow(2).sum().backward()
    optimizer.step()
"""


@pytest.mark.torch
@pytest.mark.parametrize("level", ["engine", "values"])
def test_sparse_gradients_are_kept_and_added_like_others(level: str, house: House) -> None:
    house.write(SPARSE)
    house.trace("--on", "torch", "--level", level, "script.py")

    for name in ("one", "mean", "sum", "most"):
        answer = grad_of(house.recorded(), f"{name}.weight")
        kept = [line for line in lines_of(answer) if "in the backward at" in line]
        assert answer.title.startswith(f"4 of 4 backwards sent {name}.weight a gradient")
        assert [line.partition(",")[0] for line in kept] == [
            "moved into .grad without a copy",
            "added to the existing .grad in place",
        ]
        told = why_none(house.recorded(), f"{name}.weight").title
        assert told.startswith(f"4 of 4 backwards sent {name}.weight a gradient")
    assert inspect(house.recorded(), rules=["GS401", "GS411"]).findings == ()
