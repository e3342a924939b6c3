"""What calls were given besides tensors is read alike on both engines, and seldom."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradscope.analysis.likeness.compare import compare
from gradscope.analysis.program.arguments import arguments_of, in_words
from gradscope.record.from_runtime.hot.compiling import Compiling
from gradscope.record.recording import Options, Recording
from gradscope.trace.schema import Node
from gradscope.trace.trace import Trace
from gradscope.trace.writer import MemoryWriter
from tests.analysis.likeness.engines import on_gradscope, on_pytorch

ASKED = [
    ("x.softmax(1)", "SoftmaxBackward0: dim=1"),
    ("F.log_softmax(x, -1)", "LogSoftmaxBackward0: dim=-1"),
    ("x.sum(1, keepdim=True)", "SumBackward1: dim=(1,), keepdim=True"),
    ("x.mean((0, -1))", "MeanBackward1: dim=(0, -1), keepdim=False"),
    ("x.abs() ** 1.5", "PowBackward0: exponent=1.5"),
    ("x * 2.5", "MulBackward0: other=2.5"),
    ("x / 3", "DivBackward0: other=3"),
    ("x.clamp(0.1, 0.5)", "ClampBackward1: max=0.5, min=0.1"),
    ("x.norm(dim=1)", "LinalgVectorNormBackward0: dim=(1,), keepdim=False, ord=2"),
    ("torch.cat([x, x], -1)", "CatBackward0: dim=-1"),
    ("F.leaky_relu(x, 0.2)", "LeakyReluBackward0: negative_slope=0.2"),
    ("x.transpose(0, 1)", "TransposeBackward0: dim0=0, dim1=1"),
    ("x.max(1)[0]", "MaxBackward0: dim=1, keepdim=False"),
    ("x.unfold(2, 2, 1)", "UnfoldBackward0: dimension=2, size=2, step=1"),
    ("torch.add(x, x, alpha=3)", "AddBackward0: alpha=3"),
    ("F.batch_norm(x, None, None, training=True)",
     "NativeBatchNormBackward0: eps=1e-05, training=True"),
]  # fmt: skip


def asked(torch: Any) -> None:
    x = torch.linspace(0.1, 1, 64).reshape(2, 2, 4, 4).requires_grad_()
    made = {"x": x, "torch": torch, "F": torch.nn.functional}
    for text, _ in ASKED:
        eval(text, made).sum().backward()


def read(trace: Trace) -> list[str]:
    """What nodes keep, in the order in which they were made."""
    nodes = [node for node in trace.table(Node).rows() if node.arguments]
    nodes.sort(key=lambda node: node.t)
    return [f"{node.name}: {in_words(arguments_of(node.arguments))}" for node in nodes]


def test_dims_exponents_factors_and_flags_are_read() -> None:
    assert read(on_gradscope(asked)) == [said for _, said in ASKED]


@pytest.mark.torch
@pytest.mark.parametrize("native", [True, False])
def test_pytorch_s_nodes_say_the_same(native: bool) -> None:
    import torch

    from gradscope.record.from_pytorch.pytorch_engine import PyTorch

    recording = Recording(MemoryWriter(), Options(level="engine", native=native), PyTorch())
    with recording:
        asked(torch)

    assert read(recording.trace()) == [said for _, said in ASKED]


def looped(torch: Any) -> None:
    x = torch.ones(2, 3, requires_grad=True)
    for step in range(100):
        x.softmax(int(step == 63)).sum().backward()


def in_loop(trace: Trace) -> list[tuple[int, str]]:
    """Of which steps' nodes it was read."""
    nodes = trace.table(Node)
    names = np.array(nodes.texts("name"))
    made = nodes.take(np.flatnonzero(names == "SoftmaxBackward0"))
    return [(step, node.arguments) for step, node in enumerate(made, 1) if node.arguments]


ROWS, COLUMNS = '{"dim": 0}', '{"dim": 1}'


def convolved(torch: Any) -> None:
    images, weight = torch.rand(2, 8, 8, 3), torch.ones(1, 3, 2, 2, requires_grad=True)
    torch.nn.functional.conv2d(images.view(2, 3, 8, 8), weight).sum().backward()
    torch.nn.functional.conv2d(images.permute(0, 3, 1, 2), weight).sum().backward()


def viewed(trace: Trace) -> list[object]:
    every = [arguments_of(node.arguments) for node in trace.table(Node).rows() if node.arguments]
    return [given.get("input_is_a_view_of") for given in every if "stride" in given]


def test_of_a_convolution_it_is_said_what_its_input_is_a_view_of_that_leaves_the_order() -> None:
    assert viewed(on_gradscope(convolved)) == [[2, 8, 8, 3], None]


@pytest.mark.torch
def test_so_it_is_said_on_pytorch() -> None:
    assert viewed(on_pytorch(convolved)) == [[2, 8, 8, 3], None]


LOOPED = [*((step, ROWS) for step in (1, 2, 3, 4, 8, 16, 32)), (64, COLUMNS)]


def test_a_line_in_a_loop_is_read_four_times_and_then_when_it_ran_twice_as_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """C functions count anew; how much is noted before they come depends on how busy we are."""
    monkeypatch.setattr(Compiling, "counted", lambda records: None)

    assert in_loop(on_gradscope(looped)) == LOOPED


@pytest.mark.torch
def test_so_it_is_on_pytorch() -> None:
    assert in_loop(on_pytorch(looped)) == LOOPED


def test_diff_names_another_argument() -> None:
    def program(dim: int) -> Any:
        return lambda torch: torch.ones(3, 3, requires_grad=True).softmax(dim).sum().backward()

    same = compare(on_gradscope(program(0)), on_gradscope(program(0)))
    other = compare(on_gradscope(program(0)), on_gradscope(program(1)))

    assert same.first is None
    assert other.first is not None
    found = other.first[1]
    assert (found.what, found.one.text, found.other.text) == (
        "a node has different arguments",
        "SoftmaxBackward0 (node 0) was created with dim=0",
        "SoftmaxBackward0 (node 0) was created with dim=1",
    )
