"""What gradscope compiles in the middle of a program is told as its own work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import gradscope
import gradscope.runtime as torch
from gradscope.analysis.timing.durations import timing_by_node_name, timing_by_op
from gradscope.analysis.timing.own_work import OwnWork, OwnWorkTimes, own_work
from gradscope.analysis.timing.phases import ProgramPart
from gradscope.record.recorder import record
from gradscope.runtime.core.kernels import compile_notices as telling
from gradscope.trace.load_save import load
from gradscope.trace.schema import NONE, GraphTask, Op, Span
from gradscope.trace.spec import check
from gradscope.trace.trace import Trace

PROGRAM = """
import sys
import gradscope.runtime as torch
from gradscope.record.recorder import record

with record(sys.argv[1]):
    for _ in range(3):
        x = torch.ones(80_000, requires_grad=True)
        torch.erf(x).sum().backward()
"""


def recorded_with_an_empty_cache(folder: Path) -> Trace:
    script, path = folder / "program.py", folder / "trace.json"
    script.write_text(PROGRAM)
    home = {"NUMBA_CACHE_DIR": str(folder / "empty"), "XDG_CACHE_HOME": str(folder / "home")}
    places = {"PYTHONPATH": str(Path(gradscope.__file__).parents[1])}
    command = [sys.executable, script, path]
    subprocess.run(command, env={**os.environ, **home, **places}, check=True, timeout=120)
    return load(path)


def test_what_is_compiled_and_written_takes_no_time_of_the_users(tmp_path: Path) -> None:
    """Compiling erf took 1.5 s, and was the first call's; SumBackward0 took 10 ms, later 0.3."""
    trace = recorded_with_an_empty_cache(tmp_path)

    own = {each.name: each for each in own_work(trace)}
    compiling, loading = own["gradscope compiles erf float32"], own["gradscope loads kernels"]
    assert own.keys() >= {"gradscope compiles sum", "gradscope compiles exp"}
    first = next(op for op in trace.rows(Op) if op.name == "erf")
    for each in (compiling, loading):
        assert first.begin <= each.begin <= each.end <= first.end
    [erf] = [timing for timing in timing_by_op(trace, ProgramPart.FORWARD) if timing.name == "erf"]
    assert erf.count == 3
    assert erf.longest < (first.end - first.begin) / 4
    [sums] = [timing for timing in timing_by_node_name(trace) if timing.name == "SumBackward0"]
    assert sums.count == 3
    assert check(trace) == []


def test_own_work_in_a_hook_is_inside_its_backward() -> None:
    x = torch.ones(2, requires_grad=True)
    y = x * 2

    def hook(grad: torch.Tensor) -> None:
        with telling.own_work("compiles something"), telling.own_work("keeps it"):
            pass

    y.register_hook(hook)
    with record() as recording:
        y.sum().backward()
    trace = recording.trace()

    [found] = [each for each in own_work(trace) if each.name == "gradscope compiles something"]
    [task] = trace.rows(GraphTask)
    assert task.begin <= found.begin < found.end <= task.end
    assert found.thread == task.thread
    assert "gradscope keeps it" in {span.name for span in trace.rows(Span)}
    assert OwnWorkTimes(trace).on([task.thread], found.begin, found.end) == found.end - found.begin


def test_own_work_that_fails_has_an_end() -> None:
    with record() as recording:
        try:
            with telling.own_work("compiles something"):
                raise KeyError
        except KeyError:
            pass
    [span] = recording.trace().rows(Span)

    assert span.end != NONE
    assert isinstance(own_work(recording.trace())[0], OwnWork)


def test_own_work_during_a_pause_is_not_told() -> None:
    with record(steps=(1, 1)) as recording:
        with telling.own_work("compiles something"):
            pass
        recording.step(1)
        with telling.own_work("compiles more"):
            pass

    assert [each.name for each in own_work(recording.trace())] == ["gradscope compiles more"]
