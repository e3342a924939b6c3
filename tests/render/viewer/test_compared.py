"""Two traces in one page, as a person meets them in Chromium."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gradscope.trace.schema import NONE
from tests.analysis.likeness.test_calls import with_calls
from tests.render.viewer.settled import settle
from tests.shared.chains import chain

pytestmark = pytest.mark.browser

Opens = Callable[..., Any]


def test_what_is_new_gone_and_slower_is_listed_and_leads_to_its_node(opened: Opens) -> None:
    earlier = chain(Sin=20_000, Mul=70_000, Exp=50_000)
    page = opened(chain(Mul=70_000, Log=30_000, Exp=200_000), earlier=earlier)

    said = page.inner_text("#compared-panel")
    assert page.title() == "old.json → new.json · gradscope"
    assert "Total time of nodes: 140 µs → 300 µs, ×2.1" in said
    assert "ExpBackward0 50.0 µs → 200 µs, ×4.0" in said
    assert "+ 1 node that only new.json has\nLogBackward0" in said
    assert "− 1 node that only old.json has\nSinBackward0" in said
    assert "First difference\nstructure: a node that only the" in said
    page.get_by_role("button", name="LogBackward0", exact=True).first.click()
    settle(page)
    assert "+ new: old.json has no such node" in page.inner_text("#details")
    assert page.evaluate("gradscope.picture.all.map(box => gradscope.changed.signs(box))") == [
        ["−"],
        ["+"],
        [],
    ]


def test_the_forward_graph_is_compared_too(opened: Opens) -> None:
    earlier = with_calls(chain(Sin=1, Mul=1), ("sin", 0, "s"), ("mul", 1, "m"))
    later = chain(Mul=1, Log=1)
    later = with_calls(later, ("rand", NONE, "r"), ("mul", 0, "m"), ("log", 1, "l"))
    page = opened(later, earlier=earlier)

    said = page.inner_text("#compared-panel")
    assert "+ 1 call without a node that only new.json has\nrand" in said
    assert "− 1 call that only old.json has\nsin" in said
    page.get_by_role("button", name="rand", exact=True).click()
    settle(page)
    assert "+ new: old.json has no such call" in page.inner_text("#details")
    forward = "gradscope.graphs.forward"
    signs = (
        f"{forward}.picture.all.map(box => "
        f"[{forward}.model.title(box.node), ...{forward}.changed.signs(box)])"
    )
    assert sorted(page.evaluate(signs)) == [["log", "+"], ["mul", "−"], ["rand", "+"]]


def test_the_colours_can_tell_what_became_slower(opened: Opens) -> None:
    page = opened(chain(Mul=9_000, Exp=8_000), earlier=chain(Mul=2_000, Exp=9_000))

    page.locator("#coloring").select_option("slower")
    more = page.evaluate("gradscope.picture.all.map(box => gradscope.changed.moreOf(box))")
    assert more == [7_000, -1_000]
    settle(page)
    legend = page.inner_text("#legend").splitlines()
    assert legend[0] == "slower than in old.json by"
    assert legend[1:6] == ["≤ 280 ns", "≤ 1.12 µs", "≤ 2.52 µs", "≤ 4.48 µs", "≤ 7.00 µs"]
    page.locator("#coloring").select_option("time")
    settle(page)
    assert page.inner_text("#legend").startswith("time, including folded nodes\n≤ 360 ns")
    page = opened(chain(Mul=9_000, Log=90_000), earlier=chain(Mul=2_000))
    assert page.evaluate("gradscope.picture.all.map(box => gradscope.changed.moreOf(box))") == [
        7_000,
        0,
    ]
    assert opened(chain(Mul=9)).locator("#coloring option").all_inner_texts() == [
        "kind",
        "time",
        "structure",
    ]
