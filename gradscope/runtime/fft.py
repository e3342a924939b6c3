"""`torch.fft`: Fourier transforms."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.errors import missing
from gradscope.runtime.core.rows import offered

globals().update(offered.offered("fft"))


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch.fft", name, list(globals()))
