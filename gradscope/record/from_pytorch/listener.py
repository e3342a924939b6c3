"""Passes the reports of the watcher to the parts of a PyTorch recording."""

from __future__ import annotations

from itertools import count
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from gradscope.machine_code.callables import offset
from gradscope.record.acts.notes import leaves_of
from gradscope.record.from_pytorch.called.pytorch_calls import PyTorchCalls
from gradscope.record.from_pytorch.claims import LARGE
from gradscope.record.from_pytorch.graphs import PyTorchGraphs
from gradscope.record.from_pytorch.memory.carried_rows import CarriedRows
from gradscope.record.from_pytorch.memory.storage_rows import OtherNumbers
from gradscope.record.from_pytorch.native.ends import PyTorchNodeEnds, Releases
from gradscope.record.from_pytorch.native.storages import Storages
from gradscope.record.from_pytorch.tasks import PyTorchTask, Tasks
from gradscope.record.from_pytorch.tensors import PyTorchTensors
from gradscope.record.from_pytorch.threads import PyTorchPause, PyTorchThread, engine_states
from gradscope.record.from_pytorch.values import PyTorchValues
from gradscope.record.notes.c_functions import OURS
from gradscope.record.notes.local_names import gradient_of, node_of
from gradscope.record.notes.module_rows import ModuleRows
from gradscope.record.notes.positions.program_notes import ProgramNotes
from gradscope.record.notes.statistics import statistics
from gradscope.record.process.ranks import this_process
from gradscope.trace.schema import NONE, Place
from gradscope.trace.shorthand.tables import ARRIVED
from gradscope.watch.in_place.by_identity import attributes
from gradscope.watch.listener import PythonNodeRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from gradscope.record.from_pytorch.memory.exchange_rows import ExchangeRows
    from gradscope.record.session import Session
    from gradscope.watch.called.compiling import CompilerEvent
    from gradscope.watch.listener import BackwardCall, BackwardRuns
    from gradscope.watch.native.creation import RecordMaker, RecordSources
    from gradscope.watch.public.node_ends import PublicNodeEnds
    from gradscope.watch.watcher import Watcher


