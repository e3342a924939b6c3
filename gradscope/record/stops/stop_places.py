"""The places at which a recorded program can be stopped, with its real tensors.

# Note [Stopping from outside]
A mode of `torch.overrides` is called for each function of tensors in the main thread, before and
after; hooks before and after each node are called when it runs. Both exist in PyTorch and in
gradscope's runtime, so that one file serves both. Nodes get their hooks after the call that created
them: a hook does not know its node, and asks the engine which node is running.

The node of a view that was written to is not requested: PyTorch would create it then, not later.

Calls within a call are seen only if they are made by Python code of the program. Code in regions of
`torch.compile` is not seen. A thread gets its mode when it first uses the engine after `start`. One
thread at a time can be at a place.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from gradscope.errors import leave_no_frame
from gradscope.record.notes.local_names import gradient_of
from gradscope.record.notes.sites import caller_of, is_ours
from gradscope.record.notes.user_functions import call_of, name_of
from gradscope.trace.schema import NONE, HookKind

if TYPE_CHECKING:
    from types import FrameType

    from gradscope.record.recording import Recording

HOOKED = "gradscope stops"
"""Key in the metadata of nodes that have our hooks."""

STARTS = ("backward", "grad")
"""Calls that start a backward; they are also reported before they begin."""

AFTER = (HookKind.POST, HookKind.MODULE_BACKWARD)
"""Kinds of hooks that are called after their node has run."""

LOOKS = ("__set__", "__delete__", "__repr__", "__format__", "size", "dim", "stride")
"""Calls that only read a tensor, unless they create a node (as `x.T` does)."""


@dataclass(frozen=True, slots=True)
class StopPlace:
    """A place at which the program can be stopped."""

    kind: str
    """`called`: a function of tensors has returned; `raised`: it has not; `backward`: one is about
    to start; `begins`, `ran`: a node is about to run, has run; `hook`, `hook after`: a hook of the
    program is about to be called, and its node has run; `asked`: by the program itself."""
    name: str  # of the function, or of the node
    frame: FrameType | None  # innermost frame of the program
    node: Any = None
    given: tuple[Any, ...] = ()  # its tensor arguments, or gradients
    made: tuple[Any, ...] = ()  # its results
    wrote: tuple[Any, ...] = ()  # the arguments written in place
    nodes: tuple[Any, ...] = ()  # created by the call
    line: str = ""  # the program's line `/x/train.py:41` that called it, or that created the node
    module: str = ""  # path of the innermost running module, now or then
    scalars: tuple[float, ...] = ()  # its other arguments
    error: BaseException | None = None

    @property
    def lines(self) -> list[str]:
        """The lines of all frames, beginning with the program's innermost frame."""
        found, frame = [], self.frame
        while frame is not None:
            found.append(_line(frame))
            frame = caller_of(frame)
        return found

    @property
    def calls(self) -> set[str]:
        """Names of the call: that of its function, and those of the nodes it has created."""
        return {self.name, *(call_of(each.name().rpartition("::")[2]) for each in self.nodes)}


Gate = Callable[[StopPlace], "Sequence[Any] | None"]
"""Called at each place that the program reaches; its result replaces gradients."""


class Stoppable(NamedTuple):
    """What stops need from an engine, in addition to its functions."""

    own: Callable[..., Any]  # marks a hook as ours, so that it is not reported
    calls: Callable[[FrameType], Callable[..., Any]]  # calls for this frame, which warnings name
    numbers: Callable[[Any], Any]  # of a tensor that is floating, as an array; None: it is not
    aside: Callable[[], AbstractContextManager[object]]  # context in which calls are not recorded


