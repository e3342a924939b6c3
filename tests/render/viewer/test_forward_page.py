"""The forward graph in the page: what it draws, and that one selection holds in both graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gradscope.trace.schema import (
    Edge,
    Frame,
    GraphTask,
    Module,
    Node,
    NodeBegin,
    NodeEnd,
    Op,
    Phase,
    Push,
    Row,
    Saved,
    Stack,
    Tensor,
    Version,
    Why,
)
from gradscope.trace.trace import Trace
from tests.render.viewer.settled import settle
from tests.render.viewer.test_in_browser import OVERLAPS
from tests.shared.browsing import check_accessible, needs_axe
from tests.shared.by_hand import trace_of

pytestmark = pytest.mark.browser

Opens = Callable[..., Any]
COMPUTED: list[Row] = [
    Module(0, "", "Net"),
    Module(1, "head", "Head"),
    Tensor(0, (2,), dtype="float32", name="w", storage=0, leaf=True, requires_grad=True),
    Tensor(1, (2,), dtype="float32", name="x", storage=1),
    *(Tensor(id, (2,), dtype="float32", storage=id) for id in (2, 3, 4)),
]


def program() -> Trace:
    """w * x, relu in place, and its mean in the head, whose backward ran; and a call on data."""
    nodes = ("AccumulateGrad", "MulBackward0", "ReluBackward0", "MeanBackward0")
    return trace_of(
        *COMPUTED,
        Op(0, "mul", begin=0, end=1_000, inputs=(0, 1), outputs=(2,), node=1),
        Op(1, "relu_", begin=2_000, end=2_500, inputs=(2,), outputs=(2,), node=2, module=1),
        Op(2, "mean", begin=3_000, end=3_100, inputs=(2,), outputs=(3,), node=3, module=1),
        Op(3, "neg", begin=4_000, end=4_100, inputs=(1,), outputs=(4,), why=Why.NO_GRAD),
        Version(storage=2, tensor=2, old=0, new=1, op=1),
        *(
            Node(id, name, op=id - 1, module=int(id > 1), inputs=(0,) * (id == 0))
            for id, name in enumerate(nodes)
        ),
        *(Edge(node, 0, node - 1) for node in (3, 2, 1)),
        Saved(0, node=1, slot="other", tensor=1, bytes=8),
        GraphTask(0, roots=(3,), begin=5_000, end=9_000),
        *(
            event
            for at, node in enumerate((3, 2, 1, 0))
            for event in (
                Push(task=0, node=node, t=5_000 + 900 * at),
                NodeBegin(task=0, node=node, t=5_100 + 900 * at),
                NodeEnd(task=0, node=node, t=5_700 + 900 * at),
            )
        ),
    )


def shown(page: Any, expression: str) -> Any:
    """Of the graph that is shown."""
    settle(page)
    return page.evaluate(
        "(() => { const { graphs } = window.gradscope; const app = graphs.shown;"
        f"return {expression}; }})()"
    )


def details(page: Any) -> str:
    settle(page)
    return " ".join(page.inner_text("#details").split())


def test_data_stands_above_calls_and_results_below(opened: Opens) -> None:
    page = opened(program())
    assert shown(page, "graphs.forward") is None  # made when it is asked for
    page.keyboard.press("g")

    arrows = shown(
        page,
        "app.picture.edges.map(({tail, head}) => [tail, head]"
        ".map(key => app.picture.boxes.get(key)).map(box => [box.title, box.y]))",
    )
    assert sorted((tail[0], head[0]) for tail, head in arrows) == [
        ("mul", "relu_"),
        ("relu_", "mean"),
        ("w", "mul"),
        ("x", "mul"),
        ("x", "neg"),
    ]
    assert all(tail[1] < head[1] for tail, head in arrows)
    assert shown(page, OVERLAPS) == []
    assert page.locator("#which").input_value() == "forward"


def test_one_selection_holds_in_both_graphs(opened: Opens) -> None:
    page = opened(program())
    page.evaluate("gradscope.selectNode(1)")
    page.keyboard.press("g")

    assert shown(page, "app.model.title(app.node)") == "mul"
    text = details(page)
    assert text.startswith("mul forward call")
    assert "2 input tensors" in text
    assert "node MulBackward0" in text
    assert "other [2] float32, 8 bytes" in text  # what the node saves

    page.keyboard.press("/")
    page.locator("#search").fill("relu_")
    page.keyboard.press("Enter")
    assert shown(page, "graphs.main.model.title(graphs.main.node)") == "ReluBackward0"
    assert "wrote in place version 0 → 1" in details(page)

    page.locator("#search").fill("neg")
    page.keyboard.press("Enter")
    assert shown(page, "[graphs.main.node, app.model.title(app.node)]") == [-1, "neg"]
    assert "no node: grad mode was off" in details(page)

    page.locator("#search").fill("head")
    page.keyboard.press("Enter")
    settle(page)
    page.locator("#which").select_option("backward")
    assert shown(page, "app.tree.title(app.group)") == "head · Head"
    page.evaluate("gradscope.selectNode(3)")
    settle(page)
    page.locator("#details").get_by_role("button", name="mean").click()
    assert shown(page, "[app === graphs.forward, app.model.title(app.node)]") == [True, "mean"]


def test_a_call_has_the_state_of_the_node_it_made(opened: Opens) -> None:
    page = opened(program())
    page.keyboard.press("g")
    page.keyboard.press("Home")
    page.keyboard.press(">")

    titles = "[...app.states.of.keys()].filter(call => app.states.of[call] === 3)"
    assert shown(page, f"{titles}.map(call => app.model.title(call))") == ["mean"]
    page.keyboard.press(">")
    assert shown(page, f"{titles}.map(call => app.model.title(call))") == ["relu_"]


def test_a_link_leads_into_the_forward_graph(opened: Opens) -> None:
    page = opened(program(), "#v=forward&c=neg")

    assert shown(page, "[app === graphs.forward, app.model.title(app.node)]") == [True, "neg"]
    page.wait_for_timeout(300)
    assert page.evaluate("location.hash") == "#v=forward&c=neg"


def test_a_program_without_gradients_opens_with_what_it_computed(opened: Opens) -> None:
    page = opened(trace_of(*COMPUTED, Op(3, "neg", begin=0, end=9, inputs=(1,), outputs=(4,))))

    assert shown(page, "app.picture.all.map(box => box.title)") == ["neg", "x"]
    assert "nothing required a gradient" in page.text_content("#summary-panel details")
    now = page.inner_text("#now")
    assert "neg runs" in now
    assert now.endswith("no backward ran: nothing required a gradient")


def test_without_calls_there_is_no_switch_and_it_is_said_why(opened: Opens) -> None:
    page = opened(trace_of(Node(0, "MulBackward0"), GraphTask(0, roots=(0,))))

    assert page.locator("#which").is_hidden()
    said = page.text_content("#summary-panel details")
    assert "forward graph: this trace holds no forward calls" in said


@needs_axe
@pytest.mark.parametrize("dark", [False, True])
def test_the_forward_graph_is_accessible(opened: Opens, *, dark: bool) -> None:
    page = opened(program(), "#v=forward&n=ReluBackward0", dark=dark)
    settle(page)

    check_accessible(page)


def test_where_operands_are_not_recorded_arrows_are_the_order_of_calls_and_say_so(
    opened: Opens,
) -> None:
    page = opened(trace_of(*(Op(n, name, begin=n) for n, name in enumerate(("exp", "log", "sin")))))
    page.evaluate("gradscope.graphs.forward.selectNode(1)")

    text = details(page)
    assert "Not recorded: which tensor goes where started after exp and before sin" in text
    assert "input tensor" not in text.split("Source")[0]
    edges = shown(page, "app.picture.edges.map(({tail, head}) => `${tail} ${head}`)")
    assert edges == ["n0 n1", "n1 n2"]


def test_calls_have_the_names_that_they_have_everywhere_and_their_lines_and_times(
    opened: Opens,
) -> None:
    page = opened(
        trace_of(
            *COMPUTED,
            Frame(0, "net.py", 7, "", "y = x * x"),
            Stack(0, 0),
            Op(0, "mul", begin=0, end=1, inputs=(1,), outputs=(2,), phase=Phase.OPTIMIZER),
            Op(1, "mul", begin=2, end=4, inputs=(1,), outputs=(3,), node=1, stack=0),
            Op(2, "mul", begin=5, end=9, inputs=(3,), outputs=(4,), stack=0),
            Node(1, "MulBackward0", stack=0, op=1),
            GraphTask(0, roots=(1,), begin=10, end=20),
        ),
        "#v=forward",
    )

    calls = "[...app.model.nodes.get('id').keys()].filter(each => !app.model.isLeaf(each))"
    said = "[app.model.unique(each), app.model.place(app.model.frameOf(each)), app.nsOf(each)]"
    assert shown(page, f"{calls}.map(each => {said})") == [
        ["mul#2", "net.py:7", 2],
        ["mul#3", "net.py:7", 4],
    ]
