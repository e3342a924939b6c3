"""How much memory a file can make its reader take, whatever is in it."""

from __future__ import annotations

import gzip
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
import zstandard

from gradscope.trace.file.compression import FREE, RATIO
from gradscope.trace.file.file_lines import LONGEST, MEMORY, SHORT_MEMORY, block_line, header, seal
from gradscope.trace.file.file_writer import FileWriter
from gradscope.trace.load_save import decode, load, save
from gradscope.trace.schema import Frame
from gradscope.trace.table import Block
from tests.shared.by_hand import trace_of
from tests.trace.file.test_hostile_files import trace_text

SIZE = 1 << 20
FEW = {"table": "edge", "rows": SIZE, "node": 1, "index": 2, "next": 3, "input_nr": 4}
STRINGS = {"table": "string", "id": {"first": 1, "by": 1}}
PAIRS = [chr(65 + n % 26) + chr(65 + n // 26 % 26) for n in range(SIZE // 5)]


def sealed_text(body: bytes) -> bytes:
    return trace_text(b'%s,"crc32":%d}' % (body, crc32(body)))


def short_rows(rows: dict[str, object]) -> bytes:
    """Many short rows, as short as they may be."""
    operator = {"table": "short.operator", "rows": 1, "number": 0, "name": 0, "node_name": 0}
    shape = {"lengths": 2, "values": 3}
    context = dict.fromkeys(("id", "thread", "module", "task", "step", "phase"), 0)
    return trace_text(
        seal(operator | {"reason": 0, "sources": {"lengths": 2, "values": [0, 1]}}),
        seal({"table": "short.layout", "rows": 1, "id": 0, "shape": shape, "dtype": 0, "bytes": 0}),
        seal({"table": "short.context", "rows": 1, **context}),
        seal(rows),
    )


BOMBS: dict[str, Callable[[], bytes]] = {
    "constants": lambda: trace_text(seal(FEW | {"pad": "x" * SIZE})),
    "constants beside a long line": lambda: trace_text(
        seal({"table": "pad", "rows": 1, "text": ["x" * SIZE]}), seal(FEW)
    ),
    "constants as allowed": lambda: trace_text(
        seal(FEW | {"rows": SIZE // 2, "node": [7] * (SIZE // 2)})
    ),
    "floats": lambda: trace_text(
        seal({"table": "f", "rows": SIZE // 4, "x": [1.5] * (SIZE // 4), "y": 0.5})
    ),
    "columns": lambda: trace_text(
        seal({"table": "c", "rows": 1, **{f"{n:x}": 0 for n in range(SIZE // 9)}})
    ),
    "columns of many blocks": lambda: trace_text(
        *(seal({"table": "wide", "rows": 1, f"{n:x}": 0}) for n in range(SIZE // 60))
    ),
    "small blocks": lambda: trace_text(
        *[seal({"table": "edge", "rows": 12, "node": 0, "index": 0, "next": 0})] * (SIZE // 70)
    ),
    "empty texts": lambda: trace_text(
        seal(STRINGS | {"rows": SIZE // 3, "text": [""] * (SIZE // 3)})
    ),
    "texts": lambda: trace_text(seal(STRINGS | {"rows": len(PAIRS), "text": PAIRS})),
    "lists": lambda: sealed_text(b'{"table":"a","rows":1,"x":[' + b"[]," * (SIZE // 3) + b"[]]"),
    "objects": lambda: sealed_text(b'{"table":"a","rows":1,"x":[' + b"{}," * (SIZE // 3) + b"{}]"),
    "nested": lambda: sealed_text(b'{"table":"a","rows":1,"x":' + b"[" * SIZE + b"]" * SIZE),
    "short calls": lambda: short_rows(
        {"table": "short.call", "rows": SIZE // 3, "number": {"first": 1, "by": 1}}
        | dict.fromkeys(("begin", "end", "context", "op", "sequence", "topological"), 0)
        | {"first": 0, "second": 0, "site": [10] * (SIZE // 3), "layout": 0}
    ),
    "short runs": lambda: short_rows(
        {"table": "short.run", "rows": SIZE // 2, "begin": {"first": 1, "by": 1}}
        | dict.fromkeys(("ended", "task", "node", "told"), 1)
        | {"popped": [0] * (SIZE // 2)}
    ),
    "gzip": lambda: gzip.compress(b" " * (1 << 26)),
    "gzip of one line": lambda: gzip.compress(header((1, 0)) + b"1" * (1 << 26)),
    "zstd": lambda: zstandard.compress(b" " * (1 << 28)),
}

MEASURED = """
import re, sys
from pathlib import Path
from gradscope.errors import UnreadableTraceError
from gradscope.trace.load_save import decode, encode, load
from tests.shared.by_hand import trace_of

def peak():
    return int(re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024

decode(encode(trace_of()))
before = peak()
try:
    load(sys.argv[1])
except UnreadableTraceError:
    pass
print(peak() - before)
"""


linux = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="reads Linux's own account"
)


def memory_to_load(path: Path) -> int:
    command = [sys.executable, "-c", MEASURED, str(path)]
    measured = subprocess.run(
        command, capture_output=True, check=True, text=True, cwd=Path(__file__).parents[3]
    )
    return int(measured.stdout)


@linux
@pytest.mark.parametrize("name", BOMBS)
def test_opening_a_file_takes_memory_in_proportion_to_its_size(name: str, tmp_path: Path) -> None:
    path = tmp_path / "bomb.json"
    path.write_bytes(BOMBS[name]())

    taken, size = memory_to_load(path), path.stat().st_size

    if name.startswith(("gzip", "zstd")):  # refused before there is anything to parse
        assert taken < 4 * (RATIO * size + FREE)
    else:
        assert taken < size * (SHORT_MEMORY if name.startswith("short") else MEMORY)


@linux
@pytest.mark.parametrize("start", [b"", header((1, 0))])
def test_an_endless_line_is_not_read_to_its_end(start: bytes, tmp_path: Path) -> None:
    path = tmp_path / "sparse.json"
    with path.open("wb") as file:
        file.write(start)
        file.truncate(1 << 30)

    assert memory_to_load(path) < 4 * LONGEST


def test_a_block_is_written_on_several_lines_where_one_would_be_too_long(tmp_path: Path) -> None:
    texts = [chr(65 + number) * ((1 << 23) + 1) for number in range(10)]  # the writer cuts them
    with closing(FileWriter(tmp_path / "trace.json")) as writer:
        ids = [writer.intern(text) for text in texts]
        writer.block(Frame, {"id": list(range(10)), "text": ids})
    written = load(tmp_path / "trace.json")
    whole = trace_of(*(Frame(number, text=text) for number, text in enumerate(texts)))
    save(whole, tmp_path / "saved.json")

    assert [frame.text for frame in written.rows(Frame)] == [f"{t[: 1 << 23]}…" for t in texts]
    assert load(tmp_path / "saved.json") == whole
    for path in tmp_path.iterdir():
        assert max(map(len, path.read_bytes().splitlines())) < LONGEST


def test_a_block_that_the_writer_writes_is_never_taken_for_a_bomb() -> None:
    block = Block("edge", 10**6, {"node": np.zeros(10**6, np.int64), "x": np.zeros(10**6)})

    trace = decode(trace_text(block_line(block)))

    assert len(trace.tables["edge"]) == 10**6
