"""The debugger as a client sees it that nobody here wrote: @vscode/debugadapter-testsupport.

`sh tools/editors.sh` installs it where Node is; where it is not installed, this is skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gradscope.runtime as torch
from gradscope.record.recorder import record

CLIENT = Path(__file__).with_name("client.js")
MODULES = Path(__file__).parents[3] / "editors" / "node_modules"
INSTALLED = shutil.which("node") and (MODULES / "@vscode/debugadapter-testsupport").is_dir()


@pytest.mark.skipif(not INSTALLED, reason="sh tools/editors.sh has not installed the client")
def test_a_client_that_nobody_here_wrote_steps_and_stops(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    with record(trace, level="values"):
        weight = torch.zeros(2, requires_grad=True)
        square = weight * weight
        square.sum().sqrt().backward()
    line = next(
        number for number, text in enumerate(Path(__file__).read_text().splitlines(), 1)
        if text.strip() == "square = weight * weight"
    )  # fmt: skip

    done = subprocess.run(
        ["node", CLIENT, sys.executable, trace, __file__, str(line)],
        env=os.environ | {"NODE_PATH": str(MODULES)}, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["can"]["supportsStepBack"]
    assert told["breakpoints"][0]["verified"]
    assert told["entry"]["reason"] == "entry"
    assert told["line"]["reason"] == "breakpoint"
    assert told["inf"] | {"description": "inf", "reason": "exception"} == told["inf"]
    assert [frame["name"] for frame in told["stack"]] == ["SqrtBackward0", "backward 0"]
    assert any(each.startswith("0 (node output): norm nan, 0 NaN, 1 Inf")
               for each in told["variables"]["gradients out"])  # fmt: skip
    assert told["back"]["reason"] == "step"
    assert told["reverse"]["description"].startswith("line ")
