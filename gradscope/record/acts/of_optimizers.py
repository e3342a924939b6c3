"""Acts of optimizers, learning rate schedulers and gradient scalers."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from gradscope.errors import leave_no_frame
from gradscope.record.acts.notes import FRAMES, leaves_of
from gradscope.record.acts.numbers.moved import ParameterMoves
from gradscope.record.acts.numbers.not_finite import NotFiniteSteps
from gradscope.record.acts.source.source_lines import lines_that_return
from gradscope.record.acts.stand_ins import StandIn, Tell, asked
from gradscope.record.notes.local_names import gradient_of
from gradscope.record.notes.sites import is_installed
from gradscope.record.notes.user_functions import written
from gradscope.record.process.ranks import this_process
from gradscope.trace.schema import (
    NONE,
    AssignedAct,
    FilledAct,
    OptimizerAct,
    ParamGroupAct,
    ScaleAct,
    ScaledStepAct,
    ScheduleAct,
    ScheduleStepAct,
    StatementAct,
    StepAct,
    UnscaleAct,
    ZeroGradAct,
)
from gradscope.watch.in_place.standing_in import HERE, hidden

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from gradscope.record.acts.notes import ActNotes
    from gradscope.record.acts.of_tensors import TensorActs
    from gradscope.record.acts.stand_ins import StandIns

TOLD_OF_GROUPS = ("lr", "weight_decay", "momentum")
ZEROINGS = ZeroGradAct(set_to_none=False), ZeroGradAct(set_to_none=True)


class LastStep(NamedTuple):
    """What was recorded of an optimizer's last step."""

    same: tuple[int, ...]  # unchanged parts of the record
    settings: list[Any]  # held, so that id() stays unique
    decay: tuple[float, ...]
    act: StepAct


