"""The first view of the page, and its tab about memory, in Chromium."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradscope.analysis.graph.memory import held, periods
from gradscope.trace.schema import NONE, Frame, GraphTask, Module, Node, Saved, Stack, Step
from gradscope.trace.trace import Trace
from tests.render.viewer.settled import settle
from tests.shared.browsing import check_accessible, needs_axe
from tests.shared.by_hand import trace_of
from tests.shared.example_traces import mean_of_squares, nan_in_backward

pytestmark = pytest.mark.browser

Opens = Callable[..., Any]


def app(page: Any, expression: str) -> Any:
    settle(page)
    return page.evaluate(f"(() => {{ const app = window.gradscope; return {expression}; }})()")


def saving() -> Trace:
    """Two modules and a call outside of them, which save for a backward; one is never released."""
    return trace_of(
        Frame(0, "net.py", 3, "Net.forward", "h = self.fc1(x)"),
        Frame(1, "net.py", 8, "<module>", "loss = h.sum()"),
        Stack(0, 0),
        Stack(1, 1),
        Module(0, "fc1", "Linear"),
        Module(1, "fc2", "Linear"),
        Node(0, "AddmmBackward0", module=0, stack=0, t=1),
        Node(1, "AddmmBackward0", module=1, stack=0, t=2),
        Node(2, "SumBackward0", stack=1, t=3),
        Saved(0, 0, "mat1", bytes=4096, t=1, released=9),
        Saved(1, 1, "mat1", bytes=2048, t=2, released=8),
        Saved(2, 2, "self", bytes=1024, t=3),
        Step(0, 0, begin=0, end=10),
        GraphTask(0, roots=(2,), step=0, begin=7, end=10),
    )


def test_it_opens_at_the_finding_with_its_mark_in_sight(opened: Opens) -> None:
    page = opened(nan_in_backward())

    node = app(page, "app.node")
    assert node >= 0
    assert app(page, f"app.model.wrong[{node}]") == 1
    place = app(page, f"(({{x, y, w, h}}) => [x, y, w, h])(app.picture.boxFor({node}))")
    x, y, k, width, height = app(
        page, "[app.view.x, app.view.y, app.view.k, app.view.width, app.view.height]"
    )
    left, top = place[0] * k + x, place[1] * k + y
    assert left >= 0
    assert left + place[2] * k <= width
    assert top >= 0
    assert top + place[3] * k <= height
    assert k * 13 >= 7  # the title is legible
    assert "GS201" in page.inner_text("#summary-panel")
    assert "GS201" in page.inner_text("#details")


def test_the_summary_leads_to_findings_memory_and_times(opened: Opens) -> None:
    page = opened(nan_in_backward())

    page.click("#summary-panel .worst .link")
    assert app(page, "app.event") == app(page, "app.model.runs.get('begun')[app.runOf(app.node)]")
    page.click("text=1 finding with reasons and fixes")
    assert page.is_visible("#findings-panel")
    page.click("#tab-summary")
    assert not page.is_visible("#summary-panel details li")
    page.click("#summary-panel summary")
    assert page.is_visible("#summary-panel details li")


def test_a_healthy_trace_says_so_first(opened: Opens) -> None:
    page = opened(mean_of_squares())

    assert "no problems found" in page.inner_text("#summary-panel h2")
    assert app(page, "app.node") == -1


def test_the_page_holds_the_periods_of_the_analysis(opened: Opens) -> None:
    trace = saving()
    page = opened(trace)
    found = periods(held(trace))

    columns = page.evaluate(
        """() => ['begin', 'end', 'bytes'].map(
        name => [...window.gradscope.model.tables.holdings.get(name)])"""
    )
    start = int(np.min(trace.table(Node)["t"]))
    ends = [end if end == NONE else end - start for end in found.end.tolist()]
    assert columns == [(found.begin - start).tolist(), ends, found.bytes.tolist()]


def test_memory_by_module_and_by_line(opened: Opens) -> None:
    page = opened(saving())
    page.click("#tab-memory")

    rows = page.locator("#memory-panel h2 + ul li")
    assert [rows.nth(at).inner_text().split("\n")[0] for at in range(3)] == [
        "fc1",
        "fc2",
        "outside of modules",
    ]
    assert "7.00 KiB at the peak" in page.inner_text("#memory-panel")
    page.select_option("#memory-panel select", "line")
    settle(page)
    assert "net.py:3" in rows.nth(0).inner_text()
    assert "86%" in rows.nth(0).inner_text()
    assert "1.00 KiB still held at the end" in page.inner_text("#memory-panel")
    page.click("#memory-panel >> text=SumBackward0")
    assert app(page, "app.model.title(app.node)") == "SumBackward0"


@needs_axe
@pytest.mark.parametrize("dark", [False, True])
def test_summary_and_memory_are_accessible(opened: Opens, *, dark: bool) -> None:
    page = opened(saving(), dark=dark)
    check_accessible(page)
    page.click("#tab-memory")
    settle(page)
    check_accessible(page)
