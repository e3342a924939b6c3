"""The last lines of `gradscope trace`: what the trace contains and lacks, what to do next."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gradscope.analysis.findings import Severity
from gradscope.analysis.program.endings import EXCEPTION
from gradscope.analysis.report import Guard, Report, inspect
from gradscope.analysis.rules.engine import PAGE, UNEXPLAINED
from gradscope.errors import UnreadableTraceError
from gradscope.render.terminal.cells import UNICODE, Charset
from gradscope.render.views.report import NUMBERS, findings_lines
from gradscope.scene.readable import byte_count, duration, plural
from gradscope.trace.load_save import load
from gradscope.trace.schema import Finding, Meta, Node
from gradscope.trace.shortcomings import notes_of
from gradscope.trace.trace import Trace

LOOKED_THROUGH, EXPLAINED = 16 << 20, 64 << 20
"""Sizes above which a trace is not inspected here; the second for scripts that raised."""

WIDTH = 100
RAISED = "GS301"
_ERRORS = ("event", "finding")
"""Tables that findings about exceptions refer to."""

IN_WORDS = {
    "value": "values (--level values)",
    "op.end": "times of forward calls",
    "version": "in-place writes",
    "accumulate.how": "how gradients were accumulated",
    "saved_unpacked": "reads of saved tensors",
    "wait": "waits of the engine's threads",
}
"""Names of what a trace may lack and readers may expect."""

AT_MOST = {"graph": 1.7, "engine": 2.6, "values": 3.4}
"""How many times as long a step took on PyTorch, for a tiny model; larger models take less.

`python -m bench watching` measures it.
"""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What is printed about a trace that was just written."""

    lines: tuple[str, ...]
    following: str  # what to do next
    explanation: tuple[str, ...] = ()  # of the exception that ended the program


def recorded(path: Path, shown: Path, charset: Charset = UNICODE) -> Recorded:
    """The lines about the trace just written; `shown` is its path as the user gave it."""
    name = shlex.quote(str(shown))
    following = f"next: gradscope inspect {name}, gradscope render {name}, gradscope debug {name}"
    try:
        size = path.stat().st_size
        if size > LOOKED_THROUGH and (size > EXPLAINED or not _raised(path)):
            told = f"{shown}: {byte_count(size)}, too large to be checked here"
            said = _said_of(load(path, [Meta]))
            return Recorded((told, *said), f"next: gradscope inspect {name}")
        trace = load(path)
    except (OSError, UnreadableTraceError) as error:
        return Recorded((), str(error))
    guard = Guard()
    nothing = Recorded((), following)
    seen = guard.tried("the summary", lambda: _looked_through(trace, shown, charset), nothing)
    lines = (*seen.lines, *(fault.words for fault in guard.faults))
    return Recorded(lines, following, seen.explanation)


def _looked_through(trace: Trace, shown: Path, charset: Charset) -> Recorded:
    report = inspect(trace)
    faults = (fault.words for fault in report.faults)
    lines = (f"{shown}: {_held(trace, report)}", *faults, *_said_of(trace))
    return Recorded(lines, "", tuple(_explanation(trace, report, charset)))


def _raised(path: Path) -> bool:
    return any(row.kind == EXCEPTION for row in load(path, [Finding]).rows(Finding))


def _explanation(trace: Trace, report: Report, charset: Charset) -> Iterator[str]:
    """Findings about the exception that ended the program, unless its message names the line."""
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
    for text in findings_lines(of_errors, WIDTH, charset, report.findings):
        yield text.plain.rstrip()


def _held(trace: Trace, report: Report) -> str:
    found, notes = report.at_least(Severity.WARNING), report.notes
    nodes = plural(len(trace.table(Node)), "node")
    events = plural(trace.event_count, "event")
    kinds = Counter(f"{each.rule} {each.slug}" for each in found)
    shown = ", ".join(name + f" ×{times}" * (times > 1) for name, times in kinds.items())
    said = plural(len(found), "finding") + f" ({shown})" * bool(kinds)
    if not found:
        said = f"{plural(len(report.checked), 'rule')} checked, no problems found"
    said += f", {plural(len(notes), 'note')}" * bool(notes)
    return f"{nodes}, {events}; {said}{_not_looked_at(trace, report)}"


def _not_looked_at(trace: Trace, report: Report) -> str:
    """What was not checked because it needs a higher level."""
    above = Counter(each.needs for each in report.unchecked if not each.lacks)
    if not above or not len(trace.table(Node)):
        return ""
    parts = []
    if above.get("engine"):
        rules = plural(above["engine"], "rule")
        parts.append(f"not checked: what the program did, use --level engine ({rules})")
    if above.get("values"):
        parts.append(
            f"not checked: {NUMBERS}, use --level values ({plural(above['values'], 'rule')})"
        )
    return f"; {'; '.join(parts)}" if parts else ""


def _said_of(trace: Trace) -> Iterator[str]:
    """What the recording cost, and what it lacks."""
    cost = _cost(trace)
    if cost:
        yield cost
    absent = trace.meta.get("absent", ())
    lacks = [words for name, words in IN_WORDS.items() if name in absent]
    if "value" in absent and trace.meta.get("level") in {"values", "full"}:
        lacks[0] = "values"  # another level would not help
    if lacks:
        yield f"not recorded: {', '.join(lacks)}; gradscope info lists everything that is missing"
    yield from notes_of(trace)


def _cost(trace: Trace) -> str:
    """The least time that gradscope took, and how much more recording each step may have cost.

    That is not measured, since reading the clock would cost as much.
    """
    spent = trace.meta.get("own_time", {})
    whole = spent.get("recorded", 0)
    parts = {what: ns for what, ns in spent.items() if what != "recorded"}
    if whole <= 0 or not parts:
        return ""
    shown = ", ".join(f"{what} {duration(ns)}" for what, ns in parts.items())
    took = f"gradscope itself took at least {duration(sum(parts.values()))} of {duration(whole)}"
    times = AT_MOST.get(str(trace.meta.get("level")))
    of_torch = times is not None and trace.meta.get("producer") == "pytorch"
    many = f"; in benchmarks a step took 1 to {times} times as long" if of_torch else ""
    return f"{took} ({shown}), plus the cost of recording each step, not measured here{many}"
