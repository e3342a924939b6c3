"""`torch.autograd.graph`: nodes and edges by name, hooks on what is saved and on many tensors."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import WeakSet, ref

import numpy as np

from gradscope.runtime.autograd.node import Node
from gradscope.runtime.errors import saved_values as errors
from gradscope.runtime.errors.hooks import multi_hook_mode
from gradscope.runtime.errors.starting import edge_without_grad
from gradscope.runtime.removable import RemovableHandle
from gradscope.runtime.state import local
from gradscope.runtime.storage import VersionCounter
from gradscope.runtime.tensor import Tensor

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class GradientEdge(NamedTuple):
    """The place in the graph where a tensor's gradient arrives, without the tensor."""

    node: Node
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """The edge of a tensor's gradient, to be given to `grad` or `backward` in its place."""
    if not tensor.requires_grad:
        raise edge_without_grad(tensor)
    node, nr = tensor.gradient_edge()
    return GradientEdge(node, nr)


class saved_tensors_hooks:  # noqa: N801  (PyTorch's names, here and below)
    """What is saved for backward inside goes through `pack_hook`, and out by `unpack_hook`."""

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        state = local.state
        if state.disabled_saved_hooks is not None:
            raise errors.saved_hooks_disabled(state.disabled_saved_hooks)
        state.saved_hooks.append((self.pack_hook, self.unpack_hook))
        state.refresh()

    def __exit__(self, *error: object) -> None:
        state = local.state
        state.saved_hooks.pop()
        state.refresh()


class save_on_cpu(saved_tensors_hooks):  # noqa: N801
    """Keep what is saved in host memory: here a copy, since all memory is the host's."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: Any) -> Any:
            return tensor.device, tensor.clone()

        def unpack(packed: Any) -> Any:
            return packed[1]

        super().__init__(pack, unpack)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Refuse saved-tensor hooks inside, with this message."""
    state = local.state
    if state.saved_hooks:
        raise errors.saved_hooks_disabled(error_message)
    before = state.disabled_saved_hooks
    state.disabled_saved_hooks = error_message
    try:
        yield
    finally:
        state.disabled_saved_hooks = before


def increment_version(tensor: Any) -> None:
    """Count a write that was not made by an operation; for a tensor or several."""
    for each in (tensor,) if isinstance(tensor, Tensor) else tensor:
        if each._versions is None:
            each._versions = VersionCounter()
        each._versions.value += 1


# -- hooks on many tensors ------------------------------------------------------------------------


class _Handles(RemovableHandle):
    """Several handles that are removed together."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __getstate__(self) -> Any:
        return self.handles

    def __setstate__(self, state: Any) -> None:
        self.handles = state


def register_multi_grad_hook(
    tensors: Sequence[Any], fn: Callable[..., Any], *, mode: str = "all"
) -> RemovableHandle:
    """Call `fn` once a backward has brought all gradients of `tensors` it will bring (or any)."""
    if mode not in ("all", "any"):
        raise multi_hook_mode(mode)
    if mode == "any":
        return _on_first(tensors, fn)
    return _on_all(tensors, fn)


def _on_all(tensors: Sequence[Any], fn: Callable[..., Any]) -> RemovableHandle:
    counts: defaultdict[Any, int] = defaultdict(int)
    expected: dict[Any, int] = {}
    grads: dict[Any, list[Any]] = {}
    lock = threading.Lock()
    nodes = [tensor.gradient_edge()[0] for tensor in tensors]

    def arrival(index: int) -> Callable[[Any], None]:
        def arrived(grad: Any) -> None:
            task = _running()
            with lock:
                if task not in expected:
                    expected[task] = sum(_will_run(task, node) for node in nodes)
                    grads[task] = [None] * len(tensors)
                grads[task][index] = grad
                counts[task] += 1
                complete = counts[task] == expected[task]
                found = grads[task]
                if complete:
                    del counts[task], expected[task], grads[task]
            if complete:
                fn(found)

        return arrived

    return _Handles([tensor.register_hook(arrival(i)) for i, tensor in enumerate(tensors)])


def _on_first(tensors: Sequence[Any], fn: Callable[..., Any]) -> RemovableHandle:
    lock = threading.Lock()
    last: list[Any] = [None]

    def arrived(grad: Any) -> None:
        task = _running()
        with lock:
            before, last[0] = last[0], ref(task)
        if before is None or before() is not task:
            fn(grad)

    return _Handles([tensor.register_hook(arrived) for tensor in tensors])


def _running() -> Any:
    task = local.state.task
    assert task is not None, "a tensor hook runs only inside a backward"
    return task


def _will_run(task: Any, node: Node) -> bool:
    """Whether a backward reaches a node and wants it."""
    if task.exec_info is not None:
        entry = task.exec_info.get(node)
        return entry is not None and entry.should_execute()
    return node in task.dependencies or node in task.graph_roots


# -- writing to what is saved ---------------------------------------------------------------------


class _Kept:
    """A saved tensor, and the copy that was made when it was first written to."""

    __slots__ = ("__weakref__", "copy", "tensor")

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        self.copy: Any = None


class _Keeper:
    """Copies saved tensors before they are written to."""

    def __init__(self) -> None:
        self.saved: defaultdict[int, WeakSet[_Kept]] = defaultdict(WeakSet)
        self.open = True

    def pack(self, tensor: Any) -> _Kept:
        kept = _Kept(tensor)
        self.saved[_memory(tensor)].add(kept)
        return kept

    def unpack(self, kept: _Kept) -> Any:
        if not self.open:
            raise errors.mutation_outside()
        return kept.tensor if kept.copy is None else kept.copy

    def before_write(self, target: Any) -> None:
        for kept in self.saved.pop(_memory(target), ()):
            kept.copy = Tensor.from_array(kept.tensor._array.copy())


def _memory(tensor: Any) -> int:
    """Which memory a tensor lies in; a saved tensor keeps it alive."""
    array = tensor._array
    while isinstance(array.base, np.ndarray):
        array = array.base
    return id(array)


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[_Keeper]:
    """Let what is saved inside be written to: backward sees it as it was when it was saved."""
    state = local.state
    if state.keeper is not None:
        raise errors.mutation_nested()
    keeper = _Keeper()
    with saved_tensors_hooks(keeper.pack, keeper.unpack):
        state.keeper = keeper
        try:
            yield keeper
        finally:
            state.keeper = None
            keeper.open = False
            keeper.saved.clear()
