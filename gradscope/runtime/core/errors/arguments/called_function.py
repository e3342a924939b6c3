"""Finds which function of the runtime the user's code called, and with which arguments."""

from __future__ import annotations

import ast
import dis
import linecache
import sys
from inspect import CO_VARARGS, CO_VARKEYWORDS
from itertools import islice
from types import CodeType, FrameType, ModuleType
from typing import Any, NamedTuple

from gradscope.runtime.core.errors.arguments.kinds import UNKNOWN, UNTOLD
from gradscope.runtime.core.errors.arguments.refusal import refusal
from gradscope.runtime.core.errors.arguments.signatures import CallSignature, table
from gradscope.runtime.core.state.frames import WRITTEN, is_gate, is_inside

NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim", "x": "input"}

FUNCTIONAL = "nn."
PREFIXES = frozenset({"fft", "linalg", "special"})
"""Modules whose functions have the module's name as a prefix in `signatures.txt`."""


def wrong_call() -> TypeError | None:
    """The error of the user's call, if its arguments are of the wrong kinds."""
    called: FrameType | None = None
    behind: FrameType | None = None  # the same, behind its gate
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (_is_road(frame.f_code) or is_inside(frame)):
        behind = behind if is_gate(frame) else frame
        called, frame = frame, frame.f_back
    if called is None or frame is None:
        return None
    call = _call_at(frame)
    if call is None:
        return None
    known, given = table(), None
    ways = known.get(call.label)
    if ways is not None:
        given = _given(called, call)
    elif call.home == FUNCTIONAL and (ways := known.get(f"~{call.name}")):
        given = _passed_on(behind or called, ways[0])
    if ways is None or given is None:
        return None
    said = refusal(call.name, ways, *given)
    return None if said is None or UNTOLD in said else TypeError(said)


class WrongCall(NamedTuple):
    """A call as the user wrote it; `home` is "." for methods, else the prefix of its label."""

    name: str
    home: str
    by_place: int
    by_name: tuple[str, ...]

    @property
    def label(self) -> str:
        return f"{self.home}{self.name}"


def _call_at(frame: FrameType) -> WrongCall | None:
    """The call that a frame is executing, if its text is available and complete."""
    code = frame.f_code
    place = next(islice(code.co_positions(), frame.f_lasti // 2, None), None)
    if place is None or None in place:
        return None
    text = _between(code.co_filename, *place)  # type: ignore[arg-type]
    try:
        call = ast.parse(f"({text})", mode="eval").body
    except SyntaxError:
        return None
    if not isinstance(call, ast.Call) or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    names = tuple(keyword.arg for keyword in call.keywords)
    if None in names:
        return None
    named = tuple(str(name) for name in names)
    match call.func:
        case ast.Name(id=name):
            return WrongCall(name, _home(_resolved(call.func, frame), name), len(call.args), named)
        case ast.Attribute(value=owner, attr=name):
            module = _resolved(owner, frame)
            if not isinstance(module, ModuleType):
                return WrongCall(name, ".", len(call.args), named)
            short = module.__name__.rpartition(".")[2]
            if short in PREFIXES:
                return WrongCall(f"{short}_{name}", "", len(call.args), named)
            home = FUNCTIONAL if short == "functional" else ""
            return WrongCall(name, home, len(call.args), named)
    return None


def _home(function: Any, name: str) -> str:
    """Prefix of the module that defines a function which the program calls by its plain name."""
    for module, home in (("", ""), (".nn.functional", FUNCTIONAL)):
        if getattr(sys.modules.get(f"gradscope.runtime{module}"), name, None) is function:
            return home
    return "?"


def _between(file: str, line: int, last: int, start: int, end: int) -> str:
    """The text of a file between two positions; columns are counted in bytes."""
    lines = [linecache.getline(file, n).encode() for n in range(line, last + 1)]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    return b"".join(lines).decode(errors="replace")


def _resolved(node: ast.expr, frame: FrameType) -> Any:
    """The object that a name, or a module's attribute, refers to, if it can be looked up."""
    match node:
        case ast.Name(id=name):
            return frame.f_locals.get(name, frame.f_globals.get(name))
        case ast.Attribute(value=owner, attr=name):
            module = _resolved(owner, frame)
            return getattr(module, name, None) if isinstance(module, ModuleType) else None
    return None


def _given(frame: FrameType, call: WrongCall) -> tuple[list[Any], dict[str, Any]] | None:
    """The arguments of a call, read from the frame of the function."""
    code, values = frame.f_code, frame.f_locals
    names = code.co_varnames[: code.co_argcount]
    changed = set() if _is_road(code) else _changed(code)

    def value(name: str) -> Any:
        return UNKNOWN if name in changed else values.get(name, UNKNOWN)

    place = code.co_argcount + code.co_kwonlyargcount
    by_place = list(map(value, names))
    if code.co_flags & CO_VARARGS:
        by_place += values.get(code.co_varnames[place], ())
        place += 1
    first = 1 if call.home == "." else 0
    by_place = by_place[first : first + call.by_place]
    if len(by_place) != call.by_place:
        return None
    known = set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    others = values.get(code.co_varnames[place], {}) if code.co_flags & CO_VARKEYWORDS else {}
    by_name = {}
    for name in call.by_name:
        if name not in known and name not in others:
            return None
        by_name[NUMPY_NAMES.get(name, name)] = value(name) if name in known else others[name]
    return by_place, by_name


def _is_road(code: CodeType) -> bool:
    """Whether code was generated by the runtime; its variables still hold the arguments."""
    return code.co_filename.startswith(WRITTEN)


def _passed_on(frame: FrameType, way: CallSignature) -> tuple[list[Any], dict[str, Any]]:
    """Arguments a Python function of PyTorch passes to its C++ function, all positional."""
    changed = _changed(frame.f_code)
    values = [
        UNKNOWN if p.name in changed else frame.f_locals.get(p.name, UNKNOWN)
        for p in way.parameters
        if not p.by_name
    ]
    return values, {}


def _changed(code: CodeType) -> set[str]:
    """The variables that a function assigns."""
    found: set[str] = set()
    for step in dis.get_instructions(code):
        if step.opname.startswith(("STORE_FAST", "STORE_DEREF", "DELETE_FAST")):
            found.update(step.argval if isinstance(step.argval, tuple) else (step.argval,))
    return found
