"""What is said of the file that a trace goes to: what it held before, and who writes it now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gradscope.record.process.trace_file import trace_file
from gradscope.trace.load_save import encode, save
from gradscope.trace.writer import FileWriter
from tests.record.running import House
from tests.shared.by_hand import trace_of

HOLDS = """
import sys
from gradscope.trace.writer import FileWriter
writer = FileWriter(sys.argv[1])
print("holds", flush=True)
input()
"""


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="only Linux says who holds a lock")
def test_the_process_that_writes_the_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    command = [sys.executable, "-c", HOLDS, str(path), "a\x1b[31mb"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"holds\n"
        writer, said = trace_file(path, None)
        writer.close()
        holder.communicate(b"\n")

    assert said.startswith(f"process {holder.pid} ({sys.executable} -c")
    assert said.endswith(
        f") is writing '{path}'; writing this trace to '{tmp_path / 'trace.2.json'}'"
    )
    assert said.isprintable()


def test_another_recording_of_this_process_is_named(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    first = FileWriter(path)
    second, said = trace_file(path, None)
    for each in (first, second):
        each.close()

    assert said.startswith(f"another recording of this process is writing '{path}'")


def test_a_finished_recording_that_is_replaced_is_named(house: House) -> None:
    house.write("print('out')", "script.py")
    first, second = (house.gradscope("trace", "script.py") for _ in range(2))
    quiet = house.gradscope("trace", "-q", "script.py")

    said = "gradscope: replacing 'trace.json', which contains a finished recording of script.py\n"
    assert said not in first.err
    assert second.err.startswith(said)
    assert quiet.err == ""


def test_what_is_no_finished_recording_is_replaced_without_a_word(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    whole = encode(trace_of(meta={"script": "train.py"}))
    said = []
    for content in (b"", whole[:200], whole[: whole.index(b'{"end"')]):
        path.write_bytes(content)
        writer, words = trace_file(path, None)
        writer.close()
        said.append(words)
    save(trace_of(), path)
    writer, words = trace_file(path, None)
    writer.close()

    assert said == ["", "", ""]
    assert words == f"replacing '{path}', which contains a finished recording of a program"
