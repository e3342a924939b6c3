"""Observes which nodes a backward ran, in what order, when and on which threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from gradscope.watch import observer as at
from gradscope.watch.runs.hooked import HookedRunObserver
from gradscope.watch.runs.native import NativeRunObserver
from gradscope.watch.unseen import in_words

if TYPE_CHECKING:
    from gradscope.watch.called.observer import CallObserver
    from gradscope.watch.listener import BackwardRuns

__all__ = ["HookedRunObserver", "NativeRunObserver", "RunObserver", "calls", "run_observer"]


class RunObserver(Protocol):
    """Observes runs. Backwards of a thread nest; each gets the runs that belong to no inner one."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def attend(self, node: Any, number: int) -> None:
        """Called when a traversal has found this node."""

    def begins(self) -> None:
        """Called when a backward begins on this thread."""

    def ends(self, *, failed: bool) -> BackwardRuns:
        """Called when it ended. Returns its runs."""

    def so_far(self, *, running: bool) -> list[BackwardRuns]:
        """The runs so far of this thread's running backwards, innermost first.

        `running`: leave out the last run, whose node is still active.
        """


def run_observer(
    why_not: str = "", around: tuple[int, int] | None = None
) -> tuple[RunObserver, str]:
    """The observer of runs, and why it is not the native one; "": it is.

    `why_not`: why it cannot be native. `around`: other callbacks for it.
    """
    if why_not:
        return HookedRunObserver(), why_not
    try:
        return NativeRunObserver(at.Observer(around)), ""
    except Exception as error:  # noqa: BLE001 -- whatever this build is: hooks serve everywhere
        return HookedRunObserver(), in_words(error)


def calls(
    around: tuple[int, int] | None = None, *, whole: bool = False
) -> tuple[CallObserver | None, str]:
    """The observer of calls, or why there is none; `around`: other callbacks for it.

    `whole`: record all calls, including those that create no node.
    """
    try:
        from gradscope.watch.called.observer import CallObserver  # noqa: PLC0415 -- it compiles

        return CallObserver(all_calls=whole, around=around), ""
    except Exception as error:  # noqa: BLE001 -- as above: then names follow from those of nodes
        return None, in_words(error)
