"""Libraries that PyTorch may use and this runtime does not. Their switches have no effect."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.backends import (
    cpu as cpu,
    cuda as cuda,
    cudnn as cudnn,
    cusparselt as cusparselt,
    mha as mha,
    mkl as mkl,
    mkldnn as mkldnn,
    mps as mps,
    nnpack as nnpack,
    openmp as openmp,
    opt_einsum as opt_einsum,
)
from gradscope.runtime.core.errors import missing


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch.backends", name, list(globals()))
