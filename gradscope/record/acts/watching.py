"""Records the acts of a program with the engine it has imported."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from gradscope.program_listener import is_nested
from gradscope.record.acts.data.of_given import GivenActs
from gradscope.record.acts.data.of_loaders import LoaderActs
from gradscope.record.acts.kept.kept_graphs import KeptGraphs
from gradscope.record.acts.notes import NOBODY, ActNotes
from gradscope.record.acts.numbers.not_finite import NotFiniteSteps
from gradscope.record.acts.numbers.summaries.step_summaries import StepSummaries
from gradscope.record.acts.of_copies import CopyActs
from gradscope.record.acts.of_functions import FunctionActs
from gradscope.record.acts.of_modules import LOOKS, ModuleActs
from gradscope.record.acts.of_optimizers import OptimizerActs
from gradscope.record.acts.of_programs import ProgramActs
from gradscope.record.acts.of_tensors import TensorActs
from gradscope.record.acts.stand_ins import StandIns
from gradscope.record.process.ranks import this_process

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from gradscope.record.acts.kept.node_checks import NodeChecks
    from gradscope.record.acts.notes import ActsSession, EngineLook


class WatchedActs:
    """Records acts of the program from `start` to `stop`; none at level `graph`."""

    def __init__(self, session: ActsSession) -> None:
        self.acts = ActNotes(session)
        self.summaries = StepSummaries(session)
        """Measures steps, at all levels and also while no acts are recorded."""
        self._wanted = session.level != "graph"
        self._stand_ins: StandIns | None = None
        self._modules: ModuleActs | None = None
        self._optimizers: OptimizerActs | None = None
        self._functions: FunctionActs | None = None
        self._not_finite: NotFiniteSteps | None = None
        self._given: GivenActs | None = None
        self._backward_ended: Callable[[], None] = _nothing
        self.called: Callable[[Any, int], None] = _nothing
        """Called with each module that is called, and its id."""
        self.checks_functions = self.keeps_source = self._wanted
        self.node_checks: NodeChecks | None = None  # if nodes are computed again
        self.takes_given = self._wanted and this_process().is_one_of_several
        self.says_random = session.level in ("values", "full")

    def start(self, torch: Any, look: EngineLook) -> None:
        """Install stand-ins in this `torch`, or in our runtime."""
        if not self._wanted:
            return
        acts = self.acts
        acts.look = look
        acts.meet_compilers()
        self._stand_ins = stand_ins = StandIns(acts, torch.compiler.is_compiling)
        self._not_finite = not_finite = NotFiniteSteps(acts)
        tensors = TensorActs(torch, acts, stand_ins, not_finite)
        programs = ProgramActs(torch, acts, stand_ins, tensors)
        copies = CopyActs(torch, acts, stand_ins)
        self._backward_ended = tensors.forget
        self._modules = ModuleActs(torch, acts, stand_ins, copies.loaded)
        self.called = self._modules.called
        self._optimizers = OptimizerActs(torch, acts, stand_ins, tensors, not_finite)
        loaders = LoaderActs(acts, stand_ins, values=self.says_random)
        given = GivenActs(torch, acts, reads=self.says_random)
        self._given = given if given.wanted else None
        for each in (tensors, self._modules, self._optimizers, programs, copies, loaders):
            acts.guarded(each.start)
        if self.checks_functions:
            self._functions = FunctionActs(torch, acts, stand_ins)
            acts.guarded(self._functions.start)
        acts.kept = KeptGraphs(torch, acts)
        acts.generator = torch.default_generator if self.says_random else None
        acts.on = True

    def met(self, module: Any) -> None:
        """Called at the first call of a module."""
        if self._modules is not None:
            self.acts.met(module)
            self.acts.guarded(self._modules.met, module)

    def given(self, module: Any, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Called before the outermost module is called with these arguments."""
        if self._given is not None and self.acts.on:
            self.acts.guarded(self._given.given, module, given, named)

    def stepping(self, optimizer: Any) -> None:
        """Called before an optimizer writes its parameters."""
        optimizers = self._optimizers
        if optimizers is not None and self.acts.on and optimizers.is_due(optimizer):
            self.acts.guarded(optimizers.stepping, optimizer)

    def stepped(self, optimizer: Any, frame: FrameType) -> None:
        """Called after an optimizer has written its parameters, in a call on this frame."""
        if self._optimizers is not None and self.acts.on and not is_nested(frame, optimizer):
            self.acts.guarded(self._stepped, optimizer, frame)

    def _stepped(self, optimizer: Any, frame: FrameType) -> None:
        assert self._optimizers is not None
        assert self._modules is not None
        self._modules.looks = LOOKS
        self._optimizers.step(optimizer, frame)

    def backward_ended(self) -> None:
        """Called at the end of an outermost backward, which ends steps without an optimizer."""
        acts = self.acts
        if self._modules is not None:
            self._modules.looks = LOOKS
        if acts.on and acts.kept is not None and not acts.has_optimizers():
            self._backward_ended()
            acts.guarded(acts.kept.backward_ended, sys._getframe(1))

    def measure_backward(self) -> None:
        """Called at the end of an outermost backward that may end a step, before that step ends."""
        if self.summaries.measures:
            self.acts.guarded(self.summaries.backward_ended)

    def pause(self) -> None:
        self.acts.on = False
        if self._stand_ins is not None:
            self._stand_ins.pause()

    def resume(self) -> None:
        self.acts.on = self._stand_ins is not None
        if self._stand_ins is not None:
            self._stand_ins.resume()

    def stop(self) -> None:
        """Stop watching and restore everything."""
        self.acts.on = False
        if self._stand_ins is not None:
            self._stand_ins.take_back()

    def ending(self, error: BaseException | None = None) -> None:
        """Called at the end of the program, while its objects still exist."""
        if self.acts.kept is None:
            return
        if self.acts.on:
            self.acts.guarded(self.acts.kept.ended, error)
            if self._not_finite is not None:
                self.acts.guarded(self._not_finite.ended)
            if self._modules is not None:
                self.acts.guarded(self._modules.ending)
        if self.keeps_source:  # also while steps are left out
            self.acts.guarded(self.acts.session.sites.note_files)

    def compare_functions(self) -> None:
        """Called after `stop`: see Note [Forwards run again] in `of_functions.py`."""
        if self._functions is not None and self.checks_functions:
            self.acts.guarded(self._functions.compare)

    def check_nodes(self) -> None:
        """Called after `stop`: see Note [In a process of its own] in `kept/node_checks.py`."""
        if self.node_checks is not None:
            self.acts.guarded(self.node_checks.tell, self.acts)

    def measured(self) -> dict[str, dict[str, Any]]:
        """Facts for the trace's `meta`, by key."""
        checks = self.node_checks
        facts = {"summary": self.summaries.facts(), "checked_nodes": checks and checks.facts}
        return {key: value for key, value in facts.items() if value}

    def flush(self, *, last: bool) -> None:
        """Pass all notes so far to the writer."""
        self.summaries.flush(last=last)
        self.acts.flush(last=last)

    def over(self) -> None:
        """Release all references that form cycles with this."""
        self.acts.look, self.acts.kept, self.acts.generator = NOBODY, None, None
        self._stand_ins = self._modules = self._optimizers = self._functions = None
        self._not_finite = self._given = None
        self._backward_ended = self.called = _nothing
        self.summaries.over()
        del self.acts.session


def _nothing(*_: Any) -> None:
    """Does nothing, if acts are not recorded."""
