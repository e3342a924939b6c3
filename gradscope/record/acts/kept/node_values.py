"""Files with the values of nodes: what each received, kept and returned in one run.

A file is a ZIP archive (`numpy.savez`) with one array per tensor, and `index`: JSON in UTF-8, with
one object per run. A tensor in it is `{"array": 3, "dtype": "bfloat16"}`; bfloat16 is stored as
float32. Nothing in a file is executed when it is read.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from gradscope.errors import UnreadableTraceError
from gradscope.watch.in_place.by_identity import held_in
from gradscope.watch.in_place.node_runs import CopiedRun, NodeArray

INDEX = "index"
VERSION = 1


def values_file(trace: Path) -> Path:
    """Where the values of a trace's nodes are kept: next to it."""
    return trace.with_name(f"{trace.name.removesuffix('.gz').removesuffix('.json')}.values.npz")


def write(path: Path, runs: list[CopiedRun], recording: str = "") -> None:
    """Write a file of values. `recording` is also in the trace, so that both can be matched."""
    arrays: list[Any] = []

    def reference(value: Any) -> Any:
        if isinstance(value, NodeArray):
            arrays.append(value.values)
            return {"array": len(arrays) - 1, "dtype": value.dtype}
        if isinstance(value, list | tuple):
            return [reference(each) for each in held_in(value)]
        return value

    index = [
        {
            "kind": run.kind, "node": run.node, "stack": run.stack,
            "grads": reference(run.grads), "shapes": run.shapes,
            "saved": {slot: reference(value) for slot, value in run.saved.items()},
            "returned": reference(run.returned),
        }
        for run in runs
    ]  # fmt: skip
    text = orjson.dumps({"version": VERSION, "recording": recording, "runs": index})
    named: dict[str, Any] = {str(place): each for place, each in enumerate(arrays)}
    named[INDEX] = np.frombuffer(text, np.uint8)
    with path.open("wb") as file:
        np.savez(file, **named)


def read(path: Path) -> list[CopiedRun]:
    """Read a file of values. Raises UnreadableTraceError."""
    with _opened(path) as (index, archive):
        return [_run(each, archive) for each in index["runs"]]


def recording_of(path: Path) -> str:
    """The `recording` that a file of values was written with. Raises UnreadableTraceError."""
    with _opened(path) as (index, _):
        return str(index["recording"])


@contextmanager
def _opened(path: Path) -> Iterator[tuple[dict[str, Any], Any]]:
    """The index and the arrays of a file."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            index = orjson.loads(archive[INDEX].tobytes())
            if index["version"] > VERSION:
                raise UnreadableTraceError(f"{path} was written by a newer gradscope")
            yield index, archive
    except FileNotFoundError:
        raise
    except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise UnreadableTraceError(f"{path} is not a file of values: {error}") from error


def _run(entry: dict[str, Any], archive: Any) -> CopiedRun:
    def value(held: Any) -> Any:
        if isinstance(held, dict):
            return NodeArray(archive[str(held["array"])], held["dtype"])
        return [value(each) for each in held] if isinstance(held, list) else held

    made = {name: value(held) for name, held in entry.items() if name not in ("saved", "shapes")}
    saved = {slot: value(held) for slot, held in entry["saved"].items()}
    return CopiedRun(**made, saved=saved, shapes=[tuple(each) for each in entry["shapes"]])
