"""Traces to bytes and back."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from gradscope.errors import UnreadableTraceError
from gradscope.trace.load_save import decode, encode, load, save
from gradscope.trace.ragged import Ragged
from gradscope.trace.schema import (
    MINOR,
    VERSION,
    Edge,
    GraphTask,
    Meta,
    Node,
    NodeBegin,
    Push,
    Saved,
    Step,
    String,
    Tensor,
    Value,
    columns,
)
from gradscope.trace.trace import Trace
from gradscope.trace.writer import FileWriter, MemoryWriter, Writer
from tests.shared.by_hand import trace_of
from tests.shared.example_traces import mean_of_squares, two_layers
from tests.shared.searching import searching
from tests.shared.strategies import KINDS, cells, traces

NOW = (VERSION, MINOR)
ENDINGS = ["trace.json", "trace.json.gz", "trace.json.zst"]


@given(traces())
@searching(100)
def test_decoding_an_encoded_trace_gives_it_back(trace: Trace) -> None:
    decoded = decode(encode(trace))

    assert decoded == trace
    assert decoded.notes == trace.notes == ()
    for kind in KINDS:
        assert list(decoded.rows(kind)) == list(trace.rows(kind))


@given(traces())
def test_a_trace_has_one_text(trace: Trace) -> None:
    text = encode(trace)

    assert encode(decode(text)) == text


@given(traces())
def test_the_text_is_one_json_document_with_a_block_on_each_line(trace: Trace) -> None:
    text = encode(trace)

    document = json.loads(text, parse_constant=pytest.fail)
    first, *lines = text.split(b"\n")
    blocks = [json.loads(line.removesuffix(b",")) for line in lines[: lines.index(b"],")]]
    assert first == b'{"format":"gradscope-trace","version":[%d,%d],"blocks":[' % NOW
    assert document["format"] == "gradscope-trace"
    assert document["version"] == list(NOW)
    assert document["blocks"] == blocks


@pytest.mark.parametrize("name", ENDINGS)
def test_a_file_opens_as_the_trace_that_was_saved(name: str, tmp_path: Path) -> None:
    trace = two_layers(steps=2)

    save(trace, tmp_path / name)

    assert load(tmp_path / name) == trace


def test_compressed_files_hold_the_same_text(tmp_path: Path) -> None:
    import gzip

    import zstandard

    trace = two_layers(steps=2)
    for name in ENDINGS:
        save(trace, tmp_path / name)

    plain = (tmp_path / "trace.json").read_bytes()
    assert plain == encode(trace)
    assert gzip.decompress((tmp_path / "trace.json.gz").read_bytes()) == plain
    with zstandard.open(tmp_path / "trace.json.zst", "rb") as file:
        assert file.read() == plain


def test_numbers_that_json_cannot_write_survive() -> None:
    finite = [0.0, -0.0, 5e-324, 1.7976931348623157e308, 0.1, 2.0**53 + 2]
    odd = [math.nan, math.inf, -math.inf]
    pairs = enumerate(zip(finite, odd * 2, strict=True))
    values = [Value(id, min=x, max=y) for id, (x, y) in pairs]

    decoded = decode(encode(trace_of(*values)))

    assert [math.copysign(1, x) for x in decoded.table(Value)["min"]] == [1, -1, 1, 1, 1, 1]
    assert list(decoded.rows(Value)) == values


def test_whole_numbers_survive_to_the_last_bit() -> None:
    numbers = [-(2**63), 2**63 - 1, 0, -1, 2**53 + 1, -(2**53) - 1]
    steps = [Step(id, number=number, begin=-number // 2) for id, number in enumerate(numbers)]

    assert list(decode(encode(trace_of(*steps))).rows(Step)) == steps


def test_hostile_text_survives_and_a_lone_surrogate_is_written_out() -> None:
    names = ['"><script>', "\u202eevil", "a\n]}\x00", "🙂", "\\udc80", "x" * 10_000]
    nodes = [Node(id, name) for id, name in enumerate([*names, "file\udc80"])]

    decoded = decode(encode(trace_of(*nodes)))

    assert [node.name for node in decoded.rows(Node)] == [*names, "file\\udc80"]


def test_the_shortest_way_of_writing_a_column_is_chosen() -> None:
    times = [10**15 + 137 * n + (n * n) % 7 for n in range(100)]
    rows = [
        NodeBegin(seq=n + 5, t=times[n], thread=3, task=n // 50, node=(n * 7919) % 100)
        for n in range(100)
    ]

    line = encode(trace_of(*rows)).splitlines()[1]

    block = json.loads(line.removesuffix(b","))
    del block["crc32"], block["node"]
    assert block.pop("t")["first"] == 10**15
    assert block == {
        "table": "event.node_begin",
        "rows": 100,
        "seq": {"first": 5, "by": 1},
        "thread": 3,
        "task": {"runs": [50, 50], "values": [0, 1]},
    }


def test_a_block_never_stands_for_much_more_than_its_line() -> None:
    """A writer that wrote a million equal rows in one short line could not be told from a bomb."""
    rows = [Push(seq=n) for n in range(50_000)]

    text = encode(trace_of(*rows))

    assert len(text) > 50_000
    assert decode(text).event_count == 50_000


def test_what_a_newer_minor_version_adds_is_kept() -> None:
    trace = trace_of(Node(1, "MulBackward0"), Node(2, "AddBackward0"), Push(node=1))
    newer = _as_newer(trace)

    decoded = decode(newer)

    assert encode(decoded) == newer
    assert decoded.version == (1, MINOR + 1)
    assert decoded.table(Node)["colour"].tolist() == [0.5, 1.5]
    assert decoded.tables["event.dreamed"]["seq"].tolist() == [1, 2, 3]
    assert [list(cell) for cell in decoded.tables["planet"]["moons"]] == [[], [1, 2]]
    assert decoded.tables["planet"]["name"].tolist() == ["Mercury", "Mars"]
    assert list(decoded.rows(Node)) == list(trace.rows(Node))
    assert decoded.notes == (
        (
            f"written by a newer gradscope (trace version 1.{MINOR + 1}, "
            f"this gradscope knows 1.{MINOR})"
        ),
        (
            "not shown, because this gradscope does not know them: "
            "'event.dreamed', 'node.colour', 'planet'"
        ),
    )


def _as_newer(trace: Trace) -> bytes:
    """The file a gradscope would write that has more tables, columns and event kinds."""
    from gradscope.trace.assemble import assemble
    from gradscope.trace.table import Block

    blocks = [Block(t.name, len(t), dict(t.data)) for t in trace.tables.values() if len(t)]
    node = next(block for block in blocks if block.table == "node")
    blocks[blocks.index(node)] = Block("node", 2, {**node.data, "colour": np.array([0.5, 1.5])})
    names = np.array(["Mercury", "Mars"], object)
    moons = Ragged.of([[], [1, 2]])
    blocks += [
        Block("event.dreamed", 3, {"seq": np.array([1, 2, 3]), "deep": np.array([1, 0, 1])}),
        Block("planet", 2, {"id": np.array([0, 1]), "name": names, "moons": moons}),
    ]
    return encode(Trace(assemble(blocks).tables, version=(1, MINOR + 1)))


def test_some_tables_can_be_opened_alone(tmp_path: Path) -> None:
    trace = two_layers(steps=2)
    for name in ENDINGS:
        save(trace, tmp_path / name)

        part = load(tmp_path / name, [Node, Edge])

        assert list(part.rows(Node)) == list(trace.rows(Node))
        assert list(part.rows(Edge)) == list(trace.rows(Edge))
        assert part.meta == trace.meta
        assert part.event_count == 0
        [note] = part.notes
        assert note.startswith("read in part: ")


def test_opening_some_tables_reads_only_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    trace = two_layers()
    save(trace, path)
    text = path.read_bytes()
    damaged = text.replace(b'{"table":"event.push"', b'{"TABLE":"event.push"')
    assert damaged != text
    path.write_bytes(damaged)

    with pytest.raises(UnreadableTraceError, match="damaged"):
        load(path)
    assert list(load(path, [Node]).rows(Node)) == list(trace.rows(Node))


def test_what_a_recording_says_of_itself_is_read_without_what_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    trace = two_layers()
    save(trace, path)
    path.write_bytes(path.read_bytes().replace(b'{"table":"tensor"', b'{"TABLE":"tensor"'))

    assert load(path, [Meta]).meta == trace.meta


def test_a_truncated_trace_that_is_saved_still_says_so() -> None:
    text = encode(mean_of_squares())
    cut = decode(text[: len(text) * 3 // 4])
    assert cut.truncated

    again = decode(encode(cut))

    assert again == cut
    assert again.notes == cut.notes


# Writers -------------------------------------------------------------------------------------


def write_two_windows(writer: Writer) -> None:
    names = [writer.intern(name) for name in ("MulBackward0", "", "MulBackward0")]
    writer.block(Node, {"id": np.arange(3), "name": names, "inputs": [(1, 2), (), (3,)]})
    writer.block(Saved, {"id": [0, 1], "node": [0, 2], "slot": [writer.intern("self")] * 2})
    writer.block(GraphTask, {"id": [0], "roots": [(2,)], "begin": [5]})
    writer.commit()
    writer.block(Saved, {"id": [1], "released": [70], "task": [0]}, amend=True)
    writer.block(GraphTask, {"id": [0], "end": [80], "captured": [(1, 0)]}, amend=True)
    writer.block(Saved, {"id": [0, 1], "released": [90, 91]}, amend=True)
    writer.block(NodeBegin, {"seq": np.arange(2), "node": np.array([2, 0])})
    writer.close()


TWO_WINDOWS = trace_of(
    Node(0, "MulBackward0", inputs=(1, 2)),
    Node(1, ""),
    Node(2, "MulBackward0", inputs=(3,)),
    Saved(0, node=0, slot="self", released=90),
    Saved(1, node=2, slot="self", released=91, task=0),
    GraphTask(0, roots=(2,), begin=5, end=80, captured=(1, 0)),
    NodeBegin(seq=0, node=2),
    NodeBegin(seq=1, node=0),
)


@pytest.mark.parametrize("name", ENDINGS)
@pytest.mark.parametrize("background", [False, True])
def test_a_written_file_opens_with_its_amendments_merged(
    name: str, background: bool, tmp_path: Path
) -> None:
    writer = FileWriter(tmp_path / name, background=background)

    write_two_windows(writer)

    assert load(tmp_path / name) == TWO_WINDOWS
    assert load(tmp_path / name).notes == ()


def test_rows_in_memory_make_the_same_trace() -> None:
    writer = MemoryWriter()

    write_two_windows(writer)

    assert writer.trace() == TWO_WINDOWS


def test_columns_left_out_get_their_defaults(tmp_path: Path) -> None:
    for kind in KINDS:
        first = columns(kind)[0]
        cell, stored = (4, 4) if first.type is int else ("", 0)
        writer = FileWriter(tmp_path / "trace.json")

        writer.block(kind, {first.name: [stored]})
        writer.close()

        assert list(load(tmp_path / "trace.json").rows(kind)) == [kind(**{first.name: cell})]


@given(st.data())
@searching(60)
def test_however_rows_are_spread_over_blocks_and_windows_the_trace_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    kind = data.draw(st.sampled_from([Tensor, Value, Push, Meta]))
    path = tmp_path_factory.mktemp("spread") / "trace.json"
    writer, memory = FileWriter(path), MemoryWriter()
    for _ in range(data.draw(st.integers(0, 6))):
        count = data.draw(st.integers(0, 4))
        always = {"id", "key", "seq"}
        chosen = [c for c in columns(kind) if c.name in always or data.draw(st.booleans())]
        given_cells = {
            column.name: data.draw(st.lists(cells(column), min_size=count, max_size=count))
            for column in chosen
        }
        for each in (writer, memory):
            interned = {
                column.name: [each.intern(text) for text in given_cells[column.name]]
                for column in chosen
                if column.interned
            }
            each.block(kind, given_cells | interned)
        if data.draw(st.booleans()):
            writer.commit()
    writer.close()

    assert load(path) == memory.trace()


def test_text_without_a_row_is_interned_only() -> None:
    writer = MemoryWriter()

    assert [writer.intern(text) for text in ("a", "", "b", "a", "")] == [1, 0, 2, 1, 0]
    assert list(writer.trace().rows(String)) == [String(1, "a"), String(2, "b")]
