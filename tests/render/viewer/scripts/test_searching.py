"""The search of the page: what is found, in which order, and where a hit leads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gradscope.trace.schema import Edge, Frame, GraphTask, Module, Node, NodeBegin, NodeEnd, Stack
from gradscope.trace.trace import Trace
from tests.render.viewer.settled import settle
from tests.shared.browsing import check_accessible, needs_axe
from tests.shared.by_hand import trace_of
from tests.shared.example_traces import nan_in_backward

pytestmark = pytest.mark.browser

Opens = Callable[..., Any]


def attending() -> Trace:
    """A module `attention` with a projection; a line whose text contains "attn"."""
    return trace_of(
        Frame(0, "net.py", 5, "Net.forward", "x = self.attn_in(x)"),
        Frame(1, "net.py", 6, "Net.forward", "x = self.attention(x)"),
        Stack(0, 0),
        Stack(1, 1),
        Module(0, "attention", "Attention"),
        Module(1, "attention.proj", "Linear"),
        Module(2, "fc", "Linear"),
        Node(0, "MulBackward0", module=2, stack=0),
        Node(1, "SoftmaxBackward0", module=0, stack=1),
        Node(2, "AddmmBackward0", module=1, stack=1),
        Edge(2, 0, 1),
        Edge(1, 0, 0),
        GraphTask(0, roots=(2,), begin=10, end=50),
        *(
            row
            for at, node in enumerate((2, 1, 0))
            for row in (
                NodeBegin(2 * at, t=12 + 10 * at, node=node, task=0),
                NodeEnd(2 * at + 1, t=18 + 10 * at, node=node, task=0),
            )
        ),
    )


def look_for(page: Any, term: str) -> list[tuple[str, str]]:
    """The hits, each with what it is."""
    page.locator("#search").fill(term)
    settle(page)
    items = page.locator("#found .hit")
    return [
        (
            items.nth(at).locator(".to-graph").inner_text(),
            items.nth(at).locator(".kind").inner_text(),
        )
        for at in range(items.count())
    ]


def test_an_abbreviation_finds_names_before_source_lines(opened: Opens) -> None:
    page = opened(attending())

    assert look_for(page, "attn") == [
        ("attention", "module"),
        ("attention.proj", "module"),
        ("x = self.attn_in(x)", "line · net.py:5"),
    ]


def test_better_matches_come_first(opened: Opens) -> None:
    page = opened(attending())

    assert look_for(page, "attention")[:2] == [
        ("attention", "module"),
        ("attention.proj", "module"),
    ]
    assert look_for(page, "proj")[0] == ("attention.proj", "module")
    assert look_for(page, "net.py:6") == [("x = self.attention(x)", "line · net.py:6")]


def test_a_regular_expression_is_written_between_slashes(opened: Opens) -> None:
    page = opened(attending())

    assert look_for(page, "/^(soft|add).*0$/") == [
        ("SoftmaxBackward0", "node"),
        ("AddmmBackward0", "node"),
    ]
    assert look_for(page, "/(/") == []
    assert page.inner_text("#hits") == "not a regular expression: ("


def test_a_hit_leads_to_the_graph_the_timeline_and_the_source(opened: Opens) -> None:
    page = opened(attending())
    look_for(page, "softmax")

    page.click("#found .to-graph")
    settle(page)
    node = page.evaluate("window.gradscope.node")
    assert page.evaluate(f"window.gradscope.model.unique({node})") == "SoftmaxBackward0"
    assert page.locator("#found").is_hidden()
    page.locator("#search").focus()
    page.locator("#found .way").first.click()
    settle(page)
    begun = page.evaluate(
        f"window.gradscope.model.runs.get('begun')[window.gradscope.runOf({node})]"
    )
    assert page.evaluate("window.gradscope.event") == begun
    page.locator("#search").focus()
    page.locator("#found .way").last.click()
    settle(page)
    assert page.locator("#details .source .here").first.is_visible()


def test_findings_are_found_by_their_rule(opened: Opens) -> None:
    page = opened(nan_in_backward())

    hits = look_for(page, "gs201")
    assert hits[0][0] == "GS201 non-finite-birth"
    assert hits[0][1].startswith("finding")


def test_arrows_walk_through_the_hits(opened: Opens) -> None:
    page = opened(attending())
    look_for(page, "attention")

    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.textContent") == "attention.proj"
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    settle(page)
    group = page.evaluate("window.gradscope.group")
    assert page.evaluate(f"window.gradscope.tree.title({group})").startswith("attention")


@needs_axe
def test_the_list_of_hits_is_accessible(opened: Opens) -> None:
    page = opened(attending())
    look_for(page, "a")

    check_accessible(page)
