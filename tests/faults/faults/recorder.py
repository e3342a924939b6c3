"""Faults of the recorder: what a trace does not say, or says wrongly."""

from __future__ import annotations

from typing import Any

import pytest

from gradscope.record.from_runtime import source
from gradscope.record.from_runtime.cold import catalog
from gradscope.record.from_runtime.hot import runtime_probe as native
from gradscope.runtime.core import probe as runtime_probe
from gradscope.trace.shorthand import run_events
from tests.faults.planting import Plant


def telling_of_gradients(monkeypatch: pytest.MonkeyPatch, wrong: Any) -> None:
    """What is told of a gradient that was handed on goes through `wrong`.

    A process that has recorded for long notes by C functions from a recording's beginning.
    """
    right, compiled = native.RuntimeProbe.__init__, native.RuntimeProbe.compile

    def spoil(probe: Any) -> None:
        noted, count = probe.sent, [0]

        def sent(*told: Any) -> None:
            count[0] += 1
            wrong(noted, count[0], told)

        probe.sent = sent

    def init(self: Any, *what: Any) -> None:
        right(self, *what)
        spoil(self)

    def compile(self: Any, functions: Any, *, unused: bool) -> None:
        compiled(self, functions, unused=unused)
        spoil(self)
        if runtime_probe.here is self:
            runtime_probe.take_callables(self)

    monkeypatch.setattr(native.RuntimeProbe, "__init__", init)
    monkeypatch.setattr(native.RuntimeProbe, "compile", compile)


def dropping(monkeypatch: pytest.MonkeyPatch) -> None:
    telling_of_gradients(monkeypatch, lambda noted, nr, told: None if nr == 3 else noted(*told))


def miscounting(monkeypatch: pytest.MonkeyPatch) -> None:
    telling_of_gradients(monkeypatch, lambda noted, nr, told: noted(*told[:-1], [*told[-1], None]))


def mistaking(monkeypatch: pytest.MonkeyPatch) -> None:
    right = catalog.Catalog.accumulator

    def wrong(self: Any, node: Any) -> None:
        right(self, node)
        tensor, since, _, output = self.origins.pop()
        self.origins.append((tensor, since, self.base, output))

    monkeypatch.setattr(catalog.Catalog, "accumulator", wrong)


def mixing(monkeypatch: pytest.MonkeyPatch) -> None:
    right = run_events._placed
    monkeypatch.setattr(run_events, "_placed", lambda key, count: right(-key, count))


def not_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native.RuntimeProbe, "backward_ends", lambda self, task: None)


def losing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source.RuntimeSource, "_engine", lambda self: None)


RECORDER: dict[str, Plant] = {
    "a dropped event": dropping,
    "a queue length that is wrong": miscounting,
    "an edge to the wrong node": mistaking,
    "events out of order": mixing,
    "a task that never ends": not_ending,
    "a window that is lost": losing,
}
