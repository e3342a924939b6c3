"""The whole of it: watches what a program does with an engine that it has imported."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from gradscope.record.acts.kept_graphs import KeptGraphs
from gradscope.record.acts.notes import NOBODY, Acts
from gradscope.record.acts.numbers.not_finite import NotFinite
from gradscope.record.acts.of_copies import OfCopies
from gradscope.record.acts.of_functions import OfFunctions
from gradscope.record.acts.of_modules import LOOKS, OfModules
from gradscope.record.acts.of_optimizers import OfOptimizers
from gradscope.record.acts.of_programs import OfPrograms
from gradscope.record.acts.of_tensors import OfTensors
from gradscope.record.acts.source.averages import averages
from gradscope.record.acts.source.crossings import crossings
from gradscope.record.acts.source.filters import filters, reads
from gradscope.record.acts.source.looked_at import looked_at
from gradscope.record.acts.source.misspelt import misspelt
from gradscope.record.acts.source.other_names import other_names
from gradscope.record.acts.source.positions import positions
from gradscope.record.acts.source.reorders import inferred, reorders
from gradscope.record.acts.source.risks import risks
from gradscope.record.acts.source.statements import idle_statements, trees_of
from gradscope.record.acts.source.sums import sums
from gradscope.record.acts.source.writes import writes
from gradscope.record.acts.stand_ins import StandIns
from gradscope.record.script.tracebacks import described
from gradscope.trace.schema.acts import Deed

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable
    from types import FrameType

    from gradscope.record.acts.notes import Look
    from gradscope.record.session import Session


OF_SIZES = re.compile(r"batch_size|must match|cannot be multiplied|input size")
"""In errors that a view may lead to whose rows are no samples."""


class WatchedActs:
    """Acts of the program, from `start` to `stop`; of level `graph` there are none."""

    def __init__(self, session: Session) -> None:
        self.acts = Acts(session)
        self._wanted = session.level != "graph"
        self._stand_ins: StandIns | None = None
        self._modules: OfModules | None = None
        self._optimizers: OfOptimizers | None = None
        self._functions: OfFunctions | None = None
        self._not_finite: NotFinite | None = None
        self._backward_ended: Callable[[], None] = _nobody
        self.called: Callable[[Any, int], None] | None = None
        """Is told that a module of this id is called, once it has started."""
        self.checks_functions = self._wanted
        self.says_random = session.level in ("values", "full")

    def start(self, torch: Any, look: Look) -> None:
        """Stand in for functions of this `torch`, or its like."""
        if not self._wanted:
            return
        acts = self.acts
        acts.look = look
        acts.meet_compilers()
        self._stand_ins = stand_ins = StandIns(acts, torch.compiler.is_compiling)
        self._not_finite = not_finite = NotFinite(acts)
        tensors = OfTensors(torch, acts, stand_ins, not_finite)
        programs = OfPrograms(torch, acts, stand_ins, tensors)
        copies = OfCopies(torch, acts, stand_ins)
        self._backward_ended = tensors.forget
        self._modules = OfModules(torch, acts, stand_ins, copies.loaded)
        self.called = self._modules.called
        self._optimizers = OfOptimizers(torch, acts, stand_ins, tensors, not_finite)
        for each in (tensors, self._modules, self._optimizers, programs, copies):
            acts.guarded(each.start)
        if self.checks_functions:
            self._functions = OfFunctions(torch, acts, stand_ins)
            acts.guarded(self._functions.start)
        acts.kept = KeptGraphs(torch, acts)
        acts.generator = torch.default_generator if self.says_random else None
        acts.on = True

    def met(self, module: Any) -> None:
        """A module is called for the first time."""
        if self._modules is not None:
            self.acts.met(module)
            self.acts.guarded(self._modules.met, module)

    def stepping(self, optimizer: Any) -> None:
        """An optimizer is about to write its parameters."""
        optimizers = self._optimizers
        if optimizers is not None and self.acts.on and optimizers.is_due(optimizer):
            self.acts.guarded(optimizers.stepping, optimizer)

    def stepped(self, optimizer: Any, frame: FrameType | None = None) -> None:
        """An optimizer has written its parameters, called from this frame."""
        if self._optimizers is not None and self.acts.on:
            self.acts.guarded(self._stepped, optimizer, frame or sys._getframe(1))

    def _stepped(self, optimizer: Any, frame: FrameType) -> None:
        assert self._optimizers is not None
        assert self._modules is not None
        self._modules.looks = LOOKS
        self._optimizers.step(optimizer, frame)

    def backward_ended(self) -> None:
        """One that ran in no other is over: where no optimizer steps, it tells of steps."""
        acts = self.acts
        if self._modules is not None:
            self._modules.looks = LOOKS
        if acts.on and acts.kept is not None and not acts.has_optimizers():
            self._backward_ended()
            acts.guarded(acts.kept.backward_ended, sys._getframe(1))

    def pause(self) -> None:
        self.acts.on = False

    def resume(self) -> None:
        self.acts.on = self._stand_ins is not None

    def stop(self) -> None:
        """Watch no longer; all is as it was."""
        self.acts.on = False
        if self._stand_ins is not None:
            self._stand_ins.take_back()

    def ending(self, error: BaseException | None = None) -> None:
        """The program is over, and what it has is still there."""
        if self.acts.kept is not None and self.acts.on:
            self.acts.guarded(self.acts.kept.ended, error)
            if self._not_finite is not None:
                self.acts.guarded(self._not_finite.ended)
            if self._modules is not None:
                self.acts.guarded(self._modules.ending)
            self.acts.guarded(self._tell_of_statements, error)

    def _tell_of_statements(self, error: BaseException | None) -> None:
        sites, note = self.acts.session.sites, self.acts.note
        said = "" if error is None else described(error)
        trees = trees_of(sites.files())
        for file, idle in idle_statements(trees):
            stack = sites.of_line(file, idle.line, idle.function)
            note(Deed.STATEMENT, None, stack=stack, what=idle.what, name=idle.name)
        for file, slip in misspelt(trees):
            stack, what = sites.of_line(file, slip.line, slip.function), "misspelt"
            note(Deed.STATEMENT, None, stack=stack, what=what, name=slip.name, meant=slip.meant)
        for file, look in looked_at(trees):
            stack = sites.of_line(file, look.line, look.function)
            note(Deed.STATEMENT, None, stack=stack, what="looked-at", by=look.by)
        for file, tree in trees:
            self._tell_of_sums(file, tree)
            for line, function, by, name in crossings(tree):
                stack = sites.of_line(file, line, function)
                note(Deed.STATEMENT, None, stack=stack, what="crossing", name=name, by=by)
            for line, function, name in writes(tree):
                stack = sites.of_line(file, line, function)
                note(Deed.STATEMENT, None, stack=stack, what="written-unseen", name=name)
            for line, function, words, how, freezes in filters(tree):
                stack = sites.of_line(file, line, function)
                facts: dict[str, Any] = {"words": [*words], "how": how, "freezes": freezes}
                note(Deed.STATEMENT, None, stack=stack, what="filter", **facts)
            for line, function, name, dims in reorders(tree):
                stack, facts = sites.of_line(file, line, function), {"dims": [*dims]}
                note(Deed.STATEMENT, None, stack=stack, what="reordered", name=name, **facts)
            if self._not_finite is not None and self._not_finite.was_any:
                for risk in risks(tree):
                    stack = sites.of_line(file, risk.line, risk.function)
                    facts = {"name": risk.name, "function": risk.function}
                    note(Deed.STATEMENT, None, stack=stack, what="risk", **facts)
            for line, function, name, dim in positions(tree):
                stack = sites.of_line(file, line, function)
                note(Deed.STATEMENT, None, stack=stack, what="positions", name=name, dim=dim)
            for each in averages(tree):
                stack = sites.of_line(file, each.line, each.function)
                facts = {"name": each.name, "new": each.new, "kept": each.kept}
                facts |= {"in_place": each.in_place, "swapped": each.swapped}
                note(Deed.STATEMENT, None, stack=stack, what="average", **facts)
            for line, function in inferred(tree) if OF_SIZES.search(said) else ():
                stack = sites.of_line(file, line, function)
                note(Deed.STATEMENT, None, stack=stack, what="inferred")
            for line, function, name, read in other_names(tree):
                stack = sites.of_line(file, line, function)
                note(Deed.STATEMENT, None, stack=stack, what="other-name", name=name, read=read)
            for line, function, apart in reads(tree):
                stack = sites.of_line(file, line, function)
                note(Deed.STATEMENT, None, stack=stack, what="reads-grad", apart=apart)

    def _tell_of_sums(self, file: str, tree: ast.Module) -> None:
        sites, note = self.acts.session.sites, self.acts.note
        for each, terms in sums(tree):
            stack = sites.of_line(file, each.line, each.function)
            sum_ = note(Deed.STATEMENT, None, stack=stack, what="sum", signs=each.signs)
            for name, line, place, side, off in terms:
                stack = sites.of_line(file, line, each.function)
                facts: dict[str, Any] = {"name": name, "place": place, "side": side}
                facts |= {"off": off} if off else {}
                note(Deed.STATEMENT, None, of=sum_, stack=stack, what="term", **facts)

    def compare_functions(self) -> None:
        """Nobody watches any longer: see Note [Forwards run again] in `of_functions.py`."""
        if self._functions is not None and self.checks_functions:
            self.acts.guarded(self._functions.compare)

    def flush(self, *, last: bool) -> None:
        """Hand all notes so far to the writer."""
        self.acts.flush(last=last)

    def over(self) -> None:
        """Hold nobody who holds this."""
        self.acts.look, self.acts.kept, self.acts.generator = NOBODY, None, None
        self._stand_ins = self._modules = self._optimizers = self._functions = None
        self._not_finite = None
        self._backward_ended = _nobody
        del self.acts.session


def _nobody() -> None:
    """Nobody watches."""
