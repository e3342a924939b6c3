"""How gradients were added and accumulated in one backward, as hooks on its nodes show it.

# Note [How gradients are added]
Hooks show a gradient when a node returns it, and the sum when the next node receives it. If all
additions were in place, the sum is the tensor that arrived first, and its version has grown by
their number. Otherwise one of them created the sum; each later one was in place, and its version is
their number. A tensor is identified by the address of its `TensorImpl`: an operand is alive while a
result is created, so it has another address. A hook of the program may replace the sum, or fail,
before ours receives it: then the sum is the gradient that the first such hook received. If that is
not known, the additions count as not in place.

Nothing here holds a gradient after its hook: PyTorch moves or reuses one only if nothing else
refers to it.
"""

from __future__ import annotations

import threading
import weakref
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from gradscope.watch.called.call_rows import ADD, ADD_IN_PLACE, CLONE, DETACH
from gradscope.watch.listener import AddedGradient
from gradscope.watch.values.ring_rows import OPERAND, SUMMED, TAKEN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradscope.watch.listener import BackwardCall
    from gradscope.watch.public.looks import Measured, OnDevice, PublicRing


class HookedNode:
    """What the hooks of a node know about it."""

    __slots__ = ("edges", "leaf", "number", "sequence", "site", "targets")

    def __init__(
        self,
        number: int,
        sequence: int,
        targets: Sequence[tuple[HookedNode | None, int]] = (),
        leaf: weakref.ref[Any] | None = None,
        site: int = -1,
    ) -> None:
        self.number = number
        self.sequence = sequence  # -1: an AccumulateGrad
        self.targets = targets  # node and input for each gradient that it returns
        self.leaf = leaf
        self.site = site  # the line that created it
        self.edges: dict[int, int] = {}  # number of edges to each of its inputs
        for target, nr in targets:
            if target is not None:
                target.edges[nr] = target.edges.get(nr, 0) + 1


class Arrival(NamedTuple):
    """A gradient that arrived at an input of a node."""

    run: int  # the run that returned it
    nr: int  # of the gradient in what the run returned
    tensor: int  # the address of the tensor; 0: not known
    version: int
    look: Measured | OnDevice | None  # its values, if they were measured


class ShownGradient(NamedTuple):
    """A gradient that a hook of the program, or ours, receives."""

    tensor: int  # its address
    version: int


class OnThread:
    """What one thread is doing in a backward."""

    __slots__ = ("accumulates", "node", "replaced", "run", "shown")

    def __init__(self) -> None:
        self.run = -1  # index of the last run
        self.node: HookedNode | None = None  # that ran last
        self.replaced = False  # whether a hook of the program replaced a gradient since
        self.accumulates: tuple[int, int, int] | None = None  # state of the leaf before its run
        self.shown: dict[tuple[int, int], ShownGradient] = {}
        """What hooks of the program received since the last run: by number of the node (0: not
        known, but it runs next) and input."""


