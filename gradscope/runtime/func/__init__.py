"""`torch.func`: transforms of functions: gradients, products, Jacobians.

They use the engine: a gradient is a backward, which a recording shows. `vmap` calls a function once
for each sample; PyTorch calls it once for all, with the same result.
"""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.errors import missing
from gradscope.runtime.func.gradients import grad, grad_and_value, jvp, linearize, vjp
from gradscope.runtime.func.jacobians import hessian, jacfwd, jacrev
from gradscope.runtime.func.mapping import stack_module_state, vmap
from gradscope.runtime.nn.utils.stateless import functional_call

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "stack_module_state",
    "vjp",
    "vmap",
]


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch.func", name, __all__)
