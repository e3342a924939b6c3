"""Traverses the graph of a backward from Python and visits each new node once.

# Note [Deep graphs]
Accessing a node from Python creates an object for it, and then PyTorch frees the following nodes
recursively: a chain of 50,000 such nodes overflows the stack when the program releases it. So deep
graphs are not traversed, and the trace has a note.
"""

from __future__ import annotations

import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch.autograd.graph import GradientEdge

from gradscope.machine_code.seldom import MOST
from gradscope.watch.called.compiling import name_of
from gradscope.watch.called.results import own_result
from gradscope.watch.creation import KEY, PARENT, marked, record_of
from gradscope.watch.listener import FoundNode, FoundSavedValue, NodeRecord
from gradscope.watch.unseen import INPUTS_UNSHOWN, SAVED_UNSHOWN, SHOWS_INPUTS, SHOWS_SAVED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gradscope.watch.listener import Listener, PythonNodeRecord
    from gradscope.watch.public.hooked_runs import Attends
    from gradscope.watch.public.unpacked import Unpacked

LEAF = 2**64 - 1
"""The sequence number of an AccumulateGrad: it runs as soon as it is ready."""

_RAW, ACCUMULATE = "_raw_saved_", "torch::autograd::AccumulateGrad"
_CUSTOM = "saved_tensors"
"""The name under which a custom Function stores its saved values."""
NOTHING: list[FoundSavedValue] = []

DEEPEST = 10_000


class TooDeep(Exception):  # noqa: N818 -- Note [Deep graphs]
    """A graph with paths of more than DEEPEST nodes."""


class NotDifferentiable(Exception):  # noqa: N818 -- PyTorch is about to say so itself
    """A backward was requested from a tensor without a graph."""


class WalkLeaf:
    """A tensor whose gradient is accumulated, and its accumulation node."""

    __slots__ = ("node", "ref", "tensor")

    def __init__(self, ref: weakref.ref[Any], tensor: int) -> None:
        self.ref = ref
        self.tensor = tensor  # its number
        self.node = 0  # the number of its last known node


