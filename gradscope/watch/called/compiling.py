"""Observes compilers such as `torch.compile`, and stands aside while they trace.

# Note [What compilers report]
PyTorch reports what its compilers do to the logger `torch.__trace`, which TORCH_TRACE writes to a
file: phases as pairs of events, graphs as text, reasons for graph breaks and recompilations. It
does so whenever the logger has a handler. Ours writes nothing and changes no setting, so PyTorch's
caches have the same keys; a graph that comes from a cache is reported too, as the cache stores its
text. Nothing of the compiler is imported for it.

# Note [Standing aside]
A compiler runs a program's operations on tensors without values, and a backward of them. These
are not operations of the program. So from the first event of a compilation to its last one, our
stand-ins only call the original on this thread, and calls, runs and nodes of the whole process are
not observed.
"""

from __future__ import annotations

import logging
import sys
from functools import partial
from threading import Lock, local
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import orjson

from gradscope.watch.in_place.standing_in import HERE

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from gradscope.watch.in_place.faults import Faults
    from gradscope.watch.listener import Listener

LOGGER = "torch.__trace"
PHASE, BEGINS, ENDS = "chromium_event", "B", "E"
STARTED, ENDED = "dynamo_start", "compilation_metrics"
GRAPHS = ("aot_forward_graph", "aot_backward_graph", "aot_inference_graph")
BROKE, FAILED_GUARDS = "dynamo_graph_break_reason", "recompile_reasons"
CACHED = "aotautograd_cache_hit"
CODE = "inductor_output_code"
TOLD = frozenset((STARTED, ENDED, *GRAPHS, BROKE, FAILED_GUARDS, CACHED, CODE))
AOT = "torch._functorch.aot_autograd"


class CompilerEvent(NamedTuple):
    """Something that a compiler has reported."""

    kind: str  # one of TOLD
    name: str  # of the compilation: "0/1" is the second one of the first function
    attempt: int  # a compilation starts again after a graph break
    facts: dict[str, Any]
    text: str
    graph: int  # the number of the graph that is compiled; -1: not known
    t: int

    @property
    def is_graph(self) -> bool:
        """Whether its text is a graph."""
        return self.kind in GRAPHS

    @property
    def of_backward(self) -> bool:
        """Whether it is about a backward that is compiled when it first runs."""
        return self.name.startswith("!") or self.facts.get("is_forward") is False


