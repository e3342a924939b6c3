"""What README and docs show as the output of commands is what these commands print."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[2]
sys.path.insert(0, str(HOUSE / "tools" / "docs"))

import sessions  # noqa: E402

from tests.record.running import needs_mpi  # noqa: E402

PAGES = [
    pytest.param(
        page,
        id=page.relative_to(HOUSE).as_posix(),
        marks=[
            *[pytest.mark.torch] * sessions.needs_pytorch(page.read_text(encoding="utf-8")),
            *[needs_mpi] * sessions.needs_mpi(page.read_text(encoding="utf-8")),
        ],
    )
    for page in sessions.pages()
]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_what_its_commands_print(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    assert sessions.rewritten(text) == text, f"{page} is old; run: make docs"


def test_the_readme_and_the_quickstart_have_sessions() -> None:
    shown = {page.relative_to(HOUSE).as_posix() for page in sessions.pages()}

    assert shown >= {"README.md", "docs/quickstart.md", "docs/how-to/share.md"}


def test_another_output_is_noticed_and_another_time_is_not(tmp_path: Path) -> None:
    page = (
        "```python\n# a.py\nprint('3 nodes in 5.2 ms')\n```\n\n```console\n$ python a.py\n{}\n```\n"
    )

    assert sessions.rewritten(page.format("3 nodes in 7 µs")) == page.format("3 nodes in 7 µs")
    assert sessions.rewritten(page.format("4 nodes in 7 µs")) == page.format("3 nodes in 5.2 ms")


def test_lines_that_a_page_leaves_out_are_left_out() -> None:
    code = "# a.py\nfor i in range(9): print(i)"
    page = f"```python\n{code}\n```\n\n```console\n$ python a.py\n{{}}\n```\n"

    assert sessions.rewritten(page.format("x\ny\n…\nz")) == page.format("0\n1\n…\n8")
