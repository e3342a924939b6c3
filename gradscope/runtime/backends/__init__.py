"""Libraries PyTorch may compute with and this runtime does not; their switches do nothing."""

from __future__ import annotations

from typing import Any

from gradscope.runtime import missing
from gradscope.runtime.backends import (
    cuda as cuda,
    cudnn as cudnn,
    mha as mha,
    mkldnn as mkldnn,
    mps as mps,
    openmp as openmp,
)


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch.backends", name, list(globals()))
