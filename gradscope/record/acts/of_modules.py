"""Acts on modules: modes, assignments, loaded states and hooks."""

from __future__ import annotations

import sys
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any

from gradscope.errors import leave_no_frame
from gradscope.record.acts.notes import FRAMES
from gradscope.record.acts.numbers.first_state import state_of
from gradscope.record.acts.of_tensors import behind
from gradscope.record.acts.stand_ins import StandIn, StandIns, Tell, asked
from gradscope.record.notes.local_names import is_leaf, variables_of
from gradscope.record.notes.user_functions import name_of
from gradscope.trace.schema import (
    NONE,
    AssignedAct,
    BuiltAct,
    HookAct,
    LoadedAct,
    MadeAct,
    RanAct,
    RequiresGradAct,
    SharedAct,
    TrainAct,
    ZeroGradAct,
)
from gradscope.watch.in_place.by_identity import (
    ByIdentity,
    attributes,
    held_in,
    is_a,
    modules_in,
    parameters_in,
    registered,
)
from gradscope.watch.in_place.standing_in import HERE, hidden

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from gradscope.record.acts.notes import ActNotes

HOOKS = (
    "register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook",
    "register_full_backward_pre_hook", "register_backward_hook",
)  # fmt: skip
HOOKS_OF_OPTIMIZERS = ("register_step_pre_hook", "register_step_post_hook")
HOOKS_OF_TENSORS = ("register_hook", "register_post_accumulate_grad_hook")
LISTS = {
    "register_forward_hook": "_forward_hooks",
    "register_forward_pre_hook": "_forward_pre_hooks",
    "register_full_backward_hook": "_backward_hooks",
    "register_full_backward_pre_hook": "_backward_pre_hooks",
    "register_backward_hook": "_backward_hooks",
    "register_hook": "_backward_hooks",
    "register_post_accumulate_grad_hook": "_post_accumulate_grad_hooks",
}
"""Attributes with registered parameters, buffers and modules."""


FLAGS = frozenset(("requires_grad", "training"))
"""Attributes that programs set on a module when they mean all its submodules."""

LOOKS = 2
"""Number of calls of models after each backward and step whose caller is recorded."""

MOST_LEFT = 20

SATURATE = frozenset(("Sigmoid", "Tanh", "Hardsigmoid", "Softsign", "LogSigmoid"))
"""Modules that can make gradients small: the line that creates them is recorded."""


