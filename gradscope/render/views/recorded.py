"""The output of `gradscope trace` at its end: what was recorded, the findings, the next command."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from gradscope.analysis.findings import Severity
from gradscope.analysis.program.endings import EXCEPTION
from gradscope.analysis.report import Guard, Report, inspect
from gradscope.analysis.rules.engine import PAGE, UNEXPLAINED
from gradscope.analysis.timing.durations import device_threads
from gradscope.errors import UnreadableTraceError
from gradscope.render.terminal.cells import UNICODE, Charset, wrapped
from gradscope.render.views.lines_at_end import Recorded
from gradscope.render.views.report import findings_lines
from gradscope.scene.readable import byte_count, count, duration, plural
from gradscope.scene.report import by_severity, nothing_found
from gradscope.scene.timeline.checked_nodes import checked_words
from gradscope.trace.arrays import distinct
from gradscope.trace.load_save import load
from gradscope.trace.schema import Finding, GraphTask, Meta, Node, NodeBegin
from gradscope.trace.shortcomings import notes_of, recorded_ranks
from gradscope.trace.trace import Trace

LOOKED_THROUGH, EXPLAINED = 16 << 20, 64 << 20
"""Largest traces, in bytes, that are checked when the command ends; the second if the program
raised. `gradscope inspect` checks any size."""

WIDTH, PREFIX = 80, "gradscope: "
"""Width of a line of the summary, and the prefix of the command."""
EXPLANATION_WIDTH = 100
RAISED = "GS301"
_ERRORS = ("event", "finding")
"""Tables in the evidence of findings about exceptions."""

IN_WORDS = {
    "value": "values (--level values)",
    "op.end": "times of forward calls",
    "version": "in-place writes",
    "accumulate.how": "how gradients were accumulated",
    "saved_unpacked": "reads of saved tensors",
    "wait": "waits of the engine's threads",
}
"""Names in `meta.absent` that are worth reporting, in words."""

AT_MOST = {"graph": 1.7, "engine": 2.6, "values": 3.4}
"""Largest slowdown of a step of a tiny model on PyTorch at each level; large models slow down less.

