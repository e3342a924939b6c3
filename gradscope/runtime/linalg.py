"""`torch.linalg`: linear algebra."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.errors import missing
from gradscope.runtime.core.ops.matrix.matrices import LinAlgError
from gradscope.runtime.core.rows import offered

__all__ = ["LinAlgError"]

globals().update(offered.offered("linalg"))


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch.linalg", name, list(globals()))
