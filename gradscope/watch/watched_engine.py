"""Observes backwards: replaces the object through which Python calls PyTorch's engine.

# Note [What anomaly mode says]
A backward that fails in anomaly mode warns which node failed, and its error mentions a backtrace
above. The program has not switched anomaly mode on (Note [Anomaly mode] in creation.py), so the
warning is suppressed, and the hint is the one that PyTorch gives without it.
"""

from __future__ import annotations

import re
import sys
import warnings
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.variable import Variable

from gradscope.errors import calls, from_the_line_of, is_the_programs, leave_no_frame
from gradscope.watch.in_place.compilers import compiler_aside
from gradscope.watch.in_place.engine_caller import engine_caller
from gradscope.watch.in_place.standing_in import HERE, passed_over
from gradscope.watch.listener import BackwardCall
from gradscope.watch.python_walk import DEEPEST, NotDifferentiable, TooDeep
from gradscope.watch.unseen import unseen

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gradscope.program_listener import SummaryListener
    from gradscope.watch.creation import Creation
    from gradscope.watch.in_place.faults import Faults
    from gradscope.watch.listener import Listener
    from gradscope.watch.python_walk import GraphWalker
    from gradscope.watch.runs import RunObserver
    from gradscope.watch.values.devices.device_times import DeviceMark, DeviceTimes

CALLS_THE_ENGINE = "torch.autograd.graph"
_HIDDEN = (
    "ignore",
    re.compile(r"Error detected in |\s*Previous calculation was induced by "),
    UserWarning,
    re.compile(f"{re.escape(__name__)}|{re.escape(CALLS_THE_ENGINE)}$"),
    0,
)
HINT_IN_ANOMALY_MODE = (
    "Hint: the backtrace further above shows the operation that failed to compute its gradient. "
    "The variable in question was changed in there or anywhere later. Good luck!"
)
HINT = (
    "Hint: enable anomaly detection to find the operation that failed to compute its gradient, "
    "with torch.autograd.set_detect_anomaly({})."
)


_task = torch._C._current_graph_task_id


class Begun:
    """State of a running backward."""

    __slots__ = ("compiled", "creates", "held", "left_out", "mark", "task")

    def __init__(self) -> None:
        self.compiled = False  # whether PyTorch compiles the backward instead of running nodes
        self.task: Any = None  # the listener's task; None: it is not recorded
        self.creates = False  # whether it creates a graph
        self.held: Sequence[Any] = ()  # nodes that must not be released before it has run
        self.left_out = False  # whether only its existence is reported
        self.mark: DeviceMark | None = None  # its begin on a device


PASSED = Begun()
"""Of all backwards that are not followed."""


