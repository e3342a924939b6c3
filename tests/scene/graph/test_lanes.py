from __future__ import annotations

from gradscope.scene.graph.graph import graph_scene
from gradscope.scene.graph.options import GraphOptions
from gradscope.trace.schema import (
    NONE,
    Device,
    Edge,
    GraphTask,
    Module,
    Node,
    NodeBegin,
    NodeEnd,
    Op,
    Storage,
    Tensor,
    Thread,
)
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of


def on_two(threads: tuple[int, int], devices: tuple[int, int]) -> Trace:
    """Two nodes in a module, each on a thread and with a gradient on a device."""
    return trace_of(
        *(Thread(id, name) for id, name in enumerate(("main", "sim:0"))),
        *(Device(id, name) for id, name in enumerate(("cpu", "sim:0"))),
        Module(0, "net", "Net"),
        *(Tensor(id, device=device) for id, device in enumerate(devices)),
        *(Node(id, f"N{id}", inputs=(id,), module=0) for id in range(2)),
        Node(2, "Sum", inputs=()),
        Edge(1, 0, 0),
        Edge(2, 0, 1),
        GraphTask(0, roots=(2,)),
        *(
            row(task=0, node=id, thread=thread, t=10 * (2 - id) + 5 * (row is NodeEnd))
            for id, thread in ((2, 0), (1, threads[1]), (0, threads[0]))
            for row in (NodeBegin, NodeEnd)
        ),
    )


def said(trace: Trace, limit: int = 60) -> dict[str, tuple[str, int]]:
    boxes = graph_scene(trace, GraphOptions(limit=limit)).boxes
    return {box.title: (box.lines[-1].text, box.lane) for box in boxes}


def test_on_one_thread_and_device_nothing_is_said_of_them() -> None:
    scene = graph_scene(on_two((0, 0), (0, 0)))

    assert scene.lanes == ()
    assert {box.lane for box in scene.boxes} == {NONE}
    assert {box.lines[-1].text[:3] for box in scene.boxes} == {"ran"}


def test_of_several_threads_each_box_says_its_own() -> None:
    trace = on_two((0, 1), (0, 0))

    assert graph_scene(trace).lanes == ("thread main", "thread sim:0")
    assert said(trace) == {
        "Sum": ("thread main", 0),
        "N1": ("thread sim:0", 1),
        "N0": ("thread main", 0),
    }


def test_of_several_devices_each_box_says_the_one_its_gradient_is_on() -> None:
    trace = on_two((0, 0), (0, 1))

    assert graph_scene(trace).lanes == ("on cpu", "on sim:0")
    assert said(trace) == {
        "Sum": ("ran 1st, 5 ns", NONE),
        "N1": ("on sim:0", 1),
        "N0": ("on cpu", 0),
    }


def test_a_folded_box_whose_nodes_ran_in_several_places_says_so() -> None:
    assert said(on_two((0, 1), (0, 1)), limit=2)["net · Net"] == ("in 2 places", NONE)


def test_a_view_is_where_its_memory_is_whatever_it_was_noted_like() -> None:
    """As of a parameter that was moved after it was first seen."""
    trace = trace_of(
        *(Device(id, name) for id, name in enumerate(("cpu", "sim:0"))),
        *(Tensor(id, device=0, storage=id) for id in range(2)),
        Storage(0, device=0),
        Storage(1, device=1),
        *(Op(id, "t", begin=id, outputs=(id,)) for id in range(2)),
    )
    scene = graph_scene(trace)

    assert scene.lanes == ("on cpu", "on sim:0")
    assert [box.lane for box in scene.boxes] == [0, 1]
