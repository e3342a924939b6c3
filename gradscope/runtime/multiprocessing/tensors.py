"""How tensors go to another process: their numbers, and not all of what lies beside them."""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import Any

from gradscope.runtime.core.state.thread import ThreadState
from gradscope.runtime.core.tensors import copying
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.nn.parameter import Parameter


def _sent(tensor: Any) -> Any:
    """How a pickle for another process takes a tensor apart."""
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd "
            "does not support crossing process boundaries.  If you just want to transfer the "
            "data, call detach() on the tensor before serializing (e.g., putting it on the queue)."
        )
    if ThreadState.devices or type(tensor) is not Tensor or tensor.__dict__:
        return tensor.__reduce_ex__(2)
    return _received, (tensor._array.copy("K"), tensor.requires_grad)


def _received(array: Any, requires_grad: bool) -> Any:
    made = Tensor.from_array(array)
    return made.requires_grad_(True) if requires_grad else made


def send_tensors() -> None:
    """Let pipes and queues of `multiprocessing` send tensors so."""
    ForkingPickler.register(Tensor, _sent)
    ForkingPickler.register(Parameter, copying.reduce_parameter)
