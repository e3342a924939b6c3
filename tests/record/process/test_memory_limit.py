"""A limit on memory that leaves too little to record: a program runs alone, and that is said."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.record.running import House, Ran

LIMITED = """
import re, resource, sys
from pathlib import Path
import gradscope.record.run_script, gradscope.runtime
from gradscope.cli import main
size = int(re.search(r"VmSize:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) << 10
resource.setrlimit(resource.RLIMIT_AS, [size + (int(sys.argv[1]) << 20)] * 2)
main(["trace", "--on", "gradscope", *sys.argv[2:]])
"""
SCRIPT = "import sys\nprint(sys.argv, __name__, 'gradscope' in sys.modules, input())\nsys.exit(3)\n"
SAID = (
    "gradscope: the limit on memory (ulimit -v, say) leaves too little for a recording; "
    "the script runs without recording\n"
)

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="reads Linux's own account"
)


@pytest.mark.parametrize("command", [["script.py"], ["-m", "script"]])
def test_too_little_memory_is_said_and_the_script_runs_as_alone(
    house: House, command: list[str]
) -> None:
    house.write(SCRIPT)
    limited = house.write(LIMITED, "limited.py")
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    alone = house.python(*command, "-x", "y z", input="in\n")

    ran = house.python(str(limited), "100", *command, "-x", "y z", input="in\n", env=environment)

    assert alone.code == 3
    assert ran == Ran(3, alone.out, SAID)
    assert not (house.folder / "trace.json").exists()


def test_a_limit_that_leaves_enough_is_none(house: House) -> None:
    house.write("print('out')")
    limited = house.write(LIMITED, "limited.py")
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}

    ran = house.python(str(limited), "4000", "-q", "script.py", env=environment)

    assert ran == Ran(0, "out\n", "")
    assert house.recorded().meta["exit"] == "ok"
