"""A command line in an empty folder with a few traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradscope import cli
from gradscope.trace.load_save import save
from tests.shared.example_traces import mean_of_squares, nan_in_backward, two_layers


class Ran:
    """What a command left behind."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


class Line:
    """A command line, run in this process, in an empty directory."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str | Path) -> Ran:
        with pytest.raises(SystemExit) as left:
            cli.main([str(each) for each in arguments])
        captured = self._capsys.readouterr()
        return Ran(int(left.value.code or 0), captured.out, captured.err)


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Line:
    monkeypatch.chdir(tmp_path)
    save(mean_of_squares(), "mean.json")
    save(nan_in_backward(), "nan.json")
    save(two_layers(steps=3), "train.json")
    return Line(capsys)
