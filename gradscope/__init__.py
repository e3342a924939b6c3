"""gradscope records what an autograd engine does, and shows it.

    with gradscope.record("trace.json"):
        loss.backward()

    trace = gradscope.load("trace.json")
    gradscope.inspect(trace).findings  # or of a file: gradscope.inspect("trace.json")
    gradscope.render(trace, "graph.svg")
    gradscope.show(trace)  # in a notebook: the page to walk through the backward in
    gradscope.to_networkx(trace)  # the graph with all its nodes, as networkx has it
    step = gradscope.capture(step)  # on gradscope's own engine: recorded once, then replayed
    gradscope.Walk(trace).next("nan").backwards  # the engine's state where a NaN is first produced

Nothing is imported before it is used: a trace opens on a machine without Numba and PyTorch.
(For pytest, which warns if the package of a plugin is imported early: PYTEST_DONT_REWRITE.)
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradscope.analysis.findings import Finding, Severity
    from gradscope.analysis.report import Report, inspect
    from gradscope.analysis.state.state import State
    from gradscope.debug.live.api import breakpoint, record
    from gradscope.debug.walk import Walk
    from gradscope.record.recorder import mark, span, step
    from gradscope.render.notebook import show
    from gradscope.render.pictures import render
    from gradscope.runtime.fast.capture.captured import capture
    from gradscope.scene.network import to_networkx
    from gradscope.trace.load_save import load

__all__ = [
    "Finding",
    "Report",
    "Severity",
    "State",
    "Walk",
    "__version__",
    "breakpoint",
    "capture",
    "inspect",
    "load",
    "mark",
    "record",
    "render",
    "show",
    "span",
    "step",
    "to_networkx",
]

__version__ = "0.1.0"

_HOMES = {
    "Finding": "gradscope.analysis.findings",
    "Report": "gradscope.analysis.report",
    "Severity": "gradscope.analysis.findings",
    "State": "gradscope.analysis.state.state",
    "Walk": "gradscope.debug.walk",
    "breakpoint": "gradscope.debug.live.api",
    "capture": "gradscope.runtime.fast.capture.captured",
    "inspect": "gradscope.analysis.report",
    "load": "gradscope.trace.load_save",
    "mark": "gradscope.record.recorder",
    "show": "gradscope.render.notebook",
    "span": "gradscope.record.recorder",
    "step": "gradscope.record.recorder",
    "to_networkx": "gradscope.scene.network",
}

_CALLED = {
    "record": "gradscope.debug.live.api",
    "render": "gradscope.render.pictures",
}
"""Packages that have the name of a public function, `gradscope.record(…)`: their homes."""


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _CALLED:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _CallablePackage(ModuleType):
    """A package that can be called: it calls the function with its name."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        name = self.__name__.rpartition(".")[2]
        return getattr(import_module(_CALLED[name]), name)(*arguments, **options)


def make_callable(package: str) -> None:
    """Make a package callable. The `__init__` of the packages in `_CALLED` calls this."""
    sys.modules[package].__class__ = _CallablePackage


if "IPython" in sys.modules:
    import_module("gradscope.callbacks.notebooks").register()