class OptimizerActs:
    """Replaces methods that programs call on them, and is called after each step."""

    def __init__(
        self,
        torch: Any,
        acts: ActNotes,
        stand_ins: StandIns,
        tensors: TensorActs,
        not_finite: NotFiniteSteps,
    ) -> None:
        self._torch = torch
        self._acts = acts
        self._stand_ins = stand_ins
        self._tensors = tensors
        self._steps = 0
        self._said: dict[int, LastStep] = {}  # by the act that created the optimizer
        self._held: dict[int, set[int]] = {}  # likewise: the id()s of its parameters
        self._moved = ParameterMoves(
            acts,
            each=acts.session.level in ("values", "full"),
            shared=this_process().is_one_of_several,
        )
        self.is_due = self._moved.is_due
        self._not_finite = not_finite

    def start(self) -> None:
        optim = self._torch.optim
        self._stand_ins.put(self._methods(optim.Optimizer, optim.lr_scheduler))
        base = optim.Optimizer
        self._stand_ins.replace(base, "__setattr__", self._setting(base.__setattr__))
        init = self._torch.nn.init
        fills = [name for name in vars(init) if name.endswith("_") and not name.startswith("_")]
        self._stand_ins.put(
            StandIn(init, name, self._filled_by(name), inside=True) for name in fills
        )

    def _filled_by(self, name: str) -> Tell:
        """Stand-in for a function of nn.init, which fills a parameter."""
        parameter = self._torch.nn.Parameter

        def tell(
            acts: ActNotes, frame: FrameType, _: Any, given: tuple[Any, ...], more: dict[str, Any]
        ) -> None:
            leaf = asked(given, more, 0, "tensor")
            if not isinstance(leaf, parameter):
                return
            own = acts.caller(frame)
            held = (one for each in acts.optimizers() for one in leaves_of(each))
            if own is not None or (self._steps and any(one is leaf for one in held)):
                acts.note(FilledAct(by=name), own or frame, [leaf])

        return tell

    def _setting(self, own: Any) -> Any:
        """Record an attribute with the name of a group setting, which no optimizer reads."""
        acts, getframe = self._acts, sys._getframe
        engines = self._torch.optim.Optimizer.__module__.partition(".")[0]

        def __setattr__(self_: Any, name: str, value: Any) -> None:  # noqa: N807
            try:
                groups = vars(self_).get("param_groups")
                has_any = type(groups) is list and groups
                if acts.on and not HERE.ours and has_any and name in groups[0] and name != "params":
                    frame = acts.caller(getframe(1))
                    of_engine = type(self_).__module__.partition(".")[0] in (engines, "torch")
                    if frame is not None and of_engine:
                        acts.guarded(self._set, frame, self_, name, value)
                own(self_, name, value)
            except BaseException as error:
                leave_no_frame(error)
                raise

        return hidden(__setattr__, "__setattr__")

    def _set(self, frame: FrameType, optimizer: Any, name: str, value: Any) -> None:
        within, of = type(optimizer).__name__, self._of(optimizer)
        there = setting(optimizer.param_groups[0][name])
        act = AssignedAct(name=name, what="setting", within=within, to=setting(value), there=there)
        self._acts.note(act, frame, of=of)

    def _methods(self, optimizer: Any, schedules: Any) -> Iterator[StandIn]:
        yield StandIn(optimizer, "__init__", self._built, inside=True)
        yield StandIn(optimizer, "add_param_group", self._group_added)
        yield StandIn(optimizer, "zero_grad", self._zeroed, looks=False)
        for each in (schedules.LRScheduler, schedules.ReduceLROnPlateau):  # which does not call it
            yield StandIn(each, "__init__", self._schedule_built, inside=True)
        for each in list(vars(schedules).values()):
            if isinstance(each, type) and "step" in vars(each) and not issubclass(each, optimizer):
                yield StandIn(each, "step", self._schedule_stepped)
        scaler = self._torch.amp.GradScaler
        yield StandIn(scaler, "scale", _scaled)
        yield StandIn(scaler, "unscale_", self._unscaled)
        yield StandIn(scaler, "step", self._scaled_step, inside=True, look=self._steps_so_far)

    def _of(self, optimizer: Any) -> int:
        """The act that created an optimizer; if it existed before, it is recorded now."""
        number = self._acts.of(optimizer)
        if number == NONE:
            with self._acts.look.unseen():
                number = self._acts.built(optimizer, None, _as_built(optimizer, before=True))
            self._hold(number, optimizer)
        return number

    def _hold(self, number: int, optimizer: Any) -> list[Any]:
        """Mark its current parameters as known. Returns those that were not."""
        leaves = leaves_of(optimizer)
        before = self._held.get(number, ())
        self._held[number] = set(map(id, leaves))
        return [leaf for leaf in leaves if id(leaf) not in before]

    def stepping(self, optimizer: Any) -> None:
        """Called before a step that is measured."""
        self._moved.stepping(optimizer)
        self._not_finite.stepping(optimizer, self._of(optimizer))

    def step(self, optimizer: Any, frame: FrameType) -> None:
        """Called after a step, which this frame called."""
        moved = self._moved.stepped(optimizer)
        self._steps += 1
        self._tensors.forget()
        acts, of = self._acts, self._of(optimizer)
        settings: list[Any] = []
        for group in optimizer.param_groups:
            settings += group.get("lr"), group.get("weight_decay")
        leaves = leaves_of(optimizer)
        none = [leaf for leaf in leaves if gradient_of(leaf) is None]
        many = len(leaves)
        if self._held[of] != set(map(id, leaves)):  # the list of a group was replaced or changed
            new = self._hold(of, optimizer)
            acts.note(ParamGroupAct(instead=True), frame, new, of=of)
        # A setting that is the same object as at the last step has the same value.
        same = *map(id, settings), many, len(none)
        said, random = self._said.get(of), acts.random_state()
        if said is not None and said.same == same and moved is None and random == NONE:
            act = said.act
        else:
            lr, decay = (tuple(map(setting, settings[place::2])) for place in range(2))
            changed = said is not None and said.decay != decay
            far: dict[str, Any] = moved or {}
            act = StepAct(
                lr=lr, weight_decay=decay if changed else (), none=len(none), many=many,
                random=random, **far,
            )  # fmt: skip
            again = moved is None and random == NONE and not changed
            self._said[of] = LastStep(same if again else (), settings, decay, act)
        stack = acts.session.sites.of_several(frame, FRAMES)
        acts.put(act, stack, of, acts.listed(none) if none else 0)
        self._not_finite.stepped(optimizer, of, frame, closely=moved is not None)
        if acts.kept is not None:
            acts.kept.step_ended(frame)

    def _zeroed(
        self, acts: ActNotes, frame: FrameType, _: Any, given: tuple[Any, ...], more: dict[str, Any]
    ) -> None:
        to_none = bool(asked(given, more, 1, "set_to_none", True))
        stack = acts.session.sites.of_several(frame, FRAMES)
        acts.put(ZEROINGS[to_none], stack, self._of(given[0]))

    def _built(
        self, acts: ActNotes, frame: FrameType, _: Any, given: tuple[Any, ...], _more: Any
    ) -> None:
        optimizer = given[0]
        self._hold(acts.built(optimizer, frame, _as_built(optimizer)), optimizer)

    def _group_added(
        self, acts: ActNotes, frame: FrameType, _: Any, given: tuple[Any, ...], _more: Any
    ) -> None:
        group, of = given[0].param_groups[-1], acts.of(given[0])
        lr, decay, momentum = (setting(group.get(name)) for name in TOLD_OF_GROUPS)
        many = len(group.get("params", ()))
        act = ParamGroupAct(lr=lr, weight_decay=decay, momentum=momentum, many=many)
        acts.note(act, frame, group["params"], of=of)
        if of != NONE:  # else it is being created
            self._hold(of, given[0])

    def _schedule_built(
        self, acts: ActNotes, frame: FrameType, _: Any, given: tuple[Any, ...], _more: Any
    ) -> None:
        schedule, mode = given[0], getattr(given[0], "mode", None)
        watches = mode if mode in ("min", "max") else ""
        said = ScheduleAct(type=type(schedule).__name__, mode=watches)
        act = acts.note(said, frame, of=self._of(schedule.optimizer))
        for factor in {id(each): each for each in getattr(schedule, "lr_lambdas", ())}.values():
            _factor(acts, factor, act)

    def _schedule_stepped(
        self, acts: ActNotes, frame: FrameType, _: Any, given: tuple[Any, ...], more: Any
    ) -> None:
        schedule = given[0]
        watched = asked(given, more, 1, "metrics") if hasattr(schedule, "mode_worse") else None
        metric = math.nan if watched is None else _read_number(watched)
        groups = schedule.optimizer.param_groups
        lr = tuple([setting(group.get("lr")) for group in groups])
        name, watches = type(schedule).__name__, watched is not None
        act = ScheduleStepAct(lr=lr, type=name, watched=watches, metric=metric)
        acts.note(act, frame, of=self._of(schedule.optimizer))

    def _unscaled(
        self, acts: ActNotes, frame: FrameType, _: Any, given: tuple[Any, ...], more: Any
    ) -> None:
        acts.note(UnscaleAct(), frame, of=self._of(asked(given, more, 1, "optimizer")))

    def _scaled_step(
        self, acts: ActNotes, frame: FrameType, result: Any, given: tuple[Any, ...], more: Any
    ) -> None:
        steps_before, _ = result
        if given[0].is_enabled():
            of, skipped = self._of(asked(given, more, 1, "optimizer")), self._steps == steps_before
            acts.note(ScaledStepAct(skipped=skipped), frame, of=of)

    def _steps_so_far(self, _given: tuple[Any, ...], _more: dict[str, Any]) -> int:
        return self._steps


