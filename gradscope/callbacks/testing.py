"""Implementation of the mark and the fixture: records tests and fails them for findings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pytest

from gradscope.analysis.report import Report, inspect
from gradscope.callbacks.checks import Checks, findings_text, problems
from gradscope.callbacks.golden import UPDATE, Golden
from gradscope.errors import GradscopeError
from gradscope.record.engines import AUTO, GRADSCOPE, TORCH, named
from gradscope.record.from_pytorch import installed
from gradscope.record.recorder import record
from gradscope.trace.load_save import save

if TYPE_CHECKING:
    from gradscope.record.recording import Recording
    from gradscope.trace.trace import Trace

MARK = "gradscope"
SCOPE = pytest.StashKey["BlockRecorder"]()


def stage(on: str) -> Callable[[], None]:
    """Let `import torch` return this engine from now on. Returns a function that undoes it."""
    stack = ExitStack()
    stack.enter_context(named(on).in_scripts.staged())
    return stack.close


def marked(item: pytest.Item, mark: pytest.Mark) -> Generator[None, object, object]:
    """Run a marked test, recorded as a whole or in blocks, and fail it for problems."""
    scope = item.stash.get(SCOPE, None)
    with explained():
        checks = Checks.of(mark.args, mark.kwargs)
    if scope is None:
        with Taken(item, checks) as taken:
            result = yield
        taken.check()
        return result
    scope.checks = checks
    result = yield
    if not scope.taken:
        pytest.fail("gradscope: the test has the mark and the fixture, but records no block")
    for each in scope.taken:
        each.check()
    return result


@contextmanager
def explained() -> Iterator[None]:
    """A context in which errors of gradscope fail the test with one line."""
    try:
        yield
    except GradscopeError as error:
        failure = pytest.fail.Exception(f"gradscope: {error}", pytrace=False)
    else:
        return
    raise failure


class BlockRecorder:
    """The fixture `gradscope`, which records blocks of a test."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item
        self.checks = Checks()
        self.taken: list[Taken] = []

    def record(self, *, level: str | None = None, on: str | None = None) -> Taken:
        """Record a block: `with gradscope.record() as recorded: …`."""
        taken = Taken(self._item, self.checks, level=level, on=on)
        self.taken.append(taken)
        return taken


class Taken:
    """The recording of a test, or of a block of it."""

    def __init__(
        self, item: pytest.Item, checks: Checks, *, level: str | None = None, on: str | None = None
    ) -> None:
        self._item = item
        self._checks = checks
        self._level = level or checks.lowest_level()
        self._on = on or checks.on
        self._recording: Recording | None = None
        self._trace: Trace | None = None

    def __enter__(self) -> Self:
        with explained():
            self._recording = record(level=self._level, on=_engine(self._item.config, self._on))
            self._recording.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._recording is not None
        self._recording.stop(error)
        if error is not None:  # the test fails anyway; the findings may explain why
            report = self.report
            if report.findings:
                self._item.add_report_section("call", MARK, findings_text(report) + self._kept())

    @property
    def trace(self) -> Trace:
        """The trace of the block, after it has ended."""
        if self._trace is None:
            assert self._recording is not None, "nothing has been recorded yet"
            self._trace = self._recording.trace()
        return self._trace

    @property
    def report(self) -> Report:
        """The report of `gradscope.inspect` on it."""
        return inspect(self.trace)

    def check(self, **options: Any) -> None:
        """Fail unless these checks pass: the arguments of the mark; by default, its own."""
        golden = None
        with explained():
            checks = Checks.of((), options) if options else self._checks
            if checks.same_graph is not None:
                update = bool(self._item.config.getoption(UPDATE))
                golden = Golden(self._item.path.parent / checks.same_graph, update)
            found = list(problems(self.trace, checks, golden))
        if found:
            pytest.fail("\n\n".join(found) + self._kept(), pytrace=False)

    def _kept(self) -> str:
        """Store the trace among pytest's temporary files, and return a line with its path."""
        name = "".join(each if each.isalnum() else "_" for each in self._item.name)[:40]
        # Uses pytest's factory directly; `tmp_path` would put a file among those of the test.
        factory = getattr(self._item.config, "_tmp_path_factory")  # noqa: B009
        path = factory.mktemp(f"gradscope-{name}-") / "trace.json"
        save(self.trace, path)
        return f"\n\nthe trace: {path} (gradscope inspect, render)"


def _engine(config: pytest.Config, on: str | None) -> str:
    """The engine to record: the requested one, or the one that is or would be imported."""
    asked = on or config.getoption("--gradscope-on") or config.getini("gradscope_on") or AUTO
    if asked != AUTO or "torch" in sys.modules or "gradscope.runtime" in sys.modules:
        return str(asked)
    return GRADSCOPE if installed.folder() is None else TORCH
