"""What gradscope does in the middle of a program, and what happens if it fails.

# Note [A fault of ours]
What a recording raises must not reach the program that is watched. So it is called through
`Faults.guarded`, which counts each kind of fault and lets the program go on. The recording's end
says what failed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from gradscope.errors import GradscopeError, is_the_programs
from gradscope.watch.in_place.compilers import compiler_aside, uncompiled
from gradscope.watch.in_place.standing_in import HERE

Result = TypeVar("Result")

NO_ROOM = "what was called so deep that the limit on recursion left no room for a note"


class Faults:
    """Faults of ours in the middle of a program: noted, and never raised into it."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}
        self._aside = compiler_aside()
        self.without_room = 0  # notes that were not made near the program's limit on recursion

    def noted(self, where: str, error: BaseException) -> None:
        if type(error) is RecursionError:
            self.without_room += 1
            return
        text = f"{where}: {type(error).__name__}: {error}"
        self.texts[text] = self.texts.get(text, 0) + 1

    def in_words(self) -> dict[str, int]:
        """What went wrong, and how often."""
        faults = {f"a fault of gradscope's, {text}": many for text, many in self.texts.items()}
        return {**faults, NO_ROOM: self.without_room} if self.without_room else faults

    def meet_compilers(self) -> None:
        """PyTorch is imported: its compiler of frames is to leave ours alone."""
        self._aside = compiler_aside()
        uncompiled(Faults.guarded)

    def handing_on(self, function: Callable[..., object], *given: Any) -> None:
        """Call what hands notes to the writer; that it cannot write is no fault of ours."""
        try:
            function(*given)
        except GradscopeError:
            raise
        except Exception as error:
            if is_the_programs(error):
                raise
            self.noted("notes were handed on", error)

    def guarded(
        self, where: str, function: Callable[..., Result], *given: Any, **more: Any
    ) -> Result | None:
        """What the function returns; None, and a fault noted, if it raises."""
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
