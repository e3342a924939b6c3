"""PyTorch's errors for arrays whose dtype is not supported; the caller raises them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.runtime.core.dtypes.names import c_type, scalar_name


def unknown_dtype(kernel: str, array: np.ndarray[Any, Any]) -> NotImplementedError:
    """The error for a dtype that a kernel does not support."""
    return NotImplementedError(f"\"{kernel}\" not implemented for '{scalar_name(array)}'")


def other_dtype(expected: str, array: np.ndarray[Any, Any]) -> RuntimeError:
    """The error for a dtype other than the one with this scalar name."""
    return RuntimeError(f"expected scalar type {expected} but found {scalar_name(array)}")


def unlike_dtypes(name: str, array: np.ndarray[Any, Any], mat2: Any) -> RuntimeError:
    """The error for an operand whose dtype differs from that of the second matrix."""
    kinds = f"{scalar_name(array)} and {scalar_name(mat2)}"
    return RuntimeError(f"{name} and mat2 must have the same dtype, but got {kinds}")


def unlike_three(array: np.ndarray[Any, Any], mat: Any, vec: Any) -> RuntimeError:
    """The error for an added array, a matrix and a vector of different dtypes."""
    kinds = f"{scalar_name(array)}, {scalar_name(mat)}, and {scalar_name(vec)}"
    return RuntimeError(f"addmv input tensors must have the same dtype, but got {kinds}")


def overflow(array: np.ndarray[Any, Any]) -> RuntimeError:
    """The error for a number that the array's dtype cannot represent."""
    return RuntimeError(f"value cannot be converted to type {c_type(array)} without overflow")
