"""A captured step: a function that runs normally until its plan is proved, then is replayed."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

from gradscope.runtime.core import probe
from gradscope.runtime.core.state.thread import ThreadState, local
from gradscope.runtime.fast.capture.making import CHANGES, MORE_CODE, Making
from gradscope.runtime.fast.capture.pieces import Pieces, cut, line_about
from gradscope.runtime.fast.capture.plan.plan import ReplayPlan
from gradscope.runtime.fast.capture.proving import proved
from gradscope.runtime.fast.capture.recording.recording import FROM_THE_START, StopReason
from gradscope.runtime.fast.capture.recording.watching import WatchedCode, profiled_in_c
from gradscope.runtime.fast.capture.told import Told

MOST_PLANS = 8
"""Largest number of plans of a step, for example for several shapes or modes."""
WORTH_FUSING = 20
"""Number of replays after which chains of arithmetic are compiled."""
MOST_TRIES = 4
"""Number of times different code may run before capturing the step is given up."""

_recording = threading.Lock()


class Captured:
    """A step that is replayed if a replay is known to do the same."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.plans: list[ReplayPlan] = []
        self.stops = list(FROM_THE_START)
        self.recaptured: list[str] = []  # why a plan did not fit
        self.pieces: Pieces | None = None
        self.not_fused: list[str] = []  # in what a fused plan differed
        self.untold: list[str] = []  # why it was not replayed during a recording
        self.whole: Captured | None = None  # the step of which it is a piece
        self.lines = (0, 0)  # of that step
        self.eager = 0  # uncaptured calls
        self._program = WatchedCode()
        self._watched = False
        self._tries = 0
        self._said: set[str] = set()
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        here = probe.here
        told = None if here is None else here.replays
        if told is not None and not told.over:
            told.met(self)
        if told is not None and told.reason:
            return self._untold(told.reason, args, kwargs)
        if _is_special(local.state) or (told is None and here is not None):
            return self._as_ever(args, kwargs)
        if self.pieces is not None:
            return self.pieces.run(args, kwargs)
        if told is not None and told.over:
            told = None
        for place, plan in enumerate(self.plans):
            if plan.guards.hold(args, kwargs):
                if place:
                    self.plans.insert(0, self.plans.pop(place))
                return self._with(plan, told, args, kwargs)
        return self._without(None, told, args, kwargs)

    def _with(
        self, plan: ReplayPlan, told: Told | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Replay a plan once it is proved, and once the watcher, if any, has its template."""
        if not plan.proved:
            return self._prove(plan, told, args, kwargs)
        if plan.replays >= WORTH_FUSING and not plan.fusing_tried:
            return self._fuse(plan, told, args, kwargs)
        if told is None:
            return plan.replay(args, kwargs)
        if plan.template(told) is None:
            return self._show(plan, told, args, kwargs)
        return plan.replay_told(told, self, args, kwargs)

    def _show(
        self, plan: ReplayPlan, told: Told, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run and report a step that a recording has not seen, or that replays could not serve."""
        if plan.shown(told) < MOST_TRIES:
            return self._without(plan, told, args, kwargs)
        return self._untold("it does something different in each call", args, kwargs)

    def _untold(self, reason: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run without replay, because a recording could not get the facts of a replay."""
        if reason not in self.untold:
            self.untold.append(reason)
        self._say(f"{self.name} is not replayed while it is recorded: {reason}")
        return self._as_ever(args, kwargs)

    def _without(
        self,
        again: ReplayPlan | None,
        told: Told | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Make a plan, or one `again` for a recording that has not seen it, or run without."""
        if self.stops or profiled_in_c() or not _recording.acquire(blocking=False):
            return self._as_ever(args, kwargs)
        try:
            return self._make(again, told, args, kwargs)
        finally:
            _recording.release()

    def __reduce__(self) -> Any:
        """A copy starts without plans, with a copy of the step."""
        return Captured, (self.function,)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def report(self) -> str:
        """Text on what was captured, how often it was replayed, and why not."""
        count = len(self.plans)
        lines = [f"{self.name}: {count} plan{'' if count == 1 else 's'}"]
        how = "in pieces" if self.pieces else "not replayed"
        lines += [f"{how}: {stop}" for stop in self.stops[:1]]
        for plan in self.plans:
            parts = [call.part for call in plan.calls]
            told = ", ".join(f"{parts.count(p)} {p}" for p in dict.fromkeys(parts))
            looked = len(plan.guards.holdings) + len(plan.guards.states)
            lines.append(
                f"{len(parts)} calls on arrays ({told}); replayed {plan.replays} times; "
                f"guards check {looked} values"
            )
            fused = sum(chain.count for chain in plan.chains)
            if fused:
                lines.append(f"{fused} of these calls are fused into {len(plan.chains)}")
            if plan.played:
                loops = sum(played.count for played in plan.played)
                lines.append(f"NumPy loops: {loops}, in calls: {len(plan.played)}")
            if plan.joins:
                one_pass = sum(join.count for join in plan.joins)
                close = f", within {plan.tolerance:g}" if plan.tolerance else ""
                lines.append(f"{one_pass} are computed by {len(plan.joins)} kernels{close}")
        lines += [f"not fused: the replay differs in {reason}" for reason in self.not_fused]
        if self.pieces is not None:
            lines += self.pieces.told()
        lines += [f"recorded again: {reason}" for reason in self.recaptured]
        return "\n".join([*lines, f"{self.eager} calls ran without replay"])

    def _as_ever(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.eager += 1
        return self.function(*args, **kwargs)

    def _make(
        self,
        again: ReplayPlan | None,
        told: Told | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Watch the step, or record it."""
        self.eager += 1
        making = Making(self.function, self._program, records=self._watched, told=told)
        if not self._watched:
            result = making.watch(args, kwargs)
            self._watched = True
        else:
            if self.plans and again is None:
                self.recaptured.append(self.plans[0].guards.failed)
            result = making.record(args, kwargs)
        if again is None or making.plan is None or not again.takes_template_of(making.plan):
            self._learn(making)
        return result

    def _learn(self, making: Making) -> None:
        plan = making.plan
        if plan is not None:
            self.plans.insert(0, plan)
            if len(self.plans) > MOST_PLANS:
                self._give_up([StopReason(f"{MOST_PLANS} plans exist, and none fits")])
            return
        anew = self.plans and making.stops and making.stops[0].reason.startswith(CHANGES)
        if anew or (making.stops and making.stops[0].reason == MORE_CODE):
            self._tries += 1  # what was new in this call may not be in the next
            if self._tries < MOST_TRIES:
                return
        cannot_cut = making.stops and not (making.stops[0].place or making.stops[0].about)
        if cannot_cut and self.plans:  # they are right for other calls
            self.stops = list(making.stops)
            self._say(f"{self.name} is not recorded again: {making.stops[0]}")
        elif making.stops:
            self._give_up(making.stops)

    def _prove(
        self, plan: ReplayPlan, told: Told | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run the step and the plan, and compare."""
        self.eager += 1
        result, reason = proved(plan, self.function, args, kwargs, keep=told is not None)
        if reason:
            self.plans.remove(plan)
            self._give_up([StopReason(f"the replay differs in {reason}")])
        plan.proved = not reason
        return result

    def _fuse(
        self, plan: ReplayPlan, told: Told | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Fuse adjacent calls, if the results are the same bits."""
        if not plan.fuse():
            return self._with(plan, told, args, kwargs)
        self.eager += 1
        result, reason = proved(plan, self.function, args, kwargs, keep=told is not None)
        if reason:
            plan.unfuse()
            self.not_fused.append(reason)
        return result

    def _give_up(self, stops: list[StopReason]) -> None:
        """Continue in pieces, if the step can be cut at its stop; otherwise without replay."""
        self.stops = list(stops)
        self.plans.clear()
        place = stops[0].place or line_about(self.function, stops[0].about)
        self.pieces = cut(self.function, place, Captured) if place else None
        for part in self.pieces.parts if self.pieces else ():
            if isinstance(part.function, Captured):
                part.function.whole, part.function.lines = self, part.lines
        how = "replayed in pieces" if self.pieces else "not replayed"
        self._say(f"{self.name} is {how}: {stops[0]}")

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            sys.stderr.write(f"gradscope: {text}\n")

    @property
    def name(self) -> str:
        """Name of the step."""
        return str(getattr(self.function, "__qualname__", type(self.function).__name__))


def _is_special(state: ThreadState) -> bool:
    """Whether a mode or hook is active that plans do not support."""
    return bool(
        state.special
        or state.task is not None
        or state.function_modes
        or state.keeper is not None
        or not state.grad_enabled
        or state.transforms
    )


def capture(function: Callable[..., Any]) -> Captured:
    """Return a step that is recorded once and then replayed, with the same values."""
    return function if isinstance(function, Captured) else Captured(function)