def _factor(acts: ActNotes, factor: Any, schedule: int) -> None:
    """Record the user's function that returns the factor of a scheduler."""
    own = written(factor)
    if own is None or is_installed(own.__code__.co_filename):
        return
    code, stack = own.__code__, NONE
    for line in reversed(lines_that_return(code)):
        stack = acts.session.sites.of_line(code.co_filename, line, code.co_qualname, stack)
    if stack != NONE:
        name = code.co_name
        acts.note(StatementAct(what="factor", name=name), None, of=schedule, stack=stack)


def _scaled(acts: ActNotes, frame: FrameType, _: Any, given: tuple[Any, ...], _more: Any) -> None:
    if given[0].is_enabled():
        acts.note(ScaleAct(), frame)


def _as_built(optimizer: Any, *, before: bool = False) -> OptimizerAct:
    groups = optimizer.param_groups
    return OptimizerAct(
        type=type(optimizer).__name__, before=before,
        lr=tuple(setting(group.get("lr")) for group in groups),
        weight_decay=tuple(setting(group.get("weight_decay")) for group in groups),
        momentum=tuple(setting(group.get("momentum")) for group in groups),
        many=tuple(len(group.get("params", ())) for group in groups),
    )  # fmt: skip


def setting(value: Any) -> float:
    """A setting as a number; tensors are not read, which could make the program wait."""
    return float(value) if isinstance(value, _NUMBERS) else math.nan


_NUMBERS = int, float


def _read_number(value: Any) -> float:
    """The metric that a scheduler has just read itself, so that reading it causes no wait."""
    try:
        return float(value.detach() if hasattr(value, "detach") else value)
    except (TypeError, ValueError, RuntimeError):
        return math.nan
