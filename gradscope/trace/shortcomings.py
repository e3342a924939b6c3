"""What is missing from a trace, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.trace.arrays import distinct
from gradscope.trace.schema import MINOR, VERSION
from gradscope.trace.schema.declare import TABLES, columns
from gradscope.trace.schema.tables import GraphTask, Order
from gradscope.trace.text import quoted, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gradscope.trace.trace import Trace


LOADER = "data loader worker"
LAUNCHER = "torch/distributed/elastic/"
"""Part of the path of torchrun's files."""
UNDER_TORCHRUN = "start ranks with `torchrun … -m gradscope trace train.py`"
UNSEEN = "not recorded: "
GROWING = "still being recorded"


def notes_of(trace: Trace) -> Iterator[str]:
    """What a reader must know before trusting this trace."""
    if trace.truncated and trace.last_written is not None:
        yield (
            f"{GROWING}: this is what was written until {trace.last_written:.1f} s before it was "
            "opened, and the step that runs is not complete"
        )
    elif trace.truncated:
        events = sum(len(t) for name, t in trace.tables.items() if name.startswith("event."))
        recovered = f"{events} events recovered, {trace.lost} bytes lost"
        yield f"truncated: {recovered}; {_after_the_cut(trace)}"
    if steps := _count(trace, "dropped", "steps"):
        part = min(_count(trace, "dropped", "in_part"), steps)
        kinds = ((steps - part, "not recorded"), (part, "recorded in part"))
        said = [f"{n:,} {'step was' if n == 1 else 'steps were'} {how}" for n, how in kinds if n]
        yield f"dropped: {', and '.join(said)}"
    if dropped := dropped_rows(trace):
        shown = ", ".join(f"{name} {rows}" for name, rows in dropped.items())
        yield f"dropped: {sum(dropped.values())} rows were not recorded ({shown})"
    for what, times in trace.meta.get("unseen", {}).items():
        yield f"{UNSEEN}{visible(what)}" + f" ({times} times)" * (times > 1)
    if trace.version > (VERSION, MINOR):
        yield (
            "written by a newer gradscope (trace version "
            f"{trace.version[0]}.{trace.version[1]}, this gradscope knows {VERSION}.{MINOR})"
        )
    if strangers := sorted(_strangers(trace)):
        shown = ", ".join(map(quoted, strangers[:5])) + ", …" * (len(strangers) > 5)
        yield f"not shown, because this gradscope does not know them: {shown}"


def _after_the_cut(trace: Trace) -> str:
    """What may be missing from a truncated trace without leaving a gap."""
    reason, every = trace.meta.get("cut"), trace.meta.get("written_every")
    if reason is not None:
        return f"writing stopped there ({quoted(reason)}), everything after it is missing"
    moments = "the end of the run"
    if every is not None and every > 0:
        moments += f", at most about {every:g} s,"
    return (
        f"{moments} may be missing if the program was killed; more, if the file was cut off later"
    )


def with_other_sums(trace: Trace) -> str:
    """How many backwards ran their nodes as predicted but with fewer additions; "": none."""
    many = np.count_nonzero(trace.table(GraphTask)["order"] == Order.NOT_THE_SUMS)
    if not many:
        return ""
    backwards = "1 backward" if many == 1 else f"{many} backwards"
    return (
        f"{backwards} added fewer gradients than predicted, because some gradients were None: "
        "which were added is not known there"
    )


def ran_elsewhere(meta: Mapping[str, Any]) -> str:
    """Child processes that were not recorded; "": there were none."""
    groups = [
        {**each, "count": each["count"] - len(each["traces"])}
        for each in _children(meta)
        if each["kind"] != LOADER and each["count"] > len(each["traces"])
    ]
    total = sum(each["count"] for each in groups)
    if not total:
        return ""
    shown = ", ".join(
        f"{each['count']} by {each['kind']}" + f" at {each['line']}" * bool(each["line"])
        for each in groups[:5]
    )
    more = ", …" * (len(groups) > 5)
    processes = "child process" if total == 1 else "child processes"
    what = f"{total} {processes} ran unrecorded ({shown}{more}): this trace does not cover them"
    return what + f"; {UNDER_TORCHRUN}" * starts_ranks(meta)


def starts_ranks(meta: Mapping[str, Any]) -> bool:
    """Whether torchrun itself was recorded, and its ranks were not."""
    return any(LAUNCHER in each["line"].replace("\\", "/") for each in _children(meta))


def loaded_elsewhere(meta: Mapping[str, Any]) -> str:
    """Data loader worker processes, which are not recorded; "": there were none."""
    total = sum(each["count"] for each in _children(meta) if each["kind"] == LOADER)
    workers = "worker" if total == 1 else "workers"
    return f"{total} data loader {workers}, unrecorded" if total else ""


def recorded_ranks(meta: Mapping[str, Any]) -> str:
    """The ranks that the program started and that recorded themselves; "": there were none."""
    files = [file for each in _children(meta) for file in each["traces"]]
    if not files:
        return ""
    shown = ", ".join(files[:3]) + ", …" * (len(files) > 3)
    ranks = "1 rank" if len(files) == 1 else f"{len(files)} ranks"
    return f"{ranks} started by the program {'is' if len(files) == 1 else 'are'} in {shown}"


def _children(meta: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for each in meta.get("children", ()):
        texts = {key: visible(each.get(key, "")) for key in ("kind", "line")}
        traces = [visible(file) for file in each.get("traces", ())]
        yield {**texts, "count": max(each.get("count", 0), 0), "traces": traces}


def dropped_rows(trace: Trace) -> Mapping[str, int]:
    """Number of rows of each table that the recorder left out, from `meta.dropped`."""
    dropped = trace.meta.get("dropped", {})
    return {
        name if name in TABLES else quoted(name): rows
        for name, rows in sorted(dropped.items())
        if name not in {"steps", "in_part"} and rows > 0
    }


def has_holes(trace: Trace) -> bool:
    """Whether rows were left out, for lack of room or because only some steps were selected."""
    left_out = sum(_count(trace, why, "steps") for why in ("dropped", "unwanted", "let_go"))
    return left_out > 0 or bool(dropped_rows(trace)) or ("let_go" in trace.meta and trace.truncated)


def unfinished(trace: Trace) -> int:
    """Number of graph tasks that were running when the recording ended."""
    return max(int(trace.meta.get("unfinished", 0)), 0)


def _count(trace: Trace, key: str, kind: str) -> int:
    return max(int(trace.meta.get(key, {}).get(kind, 0)), 0)


def _strangers(trace: Trace) -> Iterator[str]:
    for name, table in trace.tables.items():
        if name not in TABLES:
            yield name
        else:
            known = {column.name for column in columns(TABLES[name])}
            yield from (f"{name}.{column}" for column in table.data if column not in known)


FIRST, BETWEEN, ROWS = "the first steps", "some steps in between", "all rows"
COMPILED = "steps of optimizers in regions of torch.compile"


def steps_left_out(trace: Trace) -> frozenset[str]:
    """Which parts of the run are missing, if it was recorded in steps."""
    found = {ROWS} if dropped_rows(trace) else set()
    if COMPILED in trace.meta.get("unseen", ()):
        found.add(COMPILED)
    if not has_holes(trace):
        return frozenset(found)
    there = distinct(trace.table(GraphTask)["step"])
    there = there[there >= 0]
    if len(there) and int(there[0]) > 0:
        found.add(FIRST)
    if len(there) and int(there[-1] - there[0]) >= len(there):
        found.add(BETWEEN)
    return frozenset(found)
