"""One recording of PyTorch: what the watcher tells, as rows on their way into the writer."""

from __future__ import annotations

import sys
from itertools import count
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from gradscope.machine_code.callables import offset
from gradscope.record.acts.notes import Look, leaves_of, made_at
from gradscope.record.from_pytorch.called.calls import Calls
from gradscope.record.from_pytorch.called.moves import Moves
from gradscope.record.from_pytorch.claims import claims, missed, put_claims
from gradscope.record.from_pytorch.graphs import Graphs
from gradscope.record.from_pytorch.stops import Stops
from gradscope.record.from_pytorch.tasks import Task, Tasks
from gradscope.record.from_pytorch.tensors import Tensors
from gradscope.record.from_pytorch.threads import Paused, State
from gradscope.record.from_pytorch.under_way import UnderWay
from gradscope.record.from_pytorch.values import Values
from gradscope.record.from_pytorch.when_imported import WhenImported, is_imported
from gradscope.record.notes.c_functions import OURS
from gradscope.record.notes.local_names import gradient_of
from gradscope.record.notes.modules import Modules
from gradscope.record.notes.own_time import STARTING
from gradscope.trace.schema import NONE, Phase, Place
from gradscope.trace.shorthand.tables import ARRIVED
from gradscope.watch.in_place.by_identity import attributes
from gradscope.watch.listener import Faults, Made

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from gradscope.record.session import Session
    from gradscope.watch.listener import Backward, Found, Kept, Stretch
    from gradscope.watch.native.creation import Maker, Making
    from gradscope.watch.watcher import Watcher


