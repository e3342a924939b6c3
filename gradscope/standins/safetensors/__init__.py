"""`safetensors`: files of tensors with nothing in them that could be run.

Under `gradscope trace` this stands in for the package of that name; elsewhere it is
`gradscope.standins.safetensors.torch`.
"""

from __future__ import annotations

from gradscope.standins.safetensors.format import SafetensorError
from gradscope.standins.safetensors.opened import safe_open

__all__ = ["SafetensorError", "safe_open"]
