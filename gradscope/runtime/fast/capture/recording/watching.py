"""Watching: a profile function sees which code runs in a step, and what cannot be replayed.

# Note [What may run]
In a watched or recorded step every call outside of kernels is checked. A function of the runtime
may run if its module is listed in `reviewed.py`; if it touches arrays, it must be marked. A
function of the standard library may run if its module only passes its arguments around. C functions
that the program calls may be those of builtins and containers that depend on their arguments alone.
Everything else belongs to the program: what its code reads is held for the guards (see `reach/`).
"""

from __future__ import annotations

import builtins
import dis
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    MethodDescriptorType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from gradscope.runtime.core.state.collecting import without_collecting
from gradscope.runtime.core.state.frames import WRITTEN
from gradscope.runtime.fast.capture.recording import reviewed
from gradscope.runtime.fast.capture.recording.recording import StepRecording

NUMPY = str(Path(np.__file__).parent)
IMPORTING = "importlib._bootstrap"
STAND_INS = "<frozen importlib._bootstrap>"
"""The file name of stand-ins: Note [A frame that is not there] in record/acts/stand_ins.py."""
OURS, FOREIGN, SHUFFLES, LOOKS, DRAWS = range(5)
OPTIMIZERS = "gradscope.runtime.optim."
GATES = "gradscope.runtime.core.dispatch.overrides.gates"
RUNS_PROGRAMS = ("gradscope.runtime", "gradscope.callbacks")


MATCHED = "match"
"""Stands for attributes that a `case` pattern reads, whose names are not in its code."""
BY_STRINGS = frozenset(("__dict__", "__getattribute__", "attrgetter", "methodcaller"))
"""Attributes that read others whose names are strings."""


@dataclass
class WatchedCode:
    """The program's own functions that ran in a step, and the names in them."""

    codes: dict[CodeType, dict[str, Any]] = field(default_factory=dict)
    """Their code and globals."""
    attributes: set[str] = field(default_factory=set)
    every_attribute: bool = False  # whether names are created at run time (getattr, vars)
    passed: set[str] = field(default_factory=set)
    """Names whose values are not called at once: C code may call them."""
    unseen: str = ""  # a C function among them, whose calls are not observed
    reads_options: bool = False  # whether it reads options of optimizers

    def add(self, code: CodeType, scope: dict[str, Any]) -> None:
        if code in self.codes:
            return
        self.codes[code] = scope
        names = names_in(code)
        self.attributes |= names.attributes
        self.passed |= names.passed
        if MATCHED in self.attributes or not BY_STRINGS.isdisjoint(self.attributes):
            self.every_attribute = True
        for name in sorted(names.passed):
            value = scope.get(name, vars(builtins).get(name))
            reason = c_function(value) if isinstance(value, C_FUNCTIONS) else ""
            if reason == EVERY_ATTRIBUTE:
                self.every_attribute = True
            elif reason:
                self.unseen = f"{name} may be called where it cannot be recorded"

    def shuffles(self, code: CodeType, module: str) -> None:
        """Note that a library's function ran that reads attributes of the program's objects."""
        self.attributes |= names_in(code).attributes
        self.every_attribute = self.every_attribute or module == "dataclasses"

    def of_globals(self) -> Iterator[tuple[dict[str, Any], str]]:
        """Each global name that may have been read or written, with its namespace."""
        for code, scope in self.codes.items():
            for name in sorted(names_in(code).of_globals):
                yield scope, name

    def of_imports(self) -> Iterator[tuple[dict[str, Any], str, int]]:
        """Each module imported by the step, with the level of relative imports."""
        for code, scope in self.codes.items():
            for name, above in sorted(names_in(code).imports):
                yield scope, name, above

    def size(self) -> tuple[Any, ...]:
        return len(self.codes), self.every_attribute, len(self.attributes), self.reads_options


class CodeNames(NamedTuple):
    """The names in code."""

    of_globals: frozenset[str]
    attributes: frozenset[str]
    imports: frozenset[tuple[str, int]]
    passed: frozenset[str]  # globals and attributes whose values are not called at once


@cache
def names_in(code: CodeType) -> CodeNames:
    """The names in code."""
    of_globals, attributes, passed = set(), set(), set()
    imports: set[tuple[str, int]] = set()
    constants: list[Any] = []
    for instruction in dis.get_instructions(code):
        name, kind = instruction.argval, instruction.opname
        if kind in ("LOAD_CONST", "LOAD_SMALL_INT"):
            constants.append(name)
        elif kind == "MATCH_CLASS":
            attributes.add(MATCHED)
        elif kind == "IMPORT_NAME":
            imports.add((name, constants[-2]))
        elif isinstance(name, str) and kind.endswith(("_GLOBAL", "_NAME")):
            of_globals.add(name)
            if kind == "LOAD_GLOBAL" and not _is_called(instruction):
                passed.add(name)
        elif isinstance(name, str) and kind.endswith(("_ATTR", "_METHOD", "IMPORT_FROM")):
            attributes.add(name)
            if kind == "LOAD_ATTR" and not (CALLED_BY_ATTR and _is_called(instruction)):
                passed.add(name)
    return CodeNames(
        frozenset(of_globals), frozenset(attributes), frozenset(imports), frozenset(passed)
    )


