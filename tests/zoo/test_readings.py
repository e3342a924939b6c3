"""Public files are searched as if their lines had run, and copies of a file once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.zoo.readings import main

TEXT = """\
import torch
class Net(torch.nn.Module):
    pass
def train(net, h):
    h.detach()
"""


def test_findings_are_printed_with_their_lines_and_counted_by_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in (("a.py", TEXT), ("copy.py", TEXT), ("b.py", TEXT[:60]), ("c.py", "x.step")):
        (tmp_path / name).write_text(text)

    main([tmp_path])

    first, *rest = capsys.readouterr().out.splitlines()
    assert first == f"{tmp_path / 'a.py'}:5: no-effect: h.detach()"
    assert rest == [
        "no-effect: in 1 of 2 files",
        "mixed-up-elements: in 0 of 2 files",
        "averaged-the-wrong-way: in 0 of 2 files",
        "transfer-not-waited: in 0 of 2 files",
    ]
