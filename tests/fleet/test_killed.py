"""Exports that are killed at every action on a file, and exports at the same time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fleet.growing import windows, written
from tests.fleet.reading import everything, files

exporter = pytest.importorskip("gradscope.fleet.export.exporter")
Exporter, WITHOUT = exporter.Exporter, exporter.ExportOptions(findings=False)

SCRIPT = '''
import os, signal, sys
from pathlib import Path
from gradscope.fleet.export.exporter import Exporter, ExportOptions

NAMES = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree")

def add(trace, fleet):
    Exporter(Path(fleet), "a", ExportOptions(findings=False)).add(Path(trace))

def killed_at(number, trace, fleet):
    """Whether the export was killed when it was to act on a file of the fleet for this time."""
    child = os.fork()
    if child == 0:
        left = [number]

        def hear(event, arguments):
            if event in NAMES and arguments and str(fleet) in str(arguments[0]):
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hear)
        add(trace, fleet)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL), status
    return status != 0

_, first, then, folder = sys.argv
number = 0
while True:
    fleet = f"{folder}/{number}"
    if then != first:
        add(first, fleet)
    if not killed_at(number, then, fleet):
        break
    number += 1
print(number)
'''
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")


def killed_everywhere(folder: Path, first: Path, then: Path) -> list[Path]:
    """Fleets in which an export of `then` was killed, after one of `first` if that is another."""
    made = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(first), str(then), str(folder)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [folder / str(number) for number in range(int(made.stdout))]


@needs_fork
def test_an_export_that_was_killed_is_completed_by_the_next(tmp_path: Path) -> None:
    trace = written(tmp_path / "trace.json", steps=2)
    Exporter(tmp_path / "whole", "a", WITHOUT).add(trace)
    wanted = files(tmp_path / "whole")

    fleets = killed_everywhere(tmp_path / "killed", trace, trace)

    assert len(fleets) > 2 * len(wanted)
    for fleet in fleets:
        Exporter(fleet, "a", WITHOUT).add(trace)
        assert files(fleet) == wanted, fleet.name


@needs_fork
def test_a_continued_export_that_was_killed_is_completed_by_the_next(tmp_path: Path) -> None:
    trace = written(tmp_path / "trace.json", steps=4)
    whole, first = trace.read_bytes(), tmp_path / "first.json"
    first.write_bytes(whole[: windows(whole)[2]])
    Exporter(tmp_path / "whole", "a", WITHOUT).add(first)
    Exporter(tmp_path / "whole", "a", WITHOUT).add(trace)
    wanted = files(tmp_path / "whole")

    for fleet in killed_everywhere(tmp_path / "killed", first, trace):
        Exporter(fleet, "a", WITHOUT).add(trace)
        assert files(fleet) == wanted, fleet.name


def test_two_exports_at_the_same_time_are_one(tmp_path: Path) -> None:
    fleet, ranks = tmp_path / "fleet", range(2)
    traces = [str(written(tmp_path / f"{rank}.json", steps=3, rank=rank)) for rank in ranks]
    command = [sys.executable, "-m", "gradscope", "export", "--to", str(fleet), "--run", "a"]

    both = [subprocess.Popen([*command, "--no-findings", *some]) for some in (traces, traces[::-1])]

    assert [each.wait() for each in both] == [0, 0]
    for trace in traces:
        Exporter(tmp_path / "one", "a", WITHOUT).add(Path(trace))
    assert files(fleet) == files(tmp_path / "one")
    assert everything(fleet) == everything(tmp_path / "one")


def test_an_export_killed_at_any_time_is_completed_by_the_next(tmp_path: Path) -> None:
    trace = written(tmp_path / "trace.json", steps=3)
    Exporter(tmp_path / "whole", "a", WITHOUT).add(trace)
    command = [sys.executable, "-m", "gradscope", "export", "--to", str(tmp_path / "fleet")]

    for moment in (0.6, 1.2):
        process = subprocess.Popen([*command, "--run", "a", "--no-findings", str(trace)])
        try:
            process.wait(moment)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
    Exporter(tmp_path / "fleet", "a", WITHOUT).add(trace)

    assert files(tmp_path / "fleet") == files(tmp_path / "whole")