CALLED_BY_ATTR = sys.version_info >= (3, 12)  # before, there was LOAD_METHOD


def _is_called(instruction: dis.Instruction) -> bool:
    """Whether the loaded value is called next."""
    return bool((instruction.arg or 0) & 1)


def profiled_in_c() -> bool:
    """Whether a C profiler is active: then nothing can be watched."""
    profiler = sys.getprofile()
    return profiler is not None and not callable(profiler)


Profiler: TypeAlias = "Callable[[FrameType, str, Any], object]"


def _each(ours: Profiler, programs: Profiler) -> Profiler:
    """Call both profile functions."""

    def looks(frame: FrameType, event: str, arg: Any) -> None:
        ours(frame, event, arg)
        programs(frame, event, arg)

    return looks


class Watching:
    """Checks each call of a step."""

    def __init__(self, program: WatchedCode, recording: StepRecording) -> None:
        self.program = program
        self.recording = recording
        self._made: dict[int, tuple[Any, dict[str, Any]]] = {}  # running factories, by frame
        self._aside: FrameType | None = None  # what runs until it returns is not part of the step

    @contextmanager
    def active(self) -> Iterator[None]:
        """Watch calls inside the block. Garbage collection is postponed."""
        before: Any = sys.getprofile()
        looks = self._look if before is None else _each(self._look, before)
        with without_collecting():
            sys.setprofile(looks)
            try:
                yield
            finally:
                if sys.getprofile() is looks:
                    sys.setprofile(before)
                else:
                    self.recording.stop("the step sets a profiler", "")

    def _look(self, frame: FrameType, event: str, arg: Any) -> None:
        recording, code = self.recording, frame.f_code
        if recording.inside or recording.stops:
            return
        module = frame.f_globals.get("__name__", "")
        kind, what = _kind_of(code, module)
        if self._looks_aside(frame, event, module, is_programs=kind == FOREIGN and not what):
            return
        if event == "call":
            if module.startswith(OPTIMIZERS) and asks_for_options(code):
                self.program.reads_options = True
            if kind == FOREIGN and not what:
                self.program.add(code, frame.f_globals)
            elif kind == FOREIGN and not _called_by_runtime(frame):
                recording.stop(what)
            elif kind == SHUFFLES:
                self.program.shuffles(code, module)
            elif kind == LOOKS and recording.records:  # else it may be in a kernel
                self._look_closer(frame, what)
            elif kind == DRAWS and recording.records and not self._made:
                recording.stop("random numbers are drawn or seeded where it cannot be recorded")
        elif event == "return" and id(frame) in self._made:
            self._factory_returns(frame, arg)
        elif event == "c_call" and kind == FOREIGN and not what:
            self._of_c(frame, arg)

    def _looks_aside(self, frame: FrameType, event: str, module: str, *, is_programs: bool) -> bool:
        """Whether this is not part of the step: an import, or a watcher's own work.

        A kernel may import its library. Stand-ins call their originals, which are checked, and so
        are the program's functions that a watcher calls.
        """
        aside = self._aside
        if aside is None:
            watches = _is_watchers(module) and frame.f_code.co_filename != STAND_INS
            if event == "call" and (watches or module == IMPORTING):
                self._aside = frame
            return self._aside is not None
        calls_back = is_programs and event == "call"
        if (frame is aside and event == "return") or (
            calls_back and _is_watchers(aside.f_globals.get("__name__", ""))
        ):
            self._aside = None
            return not calls_back
        return True

    def _of_c(self, frame: FrameType, function: Any) -> None:
        reason = c_function(function)
        if reason == EVERY_ATTRIBUTE:
            self.program.every_attribute = True
        elif reason:
            self.recording.stop(reason, f"{frame.f_code.co_filename}:{frame.f_lineno}")

    def _look_closer(self, frame: FrameType, name: str) -> None:
        """Check a function of the runtime that uses arrays."""
        found = reviewed.mark_of(name)
        if found is None:
            self.recording.stop(reviewed.why_not(name))
        elif found is reviewed.ANSWER:
            above = frame.f_back
            while above is not None and _is_gate(above):
                above = above.f_back
            if above is not None and above.f_code in self.program.codes:
                self.recording.stop(f"{reviewed.in_words(name)} is read, which may change")
        elif found is not reviewed.HARMLESS:
            reason = found(self.recording, frame.f_locals)
            if reason is reviewed.CONSTANT or reason is reviewed.DRAWN:
                self._made[id(frame)] = (reason, dict(frame.f_locals))
            elif reason:
                self.recording.stop(reason)

    def _factory_returns(self, frame: FrameType, result: Any) -> None:
        reason, given = self._made.pop(id(frame))
        if reason is reviewed.CONSTANT and result is not None:
            self.recording.constant(result._array)
        elif reason is reviewed.DRAWN and result is not None:
            reviewed.drawn(self.recording, frame, given, result)


