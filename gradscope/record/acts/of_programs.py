"""Other acts of programs: clipping, checkpoints, seeds, warnings, copies."""

from __future__ import annotations

import copy
import math
import os
import random
import sys
import warnings
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from gradscope.errors import leave_no_frame
from gradscope.record.acts.of_checkpoints import CheckpointActs
from gradscope.record.acts.stand_ins import StandIn, Tell, asked
from gradscope.record.notes.local_names import variables_of
from gradscope.record.notes.sites import caller_of
from gradscope.trace.schema import (
    ClipAct,
    CopiedAct,
    GradOffAct,
    SeedAct,
    WarningAct,
)
from gradscope.watch.in_place.by_identity import attributes, parameters_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

    from gradscope.record.acts.notes import ActNotes
    from gradscope.record.acts.numbers.not_finite import NotFiniteSteps
    from gradscope.record.acts.of_tensors import TensorActs
from gradscope.record.acts.stand_ins import StandIns

CLIPS = {"clip_grad_norm_": "max_norm", "clip_grad_value_": "clip_value"}
"""Clipping functions, and the names of their limits."""

DECORATED = frozenset(("decorate_context", "decorated"))
"""Functions of the engines that run a decorated function with gradients off."""

OF_A_SCALAR = "Converting a tensor with requires_grad=True to a scalar"
"""Beginning of the warning about `float(loss)`, which is shown once."""

LONGEST = 400
"""Largest number of characters stored of a warning."""


class ProgramActs:
    """Replaces the functions that do this."""

    def __init__(
        self, torch: Any, acts: ActNotes, stand_ins: StandIns, tensors: TensorActs
    ) -> None:
        self._not_finite, self._tensors = tensors.not_finite, tensors
        self._torch = torch
        self._acts = acts
        self._stand_ins = stand_ins

    def start(self) -> None:
        self._stand_ins.put(self._functions())
        own = warnings._showwarnmsg_impl  # type: ignore[attr-defined]
        self._stand_ins.replace(warnings, "_showwarnmsg_impl", self._warning(own))
        generator = self._torch.Generator
        kept = StandIn(generator, "set_state", _kept_by("set_state"), before=True)
        before = generator.initial_seed
        seeded = StandIn(
            generator, "manual_seed", _generator_seeded, look=lambda given, _: before(given[0])
        )
        self._stand_ins.put((seeded, kept))

    def _functions(self) -> Iterator[StandIn]:
        torch = self._torch
        for name, most in CLIPS.items():
            clipped = _clipped_by(name, most, self._not_finite)
            yield StandIn(torch.nn.utils, name, clipped, inside=True, look=_module_clipped)
        for name in ("no_grad", "inference_mode", "set_grad_enabled"):
            where = "__init__" if name == "set_grad_enabled" else "__enter__"
            home, never = getattr(torch, name), set[int]()
            yield StandIn(home, where, _off_by(torch, name, never), inside=True, never=never)
        yield from CheckpointActs(torch, self._acts).stand_ins()
        yield StandIn(torch, "manual_seed", _seeded, inside=True)
        yield StandIn(random, "seed", _seeded_of("random"))
        yield StandIn(np.random, "seed", _seeded_of("numpy"))
        yield StandIn(torch, "set_rng_state", _kept_by("set_rng_state"), before=True)
        yield StandIn(torch.random, "fork_rng", _kept_by("fork_rng"), before=True)
        yield StandIn(copy, "deepcopy", self._copied)

    def _copied(
        self, acts: ActNotes, frame: FrameType, _: Any, given: tuple[Any, ...], _m: Any
    ) -> None:
        torch = self._torch
        if given and isinstance(given[0], (torch.nn.Module, torch.optim.Optimizer)):
            acts.note(CopiedAct(what=type(given[0]).__name__), frame)

    def _warning(self, own: Any) -> Any:
        acts, tensors = self._acts, self._tensors

        def show(message: Any) -> Any:
            try:
                if acts.on:
                    acts.guarded(_warned, acts, _below_warnings(sys._getframe(1)), message)
                    if str(message.message).startswith(OF_A_SCALAR):
                        acts.looked(tensors.warned_of_a_scalar)
                return own(message)
            except BaseException as error:
                leave_no_frame(error)
                raise

        return show


def _below_warnings(frame: FrameType | None) -> FrameType | None:
    while frame is not None and frame.f_globals.get("__name__") in ("warnings", "_py_warnings"):
        frame = caller_of(frame)
    return frame


def _warned(acts: ActNotes, frame: FrameType | None, message: Any) -> None:
    text = str(message.message)[:LONGEST]
    acts.note(WarningAct(category=message.category.__name__, text=text), frame)


def _module_clipped(given: tuple[Any, ...], more: dict[str, Any]) -> Any:
    """The module whose parameters a generator yields; it has not started."""
    frame = getattr(asked(given, more, 0, "parameters"), "gi_frame", None)
    found = None if frame is None else variables_of(frame).get("self")
    return found if "_parameters" in attributes(found) else None


