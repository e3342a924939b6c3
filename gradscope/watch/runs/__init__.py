"""Observes which nodes a backward ran, in what order, when and on which threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from gradscope.watch import observer as at
from gradscope.watch.runs.native import NativeRunObserver
from gradscope.watch.unseen import in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradscope.watch.called.observer import CallObserver
    from gradscope.watch.called.ranks.works import WorkObserver
    from gradscope.watch.listener import BackwardCall, BackwardRuns

__all__ = ["NativeRunObserver", "RunObserver", "calls", "native_runs", "works"]


class RunObserver(Protocol):
    """Observes runs. Backwards of a thread nest; each gets the runs that belong to no inner one."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def begins(self, asked: BackwardCall | None = None) -> None:
        """Called when a backward begins on this thread; None: it is not recorded."""

    def ends(self, *, failed: bool, handed: Sequence[Any] = ()) -> BackwardRuns:
        """Called when it ended, and returned these gradients. Returns its runs."""

    def so_far(self, *, running: bool) -> list[BackwardRuns]:
        """The runs so far of this thread's running backwards, innermost first.

        `running`: leave out the last run, whose node is still active.
        """


def native_runs(
    why_not: str = "", around: tuple[int, int] | None = None
) -> tuple[NativeRunObserver | None, str]:
    """The native observer of runs, or why there is none; then hooks serve.

    `why_not`: why it cannot be native. `around`: other callbacks for it.
    """
    if why_not:
        return None, why_not
    try:
        return NativeRunObserver(at.Observer(around)), ""
    except Exception as error:  # noqa: BLE001 -- whatever this build is: hooks serve everywhere
        return None, in_words(error)


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


def works(*, measures: bool) -> tuple[WorkObserver | None, str]:
    """The observer of what process groups do, or why there is none; `measures`: also values."""
    try:
        from gradscope.watch.called.ranks.works import WorkObserver  # noqa: PLC0415 -- it compiles

        return WorkObserver(measures=measures), ""
    except Exception as error:  # noqa: BLE001 -- as above: then collectives in C++ are not seen
        return None, in_words(error)
