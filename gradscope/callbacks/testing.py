"""Recording what a test does, and failing it for what is found: behind the mark and the fixture."""

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
    """Let `import torch` give this engine from here on; what takes that back."""
    stack = ExitStack()
    stack.enter_context(named(on).in_scripts.staged())
    return stack.close


def marked(item: pytest.Item, mark: pytest.Mark) -> Generator[None, object, object]:
    """Run a test that is marked, recorded as a whole or where it says; fail it for problems."""
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
        pytest.fail("gradscope: the test is marked, takes the fixture, and records nothing")
    for each in scope.taken:
        each.check()
    return result


@contextmanager
def explained() -> Iterator[None]:
    """Inside, what gradscope cannot do fails the test in one line."""
    try:
        yield
    except GradscopeError as error:
        failure = pytest.fail.Exception(f"gradscope: {error}", pytrace=False)
    else:
        return
    raise failure


class BlockRecorder:
    """The fixture `gradscope`: records blocks of a test."""

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
    """What was recorded of a test, or of a block of it."""

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
        if error is not None:  # the test fails anyway; what was found may say why
            report = self.report
            if report.findings:
                self._item.add_report_section("call", MARK, findings_text(report) + self._kept())

    @property
    def trace(self) -> Trace:
        """The trace of the block, when it has ended."""
        if self._trace is None:
            assert self._recording is not None, "nothing was recorded yet"
            self._trace = self._recording.trace()
        return self._trace

    @property
    def report(self) -> Report:
        """What `gradscope.inspect` says of it."""
        return inspect(self.trace)

    def check(self, **options: Any) -> None:
        """Fail unless this holds; what may be asked is what the mark takes, or what it asked."""
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
        """Keep the trace with pytest's temporary files, and say where."""
        name = "".join(each if each.isalnum() else "_" for each in self._item.name)[:40]
        # The factory is pytest's own; that of `tmp_path` would put a file among the test's.
        factory = getattr(self._item.config, "_tmp_path_factory")  # noqa: B009
        path = factory.mktemp(f"gradscope-{name}-") / "trace.json"
        save(self.trace, path)
        return f"\n\nthe trace: {path} (gradscope inspect, render)"


def _engine(config: pytest.Config, on: str | None) -> str:
    """What to record: what was asked for; else what is imported, or would be."""
    asked = on or config.getoption("--gradscope-on") or config.getini("gradscope_on") or AUTO
    if asked != AUTO or "torch" in sys.modules or "gradscope.runtime" in sys.modules:
        return str(asked)
    return GRADSCOPE if installed.folder() is None else TORCH