def _clipped_by(name: str, limit: str, not_finite: NotFiniteSteps) -> Tell:
    def tell(
        acts: ActNotes, frame: FrameType, result: Any, given: tuple[Any, ...], more: dict[str, Any]
    ) -> None:
        module, norm = result
        leaves, most = asked(given, more, 0, "parameters"), asked(given, more, 1, limit)
        most, found = float(most) if isinstance(most, int | float) else math.nan, math.nan
        if norm is not None and norm.device.type == "cpu":
            found = float(norm.detach())
            if found - found != 0:
                not_finite.read(frame, name, found)
        if module is not None:
            leaves = list(parameters_in(module).values())
        elif hasattr(leaves, "requires_grad"):
            leaves = [leaves]
        told = leaves if isinstance(leaves, list | tuple) else []  # a generator is exhausted
        acts.note(ClipAct(by=name, max=most, norm=found), frame, told, module)

    return tell


def _off_by(torch: Any, name: str, never: set[int]) -> Tell:
    """Record that gradients were switched off, including samples drawn under no_grad.

    Code of the engine that does it itself, as optimizers do at each step, is checked only once.
    """

    def tell(acts: ActNotes, frame: FrameType, _: Any, given: Any, _more: Any) -> None:
        if torch.is_grad_enabled():
            return
        own, code = acts.caller(frame), frame.f_code
        decorated = code.co_name in DECORATED
        if own is None and decorated and frame.f_back is not None:
            own = acts.caller(frame.f_back)
        if own is not None:
            acts.note(GradOffAct(by=name), own)
        elif decorated and _stands_in_the_program(written := _decorated(frame), acts):
            sites = acts.session.sites
            around = sites.of_several(frame.f_back, 1)
            line = written.co_firstlineno
            stack = sites.of_line(written.co_filename, line, written.co_qualname, around)
            acts.note(GradOffAct(by=name), None, stack=stack)
        elif f"{os.sep}distributions{os.sep}" in code.co_filename:
            learned = _was_on(given[0]) and _has_a_path(variables_of(frame).get("self"))
            acts.note(GradOffAct(by=code.co_name, learned=learned), frame)
        elif not decorated:
            never.add(id(code))  # `caller` holds it: no other code gets its id()

    return tell


def _decorated(frame: FrameType) -> CodeType | None:
    """The code of the function that runs with gradients off; its first line is the decorator."""
    held = variables_of(frame)
    function = held.get("func", held.get("function"))
    return getattr(function, "__code__", None)


def _stands_in_the_program(code: CodeType | None, acts: ActNotes) -> TypeGuard[CodeType]:
    return code is not None and not acts.session.sites.is_machinery(code)


def _was_on(mode: Any) -> bool:
    """Whether gradients were on before this `no_grad`, as stored by PyTorch and the runtime."""
    before = getattr(mode, "before", (False,))
    return bool(getattr(mode, "prev", before[0]))


def _has_a_path(distribution: Any) -> bool:
    """Whether a distribution with trainable parameters could draw differentiable samples."""
    if not getattr(distribution, "has_rsample", False):
        return False
    return any(getattr(each, "requires_grad", False) for each in vars(distribution).values())


DYNAMO = "torch/_compile.py", "torch/_dynamo/eval_frame.py"
"""The wrapper that PyTorch's compiler, once imported, puts around `torch.manual_seed`."""


def _seeded(acts: ActNotes, frame: FrameType, _: Any, given: tuple[Any, ...], more: Any) -> None:
    around: FrameType | None = frame
    while around is not None and around.f_code.co_filename.endswith(DYNAMO):
        around = around.f_back
    program = None if around is None else acts.caller(around)
    if program is not None:
        seed = asked(given, more, 0, "seed")
        acts.note(SeedAct(seed=_whole(seed)), program)


NEW_SEED = 67280421310721
"""The seed of a generator that was not seeded: c10::detail's default_rng_seed_val."""


def _whole(seed: Any) -> str:
    return str(int(seed)) if isinstance(seed, int) else ""


def _seeded_of(whose: str) -> Tell:
    def tell(acts: ActNotes, frame: FrameType, _: Any, given: tuple[Any, ...], more: Any) -> None:
        seed = given[0] if given else next(iter(more.values()), None)
        acts.note(SeedAct(seed=_whole(seed), whose=whose), frame)

    return tell


def _generator_seeded(
    acts: ActNotes, frame: FrameType, told: Any, given: tuple[Any, ...], more: Any
) -> None:
    seed, (before, _) = asked(given, more, 1, "seed"), told
    again = before not in (None, NEW_SEED)
    acts.note(SeedAct(seed=_whole(seed), whose="generator", again=again), frame)


def _kept_by(name: str) -> Tell:
    def tell(acts: ActNotes, frame: FrameType, _: Any, _given: Any, _more: Any) -> None:
        acts.note(SeedAct(by=name), frame)

    return tell
