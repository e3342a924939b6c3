"""`gradscope trace script.py`: a script with its own PyTorch, unedited."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from gradscope.trace.schema import Edge, GraphTask, Node, NodeBegin, Region, Step, Value
from gradscope.trace.trace import Trace
from tests.record.running import House, Ran

pytestmark = pytest.mark.torch

SCRIPT = """
import sys
import torch

model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
print(torch.__name__, any(name.startswith("gradscope.runtime") for name in sys.modules))
sys.exit(3)
"""


MANY_WAYS = """
import copy
import io
import threading

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters())
data = TensorDataset(torch.randn(32, 4), torch.randn(32, 1))
scaler = torch.amp.GradScaler("cpu")
for x, y in DataLoader(data, batch_size=8, num_workers=2):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.mse_loss(model(x).float(), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
print("mixed precision", loss.item())

called = torch.func.grad(lambda p: torch.func.functional_call(model, p, torch.ones(2, 4)).sum())
print("functional", [each.sum() for each in called(dict(model.named_parameters())).values()])
print("mapped", torch.vmap(torch.func.grad(lambda t: t.sin().sum()))(torch.ones(3, 2)))
print("jacobian", torch.func.jacrev(lambda t: t.exp())(torch.ones(3)))
print("hessian", torch.autograd.functional.hessian(lambda t: (t**3).sum(), torch.ones(2)))

compiled = torch.compile(model, backend="aot_eager")
compiled(torch.ones(2, 4)).sum().backward()
by_hand = torch.compile(model, backend="eager", fullgraph=True)
by_hand(torch.ones(2, 4)).sum().backward()
print("compiled", torch._dynamo.utils.counters["stats"]["unique_graphs"])

by_lines = torch.optim.LBFGS(model.parameters(), max_iter=3)


def closure():
    by_lines.zero_grad()
    loss = model(torch.ones(4, 4)).pow(2).mean()
    loss.backward()
    return loss


print("closures", by_lines.step(closure))

kept = io.BytesIO()
torch.save(model, kept)
kept.seek(0)
again = torch.load(kept, weights_only=False)
print("kept", all(map(torch.equal, again.parameters(), copy.deepcopy(model).parameters())))

with torch.inference_mode():
    print("inference", model(torch.ones(1, 4)))
optimizer.zero_grad()
threads = [
    threading.Thread(target=lambda: model(torch.ones(2, 4)).sum().backward()) for _ in range(4)
]
for each in threads:
    each.start()
for each in threads:
    each.join()
print("threads", [parameter.grad.sum() for parameter in model.parameters()])
"""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ran, Trace]:
    """What a script said where nothing was asked for but to trace it, and its trace."""
    house = House(tmp_path_factory.mktemp("plain"))
    house.write(SCRIPT)
    return house.python("-m", "gradscope", "trace", "script.py"), house.recorded()


def test_where_pytorch_is_installed_a_script_runs_on_it_is_recorded_and_the_first_line_says_so(
    plain: tuple[Ran, Trace],
) -> None:
    ran, trace = plain

    assert (ran.code, ran.out) == (3, "torch False\n")
    assert ran.err.splitlines()[0] == f"gradscope: recording PyTorch {version('torch')}"
    assert trace.meta["producer"] == "pytorch"
    assert len(trace.table(GraphTask)) == 3
    assert len(trace.table(Step)) == 4
    assert {trace.site(stack) for stack in trace.table(Node)["stack"].tolist()} == {"script.py:9"}


def test_a_script_watched_without_machine_code_is_recorded_alike_and_info_says_so(
    house: House, plain: tuple[Ran, Trace]
) -> None:
    house.write(SCRIPT)
    as_asked, native = plain
    ran = house.python("-m", "gradscope", "trace", "--on", "torch", "--no-native", "script.py")
    hooked = house.recorded()
    told = house.gradscope("info", "trace.json")

    assert (ran.code, ran.out) == (as_asked.code, as_asked.out)
    for table, column in ((Node, "sequence_nr"), (Edge, "next"), (NodeBegin, "node")):
        assert hooked.table(table)[column].tolist() == native.table(table)[column].tolist()
    assert "it was switched off" in told.out + told.err


def test_watching_numbers_begins_while_the_programs_own_import_is_under_way(house: House) -> None:
    """Threads that measure known tensors then name `torch`, whose import has not ended: a hang."""
    house.write(SCRIPT)
    asked = ("-q", "--on", "torch", "--level", "values", "script.py")
    ran = house.python("-m", "gradscope", "trace", *asked)

    assert (ran.code, ran.out, ran.err) == (3, "torch False\n", "")
    assert len(house.recorded().table(Value))
    assert "unseen" not in house.recorded().meta


def test_a_fault_at_the_start_does_not_reach_the_programs_import(house: House) -> None:
    house.write(
        """
import sys
from gradscope.record.from_pytorch import source


def breaks(self):
    raise ValueError("on purpose")


source.PyTorchSource._begin = breaks
import torch
x = torch.ones(2, requires_grad=True)
x.exp().sum().backward()
print(x.grad.tolist() == x.exp().tolist(), torch.is_anomaly_enabled())
"""
    )

    ran = house.python("-m", "gradscope", "trace", "--on", "torch", "script.py")

    assert (ran.code, ran.out) == (0, "True False\n")
    said = house.gradscope("info", "trace.json")
    assert "watching began: ValueError: on purpose" in said.out + said.err


def test_steps_are_left_out_before_pytorch_is_there(house: House) -> None:
    house.write(
        """
import torch

w = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([w])
carried = w.exp()
for _ in range(5):
    (w.detach() * carried).sum().backward(retain_graph=True)
    optimizer.step()
"""
    )

    ran = house.gradscope("trace", "-q", "--on", "torch", "--steps", "3", "script.py")

    assert ran == Ran(0, "", "")
    assert len(house.recorded().table(GraphTask)) == 1
    assert "unseen" not in house.recorded().meta  # hooks would have been seen in the pause, too


def test_record_watches_the_pytorch_that_a_program_has_imported(house: House) -> None:
    house.write(
        """
import gradscope
import torch

with gradscope.record("trace.json"):
    torch.ones(2, requires_grad=True).exp().sum().backward()
"""
    )

    assert house.python("script.py") == Ran(0, "", "")
    trace = house.recorded()
    names = trace.texts(trace.table(Node)["name"])
    assert sorted(names) == ["AccumulateGrad", "ExpBackward0", "SumBackward0"]
    assert trace.meta["producer"] == "pytorch"


def test_a_script_prints_what_it_prints_unwatched_whatever_it_does_with_pytorch(
    house: House,
) -> None:
    """Mixed precision, loaders, torch.func, compilers, closures, pickles, threads."""
    house.write(MANY_WAYS)

    unwatched = house.python("script.py")
    watched = house.python("-m", "gradscope", "trace", "-q", "--on", "torch", "script.py")

    assert watched == unwatched
    assert unwatched.code == 0
    assert house.violations() == []
    assert "unseen" not in house.recorded().meta
    assert len(house.recorded().table(Region)) > 0
    nodes = house.recorded().table(Node)
    names = house.recorded().texts(nodes["name"])
    assert names.count("CompiledFunctionBackward") == 1