class PyTorchSource:
    """Takes the notes of one session. Numbers are the ids that rows have."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.recording = object()  # what nodes name that were made for this one
        self.numbers = count(2, 2)  # of what is no node
        self._node_numbers: Callable[[], int] = count(1, 2).__next__
        self._maker: Maker | None = None
        self._contexts, self.local = session.contexts, session.contexts._local
        self.module_ends = self._contexts.leave_module
        self.loading_begins, self.loading_ends = self._contexts.begin_span, self._contexts.end_span
        self.tensors = Tensors(session.writer, session.contexts.now, self.numbers.__next__)
        self.modules = Modules(session.writer, self.tensor, session.sites.is_machinery)
        self._known_modules, self._called = self.modules.by_id, session.acts.called
        self.calls = Calls()
        self.moves = Moves(session.contexts)
        self.values = Values(session)
        self.graphs = Graphs(session, self.tensors, self.calls, self.values, self.numbers.__next__)
        self.arguments = self.graphs.arguments
        self.tasks = Tasks(session, self.calls, self.values)
        self.faults = Faults()
        self.watcher: Watcher | None = None
        self.stops = Stops(self)
        self._waiting = WhenImported(self._imported)
        self._paused: Paused | None = None
        self._was_there = False  # PyTorch, before this recording
        self._not_looked_at: Callable[[], int] = int
        self._not_looked_at_before = 0

    # -- when it watches ------------------------------------------------------------------------

    def start(self) -> None:
        """Watch from here on, or from when the program has imported PyTorch."""
        UnderWay.now = True
        self._was_there = is_imported()
        if self._was_there:
            self._imported()
        else:
            self._waiting.start()

    def _imported(self) -> None:
        """PyTorch is there. The program is in the middle of its import."""
        with self.session.own_time.working(STARTING):
            began = self.faults.guarded("watching began", self._begin)
        if not began:
            watcher, self.watcher = self.watcher, None
            if watcher is not None:
                self.faults.guarded("watching was given up", watcher.stop)

    def _begin(self) -> bool:
        from gradscope.watch.unseen import stands_for, unseen
        from gradscope.watch.values.reachable import address, memory, not_looked_at
        from gradscope.watch.watcher import Watcher

        self.tensors.unseen, self.tensors.address = unseen, address
        self._not_looked_at, self._not_looked_at_before = not_looked_at, not_looked_at()
        session = self.session
        self.watcher = Watcher(self, self.faults, level=session.level, native=session.native)
        self.values.ring = self.watcher.ring
        self.graphs.not_finite.seen = self.watcher.without_node
        self.calls.keeps_sums = self.values.on
        if self._maker is not None:
            from gradscope.record.from_pytorch.native.walked import Walked

            graph: Any = self.watcher.graph
            self.graphs.walked = Walked(
                session, graph, self.tensors, self.graphs.named, saved=session.level != "graph"
            )
            graph.look = self.values.walked if self.values.on else None
        self.modules.met = [self.watcher.before.module, session.acts.met]
        self.calls.observer = self.watcher.calls
        self.calls.whole = session.level == "full"
        self.modules.names_buffers = self.graphs.operands.watch(self.watcher.operands)
        if self.calls.whole:
            self.moves.start()
        watched = {name: getattr(self.watcher, name) is not None for name in ("calls", "operands")}
        facts = claims(session.level, **watched, values=self.values.on, ends=bool(self._maker))
        put_claims(session.writer, facts)
        known, made = self.modules.known, made_at(self.watcher.graph.made_of)
        torch = sys.modules["torch"]
        look = Look(
            self.tensor, known, list, unseen, stands_for, made, perf_counter_ns,
            memory, address, self.tensors.leaves, ((torch.autograd.Function, "_register_hook"),),
        )  # fmt: skip
        session.acts.start(torch, look)
        self._called = session.acts.called
        self.watcher.start()
        if session.places is not None:
            self.stops.at(session.places)
        if self._paused is not None:  # it was before PyTorch was imported
            self.watcher.pause()
        return True

    def stop(self) -> None:
        """Watch no longer."""
        UnderWay.now = False
        self._waiting.stop()
        self.moves.stop()
        if self.watcher is not None:
            with self.tensors.unseen():
                left = self.graphs.left, self.watcher, self._paused
                self.faults.guarded("graphs were left", *left)
            self.watcher.stop()
        self.session.sites.finish()
        if self._maker is not None:
            self._maker.finish()

    def pause(self) -> Paused:
        """Leave out what comes now."""
        self._paused = Paused()
        if self.watcher is not None:
            self.watcher.pause()
        return self._paused

    def resume(self) -> None:
        """Watch again."""
        self._paused = None
        if self.watcher is not None:
            self.watcher.resume()

    def abandon(self) -> None:
        """Let go."""
        self.stop()

    # -- what the watcher tells -----------------------------------------------------------------

    def made(self, frame: FrameType | None) -> Made:
        """A node is made on this frame, or was made while nobody watched."""
        number = self._node_numbers()
        if frame is None:
            return Made(self.recording, number, 0, NONE, perf_counter_ns())
        _, context, site = self._place(frame)  # a step may begin with it
        return Made(self.recording, number, context, site, perf_counter_ns())

    def making(self) -> Making:
        """What native code has to know of threads and lines."""
        from gradscope.watch.native.creation import Making

        return Making(offset(State, "context"), OURS, self._asked)

    def _asked(self, frame: FrameType | None) -> tuple[object, int, int] | None:
        return self.faults.guarded("a node was made", self._place, frame)

    def _place(self, frame: FrameType | None) -> tuple[object, int, int]:
        """The calling thread, its place, and the line of this frame."""
        state = self.local.state
        context = state.context or self._contexts.at_call(state, self.recording)
        return state, context, self.session.sites.of(frame)

    def made_by(self, maker: Maker) -> None:
        """It makes what nodes keep, and gives out numbers."""
        self._maker = maker
        maker.nodes.words[0], maker.others.words[0] = self._node_numbers(), next(self.numbers)
        self.session.sites.tell(maker.add)
        self._node_numbers = maker.nodes.next
        self.tensors.next_number = self.graphs.next_number = maker.others.next
        self.tensors.numbers = maker.others.take

    def site(self, frame: FrameType | None) -> int:
        """The line of the program that this frame is on, or was called from."""
        return self.session.sites.of(frame)

    def tensor(self, tensor: Any) -> int:
        """The number of a leaf."""
        number = self.tensors.number_of(tensor)
        if self.watcher is not None:
            self.watcher.before.leaf(tensor, number)
        return number

    def kept(self, nodes: list[Kept], walk: int) -> None:
        """What nodes have saved that a native walk has met and Python has to say; when it began."""
        self.graphs.kept(nodes, walk)

    def found(self, nodes: list[Found]) -> None:
        """Nodes that a backward reaches for the first time."""
        self.graphs.found(nodes)

    def attends(self) -> int:
        """When a look at a backward begins, if it is wanted; else 0."""
        return perf_counter_ns() if self._paused is None else self._paused.began()

    def left_out(self, *, creates: bool) -> None:
        """A backward that was not looked at is over."""
        if self._paused is not None and self._paused.ended():
            self.session.backward_ended(creates=creates)

    def backward_begins(self, asked: Backward, frame: FrameType | None, since: int) -> Task:
        """A graph task starts on this thread."""
        state, sites, contexts = self.local.state, self.session.sites, self._contexts
        if self.tensors.names.nameless:
            self.tensors.names.look(frame, sites.is_machinery, self.modules.named)
        root = asked.roots[0][0]
        if len(asked.roots) > 1:
            root = self._node_numbers()
        place = contexts.place(state)
        stack = sites.of_backward(frame, accumulates=asked.accumulate_grad)
        task = state.task = self.tasks.begin(asked, root, stack, state.task, place.id)
        contexts.changed(state, place)
        task.own = perf_counter_ns() - since
        return task

    def backward_ends(
        self, task: Task, error: BaseException | None, stretch: Stretch | None
    ) -> None:
        """It ended, or the exception went through it."""
        began = perf_counter_ns()
        state, contexts = self.local.state, self._contexts
        state.task = task.parent
        contexts.changed(state, contexts.place(state))
        if len(task.asked.roots) > 1:
            hooked = self.watcher is not None and self.watcher.why_hooks
            if stretch is not None and hooked:
                stretch.after(task.asked.sequence_nr)  # nobody can put a hook on it
            ran = None if stretch is None else stretch.runs()
            number = int(ran.sequence[0]) if ran is not None and len(ran.sequence) else NONE
            self.graphs.root(task, number)
        self.tasks.end(task, error, stretch)
        task.own += perf_counter_ns() - began
        if task.parent is None:
            self.graphs.look_for_ends()
            self.session.backward_ended(creates=task.asked.create_graph)

    def hook_begins(
        self, kind: str, node: int, index: int, hook: Any, site: int, attended: Any = None
    ) -> Any:
        """A hook of the program's is called."""
        if self.values.ring is not None:
            self.values.ring.forget()
        task = self.local.state.task
        if task is None and self._paused is not None:
            return None
        module = NONE
        if "_modules" in attributes(attended):
            around = self.session.contexts.place(self.local.state).modules
            module = self.modules.id(attended, around[-1] if around else NONE)
        return self.tasks.hook_begins(task, kind, node, index, hook, site, module)

    def hook_ends(self, token: Any, *, replaced: bool) -> None:
        """It returned."""
        self.tasks.hook_ends(token, replaced=replaced)

    def called_back(self, callback: Any) -> None:
        """A callback at the end of a backward."""
        self.tasks.called_back(self.local.state.task, callback)

    # -- level `values` -------------------------------------------------------------------------

    def hook_given(self, token: Any, grad: Any, nr: int) -> None:
        """What a hook is about to be told of."""
        if self.values.on:
            task, node, *_ = token
            self.values.look(ARRIVED, grad, node, nr, task=task)

    def hook_looked(self, token: Any, leaf: Any, result: Any, nr: int) -> None:
        """What is there after a hook."""
        if self.values.on:
            task, node, *_ = token
            if leaf is None:
                self.values.look(Place.HOOK, result, node, nr, task=task)
            else:
                number = self.tensors.number_of(leaf)
                self.values.look(Place.HOOK, gradient_of(leaf), node, 0, number, task)

    def seeded(self, task: Task, asked: Backward, grads: Sequence[Any]) -> None:
        """What a backward begins with."""
        for (node, nr), grad in zip(asked.roots, grads, strict=False):
            self.values.look(Place.SEED, grad, node, nr, task=task.id)

    def handed_over(self, task: Task, grads: Sequence[Any]) -> None:
        """What a backward has returned: it arrived at an input of a node, and went no further."""
        if not task.asked.accumulate_grad:
            for (node, nr), grad in zip(task.asked.inputs, grads, strict=False):
                self.values.look(ARRIVED, grad, node, nr, task=task.id)

    def stepping(self, optimizer: Any) -> None:
        """An optimizer is about to write its parameters."""
        self.session.acts.stepping(optimizer)
        self._contexts.enter_phase("optimizer", f"{type(optimizer).__name__}.step")

    def stepped(self, optimizer: Any, frame: FrameType) -> None:
        """What an optimizer has made of leaves and their gradients."""
        self.session.acts.stepped(optimizer, frame)
        self.graphs.look_for_ends()
        if self.watcher is not None:
            self.watcher.before.optimizer(optimizer)
        if self.values.ring is not None:
            with self.tensors.unseen():
                self.values.stepped(leaves_of(optimizer), self.tensors.number_of)

    def module_begins(self, module: Any) -> None:
        """The forward of a module begins."""
        number, state = self._known_modules.get(id(module)), self.local.state
        if number is None:
            around = self._contexts.place(state).modules
            number = self.modules.id(module, around[-1] if around else NONE)
        if self._called is not None:
            self._called(module, number)
        self._contexts.enter(state, number)

    def step_is_over(self) -> None:
        """A step of the training ends here, watched or in a pause."""
        contexts = self._contexts
        if not contexts.leave_phase():  # it began in a pause
            contexts.begin_step(contexts.step_number + 1)

    def collective_begins(self, name: str) -> int:
        """The program meets with those it trains with."""
        return self.session.contexts.begin_span(name, Phase.COLLECTIVE)

    def collective_ends(self, token: int) -> None:
        """It goes on by itself."""
        self.session.contexts.end_span(token)

    # -- rows -----------------------------------------------------------------------------------

    def flush(self) -> None:
        """Hand all notes so far to the writer."""
        since, until = self.tasks.under_way_since, perf_counter_ns()
        handing_on = self.faults.handing_on
        handing_on(self.tasks.flush)
        handing_on(self.graphs.flush)
        handing_on(self.calls.forget, since)
        handing_on(self.values.flush, self.calls, since, until)
        if self.calls.whole:
            handing_on(self._put_calls)
        handing_on(self.modules.flush, list)
        handing_on(self.tensors.flush)
        handing_on(self.graphs.operands.rows.flush)

    def _put_calls(self) -> None:
        over = not UnderWay.now
        self.graphs.put_calls(self.calls.alone(over=over), self.moves, over=over)
        self.moves.forget(self.calls.since())

    def events(self) -> int:
        """How many events were noted so far."""
        return self.tasks.events

    def unseen(self) -> dict[str, int]:
        """What could not be seen, in words, and how many times."""
        left_out = {} if self.watcher is None else self.watcher.left_out
        unnamed = missed(
            unnamed=self.graphs.unnamed,
            unknown=self.values.dropped,
            lost=self.values.lost,
            unread=self.values.unread + self._not_looked_at() - self._not_looked_at_before,
            operands=self.graphs.operands.lost,
            compiled=int(self.graphs.compiled),
            compiled_steps=int(self.watcher is not None and self.watcher.modules.compiled_steps),
            ends=self.graphs.ends_lost,
            former=self.graphs.made_before * self._was_there,  # hooks are watched in pauses, too
        )
        faults = {f"a fault of gradscope's, {t}": n for t, n in self.faults.texts.items()}
        return {**left_out, **unnamed, **faults}

    def unfinished(self) -> int:
        """Graph tasks that had begun and not ended when notes were last flushed."""
        return self.tasks.unfinished
