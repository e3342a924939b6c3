"""Instance normalization: mean 0 and variance 1 for each channel of each sample."""

from __future__ import annotations

import warnings
from typing import Any

from gradscope.runtime.nn import functional
from gradscope.runtime.nn.modules.batchnorm import _LazyNormBase, _NormBase


class _InstanceNorm(_NormBase):
    """Base of instance norms. `_unbatched` is the number of dims of one sample."""

    _unbatched: int

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def _get_no_batch_dim(self) -> int:
        return self._unbatched

    def _check_input_dim(self, input: Any) -> None:
        few, many = self._unbatched, self._unbatched + 1
        if input.dim() not in (few, many):
            raise ValueError(f"expected {few}D or {many}D input (got {input.dim()}D input)")

    def _apply_instance_norm(self, input: Any) -> Any:
        return functional.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )

    def _handle_no_batch_input(self, input: Any) -> Any:
        return self._apply_instance_norm(input.unsqueeze(0)).squeeze(0)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Refuse statistics saved by old versions, which always kept them."""
        if local_metadata.get("version", None) is None and not self.track_running_stats:
            names = [n for n in ("running_mean", "running_var") if prefix + n in state_dict]
            if names:
                error_msgs.append(_unexpected(names, type(self).__name__))
            for name in names:
                state_dict.pop(prefix + name)
        super()._load_from_state_dict(
            state_dict,
            prefix,
            local_metadata,
            strict,
            missing_keys,
            unexpected_keys,
            error_msgs,
        )

    def forward(self, input: Any) -> Any:
        self._check_input_dim(input)
        dim = input.dim() - self._unbatched
        if input.size(dim) != self.num_features:
            self._other_size(input, dim)
        if input.dim() == self._unbatched:
            return self._handle_no_batch_input(input)
        return self._apply_instance_norm(input)

    def _other_size(self, input: Any, dim: int) -> None:
        if self.affine:
            raise ValueError(
                f"expected input's size at dim={dim} to match num_features "
                f"({self.num_features}), but got: {input.size(dim)}."
            )
        warnings.warn(
            f"input's size at dim={dim} does not match num_features. You can silence this warning "
            "by not passing in num_features, which is not used because affine=False",
            stacklevel=3,
        )


def _unexpected(names: list[str], module: str) -> str:
    quoted = " and ".join(f'"{name}"' for name in names)
    return (
        f"Unexpected running stats buffer(s) {quoted} for {module} with "
        f"track_running_stats=False: remove them from the state dict, or make the {module} with "
        "track_running_stats=True"
    )


class InstanceNorm1d(_InstanceNorm):
    """Instance normalization of sequences."""

    _unbatched = 2


class InstanceNorm2d(_InstanceNorm):
    """Instance normalization of images."""

    _unbatched = 3


class InstanceNorm3d(_InstanceNorm):
    """Instance normalization of volumes."""

    _unbatched = 4


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    cls_to_become = InstanceNorm1d
    _unbatched = 2
    _check_input_dim = _InstanceNorm._check_input_dim


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    cls_to_become = InstanceNorm2d
    _unbatched = 3
    _check_input_dim = _InstanceNorm._check_input_dim


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    cls_to_become = InstanceNorm3d
    _unbatched = 4
    _check_input_dim = _InstanceNorm._check_input_dim
