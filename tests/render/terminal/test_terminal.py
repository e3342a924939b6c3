from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from gradscope.render.terminal.cells import UNICODE, line
from gradscope.render.terminal.terminal import Terminal
from gradscope.render.views.tables import table_lines
from gradscope.scene.table_scenes import TableColumn, TableScene

LINES = [
    line("plain"),
    line(("bold", "bold"), " ", ("red", "bold red"), " and ", ("#386cb0", "#386cb0")),
    line(""),
    Text.from_markup("[bold]one [red]in[/] another[/]"),  # drawn by Rich
    line("░ █", ("µ", "dim")),
]


@pytest.mark.parametrize("told", [{"FORCE_COLOR": "1"}, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, {}])
def test_lines_are_drawn_as_rich_draws_them(
    told: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    ours, theirs = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n") for _ in "ab")

    Terminal(ours, width=80).show(LINES)
    console = Console(file=theirs, width=80, highlight=False, markup=False, emoji=False)
    for each in LINES:
        console.print(each, soft_wrap=True)

    for file in (ours, theirs):
        file.seek(0)
    drawn = ours.read()
    assert drawn == theirs.read()
    assert ("\x1b[" in drawn) == bool(told)


def test_what_is_cut_keeps_the_number_of_a_node_and_the_end_of_a_path() -> None:
    assert UNICODE.fit_numbered("ConvolutionBackward0#18", 20) == "ConvolutionBackw…#18"
    assert UNICODE.fit_numbered("MulBackward0#2", 16) == "MulBackward0#2  "
    table = TableScene(
        "modules", (TableColumn("module", is_path=True),), (("net.h.1.attn.c_attn",),)
    )

    assert [each.plain for each in table_lines(table, 14, UNICODE)][2:] == ["  …attn.c_attn"]
