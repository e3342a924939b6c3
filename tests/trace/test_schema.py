"""The schema itself: what a newcomer who declares something new could forget."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle

import pytest

from gradscope.trace import schema
from gradscope.trace.file.file_lines import RESERVED
from gradscope.trace.schema import events, tables
from gradscope.trace.schema.declare import EVENTS, NONE, TABLES, Event, Row, columns


@pytest.mark.parametrize("kind", TABLES.values(), ids=lambda kind: kind.TABLE)
def test_every_table_is_declared_in_full(kind: type[Row]) -> None:
    declared = columns(kind)

    assert getattr(schema, kind.__name__) is kind
    assert kind.__doc__
    assert not kind.__doc__.startswith(f"{kind.__name__}("), "a table needs a docstring"
    assert not {column.name for column in declared} & {*RESERVED}
    assert {column.ref for column in declared} <= {*TABLES, None}
    assert all(column.type in {int, float, bool, str} for column in declared)


@pytest.mark.parametrize("kind", TABLES.values(), ids=lambda kind: kind.TABLE)
def test_cells_nobody_fills_in_are_nothing(kind: type[Row]) -> None:
    nothing = {int: (0, NONE), float: (math.nan,), bool: (False,), str: ("",)}

    for column in columns(kind):
        if column.ref and not column.many and column.name != "id":
            assert column.default == NONE
        elif column.many:
            assert column.default == ()
        else:
            assert column.default in nothing[column.type]


def test_every_name_of_the_schema_is_importable_from_it() -> None:
    for module in (events, tables):
        for name, thing in vars(module).items():
            if isinstance(thing, type) and thing.__module__ == module.__name__:
                assert getattr(schema, name) is thing


def test_every_event_kind_is_a_table_of_its_own() -> None:
    for name, kind in EVENTS.items():
        assert TABLES[f"event.{name}"] is kind
        assert name == kind.KIND
        assert issubclass(kind, Event)
        assert [column.name for column in columns(kind)][:4] == ["seq", "t", "thread", "task"]


def test_the_history_ends_with_the_version() -> None:
    assert max(schema.HISTORY) == (schema.VERSION, schema.MINOR)


def test_rows_are_values() -> None:
    node = schema.Node(1, "MulBackward0")

    assert node == schema.Node(id=1, name="MulBackward0")
    assert hash(node) == hash(schema.Node(1, "MulBackward0"))
    assert not hasattr(node, "__dict__")
    with pytest.raises(dataclasses.FrozenInstanceError):
        node.name = "AddBackward0"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del node.name
    assert node.name == "MulBackward0"


def test_rows_are_dataclasses_in_all_but_when_their_methods_are_made() -> None:
    push = schema.Push(3, node=7)

    assert repr(push) == "Push(seq=3, t=0, thread=-1, task=-1, node=7, queue=0, depth=0, length=0)"
    assert dataclasses.replace(push, depth=2) == schema.Push(seq=3, node=7, depth=2)
    assert dataclasses.asdict(push)["node"] == 7
    assert pickle.loads(pickle.dumps(push)) == copy.deepcopy(push) == push
    with pytest.raises(TypeError, match="unexpected keyword argument 'nodes'"):
        schema.Push(nodes=7)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        schema.Node()  # type: ignore[call-arg]
