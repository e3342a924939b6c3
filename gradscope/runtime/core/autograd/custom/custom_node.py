"""The node of a custom function: also its ctx, and the caller of its backward."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np

from gradscope.runtime.core import probe
from gradscope.runtime.core.devices.devices import CPU
from gradscope.runtime.core.errors.engine import custom_functions, returned as errors, saved_values
from gradscope.runtime.core.graph.node import Node, device_of
from gradscope.runtime.core.state.thread import ThreadState
from gradscope.runtime.core.tensors.placement import wrapped_on
from gradscope.runtime.core.tensors.saved.saved_attributes import raw_saved_value
from gradscope.runtime.core.tensors.saved.saved_variable import freed, tell_reading, unpack_tensor
from gradscope.runtime.core.tensors.tensor.tensor import Tensor


class FunctionCtx:
    """The ctx of a custom function: what forward stores for backward."""

    to_save: tuple[Any, ...] | None = None
    saved_for_forward: tuple[Any, ...] | None = None
    dirty_tensors: tuple[Any, ...] | None = None
    non_differentiable: tuple[Any, ...] | None = None
    needs_input_grad: tuple[bool, ...] = ()
    _materialize_grads = True
    _materialize_non_diff_grads = True

    @property
    def materialize_grads(self) -> bool:
        """Whether backward receives zeros for undefined gradients."""
        return self._materialize_grads

    @materialize_grads.setter
    def materialize_grads(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise custom_functions.materialize_type(value)
        self._materialize_grads = value

    def save_for_backward(self, *tensors: Any) -> None:
        """Save these tensors (inputs, outputs or None) for backward, as `saved_tensors`."""
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Save these tensors for `jvp`, as `saved_tensors`."""
        if not all(tensor is None or isinstance(tensor, Tensor) for tensor in tensors):
            raise custom_functions.save_for_forward_type()
        self.saved_for_forward = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        """Mark inputs that forward modified in place."""
        self.dirty_tensors = tensors

    def mark_shared_storage(self, *pairs: Any) -> None:
        """Deprecated, does nothing: shared memory is detected."""
        warnings.warn(
            "`mark_shared_storage` is deprecated. Tensors with shared storages are automatically "
            "tracked. Note that calls to `set_()` are not tracked",
            FutureWarning,
            stacklevel=2,
        )

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Mark outputs that are not differentiable."""
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Choose whether backward receives zeros, or None, for undefined gradients."""
        self.materialize_grads = value


class BackwardCFunction(Node, FunctionCtx):
    """The node of one call of a custom function; also the `ctx` of its forward and backward.

    `output_info` holds (shape, dtype) of every output that is a tensor, differentiable or not.
    """

    _forward_cls: ClassVar[Any]
    _autograd_function_id: ClassVar[int]
    written_by_user: ClassVar[bool] = True
    output_info: Sequence[Any] = ()
    is_tensor_input: Sequence[bool] = ()
    requires_grad = True
    _cleared = False

    def apply(self, *grads: Any) -> Any:
        """Call the user's backward."""
        cls = self._forward_cls
        return cls.chosen_backward()(self, *([list(grads)] if cls.boxed_grads_call else grads))

    def __call__(self, *grads: Any) -> Any:
        raise TypeError(f"'{type(self).__name__}' object is not callable")

    def run_arrays(self, grads: Sequence[Any]) -> Sequence[Any]:
        where = device_of(self)
        given = [None if grad is None else wrapped_on(grad, where) for grad in grads]
        return [None if grad is None else grad._array for grad in self.run_tensors(given)]

    def run_tensors(self, grads: Sequence[Any]) -> Sequence[Any]:
        given = self._materialized(grads) if self._materialize_grads else grads
        look = None if probe.here is None else probe.here.look
        if look is None:
            return self._checked(self.apply(*given))
        look.handed(self, given)
        returned = self._checked(self.apply(*given))
        look.returned(self, returned)
        return returned

    def _materialized(self, grads: Sequence[Any]) -> list[Any]:
        where = device_of(self)
        return [
            wrapped_on(np.zeros(*info), where) if grad is None and info is not None else grad
            for grad, info in zip(grads, self.output_info, strict=True)
        ]

    def _checked(self, returned: Any) -> list[Any]:
        """One gradient, or None, for each input that is a tensor."""
        results = returned if isinstance(returned, tuple) else (returned,)
        wanted = len(self.is_tensor_input)
        if all(surplus is None for surplus in results[wanted:]):
            results = results[:wanted]
        if len(results) != wanted:
            raise errors.gradient_count(self, wanted, len(results))
        if ThreadState.devices:
            self._check_devices(results)
        return [
            self._gradient(result) if is_tensor else self._no_gradient(position)
            for position, (result, is_tensor) in enumerate(
                zip(results, self.is_tensor_input, strict=True)
            )
            if is_tensor or result is not None
        ]

    def _check_devices(self, results: Sequence[Any]) -> None:
        """Refuse gradients on another device than their input."""
        tensors = itertools.compress(results, self.is_tensor_input)
        for index, (grad, (node, _)) in enumerate(zip(tensors, self.next_functions, strict=False)):
            if node is None or not isinstance(grad, Tensor):
                continue
            wanted = device_of(node) or CPU
            if grad.device != wanted and grad._array.ndim:
                raise errors.gradient_device(self, index, grad.device, wanted)

    def _no_gradient(self, position: int) -> NoReturn:
        raise errors.gradient_for_no_tensor(self, position + 1)

    def _gradient(self, result: Any) -> Any:
        if result is None or isinstance(result, Tensor):
            return result
        raise errors.gradient_type(self, result)

    def release_variables(self) -> None:
        self._saved = None

    @property
    def slots(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(f"saved_tensors[{i}]" for i in range(len(self._saved or ())))

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The saved tensors. Raises once they are released."""
        if self.saved_for_forward is not None:
            return self.saved_for_forward
        kept = self._kept()
        for slot, value in enumerate(kept):
            tell_reading(self, value, slot)
        found = tuple(unpack_tensor(self, value, i) for i, value in enumerate(kept))
        if self._forward_cls.clear_saved_tensors_on_access:
            self._cleared, self._saved = True, (None,) * len(kept)
        return found

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        warnings.warn(
            "'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2
        )
        return self.saved_tensors

    @property
    def _raw_saved_tensors(self) -> tuple[Any, ...]:
        if self._saved is None:
            freed(self)
        return (
            ()
            if self._cleared
            else tuple(raw_saved_value(self, place) for place in range(len(self._saved)))
        )

    def _kept(self) -> tuple[Any, ...]:
        if self._cleared:
            raise saved_values.saved_read_once(self)
        if self._saved is None:
            freed(self)
        return self._saved

    def __dir__(self) -> list[str]:
        return sorted(object.__dir__(self))
