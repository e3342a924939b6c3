"""What IPython shows of a report, a trace and a recording; and how cells are called."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import gradscope
from gradscope.callbacks import notebooks
from gradscope.record.notes.sites import shown
from gradscope.trace.load_save import save
from tests.shared.example_traces import nan_in_backward

CELL = "/tmp/ipykernel_7/4711.py"


class Formatter:
    """As much of IPython's as is asked for."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], Callable[..., Any]] = {}

    def for_type_by_name(self, module: str, name: str, function: Callable[..., Any]) -> None:
        self.known[module, name] = function


class Printer:
    def __init__(self) -> None:
        self.said = ""

    def text(self, text: str) -> None:
        self.said += text


@pytest.fixture
def formatters(monkeypatch: pytest.MonkeyPatch) -> dict[str, Formatter]:
    made = {"text/html": Formatter(), "text/plain": Formatter()}
    shell = SimpleNamespace(
        display_formatter=SimpleNamespace(formatters=made),
        compile=SimpleNamespace(_filename_map={CELL: 3}),
    )
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    notebooks.register()
    return made


def displayed(formatters: dict[str, Formatter], value: object) -> tuple[str, str]:
    """As HTML and as text."""
    kind = type(value).__module__, type(value).__name__
    printer = Printer()
    formatters["text/plain"].known[kind](value, printer, False)
    return formatters["text/html"].known[kind](value), printer.said


def test_a_report_is_shown_as_inspect_shows_it(formatters: dict[str, Formatter]) -> None:
    html, text = displayed(formatters, gradscope.inspect(nan_in_backward()))

    assert text.startswith("nan.py · recorded by ")
    assert "GS201" in text
    assert html.startswith("<pre ")
    assert "GS201" in html
    assert "color: #" in html
    assert "\x1b" not in html + text


def test_a_trace_is_summed_up(formatters: dict[str, Formatter], tmp_path: Path) -> None:
    save(nan_in_backward(), tmp_path / "trace.json")

    html, text = displayed(formatters, gradscope.load(tmp_path / "trace.json"))

    assert "nodes" in text
    assert text.endswith("next: gradscope.inspect(trace), gradscope.show(trace)")
    assert "nodes" in html


def test_a_recording_says_where_it_goes_and_then_what_it_holds(
    formatters: dict[str, Formatter], tmp_path: Path
) -> None:
    import gradscope.runtime as torch

    with gradscope.record(tmp_path / "r.json", on="gradscope") as recording:
        torch.ones(2, requires_grad=True).sum().backward()
        during = displayed(formatters, recording)[1]
    after = displayed(formatters, recording)[1].splitlines()

    assert during == "recording to r.json at level engine"
    assert after[0].startswith("r.json: 1 step, 2 nodes, ")
    assert after[-1] == "next: gradscope view r.json; or inspect, render, debug"


@pytest.mark.usefixtures("formatters")
def test_a_cell_is_called_by_its_number() -> None:
    assert shown(CELL, "/home") == "In[3]"
    assert shown("/tmp/ipykernel_7/1.py", "/home") == "/tmp/ipykernel_7/1.py"
    assert shown("/home/train.py", "/home") == "train.py"