class GraphWalker:
    """Finds nodes, and identifies those that it has found."""

    def __init__(
        self,
        listener: Listener,
        attend: Attends | None,
        *,
        saved: bool,
        in_memory: bool = False,
    ) -> None:
        self._listener = listener
        self._recording = listener.recording  # the recording whose nodes are known here
        self._attend = attend  # called with each new node
        self.unpacked: Unpacked | None = None
        self._saved = saved and (SHOWS_SAVED or in_memory)
        self._hidden = Counter[str]()  # what PyTorch does not show; `in_memory`: it is read there
        if not in_memory:
            self._hidden[SAVED_UNSHOWN] += saved and not SHOWS_SAVED
            self._hidden[INPUTS_UNSHOWN] += not SHOWS_INPUTS
        self._arguments = listener.arguments
        self.waiting: list[FoundNode] = []
        """Nodes that were not reported yet."""
        self._slots: WeakKeyDictionary[type, list[tuple[str, str]]] = WeakKeyDictionary()
        self._leaves: dict[int, WalkLeaf] = {}  # by address
        self._nrs: Iterable[int] = ()  # the inputs of roots from which the next traversal begins
        self._inputs: dict[int, int] = {}  # number of inputs of nodes that do not show it, by id()

    roots: Sequence[Any] = ()
    """Roots of the last traversal, if hooks attend nodes: nothing else holds that of a leaf."""

    def stop(self) -> None:
        """Stop: nothing is found any more."""

    @property
    def left_out(self) -> dict[str, int]:
        """Descriptions of what was not recorded, with their counts."""
        many = self._arguments.seldom.in_vain
        return {f"arguments of calls, beyond the first {MOST:,} lines": many} if many else {}

    def unpacks(self, unpacked: Unpacked) -> None:
        """Read saved values in this way, if PyTorch does not show them in another."""
        if self._hidden.pop(SAVED_UNSHOWN, 0):
            self.unpacked, self._saved = unpacked, True

    @property
    def not_shown(self) -> list[str]:  # by this version of PyTorch
        return [text for text, times in self._hidden.items() if times]

    def walk_from(self, ends: Iterable[Any]) -> tuple[tuple[tuple[int, int], ...], int]:
        """The edges from which a backward starts, after all nodes that they lead to were found.

        Also returns the length of the longest path from a node above them.
        """
        try:
            edges = [_edge_of(each) or (_leafs_node(each), 0) for each in ends]
        except RuntimeError:  # for such a view, PyTorch refuses to return the node
            raise NotDifferentiable from None
        if self._attend is not None:
            self.roots = [node for node, _ in edges]
        self._nrs = [nr for _, nr in edges]
        met = self._walk([node for node, _ in edges])
        if len(met) == 1:  # in most cases
            return ((met[0][1], edges[0][1]),), 1 + met[0][0]
        above = 1 + max((longest for longest, _ in met), default=-1)
        return tuple((number, nr) for (_, number), (_, nr) in zip(met, edges, strict=True)), above

    def walk_to(self, ends: Iterable[Any]) -> tuple[tuple[int, int], ...]:
        """The edges whose gradients are requested."""
        numbers: list[tuple[int, int]] = []
        for each in ends:
            try:
                edge = _edge_of(each)
            except RuntimeError:  # as above
                raise NotDifferentiable from None
            if edge is not None:
                self._nrs = edge[1:]
                ((_, number),) = self._walk([edge[0]])
                numbers.append((number, edge[1]))
            else:
                numbers.append((self.number_of_leaf(each) or self._stand_in(each), 0))
        return tuple(numbers)

    def made_inside(self, handed: Iterable[Any]) -> None:
        """Find the nodes that a backward with create_graph has created.

        In anomaly mode, nodes created during a run refer to the node that ran, which would live as
        long as the gradient. `handed`: the returned gradients; others are those of leaves.
        """
        leaves = [
            leaf for known in list(self._leaves.values()) if (leaf := known.ref()) is not None
        ]
        for grad in [*handed, *[leaf.grad for leaf in leaves if leaf.is_leaf]]:
            node = None if grad is None else grad.grad_fn
            if node is not None and not self._is_met(node):
                self._walk([node])

    def _stand_in(self, leaf: Any) -> int:
        """The number of a placeholder for the accumulation node of a leaf that no graph contains.

        Requesting the node from PyTorch would create it, and change the numbers of later nodes.
        """
        record = self._listener.new_record(None)
        record.topological = 0
        self._leaf_of(leaf).node = record.number
        inputs = [(leaf.shape, leaf.dtype, leaf.device)]
        self.waiting.append(
            FoundNode(record, ACCUMULATE, -1, 0, (), inputs, (), leaf, made_before=True)
        )
        return record.number

    def number_of_leaf(self, leaf: Any) -> int:
        """The number of a leaf's accumulation node, if a traversal has found it; else 0."""
        known = self._leaves.get(leaf._cdata)
        return 0 if known is None else known.node

    def _leaf_of(self, tensor: Any) -> WalkLeaf:
        """The data of a leaf. It is removed before its address can belong to another tensor."""
        address, leaves = tensor._cdata, self._leaves
        known = leaves.get(address)
        if known is None:
            ref = weakref.ref(tensor, lambda _: leaves.pop(address, None))
            known = leaves[address] = WalkLeaf(ref, self._listener.tensor(tensor))
        return known

    def take_found(self) -> list[FoundNode]:
        """Remove and return the nodes that were not reported yet."""
        found, self.waiting = self.waiting, []
        return found

    def record_of(self, node: Any) -> NodeRecord | None:
        """The record of a node's creation, for this recording."""
        return record_of(node.metadata, self._recording)

    def _is_met(self, node: Any) -> bool:
        record = self.record_of(node)
        return record is not None and record.topological >= 0

    def _walk(self, roots: list[Any]) -> list[tuple[int, int]]:
        """Traverse depth first: all targets of a node before itself.

        Returns for each root the length of the longest path from it, and its number.
        """
        pending: list[tuple[Any, Any]] = [(node, None) for node in reversed(roots)]
        order, met_here = [], set()
        depth = 0
        while pending:
            node, edges = pending.pop()
            if edges is not None:
                depth -= 1
            elif id(node) in met_here or self._is_met(node):
                continue
            else:
                edges = node.next_functions
                unknown = [
                    (following, None)
                    for following, _ in reversed(edges)
                    if following is not None
                    and id(following) not in met_here
                    and not self._is_met(following)
                ]
                if unknown:
                    depth += 1
                    if depth > DEEPEST:
                        raise TooDeep
                    pending.append((node, edges))
                    pending += unknown
                    continue
            order.append((node, edges))
            met_here.add(id(node))
        if not SHOWS_INPUTS:
            ends = zip(roots, self._nrs, strict=False)
            self._inputs = _counted([*ends, *(edge for _, edges in order for edge in edges)])
            self._nrs = ()
        for node, edges in order:
            self._look(node, edges)
        met = [record for root in roots if (record := self.record_of(root)) is not None]
        return [(record.topological, record.number) for record in met]

    def _look(self, node: Any, edges: Any) -> None:
        """Record one node, unless another path has led to it meanwhile."""
        metadata = node.metadata
        record = record_of(metadata, self._recording)
        before = record is None
        if record is None:
            record = self._listener.new_record(None)
            metadata[KEY] = marked(metadata.get(KEY), record)
        elif record.topological >= 0:
            return
        if PARENT in metadata:  # it would keep the node alive in whose run this one was created
            del metadata[PARENT]
        targets = [
            (None if following is None else self.record_of(following), nr)
            for following, nr in edges
        ]
        known = [target.topological for target, _ in targets if target is not None]
        record.topological = above = 1 + max(known, default=-1)
        sequence = node._sequence_nr()
        leaf, saved = None, NOTHING
        if sequence == LEAF:
            sequence, leaf = -1, getattr(node, "variable", None)
        if leaf is not None:
            self._leaf_of(leaf).node = record.number
        elif self._saved:
            saved = self._kept(node)
            self._argue(node, record)
        if self._attend is not None:
            ref = None if leaf is None else self._leaves[leaf._cdata].ref
            self._attend(node, record, targets, ref)
        self.waiting.append(
            FoundNode(
                record,
                name_of(node),
                sequence,
                above,
                targets,
                self._inputs_of(node),
                saved,
                leaf,
                before,
            )
        )

    def _argue(self, node: Any, record: PythonNodeRecord) -> None:
        """Read the arguments of a node's call that are not tensors, if they are due."""
        if self._arguments.has(type(node)):
            inputs = self._inputs_of(node)
            shape = inputs[0][0] if inputs else ()
            if self._arguments.seldom.due(type(node), record.site, shape):
                self._arguments.look(node, record.number)

    def _inputs_of(self, node: Any) -> list[tuple[tuple[int, ...], Any, Any]]:
        """Shape, dtype and device of each input; unknown values if the node does not show them."""
        if SHOWS_INPUTS:
            return [described(each) for each in node._input_metadata]
        return [((NO_NUMBER,), None, None)] * self._inputs.get(id(node), 1)

    def _slots_of(self, kind: type) -> list[tuple[str, str]]:
        """The attributes with saved values of a class of nodes, and their slots."""
        slots = self._slots.get(kind)
        if slots is None:
            names = [name for name in dir(kind) if name.startswith(_RAW)]
            slots = self._slots[kind] = [
                (name, _CUSTOM if hasattr(kind, _CUSTOM) else name.removeprefix(_RAW))
                for name in names
            ]
        return slots

    def _kept(self, node: Any) -> list[FoundSavedValue]:
        if self.unpacked is not None:
            slots = [slot for _, slot in self._slots_of(type(node))]
            record = record_of(node.metadata, self._recording)
            return self.unpacked.read(node, record, slots, self.record_of)
        kept: list[FoundSavedValue] = []
        for name, slot in self._slots_of(type(node)):
            value = getattr(node, name)
            many = value if type(value) is tuple else (value,)
            custom = slot == _CUSTOM
            own = None if custom else own_result(node.name(), slot)
            for place, each in enumerate(many):
                found = self._value(f"{_CUSTOM}[{place}]" if custom else slot, each)
                if found is not None:  # a custom function may save anything
                    kept.append(found._replace(own=own, argument=own is None and not custom))
        return kept

    def _value(self, slot: str, value: Any) -> FoundSavedValue | None:
        """A saved value; its tensor is only read if no hook packed it: unpacking may recompute."""
        try:
            if value.unpack_hook is not None:
                return FoundSavedValue(slot, None, None, 0)
            tensor = value.data
        except RuntimeError:  # released
            return None
        if tensor is None:
            return None
        node = tensor.grad_fn
        if node is None:
            return FoundSavedValue(slot, tensor, None, 0)
        return FoundSavedValue(slot, tensor, self.record_of(node), tensor.output_nr)


