"""Files that were cut: by kill −9, a full disk, or a download that broke off."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from gradscope.errors import UnreadableTraceError
from gradscope.trace.file.file_lines import header
from gradscope.trace.load_save import decode, encode, load
from gradscope.trace.schema import TABLES, Node, Push, Saved
from gradscope.trace.spec import check
from gradscope.trace.trace import Trace
from gradscope.trace.writer import FileWriter
from tests.shared.example_traces import two_layers
from tests.trace.file.test_hostile_files import small

AFTER = (
    "the end of the run may be missing if the program was killed; more, if the file was cut off "
    "later"
)
NAMES = ["trace.json", "trace.json.gz", "trace.json.zst"]
ROWS_PER_WINDOW = 10


def write_windows(path: Path, windows: int) -> None:
    """Nodes and pushes, ten of each a window; the last window's saved values are amended later."""
    writer = FileWriter(path, background=False)
    for window in range(windows):
        ids = np.arange(window * ROWS_PER_WINDOW, (window + 1) * ROWS_PER_WINDOW)
        name = writer.intern(f"node of window {window}")
        writer.block(Node, {"id": ids, "name": np.full(len(ids), name)})
        writer.block(Push, {"seq": ids, "t": ids**2, "node": ids, "length": ids + 1})
        writer.block(Saved, {"id": ids, "node": ids})
        if window:
            writer.block(Saved, {"id": ids - ROWS_PER_WINDOW, "released": ids}, amend=True)
        writer.commit()
    writer.close()


def test_a_file_cut_at_any_byte_opens_up_to_its_last_whole_line() -> None:
    whole = small()
    text = encode(whole)
    first_line = text.index(b"\n") + 1
    ends = [place + 1 for place, byte in enumerate(text) if byte == ord("\n")]
    closed = text.index(b'{"end"')
    seen = ""

    for cut in range(first_line, len(text)):
        trace = decode(text[:cut])

        if repr(trace) != seen:  # which says how many rows each table has
            assert prefix_of(trace, whole)
            seen = repr(trace)
        lost = cut - max(end for end in ends if end <= cut)
        if min(end for end in ends if end >= cut) - cut <= len(",\n"):
            lost = 0  # all that is missing of the line is what sets it apart from the next
        if cut < closed + 10:
            assert trace.truncated
            assert trace.notes == (
                f"truncated: {trace.event_count} events recovered, {lost} bytes lost; {AFTER}",
            )
        elif cut > text.index(b"],", closed):
            assert not trace.truncated
            assert trace == whole
            [note] = trace.notes
            assert (
                note == "truncated: only the index at the end of the file is cut; no row is missing"
            )


def prefix_of(part: Trace, whole: Trace) -> bool:
    """Whether every table of `part` has the first rows of the same table in `whole`."""
    return all(
        list(part.rows(kind)) == list(whole.rows(kind))[: len(part.table(kind))]
        for kind in TABLES.values()
    )


def test_a_file_cut_within_its_first_line_is_no_trace() -> None:
    text = encode(two_layers())

    for cut in range(1, len(header((1, 0))) - 1):
        with pytest.raises(UnreadableTraceError, match="cut off within its first line"):
            decode(text[:cut])


