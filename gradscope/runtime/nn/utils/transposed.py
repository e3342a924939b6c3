"""The dim of a module's weight that counts its outputs."""

from __future__ import annotations

from typing import Any


def output_dim(module: Any) -> int:
    """1 for transposed convolutions, 0 for all others."""
    names = {cls.__name__ for cls in type(module).__mro__}
    return 1 if names & {"ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"} else 0
