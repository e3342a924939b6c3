"""`inspect --fix`, and what `--apply` writes: the program's next trace lacks the finding."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from gradscope.analysis.fixes import FileNow, Fix, fixes
from gradscope.analysis.report import inspect
from gradscope.commands.options import fixing
from gradscope.commands.options.fixing import write_fixes
from gradscope.errors import UsageError
from gradscope.trace.load_save import load
from tests.cli.conftest import Line
from tests.zoo.case import FOLDERS, case_of
from tests.zoo.running import told

ENGINE = "gradscope"


def zoo(name: str) -> str:
    """The program of a case, with its bug."""
    (path,) = (path for folder in FOLDERS for path in folder.rglob(f"{name}.py"))
    return case_of(path).buggy


def recorded(folder: Path, name: str, text: str) -> Path:
    """Record a program in a folder; the path of its trace."""
    told(folder, name, text, on=ENGINE, level="values")
    return folder / f"{name}.json"


def rules(trace: Path) -> set[str]:
    return {each.slug for each in inspect(load(trace)).findings}


IN_A_LOOP = """
import torch

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{before}
for _ in range(6):
    optimizer.zero_grad()
    loss = model(torch.ones(3, 2)).pow(2).mean()
    loss.backward()
    optimizer.step()
    {line}
{after}
"""
TOTAL = IN_A_LOOP.format(
    before="total = 0", line="total += loss  # for the log", after="print(float(total))"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "program", "slug", "new"),
    [
        ("kept", zoo("losses_in_a_list"), "graph-kept", "    history.append(loss.detach())"),
        ("total", TOTAL, "graph-kept", "    total += loss.detach()  # for the log"),
        (
            "cleared",
            zoo("zero_grad_without_parentheses"),
            "gradients-add-up",
            "    optimizer.zero_grad()",
        ),
        (
            "again",
            zoo("dropout_in_a_recompute"),
            "recompute-differs",
            "            x = checkpoint(block, x, use_reentrant=False)",
        ),
    ],
)
def test_what_is_written_takes_the_finding_out_of_the_next_trace(
    run: Line, tmp_path: Path, name: str, program: str, slug: str, new: str
) -> None:
    trace = recorded(tmp_path, name, program)
    script = tmp_path / f"{name}.py"
    script.chmod(0o750)
    assert slug in rules(trace)

    shown = run("inspect", "--fix", trace, "--select", slug)
    assert script.read_text(encoding="utf-8") == program
    assert f"--- {name}.py\n+++ {name}.py\n@@ " in shown.out
    assert ": safe" in shown.out
    assert shown.code == 1

    written = run("inspect", "--fix", "--apply", trace, "--select", slug)
    now = script.read_text(encoding="utf-8")
    assert f"wrote {name}.py:" in written.out
    assert written.code == 0
    changed = [
        line for line, old in zip(now.split("\n"), program.split("\n"), strict=True) if line != old
    ]
    assert changed == [new]
    assert stat.S_IMODE(script.stat().st_mode) == 0o750
    assert sorted(each.name for each in tmp_path.iterdir() if each.suffix == ".py") == [script.name]

    trace.unlink()
    assert slug not in rules(recorded(tmp_path, name, now))


def test_a_mode_that_nothing_sets_back_is_not_written(run: Line, tmp_path: Path) -> None:
    """`model.eval()` alone would leave dropout off in the training that follows."""
    program = zoo("mode_of_the_outermost_only")
    trace = recorded(tmp_path, "mode", program)

    ran = run("inspect", "--fix", "--apply", trace)

    assert "(GS707 no-effect): not safe: the mode of all modules inside stays" in ran.out
    assert trace.with_suffix(".py").read_text(encoding="utf-8") == program


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The trace of a program that keeps graphs, in the folder of the program."""
    return recorded(tmp_path, "total", TOTAL)


def test_a_file_that_has_changed_is_left_alone(run: Line, kept: Path) -> None:
    script = kept.with_suffix(".py")
    changed = script.read_text(encoding="utf-8").replace("lr=0.1", "lr=0.2")
    script.write_text(changed, encoding="utf-8")

    for options in ([], ["--apply"]):
        ran = run("inspect", "--fix", *options, kept)
        assert "total.py has changed since the recording" in ran.out
        assert "+++" not in ran.out
        assert ran.code == 1
    assert script.read_text(encoding="utf-8") == changed


def test_a_file_that_changes_while_it_is_fixed_is_not_overwritten(kept: Path) -> None:
    trace, script = load(kept), kept.with_suffix(".py")
    (fix,) = fixes(trace, inspect(trace).findings)
    assert not fix.left
    script.write_text("# another\n", encoding="utf-8")

    with pytest.raises(UsageError, match="has changed meanwhile; nothing was written"):
        write_fixes(fix.file, [fix])

    assert script.read_text(encoding="utf-8") == "# another\n"
    assert [*kept.parent.glob(".total.py*")] == []


