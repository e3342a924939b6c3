"""The result of `torch.compile` for a model: a module whose calls are replayed."""

from __future__ import annotations

import sys
from typing import Any

from gradscope.runtime.core import probe
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.fast.capture.captured import MOST_PLANS, MOST_TRIES, _is_special
from gradscope.runtime.fast.capture.making import MORE_CODE
from gradscope.runtime.fast.capture.models.making_model import MakingModel
from gradscope.runtime.fast.capture.models.model_plan import ModelPlan
from gradscope.runtime.fast.capture.pieces import Pieces, cut, line_about
from gradscope.runtime.fast.capture.recording.recording import FROM_THE_START, StopReason
from gradscope.runtime.fast.capture.recording.watching import WatchedCode, profiled_in_c
from gradscope.runtime.nn.modules.module import Module
from gradscope.runtime.nn.modules.module_parts.global_hooks import EVERYWHERE

IN_A_RECORDING = (
    "the backward of a model is part of the program's backward, which is recorded node by node"
)


class OptimizedModule(Module):
    """A model whose forward and backward are replayed, if that is known to do the same."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self._orig_mod = model
        self.training = model.training
        self.__dict__["capture"] = CapturedModel(model)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["capture"](*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self.__dict__["_modules"][name]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Assigned attributes belong to the model."""
        own = self.__dict__
        if "_orig_mod" not in own.get("_modules", ()) or (name in own and name != "training"):
            super().__setattr__(name, value)
            return
        if name == "training":
            super().__setattr__(name, value)
        setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def train(self, mode: bool = True) -> Any:
        return super().train(mode)

    def report(self) -> str:
        """Text on what was captured, how often it was replayed, and why not."""
        return str(self.__dict__["capture"].report())


class CapturedModel:
    """Calls or replays a model, or a piece of one."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.is_module = isinstance(model, Module)
        self.function = model.forward if self.is_module else model
        self.name = type(model).__name__ if self.is_module else model.__name__
        self.plans: list[ModelPlan] = []
        self.stops = list(FROM_THE_START)
        self.recaptured: list[str] = []
        self.not_fused: list[str] = []
        self.untold: list[str] = []  # why it was not replayed during a recording
        self.pieces: Pieces | None = None
        self.whole: CapturedModel | None = None  # the model of which it is a piece
        self.lines = (0, 0)
        self.eager = 0
        self._program = WatchedCode()
        self._watched = False
        self._tries = 0
        self._said: set[str] = set()

    def __reduce__(self) -> Any:
        """A copy starts without plans, with a copy of the model."""
        return CapturedModel, (self.model,)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        here = probe.here
        told = None if here is None else here.replays
        if here is not None and (told is None or not told.over):
            if told is not None:
                self.untold = [IN_A_RECORDING]
                told.met(self)
                self._say(f"is not replayed while it is recorded: {IN_A_RECORDING}")
            return self._as_ever(args, kwargs)
        if _is_special(local.state):
            return self._as_ever(args, kwargs)
        if self.pieces is not None and self._is_as_it_was_cut():
            return self.pieces.run(args, kwargs)
        if self.stops:
            return self._as_ever(args, kwargs)
        for place, plan in enumerate(self.plans):
            if plan.guards.hold(args, kwargs):
                if place:
                    self.plans.insert(0, self.plans.pop(place))
                return plan.replay(args, kwargs)
        return self._as_ever(args, kwargs) if profiled_in_c() else self._make(args, kwargs)

    def _as_ever(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.eager += 1
        return self.model(*args, **kwargs)

    def _make(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.eager += 1
        making = MakingModel(self.model, self._program, records=self._watched)
        if not self._watched:
            result = making.watch(args, kwargs)
            self._watched = True
        else:
            if self.plans:
                self.recaptured.append(self.plans[0].guards.failed)
            result = making.record(args, kwargs)
        self._learn(making)
        return result

    def _learn(self, making: MakingModel) -> None:
        if making.model_plan is not None:
            self.plans.insert(0, making.model_plan)
            if len(self.plans) > MOST_PLANS:
                self.plans.clear()
                self._give_up(StopReason(f"{MOST_PLANS} plans exist, and none fits"))
            return
        for stop in making.stops[:1]:
            if stop.reason == MORE_CODE and self._tries < MOST_TRIES:
                self._tries += 1
            else:
                self._give_up(stop)

    def _is_as_it_was_cut(self) -> bool:
        """Whether a call of the model only calls the function that was cut."""
        if not self.is_module:
            return True
        heard = self.model.__dict__["_attended"] or EVERYWHERE
        return not heard and self.model.forward == self.function

    def _give_up(self, stop: StopReason) -> None:
        """Continue in pieces, if the model can be cut at its stop; otherwise without replay."""
        self.stops.append(stop)
        place = stop.place or line_about(self.function, stop.about)
        self.pieces = cut(self.function, place, CapturedModel) if place else None
        for part in self.pieces.parts if self.pieces else ():
            if isinstance(part.function, CapturedModel):
                part.function.whole, part.function.lines = self, part.lines
        self._say(f"is {'replayed in pieces' if self.pieces else 'not replayed'}: {stop}")

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            sys.stderr.write(f"gradscope: {self.name} {text}\n")

    def report(self) -> str:
        """Text on what was captured, how often it was replayed, and why not."""
        many = len(self.plans)
        lines = [f"{self.name}: {many} plan{'' if many == 1 else 's'}"]
        how = "in pieces" if self.pieces else "not replayed"
        lines += [f"{how}: {stop}" for stop in self.stops]
        for plan in self.plans:
            first, last = plan.forward_calls, plan.backward_calls
            lines.append(
                f"{first} calls on arrays forward, {last} backward; replayed {plan.replays} times"
            )
        lines += self.pieces.told() if self.pieces else ()
        lines += [f"recorded again: {reason}" for reason in self.recaptured]
        return "\n".join([*lines, f"{self.eager} calls ran without replay"])
