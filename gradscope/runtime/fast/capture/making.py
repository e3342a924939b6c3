"""Creation of a plan: runs and records a step, and examines what it did."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

from gradscope.runtime.core.state.thread import local
from gradscope.runtime.fast.capture.plan.plan import Effects, ReplayPlan
from gradscope.runtime.fast.capture.plan.results import Results
from gradscope.runtime.fast.capture.reach.arguments import Arguments
from gradscope.runtime.fast.capture.reach.guards import Guards, TensorState, version_of
from gradscope.runtime.fast.capture.reach.holdings import Holding
from gradscope.runtime.fast.capture.reach.objects import Unreadable
from gradscope.runtime.fast.capture.reach.reached import Reached, explained
from gradscope.runtime.fast.capture.recording.exchange import exchanged
from gradscope.runtime.fast.capture.recording.recording import StepRecording, StopReason
from gradscope.runtime.fast.capture.recording.reviewed import SWITCHES
from gradscope.runtime.fast.capture.recording.trees import read_by
from gradscope.runtime.fast.capture.recording.watching import WatchedCode, Watching
from gradscope.runtime.fast.capture.told import Told


class Making:
    """One run of a step from which a plan is made."""

    def __init__(
        self,
        function: Callable[..., Any],
        program: WatchedCode,
        *,
        records: bool = True,
        told: Told | None = None,
    ) -> None:
        self.function = function
        self.program = program
        self.told = told
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        self.recording = StepRecording(code, records=records)
        self.plan: ReplayPlan | None = None
        self.in_tuples: set[int] = set()

    @property
    def stops(self) -> list[StopReason]:
        return self.recording.stops

    def watch(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the step, and record which code runs."""
        with Watching(self.program, self.recording).active():
            return self.function(*args, **kwargs)

    def record(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the step, and make a plan of it, if possible."""
        recording = self.recording
        arguments = Arguments(args, kwargs)
        try:
            reached = self._reached(arguments)
        except Unreadable as reason:
            recording.stop(str(reason), "")
            return self.function(*args, **kwargs)
        states = self._states(reached, arguments)
        inputs = self._inputs(states)
        guards = Guards(reached.holdings, [s for s in states if not s.place], arguments)
        size = self.program.size()
        window = self.told and self.told.open([state.tensor for state in states])
        try:
            with exchanged(recording), Watching(self.program, recording).active():
                result = self.function(*args, **kwargs)
        finally:
            if self.told is not None:
                self.told.close(window)
        if not local.state.grad_enabled or local.state.special:
            recording.stop("the step ends with a mode on, or with gradients off", "")
        if self.program.size() == size:
            self._finish(result, args, kwargs, guards, states, inputs)
        else:
            recording.stop(MORE_CODE, "")
        if self.told is not None and self.plan is not None:
            self.plan.take_template(self.told, window, result)
        return result

    def _reached(self, arguments: Arguments) -> Reached:
        if self.program.unseen:
            raise Unreadable(self.program.unseen)
        if arguments.unreadable(self.program):
            raise Unreadable(arguments.unreadable(self.program))
        reached = Reached(self.program)
        reached.add(self.function, getattr(self.function, "__name__", "the step"))
        for module, name in SWITCHES:
            found = sys.modules.get(f"gradscope.runtime.{module}")
            if found is not None:
                reached.add(vars(found)[name], f"{module}.{name}")
        for leaf in arguments.others():
            reached.add(leaf.value, leaf.place)
        unseen = explained(self.program, reached)
        if unseen:
            raise Unreadable(f"the variables of {unseen} are not visible")
        self.in_tuples = reached.in_tuples
        self.recording.containers |= reached.lists_and_dicts()
        leaves = [leaf.value for leaf in arguments.leaves]
        self.recording.containers |= {id(each) for each in leaves if isinstance(each, list | dict)}
        return reached

    def _states(self, reached: Reached, arguments: Arguments) -> list[TensorState]:
        given = {id(leaf.value) for leaf in arguments.tensors}
        states = [
            TensorState(tensor, name)
            for tensor, name in reached.tensors.values()
            if id(tensor) not in given
        ]
        if len(states) < len(reached.tensors):
            self.recording.stop(
                "an argument is a tensor that the step also reaches in another way", ""
            )
        for place, leaf in enumerate(arguments.tensors):
            state = TensorState(leaf.value, leaf.place)
            state.place = str(place)
            states.append(state)
        return states

    def _inputs(self, states: list[TensorState]) -> dict[int, str]:
        """Numbers of the arrays that exist when the step begins, and how to get them."""
        recording = self.recording
        inputs: dict[int, str] = {}
        recording.leaves = {id(state.tensor) for state in states}
        for at, state in enumerate(states):
            if recording.number(state.array) is None:
                way = f"{state.name}._array" if state.place else f"a{at}"
                nr = recording.new(state.array)
                inputs[nr] = way
                recording.named[nr] = ("argument" if state.place else "state", state.name, at)
            elif state.place:
                recording.stop(f"{state.name} is in the memory of another tensor", "")
            if state.grad is not None and recording.number(state.grad._array) is None:
                meta = f"{state.name}._meta" if state.place else f"m{at}"
                nr = recording.new(state.grad._array)
                inputs[nr] = f"{meta}.grad._array"
                recording.named[nr] = ("gradient", f"{state.name}.grad", at)
        return inputs

    # -- when the step is over ------------------------------------------------------------------

    def _finish(
        self,
        result: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        guards: Guards,
        states: list[TensorState],
        inputs: dict[int, str],
    ) -> None:
        recording = self.recording
        used = {nr for call in recording.calls for nr in read_by(call)}
        given = {id(leaf.value): n for n, leaf in enumerate(guards.arguments.tensors)}
        outside = frozenset(inputs)
        there = {id(state.tensor): state.tensor for state in states if not state.place}
        results = Results(result, recording, given, there, outside)
        effects = self._effects(states, used)
        histories = results.with_history or any(c.part == "backward" for c in recording.calls)
        for state in states:
            self._check(state, used if histories else set())
        changed = self._changed(guards, args, kwargs)
        if changed:
            about = re.sub(r"^(len|vars|the keys of )\(*", "", changed)
            about = re.split(r"\W", about, maxsplit=1)[0]
            recording.stop(f"{CHANGES}: {changed}", "", about)
        guards = self._without_options(guards, states)
        if not recording.stops:
            self.plan = ReplayPlan(recording, guards, inputs, results, effects)
            for state in states:
                state.grad = None  # guards check its layout, and the program may release it

    def _without_options(self, guards: Guards, states: list[TensorState]) -> Guards:
        """Guards without options that optimizers read in each step, such as the learning rate."""
        program, steps = self.program, [c for c in self.recording.calls if c.kind == "step"]
        if program.reads_options or "param_groups" in program.attributes:
            return guards
        groups = {id(call.given[1].value) for call in steps}
        if program.every_attribute or self._named_elsewhere(guards, groups, steps):
            return guards
        kept = [
            holding
            for holding in guards.holdings
            if not (id(holding.owner) in groups and holding.key in READ_ANEW)
        ]
        numbers = [
            Holding(h.owner, h.key, type(h.value), "type", h.name)
            for h in guards.holdings
            if id(h.owner) in groups and h.key in READ_ANEW
        ]
        states = [state for state in states if not state.place]
        return Guards([*kept, *numbers], states, guards.arguments)

    def _named_elsewhere(self, guards: Guards, groups: set[int], steps: list[Any]) -> bool:
        """Whether the program references options of an optimizer without going through it."""
        optimizers = {id(vars(call.given[0].value)) for call in steps}
        lists = {id(call.given[0].value.param_groups) for call in steps}
        known = groups | lists
        return not known.isdisjoint(self.in_tuples) or any(
            id(holding.value) in known and id(holding.owner) not in optimizers | lists
            for holding in guards.holdings
        )

    def _changed(self, guards: Guards, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """What the step has changed other than values and gradients."""
        again = Arguments(args, kwargs)
        if [leaf.place for leaf in again.leaves] != [
            leaf.place for leaf in guards.arguments.leaves
        ]:
            return "its arguments"
        return guards.holdings_differ()

    def _check(self, state: TensorState, used: set[int]) -> None:
        """Refuse changes of this tensor that a replay would not repeat."""
        recording, tensor = self.recording, state.tensor
        if tensor._array is not state.array:
            recording.stop(f"the step replaces the memory of {state.name}", "")
        if tensor.requires_grad is not state.needs_grad or tensor.is_leaf is not state.leaf:
            recording.stop(f"the step changes whether {state.name} requires a gradient", "")
        nr = recording.number(state.array)
        if nr in used and state.needs_grad and not state.leaf:
            recording.stop(f"{state.name} has a history from before the step", "")
        if version_of(tensor) != state.version and tensor._base is not None:
            recording.stop(f"the step writes to {state.name}, which is a view", "")
        if state.grad is not None and state.grad.requires_grad:
            recording.stop(f"the gradient of {state.name} requires a gradient", "")

    def _effects(self, states: list[TensorState], used: set[int]) -> Effects:
        recording = self.recording
        writes: list[tuple[TensorState, int]] = []
        written: list[tuple[TensorState, int]] = []
        forgotten: list[TensorState] = []
        renewed: list[TensorState] = []
        counted: set[int] = set()
        for state in states:
            tensor, told = state.tensor, recording.told.get(id(state.tensor), 0)
            count = version_of(tensor) - state.version - told
            if count and id(tensor._versions) not in counted:
                counted.add(id(tensor._versions))
                writes.append((state, count))
            grad = None if tensor._meta is None else tensor._meta.grad
            if grad is None and (state.grad is not None or id(tensor) in recording.begun):
                forgotten.append(state)
            elif grad is state.grad:
                count = 0 if grad is None else version_of(grad) - state.grad_version
                count -= 0 if grad is None else recording.told.get(id(grad), 0)
                if count:
                    written.append((state, count))
            else:
                self._renewed(state, grad, renewed, written, used)
        return Effects(tuple(writes), tuple(forgotten), tuple(renewed), tuple(written))

    def _renewed(self, state: Any, grad: Any, renewed: Any, written: Any, used: Any) -> None:
        recording = self.recording
        nr, begun = recording.begun.get(id(state.tensor), (-1, 0))
        if recording.number(grad._array) is None or nr < 0:
            recording.stop(
                f"the step sets {state.name} to a gradient that was not made by a backward", ""
            )
            return
        before = state.grad
        if before is not None and recording.number(before._array) not in used:
            renewed.append(state)
        count = version_of(grad) - begun - recording.told.get(id(grad), 0)
        if count:
            written.append((state, count))


READ_ANEW = frozenset(("lr", "betas", "eps", "weight_decay", "alpha"))
"""Options that an optimizer reads in each step."""

CHANGES = "the step changes values that it reads"
MORE_CODE = "different code ran than before"
