"""Acts on single tensors: freezing, clearing gradients, cutting the graph."""

from __future__ import annotations

import linecache
import re
from itertools import islice
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from gradscope.record.acts.notes import leaves_of
from gradscope.record.acts.numbers.moved import seen
from gradscope.record.acts.stand_ins import StandIn, StandIns, Tell
from gradscope.record.notes.local_names import gradient_of, is_leaf, leaves_behind, node_of
from gradscope.trace.schema import (
    NONE,
    CutAct,
    DataSetAct,
    DataWrittenAct,
    GradSetAct,
    GradZeroedAct,
    OneMemoryAct,
    RequiresGradAct,
    TruncatedAct,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from gradscope.record.acts.notes import ActNotes
    from gradscope.record.acts.numbers.not_finite import NotFiniteSteps

CUTS = ("detach", "detach_")
"""Methods whose result has no graph."""

TAKEN_OUT = ("tolist", "numpy")
SHOWN = ("__repr__", "__format__")

CHOICES = (
    "argmax", "argmin", "argsort", "multinomial", "bernoulli", "gt", "lt", "ge", "le",
    "long", "int", "bool",
)  # fmt: skip
WHOLE = ("long", "int")
"""Methods that turn fractions into whole numbers."""

WHOLE_LOOKED_AT, MOST = 4, 1_000_000
"""Number of calls per line that are checked, and largest number of elements."""

COMPARISONS = {"__gt__": ">", "__lt__": "<", "__ge__": ">=", "__le__": "<="}
"""Comparisons, which create no node, so that on PyTorch nothing else records them."""

WRITES = ("zero_", "fill_", "mul_", "div_")
"""Methods with which programs clear gradients or scale them down."""

TYPES = frozenset(("long", "int", "bool"))
"""Names of dtypes in `torch`."""

WRITTEN = re.compile(r"(\[[^=]*\])?(\.\w+_\(|\s*([-+*/]=|(?<=\])\s*=(?!=)))")
WRITES_DATA = re.compile(rf"\.data{WRITTEN.pattern}")
"""Matches a line that writes into a parameter: `w.data.mul_(2)`, `w.data[0] = 0`."""

LOOKED_AT = 8
"""Number of cuts per line that are examined: the line may be in a loop over several tensors."""

FAR = 2000
"""Number of nodes that are searched for the leaves that a cut separates from a backward."""


class TensorActs:
    """Replaces methods that programs call on tensors, and assignments to their attributes."""

    def __init__(
        self, torch: Any, acts: ActNotes, stand_ins: StandIns, not_finite: NotFiniteSteps
    ) -> None:
        self.not_finite = not_finite
        self._torch = torch
        self._acts = acts
        self._stand_ins = stand_ins
        self._is_grad_enabled = torch.is_grad_enabled
        self._gradients: dict[int, ref[Any]] | None = None  # of leaves of optimizers, by address
        self._sample_of: Callable[[], Any] = _nobody
        self._sampled = -1
        self._read: Callable[[], Any] = _nobody  # the leaf whose `.data` was read last
        self._perhaps: set[int] = set()  # lines that may write into gradients
        self._writers: dict[int, bool] = {}  # lines that read `.data`
        self._seen_cuts: dict[int, tuple[int, tuple[int, bool]]] = {}
        """By line: the count, and the result of the last check."""

    def start(self) -> None:
        tensor, put_property = self._torch.Tensor, self._stand_ins.put_property
        self._stand_ins.put(self._methods(tensor))
        put_property(tensor, "requires_grad", on_set=self._requires_grad_set)
        put_property(tensor, "grad", on_set=self._grad_set)
        put_property(tensor, "data", on_set=self._data_set, on_get=self._data_read)

    def _methods(self, tensor: Any) -> Iterator[StandIn]:
        yield StandIn(tensor, "requires_grad_", self._requires_grad)
        yield from (StandIn(tensor, name, self._cut_by(name), before=True) for name in CUTS)
        yield StandIn(tensor, "item", self._read_out)
        for name in TAKEN_OUT:
            yield StandIn(tensor, name, self._taken_out_by(name), before=True)
        for name in SHOWN:
            yield StandIn(tensor, name, self._shown_by(name), before=True)
        for name in CHOICES:
            yield StandIn(tensor, name, self._cut_by(name), before=True)
            if hasattr(self._torch, name) and name not in TYPES:
                yield StandIn(self._torch, name, self._cut_by(name), before=True)
        yield from (StandIn(tensor, name, self._whole_by(name)) for name in WHOLE)
        for name, sign in COMPARISONS.items():
            yield StandIn(tensor, name, self._cut_by(sign), before=True)
        yield from (StandIn(tensor, name, self._wrote_by(name)) for name in WRITES)
        yield StandIn(self._torch, "_foreach_zero_", self._wrote_all)

    # -- requires_grad --------------------------------------------------------------------------

    def _requires_grad(
        self, acts: ActNotes, frame: FrameType, result: Any, given: tuple[Any, ...], _: Any
    ) -> None:
        acts.note(RequiresGradAct(to=result.requires_grad), frame, _leaves([result]))

    def _requires_grad_set(self, tensor: Any, value: Any, frame: FrameType) -> None:
        if is_leaf(tensor):
            self._acts.note(RequiresGradAct(to=bool(value)), frame, [tensor])

    # -- gradients ------------------------------------------------------------------------------

    def forget(self) -> None:
        """Called after leaves were written to: their gradients must be looked up again."""
        self._gradients = None

    def _leaf_of(self, gradient: Any) -> Any:
        """The leaf of an optimizer to whose gradient this tensor, or view, belongs."""
        if self._gradients is None or self._sample() != self._sampled:
            leaves = [leaf for each in self._acts.optimizers() for leaf in leaves_of(each)]
            leaves = leaves or [each for each in self._acts.look.leaves() if each.requires_grad]
            with_one = [(leaf, grad) for leaf in leaves if (grad := gradient_of(leaf)) is not None]
            at = self._acts.look.address
            self._gradients = {at(grad): ref(leaf) for leaf, grad in with_one}
            self._gradients.pop(0, None)
            self._sample_of = ref(leaves[-1]) if leaves else _nobody
            self._sampled = self._sample()
        found = self._gradients.get(self._acts.look.address(gradient))
        leaf = None if found is None else found()
        there = None if leaf is None else gradient_of(leaf)
        return leaf if there is not None and there.shape == gradient.shape else None

    def _may_be_a_gradient(self, tensor: Any) -> bool:
        """Whether a tensor is a gradient, or a view or part of one."""
        known = (self._gradients or {}).values()
        held = (gradient_of(leaf) for found in known if (leaf := found()) is not None)
        at = self._acts.look.address
        place = at(tensor)
        return place != 0 and any(
            at(grad) <= place < at(grad) + grad.numel() * grad.element_size()
            for grad in held
            if grad is not None
        )

    def _sample(self) -> int:
        """The address of the gradient of one leaf: changes after a backward if it was cleared."""
        leaf = self._sample_of()
        gradient = None if leaf is None else gradient_of(leaf)
        return -1 if gradient is None else self._acts.look.address(gradient)

    def _grad_set(self, tensor: Any, value: Any, frame: FrameType) -> None:
        if is_leaf(tensor):
            act = GradSetAct(to="None" if value is None else "tensor")
            self._acts.note(act, frame, [tensor])

    def _wrote_by(self, name: str) -> Tell:
        def tell(
            acts: ActNotes, frame: FrameType, _result: Any, given: tuple[Any, ...], _: Any
        ) -> None:
            leaf = self._leaf_of(given[0])
            if leaf is not None:
                acts.note(GradZeroedAct(by=name), frame, [leaf])
            elif not acts.has_optimizers() and is_leaf(given[0]) and not given[0].requires_grad:
                address = id(frame.f_code) + frame.f_lasti
                # One is enough: the owner is not known.
                if address not in self._perhaps and self._may_be_a_gradient(given[0]):
                    self._perhaps.add(address)
                    acts.note(GradZeroedAct(by=name), frame)

        return tell

    def _wrote_all(
        self, acts: ActNotes, frame: FrameType, _result: Any, given: tuple[Any, ...], _: Any
    ) -> None:
        leaves = [leaf for each in given[0] if (leaf := self._leaf_of(each)) is not None]
        if leaves:
            acts.note(GradZeroedAct(by="_foreach_zero_"), frame, leaves)

    # -- cuts -----------------------------------------------------------------------------------

    def _data_set(self, tensor: Any, value: Any, frame: FrameType) -> None:
        if not isinstance(value, self._torch.Tensor):
            return  # PyTorch raises
        self._acts.note(DataSetAct(), frame, _leaves([tensor]))
        if value.requires_grad and not is_leaf(value) and self._is_grad_enabled():
            self._cut(frame, "data", [value])
        other = value if is_leaf(value) and value.requires_grad else self._read()
        two = other is not None and other is not tensor and is_leaf(tensor) and value.numel()
        at = self._acts.look.address
        if two and at(value) == at(other) != 0 and value.shape == other.shape:
            self._acts.note(OneMemoryAct(), frame, [other, tensor])

    def _data_read(self, tensor: Any, frame: FrameType) -> None:
        if not tensor.requires_grad:
            return
        if is_leaf(tensor):
            self._read = ref(tensor)
            if self._writes_data(frame):
                self._acts.note(DataWrittenAct(), frame, [tensor])
            elif self._acts.is_inside() and self._is_grad_enabled():
                self._cut(frame, "data", [tensor])
        elif self._is_grad_enabled():
            self._cut(frame, "data", [tensor], written=self._writes_data(frame))

    def _writes_data(self, frame: FrameType) -> bool:
        """Whether the line that reads `.data` writes into it."""
        address = id(frame.f_code) + frame.f_lasti
        found = self._writers.get(address)
        if found is None:
            text = linecache.getline(frame.f_code.co_filename, frame.f_lineno, frame.f_globals)
            behind = _behind_the_read(frame, text)
            written = WRITES_DATA.search(text) if behind is None else WRITTEN.match(behind)
            found = self._writers[address] = written is not None
        return found

    def _cut_by(self, name: str) -> Tell:
        def tell(
            _acts: ActNotes, frame: FrameType, _result: Any, given: tuple[Any, ...], _: Any
        ) -> None:
            if given and given[0].requires_grad and self._is_grad_enabled():
                self._cut(frame, name.strip("_"), [given[0]])

        return tell

    def _read_out(
        self, _acts: ActNotes, frame: FrameType, result: Any, given: tuple[Any, ...], _: Any
    ) -> None:
        self._a_number(frame, "item", result, given[0])
        if given[0].requires_grad and self._is_grad_enabled():
            self._cut(frame, "item", [given[0]])

    def warned_of_a_scalar(self) -> None:
        """From now on `float(loss)` no longer warns, and may get a stand-in."""
        self._stand_ins.put((StandIn(self._torch.Tensor, "__float__", self._read_as_float),))

    def _read_as_float(
        self, _acts: ActNotes, frame: FrameType, result: Any, given: tuple[Any, ...], _: Any
    ) -> None:
        self._a_number(frame, "float", result, given[0])

    def _a_number(self, frame: FrameType, by: str, number: Any, tensor: Any) -> None:
        """Called when the program reads a value of a tensor."""
        if number - number != 0:
            self.not_finite.read(frame, by, number, tensor)
        if tensor.requires_grad:
            self.not_finite.reads(frame, by, number)

    def _taken_out_by(self, name: str) -> Tell:
        cut = self._cut_by(name)

        def tell(
            acts: ActNotes, frame: FrameType, _: Any, given: tuple[Any, ...], more: Any
        ) -> None:
            self.not_finite.looked(frame, name, given[0])
            cut(acts, frame, None, given, more)

        return tell

    def _shown_by(self, name: str) -> Tell:
        def tell(
            _acts: ActNotes, frame: FrameType, _: Any, given: tuple[Any, ...], _m: Any
        ) -> None:
            self.not_finite.looked(frame, name.strip("_"), given[0])

        return tell

    def _whole_by(self, name: str) -> Tell:
        """Record the range of the input if some of its values are not whole numbers."""
        looked: dict[int, int] = {}

        def tell(
            acts: ActNotes, frame: FrameType, _result: Any, given: tuple[Any, ...], _: Any
        ) -> None:
            address = id(frame.f_code) + frame.f_lasti
            times = looked.get(address, 0)
            if given[0].requires_grad or times >= WHOLE_LOOKED_AT or given[0].numel() > MOST:
                return
            looked[address] = times + 1
            array = seen(given[0], acts.look.memory)
            if array is None or not np.isfinite(array).all():
                return
            whole = np.count_nonzero(np.trunc(array) == array)
            if whole < array.size:
                low, high = float(array.min()), float(array.max())
                act = TruncatedAct(
                    by=name, low=float(f"{low:.4g}"), high=float(f"{high:.4g}"),
                    to=(int(np.trunc(low)), int(np.trunc(high))), many=array.size,
                    whole=int(whole),
                )  # fmt: skip
                acts.note(act, frame)

        return tell

    def _cut(self, frame: FrameType, by: str, tensors: list[Any], *, written: bool = False) -> None:
        address = id(frame.f_code) + frame.f_lasti
        times, seen = self._seen_cuts.get(address, (0, (0, False)))
        if times < LOOKED_AT:
            leaves, whole = behind(tensors)
            seen = self._acts.listed(leaves), not whole
        self._seen_cuts[address] = times + 1, seen
        made = self._acts.made(tensors[0]) if written else None
        act = CutAct(by=by, more=seen[1], written=NONE if made is None else made)
        self._acts.note(act, frame, seen[0])


def _behind_the_read(frame: FrameType, line: str) -> str | None:
    """The text of the line after the attribute that is being read; None: not known."""
    places = islice(frame.f_code.co_positions(), frame.f_lasti // 2, None)
    first, last, _, end = next(places, (None, None, None, None))
    if end is None or first != last or last != frame.f_lineno:
        return None
    return line.encode()[end:].decode(errors="replace")


def _nobody() -> None:
    """The default before any leaf is known."""


def _leaves(tensors: list[Any]) -> list[Any]:
    return [each for each in tensors if is_leaf(each)]


def behind(tensors: list[Any]) -> tuple[list[Any], bool]:
    """The leaves that lead to these tensors, and whether the list is complete."""
    leaves: list[Any] = [each for each in tensors if is_leaf(each)]
    nodes = [node for each in tensors if (node := node_of(each)) is not None]
    others, whole = leaves_behind(nodes, FAR)
    return leaves + others, whole
