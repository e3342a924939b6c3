"""Requests of an editor, except breakpoints: launch, moves, variables."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from gradscope.analysis.answers.meant import tensor_meant
from gradscope.debug.commands import answer
from gradscope.debug.dap.breakpoints import FILTERS
from gradscope.debug.dap.launched import Launched, is_script
from gradscope.debug.dap.running import RunningProgram
from gradscope.debug.dap.session import Asked, EditorSession, arrived, reason_for, request, stopped
from gradscope.debug.dap.sources import Sources
from gradscope.debug.dap.stack import StackLevel, levels, threads, told
from gradscope.debug.dap.variables import Variable, scopes
from gradscope.debug.live.walk import LiveWalk
from gradscope.debug.walk import MoveResult, Walk
from gradscope.errors import UsageError
from gradscope.scene.answers.answer import Answer
from gradscope.scene.moments import MomentWords
from gradscope.trace.load_save import load
from gradscope.trace.schema import NONE

CAN = {
    **dict.fromkeys(
        (
            "supportsConfigurationDoneRequest", "supportsFunctionBreakpoints",
            "supportsConditionalBreakpoints", "supportsHitConditionalBreakpoints",
            "supportsDataBreakpoints", "supportsStepBack", "supportsSteppingGranularity",
            "supportsGotoTargetsRequest", "supportsEvaluateForHovers",
            "supportsLoadedSourcesRequest", "supportsTerminateRequest",
        ),
        True,
    ),
    "exceptionBreakpointFilters": list(FILTERS),
}  # fmt: skip


SOON = 100
"""Number of moments that are searched for the first with a line."""


# -- begin and end ----------------------------------------------------------------------------


@request("initialize")
def _initialize(_session: EditorSession, _asked: Asked) -> dict[str, Any]:
    return CAN


@request("launch", "attach")
def _launch(session: EditorSession, asked: Asked) -> None:
    session.stops_first = bool(asked.get("stopOnEntry", not session.live))
    if session.live:
        session.after(lambda: session.wire.event("initialized"))
        return
    if is_script(asked):
        session.launched = Launched(asked, partial(_printed, session))
        return
    path = asked.get("program") or asked.get("trace")
    if not isinstance(path, str):
        raise UsageError("launch has no `program`: give the path of a trace or script")
    session.opened = Walk(load(path))
    session.known_sources = Sources(session.opened.trace)
    at = asked.get("at")
    session.opened.moment = _first(session.opened) if at is None else session.opened.place(str(at))
    session.stops_at = "" if at is None else str(at)
    trace = session.opened.trace
    for note in trace.notes[: trace.truncated]:
        session.after(partial(_printed, session, "console", f"gradscope: {note}\n"))
    session.after(lambda: session.wire.event("initialized"))


def _at_first(at: str) -> tuple[str, str]:
    """Why the session stops at its first moment: the reason of the protocol, and in words."""
    if not at:
        return "entry", ""
    named = re.fullmatch(r"e?[\d,]+|start|end", at)
    return ("goto", "") if named else (reason_for(at), at)


def _first(walk: Walk) -> int:
    """The first moment that has a source line for the editor to show."""
    happened = (walk.at(moment).happened for moment in range(min(walk.last + 1, SOON)))
    lines = (moment for moment, row in enumerate(happened) if getattr(row, "stack", NONE) != NONE)
    return next(lines, 0)


def _printed(session: EditorSession, category: str, text: str) -> None:
    session.wire.event("output", category=category, output=text)


@request("configurationDone")
def _configuration_done(session: EditorSession, _asked: Asked) -> None:
    session.configured = True
    if session.live:
        return
    walk = session.walk  # raises an error without a trace
    if session.stops_first:
        session.after(lambda: stopped(session, *_at_first(session.stops_at)))
    else:
        session.after(lambda: arrived(session, walk.run(forward=True), "breakpoint"))


@request("disconnect")
def _disconnect(session: EditorSession, asked: Asked) -> None:
    session.over = True
    session.ends = bool(asked.get("terminateDebuggee", False))


@request("terminate")
def _terminate(session: EditorSession, _asked: Asked) -> None:
    if session.live:
        session.over = session.ends = True
    else:
        session.after(lambda: session.wire.event("terminated"))


# -- moves ------------------------------------------------------------------------------------


def _go(
    session: EditorSession,
    move: Callable[[], MoveResult],
    reason: str,
) -> None:
    arrival = move()
    session.after(lambda: arrived(session, arrival, reason))


@request("continue")
def _continue(session: EditorSession, _asked: Asked) -> dict[str, Any]:
    _go(session, lambda: session.walk.run(forward=True), "breakpoint")
    return {"allThreadsContinued": True}


@request("reverseContinue")
def _reverse_continue(session: EditorSession, _asked: Asked) -> None:
    _go(session, lambda: session.walk.run(forward=False), "breakpoint")


@request("next")
def _next(session: EditorSession, asked: Asked) -> None:
    fine = asked.get("granularity") == "instruction"
    _go(session, lambda: session.walk.step(1) if fine else session.walk.work(1), "step")


@request("stepBack")
def _step_back(session: EditorSession, asked: Asked) -> None:
    fine = asked.get("granularity") == "instruction"
    _go(session, lambda: session.walk.step(-1) if fine else session.walk.work(-1), "step")


@request("stepIn")
def _step_in(session: EditorSession, _asked: Asked) -> None:
    _go(session, lambda: session.walk.step(1), "step")


@request("stepOut")
def _step_out(session: EditorSession, _asked: Asked) -> None:
    _go(session, lambda: session.walk.out(forward=True), "step")


@request("pause")
def _pause(session: EditorSession, _asked: Asked) -> None:
    if isinstance(session.opened, RunningProgram):
        session.pauses = True
        session.opened.pause()
    else:
        session.after(lambda: stopped(session, "pause"))


@request("gotoTargets")
def _goto_targets(session: EditorSession, asked: Asked) -> dict[str, Any]:
    file = session.sources.recorded(str(asked.get("source", {}).get("path", "")))
    line = int(asked.get("line", 0))
    moment = session.walk.place(f"line {file or '?'}:{line}")
    label = f"moment {moment:,}, the first at this line"
    return {"targets": [{"id": moment, "label": label, "line": line}]}


@request("goto")
def _goto(session: EditorSession, asked: Asked) -> None:
    _go(session, lambda: session.walk.go(int(asked.get("targetId", -1))), "goto")


# -- looks ------------------------------------------------------------------------------------


@request("threads")
def _threads(session: EditorSession, _asked: Asked) -> dict[str, Any]:
    if isinstance(session.opened, RunningProgram):
        return {"threads": session.opened.threads()}
    return {"threads": threads(session.walk.state)}


@request("stackTrace")
def _stack_trace(session: EditorSession, asked: Asked) -> dict[str, Any]:
    found = levels(session.walk.state, int(asked.get("threadId", 1)) - 1)
    first = len(session.levels)
    session.levels += found
    shown = [told(each, first + at + 1, session.sources) for at, each in enumerate(found)]
    start = int(asked.get("startFrame") or 0)
    many = int(asked.get("levels") or len(shown))
    return {"stackFrames": shown[start : start + many], "totalFrames": len(shown)}


@request("scopes")
def _scopes(session: EditorSession, asked: Asked) -> dict[str, Any]:
    number = int(asked.get("frameId", 0))
    level = session.levels[number - 1] if 0 < number <= len(session.levels) else StackLevel("")
    found = []
    for each in scopes(session.walk.state, level):
        reference = session.variables.reference(each.inside)
        found.append({"name": each.name, "variablesReference": reference, "expensive": False})
    return {"scopes": found}


@request("variables")
def _variables(session: EditorSession, asked: Asked) -> dict[str, Any]:
    rows = session.variables.rows(int(asked.get("variablesReference", 0)))
    return {"variables": [session.variables.told(row) for row in rows]}


@request("evaluate")
def _evaluate(session: EditorSession, asked: Asked) -> dict[str, Any]:
    text = str(asked.get("expression", "")).strip()
    if asked.get("context") in ("hover", "watch", "variables"):
        if isinstance(session.walk, LiveWalk):
            return {"result": session.walk.shown(text), "variablesReference": 0}
        trace = session.walk.trace
        named = trace.once(MomentWords).cells.tensor(tensor_meant(trace, text))
        return {"result": named, "variablesReference": 0}
    before = session.walk.moment
    said = answer(session.walk, text)
    if session.walk.moment != before:
        session.after(lambda: stopped(session, "goto"))
    inside = session.variables.reference(lambda: _as_rows(said)) if said.sections else 0
    return {"result": _in_lines(said), "variablesReference": inside}


@request("loadedSources")
def _loaded_sources(session: EditorSession, _asked: Asked) -> dict[str, Any]:
    return {"sources": [session.sources.told(file) for file in session.sources.all]}


@request("source")
def _source(session: EditorSession, asked: Asked) -> dict[str, Any]:
    return {"content": session.sources.text(int(asked.get("sourceReference") or 0))}


def _in_lines(said: Answer) -> str:
    lines = [said.title, *(f"{name}: {value}" for name, value in said.facts)]
    for section in said.sections:
        lines += [section.title, *(f"  {each}" for each in section.lines)]
    return "\n".join([*lines, *said.notes])


def _as_rows(said: Answer) -> list[Variable]:
    return [Variable(section.title, line) for section in said.sections for line in section.lines]