class PyTorchListener(ProgramNotes):
    """Records the reports of the watcher for one session. Numbers are those of rows."""

    def __init__(self, session: Session) -> None:
        self.session, self.faults = session, session.faults
        self.statistics = statistics
        self.recording = object()  # nodes created in this recording refer to it
        self._node_numbers: Callable[[], int] = count(1, 2).__next__
        self.maker: RecordMaker | None = None
        self.local = session.contexts.threads.local
        self.numbers = OtherNumbers(count(2, 2).__next__)
        self.tensors = PyTorchTensors(session.writer, session.contexts.now, self.numbers)
        modules = ModuleRows(session.writer, self.tensor, session.sites.is_machinery)
        super().__init__(session.contexts, session.acts, modules)
        self.shared.site_of, self.shared.contexts = session.sites.of, session.contexts
        self.shared.leaves = self.tensors.leaves
        self.shared.before_waiting = session.flush_before_waiting
        self.calls = PyTorchCalls()
        self.values = PyTorchValues(session)
        self.graphs = PyTorchGraphs(session, self.tensors, self.calls, self.values)
        self.shared.is_machinery = session.sites.is_machinery
        self.shared.carried = CarriedRows(session, self.calls, self.graphs.in_place)
        self.found, self.found_saved = self.graphs.found, self.graphs.found_saved
        self.arguments = self.graphs.arguments
        self.tasks = Tasks(session, self.calls, self.values)
        self.hook_ends = self.tasks.hook_ends
        self.watcher: Watcher | None = None
        self.released: PublicNodeEnds | None = None
        self.paused: PyTorchPause | None = None

    def listens_to(self, watcher: Watcher) -> None:
        """Configure each part for what this watcher can observe."""
        session, graphs, values = self.session, self.graphs, self.values
        self.watcher = watcher
        values.ring, values.devices = watcher.ring, watcher.devices
        graphs.not_finite.seen = watcher.without_node
        self.calls.observer, self.calls.keeps_sums = watcher.calls, values.on
        self.calls.whole = session.level == "full"
        if watcher.calls is not None and watcher.calls.made is not None:
            watcher.calls.made.measures = values.on and this_process().is_one_of_several
        if self.maker is not None:
            from gradscope.record.from_pytorch.native.native_graph_rows import NativeGraphRows

            graph: Any = watcher.graph
            saved = session.level != "graph"
            graphs.walked = NativeGraphRows(session, graph, self.tensors, graphs.named, saved=saved)
            graph.look = values.walked if values.on else None
            if values.on:
                values.divided = self.tensors.shards.measured_by(watcher.ring)
            graphs.releases = Releases(graphs.walked.ends, graphs.walked.storages, _nothing)
        else:
            self.released = _followed_publicly(self)
        told = watcher.before.module, session.acts.met, self._met, self.tensors.shards.met
        self.modules.met = told
        self.modules.names_buffers = graphs.operands.watch(watcher.operands)

    def _met(self, module: Any) -> None:
        """Called once for each module of a model."""
        with self.tensors.is_unseen():
            number = self.modules.known(module)
            if number is not None:
                self.tensors.buffers.met(module, self.modules.paths[number])

    def new_record(self, frame: FrameType | None) -> PythonNodeRecord:
        """Called when this frame creates a node; None: it was created before the recording."""
        number = self._node_numbers()
        if frame is None:
            record = PythonNodeRecord(self.recording, number, 0, NONE, perf_counter_ns())
            record.packed = True  # it is not known
            return record
        _, context, site = self._place(frame)  # a step may begin here
        record = PythonNodeRecord(self.recording, number, context, site, perf_counter_ns())
        if self.watcher is not None and self.watcher.graph.unpacked is not None:
            record.packed = self.watcher.graph.unpacked.may_be_packed()
        return record if self.released is None else self.released.made(record)

    def making(self) -> RecordSources:
        """What native code needs to know about threads and lines."""
        from gradscope.watch.native.creation import RecordSources

        return RecordSources(offset(PyTorchThread, "context"), OURS, self._asked)

    def _asked(self, frame: FrameType | None) -> tuple[object, int, int] | None:
        return self.faults.guarded("a node was made", self._place, frame)

    def _place(self, frame: FrameType | None) -> tuple[object, int, int]:
        """The calling thread, its place, and the line of this frame."""
        state = self.local.state
        if state.task is None and isinstance(state, PyTorchThread) and state.system is not None:
            state.task = self.tasks.only_one()
        context = state.context or self.contexts.at_call(state, self.recording)
        return state, context, self.session.sites.of(frame)

    def takes_records_of(self, maker: RecordMaker) -> None:
        """Use this maker, which creates records of nodes and assigns numbers."""
        self.maker = maker
        maker.nodes.words[0], maker.others.words[0] = self._node_numbers(), self.numbers.one()
        self.session.sites.tell(maker.add)
        self._node_numbers = maker.nodes.next
        self.numbers.one, self.numbers.several = maker.others.next, maker.others.take

    def site(self, frame: FrameType | None) -> int:
        """The line of the program that this frame is on, or was called from."""
        return self.session.sites.of(frame)

    def tensor(self, tensor: Any) -> int:
        """The number of a leaf."""
        number = self.tensors.number_of(tensor)
        if self.watcher is not None:
            self.watcher.before.leaf(tensor, number)
        return number

    def looks_since(self) -> int:
        """The current time, if a backward is recorded; if not, 0, or -1 if optimizers end steps."""
        if self.paused is not None and self.contexts.steps.is_told:
            self.paused.saw_backward = True
            return -1
        if self.released is not None:
            self.released.now()
        return perf_counter_ns() if self.paused is None else self.paused.began()

    def left_out(self, *, creates: bool) -> None:
        """Called at the end of a backward that was not recorded."""
        if self.paused is not None and self.paused.ended():
            self.session.backward_ended(creates=creates)

    def backward_begins(
        self, asked: BackwardCall, frame: FrameType | None, since: int
    ) -> PyTorchTask:
        """A graph task starts on this thread."""
        state, sites, contexts = self.local.state, self.session.sites, self.contexts
        if self.tensors.names.nameless:
            self.tensors.names.look(frame, sites.is_machinery, self.modules.named)
        root = asked.roots[0][0]
        if len(asked.roots) > 1:
            root = self._node_numbers()
        place = contexts.threads.of(state)
        stack = sites.of_backward(frame, accumulates=asked.accumulate_grad)
        before, parent = state.task, self.tasks.here(state.task)
        task = state.task = self.tasks.begin(asked, root, stack, parent, place.id)
        task.before = before
        contexts.changed(state, place)
        self._engine_runs(self.tasks.only_one())
        task.own = perf_counter_ns() - since
        return task

    def _engine_runs(self, task: PyTorchTask | None) -> None:
        """From now on, threads of the engine run this backward, or an unknown one."""
        for state in engine_states():
            if state.task is not task and (state.task is None or state.task.parent is None):
                state.task, state.context = task, 0
                if state in self.contexts.threads.known:
                    self.contexts.changed(state, self.contexts.threads.of(state))

    def backward_ends(
        self, task: PyTorchTask, error: BaseException | None, ran: BackwardRuns | None
    ) -> None:
        """Called when a graph task ends, normally or with an exception."""
        began = perf_counter_ns()
        if self.released is not None:
            self.released.now()
        state, contexts = self.local.state, self.contexts
        state.task = task.before
        contexts.changed(state, contexts.threads.of(state))
        if len(task.asked.roots) > 1:
            hooked = self.watcher is not None and self.watcher.why_hooks
            if ran is not None and hooked and _root_ran(task.asked, ran):
                ran.after(task.asked.sequence_nr)  # it cannot have a hook
            runs = None if ran is None else ran.runs()
            number = int(runs.sequence[0]) if runs is not None and len(runs.sequence) else NONE
            self.graphs.root(task, number)
        self.tasks.end(task, error, ran)
        self._engine_runs(self.tasks.only_one())
        task.own += perf_counter_ns() - began
        if task.parent is None:
            self.graphs.look_for_ends()
            self.session.backward_ended(creates=task.asked.create_graph)

    def hook_begins(
        self, kind: str, node: int, index: int, hook: Any, site: int, attended: Any = None
    ) -> Any:
        """Called before a hook of the program."""
        if self.values.ring is not None:
            self.values.ring.forget()
        task = self.tasks.here(self.local.state.task)
        if task is None and self.paused is not None:
            return None
        module = NONE
        if "_modules" in attributes(attended):
            around = self.contexts.threads.here().module
            module = self.modules.id(attended, around)
        return self.tasks.hook_begins(task, kind, node, index, hook, site, module)

    def called_back(self, callback: Any) -> None:
        """A callback at the end of a backward."""
        self.tasks.called_back(self.tasks.here(self.local.state.task), callback)

    @property
    def shared(self) -> ExchangeRows:
        """Receives what ranks exchange."""
        return self.tensors.exchanges

    # -- level `values` -------------------------------------------------------------------------

    def hook_given(self, token: Any, grad: Any, nr: int) -> None:
        """The gradient that a hook will receive."""
        if self.values.on:
            task, node, *_ = token
            self.values.look(ARRIVED, grad, node, nr, task=task)

    def hook_looked(self, token: Any, leaf: Any, result: Any, nr: int) -> None:
        """The gradient after a hook."""
        if self.values.on:
            task, node, *_ = token
            if leaf is None:
                self.values.look(Place.HOOK, result, node, nr, task=task)
            else:
                number = self.tensors.number_of(leaf)
                self.values.look(Place.HOOK, gradient_of(leaf), node, 0, number, task)

    def ends_at(self, tensors: Sequence[Any]) -> None:
        """The tensors that a backward begins from: results of calls."""
        if self.released is not None and self.watcher is not None:
            for tensor in tensors:
                node = node_of(tensor)
                record = None if node is None else self.watcher.graph.record_of(node)
                if record is not None:
                    self.graphs.result(record, tensor.output_nr, tensor)

    def seeded(self, task: PyTorchTask, asked: BackwardCall, grads: Sequence[Any]) -> None:
        """The gradients with which a backward begins."""
        for (node, nr), grad in zip(asked.roots, grads, strict=False):
            self.values.look(Place.SEED, grad, node, nr, task=task.id)

    def handed_over(self, task: PyTorchTask, grads: Sequence[Any]) -> None:
        """The gradients that a backward has returned, which arrived at inputs of nodes."""
        if not task.asked.accumulate_grad:
            for (node, nr), grad in zip(task.asked.inputs, grads, strict=False):
                self.values.look(ARRIVED, grad, node, nr, task=task.id)

    def compiler_told(self, event: CompilerEvent, frame: FrameType) -> None:
        """A compiler reported something while it compiled a function called by this frame."""
        self.graphs.compiled.told(event, frame)

    def step_written(self, optimizer: Any, frame: FrameType) -> None:
        """Called after an optimizer has updated its parameters."""
        super().step_written(optimizer, frame)
        self.graphs.look_for_ends()
        if self.watcher is not None:
            self.watcher.before.optimizer(optimizer)
        if self.values.ring is not None:
            with self.tensors.unseen():
                self.values.stepped(leaves_of(optimizer), self.tensors.number_of)


def _followed_publicly(listener: PyTorchListener) -> PublicNodeEnds:
    """Follow the release of nodes and large storages without machine code."""
    from gradscope.watch.public.node_ends import PublicNodeEnds

    session, tensors, released = listener.session, listener.tensors, PublicNodeEnds()
    storages = Storages(session, tensors.numbers)
    listener.graphs.releases = Releases(PyTorchNodeEnds(session, released), storages, released.met)
    if session.level != "graph":
        tensors.storages.followed, tensors.storages.large_from = storages.number, LARGE
    return released


def _nothing(number: int) -> None:
    """Does nothing: native records know which nodes were found."""


def _root_ran(asked: BackwardCall, ran: BackwardRuns) -> bool:
    """Whether the node above several roots ran: not if none of them leads to an input."""
    wanted = {node for node, _ in asked.inputs}
    return not wanted or bool(ran.many) or any(node in wanted for node, _ in asked.roots)
