"""The gradient of a window on a base, as an operation, so that it has a derivative of its own."""

from __future__ import annotations

from gradscope.runtime.op import (
    INTERNAL,
    LINEAR,
    family,
    op,
)
from gradscope.runtime.views import replay_arrays, replay_tensors, spread


def _window(grad, chain):
    return replay_tensors(grad, chain) if hasattr(grad, "_array") else replay_arrays(grad, chain)


window_backward = op(
    "AsStridedBackwardBackward0",
    lambda source, base_shape, chain: spread(source, base_shape, chain),
    LINEAR,
    INTERNAL,
    source=_window,
)
family(globals())