class HookedBackward:
    """A running backward: its runs, and the gradients that wait at inputs of nodes."""

    def __init__(self, asked: BackwardCall | None, ring: PublicRing | None) -> None:
        self.caller = threading.get_ident()
        self.begun = perf_counter_ns()
        self.task: int | None = None  # PyTorch's number of the graph task, when it is known
        self.certain = True  # whether all runs on other threads could be assigned
        self.rows: list[list[int]] = []
        """Runs: begin, end (0: not ended), sequence number, number of the run, thread."""
        self.took: list[tuple[int, int, int]] = []
        """How leaves accumulated gradients: the run, the call that shows it, and the look."""
        self.added: list[AddedGradient] = []
        self._threads: dict[int, OnThread] = {}
        self._lock = threading.Lock()
        self._ring = ring
        self._asked = asked
        self._waiting: dict[tuple[int, int], list[Arrival]] = {}
        self._executed: dict[int, bool] | None = None  # with `inputs=`: nodes that are executed
        self.first = 0
        """The index of the first run that hooks see: a node above several roots has none."""

        if asked is None:
            return
        if asked.inputs:
            self._executed = dict.fromkeys((number for number, _ in asked.inputs), True)
        if len(asked.roots) > 1:
            self.first = 1
            for index, root in enumerate(asked.roots):
                self._waiting.setdefault(root, []).append(Arrival(0, index, 0, 0, None))

    def on_one_thread(self) -> bool:
        """Whether one thread ran all its nodes."""
        return len(self._threads) <= 1

    def has_root(self, node: HookedNode) -> bool:
        """Whether the backward begins with this node."""
        return self._asked is not None and any(node.number == nr for nr, _ in self._asked.roots)

    # -- called by hooks ------------------------------------------------------------------------

    def here(self) -> OnThread:
        """What the calling thread is doing."""
        return self._threads.setdefault(threading.get_ident(), OnThread())

    def begins(self, node: HookedNode, grads: Sequence[Any], t: int, number: int) -> None:
        """A node is about to run, with these gradients."""
        here = self.here()
        with self._lock:
            here.run, here.node = len(self.rows), node
            thread = threading.get_ident()
            self.rows.append([t, 0, node.sequence, number, thread])
        waiting, replaced, shown = self._waiting, here.replaced, here.shown
        here.replaced, here.shown = False, {}
        for nr, grad in enumerate(grads):
            arrivals = waiting.pop((node.number, nr), ()) if waiting else ()
            look = None
            if grad is None:
                continue
            if self._ring is not None:
                look = self._ring.put(TAKEN, nr, number, t, grad)
            if len(arrivals) > 1:
                total = shown.get((node.number, nr)) or shown.get((0, nr))
                if total is None and not replaced:
                    total = ShownGradient(grad._cdata, grad._version)
                self._add_up(arrivals, total, None if replaced else look)
        leaf = None if node.leaf is None else node.leaf()
        here.accumulates = None
        if leaf is not None and len(grads) == 1 and grads[0] is not None:
            before = _gradient_of(leaf)
            known = 0 if before is None else before._cdata
            here.accumulates = here.run, known, _memory_of(grads[0])

    def shows(self, node: int, grads: Sequence[Any], nr: int) -> None:
        """A hook of the program receives gradients for a node, from this input on."""
        here = self.here()
        if node or not here.replaced:
            for index, grad in enumerate(grads, nr):
                if grad is not None:
                    here.shown.setdefault((node, index), ShownGradient(grad._cdata, grad._version))

    def ends(self, node: HookedNode, returned: Sequence[Any], t: int) -> None:
        """A node has run and returned these gradients."""
        here = self.here()
        run = here.run
        if here.node is not node:
            return
        self.has_run(t)
        here.replaced = False
        if node.leaf is not None:
            return
        for index, (grad, (target, nr)) in enumerate(zip(returned, node.targets, strict=False)):
            if grad is not None and target is not None and self._executes(target):
                waiting = self._waiting.setdefault((target.number, nr), [])
                several = target.edges.get(nr, 0) > 1 or bool(waiting)  # one may be a root's
                look = self._ring.measure(grad) if self._ring and several else None
                arrival = Arrival(run + self.first, index, grad._cdata, grad._version, look)
                waiting.append(arrival)

    def has_run(self, t: int) -> None:
        """The last node has run; called by the first hook after that."""
        here = self.here()
        if here.node is not None and not self.rows[here.run][1]:
            self.rows[here.run][1] = t
            if here.node.leaf is not None:
                self.accumulated(here.node.leaf())

    def accumulated(self, leaf: Any) -> None:
        """The gradient of this leaf is accumulated; called by the first hook after that."""
        here = self.here()
        state, here.accumulates = here.accumulates, None
        after = None if leaf is None or state is None else _gradient_of(leaf)
        if after is None or state is None:
            return
        run, before, given = state
        look = 0
        if before:
            how = ADD_IN_PLACE if after._cdata == before else ADD
            if self._ring is not None:
                look = self._ring.next()
                self._ring.put(SUMMED, 0, look, self._ring.now(), after)
        elif given:
            how = DETACH if _memory_of(after) == given else CLONE
        else:
            return
        self.took.append((run + self.first, how, look))

    # -- at the end -----------------------------------------------------------------------------

    def over(self, handed: Sequence[Any]) -> None:
        """The backward has returned these gradients to its caller."""
        inputs = () if self._asked is None else self._asked.inputs
        for asked, grad in zip(inputs, handed, strict=False):
            arrivals = self._waiting.pop(asked, ())
            if len(arrivals) > 1:
                look = None if self._ring is None or grad is None else self._ring.measure(grad)
                total = None if grad is None else ShownGradient(grad._cdata, grad._version)
                self._add_up(arrivals, total, look)
        for at, arrivals in self._waiting.items():  # of nodes that did not run
            if len(arrivals) > 1:
                self._add_up(arrivals, self._last_shown(at, arrivals), None)
        self._waiting.clear()
        self.added.sort()

    def _last_shown(self, at: tuple[int, int], arrivals: Sequence[Arrival]) -> ShownGradient | None:
        """The sum that a hook received for an input of a node that then did not run."""
        number, nr = at
        for here in self._threads.values():
            if (number, nr) in here.shown:
                return here.shown[number, nr]
            total = here.shown.get((0, nr))
            if total is not None and any(each.tensor == total.tensor for each in arrivals):
                return total
        return None

    def _add_up(
        self,
        arrivals: Sequence[Arrival],
        total: ShownGradient | None,
        look: Measured | OnDevice | None,
    ) -> None:
        """Record the additions of these gradients; `total` is None: it is not known."""
        first_in_place = _first_in_place(arrivals, total)
        ring, of = self._ring, 0
        for place, each in enumerate(arrivals[1:], 1):
            if ring is not None:
                of, t = ring.next(), ring.now()
                ring.again(OPERAND, 1, of, t, each.look)
                if place == 1:
                    ring.again(OPERAND, 0, of, t, arrivals[0].look)
                if len(arrivals) == 2 and look is not None:
                    ring.again(SUMMED, 0, of, t, look)
            kind = ADD_IN_PLACE if place >= first_in_place else ADD
            self.added.append(AddedGradient(each.run, each.nr, kind, of))

    def _executes(self, node: HookedNode) -> bool:
        """Whether a node receives gradients: with `inputs=`, only nodes on a path to one do."""
        known = self._executed
        if known is None:
            return True
        pending = [node]
        while pending:
            each = pending[-1]
            if each.number in known:
                pending.pop()
                continue
            targets = [target for target, _ in each.targets if target is not None]
            unknown = [target for target in targets if target.number not in known]
            if unknown and not any(known.get(target.number) for target in targets):
                pending += unknown
                continue
            known[each.number] = any(known.get(target.number) for target in targets)
            pending.pop()
        return known[node.number]


def _first_in_place(arrivals: Sequence[Arrival], total: ShownGradient | None) -> int:
    """The index of the first gradient added in place. See Note [How gradients are added]."""
    if total is None:
        return len(arrivals)
    last = len(arrivals) - 1
    for place, each in enumerate(arrivals):
        first = max(place, 1)  # the first that was added in place, if this became the sum
        grown = last + 1 - first
        same = each.tensor == total.tensor
        if same and (last == 1 or total.version == each.version + grown):
            return first
    return last + 1 - min(total.version, last - 1)


def _gradient_of(leaf: Any) -> Any:
    """The gradient of a leaf; PyTorch would warn about one that is a leaf no more."""
    return leaf.grad if leaf.is_leaf else None


def _memory_of(tensor: Any) -> int:
    """The address of a tensor's storage, which the gradient of a leaf may share; 0: not known."""
    try:
        if tensor.layout is not torch.strided:
            tensor = tensor._values()
        return int(torch._C._storage_address(tensor))
    except (RuntimeError, NotImplementedError, AttributeError):
        return 0
