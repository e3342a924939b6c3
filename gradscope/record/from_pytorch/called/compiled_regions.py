"""Rows of compilations, graph breaks, and the insides of compiled regions.

They are written from what compilers report (watch/called/compiling.py), so they say what a region
was compiled from, and not what was observed when it ran. Texts are read when notes are flushed, not
while the program compiles.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson

from gradscope.record.from_pytorch.threads import local
from gradscope.record.notes.log import take_all
from gradscope.trace.schema import (
    NONE,
    Compilation,
    GraphBreak,
    Phase,
    Region,
    RegionKernel,
    RegionOp,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from gradscope.record.session import Session
    from gradscope.trace.schema import Row
    from gradscope.watch.called.compiling import CompilerEvent

_WHERE = re.compile(r"user code at (?P<file>.+):(?P<line>\d+)$", re.MULTILINE)
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)')
_REASON = re.compile(r"(Graph Break )?Reason: (Unsupported: )?|Explanation: ")
_HINT, _USELESS = "Hint: ", "Please report an issue"
_LESS = re.compile(r"Encountered graph break when |Developer debug context|For more details|\s*$")
_REST = re.compile(r"torch_dynamo_resume_in_(?P<function>.+)_at_(?P<line>\d+)$")
_OF_PART = re.compile(r"^# AOT ID: \['\d+_(?P<part>\w+)'\]", re.MULTILINE)
LONGEST = 400
CODE = "inductor_output_code"


class CompiledRegions:
    """Turns the reports of compilers into rows."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._events: list[tuple[CompilerEvent, int, int]] = []
        self._regions: dict[int, int] = {}  # the id of the region of each graph of PyTorch
        self._known: set[tuple[int, Phase]] = set()  # graphs of regions that have rows
        self._compilations: dict[str, int] = {}  # ids by PyTorch's names
        self._open: dict[str, dict[str, Any]] = {}  # compilations that have not ended
        self._breaks: set[tuple[int, str, int]] = set()
        self._cached: set[str] = set()
        self._of_compilation: dict[str, list[int]] = {}  # the regions of each compilation
        self._rows: dict[type[Row], list[dict[str, Any]]] = {}
        self._many = {GraphBreak: 0, RegionKernel: 0, RegionOp: 0}
        self.unread = 0  # graphs whose text could not be read
        self.unreported = False  # whether a region was compiled unobserved

    def told(self, event: CompilerEvent, frame: FrameType) -> None:
        """Something that a compiler reported, in a call by this frame."""
        if event.is_graph and event.graph >= 0:
            self._regions.setdefault(event.graph, len(self._regions))
        caller = self._session.sites.of(frame) if event.kind == "dynamo_start" else NONE
        thread = self._session.contexts.threads.of(local.state).id
        self._events.append((event, caller, thread))

    def region(self, graph: str) -> int:
        """The id of the region with this graph of PyTorch; NONE: it was not reported."""
        found = self._regions.get(int(graph), NONE) if graph.isdigit() else NONE
        self.unreported |= found == NONE
        return found

    def flush(self) -> None:
        """Write what was reported so far."""
        events = take_all(self._events)
        events.sort(key=lambda each: each[0].kind == CODE)  # code may come before its graph
        for event, caller, thread in events:
            self._session.faults.guarded(
                "a compiler's report was read", self._read, event, caller, thread
            )
        rows, self._rows = self._rows, {}
        for row, cells in rows.items():
            self._session.writer.block(
                row, {name: [each[name] for each in cells] for name in cells[0]}
            )

    def _read(self, event: CompilerEvent, caller: int, thread: int) -> None:
        if event.is_graph:
            self._graph(event)
        elif event.kind == CODE:
            self._code(event)
        elif not event.of_backward:
            reads: dict[str, Callable[[CompilerEvent, dict[str, Any]], None]] = {
                "compilation_metrics": self._ended, "recompile_reasons": self._again,
                "dynamo_graph_break_reason": self._broke,
                "aotautograd_cache_hit": self._came_from_cache,
            }  # fmt: skip
            cells = self._compilation(event, thread)
            if event.kind in reads:
                reads[event.kind](event, cells)
            else:
                cells["caller"] = caller

    # -- compilations -----------------------------------------------------------------------------

    def _compilation(self, event: CompilerEvent, thread: int) -> dict[str, Any]:
        """The columns of a compilation, as far as they are known."""
        if event.name not in self._open:
            number = self._compilations.setdefault(event.name, len(self._compilations))
            t = event.t - self._session.start
            self._open[event.name] = {
                "id": number, "name": self._text(event.name), "function": 0, "stack": NONE,
                "caller": NONE, "again": [], "error": 0, "thread": thread,
                "step": int(self._session.contexts.steps.at(t)), "begin": t, "end": NONE,
            }  # fmt: skip
        return self._open[event.name]

    def _again(self, event: CompilerEvent, cells: dict[str, Any]) -> None:
        try:
            found = orjson.loads(event.text)
        except orjson.JSONDecodeError:
            found = event.text
        reasons = found if isinstance(found, list) else [found]
        cells["again"] = [self._text(str(each)[:LONGEST]) for each in reasons]

    def _broke(self, event: CompilerEvent, cells: dict[str, Any]) -> None:
        where, stack = _WHERE.search(event.text), NONE
        if where is not None:
            file, line = where["file"], int(where["line"])
            frames = [each for each in _FRAME.finditer(event.text) if each["file"] == file]
            same = [each["function"] for each in frames if int(each["line"]) == line]
            stack = self._line((file, line, same[-1] if same else ""))
        reason, hint = why_broken(event.text)
        key = cells["id"], reason, stack
        if key not in self._breaks:  # after a break, compilation starts again
            self._breaks.add(key)
            self._number(GraphBreak, {
                "compilation": cells["id"], "reason": self._text(reason),
                "hint": self._text(hint), "stack": stack,
            })  # fmt: skip

    def _ended(self, event: CompilerEvent, cells: dict[str, Any]) -> None:
        del self._open[event.name]
        facts = event.facts
        function, first = str(facts.get("co_name") or ""), int(facts.get("co_firstlineno") or 0)
        rest = _REST.match(function)
        if rest is not None:
            function, first = f"{rest['function']}, from line {rest['line']}", int(rest["line"])
        if facts.get("co_filename"):
            cells["stack"] = self._line((str(facts["co_filename"]), first, function))
        cells["function"] = self._text(function)
        cells["error"] = self._text(str(facts.get("fail_reason") or "").strip()[:LONGEST])
        cells["end"] = event.t - self._session.start
        self._rows.setdefault(Compilation, []).append(cells)

    def _came_from_cache(self, event: CompilerEvent, _: dict[str, Any]) -> None:
        self._cached.add(event.name)

    # -- graphs -----------------------------------------------------------------------------------

    def _graph(self, event: CompilerEvent) -> None:
        from gradscope.watch.called.compiled_graphs import graph_of

        region = self._regions.get(event.graph, NONE)
        phase = Phase.BACKWARD if event.kind == "aot_backward_graph" else Phase.FORWARD
        if region == NONE or (region, phase) in self._known:
            return
        try:
            lines = graph_of(event.text)
        except (SyntaxError, ValueError, RecursionError):
            self.unread += 1
            lines = ()
        self._known.add((region, phase))
        if phase == Phase.FORWARD:
            self._of_compilation.setdefault(event.name, []).append(region)
            self._rows.setdefault(Region, []).append({
                "id": region, "compilation": self._compilations.get(event.name, NONE),
                "cached": event.name in self._cached, "t": event.t - self._session.start,
            })  # fmt: skip
        first = self._many[RegionOp]
        for line in lines:
            self._number(RegionOp, {
                "region": region, "phase": int(phase), "name": self._text(line.name),
                "op": self._text(line.op), "type": self._text(line.type),
                "reads": [first + nr for nr in line.reads],
                "stack": NONE if line.source is None else self._line(line.source),
            })  # fmt: skip

    def _code(self, event: CompilerEvent) -> None:
        from gradscope.watch.called.compiled_graphs import kernels_of

        # Code from a cache has the number of the graph that it was generated for.
        which, regions = _OF_PART.search(event.text), self._of_compilation.get(event.name, [])
        if which is None or len(regions) != 1:
            return
        phase = Phase.BACKWARD if which["part"] == "backward" else Phase.FORWARD
        for each in kernels_of(event.text):
            self._number(RegionKernel, {
                "region": regions[0], "phase": int(phase), "name": self._text(each.name),
                "ops": [self._text(op) for op in each.ops],
            })  # fmt: skip

    # -- rows -------------------------------------------------------------------------------------

    def _line(self, source: tuple[str, int, str]) -> int:
        return self._session.sites.of_line(*source)

    def _text(self, text: str) -> int:
        return self._session.writer.intern(text)

    def _number(self, row: type[Row], cells: dict[str, Any]) -> None:
        self._rows.setdefault(row, []).append({"id": self._many[row], **cells})
        self._many[row] += 1


def why_broken(text: str) -> tuple[str, str]:
    """The reason for a graph break, and hints on what to do, in a report of the compiler."""
    reasons: list[str] = []
    hints: list[str] = []
    for line in text.partition("User code traceback:")[0].splitlines()[1:]:
        said = _REASON.sub("", line.strip(), count=1)
        if said.startswith(_HINT):
            if _USELESS not in said:
                hints.append(said.removeprefix(_HINT))
        elif not _LESS.match(said):
            reasons.append(said.rstrip("."))
    return ": ".join(reasons)[:LONGEST], " ".join(hints)[:LONGEST]
