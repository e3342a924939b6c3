"""Regions of torch.compile: what is recorded of their insides, breaks and recompilations."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import gradscope
from gradscope.analysis.answers.compiled_facts import compiled
from gradscope.record.from_pytorch.called.compiled_regions import why_broken
from gradscope.trace.schema import NONE, GraphTask, Node, Phase, Unreached
from gradscope.trace.spec import check
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of

MODEL = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)

    def forward(self, x):
        hidden = torch.relu(self.first(x))
        torch._dynamo.graph_break()
        return self.last(hidden * torch.sigmoid(hidden))

torch.manual_seed(0)
net = Net()
model = torch.compile(net, backend=backend)
for rows in (8, 9):
    loss = model(torch.ones(rows, 4)).square().mean()
    loss.backward()
    losses.append(loss.item())
"""


def ran(folder: Path, backend: str, level: str | None) -> tuple[list[float], Trace]:
    import torch
    import torch._dynamo

    torch._dynamo.reset()
    losses: list[float] = []
    scope: dict[str, Any] = {"torch": torch, "backend": backend, "losses": losses}
    file = folder / "net.py"  # lines are known only where the text of the program is
    file.write_text(MODEL)
    code = compile(MODEL, str(file), "exec")
    if level is None:
        exec(code, scope)
        return losses, trace_of()
    recording = gradscope.record(level=level, on="torch")
    with recording:
        exec(code, scope)
    return losses, recording.trace()


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")  # by PyTorch itself, while it compiles
@pytest.mark.parametrize("level", ["engine", "full"])
def test_only_what_the_program_does_is_recorded_and_regions_are_opened(
    tmp_path: Path, level: str
) -> None:
    alone, _ = ran(tmp_path, "aot_eager", None)
    losses, trace = ran(tmp_path, "aot_eager", level)

    assert losses == alone
    assert not check(trace)
    assert len(trace.table(GraphTask)) == 2
    assert not len(trace.table(Unreached))
    assert not any("CPU tensors" in note or "fault" in note for note in trace.notes)
    regions = [row.region for row in trace.rows(Node) if row.name == "CompiledFunctionBackward"]
    assert regions == [0, 1, 2, 3]
    assert {row.region for row in trace.rows(Node) if row.region not in regions} == {NONE}

    facts = compiled(trace)
    first, second, *_ = facts.regions
    assert [each.compilation for each in facts.regions] == ["0/0", "1/0", "0/1", "1/1"]
    assert (first.function, second.function) == ("forward", "forward, from line 9")
    forward = [(each.op, each.site.line) for each in first.part(Phase.FORWARD)]
    assert ("addmm", 8) in forward
    assert ("relu", 8) in forward
    assert {each.site.line for each in second.part(Phase.BACKWARD)} == {10}
    assert any(each.kept for each in second.ops)
    assert {each.site.line for each in facts.breaks} == {9}
    assert all(each.reason for each in facts.breaks)
    assert len(facts.again) == 2
    assert "size mismatch at index 0. expected 8, actual 9" in facts.again[0].reasons[0]


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # by PyTorch itself, while it compiles
@pytest.mark.skipif(not shutil.which("g++"), reason="inductor needs a C++ compiler")
def test_inductor_names_the_kernels_that_operations_became(tmp_path: Path) -> None:
    alone, _ = ran(tmp_path, "inductor", None)
    losses, trace = ran(tmp_path, "inductor", "engine")

    assert losses == alone
    _, second, *_ = compiled(trace).regions
    kernels = {each.op: each.kernel for each in second.part(Phase.FORWARD)}
    assert "fused_mul_sigmoid" in kernels["sigmoid"]
    assert kernels["addmm"] == "extern_kernels.addmm"


@pytest.mark.torch
def test_nothing_of_the_compiler_is_imported_for_it() -> None:
    code = (
        "import gradscope, sys, torch\n"
        "with gradscope.record(on='torch') as r:\n"
        "    torch.ones(2, requires_grad=True).sum().backward()\n"
        "names = 'torch._dynamo', 'gradscope.watch.called.compiled_graphs'\n"
        "print(*(each in sys.modules for each in names))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["False", "False"]


OLD = """Graph break in user code at /work/train.py:13
Reason: Unsupported: builtin: print [<class 'ConstantVariable'>] False
User code traceback:
  File "/work/train.py", line 13, in forward
"""
NEW = """Graph break in user code at /work/train.py:13
Graph Break Reason: Encountered graph break when attempting to trace CALL: a function call:

Failed to trace builtin operator
  Explanation: Dynamo does not know how to trace builtin operator `print`.
  Hint: Avoid calling `print`.
  Hint: Please report an issue to PyTorch.

  Developer debug context: builtin print

 For more details about this graph break, please visit: https://example.org

User code traceback:
  File "/work/train.py", line 13, in forward
"""


def test_the_reason_of_a_graph_break_is_short() -> None:
    assert why_broken(OLD) == ("builtin: print [<class 'ConstantVariable'>] False", "")
    assert why_broken(NEW) == (
        (
            "Failed to trace builtin operator: "
            "Dynamo does not know how to trace builtin operator `print`"
        ),
        "Avoid calling `print`.",
    )
