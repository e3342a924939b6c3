"""Measures steps of a recording, also those of which nothing else is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol
from weakref import ref

import numpy as np

from gradscope.record.acts.notes import NOBODY, EngineLook, leaves_of
from gradscope.record.acts.numbers.summaries.measures import (
    NO_BITS,
    UNREAD,
    NormFound,
    ReadElements,
    bits,
    elements,
    moved,
    size_of,
)
from gradscope.record.acts.numbers.summaries.pace import SummaryPace
from gradscope.record.acts.numbers.summaries.rows import (
    NO_RESULTS,
    DeviceResults,
    MeasuredParameter,
    MeasuredStep,
    columns_of_rows,
    parameter_rows,
    summary_row,
)
from gradscope.record.notes.local_names import gradient_of
from gradscope.record.notes.log import take_all
from gradscope.record.notes.positions.joined_rows import fewer
from gradscope.trace.schema import NONE

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradscope.record.acts.notes import ActsSession

Kept = Sequence[tuple[int, Any] | None]
"""Of each parameter, the number of its elements, and a copy of some of them."""

COMPARED = 1 << 16
"""Largest number of elements of a parameter that are copied before a step."""

COPIED = 1 << 21
"""Largest number of elements that are copied before a step, of all parameters."""

PARAMETERS = {"first": 3, "share": 100, "most": 1 << 14}
"""When parameters are measured: in the first steps, in 1 % of the time, with 16,384 rows."""

LOSSES = {"first": 16, "share": 500, "most": 1 << 13}
"""When only the loss is read."""

ON_DEVICES = 2
"""A measurement on a device counts this often: its time there is not known."""

SUMMARIES = "summaries"
"""The purpose of this work in `meta.own_time`."""


def measure_every_step() -> None:
    """Measure the parameters in every step of recordings that begin later in this process."""
    PARAMETERS["share"] = LOSSES["share"] = 0


class MeasuresOnDevices(Protocol):
    """Measures tensors on devices without waiting for them."""

    def measure(self, tensor: Any) -> int:
        """Measure a tensor. Returns the number of the look; 0: it cannot be measured now."""

    def send(self) -> None:
        """Fetch results without waiting."""

    def finish(self) -> None:
        """Wait for all results."""

    def are_there(self, looks: Any) -> Any:
        """Which of these results have arrived."""

    def columns(self, looks: Any) -> Any:
        """These results."""


class Limits(Protocol):
    """The options of a recording that matter here."""

    @property
    def summary(self) -> bool: ...

    @property
    def max_bytes(self) -> int | None: ...


class StepSummaries:
    """The summaries of one recording. It is called also while the recording is paused."""

    def __init__(self, session: ActsSession) -> None:
        self._session = session
        self._look = NOBODY
        self._devices: Callable[[], MeasuresOnDevices] | None = None
        self._on_devices: MeasuresOnDevices | None = None
        self.on = True
        self.is_full: Callable[[], bool] = bool
        """Whether the writer no longer takes rows of other tables."""
        self.measures = False
        """Whether the parameters of the current step are measured."""
        self.reads_loss = False
        """Whether the loss of the current step is read. If not, nothing of it is measured."""
        self.parameters, self.losses = SummaryPace(**PARAMETERS), SummaryPace(**LOSSES)
        self._current: MeasuredStep | None = None
        self._done: list[MeasuredStep] = []
        self._waiting: list[MeasuredStep] = []  # for results of devices
        self._tensors: dict[int, tuple[ref[Any], int]] = {}
        self._before: dict[int, Kept] = {}  # by optimizer
        self._spent = 0  # nanoseconds, for the loss of the current step
        self._spent_before = 0  # likewise, before its optimizer

    def keep(self, options: Limits, is_full: Callable[[], bool]) -> None:
        """Follow the options of a recording."""
        self.on, self.is_full = options.summary, is_full
        for pace in (self.parameters, self.losses):
            pace.hold(fewer(pace.limit, options.max_bytes))

    def start(self, look: EngineLook, devices: Callable[[], MeasuresOnDevices] | None) -> None:
        """Use this access to the tensors of an engine. `devices` is called when it is needed."""
        self._look, self._devices = look, devices

    # -- called at steps ------------------------------------------------------------------------

    def step_follows(self) -> None:
        """Called before a step begins: choose what is measured of it."""
        if self._current is not None:
            self._ended()
        if self.on:
            now = perf_counter_ns()
            self.measures = self.parameters.is_due(now)
            self.reads_loss = self.losses.is_due(now) or self.measures

    def _ended(self) -> None:
        current, self._current = self._current, None
        if current is None:
            return
        if self.reads_loss and current.roots:
            self.losses.took(0, 1, self._spent)
        self._spent = 0
        self._before.clear()
        self._done.append(current)

    def _step(self) -> MeasuredStep:
        """The current step, of which something was measured."""
        if self._current is None:
            contexts = self._session.contexts
            self._current = MeasuredStep(contexts.steps.id, contexts.now())
        return self._current

    def roots(self, tensors: Sequence[Any]) -> None:
        """Called when an outermost backward begins at these tensors: read the loss."""
        began = perf_counter_ns()
        with self._look.unseen():
            step = self._step()
            for root in tensors:  # a GradientEdge has no value
                if _is_single(root) and (value := self._value(root)) is not None:
                    step.roots.append(value)
        self._spent += perf_counter_ns() - began

    def stepping(self, optimizer: Any) -> None:
        """Called before an optimizer writes the parameters."""
        began = perf_counter_ns()
        leaves = leaves_of(optimizer)
        most = min(COMPARED, COPIED // max(len(leaves), 1))
        kept: list[tuple[int, Any] | None] = []
        with self._look.unseen():
            for leaf in leaves:
                read = None if gradient_of(leaf) is None else self._elements(leaf)
                kept.append(None if read is None else (read.array.size, read.sample(most)))
        self._before = {id(optimizer): kept}
        self._session.own_time.add(SUMMARIES, took := perf_counter_ns() - began)
        self._spent_before = took

    def stepped(self, optimizer: Any) -> None:
        """Called after an optimizer has written the parameters."""
        kept: Kept = self._before.pop(id(optimizer), ())
        leaves = leaves_of(optimizer)
        if len(kept) != len(leaves):
            kept = [None] * len(leaves)
        self._measure(leaves, kept)

    def backward_ended(self) -> None:
        """Called at the end of an outermost backward of a program without optimizers."""
        with self._look.unseen():
            leaves = [leaf for leaf in self._look.leaves() if leaf.requires_grad]
            leaves = [leaf for leaf in leaves if gradient_of(leaf) is not None]
        if leaves:
            self._measure(leaves, [None] * len(leaves), ends=False)

    def _measure(self, leaves: list[Any], kept: Kept, *, ends: bool = True) -> None:
        began, step = perf_counter_ns(), self._step()
        first = not step.parameters
        step.parameters, step.unread = [], 0
        most = min(COMPARED, COPIED // max(len(leaves), 1))
        on_devices = False
        with self._look.unseen():
            for leaf, before in zip(leaves, kept, strict=True):
                measured = self._parameter(leaf, before, most)
                if measured is None:
                    step.unread += 1
                else:
                    step.parameters.append(measured)
                    on_devices |= type(measured.weight) is int
        took = perf_counter_ns() - began
        self._session.own_time.add(SUMMARIES, took)
        took = (took + self._spent_before) * (ON_DEVICES if on_devices else 1)
        self._spent_before = 0
        if first:
            self.parameters.took(0, len(step.parameters) + 1, took)
        self.measures = not ends

    def _parameter(
        self, leaf: Any, before: tuple[int, Any] | None, most: int
    ) -> MeasuredParameter | None:
        read = self._elements(leaf)
        gradient: NormFound | int | None = None
        weight: NormFound | int
        compared, hashed, moves = 0, NO_BITS, (nan, nan)
        given = gradient_of(leaf)
        if read is not None:
            weight, hashed = size_of(read), bits(read.memory)
            if before is not None and before[0] == read.array.size:
                moves = moved(before[1], read.sample(most))
                compared = before[1].size
        else:
            weight = self._on_device(leaf)
            if not weight:
                return None
        if given is not None:
            found = self._elements(given)
            gradient = size_of(found) if found is not None else self._on_device(given) or UNREAD
        return MeasuredParameter(
            self._tensor(leaf), gradient, weight, *moves, compared, hashed,
            0 if read is None else read.array.size,
        )  # fmt: skip

    # -- access to tensors ----------------------------------------------------------------------

    def _elements(self, tensor: Any) -> ReadElements | None:
        return elements(tensor, self._look.memory) if tensor.device.type == "cpu" else None

    def _value(self, tensor: Any) -> float | int | None:
        """The value of a tensor with one element, or the number of its look; None: not readable."""
        read = self._elements(tensor)
        if read is not None:
            return float(read.numbers(read.array)[0])
        return self._on_device(tensor) or None

    def _on_device(self, tensor: Any) -> int:
        """The number of a measurement on the tensor's device; 0: there is none."""
        if self._devices is None or tensor.device.type in ("cpu", "meta"):
            return 0
        if self._on_devices is None:
            self._on_devices = self._devices()
        return self._on_devices.measure(tensor)

    def _tensor(self, leaf: Any) -> int:
        """The id of a parameter; NONE: its row could not be written any more."""
        known = self._tensors.get(id(leaf))
        if known is not None and known[0]() is leaf:
            return known[1]
        if self.is_full():
            return NONE
        number = int(self._look.ids([self._look.tensor(leaf)])[0])
        self._tensors[id(leaf)] = ref(leaf), number
        return number

    # -- rows -----------------------------------------------------------------------------------

    def flush(self, *, last: bool) -> None:
        """Pass the rows of steps that are over to the writer; `last`: also that of this step."""
        if last:
            self._ended()
        self._waiting += take_all(self._done)
        if not self._waiting:
            return
        ready, results = self._arrived(last=last)
        rows = [summary_row(each, results) for each in ready]
        of_parameters = [row for each in ready for row in parameter_rows(each, results)]
        for table in (rows, of_parameters):
            if table:
                self._session.writer.block(type(table[0]), columns_of_rows(table))

    def _arrived(self, *, last: bool) -> tuple[list[MeasuredStep], DeviceResults]:
        """The steps whose results are there."""
        devices = self._on_devices
        if devices is None:
            ready, self._waiting = self._waiting, []
            return ready, NO_RESULTS
        if last:
            devices.finish()
        else:
            devices.send()
        ready, waiting, looks = [], [], []
        for step in self._waiting:
            own = _array(list(step.looks()))
            there = devices.are_there(own)
            if last or there.all():
                ready.append(step)
                looks += own[there].tolist()
            else:
                waiting.append(step)
        self._waiting = waiting
        return ready, DeviceResults(looks, devices.columns(_array(looks)) if looks else None)

    def facts(self) -> dict[str, int]:
        """For `meta.summary`: how many steps were measured; empty if none was."""
        if not self.losses.measured and not self.parameters.measured:
            return {}
        return {
            "measured": self.parameters.measured, "losses": self.losses.measured,
            "stride": self.parameters.stride, "loss_stride": self.losses.stride,
        }  # fmt: skip

    def over(self) -> None:
        """Release all references that form cycles with this."""
        self.on = self.measures = self.reads_loss = False
        self._look, self._devices, self._on_devices = NOBODY, None, None
        self.is_full = bool
        del self._session


def _array(numbers: list[int]) -> Any:
    return np.array(numbers, np.int64)


def _is_single(root: Any) -> bool:
    """Whether a root of a backward is a tensor with one element."""
    return hasattr(root, "numel") and root.numel() == 1