class StopPlaces:
    """Calls a gate at each place, from `start` to `stop`."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.recording: Recording | None = None
        self.torch: Any = None
        self._mode: Any = None
        self._own: Any = None
        self._one = threading.RLock()
        self.asleep = False  # the program stops at none of them
        self.news: set[str] = set()
        """Kinds of acts recorded since they were last read."""
        self._process = os.getpid()
        self._inside = threading.local()
        self._alive: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._calls: Any = None
        self.numbers: Callable[[Any], Any] = _nothing
        self.aside: Callable[[], AbstractContextManager[object]] = nullcontext

    def watch(self, recording: Recording) -> None:
        """Set the recording whose program is stopped."""
        self.recording = recording

    def start(self, torch: Any, engine: Stoppable) -> None:
        """Start calling the gate."""
        self.torch, (self._own, self._calls, self.numbers, self.aside) = torch, engine
        called = self._called

        class Stops(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
            """The mode that is called for each function of the program."""

            def __torch_function__(
                self, function: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                try:
                    return called(function, args, kwargs or {}, _caller(sys._getframe(1)))
                except Exception as error:
                    leave_no_frame(error)  # nor that one
                    raise

        def here() -> None:
            if not getattr(self._inside, "watched", False):
                self._inside.watched = True
                Stops().__enter__()

        self._mode, self._inside.watched = Stops(), True
        self._mode.__enter__()
        if self.recording is not None and self.recording.session is not None:
            self.recording.session.contexts.threads.met = here

    def stop(self) -> None:
        """Stop; existing hooks do nothing."""
        mode, self._mode = self._mode, None
        if mode is not None:
            mode.__exit__(None, None, None)  # in other threads it does nothing now
        self._alive.clear()

    @property
    def are_ours(self) -> bool:
        """Whether this is the original process, and not a forked child."""
        return self._process == os.getpid()

    @property
    def roots(self) -> list[Any]:
        """Tensors that still have the same graph."""
        found = ((there(), version) for there, version in list(self._alive.values()))
        return [each for each, was in found if each is not None and _version(each) == was]

    def ask(self, frame: FrameType) -> None:
        """Stop here on request of the program, if its engine is imported."""
        self._pass(StopPlace("asked", "", frame, line=_line(frame)))

    def hook(self, hook: Any, kind: int) -> None:
        """Called before a hook of the program, of this HookKind."""
        if self._attends():
            node, frame = self.torch._C._current_autograd_node(), self._frame()
            where = "hook after" if kind in AFTER else "hook"
            self._pass(StopPlace(where, name_of(hook), frame, node, line=_line(frame)))

    # -- calls ----------------------------------------------------------------------------------

    def _called(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], caller: FrameType
    ) -> Any:
        if not self._attends():
            return function(*args, **kwargs)
        name = _name(function)
        given = tuple(self._tensors((*args, *kwargs.values())))
        before = [_version(each) for each in given]
        if name in STARTS:
            frame = self._frame()
            self._hook(given)
            self._pass(StopPlace("backward", name, frame, given=given, line=_line(frame)))
        try:
            result = self._calls(caller)(function, *args, **kwargs)
        except Exception as error:
            leave_no_frame(error)  # neither this one,
            leave_no_frame(error)  # nor the one on the program's line
            frame = self._frame()
            where = _line(frame), self._module()
            self._pass(StopPlace("raised", name, frame, None, given, (), (), (), *where, (), error))
            raise
        frame = self._frame()
        where = _line(frame), self._module()
        made = tuple(self._tensors((result,)))
        after = [_version(each) for each in given]
        wrote = [at for at, was, now in zip(given, before, after, strict=True) if was != now]
        nodes = self._hook((each for each in made if not (wrote and each._is_view())), *where)
        looks = name in LOOKS or name.startswith(".")
        if name in STARTS or (looks and not nodes) or not (made or wrote):
            return result
        numbers = (each for each in (*args, *kwargs.values()) if isinstance(each, (int, float)))
        self._pass(StopPlace(
            "called", name, frame, None, given, made, tuple(wrote), tuple(nodes), *where,
            tuple(numbers),
        ))  # fmt: skip
        return result

    def _tensors(self, things: Iterable[Any]) -> Iterator[Any]:
        for each in things:
            if isinstance(each, self.torch.Tensor):
                yield each
            elif isinstance(each, (tuple, list)):
                yield from self._tensors(each)

    def _module(self) -> str:
        """The path of the innermost module whose forward this thread is running."""
        recording = self.recording
        session = None if recording is None else recording.session
        if session is None:
            return ""
        number = session.contexts.threads.here().module
        return "" if number == NONE else session.module_paths[number]

    # -- nodes ----------------------------------------------------------------------------------

    def _hook(self, tensors: Iterable[Any], line: str = "", module: str = "") -> list[Any]:
        """Register hooks on nodes that lead here and have none. Returns these, newest first."""
        waiting = []
        for each in tensors:
            node = each.grad_fn
            if node is not None:
                waiting.append(node)
                self._remember(each)
        found = []
        while waiting:
            node = waiting.pop()
            if node is None or HOOKED in node.metadata:
                continue
            node.metadata[HOOKED] = "" if hasattr(node, "variable") else line, module
            node.register_prehook(self._own(partial(self._runs, "begins")))
            node.register_hook(self._own(partial(self._runs, "ran")))
            found.append(node)
            waiting += [following for following, _ in node.next_functions]
        return found

    def _remember(self, tensor: Any) -> None:
        key = id(tensor)
        there = weakref.ref(tensor, lambda _: self._alive.pop(key, None))
        self._alive[key] = there, _version(tensor)

    def _runs(self, kind: str, *grads: Any) -> Sequence[Any] | None:
        if not self._attends():
            return None
        node = self.torch._C._current_autograd_node()
        if node is None:
            return None
        made, given = ((), grads[0]) if kind == "begins" else grads
        line, module = node.metadata.get(HOOKED, ("", ""))
        if kind == "ran" and not made and hasattr(node, "variable"):
            made = (gradient_of(node.variable),)
        return self._pass(StopPlace(
            kind, node.name(), self._frame(), node, tuple(given), tuple(made), line=line,
            module=module,
        ))  # fmt: skip

    # -- both -----------------------------------------------------------------------------------

    def _attends(self) -> bool:
        """Whether the program runs its own code, and not gradscope's."""
        if self._mode is None or self.asleep or not self.are_ours:
            return False
        return not getattr(self._inside, "gate", False)

    def _frame(self) -> FrameType | None:
        """The innermost frame of the program."""
        recording = self.recording
        session = None if recording is None else recording.session
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and (
            session is None or session.sites.is_machinery(frame.f_code)
        ):  # fmt: skip
            frame = caller_of(frame)
        return frame

    def _pass(self, place: StopPlace) -> Sequence[Any] | None:
        if not self._attends() and place.kind != "asked":
            return None
        self._inside.gate = True
        try:
            with self._one:
                return self._gate(place)
        finally:
            self._inside.gate = False


def _name(function: Any) -> str:
    """The name of a call: `linear`, or `.T` for reading a property."""
    name = str(getattr(function, "__name__", function))
    if name == "__get__":
        return f".{getattr(getattr(function, '__self__', None), '__name__', '')}"
    return name if name.startswith("__") else name.removeprefix("_")


def _nothing(_: Any) -> None:
    """Does nothing: no engine is imported yet."""


def _caller(frame: FrameType) -> FrameType:
    """The innermost frame outside gradscope."""
    found = frame
    while is_ours(found.f_code) and found.f_back is not None:
        found = found.f_back
    return found


def _line(frame: FrameType | None) -> str:
    if frame is None:
        return ""
    file = frame.f_code.co_filename
    return f"{file if file[:1] == '<' else os.path.abspath(file)}:{frame.f_lineno}"  # noqa: PTH100


def _version(tensor: Any) -> int:
    try:
        return int(tensor._version)
    except RuntimeError:  # inference tensors have none
        return 0
