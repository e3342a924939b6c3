"""What an engine error is: PyTorch's words, then what only this engine knows, and what to do.

# Note [Notes, not more message]
The message of an engine error is PyTorch's, to the letter, so that a program that reads it finds
what it looks for. What is known beyond it is in a note of the exception (PEP 678), which Python
prints below the message. The runtime writes down what it knows anyway; a watcher that has seen more
(which line wrote, which backward freed) is told of the error before anybody else, and adds to it.
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
RECORD = "Run it with `gradscope trace`, and this names the lines."


class Case(NamedTuple):
    """One error as it happens: its type and text as PyTorch has them, and what it is about."""

    kind: type[Exception]
    text: str
    known: tuple[str, ...] = ()  # further facts, a sentence each
    node: Any = None  # whose run, or whose saved values, it is about
    tensor: Any = None  # the tensor it is about
    hook: Any = None  # the user's function it is about
    writes: Any = None  # the counter of writes, where it matters who wrote
    since: int = 0  # after this version
    freed: bool = False  # whether it matters who released what the node had saved


class EngineError(NamedTuple):
    """The declaration: a slug, which is its anchor in docs/engine/errors.md, and the remedy."""

    slug: str
    remedy: str
    function: Callable[..., Case]

    @property
    def meaning(self) -> str:
        """When it is raised, and why it has to be."""
        return self._parts()[0]

    @property
    def example(self) -> str:
        """A program that raises it. A line that ends in `# named below` is named in the note."""
        return inspect.cleandoc("\n" + self._parts()[2])

    @property
    def on_pytorch(self) -> bool:
        """Whether the example can run on PyTorch, too: `sim` devices are here only."""
        return not self._parts()[1]

    def _parts(self) -> tuple[str, str, str]:
        meaning, alone, example = (*EXAMPLE.split(inspect.getdoc(self.function) or ""), "", "")[:3]
        return meaning.strip(), alone or "", example

    def note(self, case: Case) -> str:
        """What stands below PyTorch's text."""
        lines = list(case.known)
        if not _told(self.slug, case, lines):
            lines += lines_from_anomaly_mode(case.node, case.writes)
            if case.writes is not None or case.freed:
                lines.append(RECORD)
        return "\n".join([*lines, f"{self.remedy} See {PAGE}#{self.slug}"])


def _told(slug: str, case: Case, lines: list[str]) -> bool:
    """Tell whoever watches, who may add lines; whether anybody does."""
    return probe.here is not None and bool(probe.here.refused(slug, case, lines))


DECLARED: dict[str, EngineError] = {}
"""Every engine error by its slug, in the order of declaration."""


def engine_error(slug: str, remedy: str) -> Callable[[Callable[P, Case]], Callable[P, Exception]]:
    """Declare an error: the function says what happened, its docstring is the page."""

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
"""The warnings that come once only, and have come."""


def engine_warning(
    slug: str, remedy: str, *, once: bool = False
) -> Callable[[Callable[P, Case]], Callable[P, None]]:
    """Declare a warning: calling it warns, of the program's line; `once`: the first time only."""

    def declare(function: Callable[P, Case]) -> Callable[P, None]:
        declaration = _declare(slug, remedy, function)

        @functools.wraps(function)
        def warned(*args: P.args, **kwargs: P.kwargs) -> None:
            if once and slug in TOLD and not Always.on:
                return
            TOLD.add(slug)
            case = function(*args, **kwargs)
            # A warning has no notes; unwatched, its text is PyTorch's and no more.
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
