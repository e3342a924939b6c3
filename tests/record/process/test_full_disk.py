"""A trace that cannot be written to its end changes nothing for the program."""

from __future__ import annotations

import resource
from textwrap import indent

import pytest

from tests.record.running import House

LIMIT = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))\n"
PROGRAM = """\
import torch
for _ in range(500):
    (torch.ones(4, requires_grad=True) * 2).sum().backward()
print("ended")
"""
RAISES = PROGRAM + "raise KeyError('of the program')\n"
BEGINS = "from gradscope.record.at_start import begin\nbegin()\nimport torch\n"
RECORDS = "import gradscope\nwith gradscope.record('trace.json', on={engine!r}):\n"

pytestmark = pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="files have no limit")


def complaints(err: str) -> list[str]:
    return [line for line in err.splitlines() if "cannot write" in line]


@pytest.mark.parametrize("engine", ["gradscope", pytest.param("torch", marks=pytest.mark.torch)])
def test_under_record_the_program_goes_on_and_its_own_exception_comes_out(
    house: House, engine: str
) -> None:
    first = "import gradscope.runtime as torch\n" if engine == "gradscope" else "import torch\n"
    text = PROGRAM.replace("import torch\n", "")
    for name, body in (("fine", text), ("raises", text + "raise KeyError('of the program')\n")):
        within = indent(body, "    ")
        house.write(first + LIMIT + RECORDS.format(engine=engine) + within, f"{name}.py")

    fine = house.python("fine.py")
    raises = house.python("raises.py")

    assert (fine.code, fine.out) == (0, "ended\n")
    assert len(complaints(fine.err)) == 1
    assert (raises.code, raises.out) == (1, "ended\n")
    assert raises.err.splitlines()[-1] == "KeyError: 'of the program'"
    assert len(complaints(raises.err)) == 1
    assert house.recorded().truncated


def test_under_gradscope_trace_it_is_said_once(house: House) -> None:
    house.write(LIMIT + RAISES)

    ran = house.gradscope("trace", "--on", "gradscope", "script.py")

    assert (ran.code, ran.out) == (1, "ended\n")
    assert "KeyError: 'of the program'" in ran.err
    assert len(complaints(ran.err)) == 1


@pytest.mark.torch
def test_a_program_that_records_itself_from_its_start_says_it_once(house: House) -> None:
    house.write(BEGINS + LIMIT + PROGRAM)

    ran = house.python("script.py", env={"GRADSCOPE": "1"})

    assert (ran.code, ran.out) == (0, "ended\n")
    assert len(complaints(ran.err)) == 1
    assert "is written" not in ran.err
