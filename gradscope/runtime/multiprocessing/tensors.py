"""How tensors are sent to another process.

A tensor in shared memory (`share_memory_()`) is sent as that memory: writes are visible to both. Of
other tensors the values are sent, but not the rest of their storage. (PyTorch moves every sent
tensor into shared memory, including the sender's.)
"""

from __future__ import annotations

import os
import weakref
from multiprocessing.context import get_spawning_popen
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any

from gradscope.runtime.core.state.thread import ThreadState
from gradscope.runtime.core.tensors.memory.shared import Mapping, mapping_of, received
from gradscope.runtime.core.tensors.memory.storage import elements, offset_of, strided
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.nn import parameter
from gradscope.runtime.nn.parameter import Parameter


def _sent(tensor: Any) -> Any:
    """How tensors are reduced in a pickle for another process."""
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd "
            "does not support crossing process boundaries.  If you just want to transfer the "
            "data, call detach() on the tensor before serializing (e.g., putting it on the queue)."
        )
    mapping = mapping_of(tensor._array)
    if isinstance(mapping, Mapping) and type(tensor) is Tensor:
        return _sent_shared(tensor, mapping)
    if ThreadState.devices or type(tensor) is not Tensor or tensor.__dict__:
        return tensor.__reduce_ex__(2)
    return _received, (tensor._array.copy("K"), tensor.requires_grad)


def _sent_shared(tensor: Any, mapping: Mapping) -> Any:
    array, storage = tensor._array, tensor.untyped_storage()
    where = array.shape, elements(array), offset_of(array, storage)
    memory = DupFd(_to_hand_on(mapping.descriptor)), storage.nbytes()
    return _received_shared, (*memory, array.dtype, *where, tensor.requires_grad)


def _to_hand_on(descriptor: int) -> int:
    """A new process reads each descriptor once, after this has returned."""
    starting = get_spawning_popen()
    if starting is None:
        return descriptor
    copy = os.dup(descriptor)
    weakref.finalize(starting, os.close, copy)
    return copy


def _received_shared(
    sent: Any,
    size: int,
    dtype: Any,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    offset: int,
    requires_grad: bool,
) -> Any:
    storage = received(sent.detach(), size)
    made = Tensor.from_array(strided(storage, dtype, shape, strides, offset))
    return made.requires_grad_(True) if requires_grad else made


def _received(array: Any, requires_grad: bool) -> Any:
    made = Tensor.from_array(array)
    return made.requires_grad_(True) if requires_grad else made


def send_tensors() -> None:
    """Register the reductions with `multiprocessing`."""
    ForkingPickler.register(Tensor, _sent)
    ForkingPickler.register(Parameter, parameter.reduce)
