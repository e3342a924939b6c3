"""The other package of the name on PyPI is noticed, and only that."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradscope.commands.options import other_package
from tests.cli.conftest import Line


def install(folder: Path, *files: str) -> None:
    record = folder / "gradscope-0.1.0.dist-info" / "RECORD"
    record.parent.mkdir()
    record.write_text("".join(f"{file},,\n" for file in files))


def test_the_other_package_is_named_with_what_to_do(
    tmp_path: Path, run: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "gradscope/__init__.py", "gradscope/alerts.py")
    monkeypatch.setattr("sys.path", [str(tmp_path)])

    ran = run("--version")

    assert ran.code == 0
    assert ran.err.startswith("gradscope: warning: another package named gradscope (0.1.0,")
    assert "pip uninstall gradscope gradscope-trace" in ran.err


def test_an_older_installation_of_this_package_is_not_it(tmp_path: Path) -> None:
    install(tmp_path, "gradscope/__init__.py", "gradscope/errors.py")

    assert other_package.warning([str(tmp_path), str(tmp_path / "none"), ""]) == ""
