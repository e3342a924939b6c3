"""The page of a merged trace, in Chromium: one rank at a time, in every panel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gradscope.analysis.ranks.merging.merge import merged
from gradscope.trace.trace import Trace
from tests.analysis.ranks.several_ranks import MS, several_ranks
from tests.render.viewer.settled import settle, wait_until
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
    wait_until(page, "location.hash.includes('r=1')")
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
    page = opened(several_ranks(2, late={(1, 2): 120_000}, slow={}), width=width, dark=dark)

    page.locator("#all-ranks").click()
    for what in ("time", "alike", "gradient"):
        page.locator("#summary-panel select").evaluate(
            "(each, what) => { each.value = what; each.dispatchEvent(new Event('change')); }", what
        )
        check_accessible(page)


CHART = "canvas.ranks"
SHOWS = "What ranks and steps show"
STEPS_HEIGHT, RANK_ROW, RANKS_WIDTH, STEP = 14, 15, 96, 26


def slow_rank() -> Trace:
    """Nine ranks, of which rank 7 took five times as long as the others in step 1."""
    return several_ranks(9, steps=3, alike=True, slow={(7, 1): 5 * MS})


def cell(page: Any, row: int, column: int) -> dict[str, int]:
    width = page.locator(CHART).evaluate("each => each.clientWidth")
    step = min((width - RANKS_WIDTH) / 3, STEP)
    x = RANKS_WIDTH + (column + 0.5) * step
    return {"x": round(x), "y": round(STEPS_HEIGHT + (row + 0.5) * RANK_ROW)}


def test_a_cell_of_the_ranks_by_step_leads_to_that_rank_and_step(opened: Opens) -> None:
    page = opened(slow_rank())
    chart = page.locator(CHART)

    assert "9 ranks in 2 rows, 3 steps" in chart.get_attribute("aria-label")
    assert "from 4 × on" in page.inner_text(".levels")
    chart.click(position=cell(page, 1, 1))
    assert shown(page) == of_rank(7, 1)
    assert "rank 7, step 1: 5.00 ms" in page.inner_text("#summary-panel")
    chart.click(position=cell(page, 0, 2))
    assert shown(page) == of_rank(0, 2)
    assert "rank 0 (and 7 like it), step 2: 1.00 ms" in page.inner_text("#summary-panel")


def test_the_keyboard_goes_through_the_ranks_by_step(opened: Opens) -> None:
    page = opened(slow_rank())
    page.locator(CHART).focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert shown(page) == of_rank(0, 0)
    page.keyboard.press("Enter")

    assert shown(page) == of_rank(7, 1)


def test_what_ranks_and_steps_show_can_be_chosen(opened: Opens) -> None:
    page = opened(several_ranks(3, steps=3, slow={}))
    chart, panel = page.locator(CHART), page.locator("#summary-panel")

    page.get_by_label(SHOWS).select_option("alike")
    assert "3 ranks in 3 rows" in chart.get_attribute("aria-label")
    for what in ("gradient", "non-finite"):
        page.get_by_label(SHOWS).select_option(what)
        assert chart.is_hidden()
        assert "Not shown: " in panel.inner_text()
    page.get_by_label(SHOWS).select_option("time")
    assert "3 ranks in 1 row," in chart.get_attribute("aria-label")


def test_many_ranks_and_steps_stay_in_few_rows(opened: Opens) -> None:
    slow = {(rank, rank % 40): 5 * MS for rank in range(0, 64, 2)}
    page = opened(several_ranks(64, steps=40, alike=True, slow=slow))
    chart = page.locator(CHART)

    assert "64 ranks in 20 rows, 40 steps" in chart.get_attribute("aria-label")
    assert chart.evaluate("each => each.clientHeight") <= 14 + 20 * 15 + 1


def test_ranks_that_waited_for_one_are_one_entry(opened: Opens) -> None:
    page = opened(several_ranks(9, steps=2, alike=True, late={(7, 1): 120_000}))

    page.get_by_role("button", name="ranks 0–6, 8 waited up to 120 µs for rank 7").click()
    assert page.evaluate("gradscope.range[1] - gradscope.range[0]") == 120_000


def test_one_process_has_no_ranks_by_step(opened: Opens) -> None:
    assert opened(two_layers(steps=2)).locator(CHART).count() == 0


def test_each_rank_has_a_lane_on_the_axis_of_the_rank_shown(opened: Opens) -> None:
    page = opened(several_ranks(3, steps=3, late={(1, 2): 120_000}))
    lanes, button = page.locator("#rank-lanes"), page.locator("#all-ranks")

    assert lanes.is_hidden()
    button.click()
    settle(page)
    assert button.get_attribute("aria-pressed") == "true"
    assert lanes.get_attribute("aria-label").startswith("A lane for each of 3 ranks: forward")
    assert lanes.evaluate("each => each.clientWidth") == page.evaluate(
        "gradscope.timeline.axis.width"
    )
    lanes.click(position={"x": 300, "y": 14 * 1 + 7})
    assert shown(page) == of_rank(1, 0)
    button.click()
    assert lanes.is_hidden()


def test_lanes_show_who_waited_and_join_a_collective(opened: Opens) -> None:
    page = opened(several_ranks(2, steps=3, late={(1, 2): 120_000}))
    page.get_by_role("button", name="rank 0 waited 120 µs for rank 1").click()
    page.locator("#all-ranks").click()
    settle(page)
    painted = """t => {
      const lanes = document.getElementById("rank-lanes");
      const copy = new OffscreenCanvas(lanes.width, lanes.height);
      const context = copy.getContext("2d", { willReadFrequently: true });
      context.drawImage(lanes, 0, 0);
      const x = gradscope.timeline.axis.x(t) * devicePixelRatio;
      const { data } = context.getImageData(x, 0, 8, 28 * devicePixelRatio);
      return [7, 21].map(row => [...Array(8).keys()].some(at => data[4 * (row * 8 + at) + 3]));
    }"""
    begin, end = page.evaluate("gradscope.range")

    assert page.evaluate(painted, (begin + end) / 2) == [True, False]
    assert page.evaluate(painted, end) == [True, True]


def test_of_many_ranks_sixteen_have_a_lane(opened: Opens) -> None:
    page = opened(several_ranks(40, steps=2, alike=True, late={(30, 0): 9_000}))
    page.locator("#all-ranks").click()

    label = page.locator("#rank-lanes").get_attribute("aria-label")
    assert label.startswith("A lane for each of 16 ranks, those with the longest waits of 40: ")


def test_one_process_has_no_lanes_of_ranks(opened: Opens) -> None:
    assert opened(two_layers(steps=2)).locator("#all-ranks").is_hidden()
