"""Methods that change a whole module: mode, dtype, device, requires_grad."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

from gradscope.runtime.core.autograd.modes.grad_mode import no_grad
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.ops.pointwise.conversion import available
from gradscope.runtime.core.tensors.making.factories import empty_like
from gradscope.runtime.core.tensors.to_arguments import wanted_of
from gradscope.runtime.nn.parameter import Parameter


class Conversion:
    """Methods that act on all parts of a module at once."""

    training: bool

    def children(self) -> Iterator[Any]:
        raise NotImplementedError

    def parameters(self, recurse: bool = True) -> Iterator[Any]:
        raise NotImplementedError

    def train(self, mode: bool = True) -> Self:
        """Set this module and all submodules to training mode, or to evaluation mode."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients of all parameters to None, or to zero."""
        for param in self.parameters():
            grad = param.grad
            if grad is None:
                continue
            if set_to_none:
                param.grad = None
                continue
            if grad.grad_fn is not None:
                grad.detach_()
            else:
                grad.requires_grad_(False)
            grad.zero_()

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> Self:
        """Replace all parameters, gradients and buffers by `fn` of them."""
        own = self.__dict__
        for module in self.children() if recurse else ():
            module._apply(fn)
        for name, param in own["_parameters"].items():
            if param is None:
                continue
            with no_grad():
                made = fn(param)
                if made.is_meta != param.is_meta:  # one cannot become the other
                    own["_parameters"][name] = Parameter(made, param.requires_grad)
                    continue
                param.data = made
                if param.grad is not None:
                    kept = param.grad.requires_grad
                    param.grad = fn(param.grad).requires_grad_(kept)
        for name, buffer in own["_buffers"].items():
            if buffer is not None:
                own["_buffers"][name] = fn(buffer)
        return self

    def to(self, *wanted: Any, dtype: Any = None, device: Any = None, **options: Any) -> Self:
        """Move all parts to this device, and those of floating point to this dtype."""
        found = wanted_of(wanted, {"dtype": dtype, "device": device, **options})
        device, dtype = found[:2]
        where = None if device is None else available(device)
        if dtype is None:
            return self if where is None else self._apply(lambda t: t.to(where))
        if not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype={dtype}"
            )
        return self._apply(lambda t: t.to(where, dtype if _is_inexact(t) else None))

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move all parts to this device without copying: their memory is not initialized."""
        return self._apply(lambda t: empty_like(t, device=device), recurse)

    def _cast(self, dtype: dtypes.dtype) -> Self:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self) -> Self:
        return self._cast(dtypes.float32)

    def double(self) -> Self:
        return self._cast(dtypes.float64)

    def half(self) -> Self:
        return self._cast(dtypes.float16)

    def bfloat16(self) -> Self:
        return self._cast(dtypes.bfloat16)

    def type(self, dst_type: Any) -> Self:
        return self._apply(lambda t: t.type(dst_type))

    def share_memory(self) -> Self:
        """Move parameters and buffers to memory shared with forked processes."""
        return self._apply(lambda t: t.share_memory_())

    def cpu(self) -> Self:
        return self._apply(lambda t: t.cpu())

    def cuda(self, device: Any = None) -> Self:
        raise AssertionError("Torch not compiled with CUDA enabled")

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: a compiled module could not be watched."""


def _is_inexact(tensor: Any) -> bool:
    return bool(tensor.is_floating_point() or tensor.is_complex())
