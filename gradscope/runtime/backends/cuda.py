"""CUDA is not here, so none of its switches changes anything."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class _Matmul:
    """How CUDA would multiply matrices."""

    allow_tf32: bool = False
    allow_fp16_reduced_precision_reduction: bool = True


matmul = _Matmul()


def is_built() -> bool:
    return False
