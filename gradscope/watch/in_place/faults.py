"""Faults of gradscope in the middle of a program.

# Note [A fault of ours]
Exceptions of a recording must not reach the recorded program. So the code of a recording is called
through `Faults.guarded`, which counts each kind of fault and lets the program continue. The faults
are listed at the end of the recording.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from gradscope.errors import GradscopeError, is_the_programs
from gradscope.watch.in_place.compilers import compiler_aside, uncompiled
from gradscope.watch.in_place.standing_in import HERE

Result = TypeVar("Result")

NO_ROOM = "calls so deep that the recursion limit left no room for recording them"


class Faults:
    """Faults of gradscope in the middle of a program: counted, and never raised into it."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}
        self._aside = compiler_aside()
        self.without_room = 0  # events not recorded near the recursion limit of the program

    def noted(self, where: str, error: BaseException) -> None:
        if type(error) is RecursionError:
            self.without_room += 1
            return
        text = f"{where}: {type(error).__name__}: {error}"
        self.texts[text] = self.texts.get(text, 0) + 1

    def in_words(self) -> dict[str, int]:
        """Descriptions of the faults, with their counts."""
        faults = {f"a fault of gradscope, when {text}": many for text, many in self.texts.items()}
        return {**faults, NO_ROOM: self.without_room} if self.without_room else faults

    def meet_compilers(self) -> None:
        """Called when PyTorch is imported: its compiler must not compile our frames."""
        self._aside = compiler_aside()
        uncompiled(Faults.guarded)

    def handing_on(self, function: Callable[..., object], *given: Any) -> None:
        """Call a function that passes notes to the writer; a failed write is no fault of ours."""
        try:
            function(*given)
        except GradscopeError:
            raise
        except Exception as error:
            if is_the_programs(error):
                raise
            self.noted("notes were written", error)

    def guarded(
        self, where: str, function: Callable[..., Result], *given: Any, **more: Any
    ) -> Result | None:
        """The result of the function; if it raises, None, and a fault is counted."""
        before, HERE.ours = HERE.ours, True
        compiler = self._aside(None)
        try:
            return function(*given, **more)
        except Exception as error:
            if is_the_programs(error):
                raise
            self.noted(where, error)
            return None
        finally:
            self._aside(compiler)
            HERE.ours = before
