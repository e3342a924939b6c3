"""A trace file as it grows: one window per step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

from gradscope.trace.file.file_lines import window_line
from gradscope.trace.file.latest.lasting_rows import LASTING
from gradscope.trace.schema import EVENTS, NONE, Meta, Step
from gradscope.trace.schema.declare import Row, columns
from gradscope.trace.writer import FileWriter
from tests.shared.example_traces import Program, two_layers_program

FACTS = {"producer": "pytorch", "level": "engine", "steps_end_with": "backward", "script": "t.py"}


def written(
    path: Path, *, steps: int, rank: int = 0, pid: int = 1, layers: int = 2, **more: Any
) -> Path:
    """The trace of a training, closed, with `more` facts. Equal arguments give equal files."""
    program = two_layers_program(steps, layers)
    writer = FileWriter(path, background=False)
    facts: dict[str, Any] = {**FACTS, "rank": rank, "pid": pid, "world_size": 2, **more}
    facts["clock_base"] = 1_700_000_000_000_000_000
    _put(writer, [Meta(key, orjson.dumps(value).decode()) for key, value in facts.items()])
    window: list[Row] = []
    running = NONE
    for row in _numbered(program):
        if isinstance(row, Step):
            _put(writer, window)
            _end(writer, running, row.begin)
            window, running = [], row.id
            row = Step(row.id, row.number, row.begin)
        window.append(row)
    _put(writer, window)
    _end(writer, running, program.clock + 1)
    writer.close()
    return path


def _numbered(program: Program) -> Iterable[Row]:
    """The rows, events with their numbers."""
    seq = 0
    for row in program.rows:
        if type(row) in EVENTS.values():
            cells = dict(zip(row.__match_args__, row.cells(), strict=True)) | {"seq": seq}
            seq += 1
            yield type(row)(**cells)
        else:
            yield row


def _end(writer: FileWriter, step: int, t: int) -> None:
    if step != NONE:
        writer.block(Step, {"id": [step], "end": [t]}, amend=True)
    writer.commit()


def _put(writer: FileWriter, rows: list[Row]) -> None:
    of_kind: dict[type[Row], list[Row]] = defaultdict(list)
    for row in rows:
        of_kind[type(row)].append(row)
    for kind, some in of_kind.items():
        cells = {each.name: [getattr(row, each.name) for row in some] for each in columns(kind)}
        for column in columns(kind):
            if column.interned and column.many:
                cells[column.name] = [tuple(map(writer.intern, c)) for c in cells[column.name]]
            elif column.interned:
                cells[column.name] = [writer.intern(c) for c in cells[column.name]]
        writer.block(kind, cells)


def windows(whole: bytes) -> list[int]:
    """The lengths of the file at which a window was complete."""
    found, at = [], 0
    for line in whole.splitlines(keepends=True):
        at += len(line)
        if line.startswith(b'{"window":'):
            found.append(at)
    return found


def without(whole: bytes, gone: set[int]) -> bytes:
    """The file as a ring has it that let these windows go; it is not closed."""
    first, *lines = whole.splitlines(keepends=True)
    found, window, number = [first], list[bytes](), 1
    for line in lines:
        if line.startswith(b'{"window":'):
            found += [*window, window_line(number, len(window))]
            window, number = [], number + 1
        elif number not in gone or not line.startswith(b'{"table":"') or _lasts(line):
            window.append(line)
    return b"".join(found)


def _lasts(line: bytes) -> bool:
    return line[10 : line.index(b'"', 10)].decode() in LASTING
