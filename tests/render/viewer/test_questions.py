"""What a stranger asks of the page: where a module's gradient comes from, who called this line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gradscope.trace.schema import Edge, Frame, GraphTask, Module, Node, Stack, Tensor
from gradscope.trace.trace import Trace
from tests.render.viewer.settled import settle
from tests.shared.by_hand import trace_of

pytestmark = pytest.mark.browser

Opens = Callable[..., Any]
MODULES = ("", "layer2", "layer3", "layer3.conv", "head", "head.layer3")
LINES = 9


def layers() -> Trace:
    """layer2 → layer3 (its conv has a weight) → two nodes of the head, one in head.layer3."""
    module = {path: id for id, path in enumerate(MODULES)}
    frames = [Frame(n, "net.py", 10 * n + 10, "", f"line {n}") for n in range(LINES)]
    stacks = [Stack(n, n, parent=n + 1 if n + 1 < LINES else -1) for n in range(LINES)]
    made = ["layer2", "layer3.conv", "layer3", "head", "head.layer3", ""]
    names = ["Relu", "Convolution", "Relu", "Mul", "Exp", "Add"]
    return trace_of(
        *(Module(id, path, "Block") for path, id in module.items()),
        *frames,
        *stacks,
        Tensor(50, (4,), dtype="float32", leaf=True, requires_grad=True, name="layer3.conv.weight"),
        Node(90, "AccumulateGrad", inputs=(50,)),
        *(
            Node(id, f"{name}Backward0", module=module[path], stack=id)
            for id, (name, path) in enumerate(zip(names, made, strict=True))
        ),
        Edge(5, 0, 3), Edge(5, 1, 4), Edge(4, 0, 2), Edge(3, 0, 2), Edge(2, 0, 1),
        Edge(1, 0, 0), Edge(1, 1, 90), Edge(0, 0, -1),
        GraphTask(0, roots=(5,), begin=0, end=9),
    )  # fmt: skip


def said(page: Any) -> str:
    settle(page)
    return " ".join(page.inner_text("#details").split())


def search(page: Any, words: str) -> str:
    page.keyboard.press("/")
    page.locator("#search").fill(words)
    page.keyboard.press("Enter")
    settle(page)
    return str(page.inner_text("#hits"))


def test_a_search_leads_to_the_module_of_that_path_before_all_else(opened: Opens) -> None:
    page = opened(layers())

    assert search(page, "layer3").endswith(": module layer3")
    found = []
    for _ in range(3):
        page.keyboard.press("Enter")
        found.append(page.inner_text("#hits").partition(": ")[2])
    assert found[:2] == ["module head.layer3", "module layer3.conv"]
    assert not found[2].startswith("module")


def test_a_module_says_where_its_gradient_comes_from_and_that_it_is_a_sum(opened: Opens) -> None:
    page = opened(layers())
    search(page, "layer3")

    text = said(page)
    assert "Where its gradient comes from: 2 gradients" in text
    assert (
        "ReluBackward0#2 of layer3 net.py:30 receives the sum of 2 gradients from "
        "ExpBackward0 of head.layer3 net.py:50 MulBackward0 of head net.py:40"
    ) in text
    assert (
        "layer3.conv.weight receives it from ConvolutionBackward0 output 1 of layer3.conv net.py:20"
        in text
    )

    page.locator("#details").get_by_role("button", name="head.layer3").first.click()
    assert "head.layer3" in said(page).split(" · ")[0]
    search(page, "layer3.conv.weight")
    text = said(page)
    assert "comes from: 1 gradient from ConvolutionBackward0 output 1 of layer3.conv" in text
    page.locator("#details").get_by_role("button", name="net.py:20").click()
    assert said(page).startswith("ConvolutionBackward0")


def test_the_lines_a_call_came_through_open_to_the_last(opened: Opens) -> None:
    page = opened(layers())
    search(page, "layer2")
    search(page, "relubackward0#1")

    more = page.get_by_role("button", name="⋯ called from 3 more lines")
    assert "line 8" not in said(page)
    more.click()
    assert [f"line {n}" in said(page) for n in (6, 7, 8)] == [True] * 3
    assert more.count() == 0
