"""`safetensors`: files of tensors that contain no code.

Under `gradscope trace` this replaces a missing package of that name; elsewhere it is
`gradscope.runtime.standins.safetensors.torch`.
"""

from __future__ import annotations

from gradscope.runtime.standins.safetensors.format import SafetensorError
from gradscope.runtime.standins.safetensors.opened import safe_open

__all__ = ["SafetensorError", "safe_open"]
