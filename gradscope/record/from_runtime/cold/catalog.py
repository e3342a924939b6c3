"""Descriptions that the probe needs in full: leaves, views, writes, special calls."""

from __future__ import annotations

import sys
from threading import RLock
from types import FrameType
from typing import TYPE_CHECKING, Any

from gradscope.record.from_runtime.cold.fused import FusedWrites
from gradscope.record.from_runtime.cold.history import hooked, odd, present_edge, version_of
from gradscope.record.from_runtime.cold.interned import ColdTexts, Shapes
from gradscope.record.from_runtime.cold.leaves import Leaves
from gradscope.record.from_runtime.cold.operators import why
from gradscope.record.from_runtime.cold.runtime_arguments import RuntimeArguments
from gradscope.record.from_runtime.cold.tasks import TaskRows
from gradscope.record.from_runtime.error_lines.recent import Maker, Recent, WriteAt, remember_write
from gradscope.record.from_runtime.hot.threads import DeviceNumbers
from gradscope.record.notes.local_names import local_name
from gradscope.record.notes.positions.contexts import Contexts
from gradscope.record.notes.sites import Sites
from gradscope.runtime.core.errors.anomaly_lines import last_writer
from gradscope.runtime.core.graph.node import LAST, Node
from gradscope.runtime.core.tensors.saved.saved_variable import SavedVariable
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.trace.schema import NONE

if TYPE_CHECKING:
    from gradscope.record.from_runtime.hot.frees import Frees
    from gradscope.trace.writer import Writer


