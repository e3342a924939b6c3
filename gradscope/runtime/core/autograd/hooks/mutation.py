"""`allow_mutation_on_saved_tensors`: saved tensors are copied before they are modified."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

from gradscope.runtime.core.autograd.hooks.saving import saved_tensors_hooks
from gradscope.runtime.core.errors.engine import saved_values as errors
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors.memory.storage import root_of
from gradscope.runtime.core.tensors.saved.saved_variable import version_of
from gradscope.runtime.core.tensors.wrapping import wrap


class _Handle:
    """A saved tensor, and a copy from before its first modification."""

    __slots__ = ("__weakref__", "array", "copy", "tensor", "version")

    def __init__(self, tensor: Any) -> None:
        self.array = tensor._array
        self.version = version_of(tensor)
        self.tensor: Any = tensor.detach()  # the tensor itself would reference its node
        self.copy: Any = None


class _AllowMutationOnSavedContext:
    """Tensors saved in the block, and copies of those modified since.

    Every write to the memory of a saved tensor counts, through any view.
    """

    def __init__(self) -> None:
        self._saved: defaultdict[int, WeakSet[_Handle]] = defaultdict(WeakSet)
        self._open = True

    @property
    def original(self) -> dict[_Handle, Any]:
        """Saved tensors that were not modified."""
        return {handle: handle.tensor for handle in self._handles() if handle.copy is None}

    @property
    def cloned(self) -> dict[_Handle, Any]:
        """Copies of those that were modified."""
        return {handle: handle.copy for handle in self._handles() if handle.copy is not None}

    @property
    def tid_to_weakhandle(self) -> dict[tuple[int, int], Any]:
        """All saved tensors by id and version."""
        return {(id(handle.array), handle.version): handle for handle in self._handles()}

    def _handles(self) -> list[_Handle]:
        return [handle for handles in self._saved.values() for handle in handles]

    def pack(self, tensor: Any) -> _Handle:
        known = self._saved[_memory(tensor)]
        version = version_of(tensor)
        for handle in known:
            if handle.array is tensor._array and handle.version == version:
                return handle
        made = _Handle(tensor)
        known.add(made)
        return made

    def unpack(self, handle: _Handle) -> Any:
        if not self._open:
            raise errors.mutation_outside()
        return handle.tensor if handle.copy is None else handle.copy

    def before_write(self, target: Any) -> None:
        """Copy saved tensors whose memory is about to be modified."""
        for handle in self._saved.get(_memory(target), ()):
            if handle.copy is None:
                handle.copy = wrap(handle.array.copy())

    def clear(self) -> None:
        self._saved.clear()


def _memory(tensor: Any) -> int:
    """The identity of a tensor's memory, which a saved tensor keeps alive."""
    return id(root_of(tensor._array))


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[_AllowMutationOnSavedContext]:
    """Allow in-place writes to saved tensors: backward uses the values from before."""
    state = local.state
    context = _AllowMutationOnSavedContext()
    with saved_tensors_hooks(context.pack, context.unpack):
        if state.keeper is not None:
            raise errors.mutation_nested()
        state.keeper = context
        try:
            yield context
        finally:
            state.keeper = None
            context._open = False
            context.clear()