@pytest.mark.parametrize("name", NAMES)
def test_a_cut_file_opens_to_its_last_whole_window_however_it_is_packed(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    write_windows(path, windows=20)
    packed = path.read_bytes()
    counts = []

    for cut in range(0, len(packed), max(1, len(packed) // 50)):
        path.write_bytes(packed[:cut])
        try:
            trace = load(path)
        except UnreadableTraceError:
            assert cut < 150
            continue
        assert trace.truncated or trace.event_count == 200
        assert trace.table(Push)["seq"].tolist() == list(range(trace.event_count))
        assert [n.name for n in trace.rows(Node)] == [
            f"node of window {id // ROWS_PER_WINDOW}" for id in range(len(trace.table(Node)))
        ]
        counts.append(trace.event_count)

    assert counts == sorted(counts)
    assert len(set(counts)) == 21


def test_the_reader_knows_whether_the_last_window_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    write_windows(path, windows=3)
    text = path.read_bytes()
    second = text.index(b'{"window":2')
    third_events = text.index(b'{"table":"saved"', second)

    between = decode(text[: text.index(b"\n", second) + 1])
    within = decode(text[:third_events])
    whole = decode(text)

    assert (between.truncated, between.event_count, between.horizon) == (True, 20, 19)
    assert (within.truncated, within.event_count, within.horizon) == (True, 30, 19)
    assert (whole.truncated, whole.event_count, whole.horizon) == (False, 30, None)


def test_rules_judge_a_cut_trace_up_to_its_last_whole_window() -> None:
    text = encode(two_layers(steps=3))

    judged = [check(decode(text[:cut])) for cut in range(60, text.index(b'{"end"'), 97)]

    assert judged == [[]] * len(judged)


WRITES_UNTIL_KILLED = """
import sys
from pathlib import Path
import numpy as np
from gradscope.trace.schema import Node, Push
from gradscope.trace.writer import FileWriter

writer = FileWriter(sys.argv[1], background=sys.argv[2] == "background")
committed = open(sys.argv[1] + ".committed", "wb", buffering=0)
for window in range(100_000):
    ids = np.arange(window * 100, window * 100 + 100)
    writer.block(Node, {"id": ids, "name": np.full(100, writer.intern(f"n{window}"))})
    writer.block(Push, {"seq": ids, "node": ids})
    writer.commit()
    committed.write(b"%d\\n" % (window + 1))
"""


@pytest.mark.parametrize("name", NAMES)
def test_after_kill_9_every_committed_window_is_there(name: str, tmp_path: Path) -> None:
    for attempt in range(4):
        path = tmp_path / name
        command = [sys.executable, "-c", WRITES_UNTIL_KILLED, str(path), "foreground"]
        program = subprocess.Popen(command, cwd=Path(__file__).parents[3])
        log = Path(f"{path}.committed")
        wait_for(lambda log=log: log.exists() and log.stat().st_size)
        time.sleep(random.Random(attempt).uniform(0, 0.3))
        program.send_signal(signal.SIGKILL)
        program.wait()

        trace = load(path)

        committed = int(log.read_text().split()[-1])
        assert trace.truncated
        assert trace.horizon is not None
        assert trace.horizon + 1 >= committed * 100
        assert trace.table(Push)["node"].tolist() == list(range(trace.event_count))
        assert trace.notes[0].startswith(f"truncated: {trace.event_count} events recovered, ")
        log.unlink()


def wait_for(happened: object, seconds: float = 20) -> None:
    assert callable(happened)
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("leaving", ["pass", "sys.exit(3)", "raise ValueError('mine')"])
@pytest.mark.parametrize("background", [False, True])
def test_a_program_that_forgets_to_close_leaves_a_whole_trace(
    leaving: str, background: bool, tmp_path: Path
) -> None:
    path = tmp_path / "trace.json"
    script = f"""
import sys
from gradscope.trace.schema import Push
from gradscope.trace.writer import FileWriter
writer = FileWriter({str(path)!r}, background={background})
for window in range(50):
    writer.block(Push, {{"seq": [window]}})
    writer.commit()
{leaving}
"""
    subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)

    trace = load(path)

    assert not trace.truncated
    assert trace.event_count == 50


def test_a_file_that_ends_in_zeros_after_a_power_cut_opens() -> None:
    text = encode(two_layers())
    cut = text[: text.index(b'{"window"')] + bytes(4096)

    trace = decode(cut)

    assert trace.notes == (
        f"truncated: {trace.event_count} events recovered, 4096 bytes lost; {AFTER}",
    )