def test_a_file_of_an_installed_package_is_left_alone(run: Line, tmp_path: Path) -> None:
    """A link in the folder of the program leads to it."""
    installed = tmp_path / "lib" / "site-packages"
    installed.mkdir(parents=True)
    kept = recorded(tmp_path, "total", TOTAL)
    script = kept.with_suffix(".py")
    script.rename(installed / "total.py")
    script.symlink_to(installed / "total.py")

    ran = run("inspect", "--fix", "--apply", kept)

    assert "left total.py:12 (GS601 graph-kept): total.py belongs to an installed pack" in ran.out
    assert script.read_text(encoding="utf-8") == TOTAL


def test_line_ends_stay(run: Line, kept: Path) -> None:
    script = kept.with_suffix(".py")
    script.write_bytes(TOTAL.replace("\n", "\r\n").encode())

    run("inspect", "--fix", "--apply", kept)

    fixed = TOTAL.replace("+= loss", "+= loss.detach()")
    assert script.read_bytes() == fixed.replace("\n", "\r\n").encode()


@pytest.mark.parametrize(
    "after",
    ["torch.stack(losses).sum().backward()", "torch.autograd.grad(loss, model.weight)"],
)
def test_what_a_loss_may_use_is_not_safe_to_detach(run: Line, tmp_path: Path, after: str) -> None:
    program = IN_A_LOOP.format(
        before="losses = []", line="losses.append(loss)", after=f"if not losses:\n    {after}"
    )
    kept = recorded(tmp_path, "total", program)

    ran = run("inspect", "--fix", "--apply", kept)

    assert "(GS601 graph-kept): not safe: a loss may use what is stored, or it is" in ran.out
    assert kept.with_suffix(".py").read_text(encoding="utf-8") == program


def test_a_dict_of_tensors_is_not_safe_to_detach(run: Line, tmp_path: Path) -> None:
    program = IN_A_LOOP.format(
        before="history = []", line="out = {'loss': loss}; history.append(out)", after=""
    )
    kept = recorded(tmp_path, "total", program.replace("; ", "\n    "))

    ran = run("inspect", "--fix", "--apply", kept)

    assert "(GS601 graph-kept): not safe: " in ran.out
    assert "loss.detach()" not in kept.with_suffix(".py").read_text(encoding="utf-8")


def test_a_fix_that_changes_more_than_the_fault_is_shown_and_left(
    run: Line, tmp_path: Path
) -> None:
    program = zoo("softmax_then_cross_entropy")
    trace = recorded(tmp_path, "softmax", program)

    shown = run("inspect", "--fix", trace)
    left = run("inspect", "--fix", "--apply", trace)
    (found,) = json.loads(run("inspect", "--json", trace, "--select", "GS701").out)["findings"]

    assert "+++ softmax.py" in shown.out
    assert "(GS701 double-softmax): not safe: the result may also be used elsewhere" in left.out
    assert "0 of 1 fix written" in left.out
    assert left.code == 1
    assert trace.with_suffix(".py").read_text(encoding="utf-8") == program
    assert found["rewrite"]["unsafe"].startswith("the result may also be used")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--apply"], "add --fix"),
        (["--fix", "--json"], "--fix shows findings as text"),
        (["--fix", "--node", "0"], "--fix shows findings as text"),
    ],
)
def test_options_that_cannot_be_combined(run: Line, options: list[str], said: str) -> None:
    ran = run("inspect", "mean.json", *options)

    assert ran.code == 2
    assert said in ran.err


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_an_error(run: Line, kept: Path) -> None:
    kept.parent.chmod(0o500)
    try:
        ran = run("inspect", "--fix", "--apply", kept)
    finally:
        kept.parent.chmod(0o700)

    assert ran.code == 2
    assert "cannot write" in ran.err


def test_a_file_that_cannot_be_written_does_not_hide_what_was_written(
    run: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "helper.py").write_text(TOTAL, encoding="utf-8")
    cleared = zoo("zero_grad_without_parentheses")
    trace = recorded(tmp_path, "both", f"import helper\n{cleared}")

    def refused(file: FileNow, several: list[Fix]) -> None:
        if file.path.name == "helper.py":
            raise UsageError("cannot write helper.py: Read-only file system")
        write_fixes(file, several)

    monkeypatch.setattr(fixing, "write_fixes", refused)
    ran = run("inspect", "--fix", "--apply", trace)

    assert ran.code == 2
    assert "+    optimizer.zero_grad()" in ran.out
    assert "cannot write helper.py: Read-only file system" in ran.out
    assert ran.err.count("cannot write helper.py") == 1
    assert (tmp_path / "helper.py").read_text(encoding="utf-8") == TOTAL
    assert "optimizer.zero_grad()" in (tmp_path / "both.py").read_text(encoding="utf-8")