def _is_gate(frame: FrameType) -> bool:
    """Whether the frame belongs to a gate, which a mode of the program may intercept."""
    return frame.f_code.co_filename.startswith(WRITTEN) or frame.f_globals.get("__name__") == GATES


@cache
def asks_for_options(code: CodeType) -> bool:
    """Whether code of the runtime reads groups of parameters, other than in a step."""
    names = names_in(code).attributes
    return "param_groups" in names and code.co_name not in ("step", "zero_grad")


def _is_watchers(module: str) -> bool:
    return module.partition(".")[0] == "gradscope" and not module.startswith(RUNS_PROGRAMS)


def _called_by_runtime(frame: FrameType) -> bool:
    """Whether the runtime called a library's function, which is then part of the runtime."""
    above = frame.f_back
    while above is not None:
        kind, what = _kind_of(above.f_code, above.f_globals.get("__name__", ""))
        if kind in (OURS, LOOKS):
            return True
        if kind == FOREIGN and not what:
            return False
        above = above.f_back
    return False


_kinds: dict[CodeType, tuple[int, str]] = {}


def _kind_of(code: CodeType, module: str) -> tuple[int, str]:
    found = _kinds.get(code)
    if found is None:
        found = _kinds[code] = _classified(code, module)
    return found


def _classified(code: CodeType, module: str) -> tuple[int, str]:
    """The owner of this code, and the reason if it cannot run in a replayed step."""
    file = code.co_filename
    if file.startswith(WRITTEN):
        return OURS, ""
    if module == "gradscope.runtime" or module.startswith("gradscope.runtime."):
        return _of_runtime(code, module.removeprefix("gradscope.runtime").removeprefix("."))
    top = module.partition(".")[0]
    if file.startswith(NUMPY) or top in ("numpy", "numba", "llvmlite"):
        return FOREIGN, f"NumPy's {code.co_name} is called"
    if _is_watchers(module):
        return OURS, ""  # it gets reports of the step
    if top in reviewed.SHUFFLING or top.startswith("namedtuple_"):
        return SHUFFLES, ""
    if top in sys.stdlib_module_names and top != "__main__":
        return FOREIGN, f"{module}.{code.co_name} of the standard library is called"
    return FOREIGN, ""


def _of_runtime(code: CodeType, module: str) -> tuple[int, str]:
    if module.startswith(("core.kernels.", "fast")):
        return OURS, ""
    if module == "core.state.generator":
        return DRAWS, ""
    name = f"{module}:{code.co_qualname}"
    mark = reviewed.mark_of(name)
    if mark is not None:
        return (OURS, "") if mark is reviewed.HARMLESS else (LOOKS, name)
    allowed = module.startswith(reviewed.MODULES) and reviewed.looks_at_layout_only(code)
    return (OURS, "") if allowed else (LOOKS, name)


EVERY_ATTRIBUTE = "every attribute"
C_FUNCTIONS = (
    BuiltinFunctionType, MethodDescriptorType, MethodWrapperType, WrapperDescriptorType,
)  # fmt: skip


def c_function(function: Any) -> str:
    """Why a call of a C function by the program cannot be replayed; empty if it can."""
    name, owner = getattr(function, "__name__", "?"), getattr(function, "__self__", None)
    module = getattr(function, "__module__", None)
    if module == "builtins":
        if name in reviewed.BUILTINS:
            return EVERY_ATTRIBUTE if name in reviewed.READS_NAMES else ""
        return f"{name}() is called"
    if module in reviewed.C_MODULES:
        return ""
    kind: Any = owner if isinstance(owner, type) else type(owner)
    if module is None and owner is not None and kind in reviewed.CONTAINERS:
        by_name = kind is str and name in ("format", "format_map")  # "{0.rate}"
        return EVERY_ATTRIBUTE if by_name else ""
    objclass = getattr(function, "__objclass__", None)
    if objclass in reviewed.CONTAINERS or (objclass is object and name == "__init__"):
        return ""
    return f"{module or kind.__name__}.{name}() is called"


Look = Callable[[StepRecording, dict[str, Any]], Any]
