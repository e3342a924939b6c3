"""Convolutions, transposed convolutions, and their lazy forms."""

from __future__ import annotations

import math
from typing import Any

from gradscope.runtime.core.autograd.modes.grad_mode import no_grad
from gradscope.runtime.core.dtypes.memory_formats import contiguous_format
from gradscope.runtime.core.tensors.making.factories import empty, empty_like
from gradscope.runtime.nn import functional, init
from gradscope.runtime.nn.modules.lazy import LazyModuleMixin
from gradscope.runtime.nn.modules.module import Module
from gradscope.runtime.nn.modules.module_parts.constructors import with_own_constructor
from gradscope.runtime.nn.parameter import Parameter, UninitializedParameter, is_lazy

MODES = {"zeros", "reflect", "replicate", "circular"}
NAMED_PADDINGS = {"same", "valid"}


def _each(value: Any, dims: int) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,) * dims


class _ConvNd(Module):
    """Base of all convolutions. `dims` is the number of spatial dims."""

    dims = 0

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        transposed: bool,
        output_padding: Any,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        dims = self.dims or len(kernel_size)
        self._check(in_channels, out_channels, groups, padding, _each(stride, dims), padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = _each(kernel_size, dims)
        self.stride = _each(stride, dims)
        self.padding = padding if isinstance(padding, str) else _each(padding, dims)
        self.dilation = _each(dilation, dims)
        self.transposed = transposed
        self.output_padding = _each(output_padding, dims)
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = self._edges()
        self.weight = Parameter(empty(self._weight_shape(), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    @staticmethod
    def _check(
        in_channels: int, out_channels: int, groups: int, padding: Any, stride: Any, mode: str
    ) -> None:
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str):
            if padding not in NAMED_PADDINGS:
                raise ValueError(
                    f"Invalid padding string {padding!r}, should be one of {NAMED_PADDINGS}"
                )
            if padding == "same" and any(step != 1 for step in stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if mode not in MODES:
            raise ValueError(f"padding_mode must be one of {MODES}, but got padding_mode='{mode}'")

    def _edges(self) -> Any:
        """The padding as `F.pad` takes it: both ends of each dim, the last dim first."""
        if self.padding == "valid":
            return [0, 0] * len(self.kernel_size)
        if self.padding != "same":
            return tuple(p for p in reversed(self.padding) for _ in range(2))
        widths = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
        return [end for w in reversed(widths) for end in (w // 2, w - w // 2)]

    def _weight_shape(self) -> tuple[int, ...]:
        first, second = self.out_channels, self.in_channels
        if self.transposed:
            first, second = second, first
        return (first, second // self.groups, *self.kernel_size)

    def reset_parameters(self) -> None:
        with no_grad():
            if self.weight.is_contiguous():
                init.kaiming_uniform_(self.weight, a=math.sqrt(5))
            else:
                drawn = empty_like(self.weight, memory_format=contiguous_format)
                self.weight.copy_(init.kaiming_uniform_(drawn, a=math.sqrt(5)))
            if self.bias is not None:
                fan_in, _ = init.fans(self.weight)
                bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
                init.uniform_(self.bias, -bound, bound)

    def _conv_forward(self, input: Any, weight: Any, bias: Any) -> Any:
        conv = getattr(functional, f"conv{self.dims}d")
        if self.padding_mode == "zeros":
            return conv(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)
        padded = functional.pad(
            input, self._reversed_padding_repeated_twice, mode=self.padding_mode
        )
        nothing = (0,) * self.dims
        return conv(padded, weight, bias, self.stride, nothing, self.dilation, self.groups)

    def forward(self, input: Any) -> Any:
        return self._conv_forward(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        channels = f"{self.in_channels}, {self.out_channels}"
        parts = [f"{channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        if self.padding != (0,) * len(self.padding):
            parts.append(f"padding={self.padding}")
        if self.dilation != (1,) * len(self.dilation):
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != (0,) * len(self.output_padding):
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)


class _Conv(_ConvNd):
    """Base of ordinary convolutions."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        windows = (kernel_size, stride, padding, dilation)
        kind: Any = {"bias": bias, "padding_mode": padding_mode, "device": device, "dtype": dtype}
        super().__init__(in_channels, out_channels, *windows, False, 0, groups, **kind)


@with_own_constructor
class Conv1d(_Conv):
    dims = 1


@with_own_constructor
class Conv2d(_Conv):
    dims = 2


@with_own_constructor
class Conv3d(_Conv):
    dims = 3


class _ConvTransposeNd(_ConvNd):
    """Base of transposed convolutions."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(
                f'Only "zeros" padding mode is supported for {self.__class__.__name__}'
            )
        windows = (kernel_size, stride, padding, dilation)
        kind: Any = {"bias": bias, "padding_mode": padding_mode, "device": device, "dtype": dtype}
        super().__init__(in_channels, out_channels, *windows, True, output_padding, groups, **kind)

    def forward(self, input: Any, output_size: Any = None) -> Any:
        if self.padding_mode != "zeros":
            raise ValueError(f"Only `zeros` padding mode is supported for {self._get_name()}")
        more = self.output_padding if output_size is None else self._missing(input, output_size)
        conv = getattr(functional, f"conv_transpose{self.dims}d")
        return conv(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            more,
            self.groups,
            self.dilation,
        )

    def _missing(self, input: Any, output_size: Any) -> tuple[int, ...]:
        """Output padding needed to reach the requested size."""
        dims = self.dims
        others = 2 if input.dim() == dims + 2 else 1
        wanted = list(output_size)
        if len(wanted) == others + dims:
            wanted = wanted[others:]
        if len(wanted) != dims:
            raise ValueError(
                f"ConvTranspose{dims}D: for {input.dim()}D input, output_size must have {dims} or "
                f"{others + dims} elements (got {len(wanted)})"
            )
        least = [
            (input.size(dim + others) - 1) * self.stride[dim]
            - 2 * self.padding[dim]
            + self.dilation[dim] * (self.kernel_size[dim] - 1)
            + 1
            for dim in range(dims)
        ]
        most = [size + step - 1 for size, step in zip(least, self.stride, strict=True)]
        if any(not a <= n <= b for a, n, b in zip(least, wanted, most, strict=True)):
            asked = output_size if len(wanted) == len(output_size) else wanted
            raise ValueError(
                f"requested an output size of {asked}, but valid sizes range from {least} to "
                f"{most} (for an input of {input.size()[2:]})"
            )
        return tuple(n - a for n, a in zip(wanted, least, strict=True))


@with_own_constructor
class ConvTranspose1d(_ConvTransposeNd):
    dims = 1


@with_own_constructor
class ConvTranspose2d(_ConvTransposeNd):
    dims = 2


@with_own_constructor
class ConvTranspose3d(_ConvTransposeNd):
    dims = 3


class _LazyConvXdMixin(LazyModuleMixin):
    """Takes the number of channels from the first input."""

    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        *options: Any,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        **named: Any,
    ) -> None:
        place = 4  # position of `bias` after the first two arguments, transposed or not
        if len(options) > place:
            bias, options = options[place], (*options[:place], False, *options[place + 1 :])
        else:
            named["bias"] = False
        super().__init__(0, 0, kernel_size, *options, device=device, dtype=dtype, **named)
        module: Any = self
        module.weight = UninitializedParameter(device=device, dtype=dtype)
        module.out_channels = out_channels
        if bias:
            module.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        module: Any = self
        if not self.has_uninitialized_params() and module.in_channels:
            reset: Any = super()
            reset.reset_parameters()

    def initialize_parameters(self, input: Any, *args: Any, **kwargs: Any) -> None:
        module: Any = self
        if not self.has_uninitialized_params():
            return
        module.in_channels = self._get_in_channels(input)
        if module.in_channels % module.groups:
            raise ValueError("in_channels must be divisible by groups")
        for parameter, shape in (
            (module.weight, module._weight_shape()),
            (module.bias, (module.out_channels,)),
        ):
            if is_lazy(parameter):
                parameter.materialize(shape)
        module.reset_parameters()

    def _get_in_channels(self, input: Any) -> int:
        module: Any = self
        least = module.dims + 1
        if input.dim() not in (least, least + 1):
            raise RuntimeError(
                f"Expected {least}D (unbatched) or {least + 1}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {input.shape}"
            )
        return int(input.shape[input.dim() - least])


class LazyConv1d(_LazyConvXdMixin, Conv1d):
    cls_to_become = Conv1d


class LazyConv2d(_LazyConvXdMixin, Conv2d):
    cls_to_become = Conv2d


class LazyConv3d(_LazyConvXdMixin, Conv3d):
    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvXdMixin, ConvTranspose1d):
    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvXdMixin, ConvTranspose2d):
    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvXdMixin, ConvTranspose3d):
    cls_to_become = ConvTranspose3d
