"""The gradient of a window on a base, as an operation, so that it has a derivative of its own."""

from __future__ import annotations

from gradscope.runtime.core.calls.declare import INTERNAL, LINEAR, family, op


def _window(grad, window):
    return window.on_tensor(grad) if hasattr(grad, "_array") else window.on_array(grad)


window_backward = op(
    "AsStridedBackwardBackward0",
    lambda source, base_shape, window: window.spread(source, base_shape),
    LINEAR,
    INTERNAL,
    source=_window,
)
family(globals())
