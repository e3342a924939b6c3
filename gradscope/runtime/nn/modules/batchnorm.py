"""Batch normalization: mean 0 and variance 1 for each channel of a batch."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.dtypes.dtypes import int64
from gradscope.runtime.core.tensors.making.factories import empty, ones, tensor, zeros
from gradscope.runtime.nn import functional, init
from gradscope.runtime.nn.modules.lazy import LazyModuleMixin
from gradscope.runtime.nn.modules.module import Module
from gradscope.runtime.nn.parameter import Parameter, UninitializedBuffer, UninitializedParameter


class _NormBase(Module):
    """Base of batch norms: parameters and running statistics, one value per channel."""

    _version = 2

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            made = Parameter(empty(num_features, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, made)
        tracks = track_running_stats
        kind = {"device": device, "dtype": dtype}
        count = tensor(0, dtype=int64, device=device) if tracks else None
        self.register_buffer("running_mean", zeros(num_features, **kind) if tracks else None)
        self.register_buffer("running_var", ones(num_features, **kind) if tracks else None)
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input: Any) -> None:
        raise NotImplementedError

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *others: Any
    ) -> None:
        """Add `num_batches_tracked`, which version 1 of the format lacks."""
        version = local_metadata.get("version", None)
        key = f"{prefix}num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            known = self.num_batches_tracked
            usable = known is not None and known.device.type != "meta"
            state_dict[key] = known if usable else tensor(0, dtype=int64)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *others)


class _BatchNorm(_NormBase):
    def forward(self, input: Any) -> Any:
        self._check_input_dim(input)
        share = 0.0 if self.momentum is None else self.momentum
        tracks = self.training and self.track_running_stats
        if tracks and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the mean of all batches so far
                share = 1.0 / float(self.num_batches_tracked)
        keeps = not self.training or self.track_running_stats
        return functional.batch_norm(
            input,
            self.running_mean if keeps else None,
            self.running_var if keeps else None,
            self.weight,
            self.bias,
            self.training or (self.running_mean is None and self.running_var is None),
            share,
            self.eps,
        )


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """Takes the number of channels from the first input."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        kind: Any = {"device": device, "dtype": dtype}
        super().__init__(0, eps, momentum, False, False, **kind, bias=False)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(**kind)
            if bias:
                self.bias = UninitializedParameter(**kind)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**kind)
            self.running_var = UninitializedBuffer(**kind)
            self.num_batches_tracked = tensor(0, dtype=int64, device=device)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Any) -> None:
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        waiting = [self.weight, self.bias] if self.affine else []
        waiting += [self.running_mean, self.running_var] if self.track_running_stats else []
        for one in waiting:
            if one is not None:
                one.materialize((self.num_features,))
        self.reset_parameters()


class _OneDim:
    """Input check for batches of vectors or of sequences."""

    def _check_input_dim(self, input: Any) -> None:
        if input.dim() not in (2, 3):
            raise ValueError(f"expected 2D or 3D input (got {input.dim()}D input)")


class _TwoDims:
    def _check_input_dim(self, input: Any) -> None:
        if input.dim() != 4:
            raise ValueError(f"expected 4D input (got {input.dim()}D input)")


class _ThreeDims:
    def _check_input_dim(self, input: Any) -> None:
        if input.dim() != 5:
            raise ValueError(f"expected 5D input (got {input.dim()}D input)")


class BatchNorm1d(_OneDim, _BatchNorm):
    """Batch normalization of vectors or sequences."""


class BatchNorm2d(_TwoDims, _BatchNorm):
    """Batch normalization of images."""


class BatchNorm3d(_ThreeDims, _BatchNorm):
    """Batch normalization of volumes."""


class LazyBatchNorm1d(_OneDim, _LazyNormBase, _BatchNorm):
    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_TwoDims, _LazyNormBase, _BatchNorm):
    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_ThreeDims, _LazyNormBase, _BatchNorm):
    cls_to_become = BatchNorm3d
