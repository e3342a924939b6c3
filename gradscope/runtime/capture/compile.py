"""`torch.compile`: a whole step is captured; a module alone is what it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradscope.runtime.core.state.warned import warn_once


def compile(model: Any = None, *, disable: bool = False, **_: Any) -> Any:
    """A function that is replayed, if it is a step with its backward, once it has been recorded.

    What is called without a backward (a model) would leave a graph that cannot be replayed yet.
    """
    if model is None:
        return _captured_unless(disable=disable)
    if disable:
        return model
    if hasattr(model, "named_parameters"):
        warn_once(
            "torch.compile: gradscope replays whole steps, with their backward; of a model alone "
            "nothing is compiled. torch.compile(step) captures the function that calls both"
        )
        return model
    from gradscope.runtime.capture.captured import capture

    return capture(model)


def _captured_unless(*, disable: bool) -> Callable[[Any], Any]:
    def decorate(function: Any) -> Any:
        return compile(function, disable=disable)

    return decorate
