"""A trace as views see it: rows by id, events in order, frames, steps."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from gradscope.errors import UnknownNameError
from gradscope.trace.ragged import Ragged, concatenate, take
from gradscope.trace.schema import (
    NONE,
    Event,
    Frame,
    Meta,
    Node,
    NodeBegin,
    NodeEnd,
    Op,
    Pop,
    Push,
    Row,
    Stack,
    Step,
    TaskBegin,
    Tensor,
    Value,
)
from gradscope.trace.table import CHUNK
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of
from tests.shared.strategies import traces


def test_an_empty_trace_has_every_table_and_no_rows() -> None:
    trace = trace_of()

    assert trace.event_count == 0
    assert list(trace.events()) == []
    assert list(trace.rows(Node)) == []
    assert trace.table(Node)["sequence_nr"].dtype == np.int64
    assert trace.table(Value)["min"].dtype == np.float64
    assert trace.table(Tensor)["leaf"].dtype == np.bool_
    assert len(trace.table(Node)["inputs"]) == 0
    assert trace.meta == {}
    assert not trace.truncated


@pytest.mark.parametrize("ids", [[0, 1, 2], [5, 6, 7], [7, 5, 6], [10**15, 3, 0], [4]])
def test_rows_are_found_by_id_dense_or_not(ids: list[int]) -> None:
    nodes = [Node(id, f"n{id}") for id in ids]

    table = trace_of(*nodes).table(Node)

    assert [table.row(id) for id in ids] == nodes
    assert [table.index(id) for id in ids] == list(range(len(ids)))
    assert [table.has(id) for id in [*ids, -1, 8, 10**15 + 1, 2**62]] == [True] * len(ids) + [
        False
    ] * 4
    assert table.positions(np.array([*ids, -1, 8])).tolist() == [*range(len(ids)), NONE, NONE]
    with pytest.raises(UnknownNameError, match="there is no node 8 in this trace"):
        table.row(8)
    with pytest.raises(
        UnknownNameError, match=f"node has {len(ids)} rows, there is none at position 9"
    ):
        table.at(9)


def test_of_two_rows_with_one_id_the_first_is_found() -> None:
    assert trace_of(Node(3, "a"), Node(3, "b"), Node(1)).table(Node).row(3).name == "a"


def test_a_column_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(UnknownNameError, match="step has no column 'nr'; it has id, number, begin"):
        trace_of().table(Step)["nr"]


def test_text_is_an_id_in_columns_and_text_in_rows() -> None:
    trace = trace_of(Node(0, "MulBackward0"), Node(1), Node(2, "MulBackward0"))
    names = trace.table(Node)["name"]

    assert names.tolist() == [1, 0, 1]
    assert trace.texts(names) == ["MulBackward0", "", "MulBackward0"]
    assert trace.table(Node).texts("name") == ["MulBackward0", "", "MulBackward0"]
    assert trace.text(NONE) == trace.text(0) == ""
    with pytest.raises(UnknownNameError, match="there is no string 9"):
        trace.text(9)


def test_events_of_all_kinds_come_in_one_order() -> None:
    rows = [
        Push(seq=4, node=1),
        Pop(seq=2, node=1),
        NodeBegin(seq=3, node=1, thread=5),
        Push(seq=0, node=0, task=7),
        NodeEnd(seq=1, node=2, task=7),
    ]
    trace = trace_of(*rows)

    in_order = sorted(rows, key=lambda event: event.seq)
    assert list(trace.events()) == in_order
    assert list(trace.events(Push, NodeEnd)) == [rows[3], rows[4], rows[0]]
    assert list(trace.events(task=7)) == [rows[3], rows[4]]
    assert list(trace.events(Push, task=7)) == [rows[3]]
    assert list(trace.events(node=1, thread=5)) == [rows[2]]
    assert list(trace.events(TaskBegin)) == []
    assert [trace.place_of(seq) for seq in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(UnknownNameError, match="there is no event 5"):
        trace.place_of(5)


def test_columns_of_all_events_stand_in_order() -> None:
    trace = trace_of(TaskBegin(task=3), Push(task=3, node=8, length=1), NodeBegin(node=8))
    order = trace.order()

    assert order.seq.tolist() == [0, 1, 2]
    assert [trace.event_kinds[kind] for kind in order.kind] == [TaskBegin, Push, NodeBegin]
    assert order.position.tolist() == [0, 0, 0]
    assert trace.event_column("node").tolist() == [NONE, 8, 8]
    assert trace.event_column("length").tolist() == [NONE, 1, NONE]


def test_events_by_the_thousand_are_the_rows_of_their_tables() -> None:
    events = [(Push, Pop, NodeBegin)[n * n % 3](seq=n, node=n % 7) for n in range(3 * CHUNK + 5)]

    assert list(trace_of(*events).events()) == events


def test_events_without_a_number_follow_the_one_before() -> None:
    trace = trace_of(Push(), Pop(seq=7), NodeBegin(), Node(1), NodeEnd())

    assert [event.seq for event in trace.events()] == [0, 7, 8, 9]


def test_of_two_facts_of_one_key_the_later_holds() -> None:
    trace = trace_of(
        Meta("steps", "1"), Meta("steps", "2"), Meta("odd", "{"), meta={"level": "engine"}
    )

    assert trace.meta == {"level": "engine", "steps": 2, "odd": "{"}


def test_a_stack_is_its_frames_innermost_first() -> None:
    inner = Frame(0, "train.py", 41, "loss", "return (a - b) ** 2")
    outer = Frame(1, "train.py", 90, "<module>", "loss(a, b).backward()")
    trace = trace_of(inner, outer, Stack(0, frame=1), Stack(1, frame=0, parent=0))

    assert trace.frames(1) == (inner, outer)
    assert trace.site(1) == "train.py:41"
    assert trace.source(1) == "return (a - b) ** 2"
    assert (trace.frames(NONE), trace.site(NONE), trace.source(NONE)) == ((), "", "")


def test_a_stack_in_a_circle_or_with_a_lost_frame_ends() -> None:
    trace = trace_of(Frame(0, "a.py", 1), Stack(0, frame=0, parent=1), Stack(1, frame=9, parent=0))

    assert trace.frames(1) == (Frame(0, "a.py", 1),)
    assert trace.site(1) == ""


def test_rows_with_nan_compare_equal() -> None:
    trace = trace_of(Value(0, min=float("nan"), max=2.0))

    assert list(trace.rows(Value)) == [Value(0, min=math.nan, max=2.0)]


def test_nothing_in_a_trace_can_be_written() -> None:
    trace = trace_of(Node(0, inputs=(1,)), Push(), Value(0))
    arrays = [
        trace.table(Node)["id"],
        trace.table(Node)["inputs"].values,
        trace.table(Node)["inputs"].offsets,
        trace.table(Value)["min"],
        trace.table(Push)["seq"],
    ]

    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5


def test_traces_with_other_string_ids_and_the_same_text_are_equal() -> None:
    one = trace_of(Op(0, "mul"), Op(1, "add"))
    other = trace_of(Meta("add", "1"), Op(0, "mul"), Op(1, "add"))

    facts = {"meta": one.table(Meta)}
    again = Trace(other.tables | facts)
    assert again == one
    assert hash(again) != 0
    assert other != one


@pytest.mark.parametrize(
    ("row", "other"),
    [
        (Node(1, "a"), Node(1, "b")),
        (Node(1, inputs=(1,)), Node(1, inputs=(1, 1))),
        (Value(1, min=0.0), Value(1, min=-0.0)),
        (Value(1, min=1.0), Value(1)),
        (Tensor(1, leaf=True), Tensor(1)),
        (Push(), Pop()),
        (Push(seq=1), Push(seq=2)),
    ],
)
def test_traces_that_differ_in_a_cell_differ(row: Row, other: Row) -> None:
    assert trace_of(row) != trace_of(other)
    assert trace_of(row) == trace_of(row)
    assert trace_of(row, row) != trace_of(row)


@given(traces())
def test_equal_traces_have_equal_hashes(trace: Trace) -> None:
    kinds = [table.row_type for table in trace.tables.values() if table.name != "string"]
    copy = trace_of(*(row for kind in kinds if kind for row in trace.rows(kind)))

    assert copy == trace
    assert hash(copy) == hash(trace)


@given(st.lists(st.lists(st.integers(-5, 5), max_size=4), max_size=8), st.data())
def test_ragged_columns_hold_lists(cells: list[list[int]], data: st.DataObject) -> None:
    ragged = Ragged.of(cells)
    chosen = data.draw(st.lists(st.integers(0, len(cells) - 1))) if cells else []

    assert ragged.tuples() == [tuple(cell) for cell in cells]
    assert [cell.tolist() for cell in ragged] == cells
    assert len(ragged) == len(cells)
    assert ragged.lengths.tolist() == [len(cell) for cell in cells]
    assert ragged.owners.tolist() == [place for place, cell in enumerate(cells) for _ in cell]
    picked = take(ragged, np.array(chosen, np.int64))
    assert [cell.tolist() for cell in picked] == [cells[place] for place in chosen]
    joined = concatenate([ragged, picked])
    assert [cell.tolist() for cell in joined] == cells + [cells[place] for place in chosen]
    with pytest.raises(IndexError):
        ragged[len(cells)]


def test_a_ragged_column_counts_from_its_end() -> None:
    assert Ragged.of([[1], [2, 3]])[-1].tolist() == [2, 3]


def test_every_event_begins_with_the_same_columns() -> None:
    for kind in trace_of().event_kinds:
        assert list(trace_of().table(kind).data)[:4] == ["seq", "t", "thread", "task"]
        assert issubclass(kind, Event)
