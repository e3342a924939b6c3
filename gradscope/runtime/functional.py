"""`torch.functional`: functions of the top module that PyTorch writes in Python."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.dispatch.overrides.public import IN_PYTHON
from gradscope.runtime.core.errors import missing
from gradscope.runtime.core.rows.offered import FUNCTIONS

globals().update({name: FUNCTIONS[name] for name in IN_PYTHON if name in FUNCTIONS})


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch.functional", name, list(globals()))
