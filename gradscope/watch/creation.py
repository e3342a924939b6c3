"""Observes the creation of nodes: every new node requests a traceback and gets a number.

# Note [Anomaly mode]
While anomaly mode is on, the constructor of each node looks up `torch.fx.traceback.format_stack`,
calls it, and stores the result in `node.metadata["traceback_"]`. We replace that function; it is
called on the thread and frame that create the node, and its result identifies the node later.
Natively, a function that the constructor calls before it is replaced instead
(watch/native/creation.py). The check for NaN stays off. A program that uses anomaly mode itself
sees the expected state: its switches are replaced while we watch, and it gets its tracebacks.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.fx.traceback as tracebacks

from gradscope.errors import is_the_programs
from gradscope.watch.in_place.compilers import compiler_aside, uncompiled
from gradscope.watch.in_place.standing_in import Replaced, stand_in
from gradscope.watch.listener import PythonNodeRecord, TracebackWithRecord
from gradscope.watch.unseen import stands_for

if TYPE_CHECKING:
    from gradscope.watch.in_place.faults import Faults
    from gradscope.watch.listener import Listener
    from gradscope.watch.native.creation import RecordMaker

KEY, PARENT = "traceback_", "parent_"
_ON = (True,)
_SWITCHES = ("set_anomaly_enabled", "is_anomaly_enabled", "is_anomaly_check_nan_enabled")
_OURS = f'  File "{Path(__file__).absolute().parents[1]}{os.sep}'
_RUNS_SCRIPTS = f"{_OURS}{os.path.join('record', 'run_script.py')}"  # noqa: PTH118


class Creation:
    """Replaces the function that creates tracebacks, and the switches of anomaly mode."""

    def __init__(self, listener: Listener, faults: Faults, maker: RecordMaker | None) -> None:
        self._listener = listener
        self._faults = faults
        self._maker = maker
        self._ours = self._format_stack if maker is None else self._lines
        self._own_stack: Any = None
        self._aside = compiler_aside()
        self._own: dict[str, Any] = {}
        self._replaced = Replaced(stands_for)
        self.asked_for = False  # by the program
        self._checks_nan = True

    def start(self) -> None:
        self._own_stack = tracebacks.format_stack
        self._own = {name: getattr(torch._C, name) for name in _SWITCHES}
        self.asked_for = self._own["is_anomaly_enabled"]()
        self._checks_nan = self._own["is_anomaly_check_nan_enabled"]()
        for name in _SWITCHES:
            ours = stand_in(torch._C, self._own[name], getattr(self, name))
            for home in (torch, torch._C):
                if hasattr(home, name):
                    self._replaced.put_as_it_is(home, name, ours)
        self._stand_in()
        if self._maker is not None:
            self._maker.start()
        self._own["set_anomaly_enabled"](*_ON, self.asked_for and self._checks_nan)

    def stop(self) -> None:
        if tracebacks.format_stack == self._ours:
            tracebacks.format_stack = self._own_stack
        self._replaced.take_back()
        self._own["set_anomaly_enabled"](self.asked_for, self._checks_nan)
        if self._maker is not None:
            self._maker.stop()

    def _stand_in(self) -> None:
        wanted = self.asked_for or self._maker is None
        tracebacks.format_stack = self._ours if wanted else self._own_stack
        if self._maker is not None:
            self._maker.asked_for(self.asked_for)

    # -- the switches, as the program sees them ---------------------------------------------------

    def set_anomaly_enabled(self, enabled: bool, check_nan: bool = True) -> None:  # noqa: FBT001, FBT002
        self._own["set_anomaly_enabled"](enabled, check_nan)  # it refuses what it refuses
        self.asked_for, self._checks_nan = enabled, check_nan
        self._stand_in()
        self._own["set_anomaly_enabled"](*_ON, enabled and check_nan)

    def is_anomaly_enabled(self) -> bool:
        return self.asked_for

    def is_anomaly_check_nan_enabled(self) -> bool:
        return self._checks_nan

    # -- calls by a node's constructor ------------------------------------------------------------

    @uncompiled
    def _format_stack(self) -> Any:
        compiler = self._aside(None)
        try:
            if tracebacks.should_preserve_node_meta or self.asked_for:
                return self._with_traceback()
            # A thread of a device may have no other frame. A variable with this frame would be a
            # cycle that keeps the program's frames, and all their variables.
            return self._listener.new_record(sys._getframe().f_back or sys._getframe())
        except Exception as error:
            if is_the_programs(error):
                raise
            self._faults.noted("a node was made", error)
            return []
        finally:
            self._aside(compiler)

    def _lines(self) -> Any:
        lines = self._own_stack()
        return lines if tracebacks.should_preserve_node_meta else _of_the_program(lines)

    def _with_traceback(self) -> Any:
        record = TracebackWithRecord(self._lines())
        try:
            here = sys._getframe(1)
            record.record = self._listener.new_record(here.f_back or here)
        except Exception as error:
            if is_the_programs(error):
                raise
            self._faults.noted("a node was made", error)
        return record


def _of_the_program(lines: list[str]) -> list[str]:
    """A traceback without gradscope's frames, including those that run the script."""
    machinery = [place for place, line in enumerate(lines) if line.startswith(_RUNS_SCRIPTS)]
    begin = machinery[-1] + 1 if machinery else 0
    return [line for line in lines[begin:] if not line.startswith(_OURS)]


def record_of(metadata: dict[str, Any], recording: object) -> PythonNodeRecord | None:
    """The record of a node's creation; None if it was created unobserved, or by another watcher."""
    kept = metadata.get(KEY)
    if type(kept) is TracebackWithRecord:
        kept = kept.record
    return kept if type(kept) is PythonNodeRecord and kept.recording is recording else None


def marked(kept: Any, record: PythonNodeRecord) -> Any:
    """Set the record of a node, keeping an existing traceback readable."""
    lines = [line for line in kept if isinstance(line, str)] if isinstance(kept, list) else []
    return TracebackWithRecord(lines, record) if lines else record
