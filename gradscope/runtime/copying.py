"""deepcopy and pickle of tensors."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.devices import CPU
from gradscope.runtime.placement import wrapped_on


def deep_copy(tensor: Any, memo: dict[int, Any]) -> Any:
    """A copy with its own memory; only leaves can be copied."""
    if not tensor.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
            "protocol at the moment.  If you were attempting to deepcopy a module, this may be "
            "because of a torch.nn.utils.weight_norm usage, see "
            "https://github.com/pytorch/pytorch/pull/103001"
        )
    from copy import deepcopy

    if id(tensor) in memo:
        return memo[id(tensor)]
    array = tensor._array.copy(order="K")
    made = rebuild(type(tensor), array, tensor.requires_grad, tensor.device)
    memo[id(tensor)] = made
    if tensor._meta is not None and tensor._meta.grad is not None:
        made.grad = deepcopy(tensor._meta.grad, memo)
    made.__dict__.update(deepcopy(tensor.__dict__, memo))
    return made


def rebuild(cls: Any, array: Any, requires_grad: bool, where: Any = None) -> Any:
    """A leaf of this class around an array."""
    from gradscope.runtime.tensor import alias_of

    made = alias_of(wrapped_on(array, where), cls)
    if requires_grad:
        made.requires_grad_(True)
    return made


def reduce(tensor: Any) -> Any:
    """How pickle takes a tensor apart; what had a history comes back as a leaf."""
    where = None if tensor.device is CPU else tensor.device
    return rebuild, (type(tensor), tensor._array.copy(), tensor.requires_grad, where)
