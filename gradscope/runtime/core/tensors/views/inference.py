"""Inference mode: what is made inside records no history and counts no writes.

# Note [Inference tensors]
A tensor made in inference mode has an `InferenceCounter` for its counter of writes, and so have its
views: a tensor's counter says whether it is one. Only `.data` and `detach` can give a tensor the
data of one kind and the counter of the other; its meta then says which it is.
Inside, `state.grad_enabled` is off whatever grad mode says, so that nothing else has to ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradscope.runtime.core.errors.engine import inference as errors
from gradscope.runtime.core.tensors.memory.storage import InferenceCounter, VersionCounter

if TYPE_CHECKING:
    from gradscope.runtime.core.tensors.tensor.autograd_meta import TensorFields


def is_inference(tensor: TensorFields) -> bool:
    """Whether a tensor was made in inference mode."""
    meta, versions = tensor._meta, tensor._versions
    if meta is not None and meta.is_inference is not None:
        return meta.is_inference
    return versions is not None and not versions.tracks


def mark(made: Any) -> None:
    """Make inference tensors of what an operation made, but for views of other tensors."""
    for tensor in made if isinstance(made, tuple | list) else (made,):
        if tensor is not None and tensor._versions is None:
            tensor._versions = InferenceCounter()


def take_data(tensor: TensorFields, data: TensorFields) -> None:
    """A tensor that is given another's data is of that kind now, and keeps its counter."""
    inference = is_inference(data)
    if inference != is_inference(tensor):
        if tensor._versions is None:  # others look only at counters that are there
            tensor._versions = VersionCounter()
        tensor.meta().is_inference = inference


def refuse_saving(tensor: TensorFields) -> None:
    """An inference tensor may change without being counted, so that backward cannot trust it."""
    if is_inference(tensor):
        raise errors.inference_saved(tensor)
    if not tensor._versions.tracks:  # type: ignore[union-attr]
        raise errors.inference_version(tensor)
