"""Functions of ours in the place of an engine's, which do what those do and tell of it.

# Note [A frame that is not there]
A warning names the line that called the function which warns, or who called that. Python leaves out
its own frames there, which it knows by their file; ours have the name of that file. What warns of
itself in C names the innermost frame, so what does (`torch.tensor`, `float`) has no stand-in. And
our engine asks frames for the name of what was called.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Container, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

from gradscope.errors import leave_no_frame

if TYPE_CHECKING:
    from types import FrameType

    from gradscope.record.acts.notes import Acts


class StandInProperty(property):
    """A property of ours in the place of an engine's."""

    stands_for: Any


Tell = Callable[["Acts", "FrameType", Any, tuple[Any, ...], dict[str, Any]], object]
"""Notes an act: on which frame it was done, what came back, and what was given."""

_ABSENT = object()


class StandIn(NamedTuple):
    """One function of an engine's, and what tells of its calls."""

    home: Any  # a class or module
    name: str
    tell: Tell
    before: bool = False  # tell of it before it is done
    inside: bool = False  # the engine's own calls of it count, too
    never: Container[int] = ()  # but from code with these id()s
    looks: bool = True  # at tensors, when it tells
    look: Callable[[tuple[Any, ...], dict[str, Any]], Any] | None = None
    """What is to be seen before it is done; then `tell` is given that and what came back."""


class StandIns:
    """Those that are there now."""

    def __init__(self, acts: Acts, is_compiling: Callable[[], bool]) -> None:
        self._acts = acts
        self._is_compiling = is_compiling
        self._there: list[tuple[Any, str, Any, Any]] = []  # home, name, what was there, ours

    def put(self, all_: Iterable[StandIn]) -> None:
        """Put them in place of those functions."""
        for each in all_:
            own = getattr(each.home, each.name, None)
            if own is not None:
                self.replace(each.home, each.name, self._told(own, each))

    def replace(self, home: Any, name: str, ours: Any) -> None:
        """Put one thing there, until `take_back`."""
        own = vars(home).get(name, _ABSENT)
        self._acts.look.stands_for(own, ours)
        _put(home, name, ours)
        self._there.append((home, name, own, ours))

    def take_back(self) -> None:
        """All is as it was, but what others have replaced since."""
        for each in reversed(self._there):
            self._take_back(*each)
        self._there.clear()

    def leave(self, home: Any, name: str) -> None:
        """The same of one thing, before that."""
        for each in [each for each in self._there if each[:2] == (home, name)]:
            self._there.remove(each)
            self._take_back(*each)

    def _take_back(self, home: Any, name: str, own: Any, ours: Any) -> None:
        self._acts.look.stands_for(None, ours)
        if vars(home).get(name) is not ours:
            return
        if own is _ABSENT:
            delattr(home, name)
        else:
            _put(home, name, own)

    def _told(self, own: Any, stand_in: StandIn) -> Any:
        acts, is_compiling, getframe = self._acts, self._is_compiling, sys._getframe
        tell, inside, before = stand_in.tell, stand_in.inside, stand_in.before
        never, look = stand_in.never, stand_in.look
        guarded = acts.guarded if stand_in.looks else acts.tried

        @wraps(own)
        def call(*given: Any, **more: Any) -> Any:
            if not acts.on or is_compiling():
                return own(*given, **more)
            calls = getframe(1)
            frame = calls if inside else acts.caller(calls)
            if frame is None or id(calls.f_code) in never:
                return own(*given, **more)
            if before:
                guarded(tell, acts, frame, None, given, more)
                return own(*given, **more)
            seen = None if look is None else look(given, more)
            try:
                result = own(*given, **more)
            except BaseException as error:
                leave_no_frame(error)
                raise
            told = result if look is None else (seen, result)
            guarded(tell, acts, frame, told, given, more)
            return result

        call.stands_for = own  # type: ignore[attr-defined]
        return as_if_not_there(call, stand_in.name)

    def put_property(
        self,
        home: Any,
        name: str,
        *,
        on_set: Callable[[Any, Any, FrameType], object],
        on_get: Callable[[Any, FrameType], object] | None = None,
    ) -> None:
        """The same of a property's setter, and its getter, if that is asked for."""
        own = next(vars(each)[name] for each in home.__mro__ if name in vars(each))
        acts, getframe, get, put = self._acts, sys._getframe, own.__get__, own.__set__
        engines = acts.session.sites.engines

        def fget(self_: Any) -> Any:
            frame = acts.caller(getframe(1)) if acts.on else None
            if on_get is not None and frame is not None:
                acts.guarded(on_get, self_, frame)
            return get(self_)

        def fset(self_: Any, value: Any) -> None:
            calls = getframe(1)
            if acts.on and id(calls.f_code) not in engines:
                frame = acts.caller(calls)
                if frame is not None:
                    acts.guarded(on_set, self_, value, frame)
            put(self_, value)

        def fdel(self_: Any) -> None:
            frame = acts.caller(getframe(1)) if acts.on else None
            if frame is not None:
                acts.guarded(on_set, self_, None, frame)
            own.__delete__(self_)

        fget, fset, fdel = (as_if_not_there(each, name) for each in (fget, fset, fdel))
        read = get if on_get is None else fget  # a getter that is C costs what it did
        ours = StandInProperty(read, fset, fdel, own.__doc__)
        ours.stands_for = own
        self.replace(home, name, ours)


def _put(home: Any, name: str, value: Any) -> None:
    """Put something there, also into a class that is written in C, which refuses it."""
    try:
        setattr(home, name, value)
    except TypeError:
        spaces = gc.get_referents(vars(home))  # what a class shows of its names is a proxy
        space = next((each for each in spaces if type(each) is dict and name in each), None)
        if space is None:
            raise
        space[name] = value
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(home))


def as_if_not_there(function: Any, name: str) -> Any:
    """The same function: Note [A frame that is not there]."""
    function.__code__ = function.__code__.replace(
        co_name=name, co_filename="<frozen importlib._bootstrap>"
    )
    return function


def asked(
    given: tuple[Any, ...], more: dict[str, Any], place: int, name: str, otherwise: Any = None
) -> Any:
    """What a call was given for one of its parameters."""
    return given[place] if len(given) > place else more.get(name, otherwise)
