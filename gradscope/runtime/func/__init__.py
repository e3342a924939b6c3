"""`torch.func`: functions that give other functions' derivatives.

They are built on ordinary backwards: a derivative of a derivative is a backward through a backward,
and `vmap` calls its function once for each example.
"""

from __future__ import annotations

from typing import Any

from gradscope.runtime import missing
from gradscope.runtime.func.calls import (
    functional_call as functional_call,
    stack_module_state as stack_module_state,
)
from gradscope.runtime.func.examples import vmap as vmap
from gradscope.runtime.func.jacobians import (
    hessian as hessian,
    jacfwd as jacfwd,
    jacrev as jacrev,
)
from gradscope.runtime.func.products import (
    grad as grad,
    grad_and_value as grad_and_value,
    jvp as jvp,
    vjp as vjp,
)


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch.func", name, list(globals()))
