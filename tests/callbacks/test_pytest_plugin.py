"""The mark and the fixture, in a pytest of their own; on both engines."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gradscope

PROGRAM = """
import pytest, torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.used = torch.nn.Linear(3, 3)
        self.unused = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.used(x)


def overflows():
    x = torch.zeros(3, requires_grad=True)
    x.sqrt().sum().backward()


@pytest.mark.gradscope(no_nan=True)
def test_nan():
    overflows()


@pytest.mark.gradscope
def test_every_rule():
    overflows()


@pytest.mark.gradscope(all_params_reached=True, max_saved=10)
def test_reached():
    Net()(torch.ones(2, 3)).sum().backward()


@pytest.mark.gradscope(no_nan=True, all_params_reached=True, max_saved="2MB", rules=["exception"])
def test_fine():
    torch.nn.Linear(3, 3)(torch.ones(2, 3)).sum().backward()


@pytest.mark.gradscope(max_saved="1GB")
def test_raises():
    x = torch.zeros(3, requires_grad=True)
    y = x.exp()
    y.add_(1)
    y.sum().backward()


@pytest.mark.gradscope(nan=True)
def test_unknown_argument(): pass


@pytest.mark.gradscope(rules=["non-finite-birth"], level="engine")
def test_level_too_low():
    overflows()


@pytest.mark.gradscope(no_nan=True)
def test_nothing_recorded(): pass


def test_fixture(gradscope):
    with gradscope.record(level="values") as recorded:
        overflows()
    assert [each.rule for each in recorded.report.findings] == ["GS201"]
    recorded.check(max_saved="2MB")
    born = "Inf first produced in the backward of SqrtBackward0"
    with pytest.raises(pytest.fail.Exception, match=born):
        recorded.check(no_nan=True)


@pytest.mark.gradscope(no_nan=True)
def test_only_the_block_counts(gradscope):
    overflows()
    with gradscope.record():
        torch.ones(3, requires_grad=True).sum().backward()


@pytest.mark.gradscope(same_graph="golden.json")
def test_graph():
    x = torch.ones(3, requires_grad=True)
    (x * 2).sum().backward()


def test_unmarked():
    overflows()
"""
PASS = {"test_fine", "test_fixture", "test_only_the_block_counts", "test_unmarked"}
ENGINES = pytest.mark.parametrize(
    "engine", ["gradscope", pytest.param("torch", marks=pytest.mark.torch)]
)


def run(folder: Path, *arguments: str) -> str:
    """What pytest prints, with no other plugin."""
    command = [sys.executable, "-m", "pytest", "-p", "gradscope.callbacks.pytest_plugin", "-rA"]
    path = os.pathsep.join([str(Path(gradscope.__file__).parents[1]), *sys.path])
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": path}
    ran = subprocess.run(
        [*command, "-p", "no:cacheprovider", f"--basetemp={folder / 'kept'}", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return ran.stdout + ran.stderr


def section(out: str, test: str) -> str:
    """What is said of a test that failed."""
    head = rf"^_+ {test} _+$\n"
    found = re.search(rf"{head}(.*?)^(?:_+ \w+ _+|=+ .* =+)$", out, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


@ENGINES
def test_a_marked_test_fails_with_the_findings_text(tmp_path: Path, engine: str) -> None:
    (tmp_path / "test_program.py").write_text(PROGRAM, encoding="utf-8")

    out = run(tmp_path, "--gradscope-on", engine)

    assert set(re.findall(r"^PASSED \S+::(\w+)$", out, re.MULTILINE)) == PASS
    birth = section(out, "test_nan")
    assert birth.startswith(
        "error GS201 Inf first produced in the backward of SqrtBackward0 (test_program"
    )
    assert "    fix  write `" in birth
    assert ".clamp_min(1e-12)" in birth
    kept = re.search(r"^the trace: (\S+trace.json) ", birth, re.MULTILINE)
    assert kept is not None
    assert gradscope.load(kept[1]).meta["producer"] == {
        "torch": "pytorch", "gradscope": "gradscope.runtime"
    }[engine]  # fmt: skip
    assert section(out, "test_every_rule").startswith("error GS201")
    reached = section(out, "test_reached")
    assert "no backward reached 2 of 4 parameters: unused.weight, unused.bias\n" in reached
    assert (
        "max_saved: 24 bytes were saved for backward at the peak, more than 10 bytes\n" in reached
    )
    assert "    24 bytes by AddmmBackward0 test_program.py:12\n" in reached
    raised = section(out, "test_raises")
    assert "RuntimeError: one of the variables needed for gradient" in raised
    assert re.search(
        r"error GS302 add_ at test_program.py:\d+ wrote in place to 'result' of", raised
    )
    assert "max_saved, same_graph, rules, level, on; not nan\n" in section(
        out, "test_unknown_argument"
    )
    assert "was not checked: record with --level values" in section(out, "test_level_too_low")
    assert "nothing was recorded: no operation" in section(out, "test_nothing_recorded")
    assert "to write it, run pytest --gradscope-update" in section(out, "test_graph")


def test_the_graph_of_a_test_is_kept_when_that_is_asked_for(tmp_path: Path) -> None:
    program = tmp_path / "test_program.py"
    options = ("-k", "test_graph", "--gradscope-on", "gradscope")
    program.write_text(PROGRAM, encoding="utf-8")

    kept = run(tmp_path, *options, "--gradscope-update")
    program.write_text(PROGRAM.replace("x * 2", "x.exp() * 2"), encoding="utf-8")
    differs = run(tmp_path, *options)

    assert "1 passed" in kept
    assert "structure: a node that only the second has" in section(differs, "test_graph")


def test_a_pytest_that_is_recorded_says_nothing_of_the_plugin(tmp_path: Path) -> None:
    """It would warn of a package with a plugin that was imported before."""
    installed = tmp_path / "gradscope_again-0.1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Name: gradscope-again\nVersion: 0.1\n", encoding="utf-8")
    (installed / "RECORD").write_text("gradscope/__init__.py,,\n", encoding="utf-8")
    (installed / "entry_points.txt").write_text("[pytest11]\nagain = json\n", encoding="utf-8")
    (tmp_path / "test_program.py").write_text("def test_it(): pass", encoding="utf-8")
    program = "import gradscope, sys, pytest; sys.exit(pytest.main(['-p', 'no:cacheprovider']))"
    path = os.pathsep.join([str(tmp_path), str(Path(gradscope.__file__).parents[1]), *sys.path])

    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0
    assert "again" in ran.stdout
    assert "warning" not in ran.stdout


def test_nothing_is_imported_where_nothing_is_marked(tmp_path: Path) -> None:
    (tmp_path / "test_program.py").write_text(
        "import sys\ndef test_it():\n"
        "    print(sorted(each for each in sys.modules if each.startswith('gradscope')))\n"
        "    assert not {'numpy', 'torch', 'rich'} & sys.modules.keys()\n",
        encoding="utf-8",
    )

    out = run(tmp_path)

    assert "1 passed" in out
    assert "['gradscope', 'gradscope.callbacks', 'gradscope.callbacks.pytest_plugin']\n" in out
