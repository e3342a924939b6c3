"""Every test here runs on gradscope's runtime and on PyTorch: what it expects holds for both."""

from __future__ import annotations

from tests.runtime.core.autograd.conftest import torch

__all__ = ["torch"]
