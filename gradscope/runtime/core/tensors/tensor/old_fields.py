"""Old attributes of tensors: what may be assigned, and the errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradscope.runtime.core.state.warned import warn
from gradscope.runtime.core.tensors.tensor.autograd_meta import AutogradMeta


class OldFields:
    """The part of `Tensor` with the hook dicts, `_grad_fn` and `volatile`."""

    __slots__ = ()

    _meta: AutogradMeta | None
    meta: Callable[[], AutogradMeta]

    grad: Any

    @property
    def _grad(self) -> Any:
        return None if self._meta is None else self._meta.grad

    @_grad.setter
    def _grad(self, value: Any) -> None:
        self.grad = value

    @property
    def _grad_fn(self) -> Any:
        return self.grad_fn  # type: ignore[attr-defined]

    @_grad_fn.setter
    def _grad_fn(self, value: None) -> None:
        if value is not None:
            raise RuntimeError("_grad_fn can be only set to None")
        self.detach_()  # type: ignore[attr-defined]

    @_grad_fn.deleter
    def _grad_fn(self) -> None:
        raise RuntimeError("Deletion of _grad_fn not allowed. Detach tensor instead!")

    @property
    def _backward_hooks(self) -> Any:
        return None if self._meta is None else self._meta.hooks

    @_backward_hooks.setter
    def _backward_hooks(self, hooks: Any) -> None:
        self.meta().hooks = hooks

    @_backward_hooks.deleter
    def _backward_hooks(self) -> None:
        raise RuntimeError("Deletion of _backwards_hooks not allowed!")

    @property
    def _post_accumulate_grad_hooks(self) -> Any:
        return None if self._meta is None else self._meta.post_accumulate_hooks

    @_post_accumulate_grad_hooks.setter
    def _post_accumulate_grad_hooks(self, hooks: Any) -> None:
        self.meta().post_accumulate_hooks = hooks

    @_post_accumulate_grad_hooks.deleter
    def _post_accumulate_grad_hooks(self) -> None:
        raise RuntimeError("Deletion of _post_accumulate_grad_hooks not allowed!")

    @property
    def volatile(self) -> bool:
        warn("volatile was removed (Variable.volatile is always False)")
        return False

    @volatile.setter
    def volatile(self, value: Any) -> None:
        warn("volatile was removed and now has no effect. Use `with torch.no_grad():` instead.")