def _counted(edges: Iterable[tuple[Any, int]]) -> dict[int, int]:
    """Number of inputs of nodes, as shown by edges to them."""
    many: dict[int, int] = {}
    for node, nr in edges:
        if node is not None:
            many[id(node)] = max(many.get(id(node), 0), nr + 1)
    return many


def described(given: Any) -> tuple[tuple[int, ...], Any, Any]:
    """Shape, dtype and device of a node's input."""
    try:
        shape = in_numbers(given.shape)
    except RuntimeError:  # nested: even the number of dims is unknown
        shape = (NO_NUMBER,)
    return shape, given.dtype, given.device


PLAIN = torch.Tensor, torch.nn.Parameter
"""Classes that run no code of a program."""

NO_NUMBER = -1
"""Stands for a size of a nested tensor that is not a single number."""


def in_numbers(sizes: Any) -> tuple[int, ...]:
    """The sizes, with a placeholder for those that are not numbers."""
    return tuple(size if type(size) is int else NO_NUMBER for size in sizes)


def _edge_of(end: Any) -> tuple[Any, int] | None:
    """The edge of a tensor that is not a leaf, or the edge itself."""
    if type(end) is not torch.Tensor and isinstance(end, GradientEdge):
        return end.node, end.output_nr
    node = end.grad_fn
    return None if node is None else (node, end.output_nr)


def _leafs_node(leaf: Any) -> Any:
    """The accumulation node of a leaf, requested through a view, which uses up a number."""
    if not leaf.requires_grad:
        raise NotDifferentiable
    with torch.enable_grad():
        view = (leaf.view_as(leaf) if type(leaf) in PLAIN else _view_of(leaf)).grad_fn
    node = None if view is None else view.next_functions[0][0]
    if node is None:  # it claims to require grad, but has no accumulation node
        raise NotDifferentiable
    return node


def _view_of(leaf: Any) -> Any:
    """A view of a tensor of a subclass; runs code of the subclass only if necessary."""
    try:
        with torch._C._DisableTorchDispatch():
            return leaf.view_as(leaf)
    except RuntimeError:
        return leaf.view_as(leaf)
