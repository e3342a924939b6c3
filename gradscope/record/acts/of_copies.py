"""Detects intended copies of weights that share their memory: averages, saved states."""

from __future__ import annotations

import linecache
import sys
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import ref

from gradscope.errors import leave_no_frame
from gradscope.record.acts.notes import leaves_of
from gradscope.record.acts.source.source_lines import (
    Stored,
    line_that_equates,
    lines_that_store,
    loaded_from,
    written_to,
)
from gradscope.record.acts.stand_ins import StandIn
from gradscope.trace.schema import (
    NONE,
    AddedToItselfAct,
    LoadedItselfAct,
    StatementAct,
    StateTakenAct,
)
from gradscope.watch.in_place.by_identity import parameters_in
from gradscope.watch.in_place.standing_in import HERE, hidden

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from gradscope.record.acts.notes import ActNotes
    from gradscope.record.acts.stand_ins import StandIns

ADDS = ("add_", "lerp_")
"""Methods that update averages of weights."""

LOOKED_AT = 20_000
"""Number of calls of each method that are checked."""

HOPS = 3
"""Number of names that are followed to find where a tensor was stored."""


class CopyActs:
    """Replaces the functions that add to a tensor in place or return a state dict."""

    def __init__(self, torch: Any, acts: ActNotes, stand_ins: StandIns) -> None:
        self._torch = torch
        self._acts = acts
        self._stand_ins = stand_ins
        self._plain = (torch.Tensor, torch.nn.Parameter)
        self._leaves: dict[int, ref[Any]] = {}  # of optimizers, by address
        self._of_optimizers = 0
        self._stored: dict[int, int] = {}  # acts of the statement that stored it, by line
        self._taken: dict[int, tuple[ref[Any], int]] = {}  # tensors of states, by id()

    def start(self) -> None:
        tensor = self._torch.Tensor
        taken = StandIn(self._torch.nn.Module, "state_dict", self._state_taken)
        self._stand_ins.put([taken])
        for name in ADDS:
            self._stand_ins.replace(tensor, name, self._adding(getattr(tensor, name), name))

    # -- averages ---------------------------------------------------------------------------------

    def _adding(self, own: Any, name: str) -> Any:
        """A method that first checks whether a tensor is added to itself.

        This takes half a microsecond, so the original method is restored after some calls.
        """
        acts, plain, getframe = self._acts, self._plain, sys._getframe
        is_compiling, tell = self._torch.compiler.is_compiling, self._added
        calls, sites = count(), acts.session.sites
        engines = sites.engines

        def add(self_: Any, *given: Any, **more: Any) -> Any:
            try:
                if next(calls) == LOOKED_AT:
                    self._stand_ins.leave(self._torch.Tensor, name)
                if HERE.ours:
                    return own(self_, *given, **more)
                frame = getframe(1)
                if id(frame.f_code) in engines or sites.is_machinery(frame.f_code):
                    return own(self_, *given, **more)
                plainly = acts.on and given and type(given[0]) in plain and type(self_) in plain
                if plainly and not is_compiling() and _is_same(self_, given[0], acts):
                    acts.guarded(tell, frame, name, given[0], more)
                return own(self_, *given, **more)
            except BaseException as error:
                leave_no_frame(error)
                raise

        return hidden(add, name)

    def _added(self, frame: FrameType, name: str, other: Any, more: dict[str, Any]) -> None:
        leaf, alpha = self._leaf_at(self._acts.look.address(other)), more.get("alpha", 1)
        if leaf is not None and leaf.shape == other.shape and isinstance(alpha, int | float):
            of = self._stored_at(frame)
            self._acts.note(AddedToItselfAct(by=name, alpha=alpha), frame, [leaf], of=of)

    def _leaf_at(self, address: int) -> Any:
        optimizers = self._acts.optimizers()
        if address not in self._leaves and self._of_optimizers != len(optimizers):
            self._of_optimizers = len(optimizers)
            leaves = [leaf for each in optimizers for leaf in leaves_of(each)]
            self._leaves = {self._acts.look.address(leaf): ref(leaf) for leaf in leaves}
            self._leaves.pop(0, None)
        found = self._leaves.get(address)
        return None if found is None else found()

    def _stored_at(self, frame: FrameType) -> int:
        """The act of the line that may have stored what this line writes to."""
        address = id(frame.f_code) + frame.f_lasti
        if address not in self._stored:
            self._stored[address] = self._stored_by(frame)
        return self._stored[address]

    def _stored_by(self, frame: FrameType) -> int:
        code, last = frame.f_code, frame.f_lineno
        text = linecache.getline(code.co_filename, last, frame.f_globals)
        stored, line, name = written_to(text), 0, ""
        for _ in range(HOPS):  # `slow = self.slow[name]` leads on
            lines = _stored_in(stored, frame) if stored is not None else []
            lines = [each for each in lines if each not in {line, last}]
            if stored is None or not lines:
                break
            line, name = lines[0], stored.name
            stored = written_to(linecache.getline(code.co_filename, line, frame.f_globals))
        if not line:
            return NONE
        stack = self._acts.session.sites.of_line(code.co_filename, line, "")
        return self._acts.note(StatementAct(what="stored", name=name), None, stack=stack)

    # -- states -----------------------------------------------------------------------------------

    def _state_taken(
        self, acts: ActNotes, frame: FrameType, result: Any, given: tuple[Any, ...], _more: Any
    ) -> None:
        number = acts.note(StateTakenAct(), frame, module=given[0])
        taken = self._taken
        for each in result.values():
            if type(each) in self._plain and id(each) not in taken:
                taken[id(each)] = ref(each, _forgetting(taken, id(each))), number

    def loaded(self, frame: FrameType, module: Any, state: Any) -> None:
        """Called when a module loads a state dict; records if it is its own memory."""
        own = parameters_in(module)
        same = [
            name
            for name, value in state.items()
            if type(value) in self._plain and name in own and _is_same(own[name], value, self._acts)
        ]
        if same:
            _, of = self._taken.get(id(state[same[0]]), (None, NONE))
            leaves = [own[name] for name in same]
            act = self._acts.note(LoadedItselfAct(many=len(own)), frame, leaves, module, of=of)
            self._named_alike(frame, act)

    def _named_alike(self, frame: FrameType, loaded: int) -> None:
        """Record the line that may have given one module two names, for the line that loads.

        `target = net` for `target.load_state_dict(net.state_dict())`.
        """
        code, line = frame.f_code, frame.f_lineno
        names = loaded_from(linecache.getline(code.co_filename, line, frame.f_globals))
        found = 0 if names is None else line_that_equates(*names, code.co_filename)
        if found and names is not None:
            stack = self._acts.session.sites.of_line(code.co_filename, found, "")
            act = StatementAct(what="equated", name=names[0])
            self._acts.note(act, None, stack=stack, of=loaded)


def _forgetting(known: dict[int, Any], key: int) -> Callable[[Any], object]:
    return lambda _: known.pop(key, None)


def _is_same(one: Any, other: Any, acts: ActNotes) -> bool:
    """Whether two tensors share memory."""
    at = acts.look.address
    return one is not other and at(one) == at(other) != 0


def _stored_in(stored: Stored, frame: FrameType) -> list[int]:
    """Lines that assign to this name, in the running function or in its file."""
    code = frame.f_code
    local = not stored.attribute and code.co_name != "<module>"
    lines = lines_that_store(stored, code.co_filename, code) if local else []
    return lines or lines_that_store(stored, code.co_filename, None)