class ModuleActs:
    """Replaces methods that programs call on modules, and assignments to their attributes."""

    def __init__(
        self, torch: Any, acts: ActNotes, stand_ins: StandIns, loaded: Callable[..., None]
    ) -> None:
        self._torch = torch
        self._acts = acts
        self._stand_ins = stand_ins
        self._also_loaded = loaded
        self._containers: ByIdentity[dict[str, int]] = ByIdentity()
        self._met: ByIdentity[bool] = ByIdentity()
        self._own_names = frozenset(vars(torch.nn.Module()))
        self._is_grad_enabled = torch.is_grad_enabled
        self._site = acts.session.sites.of
        self._ran: tuple[set[int], ...] = (set(), set(), set(), set())
        self._outermost: set[int] = set()  # modules that are not called by another
        self._called_from: set[tuple[int, int, int]] = set()
        self.looks = LOOKS

    def start(self) -> None:
        module = self._torch.nn.Module
        self._stand_ins.put(self._methods(module))
        self._stand_ins.replace(module, "__setattr__", self._assigning(module.__setattr__))

    def called(self, module: Any, number: int) -> None:
        """Called for each call of a module; records new modes and, for a model, new callers."""
        if not self._acts.on:
            return
        how = 2 * self._is_grad_enabled() + bool(attributes(module).get("training", True))
        if number not in self._ran[how]:
            self._ran[how].add(number)
            if not self._acts.is_inside():
                self._outermost.add(number)
                self._called_from.add((number, how, self._site(sys._getframe(1))))
            self._tell_of_run(sys._getframe(1), module, how)
        elif number in self._outermost and self.looks > 0:
            self.looks -= 1
            key = number, how, self._site(sys._getframe(1))
            if key not in self._called_from:
                self._called_from.add(key)
                self._tell_of_run(sys._getframe(1), module, how)

    def _tell_of_run(self, frame: FrameType, module: Any, how: int) -> None:
        found = self._acts.looked(state_of, module, self._acts.look.memory)
        act = RanAct(grad=how >= 2, training=bool(how & 1), found=found or "")
        self._acts.note(act, frame, module=module)

    def _methods(self, module: Any) -> Iterator[StandIn]:
        yield StandIn(module, "__init__", _made, before=True, inside=True)
        for name in ("ModuleList", "Sequential"):
            yield StandIn(getattr(self._torch.nn, name), "__init__", _filled)
        yield StandIn(module, "train", _trained)
        yield StandIn(module, "eval", _trained)
        yield StandIn(module, "zero_grad", _zeroed)
        yield StandIn(module, "requires_grad_", _needs_set)
        yield StandIn(module, "load_state_dict", self._loaded)
        yield from (StandIn(module, name, _hooked_by(name), before=True) for name in HOOKS)
        tensor = self._torch.Tensor
        for name in HOOKS_OF_TENSORS:
            yield StandIn(tensor, name, _hooked_by(name), before=True)
        yield from self._other_hooks()

    def _other_hooks(self) -> Iterator[StandIn]:
        """Stand-ins for hooks of optimizers, of nodes, and of saved tensors."""
        torch = self._torch
        for name in HOOKS_OF_OPTIMIZERS:
            yield StandIn(torch.optim.Optimizer, name, _hooked_as(name, -1), before=True)
        for home, name in self._acts.look.hooks_nodes:
            yield StandIn(home, name, _hooked_as("node", -1), before=True)
        packing = torch.autograd.graph.saved_tensors_hooks
        yield StandIn(packing, "__init__", _hooks_saved, before=True)

    def _assigning(self, own: Any) -> Any:
        acts, getframe, kinds = self._acts, sys._getframe, self._kinds()

        def __setattr__(self_: Any, name: str, value: Any) -> None:  # noqa: N807
            try:
                if not acts.on or HERE.ours:
                    own(self_, name, value)
                    return
                if is_a(value, kinds):
                    calls = getframe(1)
                    if calls.f_code.co_name == "__setitem__" and calls.f_back is not None:
                        calls = calls.f_back  # of a container's item
                    frame = acts.caller(calls)
                    if frame is not None:
                        acts.guarded(self._assigned, self_, name, value, frame)
                elif name in FLAGS:  # set on a module, not on its submodules
                    frame = acts.caller(getframe(1))
                    if frame is not None and variables_of(frame).get("self") is not self_:
                        acts.guarded(_flag_set, acts, frame, self_, name, value)
                own(self_, name, value)
            except BaseException as error:
                leave_no_frame(error)
                raise

        return hidden(__setattr__, "__setattr__")

    def _loaded(
        self,
        acts: ActNotes,
        frame: FrameType,
        result: Any,
        given: tuple[Any, ...],
        more: dict[str, Any],
    ) -> None:
        names = asked(given, more, 1, "state_dict", {})
        strict = asked(given, more, 2, "strict", True)
        missing, unexpected = list(result.missing_keys), list(result.unexpected_keys)
        act = LoadedAct(
            strict=bool(strict), missing=tuple(missing[:8]), unexpected=tuple(unexpected[:8]),
            many=len(names) - len(unexpected),
        )  # fmt: skip
        acts.note(act, frame, module=given[0])
        self._also_loaded(frame, given[0], names)

    def _kinds(self) -> tuple[type, ...]:
        return self._torch.Tensor, self._torch.nn.Module, list, tuple, dict

    def _assigned(self, module: Any, name: str, value: Any, frame: FrameType) -> None:
        """Record the assignment of a parameter, buffer, module, tensor or container of these."""
        parameter, tensor = self._torch.nn.Parameter, self._torch.Tensor
        if is_a(value, (list, tuple, dict)):
            stack = self._acts.session.sites.of_several(frame, FRAMES)
            stacks = self._containers.get(module) or {}
            self._containers[module] = {**stacks, name: stack}  # it may be filled later
            return
        before = [registered(module, kind).get(name) for kind in ("_parameters", "_modules")]
        replaced = any(each is not None and each is not value for each in before)
        within = type(module).__name__
        if isinstance(value, tensor) and not isinstance(value, parameter):
            is_buffer = name in registered(module, "_buffers")
            if value.requires_grad and not is_buffer:
                leaves = [value] if is_leaf(value) else self._made_of(value)
                act = AssignedAct(name=name, what="tensor", within=within, leaf=is_leaf(value))
                self._acts.note(act, frame, leaves)
            elif is_buffer:
                stack = self._acts.session.sites.of_several(frame, FRAMES)
                if not self._acts.is_too_many(AssignedAct, stack):
                    act = AssignedAct(name=name, what="buffer", within=within, leaf=is_leaf(value))
                    self._acts.note(act, None, stack=stack)
        elif replaced or isinstance(value, parameter):
            what = "parameter" if isinstance(value, parameter) else "module"
            act = AssignedAct(name=name, what=what, within=within, replaced=replaced)
            self._acts.note(act, frame, self._parameters([value]))

    def _made_of(self, tensor: Any) -> list[Any]:
        """The parameters from which a tensor was computed outside of forwards."""
        if self._acts.is_inside():
            return []
        leaves, _ = behind([tensor])
        return [each for each in leaves if isinstance(each, self._torch.nn.Parameter)]

    def met(self, module: Any) -> None:
        """At the first call of a module: record what it holds without being registered."""
        if not self._acts.on:
            return
        self._met[module] = True
        stacks = self._containers.get(module) or {}
        for name, value in list(attributes(module).items()):
            if is_a(value, (list, tuple, dict)) and name not in self._own_names:
                found = self._unregistered(module, self._held(value))
                if found:
                    what = f"{type(value).__name__} of {_types(found)}"
                    self._acts.note(
                        AssignedAct(name=name, what=what, within=type(module).__name__), None,
                        self._parameters(found), module, stack=stacks.get(name, NONE),
                    )  # fmt: skip

    def ending(self) -> None:
        """Check modules that were never called, because programs call another method."""
        for module in self._containers.alive():
            if module not in self._met:
                self.met(module)

    def _unregistered(self, module: Any, found: list[Any]) -> list[Any]:
        """The modules whose parameters are not among the parameters of this module."""
        own = set(map(id, parameters_in(module).values()))
        return [
            each for each in found if any(id(one) not in own for one in self._parameters([each]))
        ]

    def _held(self, container: Any) -> list[Any]:
        """The parameters, or objects with parameters, that this object holds."""
        return [each for each in held_in(container)[:64] if self._asks(each)]

    def _asks(self, value: Any) -> bool:
        if is_a(value, self._torch.nn.Module):
            return True
        return is_a(value, self._torch.Tensor) and is_leaf(value) and value.requires_grad

    def _parameters(self, values: list[Any]) -> list[Any]:
        found: dict[int, Any] = {}
        for each in values:
            is_module = is_a(each, self._torch.nn.Module)
            several = parameters_in(each).values() if is_module else [each]
            found.update((id(one), one) for one in several)
        return list(found.values())


