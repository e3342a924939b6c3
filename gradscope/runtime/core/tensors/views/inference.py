"""Inference mode: tensors created inside have no graph and no version.

# Note [Inference tensors]
A tensor created in inference mode, and each of its views, has an `InferenceCounter`, which marks it
as an inference tensor. Only `.data` and `detach` can combine the data of one kind with the counter
of the other; the tensor's meta then decides. In inference mode `state.grad_enabled` is off whatever
grad mode is, so that no other check is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradscope.runtime.core.errors.engine import inference as errors
from gradscope.runtime.core.tensors.memory.storage import InferenceCounter, VersionCounter

if TYPE_CHECKING:
    from gradscope.runtime.core.tensors.tensor.autograd_meta import TensorFields


def is_inference(tensor: TensorFields) -> bool:
    """Whether a tensor was created in inference mode."""
    meta, versions = tensor._meta, tensor._versions
    if meta is not None and meta.is_inference is not None:
        return meta.is_inference
    return versions is not None and not versions.tracks


def mark(made: Any) -> None:
    """Make the results of an operation inference tensors, except for views of other tensors."""
    for tensor in made if isinstance(made, tuple | list) else (made,):
        if tensor is not None and tensor._versions is None:
            tensor._versions = InferenceCounter()


def take_data(tensor: TensorFields, data: TensorFields) -> None:
    """Assigning `.data` makes a tensor the kind of the new data; its counter stays."""
    inference = is_inference(data)
    if inference != is_inference(tensor):
        if tensor._versions is None:  # others read only existing counters
            tensor._versions = VersionCounter()
        tensor.meta().is_inference = inference


def refuse_saving(tensor: TensorFields) -> None:
    """Refuse to save an inference tensor: it may change without a new version."""
    if is_inference(tensor):
        raise errors.inference_saved(tensor)
    if not tensor._versions.tracks:  # type: ignore[union-attr]
        raise errors.inference_version(tensor)
