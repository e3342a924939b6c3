"""The page of a merged trace, in Chromium: one rank at a time, in every panel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gradscope.analysis.ranks.merge import merged
from tests.analysis.ranks.several_ranks import several_ranks
from tests.render.viewer.settled import settle
from tests.shared.browsing import check_accessible
from tests.shared.example_traces import mean_of_squares, mean_of_squares_program, two_layers

pytestmark = pytest.mark.browser

Opens = Callable[..., Any]

SHOWN = """(() => {
  const { model, tree, rank, backward, root, events, picture } = gradscope;
  const { nodes, runs } = model;
  const drawn = [...nodes.get("id").keys()].filter(node => picture.boxOf[node] !== -1);
  const of = runs.get("backward");
  const ran = [...runs.get("node").keys()].filter(run => gradscope.covers(of[run]));
  return {
    rank, root: tree.title(root), step: backward < 0 ? -1 : model.backwards.get("step")[backward],
    drawn: [...new Set(drawn.map(node => model.rankOf(node)))],
    ran: [...new Set(ran.map(run => model.rankOf(runs.get("node")[run])))],
    events: [...new Set(Array.from(model.rankOfEvent.slice(events[0], events[1] + 1)))],
  };
})()"""


def shown(page: Any) -> Any:
    settle(page)
    return page.evaluate(SHOWN)


def of_rank(rank: int, step: int) -> dict[str, Any]:
    """What is shown if every panel shows this step of this rank."""
    same = [rank]
    root = f"rank {rank}, step {step}" if step >= 0 else f"rank {rank}"
    return {"rank": rank, "root": root, "step": step, "drawn": same, "ran": same, "events": same}


def test_every_panel_shows_the_same_rank(opened: Opens) -> None:
    page = opened(several_ranks(2, steps=3))

    assert shown(page) == of_rank(0, 0)
    page.select_option("#rank", "1")
    assert shown(page) == of_rank(1, 0)
    menu = page.locator("#backward option").all_inner_texts()
    assert menu[0] == "rank 1 · all 3"
    assert [text.partition(" at ")[0] for text in menu[1:]] == [
        f"rank 1 · step {step} · backward {2 * step + 1}" for step in range(3)
    ]
    page.select_option("#backward", label=menu[3])
    assert shown(page) == of_rank(1, 2)
    page.select_option("#backward", "-1")
    assert shown(page) == of_rank(1, -1)


def test_another_rank_keeps_the_step_and_the_address_names_both(opened: Opens) -> None:
    trace = several_ranks(2, steps=3)
    page = opened(trace)
    page.locator("canvas#graph").focus()
    page.keyboard.press("}")
    page.keyboard.press("}")
    assert shown(page) == of_rank(0, 2)
    page.select_option("#rank", "1")
    assert shown(page) == of_rank(1, 2)
    page.wait_for_function("() => location.hash.includes('r=1')")
    address = page.evaluate("location.hash")
    page.keyboard.press("}")  # there is no later one

    assert shown(page) == of_rank(1, 2)
    assert shown(opened(trace, address)) == of_rank(1, 2)
    assert shown(opened(trace, "#r=1")) == of_rank(1, 0)


def test_a_node_of_another_rank_leads_to_that_rank(opened: Opens) -> None:
    page = opened(several_ranks(2, steps=3))
    last = "[...model.nodes.get('id').keys()].findLast(node => !model.isLeaf(node))"
    page.evaluate(f"(() => {{ const {{ model }} = gradscope; gradscope.selectNode({last}); }})()")

    assert shown(page) == of_rank(1, 2)
    facts = page.inner_text("#details")
    assert "rank\n1\n" in facts
    assert "step\n2\n" in facts
    assert page.input_value("#rank") == "1"


def test_the_forward_graph_is_of_the_same_rank(opened: Opens) -> None:
    page = opened(several_ranks(2, steps=3))
    page.select_option("#which", "forward")
    page.select_option("#rank", "1")
    settle(page)
    forward = "gradscope.graphs.forward"
    drawn = f"""[...new Set([...{forward}.model.nodes.get('id').keys()]
      .filter(call => {forward}.picture.boxOf[call] !== -1)
      .map(call => {forward}.model.rankOf(call)))]"""

    assert page.evaluate(drawn) == [1]
    assert page.evaluate(f"{forward}.tree.title({forward}.root)") == "rank 1, step 0"


def test_which_rank_waits_is_on_the_first_view(opened: Opens) -> None:
    page = opened(several_ranks(2, steps=3, late={(1, 2): 120_000}))
    wait = page.get_by_role("button", name="rank 0 waited 120 µs for rank 1")

    assert "3 steps on 2 ranks" in page.inner_text("#summary-panel")
    assert "all_reduce, step 2" in page.inner_text("#summary-panel")
    page.select_option("#rank", "1")
    wait.click()
    assert shown(page) == of_rank(0, 2)
    begin, end = page.evaluate("gradscope.range")
    assert end - begin == 120_000


def test_saved_memory_is_that_of_the_rank(opened: Opens) -> None:
    one, other = mean_of_squares_program(), mean_of_squares_program()
    page = opened(merged([one.trace(rank=0, host="one"), other.trace(rank=1, host="one")]))
    alone = opened(mean_of_squares())
    for each in (page, alone):
        each.locator("#tab-memory").click()
        settle(each)
    bytes_of_one = alone.inner_text("#memory-panel").partition("at most ")[2].partition(".")[0]

    for rank in ("1", "0"):
        page.select_option("#rank", rank)
        settle(page)
        said = page.inner_text("#memory-panel")
        assert said.startswith(f"Saved for backward on rank {rank}, ")
        assert f"at most {bytes_of_one}." in said


def test_the_lanes_are_those_of_the_rank(opened: Opens) -> None:
    page = opened(several_ranks(2, steps=3, late={(1, 2): 120_000}))
    threads = """[...new Set(gradscope.timeline.lanes.map(lane => lane.thread)
      .filter(thread => thread !== undefined && thread >= 0))]"""
    shown_for = []
    for rank in ("0", "1"):
        page.select_option("#rank", rank)
        page.select_option("#backward", "-1")
        settle(page)
        shown_for.append(page.evaluate(threads))

    assert shown_for == [[0], [1]]


def test_many_ranks_stay_in_one_short_menu(opened: Opens) -> None:
    page = opened(several_ranks(64, steps=2, alike=True), width=400)

    assert page.locator("#rank option").count() == 64
    assert page.locator("#backward option").count() == 3
    page.select_option("#rank", "63")
    assert shown(page) == of_rank(63, 0)


def test_one_process_has_no_menu_of_ranks(opened: Opens) -> None:
    page = opened(two_layers(steps=2))

    assert page.locator("#rank").is_hidden()
    assert page.locator("#backward option").all_inner_texts()[1].startswith("step 0 · backward 0")


@pytest.mark.parametrize("width", [1600, 400])
@pytest.mark.parametrize("dark", [False, True])
def test_a_merged_trace_is_accessible(opened: Opens, width: int, dark: bool) -> None:
    page = opened(several_ranks(2, late={(1, 2): 120_000}), width=width, dark=dark)

    check_accessible(page)
