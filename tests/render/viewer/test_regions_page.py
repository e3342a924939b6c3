"""Compiled regions in the page: a frame with operations that folds into one box."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gradscope.trace.schema import Op
from tests.render.viewer.settled import settle
from tests.render.viewer.test_forward_page import details, shown
from tests.render.viewer.test_in_browser import OVERLAPS, box_at
from tests.scene.graph.blocks.test_region_words import a_trace
from tests.shared.browsing import check_accessible, needs_axe

pytestmark = pytest.mark.browser

Opens = Callable[..., Any]
FRAME = "app.picture.frames.find(frame => frame.region >= 0)"
INSIDE = "app.picture.all.filter(box => box.is === 'inside').map(box => [box.title, ...box.lines])"
THRESHOLD = ["threshold_backward", "f32[2, 3]", "in cpp_fused_threshold_backward_0"]


def test_a_region_is_a_frame_with_what_the_compiler_reported(opened: Opens) -> None:
    page = opened(a_trace())

    assert shown(page, f"{FRAME}.title") == (
        "compiled region 0 · 1 operation in 1 kernel (inferred)"
    )
    assert shown(page, f"{FRAME}.more") == " · net.py:11"
    assert shown(page, INSIDE) == [THRESHOLD]
    assert shown(page, "app.picture.routes.map(({tail, head}) => [tail, head[0]])") == [
        ["n1", "l"],
        ["n1", "i"],
    ]
    assert shown(page, OVERLAPS) == []
    assert "dotted outline: inside a compiled region, inferred" in page.inner_text("#legend")


def test_a_double_click_and_enter_fold_and_open_it(opened: Opens) -> None:
    page = opened(a_trace())
    page.mouse.dblclick(*box_at(page, "n1"))  # the node in the frame
    assert shown(page, f"{FRAME} !== undefined")

    page.evaluate("gradscope.selectNode(1)")
    page.locator("#graph").focus()
    page.keyboard.press("Enter")
    assert shown(page, INSIDE) == []
    assert shown(page, "app.picture.isFolded(app.picture.boxFor(1))")
    assert shown(page, "app.node") == 1

    page.mouse.dblclick(*box_at(page, "n1"))
    assert shown(page, INSIDE) == [THRESHOLD]
    page.get_by_text("fold it (Enter)").click()
    assert shown(page, INSIDE) == []
    assert "open it (Enter)" in details(page)


def test_the_address_says_that_it_is_folded(opened: Opens) -> None:
    page = opened(a_trace())
    assert shown(page, "app.fragment") == ""
    assert shown(page, "[app.toggle(~1), app.fragment][1]") == "o=-~1"

    again = opened(a_trace(), "#o=-~1")
    assert shown(again, INSIDE) == []
    other = opened(a_trace(), "#o=~0.-~zz")  # of another trace: a leaf, and no node at all
    assert shown(other, "app.fragment") == ""


def test_an_operation_says_that_it_was_not_observed(opened: Opens) -> None:
    page = opened(a_trace())
    at = box_at(page, shown(page, "app.picture.all.find(box => box.is === 'inside').key"))
    page.mouse.move(*at)
    page.wait_for_selector(".hover-card:not([hidden])")

    card = page.inner_text(".hover-card")
    assert card.startswith("threshold_backward = threshold_backward")
    assert "net.py:11 h = relu(x @ w)" in card
    assert "not observed when the region ran" in card
    page.mouse.click(*at)
    assert shown(page, "app.node") == 1
    page.keyboard.press("ArrowDown")  # past what is inside
    assert shown(page, "app.model.isLeaf(app.node)")


def test_the_forward_graph_opens_the_other_part(opened: Opens) -> None:
    call = Op(0, "compiled_function", begin=0, end=1_000, outputs=(), node=2)
    page = opened(a_trace(call))
    page.locator("#graph").focus()
    page.keyboard.press("g")
    settle(page)

    assert shown(page, INSIDE) == [
        ["mm", "f32[2, 3]", "in extern_kernels.mm"],
        ["relu", "f32[2, 3]", "in cpp_fused_relu_0", "kept for backward"],
    ]
    assert shown(page, "app.picture.edges.map(({tail, head}) => [tail, head])") == [
        ["n0", "i0o0"],
        ["i0o0", "i0o1"],
    ]


@needs_axe
def test_it_is_accessible(opened: Opens) -> None:
    page = opened(a_trace())
    page.evaluate("gradscope.selectNode(1)")
    settle(page)
    check_accessible(page)
