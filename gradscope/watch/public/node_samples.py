"""Copies what nodes receive, keep and return, so that their gradients can be computed again.

# Note [What is copied]
Before a sampled node runs, its incoming gradients and saved values are copied; after it, the
gradients that it returned, before hooks of the program replace them. Copies are NumPy arrays, made
by reading memory: no operation is called, random numbers stay as they are, and nothing of the
program is kept alive. Saved values that a hook has packed are not unpacked: that may run code of
the program. A tensor on a device is copied to the host, which waits for the device.
"""

from __future__ import annotations

import threading
from collections import Counter
from functools import cache
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gradscope.watch.in_place.node_runs import CopiedRun, NodeArray, RowShares
from gradscope.watch.public.looks import INTEGERS
from gradscope.watch.public.row_shares import SAVED_ROWS, row_shares
from gradscope.watch.public.run_again import called_again
from gradscope.watch.unseen import unseen
from gradscope.watch.values.arrays import numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gradscope.watch.public.arrivals import HookedNode

MOST = 256 << 20
"""Number of bytes that all copies of a recording may take."""

COMPILED = "CompiledFunctionBackward"
"""Begin of the names of nodes that a compiler has generated."""

COMPARED = 16
"""Number of gradients of a hook that are compared with what replaced them; others are counted."""

PLAIN = (type(None), bool, int, float, str)
"""Options of nodes that are stored as they are."""

PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter)

UNSIGNED = 1 << 64
"""PyTorch shows a negative option of a node as an unsigned number."""

CUSTOM, REGION, PACKED, UNREAD, ROOM = (
    "a custom Function",
    "a compiled region",
    "a hook packed what it saved",
    "its tensors are not plain arrays of real numbers",
    "no more room for copies",
)
OTHER = object()
"""Replaces a saved value that is neither a tensor nor a number nor a text."""


class NotCopied(Exception):  # noqa: N818 -- it is an answer
    """A node whose values cannot be copied, and why."""


class HookChange:
    """What the hooks of one line of the program did to gradients."""

    __slots__ = ("compared", "kind", "off", "site", "times", "when")

    def __init__(self, kind: str, site: int) -> None:
        self.kind = kind
        self.site = site
        self.compared = 0  # number of pairs that were compared
        self.when = 0  # number of times that it replaced a gradient by another one
        self.times = float("nan")  # the factor, if the first change was one
        self.off = 0.0  # norm of the first change, relative to the gradient


def _differ(one: NodeArray | None, other: NodeArray | None) -> bool:
    """Whether two gradients of one form have other bits."""
    if one is None or other is None or one.dtype != other.dtype:
        return False
    first, second = one.values, other.values
    return bool(first.shape == second.shape and first.tobytes() != second.tobytes())


@cache
def _slots(kind: Any) -> list[tuple[str, str]]:
    """What a kind of node saves: the name of each slot, and of the attribute that shows it."""
    names = set(dir(kind))
    return [
        (name.removeprefix("_saved_"), f"_raw{name}" if f"_raw{name}" in names else name)
        for name in sorted(names)
        if name.startswith("_saved_")
    ]


