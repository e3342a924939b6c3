"""Two traces in one page, as a person meets them in Chromium."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from gradscope.analysis.timing.durations import node_runs
from gradscope.trace.schema import NONE
from tests.analysis.likeness.test_calls import with_calls
from tests.render.viewer.settled import settle
from tests.shared.browsing import check_accessible
from tests.shared.chains import chain, chain_in_steps
from tests.shared.example_traces import two_layers

pytestmark = pytest.mark.browser

Opens = Callable[..., Any]


def test_what_is_new_gone_and_slower_is_listed_and_leads_to_its_node(opened: Opens) -> None:
    earlier = chain(Sin=20_000, Mul=70_000, Exp=50_000)
    page = opened(chain(Mul=70_000, Log=30_000, Exp=200_000), earlier=earlier)

    said = page.inner_text("#compared-panel")
    assert page.title() == "old.json → new.json · gradscope"
    assert "Too few steps to compare times: 0 and 0 without the first" in said
    assert "Total time of nodes: 140 µs → 300 µs, ×2.1" in said
    assert "Largest differences in time\nExpBackward0 50.0 µs → 200 µs, ×4\n" in said
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


REPLACED = {"Mul": 7, "Tanh": 4, "Exp": 5, "Neg": 1}
BEFORE = {"Mul": 7, "Log": 3, "Sin": 2, "Exp": 5, "Cos": 6, "Neg": 1}


def test_the_page_opens_at_the_first_change_which_is_named_and_marked(opened: Opens) -> None:
    page = opened(chain(**REPLACED), earlier=chain(**BEFORE))

    said = page.inner_text("#compared-panel")
    assert said.startswith("new.json compared with old.json\n2 changes\n")
    assert "≠ Log, Sin → Tanh, net.py:2\n− x = x.log()\n+ x = x.tanh()" in said
    assert "Cos is gone, net.py:5" in said
    assert page.evaluate("gradscope.model.title(gradscope.node)") == "TanhBackward0"
    assert "≠ Log, Sin → Tanh, net.py:2" in page.inner_text("#details")
    assert "≠ changed, + new, − gone" in page.inner_text("#legend")
    signs = page.evaluate("gradscope.picture.all.map(box => gradscope.changed.signs(box))")
    assert sorted(signs) == [[], [], ["−"], ["≠"]]


def test_what_is_faster_is_said_with_its_spread_and_a_true_factor(opened: Opens) -> None:
    slow, fast = (20_000_000, *range(12_800_000, 12_800_005)), (9, *range(500_000, 500_005))
    alike = (9, 5_000, 9_000, 7_000, 6_000, 8_000)
    page = opened(
        chain_in_steps(Mul=fast, Exp=alike), earlier=chain_in_steps(Mul=slow, Exp=alike[::-1])
    )

    said = page.inner_text("#compared-panel")
    assert "Medians over the steps of each run: 5 and 5, without the first" in said
    assert "No node of backward is clearly slower than before." in said
    assert "MulBackward0#6 12.8 ms (12.8 ms to 12.8 ms) → 500 µs (500 µs to 500 µs), ×0.04" in said
    assert "ExpBackward0" not in said.partition("Faster")[2]


def test_both_graphs_stand_side_by_side_and_follow_each_other(opened: Opens) -> None:
    page = opened(chain(**REPLACED), earlier=chain(**BEFORE))
    assert not page.locator("#graph-before").count()

    page.get_by_label("Which of the two traces is drawn").select_option("both")
    settle(page)
    after, before = (page.locator(name).bounding_box() for name in ("#graph", "#graph-before"))
    assert before["x"] + before["width"] <= after["x"] + 1
    assert before["width"] > 300
    captions = page.locator(".caption").all_inner_texts()
    ended = "before: old.json, at its end; details are of the later run"
    assert captions == [ended, "after: new.json"]
    earlier = "gradscope.sides.before"
    title = f"{earlier}.model.title({earlier}.node)"
    assert page.evaluate(f"{earlier}.node") == -1  # nothing there is TanhBackward0
    page.evaluate("gradscope.selectNode(gradscope.model.titled('ExpBackward0'))")
    settle(page)
    assert page.evaluate(title) == "ExpBackward0"
    page.evaluate(f"{earlier}.selectNode({earlier}.model.titled('MulBackward0'))")
    settle(page)
    assert page.evaluate("gradscope.model.title(gradscope.node)") == "MulBackward0"
    signs = f"{earlier}.picture.all.map(b => [b.title, ...{earlier}.changed.signs(b)])"
    assert {name: signs for name, *signs in page.evaluate(signs)} == {
        "NegBackward0": [], "CosBackward0": ["−"], "ExpBackward0": [],
        "SinBackward0": ["≠"], "LogBackward0": ["≠"], "MulBackward0": [],
    }  # fmt: skip
    check_accessible(page)


def test_what_is_gone_leads_to_the_earlier_graph(opened: Opens) -> None:
    page = opened(chain(**REPLACED), earlier=chain(**BEFORE))

    page.get_by_role("button", name="Cos is gone, net.py:5").click()
    settle(page)
    assert page.locator("#sides").input_value() == "both"
    earlier = "gradscope.sides.before"
    assert page.evaluate(f"{earlier}.model.title({earlier}.node)") == "CosBackward0"
    page.wait_for_url(re.compile("s=both"))


def test_what_is_gone_is_drawn_over_the_later_graph(opened: Opens) -> None:
    page = opened(chain(**REPLACED), "#s=over", earlier=chain(**BEFORE))

    boxes = "gradscope.picture.all.filter(box => box.is === 'ghost').map(box => box.title)"
    assert sorted(page.evaluate(boxes)) == ["CosBackward0", "LogBackward0", "SinBackward0"]
    assert "dashed: gone since old.json" in page.locator(".caption").last.inner_text()
    links = page.evaluate(
        "gradscope.picture.edges.filter(edge => edge.ghost)"
        ".map(({tail, head}) => [tail, head].map(key => gradscope.picture.boxes.get(key).title))"
    )
    assert sorted(links) == [
        ["CosBackward0", "ExpBackward0"], ["ExpBackward0", "SinBackward0"],
        ["LogBackward0", "MulBackward0"], ["NegBackward0", "CosBackward0"],
        ["SinBackward0", "LogBackward0"],
    ]  # fmt: skip
    page.locator("#sides").select_option("after")
    settle(page)
    assert page.evaluate(boxes) == []


def test_groups_open_in_both_graphs(opened: Opens) -> None:
    page = opened(two_layers(steps=2), "#s=both", earlier=two_layers(steps=2, layers=3))
    earlier = "gradscope.sides.before"
    group = "[...gradscope.open].find(g => g !== gradscope.root)"
    assert page.evaluate(f"{group} !== undefined")
    opens = "app => [...app.open].map(g => app.tree.title(g)).filter(t => t.startsWith('layers1'))"

    def both() -> list[Any]:
        settle(page)
        return [page.evaluate(f"({opens})({app})") for app in ("gradscope", earlier)]

    first = both()
    assert first[0] == first[1]
    page.evaluate(
        "gradscope.toggle(gradscope.tree.around(gradscope.homeOf("
        "gradscope.model.titled('layers1.linear.weight'))).find(g => "
        "gradscope.tree.title(g).startsWith('layers1 ')))"
    )
    second = both()
    assert second[0] == second[1] != first[0]


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


def test_a_replaced_call_is_marked_in_the_forward_graph(opened: Opens) -> None:
    earlier = with_calls(chain(Sin=1, Mul=1), ("sin", 0, "s"), ("mul", 1, "m"))
    later = with_calls(chain(Cos=1, Mul=1), ("cos", 0, "c"), ("mul", 1, "m"))
    page = opened(later, "#v=forward", earlier=earlier)

    forward = "gradscope.graphs.forward"
    signs = (
        f"{forward}.picture.all.map(box => "
        f"[{forward}.model.title(box.node), ...{forward}.changed.signs(box)])"
    )
    assert sorted(page.evaluate(signs)) == [["cos", "≠"], ["mul"]]
    assert page.locator("#sides").is_disabled()


def test_the_colours_can_tell_what_became_slower(opened: Opens) -> None:
    page = opened(chain(Mul=9_000, Exp=8_000), earlier=chain(Mul=2_000, Exp=9_000))

    page.locator("#coloring").select_option("slower")
    more = page.evaluate("gradscope.picture.all.map(box => gradscope.changed.moreOf(box))")
    assert more == [7_000, -1_000]
    settle(page)
    legend = page.inner_text("#legend").splitlines()
    assert legend[0] == "longer (one sample) than in old.json by"
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


def test_the_earlier_graph_has_the_times_of_its_trace(opened: Opens) -> None:
    earlier = two_layers()
    page = opened(two_layers(layers=3), earlier=earlier)
    page.select_option("#sides", "both")
    settle(page)

    shown = page.evaluate("[...window.gradscope.sides.before.model.runs.get('self_ns')]")
    runs = node_runs(earlier)
    assert sorted(shown) == sorted(runs.self_ns.tolist())
