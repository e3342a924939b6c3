"""Declaration of engine errors: PyTorch's message, what only this engine knows, what to do.

# Note [Notes, not more message]
The message of an engine error is exactly PyTorch's, so that a program that reads it works
unchanged. Further facts are in a note of the exception (PEP 678), which Python prints below the
message. The runtime adds what it knows. A recording that knows more (which line wrote, which
backward released) receives the error first, and adds its lines to the note.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec

from gradscope.runtime.core import probe
from gradscope.runtime.core.errors.anomaly_lines import lines_from_anomaly_mode
from gradscope.runtime.core.state.warned import Always, warn

P = ParamSpec("P")

PAGE = "docs/engine/errors.md"
EXAMPLE = re.compile(r"^Example(?P<alone> without PyTorch)?:\n", re.MULTILINE)
RECORD = "Run the program with `gradscope trace` to see the lines here."


class Case(NamedTuple):
    """One occurrence of an error: PyTorch's type and text of it, and the objects it is about."""

    kind: type[Exception]
    text: str
    known: tuple[str, ...] = ()  # further facts, one sentence each
    node: Any = None  # the node that ran, or that saved the values
    tensor: Any = None  # the tensor it is about
    hook: Any = None  # the user's hook it is about
    writes: Any = None  # the version counter, if it matters what wrote
    since: int = 0  # only writes after this version matter
    freed: bool = False  # whether it matters what released the saved values of the node


class EngineError(NamedTuple):
    """Declaration of an error: its slug (the anchor in docs/engine/errors.md) and its remedy."""

    slug: str
    remedy: str
    function: Callable[..., Case]

    @property
    def meaning(self) -> str:
        """When the error is raised, and why."""
        return self._parts()[0]

    @property
    def example(self) -> str:
        """A program that raises the error. The note names the lines marked `# named below`."""
        return inspect.cleandoc("\n" + self._parts()[2])

    @property
    def on_pytorch(self) -> bool:
        """Whether the example also runs on PyTorch, which has no `sim` devices."""
        return not self._parts()[1]

    def _parts(self) -> tuple[str, str, str]:
        meaning, alone, example = (*EXAMPLE.split(inspect.getdoc(self.function) or ""), "", "")[:3]
        return meaning.strip(), alone or "", example

    def note(self, case: Case) -> str:
        """The text below PyTorch's message."""
        lines = list(case.known)
        if not _told(self.slug, case, lines):
            lines += lines_from_anomaly_mode(case.node, case.writes)
            if case.writes is not None or case.freed:
                lines.append(RECORD)
        return "\n".join([*lines, f"{self.remedy} See {PAGE}#{self.slug}"])


def _told(slug: str, case: Case, lines: list[str]) -> bool:
    """Report the error to the active recording, which may add lines; whether there is one."""
    return probe.here is not None and bool(probe.here.refused(slug, case, lines))


DECLARED: dict[str, EngineError] = {}
"""Every engine error by its slug, in the order of declaration."""


def engine_error(slug: str, remedy: str) -> Callable[[Callable[P, Case]], Callable[P, Exception]]:
    """Declare an error: the function describes what happened, its docstring is the page."""

    def declare(function: Callable[P, Case]) -> Callable[P, Exception]:
        declaration = _declare(slug, remedy, function)

        @functools.wraps(function)
        def made(*args: P.args, **kwargs: P.kwargs) -> Exception:
            case = function(*args, **kwargs)
            error = case.kind(case.text)
            error.slug = slug  # type: ignore[attr-defined]
            error.add_note(declaration.note(case))
            return error

        return made

    return declare


TOLD: set[str] = set()
"""Slugs of the warnings that are shown once and have been shown."""


def engine_warning(
    slug: str, remedy: str, *, once: bool = False
) -> Callable[[Callable[P, Case]], Callable[P, None]]:
    """Declare a warning: calling it warns at the program's line; `once`: only the first time."""

    def declare(function: Callable[P, Case]) -> Callable[P, None]:
        declaration = _declare(slug, remedy, function)

        @functools.wraps(function)
        def warned(*args: P.args, **kwargs: P.kwargs) -> None:
            if once and slug in TOLD and not Always.on:
                return
            TOLD.add(slug)
            case = function(*args, **kwargs)
            # A warning has no notes; without a recording, its text is exactly PyTorch's.
            more = f"\n{declaration.note(case)}" if _told(slug, case, []) else ""
            warn(f"{case.text}{more}", case.kind)  # type: ignore[arg-type]

        return warned

    return declare


def _declare(slug: str, remedy: str, function: Callable[..., Case]) -> EngineError:
    before = DECLARED.get(slug)
    # A module whose import was interrupted is imported again.
    again = before is not None and before.function.__module__ == function.__module__
    assert before is None or again, f"two errors are called {slug}"
    DECLARED[slug] = made = EngineError(slug, remedy, function)
    return made
