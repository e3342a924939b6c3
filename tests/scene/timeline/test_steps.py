from __future__ import annotations

from gradscope.analysis.report import inspect
from gradscope.scene.report import headline
from gradscope.scene.timeline.steps import MOST, step_table
from gradscope.scene.timeline.timeline import NO_ENGINE, TimelineOptions, timeline_scene
from gradscope.trace.schema import Device, DeviceTime, GraphTask, Step
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of
from tests.shared.example_traces import two_layers


def of_steps(*took: int) -> Trace:
    steps = [Step(id, id, begin=1_000 * id, end=1_000 * id + ns) for id, ns in enumerate(took)]
    tasks = [
        GraphTask(step.id, begin=step.begin, end=step.begin + 5, step=step.id) for step in steps
    ]
    return trace_of(*steps, *tasks)


def test_the_slowest_step_is_listed_where_not_all_are() -> None:
    table = step_table(of_steps(*[10] * 20, 90, *[10] * 5), None, rows=40)

    assert table is not None
    assert [row[0] for row in table.rows] == [*map(str, range(MOST)), "20"]
    assert table.rows[0] == ("0", "10 ns", "", "5 ns", "5 ns", "0")
    assert table.note == (
        "and 17 more; --all for all; slowest: step 20, 90 ns (step 0 includes the start)"
    )


def test_all_steps_or_one_can_be_listed() -> None:
    trace = of_steps(*[10] * 20)

    assert [len(table.rows) for each in (0, 40) if (table := step_table(trace, None, each))] == [
        20,
        MOST,
    ]
    one = step_table(trace, 7, 40)
    assert one is not None
    assert ([row[0] for row in one.rows], one.note) == (["7"], "")


def test_where_there_is_one_step_or_a_backward_is_chosen_nothing_is_listed() -> None:
    assert step_table(of_steps(10), None, 40) is None
    assert timeline_scene(two_layers(steps=2), TimelineOptions(task=0)).steps is None
    assert timeline_scene(two_layers(steps=2)).steps is not None


def test_a_trace_without_events_of_the_engine_still_tells_its_steps() -> None:
    scene = timeline_scene(of_steps(10, 20))

    assert scene.steps is not None
    assert [row[:2] for row in scene.steps.rows] == [("0", "10 ns"), ("1", "20 ns")]
    assert (scene.tasks, scene.notes) == ((), (NO_ENGINE,))


def test_times_on_devices_have_a_column_and_a_line() -> None:
    tasks = [GraphTask(id, begin=10 * id, end=10 * id + 1, step=id) for id in range(2)]
    steps = [Step(id, id, begin=10 * id, end=10 * id + 9) for id in range(2)]
    times = DeviceTime(0, 1, took=700), DeviceTime(1, 1, took=300, since=2_000)
    trace = trace_of(*steps, *tasks, Device(1, name="cuda:0"), *times)

    table = step_table(trace, None, 0)
    assert table is not None
    assert [column.title for column in table.columns][3:5] == ["backward", "on device"]
    assert [row[4] for row in table.rows] == ["700 ns", "300 ns"]
    assert headline(inspect(trace))[-1] == (
        "on cuda:0: 2 backwards took 1.00 µs, 2.00 µs between them"
    )
    alone = trace_of(steps[0], tasks[0], Device(1, name="cuda:0"), times[0])
    assert headline(inspect(alone))[-1] == "on cuda:0: 1 backward took 700 ns"
