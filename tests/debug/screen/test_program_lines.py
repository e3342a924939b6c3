"""The program's lines: of its file, where that still says what was recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradscope.debug.screen.program_lines import LARGEST, ProgramLines
from gradscope.trace.schema import Frame, Stack
from tests.shared.by_hand import trace_of

TEXT = "import torch\n\nx = torch.ones(3)\ny = x * 2\ny.sum()\n"


def shown(folder: Path, file: str = "train.py") -> list[str]:
    frames = [Frame(0, file, 4, "main", "y = x * 2"), Frame(1, file, 9, "<module>", "main()")]
    trace = trace_of(*frames, Stack(0, 0, 1), Stack(1, 1), meta={"cwd": str(folder)})
    return [each.sign + each.text for each in ProgramLines(trace).of("at", trace.frames(0), 1)]


def test_lines_around_it_are_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TEXT)

    assert shown(tmp_path) == [
        "at train.py:4 in main",
        "  3  x = torch.ones(3)",
        "> 4  y = x * 2",
        "  5  y.sum()",
        "from train.py:9 in <module>: main()",
    ]


@pytest.mark.parametrize(
    ("text", "why"), [(TEXT.replace("* 2", "* 3"), "the file has changed"), ("", "does not exist")]
)
def test_else_they_are_what_was_recorded(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "train.py").write_text(text)
    first, *others = shown(tmp_path)

    assert why in first
    assert others == ["> 4  y = x * 2", "from train.py:9 in <module>: main()"]


def test_no_device_and_nothing_huge_is_read(tmp_path: Path) -> None:
    (tmp_path / "huge.py").write_text(TEXT + " " * LARGEST)

    for file in ("/dev/zero", str(tmp_path), "a\0b", "huge.py"):
        assert "the file does not exist" in shown(tmp_path, file)[0]