class Catalog(TaskRows):
    """Rows in the form of the trace, except that numbers still include `base`."""

    def __init__(
        self, writer: Writer, sites: Sites, contexts: Contexts, base: int, number: Any,
        frees: Frees,
    ) -> None:  # fmt: skip
        super().__init__()
        self._frees = frees
        self.base = base
        self._lock = RLock()  # an object that two threads use first at once is described only once
        self.texts = ColdTexts(writer.intern)
        self._shapes = Shapes(self.texts)
        self._sites = sites
        self._contexts = contexts
        self.next_number = number
        self.tensors: list[tuple[Any, ...]] = []
        self.storages: list[tuple[int, int, int, int]] = []  # number, bytes, born, device
        self.places = DeviceNumbers(writer)
        self.ops: list[tuple[Any, ...]] = []
        self.nodes: list[tuple[Any, ...]] = []
        self.edges: list[tuple[int, int, int, int]] = []
        self.saved: list[tuple[int, int, int, int, int, int]] = []
        self.versions: list[tuple[int, ...]] = []
        self.explicit: list[int] = []
        self.views: list[tuple[int, int]] = []  # the numbers of a result and its storage
        self.origins: list[tuple[int, int, int, int]] = []  # tensor, since, node, output
        self.arguments = RuntimeArguments()
        self.on_tensor: Any = None  # called with tensors that no recorded call made
        self._nameless: set[int] = set()
        self.named: list[tuple[int, int]] = []  # found after the tensor was described
        self.recent = Recent()
        self.leaves = Leaves()
        self.fused = FusedWrites()

    # -- tensors and nodes that existed before ----------------------------------------------------

    def tensor(
        self,
        tensor: Any,
        frame: FrameType | None = None,
        *,
        name: str | None = None,
        written: bool = False,
    ) -> int:
        """Describe a tensor that no recorded call created. Returns its number, as in `record_nr`.

        The previous values of a tensor that was just `written` to are unknown. If no name is given,
        it is searched in the frame.
        """
        with self._lock:
            if tensor.record_nr > self.base:  # another thread was faster
                return int(tensor.record_nr)
            born = self._contexts.now()  # before others see that it has a number
            number = tensor.record_nr = self.next_number()
            name = local_name(tensor, frame or sys._getframe(1)) if name is None else name
            self._describe(tensor, number, self.base, born, name)
            edge = present_edge(tensor)
            if edge is not None:
                self.origins.append((number, number, self.number_of_node(edge[0]), edge[1]))
            self.leaves.met(tensor)
            on_tensor = self.on_tensor
            if on_tensor is not None and not written:
                on_tensor(tensor, number)
        return int(number)

    def _describe(self, tensor: Any, number: int, op: int, born: int, name: str = "") -> None:
        """Add a row for a tensor, and one for its storage if that is new."""
        array, meta = tensor._array, tensor._meta
        shape = self._shapes[array.shape, array.strides, array.dtype]
        if tensor._storage is None:
            storage, place, size = number, 0, array.nbytes
        else:
            storage, place = self.storage_of(tensor, number), self.places.of(tensor.device)
            size = tensor._storage.nbytes()
        if storage == number:
            self.storages.append((number, size, born, place))
            if size >= self._frees.smallest:
                self._frees.follow(array, number)
        if meta is None:
            leaf = tensor._edge is None
            requires_grad = not leaf
        else:
            leaf, requires_grad, name = (
                tensor.is_leaf,
                tensor.requires_grad,
                name or meta.name or "",
            )
        self.tensors.append((
            number, *shape, storage, array.nbytes, version_of(tensor), leaf, requires_grad,
            self.texts[name], op, place,
        ))  # fmt: skip

    def storage_of(self, tensor: Any, number: int) -> int:
        """The number of a tensor's storage: that of the first tensor seen on it."""
        storage = tensor._storage
        if storage is None:
            return number
        if storage.record_nr <= self.base:
            with self._lock:
                if storage.record_nr <= self.base:
                    base = tensor._base
                    own = base is None or base is tensor
                    storage.record_nr = number if own else self.number_of(base)
        return int(storage.record_nr)

    def _own(self, tensor: Any) -> None:
        """Number the storage of a known tensor, before other tensors on it are seen."""
        if tensor._storage is not None:
            self.storage_of(tensor, self.number_of(tensor))

    def number_of(self, tensor: Any) -> int:
        """The number of a tensor, without the bit that `record_nr` also holds."""
        seen = tensor.record_nr
        if seen <= self.base:
            seen = self.tensor(tensor)
        return int(seen & ~1)

    def number_of_early(self, tensor: Any) -> int:
        """The number of a tensor without a variable yet; its name is searched when it is used."""
        if tensor.record_nr <= self.base:
            number = self.tensor(tensor, name="") & ~1
            self._nameless.add(number)
            return number
        return self.number_of(tensor)

    def id_of(self, tensor: Any) -> int:
        """A tensor's id in the trace."""
        return self.number_of(tensor) - self.base - 2 >> 1

    def number_of_node(self, node: Any) -> int:
        if node is None:
            return self.base
        return node.record_nr if node.record_nr > self.base else self.node(node)

    def node(self, node: Node) -> int:
        """Describe a node that no recorded call created, and all nodes that it leads to."""
        pending = [node]
        with self._lock:
            while pending:
                each = pending[-1]
                if each.record_nr > self.base:
                    pending.pop()
                    continue
                edges = each.next_functions
                unseen = [f for f, _ in edges if f is not None and f.record_nr <= self.base]
                if unseen:
                    pending.extend(unseen)
                    continue
                pending.pop()
                self._describe_node(each)
        return node.record_nr

    def _describe_node(self, node: Node, site: int = NONE, taken: tuple[int, ...] = ()) -> None:
        now = self._contexts.now()  # before others see that it has a number
        node.record_nr = number = self.next_number()
        variable = getattr(node, "variable", None)
        inputs = (self.number_of(variable),) if isinstance(variable, Tensor) else taken
        context = self._contexts.of(_state())
        sequence = NONE if node.sequence_nr == LAST else node.sequence_nr
        name = self.texts[type(node).__name__]
        self.nodes.append((
            number, name, sequence, node.topological_nr, self.base, inputs, context, site, now,
        ))  # fmt: skip
        for index, (following, nr) in enumerate(node.next_functions):
            self.edges.append((number, index, self.number_of_node(following), nr))
        self._keep(node, number, ())  # its results are not known

    def accumulator(self, node: Any) -> None:
        """Describe the new node that accumulates a leaf's gradient, unknown to other threads."""
        leaf = self.number_of(node.variable)
        self.leaves.gathers(node.variable)
        if leaf in self._nameless:
            self._nameless.remove(leaf)
            name = local_name(node.variable, sys._getframe(1))
            if name:
                self.named.append((leaf, self.texts[name]))
        if node.record_nr <= self.base:  # the leaf was known, or its row describes the node
            state = _state()
            node.record_nr = number = self.next_number()
            self.nodes.append((
                number, self.texts[type(node).__name__], NONE, node.topological_nr, self.base,
                (leaf,), self._contexts.at_call(state, node), NONE, self._contexts.now(),
            ))  # fmt: skip
        self.origins.append((leaf, node.record_nr, node.record_nr, 0))

    # -- calls that need a full row ---------------------------------------------------------------

    def irregular(
        self, op: Any, node: Any, number: int, inputs: tuple[Any, ...], made: Any
    ) -> None:
        """Describe a call whose edges or saved tensors do not follow from its inputs' numbers."""
        number &= ~1
        if made._storage is not None:
            for source in inputs:
                self._own(source)
            self.views.append((number, self.storage_of(made, number)))
            made.record_nr = number
            if node is not None:
                self.origins.append((number, number, number, 0))
        if node is None:
            return
        if made._storage is None and not any(map(odd, inputs)) and not hooked(node):
            return
        self.explicit.append(number)
        self._write_out(node, number, (number,))

    def _write_out(self, node: Any, number: int, made: tuple[int, ...]) -> None:
        for index, (following, nr) in enumerate(node.next_functions):
            self.edges.append((number, index, self.number_of_node(following), nr))
        self._keep(node, number, made)

    def _keep(self, node: Any, number: int, made: tuple[int, ...]) -> None:
        """Add the rows of tensors that a node saves; `made` are its outputs."""
        if not node._saved:
            return
        now = self._contexts.now()
        for slot, value in zip(node.slots, node._saved, strict=False):
            for each in value if isinstance(value, list) else (value,):
                if isinstance(each, SavedVariable):
                    tensor = self._kept(each, made)
                    version, hooked = each.version, each.hooks is not None
                elif isinstance(each, Tensor):
                    tensor, version, hooked = self.number_of(each), 0, False
                else:
                    continue
                name = self.texts[slot]
                self.saved.append((number, name, tensor, version, now, int(hooked)))

    def _kept(self, saved: SavedVariable, made: tuple[int, ...]) -> int:
        """The number of the saved tensor; `base` if a hook packed it, or if it is not known."""
        if saved.tensor is not None:
            return self.number_of(saved.tensor)
        return self.base if saved.nr is None or saved.nr >= len(made) else made[saved.nr]

    def call(
        self, op: Any, inputs: Any, outputs: Any, node: Any, begin: int, end: int, site: int,
        context: int, frame: FrameType,
    ) -> int:  # fmt: skip
        """Describe a call with several results or many inputs. Returns its number.

        Results of a custom function were mostly created by calls inside it, and keep their numbers.
        """
        base, number = self.base, self.next_number()
        self.recent.full_call(number, Maker(op.name, site, _state().grad_enabled))
        if node is not None:
            node.record_nr = number
        sources = [t for t in inputs if isinstance(t, Tensor)]
        taken = tuple([
            (t.record_nr if t.record_nr > base else self.tensor(t, frame)) & ~1 for t in sources
        ])  # fmt: skip
        for source in sources:
            if source._storage is not None:
                self.storage_of(source, source.record_nr & ~1)
        made = []
        for nr, one in enumerate(t for t in outputs if t is not None):
            known = one.record_nr > base
            each = one.record_nr & ~1 if known else number if nr == 0 else self.next_number()
            if node is not None or not known:  # otherwise the inner call created its node
                one.record_nr = each
            if not known:
                self._describe(one, each, number, self._contexts.now())
            edge = one.gradient_edge() if node is not None else None if known else present_edge(one)
            if edge is not None:
                self.origins.append((each, number, self.number_of_node(edge[0]), edge[1]))
            self.recent.output(each, number)
            made.append(each)
        self.ops.append((
            number, self.texts[op.name], begin, end, taken, tuple(made),
            number if node is not None else base, context, site, why(op, node),
        ))  # fmt: skip
        if node is not None:
            self._full_node(node, number, tuple(made), context, site, end)
        return number

    def _full_node(
        self, node: Any, number: int, made: tuple[int, ...], context: int, site: int, end: int
    ) -> None:
        self.nodes.append((
            number, self.texts[type(node).__name__], node.sequence_nr, node.topological_nr,
            number, made[: len(node.input_metadata)], context, site, end - self._contexts.start,
        ))  # fmt: skip
        self._write_out(node, number, made)
        if self.arguments.seldom.due(type(node), site, node.input_metadata[:1]):
            self.arguments.look(node, number)

    def wrote(
        self, op: Any, inputs: Any, target: Any, node: Any, begin: int, end: int, site: int,
        context: int, frame: FrameType,
    ) -> int:  # fmt: skip
        """Describe an in-place write: a call, a version, perhaps a new node. Returns its number.

        If only the dims change, the call was recorded with its node.
        """
        told = node is not None and node.record_nr > self.base
        number = node.record_nr & ~1 if told else self.next_number()
        self.recent.full_call(number, Maker(op.name, site, _state().grad_enabled))
        if node is not None and not told:
            node.record_nr = number
        if target.record_nr <= self.base:
            self.tensor(target, frame, written=True)
        taken = tuple(self._input(t, frame) for t in inputs if isinstance(t, Tensor))
        written = self.number_of(target)
        if not told:
            self.ops.append((
                number, self.texts[op.name], begin, end, taken, (written,),
                number if node is not None else self.base, context, site, why(op, node),
            ))  # fmt: skip
        storage = self.storage_of(target, written)
        version = version_of(target)
        if version:
            self.versions.append((
                storage, written, version - 1, version, number, site, context,
                end - self._contexts.start,
            ))  # fmt: skip
            remember_write(target._versions, self.base, WriteAt(version, op.name, site))
        if node is None:
            return number
        if not told:
            self._full_node(node, number, (written,), context, site, end)
        target.record_nr = written
        base = target._base
        above = None if base is None else base.gradient_edge()
        if above is not None:
            base.record_nr = self.number_of(base)
            mark = self._number_of_made(above[0], site, (base.record_nr & ~1,))
            self.origins.append((base.record_nr, number, mark, above[1]))
        edge = target.gradient_edge()
        if told and edge is not None and edge[0] is node:
            target.record_nr = number  # the node's output has the new shape
        elif edge is not None:
            since = number + 2 if told else number  # its own edge leads to the earlier node
            mark = self._number_of_made(edge[0], site, (written & ~1,))
            self.origins.append((written, since, mark, edge[1]))
        return number

    def _number_of_made(self, node: Any, site: int, taken: tuple[int, ...] = ()) -> int:
        """The number of a node that a write has just created, as the new node of a tensor."""
        if node.record_nr <= self.base:
            for following, _ in node.next_functions:
                self.number_of_node(following)
            self._describe_node(node, site, taken)
        return int(node.record_nr)

    def touched(self, tensor: Any) -> None:
        """Record an addition to a `.grad`, or a reported write, if the tensor is known."""
        storage, version = tensor._storage, version_of(tensor)
        if tensor.record_nr <= self.base and (storage is None or storage.record_nr <= self.base):
            return
        if not version:
            return
        written, site = self.number_of(tensor), self._sites.here(1)
        self.versions.append((
            self.storage_of(tensor, written), written, version - 1, version, self.base,
            site, self._contexts.of(_state()), self._contexts.now(),
        ))  # fmt: skip
        writer = last_writer(tensor._versions) or "The engine"
        remember_write(tensor._versions, self.base, WriteAt(version, writer, site))

    def _input(self, tensor: Any, frame: FrameType) -> int:
        seen = tensor.record_nr
        return int(seen if seen > self.base else self.tensor(tensor, frame)) & ~1


def _state() -> Any:
    from gradscope.runtime.core.state.thread import local

    return local.state