class WatchedEngine:
    """Replaces `Variable._execution_engine` while we watch."""

    def __init__(
        self,
        listener: Listener,
        graph: GraphWalker,
        runs: RunObserver | None,
        faults: Faults,
        creation: Creation,
        *,
        values: bool,
    ) -> None:
        self._listener = listener
        self._graph = graph
        self._runs = runs
        self._faults = faults
        self._creation = creation  # knows whether the program uses anomaly mode
        self._values = values  # whether its initial and returned gradients are reported
        self.left_out: dict[str, int] = {}
        self.summary: SummaryListener | None = None  # receives the tensors of some backwards
        self.looks = True  # whether backwards are recorded from now on
        self.times: DeviceTimes | None = None  # measures recorded backwards on devices
        self.stand_aside: Callable[..., None] = _nothing
        """Called around a backward that is compiled, which PyTorch refuses in anomaly mode."""
        self.own: Any = Variable._execution_engine
        self._caller = engine_caller(self)

    def start(self) -> None:
        self.own = Variable._execution_engine
        self.run = self.own.run_backward
        self.aside = compiler_aside()
        Variable._execution_engine = self
        self._caller.start()

    def stop(self) -> None:
        self._caller.stop()
        if Variable._execution_engine is self:
            Variable._execution_engine = self.own
        if _HIDDEN in warnings.filters:
            warnings.filters.remove(_HIDDEN)  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)

    def queue_callback(self, callback: Any) -> None:
        """Queue a callback for the end of the running backward; its call is reported."""
        self.own.queue_callback(partial(self._called_back, callback))

    @passed_over
    def _called_back(self, callback: Any) -> Any:
        try:
            self._faults.guarded("a callback was called", self._listener.called_back, callback)
            return callback()
        except BaseException as error:
            leave_no_frame(error)
            raise

    @passed_over
    def run_backward(self, tensors: Sequence[Any], *given: Any, **more: Any) -> Any:
        """Run a backward for a caller other than PyTorch's function (in_place/engine_caller.py)."""
        frame = sys._getframe(1)
        begun = self._begins(tensors, given, more, frame)
        # Another line than PyTorch's might be shown the warning.
        named = frame.f_globals.get("__name__") == CALLS_THE_ENGINE
        caller = from_the_line_of(frame) if named or self._creation.asked_for else calls
        try:
            handed = caller(self.own.run_backward, tensors, *given, **more)
        except BaseException as error:
            leave_no_frame(error)  # two of our frames: this one,
            leave_no_frame(error)  # and the one with the program's line
            self.ends(begun, error)
            raise
        return self.ends(begun, None, handed)

    def begins(self, tensors: Sequence[Any], given: tuple[Any, ...], more: dict[str, Any]) -> Begun:
        """Called when PyTorch's function is about to call its engine."""
        return self._begins(tensors, given, more, sys._getframe(1))

    def _begins(
        self, tensors: Sequence[Any], given: tuple[Any, ...], more: dict[str, Any], frame: FrameType
    ) -> Begun:
        """A backward begins. It runs even if reporting it fails."""
        begun = Begun()
        if HERE.ours:  # by a compiler, on tensors without values
            return begun
        if self.summary is not None and self.summary.reads_loss and _task() < 0:
            self._faults.guarded("a loss was read", self.summary.roots, tensors)
        try:
            since = self._listener.looks_since() if self.looks else 0
            if since < 0:
                return PASSED
            begun.left_out = self.looks and not since
            asked = _asked(*given, **more)
            begun.creates = bool(asked[2])
            if since:
                begun.task = self._begin(tensors, asked, frame, since)
                begun.held, self._graph.roots = self._graph.roots, ()
        except Exception as error:
            if is_the_programs(error):
                raise
            self._faults.noted("a backward began", error)
        if self.times is not None and begun.task is not None and _task() < 0:
            begun.mark = self._faults.guarded("a device began", self.times.begins, tensors[0])
        if _is_compiled():
            begun.compiled = True
            self.left_out[COMPILED] = self.left_out.get(COMPILED, 0) + 1
            self._faults.guarded("a backward is compiled", partial(self.stand_aside, aside=True))
        return begun

    def ends(self, begun: Begun | None, error: BaseException | None, handed: Any = None) -> Any:
        """It ended with this exception or these gradients. `begun` is None: it never began."""
        if begun is None:
            return handed
        task, guarded = begun.task, self._faults.guarded
        if begun.mark is not None and self.times is not None:
            guarded("a device ended", self.times.ends, begun.mark, task)
        if begun.compiled:
            guarded("a backward was compiled", partial(self.stand_aside, aside=False))
        try:
            if error is not None and not self._creation.asked_for:
                _without_hint(error)
            if handed and self._values and task is not None:
                guarded("a backward returned", self._listener.handed_over, task, handed)
            if begun.creates and task is not None and error is None:
                guarded("a graph was made in a backward", self._made_inside, handed)
        finally:
            if task is not None:
                self._end(begun, error, handed)
            elif begun.left_out:
                guarded("a backward ended", partial(self._listener.left_out, creates=begun.creates))
        return handed

    def _made_inside(self, handed: Any) -> None:
        with unseen():
            with suppress(TooDeep):
                self._graph.made_inside(handed or ())
            self._report_found()

    def _report_found(self) -> None:
        if self._graph.waiting:
            self._listener.found(self._graph.take_found())

    def _end(self, begun: Begun, failed: BaseException | None, handed: Any) -> None:
        try:
            if failed is not None and str(failed).startswith(SAID_AFTERWARDS):
                failed = None
            runs, ran = self._runs, None
            if runs is not None:
                ran = runs.ends(failed=failed is not None, handed=handed or ())
            self._listener.backward_ends(begun.task, failed, None if begun.compiled else ran)
        except Exception as error:
            if is_the_programs(error):
                raise
            self._faults.noted("a backward ended", error)

    def _begin(self, tensors: Sequence[Any], given: Asked, frame: FrameType, since: int) -> Any:
        if self._creation.asked_for:
            _show_the_warning()
        elif not warnings.filters or warnings.filters[0] is not _HIDDEN:
            _hide_the_warning()
        grads, keep, create, inputs, gathers = given
        with unseen():
            refused = not all(getattr(each, "requires_grad", True) for each in inputs or ())
            if refused or len(tensors) == 0:  # PyTorch will refuse it or do nothing
                return None
            try:
                roots, above = self._graph.walk_from(tensors)
                wanted = self._graph.walk_to(inputs) if inputs else ()
            except NotDifferentiable:
                return None
            except TooDeep:
                text = f"a backward, because paths in its graph have more than {DEEPEST:,} nodes"
                self.left_out[text] = self.left_out.get(text, 0) + 1
                return None
            finally:
                self._report_found()
            sequence = torch._C._autograd._get_sequence_nr() if len(roots) > 1 else 0
            asked = BackwardCall(
                roots, wanted, bool(keep), bool(create), bool(gathers), above, sequence
            )
            task = self._listener.backward_begins(asked, frame, since)
            if self._values:
                self._listener.ends_at(tensors)
                self._listener.seeded(task, asked, grads or ())
        if task is not None and self._runs is not None:
            self._runs.begins(asked)
        return task


