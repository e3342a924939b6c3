"""`safetensors`: files of tensors with nothing in them that could be run.

Under `gradscope trace` this stands in for the package of that name; elsewhere it is
`gradscope.runtime.standins.safetensors.torch`.
"""

from __future__ import annotations

from gradscope.runtime.standins.safetensors.format import SafetensorError
from gradscope.runtime.standins.safetensors.opened import safe_open

__all__ = ["SafetensorError", "safe_open"]
