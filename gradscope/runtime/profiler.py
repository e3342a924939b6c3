"""`torch.profiler`: times are in gradscope's own trace."""

from __future__ import annotations

import functools
from collections.abc import Callable
from enum import Enum
from typing import Any, NoReturn

from gradscope.runtime.core import probe
from gradscope.runtime.core.errors import missing

__all__ = ["ProfilerActivity", "profile", "record_function", "schedule"]


class ProfilerActivity(Enum):
    """Activities that PyTorch can record."""

    CPU = 0
    CUDA = 2
    XPU = 3
    MTIA = 4


class record_function:  # noqa: N801  (PyTorch's name)
    """Name a part of the program, or a function. In a recording it is a span of the trace."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self._open: list[tuple[Any, int]] = []

    def __enter__(self) -> record_function:
        here = probe.here
        self._open.append((here, 0 if here is None else here.span_begins(self.name)))
        return self

    def __exit__(self, *error: object) -> None:
        here, number = self._open.pop()
        if here is not None:
            here.span_ends(number)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def named(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return named


def schedule(**options: Any) -> Any:
    """Accepted without effect: use `gradscope trace --steps` to choose steps."""
    return lambda _: None


class profile:  # noqa: N801  (PyTorch's name)
    """Not available: gradscope's trace shows what PyTorch's profiler shows of the engine."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse()


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise RuntimeError(
        "gradscope's runtime has no torch.profiler.profile: run the script with `gradscope trace` "
        "and view the times with `gradscope timeline` (record_function works, and names spans)"
    )


tensorboard_trace_handler = _refuse


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch.profiler", name, __all__)
