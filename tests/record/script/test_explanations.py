"""A script that dies under `gradscope trace`: its traceback as ever, below it who is to blame."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.record.running import House, Ran

ENGINES = pytest.mark.parametrize(
    "engine", ["gradscope", pytest.param("torch", marks=pytest.mark.torch)]
)
WRITTEN = """\
import torch
x = torch.ones(3, requires_grad=True)
h = x.exp()
h += 1
h.sum().backward()
"""
SHAPES = """\
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(8, 16)
        self.b = torch.nn.Linear(32, 1)
    def forward(self, x):
        return self.b(torch.relu(self.a(x)))
Net()(torch.ones(4, 8)).sum().backward()
"""
CUT = """\
import torch
net = torch.nn.Linear(3, 2)
loss = torch.tensor(net(torch.ones(2, 3)).mean().item())
loss.backward()
"""
UNKNOWN = "import torch\nx = torch.ones(3)\n{}['no']\n"
BLAMED = """\
    script.py:4: h += 1
    why  the backward called at line 5 needed it, and would have computed the gradient from values
         that the forward pass did not have
    fix  write `h = h + 1` instead of `h += 1`
"""


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def below(ran: Ran) -> str:
    """What stands between the traceback and what gradscope says of the trace."""
    _, _, rest = ran.err.partition("Error: ")
    return rest.partition("\n")[2].partition("gradscope: ")[0]


@pytest.mark.torch
@pytest.mark.parametrize(
    "arguments",
    [("script.py",), ("-m", "script"), ("--stop-on", "rule:graph-cut", "script.py")],
)
def test_pytorchs_traceback_stays_as_it_is_and_the_line_to_blame_stands_below(
    house: House, arguments: tuple[str, ...]
) -> None:
    house.write(WRITTEN)

    ran = house.gradscope("trace", "--on", "torch", *arguments)

    assert ran.code == 1
    assert below(ran).startswith("error GS302 add_ at script.py:4 wrote in place to 'result'")
    assert BLAMED in below(ran)
    if arguments == ("script.py",):
        alone = house.python("script.py")
        assert alone.code == 1
        assert ran.err.startswith(alone.err)


@ENGINES
def test_a_line_that_the_message_does_not_name_is_blamed_on_both_engines(
    house: House, engine: str
) -> None:
    house.write(CUT)

    ran = house.gradscope("trace", "--on", engine, "script.py")

    assert ran.code == 1
    assert "    script.py:3: loss = torch.tensor(net(torch.ones(2, 3)).mean().item())" in ran.err


@ENGINES
def test_shapes_that_do_not_fit_are_explained_with_the_module(house: House, engine: str) -> None:
    house.write(SHAPES)

    ran = house.gradscope("trace", "--on", engine, "script.py")

    assert ran.code == 1
    assert "why  b (Linear) takes 32 features, but got 16 (4×16)" in below(ran)
    assert "fix  create it as Linear(16, 1), or make the layer before return 32" in below(ran)


@ENGINES
def test_of_an_error_of_the_scripts_own_nothing_is_said(house: House, engine: str) -> None:
    house.write(UNKNOWN)

    ran = house.gradscope("trace", "--on", engine, "script.py")

    assert ran.code == 1
    assert below(ran) == ""


@ENGINES
def test_an_error_inside_of_an_installed_package_is_at_the_programs_own_line(
    house: House, engine: str
) -> None:
    script = "import json\nimport torch\n\ndef read():\n    return json.loads('{')\n\nread()\n"

    house.write(script)

    house.gradscope("trace", "--on", engine, "script.py")
    said = house.gradscope("inspect", "trace.json").out

    assert "at script.py:5, inside json/decoder.py:" in " ".join(said.split())
    assert "script.py:5 (read): return json.loads('{')" in said
