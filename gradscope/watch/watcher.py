"""The watcher: starts and stops everything that reports the activity of PyTorch to a listener."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from gradscope.watch.called.compiling import CompilerEvents, StandingAside
from gradscope.watch.called.ranks.collectives import Collectives
from gradscope.watch.creation import Creation
from gradscope.watch.hooks.before import OF_CPP, EarlierHooks
from gradscope.watch.hooks.module_calls import ModuleCalls
from gradscope.watch.hooks.of_modules import ModuleHooks
from gradscope.watch.hooks.of_saved import SavedHooks
from gradscope.watch.hooks.of_tensors import TensorHooks
from gradscope.watch.hooks.watched import HookedCalls
from gradscope.watch.public.hooked_runs import HookedRunObserver
from gradscope.watch.public.looks import PublicRing
from gradscope.watch.public.unpacked import Unpacked
from gradscope.watch.python_walk import GraphWalker, NotDifferentiable, TooDeep
from gradscope.watch.runs import calls, native_runs
from gradscope.watch.unseen import CALLS_UNSEEN, in_words, unseen, why_not
from gradscope.watch.values.devices.device_looks import DeviceLooks
from gradscope.watch.values.devices.device_times import DeviceTimes
from gradscope.watch.watched_engine import WatchedEngine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gradscope.watch.called.observer import CallObserver
    from gradscope.watch.called.operands import OperandObserver
    from gradscope.watch.in_place.faults import Faults
    from gradscope.watch.listener import Listener
    from gradscope.watch.native.creation import RecordMaker
    from gradscope.watch.public.node_samples import NodeSamples
    from gradscope.watch.runs import RunObserver
    from gradscope.watch.values.callbacks import CallbackAddresses
    from gradscope.watch.values.ring import Ring
    from gradscope.watch.values.without_node import WithoutNode


LOOKS = ("values", "full")
"""Levels at which values are measured."""


OVERRUN = "in-place writes, because the buffer was full"


class Watcher:
    """Watches PyTorch for a listener, at a level of detail.

    `from_import`: from the moment when the program imported it.
    """

    runs: RunObserver | None = None
    calls: CallObserver | None = None
    ring: Ring | PublicRing | None = None
    without_node: WithoutNode | None = None
    operands: OperandObserver | None = None

    def __init__(
        self,
        listener: Listener,
        faults: Faults,
        *,
        level: str,
        native: bool = True,
        from_import: bool = False,
        samples: NodeSamples | None = None,
    ) -> None:
        native = native and samples is None  # nodes are sampled by hooks
        self.faults = faults
        faults.meet_compilers()
        self._listener = listener
        self.why_hooks = self.why_no_calls = self.why_no_values = ""
        off = "it was switched off" if samples is None else "nodes are computed again"
        why = why_not() if native else off
        if level in LOOKS:
            self.why_no_values = why
        if level != "graph":
            self._observe_runs(level, why, samples)
        self.why_walked = self.why_hooks or why
        self.graph, maker = self._graph(listener, saved=level != "graph")
        self.creation = Creation(listener, self.faults, maker)
        self.engine = WatchedEngine(
            listener, self.graph, self.runs, self.faults, self.creation,
            values=self.ring is not None,
        )  # fmt: skip
        self._stand_aside = StandingAside(self.runs, self.creation, self.calls)
        self.engine.stand_aside = self._stand_aside
        if level == "engine":
            self.engine.times = DeviceTimes()
        self.modules = ModuleCalls(listener, self.faults)
        hooks = HookedCalls(listener, self.faults)
        self.writes = None if self.calls is None else self.calls.writes
        hooks.writes = self.modules.writes = self.writes
        hooks.runs = self.hooked
        self.before = EarlierHooks(hooks)
        saved = SavedHooks(hooks)
        self.hooks = (
            hooks, TensorHooks(hooks, self.graph), ModuleHooks(hooks), saved,
            CompilerEvents(listener, self.faults, self._stand_aside),
        )  # fmt: skip
        if from_import and self.why_walked:
            self.graph.unpacks(Unpacked(saved))
        measures = self.ring is not None and not self.why_no_values
        self.collectives = Collectives(listener, self.faults, native=not why, measures=measures)

    @property
    def hooked(self) -> HookedRunObserver | None:
        """The observer of runs, if it uses hooks."""
        return self.runs if isinstance(self.runs, HookedRunObserver) else None

    @property
    def devices(self) -> DeviceLooks | None:
        """What measures tensors on devices, if values are measured."""
        return None if self.ring is None else self.ring.devices

    def _observe_runs(self, level: str, why: str, samples: NodeSamples | None) -> None:
        """Observe runs, calls and values; with hooks if `why` says why machine code cannot."""
        looks = level in LOOKS
        around = self._around(level) if looks and not why else None
        if looks and around is None:  # hooks on nodes measure values
            why = self.why_no_values
        self.runs, self.why_hooks = native_runs(why, around and around.runs)
        public = None
        if looks and self.runs is None:
            self.ring = public = PublicRing(self._listener.statistics)
            self.without_node = self.operands = None
        if self.runs is None:
            self.runs = HookedRunObserver(self.faults, public, samples)
        else:
            whole = level == "full"
            self.calls, self.why_no_calls = calls(around and around.calls, whole=whole)

    def _around(self, level: str) -> CallbackAddresses | None:
        """Callbacks that also measure values. If one of them fails, no values are measured."""
        try:
            from gradscope.watch.values import (  # noqa: PLC0415 -- it compiles
                callbacks,
                divided,
                layout,
                ring,
                whole,
                without_node,
            )
            from gradscope.watch.values.devices import asked  # noqa: PLC0415 -- likewise

            found = callbacks.around()
            self.ring, self.without_node = ring.Ring(), without_node.WithoutNode()
            devices = self.ring.devices = DeviceLooks()
            with suppress(asked.NoAlias):  # then tensors on devices are not measured
                devices.asked = asked.AskedByMachineCode(devices, self.faults)
            with suppress(layout.NotReadable):  # nor parts of DTensors
                self.ring.parts = divided.PartsOfTensors(self.faults)
            if level == "full":
                self.operands, found = whole.operands(), whole.whole(found)
        except Exception as error:  # noqa: BLE001 -- on any build of PyTorch, the rest is watched
            self.why_no_values = in_words(error)
            return None
        return found

    def _graph(self, listener: Listener, *, saved: bool) -> tuple[GraphWalker, RecordMaker | None]:
        """The walker that finds nodes, and the maker of their records (natively only)."""
        if not self.why_walked:
            try:
                from gradscope.watch.native.creation import RecordMaker  # noqa: PLC0415 -- it compiles
                from gradscope.watch.native.native_walker import NativeWalker  # noqa: PLC0415 -- likewise

                maker = RecordMaker(listener.making())
                graph = NativeWalker(listener, maker, saved=saved)
            except Exception as error:  # noqa: BLE001 -- on any build of PyTorch, Python can do it
                self.why_walked = in_words(error)
            else:
                listener.takes_records_of(maker)
                return graph, maker
        hooked = self.hooked
        return GraphWalker(listener, None if hooked is None else hooked.attend, saved=saved), None

    @property
    def no_machine_code(self) -> str:
        """Why PyTorch is observed through its public API, or which part of it; "": it is not."""
        whys = {
            "nodes": self.why_walked,
            "runs": self.why_hooks,
            "calls": self.why_hooks or self.why_no_calls,
            "values": self.why_no_values,
        }
        found = {part: why for part, why in whys.items() if why}
        if len(set(found.values())) == 1 and self.why_walked:
            return self.why_walked
        return "; ".join(f"{part}: {why}" for part, why in found.items())

    @property
    def left_out(self) -> dict[str, int]:
        """Descriptions of what was not recorded, or only indirectly, with their counts."""
        texts = []
        if self.calls is not None and self.calls.why_no_writes:
            texts.append(f"in-place writes that create no node: {self.calls.why_no_writes}")
        if self.modules.unseen_calls:
            texts.append(CALLS_UNSEEN)
        if self.collectives.unseen:
            texts.append(f"collectives called in C++: {self.collectives.unseen}")
        parts = self.engine, self.graph, self.before, self.graph.unpacked, self.devices
        left_out = {text: n for part in parts if part for text, n in part.left_out.items()}
        if self.collectives.works is not None:
            left_out.pop(OF_CPP, None)  # what such hooks do is observed
        if self.writes is not None and self.writes.lost:
            left_out[OVERRUN] = self.writes.lost
        return {**left_out, **dict.fromkeys(texts, 1)}

    def reach(self, tensors: Sequence[Any]) -> None:
        """Report the nodes that lead to these tensors, as if a backward began there."""
        with unseen():
            for each in tensors:
                with suppress(NotDifferentiable, TooDeep):
                    self.graph.walk_from([each])
            found = self.graph.take_found()
        if found:
            self._listener.found(found)

    @contextmanager
    def looking_away(self) -> Iterator[None]:
        """Inside this context, backwards and their hooks are not reported."""
        calls, engine = self.hooks[0], self.engine
        calls.stop()
        engine.looks = False
        if self.runs is not None:
            self.runs.begins()
        try:
            yield
        finally:
            if self.runs is not None:
                self.runs.ends(failed=False)
            engine.looks = True
            calls.start()

    def start(self) -> None:
        """Start watching."""
        self.before.start()
        self.creation.start()
        self.engine.start()
        self.modules.start()
        for hooks in self.hooks:
            hooks.start()
        self.collectives.start()
        if self.ring is not None:
            self.ring.start()
        if self.runs is not None:
            self.runs.start()
        if self.calls is not None:
            self.calls.start()

    def stop(self) -> None:
        """Stop watching and restore everything."""
        if self.calls is not None:
            self.calls.stop()
        if self.runs is not None:
            self.runs.stop()
        if self.ring is not None:
            self.ring.stop()
        self.collectives.stop()
        for hooks in self.hooks:
            hooks.stop()
        self.modules.stop()
        self.engine.stop()
        self.creation.stop()
        self.graph.stop()

    def pause(self) -> None:
        """Pause: only the ends of steps and the begins of backwards are still followed."""
        self._stand_aside(aside=True)
        self.modules.pause()
        self.collectives.stop()

    def resume(self) -> None:
        """Resume watching."""
        self.modules.resume()
        self.collectives.start()
        self._stand_aside(aside=False)
