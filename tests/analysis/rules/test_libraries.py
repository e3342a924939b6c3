"""What libraries do in a sound program's name is no fault of the program."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradscope.analysis.findings import Severity
from gradscope.analysis.report import inspect
from tests.analysis.rules.test_snippets import recorded
from tests.record.running import House

FLAT = """
class Flat(torch.nn.Module):
    def __init__(self):
        super().__init__()
        whole = torch.ones(4, requires_grad=True)
        self.params = [whole]
        self.first = torch.nn.Parameter(whole.detach()[:2])
        self.second = torch.nn.Parameter(whole.detach()[2:])

    def forward(self, x):
        return x * self.params[0]

net = Flat()
optimizer = torch.optim.SGD([net.first, net.second], lr=0.1)
for _ in range(3):
    net.params[0].grad = None
    net(torch.ones(4)).sum().backward()
    net.first.grad, net.second.grad = net.params[0].grad[:2], net.params[0].grad[2:]
    optimizer.step()
"""

SHARDED = """
class Sharded(torch.optim.SGD):
    def __init__(self, tensors, lr):
        super().__init__(tensors, lr=lr)
        self.part = torch.optim.SGD(tensors, lr=lr)

    def step(self):
        self.part.step()

w = torch.ones(3, requires_grad=True)
optimizer = Sharded([w], lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    (w * 2).sum().backward()
    optimizer.step()
"""


def told(program: str, folder: Path, *rules: str) -> list[str]:
    """What these rules find."""
    report = inspect(recorded(program.lstrip(), folder), rules=rules)
    assert report.checked == rules
    return [f"{each.rule}: {each.message}" for each in report.findings]


def test_a_flat_parameter_stands_for_those_that_have_its_memory(tmp_path: Path) -> None:
    assert told(FLAT, tmp_path, "GS403", "GS411") == []


def test_an_optimizer_inside_anothers_step_does_not_step_twice(tmp_path: Path) -> None:
    assert told(SHARDED, tmp_path, "GS914") == []


SCHEDULE = """
def step(losses):
    for loss in losses:
        loss.backward()
"""
"""What a library does, in a file that somebody installed."""

PIPELINE = f"""
library = {{}}
exec(compile({SCHEDULE!r}, "/usr/lib/python3/site-packages/schedule.py", "exec"), library)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    library["step"](model(torch.ones(3, 2)).pow(2).mean() for _ in range(4))
    optimizer.step()
    optimizer.zero_grad()
"""

UNSEEN = """
step = torch.Tensor.backward
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    for _ in range(4):
        step(model(torch.ones(3, 2)).pow(2).mean())
    optimizer.step()
    optimizer.zero_grad()
"""
"""The recorded line says nothing of a backward, as where frames of libraries are left out."""

META = """
w = torch.ones(2, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    for task in range(4):
        loss = (w * task).pow(2).mean()
        (grad,) = torch.autograd.grad(loss, [w], create_graph=True)
        ((w - 0.1 * grad) * task).pow(2).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize("program", [PIPELINE, UNSEEN], ids=["installed", "unseen"])
def test_a_line_that_calls_no_backward_is_not_told_to_divide(program: str, tmp_path: Path) -> None:
    assert told(program, tmp_path, "GS508") == []


def test_losses_behind_updates_of_their_own_are_a_sum_over_tasks(tmp_path: Path) -> None:
    assert told(META, tmp_path, "GS508") == []


SAM = """
class Sam(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {})
        self.inner = torch.optim.SGD(self.param_groups, lr=0.01)

    def step(self, closure):
        with torch.no_grad():
            before = [p.clone() for p in self.param_groups[0]["params"]]
            for p in self.param_groups[0]["params"]:
                p.add_(p.grad, alpha=0.01)
        self.zero_grad()
        closure()
        with torch.no_grad():
            for p, old in zip(self.param_groups[0]["params"], before):
                p.copy_(old)
        self.inner.step()

model = torch.nn.Linear(2, 1)
optimizer = Sam(model.parameters())

def closure():
    loss = model(torch.ones(3, 2)).pow(2).mean()
    loss.backward()
    return loss

for _ in range(4):
    optimizer.zero_grad()
    closure()
    optimizer.step(closure)
"""


def test_what_an_optimizer_clears_is_cleared_for_one_inside_it(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.write(f"import torch{SAM}")
    house.trace("--on", "gradscope", "script.py")

    assert inspect(house.recorded(), rules=["GS508"]).findings == ()


NATURAL = """
class Natural(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return 0.5 * grad * ctx.saved_tensors[0]

def mixed(x, table):
    return Natural.apply(x).sum() + (x * 2 + table).sum()
"""
LIBRARY = f"""
library = {{"torch": torch}}
exec(compile({NATURAL!r}, "{{file}}", "exec"), library)
w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
table = torch.ones(3, dtype=torch.float64)
for _ in range(3):
    w.grad = None
    library["mixed"](w, table).backward()
"""


@pytest.mark.parametrize(
    ("file", "severity"),
    [("/usr/lib/python3/site-packages/nat.py", Severity.NOTE), ("nat.py", Severity.WARNING)],
)
def test_what_a_library_derives_or_casts_its_own_way_is_a_note(
    file: str, severity: Severity, tmp_path: Path
) -> None:
    trace = recorded(LIBRARY.replace("{file}", file).lstrip(), tmp_path)

    found = inspect(trace, rules=["GS705", "GS901"]).findings
    assert {(each.rule, each.severity) for each in found} == {
        ("GS705", severity), ("GS901", severity),
    }  # fmt: skip
