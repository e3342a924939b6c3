"""Detects values that are not finite without checking every tensor.

Values that the program reads, and norms, are available anyway. After each optimizer step one
element of the first and of the last parameter is checked: a loss that is NaN makes all of them NaN.
In the steps that are measured, and at the end, all parameters are checked.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from gradscope.record.acts.notes import FRAMES, leaves_of
from gradscope.record.acts.numbers.moved import seen
from gradscope.record.notes.local_names import gradient_of, is_leaf
from gradscope.trace.schema import NONE, NotFiniteAct, ReadAct
from gradscope.watch.in_place.sharded import local_part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import CodeType, FrameType

    from numpy.typing import NDArray

    from gradscope.record.acts.notes import ActNotes

FIRST = 4
"""Number of values read by a line that are stored; the last one is stored as well."""

SMALL = 1024
"""Number of elements that are checked of a tensor that the program prints or converts."""


class Sample:
    """One element of a parameter of an optimizer."""

    __slots__ = ("_dtype", "_leaf", "_memory", "_unpack")

    def __init__(self, leaves: Iterable[Any], memory: Callable[[Any], memoryview | None]) -> None:
        self._leaf: Callable[[], Any] = _nobody
        self._memory = memory
        self._dtype: Any = None
        self._unpack: Callable[[memoryview], tuple[float]] = FORMATS["float32"]
        for leaf in leaves:
            unpack = FORMATS.get(str(leaf.dtype).rpartition(".")[2])
            if unpack and memory(local_part(leaf)):
                self._leaf, self._unpack, self._dtype = ref(leaf), unpack, leaf.dtype
                if gradient_of(leaf) is not None:
                    break

    def is_finite(self) -> bool:
        """Whether it is finite now; True if it is no longer readable."""
        leaf = self._leaf()
        if leaf is None or leaf.dtype is not self._dtype:
            return True  # `.data` may have been assigned
        there = self._memory(local_part(leaf))  # FSDP frees storages between steps
        value = self._unpack(there)[0] if there else 0.0
        return value - value == 0.0


@dataclass(eq=False, slots=True)
class LineRead:
    """The values read by one line."""

    by: str
    stack: int
    code: CodeType  # kept, so that its id() stays its own
    first: list[float] = field(default_factory=list)
    last: float = 0.0
    times: int = 0


class NotFiniteSteps:
    """Records the first value that is not finite, per line and optimizer."""

    def __init__(self, acts: ActNotes) -> None:
        self._acts = acts
        self._samples: dict[
            int, tuple[Sample, Sample]
        ] = {}  # of the first and last parameter, by the act that created the optimizer
        self._told: set[int] = set()  # acts of optimizers already recorded
        self._lines: set[int] = set()
        self._reads: dict[int, LineRead] = {}

    def reads(self, frame: FrameType, by: str, number: float) -> None:
        """Called when the program reads a value with a graph, such as a loss."""
        place = id(frame.f_code) + frame.f_lasti
        read = self._reads.get(place)
        if read is None:
            stack = self._acts.session.sites.of_several(frame, FRAMES)
            read = self._reads[place] = LineRead(by, stack, frame.f_code)
        if read.times < FIRST:
            read.first.append(number)
        read.times += 1
        read.last = number

    def read(self, frame: FrameType, by: str, number: float, tensor: Any = None) -> None:
        """Called when the program has read a value, or values, that are not finite."""
        line = hash((id(frame.f_code), frame.f_lineno, by))
        if line in self._lines:
            return
        self._lines.add(line)
        acts, kind = self._acts, "NaN" if math.isnan(number) else "Inf"
        history = tensor is not None and tensor.requires_grad and not is_leaf(tensor)
        made = acts.made(tensor) if history else None
        act = NotFiniteAct(
            what="read", by=by, value=kind, history=history, made=NONE if made is None else made
        )
        acts.note(act, frame)

    def looked(self, frame: FrameType, by: str, tensor: Any) -> None:
        """Called when the program prints a tensor or converts it."""
        memory = self._acts.look.memory
        array = seen(tensor, memory) if tensor.numel() <= SMALL else None
        bad = None if array is None else first_bad(array)
        if bad is not None:
            self.read(frame, by, bad, tensor)

    def stepping(self, optimizer: Any, of: int) -> None:
        """Called before a step that is measured."""
        if of not in self._samples and of not in self._told:
            self._look(of, leaves_of(optimizer), "before", None)

    def stepped(self, optimizer: Any, of: int, frame: FrameType, *, closely: bool) -> None:
        """Called after a step of an optimizer."""
        if of in self._told:
            return
        samples = self._samples.get(of)
        if samples is None:
            leaves = leaves_of(optimizer)
            memory = self._acts.look.memory
            samples = Sample(leaves, memory), Sample(reversed(leaves), memory)
            self._samples[of] = samples
        if closely or not (samples[0].is_finite() and samples[1].is_finite()):
            self._look(of, leaves_of(optimizer), "step", frame)

    def ended(self) -> None:
        """Called at the end of the program."""
        acts, held = self._acts, set[int]()
        for read in self._reads.values():
            act = ReadAct(by=read.by, first=tuple(read.first), last=read.last, times=read.times)
            acts.note(act, None, stack=read.stack)
        for optimizer in acts.optimizers():
            leaves, of = leaves_of(optimizer), acts.of(optimizer)
            held.update(map(id, leaves))
            if of not in self._told:
                self._look(of, leaves, "end", None)
        others = [leaf for leaf in acts.look.leaves() if leaf.requires_grad]
        others = [leaf for leaf in others if id(leaf) not in held and gradient_of(leaf) is not None]
        self._look(-1, others, "end", None)

    def _look(self, of: int, leaves: list[Any], when: str, frame: FrameType | None) -> None:
        """Record which of these parameters, or of their gradients, are not finite."""
        bad = [(leaf, kind) for leaf in leaves if (kind := self._bad(leaf))]
        gradients = [(leaf, kind) for leaf in leaves if (kind := self._bad(gradient_of(leaf)))]
        if not bad and (of >= 0 or not gradients):
            return  # a gradient that no step uses is harmless, as with a loss scale
        self._told.add(of)
        self._samples.pop(of, None)
        for what, found in (("parameters", bad), ("gradients", gradients)):
            if found:
                kind = "NaN" if any(kind == "NaN" for _, kind in found) else "Inf"
                act = NotFiniteAct(what=what, value=kind, when=when, many=len(leaves))
                self._acts.note(act, frame, [leaf for leaf, _ in found], of=of)

    def _bad(self, tensor: Any) -> str:
        array = None if tensor is None else seen(tensor, self._acts.look.memory)
        bad = None if array is None else first_bad(array)
        return "" if bad is None else "NaN" if math.isnan(bad) else "Inf"


FORMATS: dict[str, Any] = {
    "float32": struct.Struct("f").unpack_from,
    "float64": struct.Struct("d").unpack_from,
}
"""The function that reads the first value in memory."""


def first_bad(array: NDArray[Any]) -> float | None:
    """The first value that is not finite; None: all are finite."""
    with np.errstate(all="ignore"):
        if np.isfinite(array.sum(dtype=np.float64)):
            return None
    bad = array[~np.isfinite(array)]
    return float(bad[0]) if len(bad) else None


def _nobody() -> None:
    """Used if memory is not readable."""
