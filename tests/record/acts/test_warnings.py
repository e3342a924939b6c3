"""A recording warns nobody, and its own frames are in no trace."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from gradscope.trace.schema import Act, Frame
from tests.record.running import House

BOTH = pytest.mark.parametrize(
    "engine", ["gradscope", pytest.param("torch", marks=pytest.mark.torch)]
)
NO_LEAVES = """\
import torch

net = torch.nn.Linear(2, 2)
net(torch.ones(1, 2)).sum().backward()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
first = next(net.parameters())
fast = [each * 1.0 for each in net.parameters()]
optimizer.step = lambda: None
optimizer.param_groups[0]["params"] = fast
for _ in range(2):
    torch.nn.functional.linear(torch.ones(1, 2), *fast).sum().backward(retain_graph=True)
    torch.ones(2).mul_(2)
    optimizer.step()
print("done")
"""
OUTSIDE = """\
import atexit
import warnings

import torch

torch.ones(2, requires_grad=True).sum().backward()
atexit.register(warnings.warn, "too late")
"""
GRADSCOPE = Path(__file__).parents[3] / "gradscope"


@BOTH
def test_a_parameter_that_is_no_leaf_is_not_asked_for_its_gradient(
    house: House, engine: str
) -> None:
    house.write(NO_LEAVES)

    ran = house.trace("--on", engine, "script.py")

    assert (ran.code, ran.out, ran.err) == (0, "done\n", "")
    assert "warning" not in {row.kind for row in house.recorded().table(Act).rows()}


@BOTH
def test_a_warning_outside_of_the_program_has_no_line_of_the_command_line(
    house: House, engine: str
) -> None:
    house.write(OUTSIDE)

    ran = house.trace("--on", engine, "script.py")

    assert "too late" in ran.err
    assert {Path(row.file).name for row in house.recorded().table(Frame).rows()} == {"script.py"}


def test_gradients_are_read_by_one_function_that_does_not_warn() -> None:
    files = [*(GRADSCOPE / "record").rglob("*.py"), GRADSCOPE / "watch/python_walk.py"]
    readers = {
        str(path.relative_to(GRADSCOPE))
        for path in files
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr == "grad"
        and ast.unparse(node.value) not in ("torch.autograd", "leaf._meta", "tensor._meta")
    }

    assert readers == {"record/notes/local_names.py", "watch/python_walk.py"}
