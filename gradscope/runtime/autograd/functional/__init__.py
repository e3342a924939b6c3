"""`torch.autograd.functional`: derivatives of a function at a point, whole or times a vector."""

from __future__ import annotations

from gradscope.runtime.autograd.functional.jacobians import hessian, jacobian
from gradscope.runtime.autograd.functional.products import hvp, jvp, vhp, vjp

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
