"""`torch.autograd.functional`: Jacobians, Hessians and their products with vectors."""

from __future__ import annotations

from gradscope.runtime.autograd.functional.arguments import (
    _construct_standard_basis_for as _construct_standard_basis_for,
)
from gradscope.runtime.autograd.functional.jacobians import hessian, jacobian
from gradscope.runtime.autograd.functional.products import hvp, jvp, vhp, vjp

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
