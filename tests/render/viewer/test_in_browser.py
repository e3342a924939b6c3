"""The page as a person meets it, in Chromium: clicks, keys, states, links, sizes, access."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from gradscope.analysis.identity.names import node_names
from gradscope.analysis.timing.passages import passages
from gradscope.render.notebook import show
from gradscope.trace.load_save import load
from gradscope.trace.schema import Edge, Frame, GraphTask, Module, Node, Stack
from gradscope.trace.trace import Trace
from tests.render.hostile import NAMES, named
from tests.render.viewer.settled import settle
from tests.shared.browsing import check_accessible, needs_axe
from tests.shared.by_hand import trace_of
from tests.shared.example_traces import mean_of_squares, nan_in_backward, shared_weight, two_layers

pytestmark = pytest.mark.browser

Opens = Callable[..., Any]
GALLERY = Path(__file__).parents[3] / "docs" / "gallery"


def nested(seed: int, size: int = 60) -> Trace:
    """A random graph of modules in modules, with skips and shared leaves; nothing ran."""
    random = Random(seed)
    paths = ["", "a", "a.b", "a.c", "d", "d.e", "d.e.f"]
    rows: list[Any] = [Frame(0, "net.py", 1, "", "y = f(x)"), Stack(0, 0)]
    rows += [Module(id, path, "Block") for id, path in enumerate(paths)]
    rows += [Node(1_000 + leaf, "AccumulateGrad", inputs=()) for leaf in range(3)]
    module = 0
    for node in range(size):
        if random.random() < 0.3:
            module = random.randrange(len(paths))
        rows.append(Node(node, f"Op{random.randrange(5)}Backward0", module=module, stack=0))
        near = {node - 1, *(random.randrange(node) for _ in range(random.randrange(3)) if node)}
        rows += [Edge(node, at, to) for at, to in enumerate(sorted(near)) if to >= 0]
        if random.random() < 0.3:
            rows.append(Edge(node, 7, 1_000 + random.randrange(3)))
    return trace_of(*rows, GraphTask(0, roots=(size - 1,), begin=0, end=1))


def app(page: Any, expression: str) -> Any:
    settle(page)
    return page.evaluate(f"(() => {{ const app = window.gradscope; return {expression}; }})()")


def box_at(page: Any, key: str) -> tuple[float, float]:
    """Where the middle of a box is on the screen."""
    settle(page)
    place = page.evaluate(
        """key => { const app = window.gradscope; const box = app.picture.boxes.get(key);
        const panel = app.view;
        const canvas = document.getElementById('graph').getBoundingClientRect();
        return [canvas.left + panel.x + (box.x + box.w / 2) * panel.k,
                canvas.top + panel.y + (box.y + box.h / 2) * panel.k]; }""",
        key,
    )
    return place[0], place[1]


# Opening -------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [mean_of_squares, nan_in_backward, lambda: shared_weight(40)])
@pytest.mark.parametrize("dark", [False, True])
def test_a_page_opens_without_asking_or_complaining(
    opened: Opens, make: Callable[[], Trace], *, dark: bool
) -> None:
    page = opened(make(), dark=dark)

    assert page.title() == app(page, "app.model.facts.script") + " · gradscope"
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)")
    assert app(page, "app.picture.all.length") > 1


def test_names_are_text_and_never_html(opened: Opens) -> None:
    for name in (NAMES[0], NAMES[1], "<img src=x onerror=alert(1)>"):
        page = opened(named(name))
        page.keyboard.press("x")
        app(page, "app.selectNode(0)")
        assert app(page, "document.querySelectorAll('script, b, img, iframe').length") == 2
        assert name in page.inner_text("#outline")


def test_a_trace_without_events_says_so_where_states_would_stand(opened: Opens) -> None:
    page = opened(nested(0))

    assert "not recorded" in page.inner_text("#now")
    assert "--level engine" in page.text_content("#summary-panel details")


# Time ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [nan_in_backward, two_layers, lambda: shared_weight(30)])
def test_states_are_those_of_the_analysis_at_any_event(
    opened: Opens, make: Callable[[], Trace]
) -> None:
    trace = make()
    page = opened(trace)
    first, last = app(page, "app.events")
    ids = np.array(app(page, "[...app.model.nodes.get('id')]"))
    places = Random(1).choices(range(first, last + 1), k=50)

    shown = page.evaluate(
        """places => places.map(place => { window.gradscope.go(place); window.gradscope.flush();
        return [...window.gradscope.states.of]; })""",
        places,
    )

    task = app(page, "app.backward")
    begun = sorted(trace.rows(GraphTask), key=lambda row: (row.begin, row.id))
    known = passages(trace)
    chosen = begun[task].id if task >= 0 else None
    assert shown == [known.states(ids, place, chosen).tolist() for place in places]


def test_the_slider_and_the_keys_walk_through_events(opened: Opens) -> None:
    page = opened(mean_of_squares())
    first, last = app(page, "app.events")

    page.keyboard.press("Home")
    assert app(page, "app.event") == first - 1  # the forward pass: no event yet
    assert set(app(page, "[...app.states.of]")) <= {0, 1}
    page.keyboard.press(",")
    assert app(page, "app.event") == first - 1
    for _ in range(3):
        page.keyboard.press(".")
    page.keyboard.press(",")
    assert app(page, "app.event") == first + 1
    page.keyboard.press(">")
    node = app(page, "app.node")
    assert app(page, f"app.model.events.get('node')[app.event] === {node}")
    assert app(page, "app.states.of[app.node]") == 3
    page.locator("#playhead").focus()
    page.keyboard.press("End")
    assert app(page, "app.event") == last
    assert f"event {last + 1} of {last + 1}" in page.inner_text("#now")
    said = page.locator("#playhead").get_attribute("aria-valuetext")
    assert said == page.inner_text("#now")


# The graph -----------------------------------------------------------------------------------


def test_a_click_selects_in_all_panels(opened: Opens) -> None:
    page = opened(two_layers())
    key = app(page, "app.picture.all.find(box => box.is === 'node').key")

    page.mouse.click(*box_at(page, key))

    node = app(page, "app.node")
    assert key == f"n{node}"
    name = app(page, "app.model.unique(app.node)")
    assert page.inner_text("#details h2").strip() == name
    assert name in page.inner_text("#outline [aria-selected=true] > .row")
    assert page.evaluate("document.getElementById('live').textContent").startswith(name)


def test_a_double_click_opens_a_box_under_the_pointer_and_in_sight(opened: Opens) -> None:
    page = opened(nested(3))
    page.keyboard.press("Z")
    key = app(page, "app.picture.all.find(box => box.is === 'group').key")
    before = app(page, "app.picture.all.length")
    at = box_at(page, key)

    page.mouse.dblclick(*at)

    assert app(page, "app.picture.all.length") > before
    left, top, width, height = app(
        page,
        f"(({{x, y, w, h}}, {{k, x: left, y: top}}) => [x * k + left, y * k + top, w * k, h * k])"
        f"(app.picture.boxOrFrame({key[1:]}), app.view)",
    )
    canvas = page.locator("#graph").bounding_box()
    assert left <= at[0] - canvas["x"] <= left + width
    assert top <= at[1] - canvas["y"] <= top + height
    assert left >= 0
    assert top >= 0
    page.keyboard.press("Enter")
    assert app(page, "app.picture.all.length") == before


def test_arrow_keys_follow_gradients(opened: Opens) -> None:
    page = opened(mean_of_squares())
    page.locator("#graph").focus()

    walked = []
    for _ in range(3):
        page.keyboard.press("ArrowDown")
        walked.append(app(page, "app.node"))
    assert len(set(walked)) == 3
    page.keyboard.press("ArrowUp")
    assert app(page, "app.node") == walked[1]


OVERLAPS = """(() => { const found = []; const { picture } = app; const boxes = picture.all;
  const inside = (one, other) => one.x >= other.x - .5 && one.y >= other.y - .5
    && one.x + one.w <= other.x + other.w + .5 && one.y + one.h <= other.y + other.h + .5;
  const apart = (one, other) => one.x + one.w <= other.x + .5 || other.x + other.w <= one.x + .5
    || one.y + one.h <= other.y + .5 || other.y + other.h <= one.y + .5;
  const walk = item => { const items = item.items ?? [];
    items.forEach((one, at) => {
      if (!inside(one, item)) found.push(`${one.key} leaves ${item.key}`);
      const on = items.slice(at + 1).filter(other => !apart(one, other));
      found.push(...on.map(other => `${one.key} on ${other.key}`));
      walk(one); }); };
  walk(picture.item);
  for (const route of picture.routes) {
    const [tail, head] = [picture.boxes.get(route.tail), picture.boxes.get(route.head)];
    const way = `${route.tail} to ${route.head}`;
    if (route.begins && route.ends && !route.turns && tail.y + tail.h > head.y)
      found.push(`${way} goes up`);
    for (let at = 1; at < route.points.length; at += 1) for (const box of boxes) {
      if (box === tail || box === head) continue;
      const [[x0, y0], [x1, y1]] = [route.points[at - 1], route.points[at]];
      if (x0 === x1 && x0 > box.x + 1 && x0 < box.x + box.w - 1 && Math.max(y0, y1) > box.y + 1
        && Math.min(y0, y1) < box.y + box.h - 1) found.push(`${way} through ${box.key}`);
    } }
  return found; })()"""


def test_boxes_lie_apart_within_their_frames_and_arrows_go_down(opened: Opens) -> None:
    for seed in range(3):
        page = opened(nested(seed))
        groups = app(page, "app.tree.size")
        for turn in range(4):
            group = Random(f"{seed} {turn}").randrange(1, groups)
            assert app(page, f"[app.toggle({group}), {OVERLAPS}][1]") == [], (seed, turn)


def test_the_tree_reaches_every_node(opened: Opens) -> None:
    trace = nested(5, 300)
    page = opened(trace)
    page.keyboard.press("2")
    page.locator("#outline [role=treeitem]").first.focus()

    page.evaluate(  # open what is closed, then go on
        """() => { for (let turn = 0; turn < 5000; turn += 1) {
          const here = document.activeElement;
          const press = key => document.activeElement === here
            && here.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
          const closed = here.getAttribute("aria-expanded") === "false";
          ["ArrowRight", "ArrowDown"].forEach(press);
          if (document.activeElement === here && !closed) break; } }"""
    )
    shown = page.evaluate(
        "[...document.querySelectorAll('#outline [data-key^=n]')].map(item => item.dataset.key)"
    )
    assert len(shown) == len(set(shown)) == len(trace.table(Node))


# Search, findings, links ---------------------------------------------------------------------


def test_search_visits_what_it_finds(opened: Opens) -> None:
    trace = shared_weight(5)
    page = opened(trace)
    page.keyboard.press("/")
    page.keyboard.type("mvbackward")

    assert page.inner_text("#hits") == "5 · Enter: MvBackward0#1"
    page.keyboard.press("Enter")
    first = app(page, "app.model.unique(app.node)")
    page.keyboard.press("Enter")
    assert app(page, "app.model.unique(app.node)") != first
    assert page.inner_text("#hits") == "2 of 5: MvBackward0#2"
    assert app(page, "app.picture.boxFor(app.node).is") == "node"


def test_a_finding_leads_to_its_node_and_moment(opened: Opens) -> None:
    page = opened(nan_in_backward())

    page.keyboard.press("x")

    page.keyboard.press("3")
    assert "GS201 non-finite-birth #" in page.inner_text("#findings-panel .head")
    assert "GS201 non-finite-birth #" in page.inner_text("#details .finding")
    assert app(page, "app.model.wrong[app.node]") == 1
    marks = app(page, "app.model.marksOf(app.node)")
    assert {"first NaN produced here", "first Inf produced here"} & set(marks)


def test_a_link_leads_into_the_page_and_follows_it(opened: Opens) -> None:
    trace = shared_weight(5)
    page = opened(trace)
    page.keyboard.press("Home")
    page.keyboard.press(".")
    app(page, "app.selectNode(app.model.nodeNamed('MvBackward0#3'))")
    page.wait_for_timeout(400)
    fragment = page.evaluate("location.hash")
    assert "n=MvBackward0%233" in fragment

    again = opened(trace, fragment)

    assert app(again, "app.model.unique(app.node)") == "MvBackward0#3"
    assert app(again, "app.event") == app(page, "app.event")
    assert opened(trace, "#n=%zz&e=-4&o=zzz.-1&b=99&g=1e9").title()


def test_every_name_is_that_of_other_views(opened: Opens) -> None:
    trace = shared_weight(5)
    names = node_names(trace)
    page = opened(trace)

    pairs = app(
        page, "[...app.model.nodes.get('id')].map((id, row) => [id, app.model.unique(row)])"
    )
    assert pairs == [[id, names.of(id)] for id, _ in pairs]


# Sizes, looks, access ------------------------------------------------------------------------


def test_on_a_phone_the_sides_are_drawers(opened: Opens) -> None:
    page = opened(two_layers(), width=400, height=800)

    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert not page.locator("#left").is_visible()
    page.locator("#open-left").click()
    page.locator("#tab-outline").click()
    assert page.locator("#outline").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#left").is_visible()
    page.locator("#open-left").click()
    page.locator("#outline [data-key^=n]").first.click()
    settle(page)
    assert not page.locator("#left").is_visible()
    assert page.inner_text("#details h2").strip() == app(page, "app.model.title(app.node)")
    page.locator("#close-right").click()
    assert not page.locator("#right").is_visible()
    page.locator("#open-right").click()
    assert page.locator("#details").is_visible()


def test_the_theme_is_chosen_by_a_key(opened: Opens) -> None:
    page = opened(mean_of_squares())
    seen = []
    for _ in range(3):
        page.keyboard.press("t")
        settle(page)
        seen.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    assert seen == ["rgb(255, 255, 255)", "rgb(13, 17, 23)", "rgb(255, 255, 255)"]


def test_help_lists_the_keys(opened: Opens) -> None:
    page = opened(mean_of_squares())
    page.keyboard.press("?")

    assert "one event back" in page.inner_text("#keys")
    page.keyboard.press("Escape")
    assert not page.locator("#keys").is_visible()


@needs_axe
@pytest.mark.parametrize(("width", "dark"), [(1600, False), (1600, True), (400, False)])
def test_nothing_keeps_anyone_out(opened: Opens, width: int, *, dark: bool) -> None:
    page = opened(nan_in_backward(), width=width, dark=dark, earlier=mean_of_squares())
    app(page, "app.selectNode(1)")
    for tab in ("outline", "findings", "slowest", "compared"):
        page.evaluate("tab => document.getElementById(`tab-${tab}`).click()", tab)
        settle(page)
        check_accessible(page)


def test_it_works_in_a_frame_of_a_notebook(chromium: Any, tmp_path: Path) -> None:
    file = tmp_path / "notebook.html"
    file.write_text(show(mean_of_squares())._repr_mimebundle_()["text/html"], encoding="utf-8")
    said: list[str] = []
    page = chromium.new_page()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(file.as_uri())
    frame = page.frames[1]
    frame.wait_for_selector("html[data-ready]", timeout=10_000)
    frame.locator("#back").click()
    page.wait_for_timeout(400)

    assert "event" in frame.inner_text("#now")
    page.close()
    assert said == []


def test_where_several_threads_ran_nodes_each_box_says_which(opened: Opens) -> None:
    page = opened(load(GALLERY / "two_devices.json"))

    said = app(
        page,
        "app.picture.all.filter(box => box.is === 'node')"
        ".map(box => [box.title, box.lane, box.lines.at(-1)])",
    )
    assert ["PowBackward0", 2, "thread sim:1"] in said
    assert ["AddBackward0", 0, "thread MainThread"] in said
    legend = page.inner_text("#legend")
    assert [f"thread {name}" in legend for name in ("MainThread", "sim:0", "sim:1")] == [True] * 3
    page.keyboard.press("g")
    settle(page)
    calls = app(page, "app.graphs.forward.model.lanes")
    assert len(calls) > 1
