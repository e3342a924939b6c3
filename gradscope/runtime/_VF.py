"""`torch._VF`: functions of the top module, as modules call them."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.errors import missing
from gradscope.runtime.core.rows.offered import FUNCTIONS


def __getattr__(name: str) -> Any:
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    raise missing.no_module_attribute("torch._VF", name, list(FUNCTIONS))
