"""Warnings that name the user's line, however deep in the runtime they arise."""

from __future__ import annotations

import sys
import warnings

from gradscope.runtime.autograd.making import is_ours


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn, as from the nearest line on the stack that is not the runtime's own."""
    frame, level = sys._getframe(0), 1
    while frame.f_back is not None and is_ours(frame):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)