Measured by `python -m bench watching`.
"""


def recorded(
    path: Path, shown: Path, charset: Charset = UNICODE, width: int = WIDTH, why_not: str = ""
) -> Recorded:
    """Summarize the trace at `path`, which the user calls `shown`, in lines of this width.

    `why_not`: why it is not checked, as in "since it is large".
    """
    name = shlex.quote(str(shown))
    try:
        size = path.stat().st_size
        if size > LOOKED_THROUGH and (size > EXPLAINED or not _raised(path)):
            why_not = why_not or "since it is large"
        if why_not:
            return _unchecked(path, size, shown, why_not)
        trace = load(path)
    except (OSError, UnreadableTraceError) as error:
        return Recorded((str(error),))
    guard = Guard()
    nothing = Recorded((str(shown),), f"next: gradscope inspect {name}")
    seen = guard.tried("the summary", lambda: _summed_up(trace, shown, charset, width), nothing)
    faults = (fault.words for fault in guard.faults)
    return replace(seen, summary=(*seen.summary, *faults))


def _unchecked(path: Path, size: int, shown: Path, why_not: str) -> Recorded:
    said = f"{shown}: {byte_count(size)}; not checked yet, {why_not}"
    meta = load(path, [Meta])
    details = (*_cost(meta), *_lacks(meta), *notes_of(meta))
    following = f"next: gradscope inspect {shlex.quote(str(shown))}"
    return Recorded((said, *_out_of_room(meta)), following, details)


def _summed_up(trace: Trace, shown: Path, charset: Charset, width: int) -> Recorded:
    name = shlex.quote(str(shown))
    report = inspect(trace)
    held, *worst = _verdict(trace, report)
    verdict = [row for each in worst for row in _in_three_lines(each, width - len(PREFIX), charset)]
    summary = [f"{shown}: {_held(trace)}{held}", *_on_devices(trace), *verdict]
    notes = [*notes_of(trace)]
    if notes and not any(notes[0] in each for each in worst):
        more = f" (and {len(notes) - 1} more: gradscope info {name})" * (len(notes) > 1)
        summary.append(f"{notes[0]}{more}")
    summary += [*checked_words(trace), *(fault.words for fault in report.faults)]
    following = f"next: gradscope inspect {name}"
    if len(trace.table(Node)):
        following = f"next: gradscope view {name}; or inspect, render, debug"
    own = f".rank{trace.meta.get('rank', 0)}."
    if trace.meta.get("world_size", 1) > 1 and own in shown.name:
        every = shown.with_name(shown.name.replace(own, ".rank*."))
        following = f"next, for all ranks together: gradscope inspect {every}"
    if ranks := recorded_ranks(trace.meta):
        summary.append(ranks)
        every = shown.with_name(f"{shown.stem}.rank*{shown.suffix}")
        following = f"next, for all ranks together: gradscope inspect {every}"
    details = (*_cost(trace), *_lacks(trace), *notes)
    return Recorded(
        tuple(summary), following, details, tuple(_explanation(trace, report, charset, width))
    )


def _out_of_room(meta: Trace) -> Iterator[str]:
    """What to do if the limit was reached that holds for every recording."""
    steps = meta.meta.get("dropped", {}).get("steps", 0)
    if steps:
        yield (
            f"the limit of its size was reached, and {plural(steps, 'more step')} ran at full "
            "speed; --every N records one step in N, --max-bytes N sets the limit"
        )


def _raised(path: Path) -> bool:
    return any(row.kind == EXCEPTION for row in load(path, [Finding]).rows(Finding))


def _in_three_lines(text: str, width: int, charset: Charset) -> list[str]:
    """The text, cut at the end of a third line."""
    first, *rest = wrapped(charset, text, width)
    second, *more = wrapped(charset, " ".join(rest), width - 2)
    third = charset.fit(" ".join(more), width - 2).rstrip()
    return [first, *(f"  {each}" for each in (second, third) if each)]


def _explanation(trace: Trace, report: Report, charset: Charset, width: int) -> Iterator[str]:
    """Findings about the exception that ended the program, unless its message has the line."""
    raised = [row.message for row in trace.rows(Finding) if row.kind == EXCEPTION]
    if not raised:
        return
    said = "\n".join(message for message in raised if PAGE in message)
    of_errors = [
        each
        for each in report.at_least(Severity.ERROR)
        if each.why != UNEXPLAINED
        and any(row.table in _ERRORS for row in each.evidence)
        and not (said and (each.rule == RAISED or each.site.place in said))
    ]
    width = min(width, EXPLANATION_WIDTH)
    for text in findings_lines(of_errors, width, charset, report.findings):
        yield text.plain.rstrip()


def _held(trace: Trace) -> str:
    nodes, unwanted = len(trace.table(Node)), trace.meta.get("unwanted", {}).get("steps", 0)
    if not nodes and unwanted:
        return f"nothing was recorded: {plural(unwanted, 'step')} ran, none of --steps"
    if not nodes:
        return f"no autograd nodes, {plural(trace.event_count, 'event')}"
    steps = trace.table(GraphTask)["step"]
    many = len(distinct(steps[steps >= 0]))
    gone = trace.meta.get("let_go", {}).get("steps", 0)
    between = f" (the first and the latest; {gone:,} between were let go)" * bool(gone)
    said = f"{plural(many, 'step')}{between}, " * bool(many)
    held = f"{said}{plural(nodes, 'node')}, {plural(trace.event_count, 'event')}"
    return f"{held}; interrupted" if str(trace.meta.get("exit", "")).startswith("inter") else held


def _on_devices(trace: Trace) -> Iterator[str]:
    """How many runs of nodes were on each device that has a thread."""
    runs = trace.table(NodeBegin)["thread"]
    many = [
        f"{count(int(np.count_nonzero(runs == thread)))} on {device}"
        for thread, device in trace.once(device_threads).items()
        if thread in runs
    ]
    if many:
        yield f"of {plural(len(runs), 'run')} of nodes, {', '.join(many)}"


def _verdict(trace: Trace, report: Report) -> Iterator[str]:
    """The number of findings of each severity, and then a line with the worst, or with none."""
    found = report.at_least(Severity.WARNING)
    parts = by_severity(report.findings)
    yield f"; {', '.join(parts)}" * bool(parts)
    if not found:
        is_elsewhere = trace.meta.get("unwanted") or recorded_ranks(trace.meta)
        if len(trace.table(Node)) or not is_elsewhere:
            yield _checked(trace, report)
        return
    worst = found[0]
    place = "" if worst.site.place in worst.message else f"{worst.site.place}: "
    yield f"{worst.rule} {place}{worst.message}"


def _checked(trace: Trace, report: Report) -> str:
    """How many rules were checked, and which level checks more."""
    said = nothing_found(report)
    above = Counter(each.needs for each in report.unchecked if not each.lacks)
    if not report.checked or not above or not len(trace.table(Node)):
        return said
    needed = "values" if above.get("values") else "engine"
    more = "NaN, Inf: use" if not above.get("engine") else f"{sum(above.values())} more:"
    return f"{said} ({more} --level {needed})"


def _lacks(trace: Trace) -> Iterator[str]:
    """What was not recorded, if a reader may look for it."""
    absent = trace.meta.get("absent", ())
    lacks = [words for name, words in IN_WORDS.items() if name in absent]
    if "value" in absent and trace.meta.get("level") in {"values", "full"}:
        lacks[0] = "values"  # another level would not help
    if lacks:
        yield f"not recorded: {', '.join(lacks)} (all of it: gradscope info)"


def _cost(trace: Trace) -> Iterator[str]:
    """The time that gradscope has measured for its own work.

    Notes during a step are not measured: reading the clock would take as long as a note.
    """
    spent = trace.meta.get("own_time", {})
    whole = spent.get("recorded", 0)
    parts = {what: ns for what, ns in spent.items() if what != "recorded"}
    if whole <= 0 or not parts:
        return
    shown = ", ".join(f"{what} {duration(ns)}" for what, ns in parts.items())
    took = f"gradscope took at least {duration(sum(parts.values()))} of {duration(whole)}"
    times = AT_MOST.get(str(trace.meta.get("level")))
    of_torch = times is not None and trace.meta.get("producer") == "pytorch"
    many = f" (in benchmarks a step takes 1 to {times} times as long)" if of_torch else ""
    yield f"{took}: {shown}; not measured: notes made during steps{many}"
