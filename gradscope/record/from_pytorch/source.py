"""One recording of PyTorch: passes the reports of the watcher as rows to the writer."""

from __future__ import annotations

import sys
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from gradscope.record.acts.notes import EngineLook, made_at
from gradscope.record.from_pytorch.called.moves import Moves
from gradscope.record.from_pytorch.claims import claims, missed, put_claims
from gradscope.record.from_pytorch.installed import WhenImported, is_imported
from gradscope.record.from_pytorch.listener import PyTorchListener
from gradscope.record.from_pytorch.stops import PyTorchStops
from gradscope.record.from_pytorch.threads import PyTorchPause, UnderWay
from gradscope.record.notes.own_time import STARTING
from gradscope.watch.in_place.sharded import FUNCTIONAL_HOME

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradscope.record.session import Session
    from gradscope.watch.values.devices.device_times import DeviceTimes
    from gradscope.watch.watcher import Watcher


class PyTorchSource:
    """Watches PyTorch for one session and writes what its listener records."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.faults = session.faults
        self.listener = PyTorchListener(session)
        self.moves = Moves(session.contexts)
        self.stops = PyTorchStops(self)
        self._waiting = WhenImported(self._imported)
        self._waiting_for_collectives = WhenImported(self._imported_collectives, FUNCTIONAL_HOME)
        self._was_there = False  # PyTorch, before this recording
        self._not_looked_at: Callable[[], int] = int
        self._not_looked_at_before = 0

    @property
    def watcher(self) -> Watcher | None:
        """None: PyTorch is not imported yet, or could not be watched."""
        return self.listener.watcher

    # -- when it watches ------------------------------------------------------------------------

    def start(self) -> None:
        """Start watching, or when the program has imported PyTorch."""
        UnderWay.now = True
        self._was_there = is_imported()
        if self._was_there:
            self._imported()
        else:
            self._waiting.start()

    def _imported(self) -> None:
        """Called when PyTorch is imported, in the middle of the program's import statement."""
        with self.session.own_time.working(STARTING):
            began = self.faults.guarded("watching began", self._begin)
        if not began:
            watcher, self.listener.watcher = self.watcher, None
            if watcher is not None:
                self.faults.guarded("watching was given up", watcher.stop)

    def _begin(self) -> bool:
        from gradscope.watch.public.node_samples import NodeSamples
        from gradscope.watch.unseen import stands_for, unseen
        from gradscope.watch.values.reachable import (
            address,
            memory,
            not_looked_at,
            uncounted_memory,
        )
        from gradscope.watch.watcher import Watcher

        session, listener = self.session, self.listener
        listener.tensors.unseen, listener.tensors.storages.address = unseen, address
        listener.shared.address = address
        self._not_looked_at, self._not_looked_at_before = not_looked_at, not_looked_at()
        checks = session.acts.node_checks
        samples = None
        if checks is not None:
            tell = partial(checks.tell_shares, session.acts.acts)
            samples = checks.samples = NodeSamples(checks.due, tell)
        watcher = Watcher(
            listener, self.faults, level=session.level, native=session.native,
            from_import=not self._was_there, samples=samples,
        )  # fmt: skip
        listener.listens_to(watcher)
        if session.level == "full":
            self.moves.start()
        facts = claims(
            session.level, calls=watcher.calls is not None, operands=watcher.operands is not None,
            values=listener.values.on, ends=listener.maker is not None,
            hooked=watcher.hooked is not None,
        )  # fmt: skip
        if watcher.no_machine_code:
            facts["no_machine_code"] = watcher.no_machine_code
        if watcher.graph.not_shown:
            facts["not_shown"] = watcher.graph.not_shown
        put_claims(session.writer, facts)
        torch = sys.modules["torch"]
        look = EngineLook(
            listener.tensor, listener.modules.known, list, unseen, stands_for,
            made_at(watcher.graph.record_of), perf_counter_ns, memory, address,
            listener.tensors.leaves, ((torch.autograd.Function, "_register_hook"),),
            watcher.calls,
        )  # fmt: skip
        session.acts.start(torch, look)
        summaries = watcher.engine.summary = watcher.modules.summary = session.acts.summaries
        number = listener.tensors.number_of
        summaries.start(look._replace(tensor=number, memory=uncounted_memory), _on_devices)
        watcher.start()
        if FUNCTIONAL_HOME not in sys.modules:
            self._waiting_for_collectives.start()
        if session.places is not None:
            self.stops.at(session.places)
        if listener.paused is not None:  # paused before PyTorch was imported
            watcher.pause()
        return True

    def _imported_collectives(self) -> None:
        if self.watcher is not None:
            self.faults.guarded("a collective began", self.watcher.collectives.imported)

    def stop(self) -> None:
        """Stop watching."""
        UnderWay.now = False
        self._waiting.stop()
        self._waiting_for_collectives.stop()
        self.moves.stop()
        if self.watcher is not None:
            with self.listener.tensors.unseen():
                left = self.listener.graphs.left, self.watcher, self.listener.paused
                self.faults.guarded("graphs were left", *left)
            self.watcher.stop()
            if self.watcher.graph.not_shown:  # also what a traversal met since
                put_claims(self.session.writer, {"not_shown": self.watcher.graph.not_shown})
        self.session.sites.finish()
        if self.listener.maker is not None:
            self.listener.maker.finish()

    def pause(self) -> PyTorchPause:
        """Pause."""
        paused = self.listener.paused = PyTorchPause()
        if self.watcher is not None:
            self.watcher.pause()
        return paused

    def resume(self) -> None:
        """Resume."""
        self.listener.paused = None
        if self.watcher is not None:
            self.watcher.resume()

    def abandon(self) -> None:
        """Release everything in a forked child."""
        self.stop()

    # -- rows -----------------------------------------------------------------------------------

    def flush(self, *, last: bool) -> None:
        """Pass all notes so far to the writer; `last`: also what devices have not sent yet."""
        listener = self.listener
        since, until = listener.tasks.under_way_since, perf_counter_ns()
        handing_on = self.faults.handing_on
        handing_on(listener.tasks.flush)
        handing_on(listener.graphs.flush)
        handing_on(listener.calls.forget, since)
        if last:
            handing_on(listener.values.finish)
        handing_on(listener.values.flush, listener.calls, since, until)
        if listener.calls.whole:
            handing_on(self._put_calls)
        handing_on(listener.modules.flush, list)
        if self.watcher is not None and self.watcher.engine.times is not None:
            handing_on(self._put_device_times, self.watcher.engine.times, last)
        listener.shared.last = last
        handing_on(listener.tensors.flush)
        handing_on(listener.graphs.operands.rows.flush)

    def _put_device_times(self, times: DeviceTimes, last: bool) -> None:
        listener = self.listener
        listener.tasks.on_devices(times.arrived(last=last), listener.tensors.kinds.device)

    def _put_calls(self) -> None:
        listener = self.listener
        over = not UnderWay.now
        listener.graphs.put_calls(listener.calls.alone(over=over), self.moves, over=over)
        self.moves.forget(listener.calls.since())

    def events(self) -> int:
        """Number of events recorded so far."""
        listener = self.listener
        return listener.tasks.events

    def unseen(self) -> dict[str, int]:
        """Descriptions of what could not be recorded, with their counts."""
        listener = self.listener
        left_out = {} if self.watcher is None else self.watcher.left_out
        unnamed = missed(
            unnamed=listener.graphs.unnamed,
            unknown=listener.values.dropped,
            lost=listener.values.all_lost,
            late=listener.values.late,
            unread=listener.values.unread + self._not_looked_at() - self._not_looked_at_before,
            operands=listener.graphs.operands.lost,
            compiled=int(listener.graphs.compiled.unreported),
            graphs_unread=listener.graphs.compiled.unread,
            compiled_steps=int(self.watcher is not None and self.watcher.modules.compiled_steps),
            ends=listener.graphs.ends_lost,
            former=listener.graphs.made_before
            * self._was_there,  # hooks are watched in pauses, too
        )
        return {**left_out, **unnamed}

    def leaves(self) -> list[int]:
        """Numbers of the leaves in the trace that still exist."""
        return self.listener.tensors.alive()

    def unfinished(self) -> int:
        """Number of graph tasks that were running at the last flush."""
        listener = self.listener
        return listener.tasks.unfinished


def _on_devices() -> Any:
    from gradscope.watch.values.devices.device_looks import DeviceLooks

    return DeviceLooks()
