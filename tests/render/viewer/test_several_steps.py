"""A page of several steps: what is said of one backward is of that one, in Chromium."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gradscope.trace.schema import (
    Edge,
    Frame,
    GraphTask,
    Node,
    NodeBegin,
    NodeEnd,
    Row,
    Saved,
    Stack,
    Step,
)
from gradscope.trace.trace import Trace
from tests.render.viewer.settled import settle, wait_until
from tests.shared.by_hand import trace_of
from tests.shared.example_traces import shared_weight, two_layers

pytestmark = pytest.mark.browser

Opens = Callable[..., Any]

OUTLINE = "[...document.querySelectorAll('#outline .name')].map(name => name.textContent)"
PICTURE = "gradscope.picture.all.map(box => [box.title, box.x, box.y])"


def text(page: Any, of: str, words: str) -> str:
    """What stands there, as soon as these words do."""
    there = "([of, words]) => document.querySelector(of).innerText.includes(words)"
    wait_until(page, there, [of, words])
    found: str = page.inner_text(of)
    return found


def test_every_step_looks_alike_and_a_leaf_leaves_nobody_in_another(opened: Opens) -> None:
    page = opened(two_layers(steps=3))
    leaf = "gradscope.picture.all.find(box => box.title === 'layers1.linear.weight').node"
    seen = []
    for backward in range(3):
        page.evaluate(f"gradscope.setBackward({backward}); gradscope.selectNode({leaf})")
        settle(page)
        shown = page.evaluate("[gradscope.backward, gradscope.tree.title(gradscope.root)]")
        assert shown == [backward, f"step {backward}"]
        assert page.locator("#outline [aria-selected=true]").count() == 1
        outline = page.evaluate(OUTLINE)
        plain = [name.split("#")[0].replace(f"step {backward}", "step") for name in outline]
        seen.append((plain, page.evaluate(PICTURE)))
    assert "layers1.linear.weight" in seen[0][0]
    assert seen == [seen[0]] * 3


def test_gradients_and_events_are_those_of_the_backward_shown(opened: Opens) -> None:
    page = opened(two_layers(steps=3))
    page.evaluate("gradscope.setBackward(1)")
    leaf = "gradscope.model.nodes.texts.indexOf('layers0.linear.bias')"
    column = "[...gradscope.model.nodes.get('leaf')]"
    page.evaluate(f"gradscope.selectNode({column}.indexOf({leaf}))")

    said = text(page, "#details", "1 of 1 gradient arrived")
    assert "comes from: 1 gradient\n" in said
    assert said.count("moved at") + said.count("added in place at") <= 1
    link = page.get_by_role("button", name="started: event")
    number = link.inner_text().removeprefix("started: event ")
    link.click()
    assert text(page, "#now", f"event {number} of ")

    page.evaluate("gradscope.selectGroup(gradscope.tree.of[gradscope.picture.all[0].node])")
    assert text(page, "#details", "comes from: 1 gradient\n")
    page.evaluate("gradscope.setBackward(-1)")
    page.evaluate(f"gradscope.selectNode({column}.indexOf({leaf}))")
    assert text(page, "#details", "comes from: 3 gradients, in all backwards\n")


def test_what_another_step_made_is_shown_in_the_backward_that_ran_it(opened: Opens) -> None:
    rows: list[Row] = [Step(step, step, begin=9 * step, end=9 * step + 8) for step in range(2)]
    rows += [
        Node(node, f"{name}Backward0", node, step=node // 2) for node, name in enumerate("ABC")
    ]
    rows += [Edge(2, 0, 0), Edge(1, 0, 0)]
    rows += [GraphTask(task, roots=(task + 1,), step=task, begin=9 * task) for task in range(2)]
    for t, (task, node) in enumerate([(0, 1), (1, 2), (1, 0)]):
        rows.append(NodeBegin(task=task, node=node, t=3 + 5 * t))
        rows.append(NodeEnd(task=task, node=node, t=4 + 5 * t))
    page = opened(trace_of(*rows))
    page.evaluate("gradscope.setBackward(1); gradscope.selectNode(0)")

    assert text(page, "#details", "comes from: 1 gradient\nfrom CBackward0")
    assert page.evaluate("[gradscope.backward, gradscope.tree.title(gradscope.root)]") == [
        1,
        "step 0",
    ]


def test_what_was_slowest_is_listed_whole_and_a_name_leads_to_its_slowest_run(
    opened: Opens,
) -> None:
    page = opened(shared_weight(20), width=1000)
    page.locator("#tab-slowest").click()
    settle(page)

    rows = page.locator("#slowest-panel .row")
    assert rows.count() == 15
    page.get_by_role("button", name="⋯ 28 more").click()
    assert rows.count() == 43
    assert page.get_by_role("button", name="more").count() == 0
    apart = """[...document.querySelectorAll('#slowest-panel .row')].every(row => {
      const [name, much] = [...row.children].slice(1).map(part => part.getBoundingClientRect());
      return name.right <= much.left && much.right <= row.getBoundingClientRect().right; })"""
    assert page.evaluate(apart)
    page.locator("#slowest-panel table .link").last.click()
    run = "gradscope.runOf(gradscope.node)"
    settle(page)
    assert page.evaluate(f"gradscope.model.runs.get('begun')[{run}] === gradscope.event")


def trained(times: list[int], *more: Row) -> Trace:
    """A step for each of these times, which its second node takes; the first takes 10 ns."""
    rows: list[Row] = [Frame(0, "net.py", 3, "Net.forward", "x = f(x)"), Stack(0, 0)]
    for step, ns in enumerate(times):
        at, first = 1_000 * step, 3 * step
        rows += [
            Step(step, step, begin=at, end=at + 999),
            Node(first, "MulBackward0", step=step, stack=0, t=at),
            Node(first + 1, "ExpBackward0", step=step, stack=0, t=at + 1),
            Edge(first + 1, 0, first),
            GraphTask(step, roots=(first + 1,), step=step, begin=at + 5, end=at + 990),
            NodeBegin(task=step, node=first + 1, t=at + 10),
            NodeEnd(task=step, node=first + 1, t=at + 10 + ns),
            NodeBegin(task=step, node=first, t=at + 900),
            NodeEnd(task=step, node=first, t=at + 910),
        ]
    return trace_of(*rows, *more)


def test_a_node_says_how_long_it_took_in_the_other_steps(opened: Opens) -> None:
    page = opened(trained([40, 50, 700, 60]))
    page.select_option("#backward", "2")
    page.evaluate("gradscope.selectNode(gradscope.model.nodeNamed('ExpBackward0#3'))")

    said = text(page, "#details", "other steps")
    assert "for 700 ns" in said
    assert "median 50 ns of 3 (40 ns to 60 ns); here 12 times the longest" in said


def test_another_step_keeps_what_is_selected(opened: Opens) -> None:
    page = opened(trained([40, 50, 60]))
    page.evaluate("gradscope.selectNode(gradscope.model.nodeNamed('ExpBackward0#1'))")
    settle(page)

    page.select_option("#backward", "2")
    settle(page)
    assert page.evaluate("gradscope.model.unique(gradscope.node)") == "ExpBackward0#3"
    assert "✓ done" in page.inner_text("#details")
    page.select_option("#backward", "-1")
    settle(page)
    assert page.evaluate("gradscope.model.unique(gradscope.node)") == "ExpBackward0#3"


def test_going_to_the_peak_shows_its_step(opened: Opens) -> None:
    saved = [Saved(step, 3 * step + 1, "self", bytes=64 << step, t=1_000 * step + 3,
                   released=1_000 * step + 800) for step in range(3)]  # fmt: skip
    page = opened(trained([40, 50, 60], *saved))
    page.click("#tab-memory")

    page.click("text=go to the peak")
    settle(page)
    assert page.evaluate("gradscope.tree.title(gradscope.root)") == "step 2"
    assert page.locator("#elsewhere").is_hidden()
    assert page.evaluate("gradscope.t - gradscope.axis.least >= 0")
