"""Which engine `gradscope trace` records, and what it says of that."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradscope.errors import UsageError
from gradscope.record import engines
from gradscope.record.from_pytorch import installed
from tests.record.running import House, Ran

OWN = "gradscope: PyTorch is not installed here: recording the script on gradscope's own engine"


@pytest.fixture
def without_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "folder", lambda: None)


@pytest.fixture
def with_pytorch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise ImportError('it is not to be imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(installed, "version", lambda: "2.0")


def producer(name: str) -> object:
    return engines.named(name).facts("engine")["producer"]


@pytest.mark.usefixtures("without_pytorch")
def test_without_pytorch_auto_is_gradscopes_own_engine() -> None:
    assert producer("auto") == "gradscope.runtime"
    assert f"gradscope: {engines.choice('auto')}" == OWN
    with pytest.raises(UsageError, match="PyTorch, which is not installed here"):
        engines.named("torch")


@pytest.mark.usefixtures("with_pytorch")
def test_auto_is_the_pytorch_that_would_be_found_and_it_is_not_imported() -> None:
    assert [producer(name) for name in engines.NAMES] == ["pytorch", "pytorch", "gradscope.runtime"]
    assert engines.choice("auto") == "recording PyTorch 2.0"
    assert [engines.choice(name) for name in ("torch", "gradscope")] == ["", ""]


def test_a_folder_without_an_init_is_no_pytorch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`import torch` beside a folder of that name gives a namespace without tensors."""
    (tmp_path / "torch").mkdir()
    monkeypatch.setattr("sys.path", [str(tmp_path)])

    assert installed.folder() is None


def test_the_engine_that_auto_chose_is_said_first_and_the_script_comes_after(house: House) -> None:
    house.write("import sys\nprint('out')\nsys.stderr.write('err\\n')")

    ran = house.gradscope("trace", "--on", "auto", "script.py")
    quiet = house.gradscope("trace", "--on", "auto", "-q", "script.py")

    first, second, third, *_, last = ran.err.splitlines()
    assert (ran.code, ran.out, second) == (0, "out\n", "err")
    assert first == OWN or first.startswith("gradscope: recording PyTorch ")
    assert third.startswith("gradscope: trace.json: no autograd nodes")
    assert last.startswith("gradscope: next: gradscope inspect trace.json")
    assert quiet == Ran(0, "out\n", "err\n")
