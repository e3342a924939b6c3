"""One axis of time, in Chromium: slider, overview, lanes, measured periods."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gradscope.analysis.timing.durations import node_runs
from gradscope.scene.readable import duration
from gradscope.scene.viewer.times import start_of
from gradscope.trace.load_save import load
from gradscope.trace.schema import NodeBegin, NodeEnd, Op, Phase, Span, Thread
from gradscope.trace.trace import Trace
from tests.analysis.ranks.several_ranks import several_ranks
from tests.render.viewer.settled import settle, wait_until
from tests.scene.viewer.training_steps import STEP_NS, training_steps
from tests.shared.browsing import check_accessible, needs_axe
from tests.shared.example_traces import shared_weight

pytestmark = pytest.mark.browser

Opens = Callable[..., Any]
GALLERY = Path(__file__).parents[4] / "docs" / "gallery"
START = 300_000
BEGIN = STEP_NS + 10_000 - START
"""When the first step begins on the page: with its first span."""


def of(page: Any, expression: str) -> Any:
    settle(page)
    return page.evaluate(
        "(() => { const app = gradscope; const { timeline } = app; const { axis } = timeline;"
        f"return {expression}; }})()"
    )


def lane(page: Any, kind: str, nth: int = 0) -> float:
    """The height in the window of the middle of a lane."""
    settle(page)
    down: float = of(
        page,
        f"(() => {{ const lane = timeline.lanes.filter(lane => lane.kind === '{kind}')[{nth}];"
        "return timeline.canvas.getBoundingClientRect().top + lane.y + lane.h / 2"
        " - timeline.scroller.scrollTop; })()",
    )
    return down


def x_of(page: Any, t: float) -> float:
    return float(of(page, f"axis.x({t})"))


def now(page: Any) -> str:
    """What is said of the moment."""
    settle(page)
    words: str = page.inner_text("#now")
    return words


def in_step(microseconds: int, step: int = 0) -> int:
    """A moment of a step of the training, as the page counts."""
    return STEP_NS * (step + 1) + 1_000 * microseconds - START


# The axis ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [lambda: training_steps(2), lambda: load(GALLERY / "mlp.json"), lambda: shared_weight(9)],
)
@pytest.mark.parametrize("share", [0.3, 0.5, 0.6, 0.8])
def test_the_slider_names_the_node_whose_bar_is_under_the_playhead(
    opened: Opens, make: Callable[[], Trace], share: float
) -> None:
    page = opened(make())
    page.click("#show-all-time")
    slider = page.locator("#playhead").bounding_box()
    left, right = of(page, "[axis.left, axis.right]")
    x = left + share * (right - left)

    page.mouse.click(slider["x"] + x, slider["y"] + 5)

    least, most, t = of(page, "[axis.least, axis.most, app.t]")
    assert t == pytest.approx(least + share * (most - least), rel=1e-3)
    assert of(page, "axis.x(app.t)") == pytest.approx(x, abs=1)  # the lanes: the same place
    begun, ended, names = of(
        page,
        "(() => { const { runs } = app.model; const node = runs.get('node');"
        "return [[...runs.get('begun_t')], [...runs.get('ended_t')],"
        "[...node].map(each => app.model.title(each))]; })()",
    )
    under = [name for name, begin, end in zip(names, begun, ended, strict=True) if begin <= t < end]
    said = now(page)
    running = said.partition("gradscope compiles")[0]
    assert [name in said for name in under] == [True] * len(under)
    assert ("Backward0" in running) == any("Backward0" in name for name in under)
    assert page.locator("#playhead").get_attribute("aria-valuetext") == said


def test_a_step_has_its_forward_loading_and_optimizer_on_the_axis(opened: Opens) -> None:
    page = opened(training_steps(3))

    assert of(page, "[axis.least, axis.most]") == [BEGIN, in_step(1000)]
    of_main = ["thread", "spans", *["modules"] * 3, "calls", "nodes", "hooks"]
    of_device = ["thread", *["modules"] * 3, "nodes"]
    kinds = of(page, "timeline.lanes.map(lane => lane.kind)")
    assert kinds == ["backward", *of_main, *of_device]
    texts = of(page, "timeline.painter.texts.map(each => each.text)")
    assert {"DataLoader", "SGD.step", "encoder", "addmm#1"} <= set(texts)


def test_the_whole_program_and_a_step_share_the_axis(opened: Opens) -> None:
    page = opened(training_steps(3))
    page.click("#whole-program")

    assert of(page, "[axis.least, axis.most]") == [0, in_step(950, 2)]
    page.evaluate(f"gradscope.timeline.goTo({in_step(700, 2)})")
    settle(page)
    assert "Addmm" in now(page)
    assert page.inner_text("#elsewhere") == "in step 2: show it"
    page.click("#elsewhere")
    settle(page)
    assert of(page, "[app.backward, app.t]") == [2, in_step(700, 2)]
    assert "event 8 of 10" in now(page)
    assert page.locator("#elsewhere").is_hidden()
    page.evaluate("gradscope.timeline.showPeriod(0, 1000)")
    page.keyboard.press("{")
    assert of(page, "app.backward") == 1
    assert of(page, "axis.to - axis.from") == 1000  # zoomed as before
    page.keyboard.press("}")
    page.keyboard.press("b")
    assert of(page, "[axis.least, axis.most]") == [in_step(0, 2), in_step(1000, 2)]
    assert page.locator("#whole-program").get_attribute("aria-pressed") == "false"


def test_a_step_without_an_end_lasts_until_the_next(opened: Opens) -> None:
    page = opened(training_steps(2, ended=False))

    assert of(page, "axis.most") == in_step(0, 1)
    page.keyboard.press("}")
    assert of(page, "axis.most") == in_step(950, 1)


def test_a_step_in_the_lanes_shows_that_step(opened: Opens) -> None:
    page = opened(training_steps(3))
    page.keyboard.press("b")

    page.mouse.click(x_of(page, in_step(30, 1)), lane(page, "steps"))

    assert of(page, "app.backward") == 1


def test_stepping_visits_events_at_one_time(opened: Opens) -> None:
    page = opened(shared_weight(3))
    first, last = of(page, "app.events")
    page.keyboard.press("Home")
    seen = []
    for _ in range(last - first + 1):
        page.keyboard.press(".")
        seen.append(of(page, "app.event"))

    assert seen == [*range(first, last + 1)]


def test_between_two_events_one_back_is_the_last_that_happened(opened: Opens) -> None:
    page = opened(training_steps(1))
    page.evaluate(f"gradscope.timeline.goTo({in_step(700)})")
    event = of(page, "app.event")

    page.keyboard.press(",")
    assert of(page, "[app.event, app.t]") == [event, in_step(650)]
    page.keyboard.press(",")
    assert of(page, "app.event") == event - 1


def test_a_link_keeps_the_moment(opened: Opens) -> None:
    trace = training_steps(1)
    page = opened(trace)
    page.evaluate(f"gradscope.timeline.goTo({in_step(700)})")
    page.wait_for_timeout(400)
    fragment = page.evaluate("location.hash")

    assert f"t={in_step(700)}" in fragment
    assert of(opened(trace, fragment), "app.t") == in_step(700)


# Keys ----------------------------------------------------------------------------------------


def test_the_slider_follows_the_keys(opened: Opens) -> None:
    page = opened(training_steps(1))
    page.locator("#playhead").focus()
    page.keyboard.press("Home")
    assert of(page, "app.t") == BEGIN
    page.keyboard.press("ArrowRight")
    assert of(page, "(app.t - axis.least) / (axis.most - axis.least)") == pytest.approx(0.01)
    page.keyboard.press("End")
    assert of(page, "app.t") == in_step(1000)
    page.keyboard.press("ArrowLeft")
    assert of(page, "app.t") < in_step(1000)
    said = page.locator("#playhead")
    assert float(said.get_attribute("aria-valuemax")) == in_step(1000) - BEGIN
    assert float(said.get_attribute("aria-valuenow")) == of(page, "Math.round(app.t - axis.least)")


def test_the_lanes_follow_the_keys_and_say_the_bars(opened: Opens) -> None:
    page = opened(training_steps(1))
    page.keyboard.press("Home")
    page.locator("#timeline").focus()
    live = page.locator("#live")
    page.keyboard.press("ArrowDown")  # the backward
    page.keyboard.press("ArrowDown")
    settle(page)
    assert "DataLoader, kind, span of the program, took, 100 µs" in live.text_content()
    page.keyboard.press("ArrowRight")
    settle(page)
    assert live.text_content().startswith("SGD.step, kind, optimizer")
    assert "SGD.step" in page.inner_text(".hover-card")
    for _ in range(5):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    settle(page)
    assert of(page, "app.model.title(app.node)") == "AddmmBackward0#2"


def test_play_moves_through_what_the_lanes_show(opened: Opens) -> None:
    page = opened(training_steps(1))
    page.evaluate(f"gradscope.timeline.showPeriod({in_step(500)}, {in_step(800)})")
    page.keyboard.press("Home")
    page.evaluate(f"gradscope.timeline.showPeriod({in_step(500)}, {in_step(800)})")
    page.keyboard.press(" ")
    wait_until(page, "t => gradscope.t > t", in_step(505))
    assert "■" in page.inner_text("#play")
    page.keyboard.press(" ")
    stopped = of(page, "app.t")
    assert stopped < in_step(800)
    page.wait_for_timeout(100)
    assert of(page, "app.t") == stopped
    assert "▶" in page.inner_text("#play")


# Window --------------------------------------------------------------------------------------


def test_the_brush_chooses_what_the_lanes_show(opened: Opens) -> None:
    page = opened(training_steps(1))
    box = page.locator("#playhead").bounding_box()
    y = box["y"] + 30
    x = [of(page, f"axis.overviewX({in_step(at)})") for at in (500, 800, 600)]

    page.mouse.move(x[0], y)
    page.mouse.down()
    page.mouse.move(x[0] + 20, y)
    page.mouse.move(x[1], y)
    page.mouse.up()
    moment = (in_step(1000) - BEGIN) / 1000
    window = of(page, "[axis.from, axis.to]")
    assert window == pytest.approx([in_step(500), in_step(800)], abs=2 * moment)

    page.mouse.move(x[1], y)  # its right edge
    page.mouse.down()
    page.mouse.move(x[2], y)
    page.mouse.up()
    window = of(page, "[axis.from, axis.to]")
    assert window == pytest.approx([in_step(500), in_step(600)], abs=2 * moment)

    page.mouse.move((x[0] + x[2]) / 2, y)  # the window as a whole
    page.mouse.down()
    page.mouse.move((x[0] + x[2]) / 2 - (x[2] - x[0]), y)
    page.mouse.up()
    window = of(page, "[axis.from, axis.to]")
    assert window == pytest.approx([in_step(400), in_step(500)], abs=2 * moment)

    page.mouse.dblclick((x[0] + x[2]) / 2, y)
    assert of(page, "axis.isWhole")


def test_the_wheel_zooms_at_the_pointer_and_pans(opened: Opens) -> None:
    page = opened(training_steps(1))
    y = lane(page, "nodes")
    x = round(x_of(page, in_step(560)))
    moment = of(page, f"axis.timeAt({x})")
    page.mouse.move(x, y)
    page.mouse.wheel(0, -600)

    assert of(page, f"axis.timeAt({x})") == pytest.approx(moment, rel=1e-9)
    length = of(page, "axis.to - axis.from")
    assert length < (in_step(1000) - BEGIN) / 2
    before = of(page, "axis.from")
    page.mouse.wheel(120, 0)
    assert of(page, "axis.from") == pytest.approx(before + 0.2 * length)
    page.keyboard.press("q")
    assert of(page, "axis.isWhole")


def test_a_bar_keeps_its_label_when_it_is_zoomed(opened: Opens) -> None:
    page = opened(training_steps(1))
    page.evaluate(f"gradscope.timeline.showPeriod({in_step(540)}, {in_step(560)})")

    texts = of(page, "timeline.painter.texts.map(each => [each.text, each.x])")
    left = of(page, "axis.left")
    assert ["AddmmBackward0#2", left + 4] in texts


def test_narrow_bars_become_blocks_without_losing_any(opened: Opens) -> None:
    page = opened(load(GALLERY / "rnn.json.gz"), width=400, height=800)
    page.click("#show-all-time")

    shown = of(
        page,
        "(() => { const lane = timeline.lanes.find(lane => lane.kind === 'nodes');"
        "const { row } = lane; const pieces = timeline.painter.painted.get(lane);"
        "return [row.length, pieces.map(piece => [piece.first, piece.last, piece.x0, piece.x1]),"
        "row.sums[row.length]]; })()",
    )
    length, pieces, total = shown
    places = [at for first, last, *_ in pieces for at in range(first, last + 1)]
    assert len(pieces) < length / 2
    assert places == [*range(length)]
    assert all(x1 - x0 >= 1 for *_, x0, x1 in pieces)
    ended, begun = of(page, "['ended_t', 'begun_t'].map(name => [...app.model.runs.get(name)])")
    assert total == sum(ended) - sum(begun)
    first, last, x0, x1 = max(pieces, key=lambda piece: piece[1] - piece[0])
    page.mouse.move((x0 + x1) / 2, lane(page, "nodes"))
    settle(page)
    card = page.inner_text(".hover-card")
    assert card.startswith(f"{last - first + 1} nodes\n")
    merged = sum(ended[first : last + 1]) - sum(begun[first : last + 1])
    assert f"together\n{duration(int(merged))}\n" in card


def test_the_moment_and_the_selection_stay_in_sight(opened: Opens) -> None:
    page = opened(training_steps(1))
    page.evaluate(f"gradscope.timeline.showPeriod({in_step(700)}, {in_step(720)})")

    page.evaluate(f"gradscope.timeline.goTo({in_step(300)})")
    assert of(page, "axis.from <= app.t && app.t <= axis.to")
    page.evaluate("gradscope.selectNode(2)")
    assert of(page, f"axis.from < {in_step(600)} && axis.to > {in_step(520)}")


# The pointer ---------------------------------------------------------------------------------


def test_cards_tell_the_facts_of_bars(opened: Opens) -> None:
    page = opened(training_steps(1))
    facts = {
        ("nodes", 560): ["AddmmBackward0#2", "own time", "80.0 µs", "started at", "main", "[4, 4]"],
        ("calls", 200): ["addmm#1", "took", "100 µs", "encoder.linear"],
        ("spans", 60): ["DataLoader", "100 µs"],
        ("modules", 200): ["Net", "module, forward"],
    }
    for (kind, at), words in facts.items():
        page.mouse.move(x_of(page, in_step(at)), lane(page, kind))
        settle(page)
        card = page.inner_text(".hover-card")
        assert [word in card for word in words] == [True] * len(words), card
    assert page.locator(".hover-card").is_visible()
    page.keyboard.press("b")  # the axis counts from another moment
    settle(page)
    assert page.locator(".hover-card").is_hidden()


def test_clicks_select_nodes_calls_and_modules(opened: Opens) -> None:
    page = opened(training_steps(1))

    page.mouse.click(x_of(page, in_step(560)), lane(page, "nodes"))
    assert of(page, "[app.node, app.t]") == [2, in_step(520)]
    page.mouse.click(x_of(page, in_step(200)), lane(page, "calls"))
    assert of(page, "[app.node, app.t]") == [0, in_step(150)]
    page.mouse.click(x_of(page, in_step(350)), lane(page, "modules", 1))
    assert of(page, "app.model.groups.text('path', app.group)") == "head"
    page.keyboard.press("g")
    page.mouse.click(x_of(page, in_step(200)), lane(page, "calls"))
    assert of(page, "app.graphs.call") == 0
    page.mouse.click(x_of(page, in_step(60)), lane(page, "spans"))
    assert "DataLoader" in now(page)
    page.mouse.click(x_of(page, in_step(450)), lane(page, "calls"))
    assert "nothing runs" in now(page) or "before event 1" in now(page)
    assert of(page, "app.t") == pytest.approx(in_step(450), abs=2_000)


def test_a_measured_period_is_the_sum_of_the_trace(opened: Opens) -> None:
    trace = training_steps(2)
    page = opened(trace)
    y = lane(page, "calls")
    page.mouse.move(x_of(page, in_step(200)), y)
    page.mouse.down()
    page.mouse.move(x_of(page, in_step(400)), y)
    page.mouse.move(x_of(page, in_step(870)), y)
    page.mouse.up()

    period = of(page, "app.range")
    assert period == pytest.approx([in_step(200), in_step(870)], abs=2_000)
    page.evaluate(f"gradscope.range = [{in_step(200)}, {in_step(870)}]; gradscope.tell('range')")
    words = of(page, "timeline.measured.words")
    runs, calls, busy = measured(trace, in_step(200) + START, in_step(870) + START)
    assert words.startswith("670 µs selected: ")
    assert f"{runs} nodes and {calls} calls ran in it" in words
    share = round(100 * busy[0] / 670_000)
    assert f"main: {busy[0] / 1000:.0f} µs recorded ({share}%): nodes 110 µs, calls " in words
    assert f"device: {busy[1] / 1000:.0f} µs recorded (19%): nodes 130 µs" in words
    links = page.locator("#measured .link").all_inner_texts()
    assert links[0] == "AddmmBackward0#1 130 µs"
    assert len(links) == 6  # five, and one that clears
    page.locator("#measured .link").first.click()
    assert of(page, "app.model.title(app.node)") == "AddmmBackward0#1"
    page.keyboard.press("Escape")
    settle(page)
    assert page.locator("#measured").is_hidden()


@pytest.mark.parametrize("name", ["mlp.json", "two_devices.json", "rnn.json.gz"])
def test_any_period_is_measured_as_the_trace_sums_up(opened: Opens, name: str) -> None:
    trace = load(GALLERY / name)
    page = opened(trace)
    start = start_of(trace)
    first, last = of(page, "[timeline.bars.first, timeline.bars.last]")
    names = {row.id: row.name or f"thread {row.id}" for row in trace.rows(Thread)}
    chance = Random(name)
    for _ in range(5):
        begin, end = sorted(chance.sample(range(int(first), int(last)), 2))
        said = of(page, f"timeline.measured.of([{begin}, {end}])")
        nodes, calls, busy = measured(trace, begin + start, end + start)
        assert (said["nodes"], said["calls"]) == (nodes, calls)
        shown = {each["name"]: each["ns"] for each in said["busy"]}
        assert shown == {names[id]: ns for id, ns in busy.items() if ns}


def measured(trace: Trace, begin: int, end: int) -> tuple[int, int, dict[int, int]]:
    """Nodes, calls and busy time by thread in a period, counted from the trace."""
    runs = node_runs(trace)
    nodes = int(((runs.begin <= end) & (runs.end > begin)).sum())
    ops = [op for op in trace.rows(Op) if op.begin <= end and op.end > begin]
    own: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    work: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for span in trace.rows(Span):
        of_kind = own if span.phase == Phase.OWN_WORK else work
        if span.phase != Phase.USER:
            of_kind[span.thread].append((span.begin, span.end))
    for op in ops:
        work[op.thread].append((op.begin, op.end))
    columns = (runs.thread.tolist(), runs.begin.tolist(), runs.end.tolist())
    for thread, since, until in zip(*columns, strict=True):
        work[thread].append((since, until))
    busy = {}
    for thread, done in work.items():
        mine = own[thread]
        busy[thread] = taken([*done, *mine], begin, end) - taken(mine, begin, end)
    return nodes, len(ops), busy


def taken(periods: list[tuple[int, int]], begin: int, end: int) -> int:
    """The time in a period that any of these take."""
    total, until = 0, begin
    for since, to in sorted(periods):
        total += max(min(to, end) - max(since, until), 0)
        until = max(until, min(to, end))
    return total


# Ranks ---------------------------------------------------------------------------------------


def test_the_lanes_and_the_measures_are_those_of_the_rank_shown(opened: Opens) -> None:
    trace = several_ranks(2, steps=2)
    page = opened(trace)
    threads = {row.id: row.rank for row in trace.rows(Thread)}
    for rank in (0, 1):
        page.evaluate(f"gradscope.setRank({rank})")
        shown = of(page, "timeline.bars.threads.map(thread => thread.id)")
        assert {threads[thread] for thread in shown} == {rank}
        steps = of(page, "timeline.bars.steps.map(row => [...row.ids]).flat()")
        assert (
            of(page, f"{steps}.map(row => app.model.tables.steps.get('rank')[row])") == [rank] * 2
        )
        runs = node_runs(trace)
        mine = [threads[thread] == rank for thread in runs.thread.tolist()]
        period = "[timeline.bars.first, timeline.bars.last]"
        assert of(page, f"timeline.measured.of({period}).nodes") == sum(mine)
        page.keyboard.press("Home")
        page.keyboard.press(">")
        assert of(page, "app.model.rankOf(app.node)") == rank


# Levels, sizes, access -----------------------------------------------------------------------


def test_without_events_the_calls_are_shown_and_it_is_said_what_is_missing(opened: Opens) -> None:
    trace = training_steps(2, events=False)
    assert not len(trace.table(NodeBegin)) + len(trace.table(NodeEnd))
    page = opened(trace)

    kinds = set(of(page, "timeline.lanes.map(lane => lane.kind)"))
    assert {"calls", "spans", "modules", "backward"} <= kinds
    assert not kinds & {"nodes", "hooks", "queue"}
    page.locator("#playhead").focus()
    page.keyboard.press("Home")
    page.evaluate(f"gradscope.timeline.goTo({in_step(200)})")
    settle(page)
    said = now(page)
    assert "addmm#1 runs" in said
    assert "not recorded" in said


def test_the_lanes_get_more_room_at_their_edge_for_the_session(opened: Opens) -> None:
    page = opened(load(GALLERY / "resnet.json.gz"))
    edge = page.locator("#time-edge")
    usual = page.locator("#lanes").bounding_box()["height"]
    box = edge.bounding_box()
    page.mouse.move(700, box["y"] + 4)
    page.mouse.down()
    page.mouse.move(700, box["y"] - 96)
    page.mouse.up()

    assert page.locator("#lanes").bounding_box()["height"] == pytest.approx(usual + 100, abs=1)
    edge.focus()
    page.keyboard.press("ArrowDown")
    lower = page.locator("#lanes").bounding_box()["height"]
    assert lower == pytest.approx(usual + 76, abs=1)
    assert edge.get_attribute("aria-valuenow") == str(round(lower))
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert page.locator("#lanes").bounding_box()["height"] == lower
    page.locator("#time-edge").dblclick()
    assert page.locator("#lanes").bounding_box()["height"] == pytest.approx(usual, abs=1)


def test_on_a_phone_the_overview_and_the_lanes_fit(opened: Opens) -> None:
    page = opened(training_steps(2), width=400, height=800)

    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert of(page, "axis.right - axis.left") > 280
    assert page.locator("#playhead").bounding_box()["width"] <= 400
    assert of(page, "timeline.painter.painted.size") > 3


@needs_axe
@pytest.mark.parametrize(("width", "dark"), [(1600, False), (1280, True), (400, False)])
def test_the_timeline_keeps_nobody_out(opened: Opens, width: int, *, dark: bool) -> None:
    page = opened(training_steps(2), width=width, dark=dark)
    page.keyboard.press("b")
    page.evaluate(f"gradscope.range = [{in_step(200)}, {in_step(870)}]; gradscope.tell('range')")
    page.locator("#timeline").focus()
    page.keyboard.press("ArrowDown")
    settle(page)
    assert page.locator("#measured").is_visible()
    assert page.locator(".hover-card").is_visible()
    check_accessible(page)
