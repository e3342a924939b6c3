"""An event kind is one declaration: what follows from it, for one that nobody has heard of."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gradscope.trace.schema import declare

PROGRAM = '''
from __future__ import annotations

import sys
from pathlib import Path

from gradscope.trace.schema.declare import NONE, Event, NodeId, Text, event


@event("yawned", short={99: ("times", "asleep", "why")})
class Yawned(Event):
    """A node yawned."""

    node: NodeId = NONE
    times: int = 0  # in a row
    asleep: bool = False
    why: Text = ""


import gradscope.runtime as torch
from reference import trace_page
from gradscope.record.recorder import record
from gradscope.runtime.core.state.thread import local
from gradscope.scene.table_scenes import info_tables
from gradscope.trace import schema
from tests.shared.by_hand import trace_of
from gradscope.trace.load_save import load
from gradscope.trace.spec import check

path = Path(sys.argv[1])
x = torch.ones(2, requires_grad=True)
recording = record(path)
with recording:
    note, why = recording.session.source.probe.note, recording.writer.intern("bored")
    y = x.sin()
    y.register_hook(lambda grad: note(Yawned, local.state.task, y.grad_fn, 3, 1, why) and None)
    y.sum().backward()

read = load(path)
[yawned] = read.rows(Yawned)
sin = next(node for node in read.rows(schema.Node) if node.name == "SinBackward0")
assert (yawned.node, yawned.times, yawned.asleep, yawned.why) == (sin.id, 3, True, "bored")
assert yawned.task == next(read.rows(schema.GraphTask)).id
assert check(read) == [], check(read)
assert "yawned" in read.meta["observed"]

assert "### `event.yawned`\\n\\nA node yawned.\\n" in trace_page()
assert "| `times` | integer | in a row |" in trace_page()

[violation] = [one for one in check(trace_of(Yawned(node=77))) if "77" in one.message]
assert violation.table == "event.yawned", violation
assert any("yawned" in str(row) for table in info_tables(read) for row in table.rows)
print("all follows")
'''


def test_an_event_kind_declared_once_is_noted_written_read_counted_documented_and_checked(
    tmp_path: Path,
) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    root = Path(__file__).parents[2]
    places = os.pathsep.join([str(root), str(root / "tools" / "docs")])

    ran = subprocess.run(
        [sys.executable, "-W", "error", script, tmp_path / "trace.json"],
        env={**os.environ, "PYTHONPATH": places}, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip

    assert (ran.stdout, ran.stderr) == ("all follows\n", "")


def test_two_kinds_cannot_have_one_code() -> None:
    with pytest.raises(TypeError, match="code 1 of 'yawned' is already used by 'node_begin'"):
        declare.event("yawned", short={1: ()})(type("Yawned", (declare.Event,), {}))


def test_a_code_stands_for_columns_of_its_kind() -> None:
    with pytest.raises(TypeError, match="at most 4 of its columns"):
        declare.event("yawned", short={99: ("times",)})(type("Yawned", (declare.Event,), {}))
