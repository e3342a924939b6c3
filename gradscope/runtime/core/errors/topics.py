"""List of all engine errors."""

from __future__ import annotations

from gradscope.runtime.core.errors.declare import DECLARED, EngineError
from gradscope.runtime.core.errors.engine import (
    checkpoints,
    custom_functions,
    devices,
    dual_tensors,
    functional,
    in_place,
    inference,
    jvps,
    leaves,
    module_hooks,
    returned,
    saved_values,
    starting,
    tensor_hooks,
)

TOPICS = (
    saved_values,
    in_place,
    inference,
    starting,
    returned,
    custom_functions,
    tensor_hooks,
    module_hooks,
    leaves,
    checkpoints,
    dual_tensors,
    jvps,
    devices,
    functional,
)
"""The modules that declare errors; a new one is added here."""


def declared() -> tuple[EngineError, ...]:
    """All engine errors, by topic, in the order of their declaration."""
    places = {topic.__name__: place for place, topic in enumerate(TOPICS)}
    return tuple(sorted(DECLARED.values(), key=lambda error: places[error.function.__module__]))
