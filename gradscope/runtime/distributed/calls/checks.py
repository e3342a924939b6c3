"""Checks of arguments, with PyTorch's texts."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.distributed.groups import default_group, is_outside


def one_tensor(value: Any, name: str) -> None:
    """The value must be a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n"
            f"             but got {type(value)} instead."
        )


def several_tensors(value: Any, name: str) -> None:
    """The value must be a list of tensors."""
    if not isinstance(value, list) or not all(isinstance(each, Tensor) for each in value):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
            f"             but got {type(value)} instead."
        )


def left_out(group: Any, name: str) -> bool:
    """Whether this process is not in the group: then the call does nothing, and warns."""
    if not is_outside(group):
        return False
    warnings.warn(
        f"Running {name} on global rank {default_group().rank()} which does not belong to the "
        "given group.",
        stacklevel=4,
    )
    return True


def sizes(tensors: list[Any], like: Any, name: str) -> None:
    """All of these tensors must have the shape and the dtype of another one."""
    for at, each in enumerate(tensors):
        if each._array.dtype != like._array.dtype:
            raise RuntimeError(
                f"ProcessGroupGloo::{name}: invalid tensor type at index {at} (expected "
                f"{like.dtype}, got {each.dtype})"
            )
        if each._array.shape != like._array.shape:
            raise RuntimeError(
                f"ProcessGroupGloo::{name}: invalid tensor size at index {at} (expected "
                f"{_shown(like)}, got {_shown(each)})"
            )


def _shown(tensor: Any) -> str:
    return f"({', '.join(map(str, tensor._array.shape))})"


def flat(tensor: Any) -> Any:
    """The elements of a tensor in one dim: its own memory if it is contiguous, or a copy."""
    return np.ascontiguousarray(tensor._array).reshape(-1)


def put(tensor: Any, elements: Any) -> None:
    """Write elements back, unless they are the tensor's own memory."""
    array = tensor._array
    if not np.may_share_memory(array, elements):
        array[...] = elements.reshape(array.shape)
