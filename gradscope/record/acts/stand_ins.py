"""Replaces functions of an engine by functions that call the original and report it.

# Note [A frame that is not there]
A warning names the line that called the warning function, or the caller of that. Python skips its
own frames there, which it recognizes by their file; ours have the name of that file. Functions that
warn in C name the innermost frame, so these (`torch.tensor`, `float`) have no stand-in. And our
engine reads the names of called functions from frames.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from gradscope.errors import leave_no_frame
from gradscope.watch.in_place.standing_in import HERE, Replaced, attribute, called, hidden, raw

if TYPE_CHECKING:
    from types import FrameType

    from gradscope.record.acts.notes import ActNotes


Tell = Callable[["ActNotes", "FrameType", Any, tuple[Any, ...], dict[str, Any]], object]
"""Records an act: the frame it was done on, the result, and the arguments."""

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
"""The arguments of a call, by place and by name."""


class StandIn(NamedTuple):
    """One function of an engine, and the function that records its calls."""

    home: Any  # a class or module
    name: str
    tell: Tell
    before: bool = False  # record it before the call
    inside: bool = False  # also record the engine's own calls of it
    never: Container[int] = ()  # but from code with these id()s
    looks: bool = True  # `tell` reads tensors
    look: Callable[[tuple[Any, ...], dict[str, Any]], Any] | None = None
    """Called before the call; its result is passed to `tell`, with that of the call."""
    gives: Callable[[Any, tuple[Any, ...], dict[str, Any]], Arguments] | None = None
    """Called with the result of `look` and the arguments; returns those to call with."""


class StandIns:
    """The stand-ins that are installed."""

    def __init__(self, acts: ActNotes, is_compiling: Callable[[], bool]) -> None:
        self._acts = acts
        self._is_compiling = is_compiling
        self._replaced = Replaced(acts.look.stands_for)

    def put(self, all_: Iterable[StandIn]) -> None:
        """Install stand-ins for these functions."""
        for each in all_:
            own = called(each.home, each.name)
            if own is not None:
                self.replace(each.home, each.name, self._told(own, each))

    def replace(self, home: Any, name: str, ours: Any) -> None:
        """Install a function that is called instead, until `take_back`."""
        self._replaced.put(home, name, ours)

    def take_back(self) -> None:
        """Restore all originals, except those that others have replaced since."""
        self._replaced.take_back()

    def pause(self) -> None:
        """Restore all originals until `resume`."""
        self._replaced.set_aside()

    def resume(self) -> None:
        """Install all of them again."""
        self._replaced.put_again()

    def leave(self, home: Any, name: str) -> None:
        """Restore a single original."""
        self._replaced.leave(home, name)

    def _told(self, own: Any, stand_in: StandIn) -> Any:
        acts, is_compiling, getframe = self._acts, self._is_compiling, sys._getframe
        tell, inside, before = stand_in.tell, stand_in.inside, stand_in.before
        never, look, gives = stand_in.never, stand_in.look, stand_in.gives
        guarded = acts.guarded if stand_in.looks else acts.looked

        def call(*given: Any, **more: Any) -> Any:
            if is_compiling():
                return own(*given, **more)
            try:
                if HERE.ours or not acts.on:
                    return own(*given, **more)
                calls = getframe(1)
                frame = calls if inside else acts.caller(calls)
                if frame is None or id(calls.f_code) in never:
                    return own(*given, **more)
                if before:
                    guarded(tell, acts, frame, None, given, more)
                    return own(*given, **more)
                seen = None if look is None else acts.looked(look, given, more)
                by_place, by_name = given, more
                if gives is not None:
                    by_place, by_name = acts.looked(gives, seen, given, more) or (given, more)
                result = own(*by_place, **by_name)
                told = result if look is None else (seen, result)
                guarded(tell, acts, frame, told, given, more)
            except BaseException as error:
                leave_no_frame(error)
                raise
            else:
                return result

        return hidden(call, stand_in.name)

    def put_property(
        self,
        home: Any,
        name: str,
        *,
        on_set: Callable[[Any, Any, FrameType], object],
        on_get: Callable[[Any, FrameType], object] | None = None,
    ) -> None:
        """Install a stand-in for the setter of a property, and for its getter if requested."""
        own, acts, getframe = raw(home, name), self._acts, sys._getframe
        engines = acts.session.sites.engines

        def fget(_: Any, self_: Any, kind: Any = None) -> Any:
            try:
                frame = None
                if self_ is not None and acts.on and not HERE.ours:
                    frame = acts.caller(getframe(1))
                if on_get is not None and frame is not None:
                    acts.guarded(on_get, self_, frame)
                return own.__get__(self_, kind)
            except BaseException as error:
                leave_no_frame(error)
                raise

        def fset(_: Any, self_: Any, value: Any) -> None:
            try:
                calls = getframe(1)
                if acts.on and not HERE.ours and id(calls.f_code) not in engines:
                    frame = acts.caller(calls)
                    if frame is not None:
                        acts.guarded(on_set, self_, value, frame)
                own.__set__(self_, value)
            except BaseException as error:
                leave_no_frame(error)
                raise

        def fdel(_: Any, self_: Any) -> None:
            try:
                frame = acts.caller(getframe(1)) if acts.on and not HERE.ours else None
                if frame is not None:
                    acts.guarded(on_set, self_, None, frame)
                own.__delete__(self_)
            except BaseException as error:
                leave_no_frame(error)
                raise

        get, put, delete = (hidden(each, name) for each in (fget, fset, fdel))
        # A getter written in C has no additional cost.
        ours = attribute(own, put, delete, None if on_get is None else get)
        self._replaced.put_as_it_is(home, name, ours)


def asked(
    given: tuple[Any, ...], more: dict[str, Any], place: int, name: str, otherwise: Any = None
) -> Any:
    """The argument of a call for one of its parameters."""
    return given[place] if len(given) > place else more.get(name, otherwise)
