"""Breakpoints that an editor sets: at lines, by name, on data, for errors."""

from __future__ import annotations

from typing import Any

from gradscope.debug.dap.session import Asked, EditorSession, request
from gradscope.errors import GradscopeError

FILTERS = (
    {"filter": "error", "label": "Exception", "default": True},
    {"filter": "nan", "label": "First NaN (level values)", "default": False},
    {"filter": "inf", "label": "First Inf (level values)", "default": False},
    {"filter": "finding", "label": "A finding of gradscope inspect", "default": False},
)


def _replace(session: EditorSession, kind: str, texts: list[str]) -> list[dict[str, Any]]:
    """Replace all breakpoints of one kind by these."""
    for number in session.set.pop(kind, []):
        if number in session.walk.stops:
            session.walk.remove(number)
    numbers, found = session.set.setdefault(kind, []), []
    for text in texts:
        try:
            stop = session.walk.set(text)
        except GradscopeError as error:
            found.append({"verified": False, "message": str(error)})
            continue
        numbers.append(stop.number)
        many = len(stop.moments)
        said = f"{many:,} moments{' so far' * session.live}"
        shown = {"id": stop.number, "verified": many > 0 or session.live, "message": said}
        found.append(shown)
    return found


@request("setBreakpoints")
def _set_breakpoints(session: EditorSession, asked: Asked) -> dict[str, Any]:
    path = str(asked.get("source", {}).get("path", ""))
    wanted = asked.get("breakpoints") or []
    if session.live:
        texts = [_with_conditions(f'line "{path}:{int(each["line"])}"', each) for each in wanted]
        set_ = _replace(session, f"source {path}", texts)
        return {"breakpoints": [{**a, "line": b["line"]} for a, b in
                                zip(set_, wanted, strict=True)]}  # fmt: skip
    file = session.sources.recorded(path)
    if not file:
        why = "the trace contains nothing from this file"
        _replace(session, f"source {path}", [])
        return {"breakpoints": [{"verified": False, "message": why} for _ in wanted]}
    lines = [session.sources.nearest(file, int(each["line"])) for each in wanted]
    texts = [
        _with_conditions(f"line {file}:{line}", each)
        for line, each in zip(lines, wanted, strict=True)
    ]
    set_ = _replace(session, f"source {path}", texts)
    return {"breakpoints": [{**each, "line": n} for each, n in zip(set_, lines, strict=True)]}


@request("setFunctionBreakpoints")
def _set_function_breakpoints(session: EditorSession, asked: Asked) -> dict[str, Any]:
    wanted = asked.get("breakpoints") or []
    texts = [_with_conditions(str(each.get("name", "")), each) for each in wanted]
    return {"breakpoints": _replace(session, "function", texts)}


@request("setExceptionBreakpoints")
def _set_exception_breakpoints(session: EditorSession, asked: Asked) -> dict[str, Any]:
    known = [each["filter"] for each in FILTERS]
    filters = [each for each in asked.get("filters") or [] if each in known]
    return {"breakpoints": _replace(session, "exception", filters)}


@request("dataBreakpointInfo")
def _data_breakpoint_info(session: EditorSession, asked: Asked) -> dict[str, Any]:
    name = asked.get("name")
    rows = session.variables.rows(int(asked.get("variablesReference") or 0))
    watch = next((row.watch for row in rows if row.name == name and row.watch), "")
    if not watch:
        return {"dataId": None, "description": "only saved tensors and .grad can be watched"}
    return {"dataId": watch, "description": f"stop at: {watch}", "accessTypes": ["write"]}


@request("setDataBreakpoints")
def _set_data_breakpoints(session: EditorSession, asked: Asked) -> dict[str, Any]:
    wanted = asked.get("breakpoints") or []
    texts = [_with_conditions(str(each.get("dataId", "")), each) for each in wanted]
    return {"breakpoints": _replace(session, "data", texts)}


def _with_conditions(text: str, asked: dict[str, Any]) -> str:
    condition, nth = str(asked.get("condition") or ""), str(asked.get("hitCondition") or "")
    return f"{text}{f' if {condition}' if condition else ''}{f' nth {nth}' if nth else ''}"
