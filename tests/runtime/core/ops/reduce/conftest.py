"""Tests that ask for `torch` run on gradscope's engine and on PyTorch's."""

from __future__ import annotations

from tests.runtime.core.autograd.conftest import torch

__all__ = ["torch"]
