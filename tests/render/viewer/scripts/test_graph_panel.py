"""The graph of the page: folded boxes, the card of facts, shapes, and what can be taken along."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradscope.trace.load_save import load, save
from gradscope.trace.schema import (
    Edge,
    Frame,
    GraphTask,
    Module,
    Node,
    NodeBegin,
    NodeEnd,
    Saved,
    Stack,
    Tensor,
)
from gradscope.trace.trace import Trace
from tests.render.viewer.settled import settle, wait_until
from tests.render.viewer.test_in_browser import box_at
from tests.shared.browsing import check_accessible, needs_axe
from tests.shared.by_hand import trace_of

pytestmark = pytest.mark.browser

Opens = Callable[..., Any]
RUNNING, DONE, WAITING = 3, 4, 1


def modules() -> Trace:
    """A linear layer of two nodes, of which a matrix product takes most of the time."""
    return trace_of(
        Frame(0, "net.py", 4, "Net.forward", "x = self.fc(x)"),
        Stack(0, 0),
        Module(0, "fc", "Linear"),
        Tensor(0, shape=(8, 3), dtype="float32"),
        Node(0, "TBackward0", module=0, stack=0, inputs=(0,)),
        Node(1, "AddmmBackward0", module=0, stack=0, inputs=(0,)),
        Node(2, "SumBackward0", stack=0, inputs=(0,)),
        Edge(2, 0, 1),
        Edge(1, 0, 0),
        Saved(0, 1, "mat1", bytes=96, t=1, released=40),
        GraphTask(0, roots=(2,), begin=10, end=90),
        NodeBegin(0, t=12, node=2, task=0),
        NodeEnd(1, t=14, node=2, task=0),
        NodeBegin(2, t=20, node=1, task=0),
        NodeEnd(3, t=60, node=1, task=0),
        NodeBegin(4, t=70, node=0, task=0),
        NodeEnd(5, t=72, node=0, task=0),
    )


def evaluated(page: Any, expression: str) -> Any:
    settle(page)
    return page.evaluate(f"(() => {{ const app = window.gradscope; return {expression}; }})()")


def folded(page: Any) -> int:
    """Fold everything; the group of `fc`."""
    evaluated(page, "app.foldAll()")
    if evaluated(page, "app.open.size") > 1:
        evaluated(page, "app.foldAll()")
    return int(
        evaluated(page, "[...app.picture.boxes.values()].find(box => box.is === 'group').group")
    )


def test_a_folded_box_has_the_kind_that_took_most_time(opened: Opens) -> None:
    page = opened(modules())
    group = folded(page)

    kind = evaluated(page, f"app.model.facts.kinds[app.tree.mainKind[{group}]]")
    assert kind == "matrix product"


def test_a_folded_box_waits_runs_and_is_done(opened: Opens) -> None:
    page = opened(modules())
    group = folded(page)

    states = []
    for event in range(6):
        evaluated(page, f"app.go({event})")
        states.append(
            evaluated(page, f"app.states.together(app.states.counts(app.tree.nodesUnder({group})))")
        )
    assert states == [WAITING, WAITING, RUNNING, RUNNING, RUNNING, DONE]


def test_the_card_says_shape_time_and_saved_bytes(opened: Opens) -> None:
    page = opened(modules())
    evaluated(page, "app.unfold(1)")

    page.mouse.move(*box_at(page, "n1"))
    settle(page)
    card = page.inner_text(".hover-card")
    assert card.startswith("AddmmBackward0")
    for said in ("[8, 3] float32", "40 ns, 2nd", "96 bytes in 1 tensor", "net.py:4 x = self.fc(x)"):
        assert said in card
    group = folded(page)
    page.mouse.move(2, 2)
    assert page.locator(".hover-card").is_hidden()
    page.mouse.move(*box_at(page, f"g{group}"))
    settle(page)
    card = page.inner_text(".hover-card")
    assert card.startswith("fc")
    assert "96 bytes" in card


def test_shapes_on_arrows_come_on_demand(opened: Opens) -> None:
    page = opened(modules())
    pixels = "document.getElementById('graph').toDataURL()"
    before = evaluated(page, pixels)

    page.keyboard.press("e")
    assert page.get_attribute("#shapes", "aria-pressed") == "true"
    assert evaluated(page, pixels) != before
    page.click("#shapes")
    assert evaluated(page, pixels) == before


def test_the_picture_the_link_and_the_command_can_be_taken_along(
    opened: Opens, tmp_path: Path
) -> None:
    save(modules(), tmp_path / "my run.json")
    page = opened(load(tmp_path / "my run.json"))
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    evaluated(page, "app.selectNode(1)")

    page.click("#copy-command")
    assert "copied" in page.inner_text("#said")
    assert page.evaluate("navigator.clipboard.readText()") == (
        "gradscope render -o picture.svg --around AddmmBackward0 'my run.json'"
    )
    page.wait_for_timeout(300)  # the address is written after a moment
    page.click("#copy-link")
    wait_until(page, "document.getElementById('said').textContent === 'link copied'")
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    assert "n=AddmmBackward0" in page.url
    with page.expect_download() as download:
        page.click("#save-picture")
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")


def test_the_panes_can_be_resized_by_keys_and_by_hand(opened: Opens) -> None:
    page = opened(modules())
    width = page.evaluate("document.getElementById('left').offsetWidth")

    page.locator("#split-left").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.getElementById('left').offsetWidth") == width + 24
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.getElementById('left').offsetWidth") == width - 24
    right = page.evaluate("document.getElementById('right').offsetWidth")
    box = page.locator("#split-right").bounding_box()
    page.mouse.move(box["x"] + 4, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] - 56, box["y"] + 50)
    page.mouse.up()
    assert page.evaluate("document.getElementById('right').offsetWidth") == right + 60
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert page.evaluate("document.getElementById('right').offsetWidth") == right + 60
    page.dblclick("#split-right")
    assert page.evaluate("document.getElementById('right').offsetWidth") == right


@needs_axe
@pytest.mark.parametrize("dark", [False, True])
def test_buttons_and_edges_are_accessible(opened: Opens, *, dark: bool) -> None:
    page = opened(modules(), dark=dark)
    page.keyboard.press("e")
    settle(page)

    check_accessible(page)
