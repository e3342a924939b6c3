"""How `linear_cross_entropy` splits a batch so that not all scores exist at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gradscope.runtime.core.dtypes import dtypes

HALVES = (dtypes.float16, dtypes.bfloat16)
WIDE = (*HALVES, dtypes.float32, dtypes.float64)


@dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """Sizes of the pieces, and the dtype of each computation.

    The whole piece is computed in `acc_dtype`, which PyTorch calls "accurate". Other values of
    `acc_policy` choose a part of it, to save memory on a GPU.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: Any = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        if self.acc_policy not in {"auto", "accurate", "balanced", "compact"}:
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        if self.chunking_method not in {None, "auto"} and not _parts(self.chunking_method):
            raise ValueError(f"invalid chunking_method: {self.chunking_method!r}")
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")
        if self.acc_dtype is not None and self.acc_dtype not in WIDE:
            raise ValueError(
                "acc_dtype must be one of {None, torch.float16, torch.bfloat16, "
                f"torch.float32, torch.float64}}, got {self.acc_dtype!r}. Pass "
                "acc_dtype=None to let the op pick automatically."
            )

    def _adjust(
        self, num_batches: int, in_features: int, num_classes: int, dtype: Any, device: Any = None
    ) -> LinearCrossEntropyOptions:
        """The same options with all defaults resolved for one call."""
        half = dtype in HALVES and device is not None
        policy, method = self.acc_policy, self.chunking_method
        if method == "auto" and self.batch_chunk_size is not None:
            method = None
        if policy == "auto":
            policy = "accurate" if half else "compact"
        if method == "auto":
            method = "aspect_ratio" if half else "aspect_ratio:2"
        size = min(self.batch_chunk_size or num_batches, num_batches)
        if method is not None:
            size = _rows(method, num_batches, in_features, num_classes)
            if self.batch_chunk_size not in {None, size}:
                raise ValueError(
                    f"batch_chunk_size (={self.batch_chunk_size}) and chunking_method "
                    f"('{method}') give different chunk sizes ({self.batch_chunk_size} vs "
                    f"{size}); pass only one."
                )
        wide = self.acc_dtype
        if wide is None:
            wide = dtypes.float32 if half and self.acc_policy == "auto" else dtype
        return replace(
            self,
            acc_policy=policy,
            chunking_method=method,
            batch_chunk_size=max(1, size),
            acc_dtype=wide,
        )


def _parts(method: str | None) -> int:
    """N of a method `aspect_ratio:N`, the number of further splits; 0 if it is not a method."""
    name, colon, parts = str(method).partition(":")
    parts = parts if colon else "1"
    return int(parts) if name == "aspect_ratio" and parts.isdigit() else 0


def _rows(method: str, num_batches: int, in_features: int, num_classes: int) -> int:
    """The number of rows whose scores are about as many as the whole batch has features."""
    wanted = -(-num_batches // -(-num_classes // in_features))
    return min((1 << (wanted - 1).bit_length()) // _parts(method), num_batches)
