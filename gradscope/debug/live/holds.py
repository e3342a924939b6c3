"""Decides whether a breakpoint stops a running program at a place.

Most kinds are decided from the place itself. For others (`finding`, `hook`, how long a node
waited) the trace so far is checked from time to time.
"""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from gradscope.analysis.state.breakpoints.conditions import COMPARED
from gradscope.analysis.state.breakpoints.kinds import KINDS
from gradscope.analysis.state.breakpoints.language import Breakpoint, is_line
from gradscope.analysis.state.breakpoints.names import is_pattern
from gradscope.debug.live.numbers import STATISTICS
from gradscope.errors import UsageError
from gradscope.record.notes.local_names import names_of
from gradscope.trace.schema.declare import EVENTS

if TYPE_CHECKING:
    from gradscope.debug.live.numbers import LiveNumbers
    from gradscope.record.stops.stop_places import StopPlace

LEAF = "AccumulateGrad"
FORWARD = ("called", "raised", "backward")
"""Kinds of places in the program itself."""
HOOKS = ("hook", "hook after")


class StopConditions:
    """Decides at which places breakpoints stop."""

    def __init__(self, numbers: LiveNumbers) -> None:
        self._numbers = numbers
        self._kinds: dict[str, Callable[[StopPlace, str], bool]] = {
            "node": self._node, "op": self._op, "module": self._module, "line": self._line,
            "grad": self._grad, "write": self._write, "error": self._error,
            "nan": self._nan, "inf": self._inf, "backward": self._backward, "hook": self._hook,
        }  # fmt: skip

    def is_known_here(self, wanted: Breakpoint) -> bool:
        """Whether a place decides it; raises an error for invalid breakpoints."""
        if wanted.kind in self._kinds or self._is_name(wanted):
            return all(each.field in STATISTICS for each in wanted.conditions)
        return False

    def _is_name(self, wanted: Breakpoint) -> bool:
        if wanted.kind in KINDS or wanted.kind in EVENTS:
            return False
        if wanted.wanted:
            raise UsageError(f"there is no kind of breakpoint called {wanted.kind!r}")
        return True

    def at(self, place: StopPlace, wanted: Breakpoint) -> bool:
        """Whether it stops there, as far as the place decides that."""
        if wanted.kind in self._kinds:
            if not self._kinds[wanted.kind](place, wanted.wanted):
                return False
        elif not self._node(place, wanted.kind):
            return False
        return all(
            any(COMPARED[each.comparison](value, each.value)
                for value in self._numbers.statistic(each.field, place))
            for each in wanted.conditions
        )  # fmt: skip

    # -- kinds ----------------------------------------------------------------------------------

    def _node(self, place: StopPlace, wanted: str) -> bool:
        if place.kind != "begins":
            return False
        name = short(place.name)
        if not wanted or fnmatchcase(name, wanted.partition("#")[0]):
            return True
        if is_line(wanted):
            return self._line(place, wanted)
        if name == LEAF and self._is_called(place.node.variable, wanted, place):
            return True
        return not is_pattern(wanted) and place.module != "" and _inside(place.module, wanted)

    def _op(self, place: StopPlace, wanted: str) -> bool:
        if place.kind not in ("called", "raised"):
            return False
        plain = wanted.partition(".")[0]
        return not wanted or any(fnmatchcase(each, plain) for each in place.calls)

    def _module(self, place: StopPlace, wanted: str) -> bool:
        if place.kind not in ("called", "begins") or not place.module:
            return False
        return not wanted or _inside(place.module, wanted)

    def _line(self, place: StopPlace, wanted: str) -> bool:
        """In the forward pass any frame may match, since a line may call other code."""
        if place.kind in FORWARD:
            return any(is_at(line, wanted) for line in place.lines)
        return place.kind == "begins" and is_at(place.line, wanted)

    def _grad(self, place: StopPlace, wanted: str) -> bool:
        if place.kind != "ran" or short(place.name) != LEAF:
            return False
        return not wanted or self._is_called(place.node.variable, wanted, place)

    def _write(self, place: StopPlace, wanted: str) -> bool:
        return any(not wanted or self._is_called(each, wanted, place) for each in place.wrote)

    def _error(self, place: StopPlace, _: str) -> bool:
        return place.kind == "raised"

    def _nan(self, place: StopPlace, _: str) -> bool:
        return self._numbers.is_born("nan", place)

    def _inf(self, place: StopPlace, _: str) -> bool:
        return self._numbers.is_born("inf", place)

    def _hook(self, place: StopPlace, wanted: str) -> bool:
        names = place.name, place.name.rpartition(".")[2]
        return place.kind in HOOKS and (
            not wanted or any(fnmatchcase(name, wanted) for name in names)
        )

    def _backward(self, place: StopPlace, _: str) -> bool:
        return place.kind == "backward"

    def _is_called(self, tensor: Any, wanted: str, place: StopPlace) -> bool:
        names = names_of(tensor, place.frame)
        return any(fnmatchcase(name, wanted) for name in names)


def short(name: str) -> str:
    """A node's name without its namespace, as in `torch::autograd::AccumulateGrad`."""
    return name.rpartition("::")[2]


def is_at(line: str, wanted: str) -> bool:
    """Whether a line, `/x/train.py:41`, is the one that `train.py:41` means."""
    return f"/{line.lstrip('/')}".endswith(f"/{wanted.lstrip('/')}")


def _inside(module: str, wanted: str) -> bool:
    inner = wanted if is_pattern(wanted) else f"{wanted}.*"
    return fnmatchcase(module, wanted) or fnmatchcase(module, inner)
