"""Each sample runs unchanged on PyTorch and under `gradscope trace`, and shows what it is for."""

from __future__ import annotations

import ast
import re
import runpy
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from gradscope import cli
from gradscope.trace.load_save import load
from gradscope.trace.schema import (
    BufferAdded,
    GraphTask,
    HookBegin,
    HookEnd,
    Module,
    Node,
    NodeBegin,
    Step,
    Tensor,
    Version,
)
from gradscope.trace.trace import Trace
from tests.record.running import House

HERE = Path(__file__).parents[2] / "samples"
SAMPLES = sorted(path.stem for path in HERE.glob("*.py"))
LONGEST = 60


@dataclass(frozen=True)
class Recorded:
    """What `gradscope trace` made of a sample."""

    out: str
    path: Path
    trace: Trace


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recorded]:
    """Every sample, recorded once."""
    house = House(tmp_path_factory.mktemp("samples"))
    made = {}
    for name in SAMPLES:
        ran = house.trace("-o", f"{name}.json", "--level", "values", str(HERE / f"{name}.py"))
        assert (ran.code, ran.err) == (0, ""), name
        path = house.folder / f"{name}.json"
        made[name] = Recorded(ran.out, path, load(path))
    return made


def names_run(trace: Trace) -> list[str]:
    """The names of the nodes, in the order in which backward ran them."""
    nodes = trace.table(Node)
    return [nodes.row(event.node).name for event in trace.events(NodeBegin)]


def inspected(recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit):
        cli.main(["inspect", "--plain", "--width", "200", str(recorded.path)])
    return capsys.readouterr().out


# All of them ---------------------------------------------------------------------------------


def test_there_is_a_sample_of_everything_the_gallery_promises() -> None:
    assert SAMPLES == [
        "double_backward",
        "first_graph",
        "hook_changes_gradient",
        "mlp",
        "module_square",
        "nan_in_backward",
        "q_polynomial",
        "rnn",
        "shared_weight",
        "two_devices",
    ]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_a_short_script_that_knows_only_torch(name: str) -> None:
    text = (HERE / f"{name}.py").read_text(encoding="utf-8")
    tree = ast.parse(text)

    assert len(text.splitlines()) <= LONGEST
    assert ast.get_docstring(tree)
    assert "import torch\n" in text
    assert "gradscope" not in text


@pytest.mark.torch
@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_prints_the_same_on_pytorch(
    name: str, recorded: dict[str, Recorded], capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    assert "gradscope" not in torch.__file__
    runpy.run_path(str(HERE / f"{name}.py"), run_name="__main__")

    assert recorded[name].out == capsys.readouterr().out
    assert recorded[name].out


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize(
    "command",
    [
        "check",
        "info",
        "timeline",
        "timeline --events",
        "render --all -o - -f dot",
        "inspect --fail-on never",
        "inspect --json --fail-on never",
    ],
)
def test_every_view_of_a_sample_works(
    name: str,
    command: str,
    recorded: dict[str, Recorded],
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main([*command.split(), str(recorded[name].path)])

    captured = capfdbinary.readouterr()
    notes = captured.err.splitlines()
    assert left.value.code == 0
    assert [note for note in notes if b"the legend shows " not in note] == []
    assert len(captured.out) > 20


@pytest.mark.parametrize("name", SAMPLES)
def test_a_samples_trace_is_whole_and_names_its_own_lines(
    name: str, recorded: dict[str, Recorded]
) -> None:
    trace = recorded[name].trace
    source = (HERE / f"{name}.py").read_text(encoding="utf-8").splitlines()

    assert trace.notes == ()
    assert trace.meta["exit"] == "ok"
    for node in trace.rows(Node):
        if node.stack >= 0:
            file, _, line = trace.site(node.stack).rpartition(":")
            assert Path(file).name == f"{name}.py"
            assert trace.source(node.stack) == source[int(line) - 1].strip()


# What each is there to show ------------------------------------------------------------------


def test_the_first_graph_runs_in_the_order_it_is_taught(recorded: dict[str, Recorded]) -> None:
    trace = recorded["first_graph"].trace

    assert names_run(trace) == [
        "MeanBackward0",
        "MulBackward0",
        "MulBackward0",
        "AddBackward0",
        "AccumulateGrad",
    ]


def test_the_polynomial_has_two_leaves(recorded: dict[str, Recorded]) -> None:
    trace = recorded["q_polynomial"].trace

    leaves = {tensor.name for tensor in trace.rows(Tensor) if tensor.leaf and tensor.requires_grad}
    assert leaves == {"a", "b"}
    assert Counter(names_run(trace)) == {
        "SubBackward0": 1,
        "MulBackward0": 1,
        "PowBackward0": 2,
        "AccumulateGrad": 2,
    }


def test_the_module_frames_its_nodes(recorded: dict[str, Recorded]) -> None:
    trace = recorded["module_square"].trace

    assert [module.type for module in trace.rows(Module)] == ["Square"]
    framed = [node.name for node in trace.rows(Node) if node.module >= 0]
    assert {"MulBackward0", "PowBackward0"} <= set(framed)
    assert "w" in {tensor.name for tensor in trace.rows(Tensor)}


def test_the_network_learns_in_steps(recorded: dict[str, Recorded]) -> None:
    ran = recorded["mlp"]

    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", ran.out)]
    assert losses[-1] < losses[0] / 2
    assert len(ran.trace.table(GraphTask)) == 20
    assert len(ran.trace.table(Step)) == 21  # the last one has begun when the script ends
    assert len(ran.trace.table(Version)) >= 20
    assert {"0.weight", "0.bias"} <= {tensor.name for tensor in ran.trace.rows(Tensor)}


def test_the_nan_is_found_where_it_is_born(
    recorded: dict[str, Recorded], capsys: pytest.CaptureFixture[str]
) -> None:
    ran = recorded["nan_in_backward"]

    report = inspected(ran, capsys)

    assert "nan" in ran.out
    assert "NaN" in report
    assert "SqrtBackward0" in report
    assert "nan_in_backward.py:" in report


def test_the_hook_replaces_the_gradient(recorded: dict[str, Recorded]) -> None:
    trace = recorded["hook_changes_gradient"].trace

    assert [hook.name for hook in trace.events(HookBegin)] == ["look", "halve", "arrived"]
    assert [hook.replaced for hook in trace.events(HookEnd)] == [False, True, False]


def test_the_second_backward_goes_through_nodes_the_first_one_made(
    recorded: dict[str, Recorded],
) -> None:
    trace = recorded["double_backward"].trace

    first, second = trace.rows(GraphTask)
    assert (first.create_graph, second.create_graph) == (True, False)
    made = {node.id for node in trace.rows(Node) if node.task == first.id}
    run = {event.node for event in trace.events(NodeBegin) if event.task == second.id}
    assert made & run


def test_the_weights_gradient_is_a_sum_of_a_hundred(recorded: dict[str, Recorded]) -> None:
    trace = recorded["shared_weight"].trace

    (leaf,) = [node.id for node in trace.rows(Node) if node.name == "AccumulateGrad"]
    added = Counter(event.node for event in trace.events(BufferAdded))
    assert names_run(trace).count("AccumulateGrad") == 1
    assert added[leaf] == 99
    assert "torch" not in sys.modules or "gradscope" not in str(sys.modules["torch"].__file__)