class Phases(local):
    """The phases of compilers that this thread is in."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.ours = False  # whether code of gradscope was running when the first one began


class CompilerEvents(logging.Handler):
    """Passes the reports of compilers to a listener; `aside` is called with whether one traces."""

    def __init__(self, listener: Listener, faults: Faults, aside: Callable[..., None]) -> None:
        super().__init__()
        self._listener = listener
        self._faults = faults
        self._aside = aside
        self._phases = Phases()
        self._has_phases = False
        self._tracing = 0  # number of threads
        self._lock_of_threads = Lock()

    def start(self) -> None:
        """Start. The handler is the first one: another one of PyTorch may remove itself."""
        logging.getLogger(LOGGER).handlers.insert(0, self)

    def stop(self) -> None:
        """Stop."""
        logging.getLogger(LOGGER).removeHandler(self)
        if self._phases.names:
            HERE.ours = self._phases.ours
            self._phases.names.clear()

    def emit(self, record: logging.LogRecord) -> None:
        """Called by PyTorch, on the thread that compiles."""
        metadata, payload = record.__dict__.get("metadata"), record.__dict__.get("payload")
        if type(metadata) is not dict:
            return
        guarded = self._faults.guarded
        passed = guarded("a compiler reported", self._phase, metadata, payload)
        if passed is not None:
            self._passes(*passed)
        guarded("a compiler reported", self._tell, metadata, payload)

    def _phase(self, metadata: dict[str, Any], payload: str | None) -> tuple[str, str] | None:
        """What is passed in a phase, and the name of the phase."""
        if PHASE in metadata:
            self._has_phases = True
            phase = orjson.loads(payload or "{}")
            return str(phase.get("ph")), str(phase.get("name"))
        if self._has_phases:
            return None
        kinds = {STARTED: BEGINS, ENDED: ENDS}  # before PyTorch 2.5
        return next(((kinds[kind], STARTED) for kind in kinds if kind in metadata), None)

    def _passes(self, passed: str, name: str) -> None:
        if passed == BEGINS:
            self._phases.names.append(name)
            if len(self._phases.names) == 1:
                self._begins()
        elif passed == ENDS and name in self._phases.names:
            self._ends(name)

    def _begins(self) -> None:
        self._phases.ours, HERE.ours = HERE.ours, True
        with self._lock_of_threads:
            self._tracing += 1
            if self._tracing == 1:
                self._stand_aside(aside=True)

    def _ends(self, name: str) -> None:
        """Leave this phase, and those inside it that did not report their end."""
        names = self._phases.names
        del names[len(names) - 1 - names[::-1].index(name) :]
        if names:
            return
        HERE.ours = self._phases.ours
        with self._lock_of_threads:
            self._tracing -= 1
            if not self._tracing:
                self._stand_aside(aside=False)

    def _stand_aside(self, *, aside: bool) -> None:
        self._faults.guarded("a compiler traced", partial(self._aside, aside=aside))

    def _tell(self, metadata: dict[str, Any], payload: str | None) -> None:
        kind = next((each for each in metadata if each in TOLD or each == "artifact"), "")
        facts = metadata.get(kind)
        if kind == "artifact" and type(facts) is dict:
            kind = str(facts.get("name"))
        if kind not in TOLD:
            return
        frame, number = metadata.get("frame_id"), metadata.get("frame_compile_id")
        if frame is None:  # a compiled backward, or a compiler that was called directly
            frame, number = f"!{metadata.get('compiled_autograd_id', '')}", 0
        event = CompilerEvent(
            kind, f"{frame}/{number}", int(metadata.get("attempt") or 0),
            facts if type(facts) is dict else {}, payload or "", graph_number(), perf_counter_ns(),
        )  # fmt: skip
        self._listener.compiler_told(event, _caller())


class StartsAndStops(Protocol):
    """Something that can be stopped and started again."""

    def start(self) -> None: ...
    def stop(self) -> None: ...


class StandingAside:
    """Stops these observers as long as there is a reason: a pause, a compiler."""

    def __init__(self, *observers: StartsAndStops | None) -> None:
        self._observers = [each for each in observers if each is not None]
        self._reasons = 0

    def __call__(self, *, aside: bool) -> None:
        """There is one more reason, or one less."""
        self._reasons += 1 if aside else -1
        if aside and self._reasons == 1:
            for each in reversed(self._observers):
                each.stop()
        elif not self._reasons:
            for each in self._observers:
                each.start()


def _caller() -> FrameType:
    """The frame that logs."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename in OWN:
        frame = frame.f_back
    return sys._getframe(1) if frame is None else frame


OWN = (__file__, logging.__file__)


def graph_number() -> int:
    """PyTorch's number of the graph that it compiles now, or has compiled last; -1: not known."""
    counter = repr(getattr(sys.modules.get(AOT), "AOT_COUNTER", ""))  # count(3): 3 are numbered
    digits = counter.partition("(")[2].rstrip(")")
    return int(digits) - 1 if digits.isdigit() else -1


OF_GRAPH = " of graph "


def name_of(node: Any) -> str:
    """The name of a node; for a compiled region also the number of its graph."""
    name: str = node.name()
    if not name.startswith("CompiledFunction"):
        return name
    number = getattr(getattr(type(node), "_forward_cls", None), "_aot_id", None)
    return name if number is None else f"{name}{OF_GRAPH}{number}"