class NodeSamples:
    """Copies of nodes that `due` chooses, by kind, line and shapes of what arrives."""

    def __init__(
        self,
        due: Callable[[str, tuple[Any, ...]], bool],
        shares: Callable[[int, int, RowShares], object],
        most: int = MOST,
    ) -> None:
        self._due = due
        self._shares = shares  # called with node, line and largest rows
        self._room = most
        self._here = threading.local()  # the sample whose node runs on this thread
        self.all: list[CopiedRun] = []
        self.without: Counter[tuple[str, str]] = Counter()
        """Runs that were not copied, by kind and reason."""
        self.changes: dict[int, HookChange] = {}  # by line
        self.spent = 0  # nanoseconds

    def begins(self, hooked: HookedNode, grads: Sequence[Any]) -> None:
        """A node is about to run, with these gradients."""
        self._here.sample = None
        node = None if hooked.leaf is not None else torch._C._current_autograd_node()
        if node is None:
            return
        began = perf_counter_ns()
        kind = node.name()
        shapes = tuple(None if each is None else tuple(each.shape) for each in grads)
        if self._due(kind, (hooked.site, shapes)):
            if kind in SAVED_ROWS and grads[0] is not None:
                self._tell_shares(hooked, getattr(node, f"_raw_saved_{SAVED_ROWS[kind]}"), grads[0])
            sample = CopiedRun(kind, hooked.number, hooked.site)
            try:
                self._copy(node, sample, grads)
            except NotCopied as why:
                self.without[kind, str(why)] += 1
            else:
                self._here.sample, self._here.again = sample, self._again(node, grads)
        self.spent += perf_counter_ns() - began

    def returns(self, returned: Sequence[Any]) -> None:
        """The node has run: called before the first hook of the program that sees the result."""
        sample, self._here.sample = getattr(self._here, "sample", None), None
        if sample is None:
            return
        began = perf_counter_ns()
        try:
            sample.returned = [self._array(each) for each in returned]
        except NotCopied as why:
            self.without[sample.kind, str(why)] += 1
        else:
            pairs = zip(sample.returned, self._here.again, strict=False)
            sample.unsteady = any(_differ(one, other) for one, other in pairs)
            self.all.append(sample)
        self._here.again = ()
        self.spent += perf_counter_ns() - began

    def _tell_shares(self, hooked: HookedNode, saved: Any, grad: Any) -> None:
        """Report the rows with the largest parts of the gradient of a weight."""
        try:
            matrix = None if saved.unpack_hook is not None else saved.data
        except RuntimeError:  # released
            return
        if type(matrix) not in PLAIN_TENSORS:
            return
        matrix, arrived = numbers(matrix), numbers(grad)
        found = None if matrix is None or arrived is None else row_shares(matrix, arrived)
        if found is not None:
            self._shares(hooked.number, hooked.site, found)

    def _again(self, node: Any, grads: Sequence[Any]) -> list[NodeArray | None]:
        """Copies of what the node returns if it is called again, as long as they are compared."""
        room = self._room
        try:
            return [self._array(each) for each in called_again(node, grads)]
        except NotCopied:
            return []
        finally:
            self._room = room

    def _copy(self, node: Any, sample: CopiedRun, grads: Sequence[Any]) -> None:
        if isinstance(node, torch._C._FunctionBase):
            raise NotCopied(REGION if sample.kind.startswith(COMPILED) else CUSTOM)
        sample.grads = [self._array(each) for each in grads]
        try:
            sample.shapes = [tuple(each.shape) for each in node._input_metadata]
            self._copy_saved(node, sample)
        except RuntimeError:  # nested, or released
            raise NotCopied(UNREAD) from None

    def _copy_saved(self, node: Any, sample: CopiedRun) -> None:
        kind: Any = type(node)
        for slot, name in _slots(kind):
            value = self._saved(getattr(node, name))
            if value is not OTHER:  # a formula that needs it will not find it
                sample.saved[slot] = value

    def _saved(self, value: Any) -> Any:
        if isinstance(value, torch._C._autograd.SavedTensor):
            if value.unpack_hook is not None:
                raise NotCopied(PACKED)
            return self._array(value.data)
        if isinstance(value, tuple | list):
            return [self._saved(each) for each in value]
        if type(value) is torch.Tensor:
            return self._array(value)
        if type(value) is int and value >= UNSIGNED >> 1:
            return value - UNSIGNED
        return value if type(value) in PLAIN else OTHER

    def _array(self, tensor: Any) -> NodeArray | None:
        """A copy of a tensor's values."""
        if tensor is None:
            return None
        if type(tensor) not in PLAIN_TENSORS or tensor.is_complex():
            raise NotCopied(UNREAD)
        size = tensor.numel() * tensor.element_size()
        if size > self._room:
            raise NotCopied(ROOM)
        with unseen():
            if tensor.device.type not in ("cpu", "meta") and tensor.layout is torch.strided:
                with torch.no_grad():
                    tensor = tensor.detach().cpu()
            array = numbers(tensor, INTEGERS)
        if array is None:
            raise NotCopied(UNREAD)
        self._room -= size
        return NodeArray(np.array(array), str(tensor.dtype).removeprefix("torch."))

    def hooked(self, kind: str, site: int, given: Any, result: Any) -> None:
        """A hook of the program has replaced `given` by `result`."""
        if not isinstance(given, torch.Tensor) or not isinstance(result, torch.Tensor):
            return  # PyTorch will complain
        change = self.changes.get(site)
        if change is None:
            change = self.changes[site] = HookChange(kind, site)
        if change.compared >= COMPARED:
            change.when += change.when > 0
            return
        change.compared += 1
        before, after = numbers(given), numbers(result)
        if before is None or after is None or before.shape != after.shape:
            return
        old, new = before.astype(np.float64).ravel(), after.astype(np.float64).ravel()
        size = float(old @ old)
        if not np.isfinite(size) or not size or np.array_equal(old, new):
            return
        change.when += 1
        if change.when == 1:
            times = float(old @ new) / size
            change.off = float(np.linalg.norm(new - old)) / size**0.5
            if float(np.linalg.norm(new - times * old)) <= 1e-3 * abs(times) * size**0.5:
                change.times = times