COMPILED = "runs of nodes in backwards that compiled autograd compiles as a whole"
AUTOGRAD = "torch._dynamo.compiled_autograd"


def _is_compiled() -> bool:
    """Whether compiled autograd is switched on, so that no node runs separately."""
    return bool(getattr(sys.modules.get(AUTOGRAD), "compiled_autograd_enabled", False))


def _nothing(**_: bool) -> None:
    """Does nothing."""


SAID_AFTERWARDS = (
    "The differentiated Tensor at index",
    "One of the differentiated Tensors appears",
)
"""Beginnings of PyTorch's error that an input has no gradient, after a finished backward."""


Asked = tuple[Any, Any, Any, Any, Any]
"""Arguments of the engine that are not the tensors: gradients, keep_graph, create_graph, the
inputs, and whether gradients of leaves are accumulated."""


def _asked(
    grad_tensors: Any = None,
    keep_graph: Any = False,  # noqa: FBT002 -- as PyTorch's engine has it
    create_graph: Any = False,  # noqa: FBT002
    inputs: Any = None,
    allow_unreachable: Any = False,  # noqa: ARG001, FBT002
    accumulate_grad: Any = False,  # noqa: FBT002
) -> Asked:
    return grad_tensors, keep_graph, create_graph, inputs, accumulate_grad


def _hide_the_warning() -> None:
    """Insert our filter first, if the program has inserted others since.

    The registry of filters is not marked as changed: warnings that were shown once would be shown
    again.
    """
    filters = warnings.filters
    if _HIDDEN in filters:
        filters.remove(_HIDDEN)  # type: ignore[attr-defined]
    filters.insert(0, _HIDDEN)  # type: ignore[attr-defined]


def _show_the_warning() -> None:
    """Remove our filter for a program that uses anomaly mode; copies of the filters may keep it."""
    if _HIDDEN in warnings.filters:
        warnings.filters.remove(_HIDDEN)  # type: ignore[attr-defined]


def hint(version: str) -> str:
    """The hint in the error message of this version of PyTorch without anomaly mode."""
    major, minor = map(int, version.split(".")[:2])
    return HINT.format("True, check_nan=False" if (major, minor) >= (2, 11) else "True")


def _without_hint(error: BaseException) -> None:
    if error.args and isinstance(error.args[0], str):
        text = error.args[0].replace(HINT_IN_ANOMALY_MODE, hint(torch.__version__))
        if text != error.args[0]:
            error.args = (text, *error.args[1:])