def _flag_set(acts: ActNotes, frame: FrameType, module: Any, name: str, value: Any) -> None:
    within = type(module).__name__
    left: list[str] = []
    if name == "training":
        others = [each for _, each in modules_in(module) if each is not module]
        left = sorted(
            {
                type(each).__name__
                for each in others
                if attributes(each).get("training") is not bool(value)
            }
        )
    act = AssignedAct(
        name=name, what="flag", within=within, to=float(bool(value)), left=tuple(left[:MOST_LEFT])
    )
    acts.note(act, frame, module=module)


def _types(values: list[Any]) -> str:
    return ", ".join(sorted({type(each).__name__ for each in values}))


def _made(acts: ActNotes, frame: FrameType, _: Any, given: tuple[Any, ...], _more: Any) -> None:
    kind = type(given[0]).__name__
    if acts.is_inside():
        acts.note(MadeAct(type=kind), frame, module=given[0])
    elif kind in SATURATE:
        acts.note(BuiltAct(type=kind), frame, module=given[0])


def _filled(acts: ActNotes, frame: FrameType, _: Any, given: tuple[Any, ...], _more: Any) -> None:
    """At the creation of a container: record if it contains a module more than once."""
    parts = list(registered(given[0], "_modules").values())
    if len(parts) == len({id(each) for each in parts}):
        return
    for part in {id(each): each for each in parts}.values():
        many = sum(each is part for each in parts)
        if many > 1 and parameters_in(part):
            within = type(given[0]).__name__
            act = SharedAct(within=within, type=type(part).__name__, many=many)
            acts.note(act, frame, module=part)


