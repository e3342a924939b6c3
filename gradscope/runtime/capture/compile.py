"""`torch.compile`: a step is captured whole; of a model, its forward and its backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def compile(model: Any = None, *, disable: bool = False, **_: Any) -> Any:
    """A step, or a model, that is replayed once it has been recorded.

    A model is a module that keeps it as `_orig_mod`; the loop around it, its loss and its optimizer
    run as ever.
    """
    if model is None:
        return _captured_unless(disable=disable)
    if disable:
        return model
    if hasattr(model, "named_parameters"):
        from gradscope.runtime.capture.models.optimized_module import OptimizedModule

        return model if isinstance(model, OptimizedModule) else OptimizedModule(model)
    from gradscope.runtime.capture.captured import capture

    return capture(model)


def _captured_unless(*, disable: bool) -> Callable[[Any], Any]:
    def decorate(function: Any) -> Any:
        return compile(function, disable=disable)

    return decorate
