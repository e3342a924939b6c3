"""`torch._C._nn`: low-level functions of networks."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.errors import missing
from gradscope.runtime.core.rows.offered import NN_FUNCTIONS
from gradscope.runtime.core.tensors.to_arguments import wanted_of


def _parse_to(*given: Any, **named: Any) -> tuple[Any, Any, bool, Any]:
    """The options in the arguments of a module's `to`."""
    return tuple(wanted_of(given, named))


def __getattr__(name: str) -> Any:
    found = NN_FUNCTIONS.get(name)
    if found is None:
        raise missing.no_module_attribute("torch._C._nn", name, list(NN_FUNCTIONS))
    return found
