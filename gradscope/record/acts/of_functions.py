"""Compares the backwards of custom Functions with the derivatives of their forwards.

# Note [Forwards run again]
Arguments and results of the first calls of each class are stored. When the recording ends, the
forward runs once more on copies, recorded by autograd, and the resulting gradients are compared
with those that the program's backward returned. The state of the program is not changed: output is
discarded, and random numbers continue as they would have. If the forward then returns other results
(because it reads something that has changed), nothing is reported. Classes and objects of the
program are held weakly, and those that no longer exist are not compared.
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

from gradscope.errors import leave_no_frame
from gradscope.record.acts.kept.kept_arrays import KeptArray, NotKept, keep
from gradscope.record.acts.rerun import compared
from gradscope.record.acts.source.source_lines import (
    line_that_keeps,
    line_that_writes,
    lines_of_gradient,
)
from gradscope.record.notes.local_names import node_of
from gradscope.trace.schema import FunctionAct
from gradscope.watch.in_place.by_identity import ByIdentity, held_in
from gradscope.watch.in_place.standing_in import HERE, hidden, raw

if TYPE_CHECKING:
    from gradscope.record.acts.notes import ActNotes
    from gradscope.record.acts.stand_ins import StandIns

CALLS = 3
"""Number of calls of each class that are compared."""

CLASSES = 100


@dataclass(eq=False)
class FunctionCall:
    """One call of a Function: arguments and results of its forward and backward."""

    given: list[Any]
    needs: list[bool]
    stack: int
    random: Any
    is_kept: bool = True  # its tensors are few and small enough to run it again
    outputs: list[Any] = field(default_factory=list)
    gradients: list[Any] | None = None
    returned: list[Any] | None = None
    versions: list[int | None] = field(default_factory=list)  # of its gradients
    wrote: bool = False  # its backward wrote into a gradient it received
    on_ctx: str = ""  # the attribute of ctx that is one of its outputs


class ForwardsCompared(NamedTuple):
    """Possible results of a comparison, worst last."""

    rank: int
    call: FunctionCall
    facts: dict[str, Any]


PLAIN = (type(None), bool, int, float, complex, str, bytes)
OF_ENGINES = frozenset(("torch", "numpy", "gradscope"))
"""Packages whose objects may be held: dtypes, devices and sizes, which hold no other objects."""

GONE = ref(set())  # type: ignore[var-annotated]
"""Replaces an object that cannot be held weakly."""


def _is_plain(value: Any, depth: int = 3) -> bool:
    """Whether it is a number, a text, or a list of these: it keeps nothing else alive."""
    if type(value) in (list, tuple, dict):
        return depth > 0 and all(_is_plain(each, depth - 1) for each in held_in(value))
    return type(value) in PLAIN


class FunctionActs:
    """Replaces `Function.apply`, and that of nodes, which calls the backward."""

    def __init__(self, torch: Any, acts: ActNotes, stand_ins: StandIns) -> None:
        self._torch = torch
        self._acts = acts
        self._stand_ins = stand_ins
        self._calls: ByIdentity[list[FunctionCall]] = ByIdentity()
        self._classes = 0  # number of classes whose calls are or were stored
        self._under_way: ByIdentity[FunctionCall] = ByIdentity()
        self._tensors = (torch.Tensor, torch.nn.Parameter)

    def start(self) -> None:
        autograd = self._torch.autograd
        function, node = autograd.Function, autograd.function.BackwardCFunction
        own = raw(function, "apply").__get__
        self._stand_ins.replace(function, "apply", self._applying(own))
        self._stand_ins.replace(node, "apply", self._applying_node(node.apply))

    def _applying(self, own: Any) -> Any:
        acts, is_compiling = self._acts, self._torch.compiler.is_compiling

        def apply(cls: Any, *given: Any, **more: Any) -> Any:
            try:
                is_told = acts.on and not HERE.ours and not more and not is_compiling()
                if not is_told or len(self._calls.get(cls) or ()) >= CALLS:
                    return own(None, cls)(*given, **more)
                frame, begun = sys._getframe(1), []
                acts.guarded(lambda: begun.append(self._begun(cls, given, frame)))
                result = own(None, cls)(*given)
                if begun and begun[0] is not None:
                    acts.guarded(self._made, cls, begun[0], result)
            except BaseException as error:
                leave_no_frame(error)
                raise
            else:
                return result

        return hidden(apply, "apply")

    def _begun(self, cls: Any, given: tuple[Any, ...], frame: Any) -> FunctionCall | None:
        torch, base = self._torch, self._torch.autograd.Function
        tensors = [each for each in given if isinstance(each, torch.Tensor)]
        needs = [isinstance(each, torch.Tensor) and each.requires_grad for each in given]
        if not any(needs) or not torch.is_grad_enabled() or self._classes >= CLASSES:
            return None
        if cls.backward is base.backward or any(type(t) not in self._tensors for t in tensors):
            return None
        backward = inspect.unwrap(cls.backward)
        boxed = getattr(cls, "boxed_grads_call", False)  # does not exist before PyTorch 2.12
        if boxed or self._acts.session.sites.is_machinery(backward.__code__):
            return None
        if cls.__module__.partition(".")[0] == "torch":
            return None
        try:
            kept, is_kept = [self._given(each) for each in given], True
        except NotKept:
            kept, is_kept = [], False
        stack = self._acts.session.sites.of_several(self._acts.caller(frame) or frame, 1)
        with torch.no_grad():
            random = torch.get_rng_state()
        return FunctionCall(kept, needs, stack, random, is_kept=is_kept)

    def _made(self, function: Any, call: FunctionCall, result: Any) -> None:
        torch = self._torch
        outputs = result if isinstance(result, tuple) else (result,)
        nodes = {node_of(each) for each in outputs if getattr(each, "requires_grad", False)}
        nodes.discard(None)
        node = next(iter(nodes), None)
        if len(nodes) != 1 or getattr(node, "_forward_cls", None) is not function:
            return  # an output is a view, was written to in place, or there is none
        kept = getattr(node, "__dict__", {}).items()
        held = (name for name, each in kept if any(each is output for output in outputs))
        call.on_ctx = next(held, "")
        try:
            if call.is_kept:
                call.outputs = [
                    self._keep(each) if isinstance(each, torch.Tensor) else None for each in outputs
                ]
        except NotKept:
            call.is_kept = False
        if not (call.is_kept or call.on_ctx):
            return
        calls = self._calls.get(function)
        if calls is None:
            self._classes += 1
            self._calls[function] = calls = []
        calls.append(call)
        if call.is_kept:
            self._under_way[node] = call

    def _applying_node(self, own: Any) -> Any:
        acts, under_way = self._acts, self._under_way

        def apply(self_: Any, *given: Any) -> Any:
            try:
                call = under_way.pop(self_) if acts.on else None
                if call is not None:
                    acts.guarded(self._arrived, call, given)
                returned = own(self_, *given)
                if call is not None:
                    acts.guarded(self._returned, call, returned, given)
            except BaseException as error:
                leave_no_frame(error)
                raise
            else:
                return returned

        return hidden(apply, "apply")

    def _arrived(self, call: FunctionCall, gradients: tuple[Any, ...]) -> None:
        call.versions = [None if each is None else each._version for each in gradients]
        try:
            call.gradients = [None if each is None else self._keep(each) for each in gradients]
        except NotKept:
            call.gradients = None

    def _returned(self, call: FunctionCall, returned: Any, gradients: tuple[Any, ...]) -> None:
        now = [None if each is None else each._version for each in gradients]
        call.wrote = now != call.versions
        all_ = returned if isinstance(returned, tuple) else (returned,)
        tensor = self._torch.Tensor
        if len(all_) < len(call.needs):
            return  # which raises
        try:
            call.returned = [
                self._keep(each) if isinstance(each, tensor) else None for each in all_
            ]
        except NotKept:
            call.returned = None

    def _given(self, value: Any) -> Any:
        """An argument of a forward in a form that does not keep the program's objects alive."""
        if isinstance(value, self._tensors):
            return self._keep(value)
        if _is_plain(value):
            return value
        try:
            return ref(value)
        except TypeError:
            return value if type(value).__module__.partition(".")[0] in OF_ENGINES else GONE

    def _keep(self, tensor: Any) -> KeptArray:
        return keep(tensor, self._acts.look.memory)

    # -- at the end of the recording -------------------------------------------------------------

    def compare(self) -> None:
        """Record the result for each class: Note [Forwards run again]."""
        for function in self._calls.alive():
            calls = self._calls.pop(function) or []
            whole = [each for each in calls if each.gradients and each.returned is not None]
            said = [said for each in whole for said in self._compared(function, each)]
            if said:
                self._tell(function, max(said, key=lambda each: each.rank), len(whole))
            for call in [each for each in calls if each.wrote][:1]:
                line = line_that_writes(inspect.unwrap(function.backward))
                self._tell_line(function, "backward", call, line, len(calls), found="writes")
            for call in [each for each in calls if each.on_ctx][:1]:
                name = call.on_ctx
                line = line_that_keeps(inspect.unwrap(function.forward), name)
                facts = {"found": "output-on-ctx", "name": name}
                self._tell_line(function, "forward", call, line, len(calls), **facts)

    def _compared(self, function: Any, call: FunctionCall) -> list[ForwardsCompared]:
        ranks = {"agrees": 1, "straight-through": 2, "deviates": 3}
        found = compared(self._torch, function, call)
        return [ForwardsCompared(ranks.get(str(each["found"]), 0), call, each) for each in found]

    def _tell(self, function: Any, said: ForwardsCompared, calls: int) -> None:
        facts = dict(said.facts)
        place = facts.pop("place", 0)
        lines = lines_of_gradient(inspect.unwrap(function.backward), place)
        stack = self._stack(function.backward, lines, said.call.stack)
        act = FunctionAct(type=function.__name__, calls=calls, **facts)
        self._acts.note(act, None, stack=stack)

    def _tell_line(
        self, function: Any, method: str, call: FunctionCall, line: int, calls: int, **facts: str
    ) -> None:
        """Record what the lines of a class do to gradients and to ctx."""
        stack = self._stack(getattr(function, method), [line], call.stack)
        act = FunctionAct(type=function.__name__, calls=calls, **facts)  # type: ignore[arg-type]
        self._acts.note(act, None, stack=stack)

    def _stack(self, method: Any, lines: list[int], stack: int) -> int:
        """Lines of a method, above those of a call."""
        sites, own = self._acts.session.sites, inspect.unwrap(method)
        code = own.__code__
        for line in reversed(lines):
            frame = sites.position(code.co_filename, line, code.co_qualname, own.__globals__)
            stack = sites._link(frame, stack)
        return stack
