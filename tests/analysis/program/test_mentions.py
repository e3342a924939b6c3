from __future__ import annotations

from hypothesis import given

from gradscope.analysis.program.mentions import Mention, events_about, mentions
from gradscope.trace.schema import Decrement, Edge, GraphTask, Node, Op, Push, Saved, Value
from gradscope.trace.schema.declare import EVENTS, TABLES, columns
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of
from tests.shared.strategies import traces


def test_every_row_that_names_a_node_is_found_by_table_and_column() -> None:
    saved, op = Saved(0, node=1, slot="self"), Op(4, "mul", node=1)
    value, task = Value(2, node=1, data="[1.0]"), GraphTask(3, roots=(0, 1))
    trace = trace_of(
        Node(0, "A"), Node(1, "B"), Edge(0, 0, 1), Edge(1, 0, 0), saved, op, value, task
    )

    assert mentions(trace, "node", 1) == (
        Mention("op", "node", many=False, rows=(op,)),
        Mention("edge", "node", many=False, rows=(Edge(1, 0, 0),)),
        Mention("edge", "next", many=False, rows=(Edge(0, 0, 1),)),
        Mention("saved", "node", many=False, rows=(saved,)),
        Mention("graph_task", "roots", many=True, rows=(task,)),
        Mention("value", "node", many=False, rows=(value,)),
    )


def test_events_about_a_node_come_in_order_each_once() -> None:
    trace = trace_of(
        Push(node=1), Decrement(node=0, source=1), Decrement(node=1, source=1), Push(node=0)
    )

    assert [event.seq for event in events_about(trace, "node", 1)] == [0, 1, 2]


def count_of(trace: Trace, table: str, id: int) -> int:
    """How many rows name this one in a column of theirs, counted the slow way."""
    found = 0
    for name, kind in TABLES.items():
        if name in {f"event.{event}" for event in EVENTS}:
            continue
        for column in columns(kind):
            if column.ref == table:
                cells = [getattr(row, column.name) for row in trace.rows(kind)]
                found += sum(id in cell if column.many else cell == id for cell in cells)
    return found


@given(traces())
def test_nothing_that_names_a_row_is_left_out(trace: Trace) -> None:
    for table in ("node", "tensor", "op", "storage"):
        found = sum(len(mention.rows) for mention in mentions(trace, table, 1))

        assert found == count_of(trace, table, 1)
