"""Faults of the recorder: what a trace does not say, or says wrongly."""

from __future__ import annotations

from typing import Any

import pytest

from gradscope.record.from_runtime import source
from gradscope.record.from_runtime.cold import catalog
from gradscope.record.from_runtime.hot import runtime_probe as native
from gradscope.trace.shorthand import runs
from tests.faults.planting import Plant


def telling_of_gradients(monkeypatch: pytest.MonkeyPatch, wrong: Any) -> None:
    """What is told of a gradient that was handed on goes through `wrong`."""
    right = native.RuntimeProbe.__init__

    def init(self: Any, *what: Any) -> None:
        right(self, *what)
        noted, count = self.sent, [0]

        def sent(*told: Any) -> None:
            count[0] += 1
            wrong(noted, count[0], told)

        self.sent = sent

    monkeypatch.setattr(native.RuntimeProbe, "__init__", init)


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
    right = runs._placed
    monkeypatch.setattr(runs, "_placed", lambda key, count: right(-key, count))


def not_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native.RuntimeProbe, "task_end", lambda self, task: None)


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