def _trained(acts: ActNotes, frame: FrameType, result: Any, _given: Any, _more: Any) -> None:
    training = bool(attributes(result).get("training"))
    acts.note(TrainAct(to=training), frame, module=result)
    if acts.kept is not None:
        acts.kept.mode_set(frame, training=training)


def _zeroed(
    acts: ActNotes, frame: FrameType, _result: Any, given: tuple[Any, ...], more: dict[str, Any]
) -> None:
    to_none = asked(given, more, 1, "set_to_none", True)
    module = given[0]
    leaves = list(parameters_in(module).values())
    acts.note(ZeroGradAct(set_to_none=bool(to_none)), frame, leaves, module)


def _needs_set(
    acts: ActNotes, frame: FrameType, result: Any, given: tuple[Any, ...], more: Any
) -> None:
    to = asked(given, more, 1, "requires_grad", True)
    leaves = list(parameters_in(result).values())
    acts.note(RequiresGradAct(to=bool(to)), frame, leaves, result)


def _holds(hook: Any, tensor: Any) -> bool:
    """Whether a hook refers to the tensor whose graph holds the hook."""
    if is_leaf(tensor) or not isinstance(hook, FunctionType):
        return False
    cells = [cell for cell in hook.__closure__ or () if cell != CellType()]
    held = [*(cell.cell_contents for cell in cells), *(hook.__defaults__ or ())]
    return any(each is tensor for each in held)


def _hooked_by(name: str) -> Tell:
    def tell(
        acts: ActNotes, frame: FrameType, _: Any, given: tuple[Any, ...], more: dict[str, Any]
    ) -> None:
        attended, hook = given[0], asked(given, more, 1, "hook")
        is_tensor = name in HOOKS_OF_TENSORS
        tensors = [attended] if is_tensor and is_leaf(attended) else []
        hooks: Any = attributes(attended).get(LISTS[name])
        if is_tensor:
            hooks = getattr(attended, LISTS[name], None)
        many = len(hooks or ())
        module = None if is_tensor else attended
        holds = is_tensor and _holds(hook, attended)
        act = HookAct(by=name, hook=name_of(hook), many=many, holds=holds)
        acts.note(act, frame, tensors, module)

    return tell


def _hooked_as(by: str, place: int) -> Tell:
    """Record hooks whose owner is no leaf or module; `place`: index of the function argument."""

    def tell(
        acts: ActNotes, frame: FrameType, _: Any, given: tuple[Any, ...], more: dict[str, Any]
    ) -> None:
        hook = given[place] if len(given) > 1 else more.get("hook", more.get("fn"))
        of = acts.of(given[0]) if by in HOOKS_OF_OPTIMIZERS else NONE
        acts.note(HookAct(by=by, hook=name_of(hook)), frame, of=of)

    return tell


def _hooks_saved(
    acts: ActNotes, frame: FrameType, _: Any, given: tuple[Any, ...], more: dict[str, Any]
) -> None:
    for place, name in ((1, "pack_hook"), (2, "unpack_hook")):
        hook = name_of(asked(given, more, place, name))
        acts.note(HookAct(by=f"saved_tensors_hooks, {name}", hook=hook), frame)
