"""Tables and facts, and the contents of those of `info`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gradscope.analysis.lookups import grouped
from gradscope.analysis.ranks.whose import listed
from gradscope.analysis.timing.long_run import LongRun
from gradscope.scene.readable import byte_count, count, duration, plural
from gradscope.scene.timeline.run_words import steps_words, summary_words
from gradscope.trace.schema import EVENTS
from gradscope.trace.shortcomings import (
    loaded_elsewhere,
    ran_elsewhere,
    recorded_ranks,
    with_other_sums,
)
from gradscope.trace.trace import Trace

Cell = str


@dataclass(frozen=True, slots=True)
class TableColumn:
    """The header of a column."""

    title: str
    is_number: bool = False
    is_path: bool = False  # if too long, its beginning is cut off
    is_main: bool = False  # other columns are cut first


@dataclass(frozen=True, slots=True)
class TableScene:
    """A table, the worst or largest row first."""

    title: str
    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""  # what was left out


@dataclass(frozen=True, slots=True)
class FactsScene:
    """Names with their facts, a line each."""

    facts: tuple[tuple[str, str], ...]


SAID_ABOVE = (
    "producer",
    "producer_version",
    "level",
    "script",
    "arguments",
    "dropped",
    "children",
    "summary",
)


def info_facts(trace: Trace, path: str, size: int) -> FactsScene:
    meta = trace.meta
    major, minor = trace.version
    producer = f"{meta.get('producer', 'unknown')} {meta.get('producer_version', '')}".strip()
    rows = sum(len(table) for table in trace.tables.values())
    per_event = f", {size / trace.event_count:.1f} bytes per event" if trace.event_count else ""
    facts = [
        ("file", path),
        ("size", f"{byte_count(size)}{per_event}"),
        ("format", f"trace version {major}.{minor}"),
        ("producer", producer),
        ("level", meta.get("level", "unknown")),
        ("script", " ".join([meta.get("script", ""), *meta.get("arguments", ())])),
        ("contents", f"{plural(rows, 'row')}, {plural(trace.event_count, 'event')}"),
    ]
    run = trace.once(LongRun)
    if run.has_left_out:
        facts.append(("steps", steps_words(run)))
    if run.measured:
        facts.append(("summary", summary_words(run)))
    facts += [_in_words(key, meta[key]) for key in sorted(meta) if key not in SAID_ABOVE]
    facts += [("note", note) for note in trace.notes]
    elsewhere = ran_elsewhere(trace.meta)
    facts += [
        ("note", with_other_sums(trace)),
        ("ranks", recorded_ranks(trace.meta)),
        ("note", elsewhere),
        ("workers", loaded_elsewhere(trace.meta)),
    ]
    whole = (
        "no, see the notes" if trace.notes else "yes" + ", for its own process" * bool(elsewhere)
    )
    facts.insert(3, ("complete", whole))
    return FactsScene(tuple((name, text) for name, text in facts if text))


def _in_words(key: str, value: Any) -> tuple[str, str]:
    """A fact about the run with its name, both as a person reads them."""
    match key, value:
        case "own_time", dict():
            times = {what: duration(ns) for what, ns in value.items()}
            whole = times.pop("recorded", "")
            spent = ", ".join(f"{time} {what}" for what, time in times.items())
            return "own time", f"{spent}, of {whole} recorded" if whole else spent
        case "unwanted", {"steps": int(steps)}:
            return "not selected", plural(steps, "step")
        case "let_go", {"steps": int(steps)}:
            return "let go", f"{plural(steps, 'step')} between the first and the latest ones"
        case "clock_base", int():
            return "recorded at", _day_and_time(value)
        case "follows_from", int():
            return "freed", f"recorded of storages of at least {byte_count(value)}"
        case "ranks", list():
            return "ranks", _ranks_in_words(value)
        case "max_bytes", int():
            return "size at most", byte_count(value)
        case "written_every", int() | float():
            return "written", f"every {value:g} s"
    return key.replace("_", " "), _plain(value)


def _ranks_in_words(ranks: list[dict[str, Any]]) -> str:
    """As in "ranks 0 to 7 on hosts a, b; rank 3: KeyError"."""
    hosts = dict.fromkeys(str(each["host"]) for each in ranks if "host" in each)
    where = f" on host{'s' * (len(hosts) > 1)} {', '.join(hosts)}" if hosts else ""
    by_ending = grouped(ranks, lambda each: str(each.get("exit", "did not end")))
    others = [
        f"{listed([each.get('rank', 0) for each in found])}: {ending}"
        for ending, found in by_ending.items()
        if ending != "ok"
    ]
    return "; ".join([f"{listed([each.get('rank', 0) for each in ranks])}{where}", *others])


def _day_and_time(ns: int) -> str:
    try:
        return f"{datetime.fromtimestamp(ns / 1e9, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        return str(ns)


def _plain(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_plain, value))
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(each)}" for key, each in value.items())
    return str(value)


def info_tables(trace: Trace) -> tuple[TableScene, ...]:
    """The number of rows of each table and each kind of event."""
    kinds = {f"event.{name}" for name in EVENTS}
    tables = [(name, len(table)) for name, table in trace.tables.items() if name not in kinds]
    events = [(name, len(trace.tables[f"event.{name}"])) for name in EVENTS]
    return tuple(
        TableScene(
            title,
            (TableColumn("name"), TableColumn("rows", is_number=True)),
            tuple((name, count(rows)) for name, rows in counted if rows),
        )
        for title, counted in (("tables", tables), ("events", events))
        if any(rows for _, rows in counted)
    )
