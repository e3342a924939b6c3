"""`GRADSCOPE=1 python train.py`, by the `gradscope.pth` that Python reads when it starts."""

from __future__ import annotations

import shutil
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from gradscope.trace.schema import GraphTask
from tests.record.running import House, Ran

PTH = Path(__file__).parents[2] / "tools" / "gradscope.pth"
SEES = "import sys; print([name for name in sys.modules if name.startswith('gradscope')])"
TRAIN = """
import os
import subprocess
import sys

import torch

model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    optimizer.zero_grad()
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
child = subprocess.run([sys.executable, "-c", "import torch; print('child')"], capture_output=True)
print(child.stdout, child.stderr, os.environ.get("GRADSCOPE"))
"""
FAILS = "import torch\ntorch.ones(2, requires_grad=True).sum().backward()\nraise ValueError('no')\n"


@pytest.fixture
def python(house: House) -> str:
    """A Python into whose environment gradscope is installed, with what else is installed here."""
    venv.create(house.folder / "venv", symlinks=True)
    sites = sysconfig.get_path("purelib", vars={"base": str(house.folder / "venv")})
    here = [path for path in sys.path if path.endswith("site-packages")]
    Path(sites, "a.pth").write_text("\n".join([*here, str(PTH.parents[1])]))
    shutil.copy(PTH, sites)
    return str(house.folder / "venv" / Path(sys.executable).parent.name / Path(sys.executable).name)


def test_without_the_variable_nothing_of_gradscope_is_imported(house: House, python: str) -> None:
    for value in ("", "0"):
        assert house.run(python, "-c", SEES, env={"GRADSCOPE": value}) == Ran(0, "[]\n", "")
    assert (
        "'gradscope.record.at_start'" in house.run(python, "-c", SEES, env={"GRADSCOPE": "1"}).out
    )


@pytest.mark.parametrize("option", ["-E", "-I"])
def test_a_python_that_ignores_the_environment_does_not_record(
    house: House, python: str, option: str
) -> None:
    ran = house.run(python, option, "-c", SEES, env={"GRADSCOPE": "1"})

    assert ran == Ran(0, "[]\n", "")


def test_no_start_of_python_breaks_whatever_is_wrong_with_gradscope(
    house: House, python: str
) -> None:
    """A fault prints one line."""
    house.write("raise ValueError('on purpose')", "broken/gradscope/__init__.py")
    broken = {"GRADSCOPE": "1", "PYTHONPATH": str(house.folder / "broken")}

    ran = house.run(python, "-c", "print('out')", env=broken)

    assert ran == Ran(0, "out\n", "gradscope: not recording: ValueError('on purpose')\n")
    assert house.run(python, "-S", "-c", "print('out')", env=broken) == Ran(0, "out\n", "")


def test_a_program_that_does_not_import_pytorch_is_not_recorded(house: House, python: str) -> None:
    ran = house.run(python, "-c", "print('out')", env={"GRADSCOPE": "1"})

    assert ran == Ran(0, "out\n", "")
    assert not (house.folder / "trace.json").exists()


@pytest.mark.torch
def test_a_program_is_recorded_and_its_children_are_not(house: House, python: str) -> None:
    house.write(TRAIN)

    ran = house.run(python, "script.py", env={"GRADSCOPE": "1", "GRADSCOPE_STEPS": "1:2"})

    trace = house.recorded()
    assert (ran.code, ran.out) == (0, "b'child\\n' b'' None\n")
    assert ran.err.splitlines() == [
        "gradscope: recording PyTorch into trace.json, because GRADSCOPE is set",
        "gradscope: wrote trace.json; next: gradscope inspect trace.json",
    ]
    assert len(trace.table(GraphTask)) == 2
    assert (trace.meta["script"], "exit" in trace.meta) == ("script.py", False)
    assert house.violations() == []
    assert [group["count"] for group in trace.meta["children"]] == [1]


@pytest.mark.torch
def test_the_variable_names_the_trace_and_an_exception_is_in_it(house: House, python: str) -> None:
    house.write(FAILS)
    asked = {"GRADSCOPE": "of it.json", "GRADSCOPE_LEVEL": "graph", "GRADSCOPE_QUIET": "1"}

    ran = house.run(python, "script.py", env=asked)

    assert (ran.code, ran.err.splitlines()[-1]) == (1, "ValueError: no")
    assert house.recorded("of it.json").meta["exit"] == "ValueError: no"
    refused = house.run(
        python, "-c", "import torch", env={"GRADSCOPE": "1", "GRADSCOPE_LEVEL": "most"}
    )
    assert (refused.code, refused.err.count("\n")) == (0, 1)
    assert refused.err.startswith("gradscope: not recording: unknown level 'most'; choose ")


@pytest.mark.torch
def test_ranks_are_recorded_and_who_launches_them_is_not(house: House, python: str) -> None:
    house.write("import torch\ntorch.ones(2, requires_grad=True).sum().backward()")
    launch = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "script.py")

    ran = house.run(python, *launch, env={"GRADSCOPE": "all.json", "GRADSCOPE_RANKS": "1"})

    assert ran.code == 0
    assert [path.name for path in house.folder.glob("*.json")] == ["all.rank1.json"]


@pytest.mark.torch
def test_arguments_and_text_of_the_program_can_be_left_out(house: House, python: str) -> None:
    house.write(TRAIN)
    environment = {"GRADSCOPE": "1", "GRADSCOPE_SOURCE": "0", "GRADSCOPE_ARGUMENTS": "0"}

    house.run(python, "script.py", "--data", "x.csv", env=environment)

    assert house.recorded().meta["left_out"] == ["arguments", "source"]
    assert house.recorded().meta["arguments"] == []
