"""Level `values`: statistics of tensors, from the rows written by machine code.

Results of calls are identified by the row of the call; its node is known after a backward has
reached it. Gradients are identified by the run that received them, or by the call that added them.
Other values are measured from Python: leaves, results of hooks, gradients passed to a backward.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradscope.record.notes.log import take_all
from gradscope.trace.ragged import Ragged, within
from gradscope.trace.schema import NONE, Place
from gradscope.trace.shorthand.tables import OPERAND, ShortLook
from gradscope.watch.in_place.sharded import local_part
from gradscope.watch.values import ring_rows as ring_
from gradscope.watch.values.ring_rows import LOOKED, RESULT, TAKEN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gradscope.record.from_pytorch.called.pytorch_calls import PyTorchCalls
    from gradscope.record.session import Session
    from gradscope.watch.listener import RunColumns
    from gradscope.watch.public.looks import PublicRing
    from gradscope.watch.values.devices.device_looks import DeviceLooks
    from gradscope.watch.values.ring import Ring
    from gradscope.watch.values.statistics import StatisticsColumns

Ints = NDArray[np.int64]
COUNTS = ("nan", "posinf", "neginf", "zero")
MOST_KEPT = 1 << 15
"""Largest number of results that wait until a backward reaches the nodes of their calls."""


class PyTorchValues:
    """Reads the ring whenever notes are flushed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        session.not_finite = self.not_finite
        self.ring: Ring | PublicRing | None = None
        self.devices: DeviceLooks | None = None
        self.divided: Callable[[Ints, Ints], None] | None = None
        """Called with results that are DTensors, and the numbers of their parts on this rank."""
        self._parts: list[Ints] = []
        self._made: list[Ints] = []
        """Results of calls whose nodes are known: key (call row, index), op, tensor, task, step,
        place."""
        self._operands: list[Ints] = []
        self._former_operands: list[Ints] = []
        """Of the previous flush: a device may have measured one of them since."""
        self._ran: list[Ints] = []
        """Runs: their numbers, tasks, steps, and their indices in the task."""

        self._bad: dict[int, tuple[int, ...]] = {}  # bad indices of waiting rows, by stamp
        self._late: list[tuple[Ints, Ints]] = []
        """Identified rows whose values a device has not sent yet, and their columns."""
        self.dropped = self.lost = 0

    @property
    def on(self) -> bool:
        """Whether values are measured."""
        return self.ring is not None

    def not_finite(self) -> tuple[int, int]:
        """Number of measured tensors with NaN or Inf, and of those with NaN."""
        return (0, 0) if self.ring is None else self.ring.not_finite

    @property
    def all_lost(self) -> int:
        """Number of values for which there was no room, here or on a device."""
        return self.lost + (0 if self.devices is None else self.devices.dropped)

    @property
    def late(self) -> int:
        """Number of values that devices did not send in time."""
        return 0 if self.devices is None else self.devices.late

    @property
    def unread(self) -> int:
        """Number of tensors that could not be read."""
        return 0 if self.ring is None else self.ring.unread

    def made(
        self,
        rows: Ints,
        ops: Ints,
        outputs: Ragged,
        tasks: Ints,
        steps: Ints,
        places: Ints | None = None,
    ) -> None:
        """Add the results of calls whose nodes are now known, and their `Place`."""
        of = outputs.owners
        key = _both(rows[of], within(outputs.lengths))
        place = np.full(len(of), int(Place.OP_OUTPUT)) if places is None else places[of]
        self._made.append(np.stack([key, ops[of], outputs.values, tasks[of], steps[of], place]))

    def ran(self, tasks: Ints, steps: Ints, many: Ints, ran: RunColumns) -> None:
        """Add the runs of tasks; `many`: the number of runs of each task."""
        if self.on:
            about = (np.repeat(each, many) for each in (tasks, steps))
            self._ran.append(np.stack([ran.numbers, *about, within(many)]))

    def look(
        self,
        place: int,
        value: Any,
        node: int = NONE,
        index: int = 0,
        tensor: int = NONE,
        task: int = NONE,
        *,
        at: int | None = None,
    ) -> None:
        """Measure a tensor at an input or output of a node; or a leaf, without a node."""
        ring = self.ring
        if ring is None or not hasattr(type(value), "_cdata"):  # a hook may return anything
            return
        now = perf_counter_ns() if at is None else at + self._session.start
        step = self._session.contexts.steps.id
        own = local_part(value)
        ring.look(LOOKED + place, index, node, now, tensor, task, step, ring.of(own))
        if ring.is_filling():
            self._read(ring)

    def stepped(self, leaves: Sequence[Any], number_of: Callable[[Any], int]) -> None:
        """Measure these leaves after an optimizer has updated them."""
        ring = self.ring
        if ring is None:
            return
        look, now, step = ring.look, perf_counter_ns(), self._session.contexts.steps.id
        for leaf in leaves:
            number, own = number_of(leaf), local_part(leaf)
            look(ring_.A_LEAF, 0, NONE, now, number, NONE, step, ring.of(own))
        if self.devices is not None:
            self.devices.step_ended()
        if ring.is_filling():
            self._read(ring)

    def walked(self, graph: int, nodes: int, kept: int) -> None:
        """Measure the leaves and saved values that a native traversal found, from these rows on."""
        ring: Any = self.ring
        if ring is None:
            return
        if ring.is_filling():
            self._read(ring)
        ring.look_at_walked(graph, nodes, kept, self._session.contexts.steps.id)

    def operands(self, operands: Sequence[Ints]) -> None:
        """Add the tensors that nodes save: node, slot number and tensor."""
        self._operands += operands

    def _read(self, ring: Ring | PublicRing) -> None:
        rows, lost, bad = ring.read()
        self.lost += lost
        self._bad |= bad
        if len(rows):
            self._parts.append(rows)

    # -- rows -----------------------------------------------------------------------------------

    def flush(self, calls: PyTorchCalls, since: int, until: int) -> None:
        """Pass new rows to the writer. `since`: when the first running backward began.

        `until`: when this flush began. Another thread may have begun a backward since then; its row
        and the values measured in it are written by the next flush.
        """
        if self.ring is None:
            return
        self._read(self.ring)
        made, ran, sums = take_all(self._made), take_all(self._ran), take_all(calls.sums)
        parts = take_all(self._parts)
        if parts:
            rows = parts[0] if len(parts) == 1 else np.concatenate(parts)
            self._identify(rows, made, ran, sums, since, until)
        self._put_late()

    def _identify(
        self, rows: Ints, made: list[Ints], ran: list[Ints], sums: list[Ints],
        since: int, until: int,
    ) -> None:  # fmt: skip
        facts = _Facts(rows)
        facts.looked(until)
        operands = take_all(self._operands)
        facts.leaves(self._former_operands + operands)
        self._former_operands = operands
        facts.results(made)
        facts.taken(ran)
        facts.sums(sums)
        self._put_known(rows[facts.known], facts.columns[:, facts.known])
        self._keep(rows, facts.known, since)

    def so_far(self, calls: PyTorchCalls) -> None:
        """Write rows of running backwards after a flush, for a snapshot; all rows are kept."""
        ran, sums, parts = take_all(self._ran), take_all(calls.sums), list(self._parts)
        if self.ring is None or not parts:
            return
        rows = np.concatenate(parts)
        facts = _Facts(rows)
        facts.taken(ran)
        facts.sums(sums)
        there = facts.known & ~_on_device(rows)
        self._put(rows[there], facts.columns[:, there])

    def finish(self) -> None:
        """Wait for what devices have not sent yet."""
        if self.devices is not None:
            self.devices.finish()

    def _put_known(self, rows: Ints, columns: Ints) -> None:
        """Write identified rows, or keep them until a device has sent their values."""
        late = _on_device(rows)
        if late.any():
            self._late.append((rows[late], columns[:, late]))
            rows, columns = rows[~late], columns[:, ~late]
        self._put(rows, columns)

    def _put_late(self) -> None:
        """Write the identified rows whose values have arrived."""
        devices, late = self.devices, take_all(self._late)
        if devices is None:
            return
        devices.send()
        if not late:
            return
        rows = np.concatenate([rows for rows, _ in late])
        columns = np.concatenate([columns for _, columns in late], axis=1)
        looks = rows[:, ring_.HEAD + ring_.NAN]
        there = devices.are_there(looks)
        if there.any():
            self._write(rows[there], columns[:, there], devices.columns(looks[there]))
        if not there.all():
            self._late.append((rows[~there], columns[:, ~there]))

    def _keep(self, rows: Ints, known: NDArray[np.bool_], since: int) -> None:
        """Keep rows that may still be identified: results, and values from running backwards."""
        results = np.flatnonzero(~known & (rows[:, ring_.PLACE] == RESULT))
        self.dropped += max(len(results) - MOST_KEPT, 0)
        inside = ~known & (rows[:, ring_.TIME] >= since) & (rows[:, ring_.PLACE] != RESULT)
        inside[results[-MOST_KEPT:]] = True
        if inside.any():
            self._parts.insert(0, rows[inside])
        if self._bad:
            waiting = set(rows[inside, ring_.STAMP].tolist())
            self._bad = {stamp: places for stamp, places in self._bad.items() if stamp in waiting}

    def _put(self, rows: Ints, columns: Ints) -> None:
        if self.ring is not None and len(rows):
            self._write(rows, columns, self.ring.columns(rows))

    def _write(self, rows: Ints, columns: Ints, found: StatisticsColumns) -> None:
        part = rows[:, ring_.HEAD + ring_.PART]
        if self.divided is not None and part.any():
            self.divided(columns[_Facts.NAMES.index("tensor")], part)
        numbers = np.stack([found.min, found.max, found.mean, found.rms])
        with np.errstate(over="ignore"):  # such values are written in 64 bits
            short = numbers.astype(np.float32)
        fits = (short[:2] == numbers[:2]) | np.isnan(numbers[:2])
        fits &= np.isfinite(short[2:]) | np.isnan(numbers[2:])
        wide = ~fits.all(axis=0)
        bits = np.where(wide, numbers.view(np.int64), short.view(np.int32))
        block: dict[str, Any] = dict(zip(_Facts.NAMES, columns, strict=True))
        block["t"] = rows[:, ring_.TIME] - self._session.start
        block |= {name: getattr(found, name) for name in COUNTS} | {"count": found.size}
        block |= dict(zip(("min", "max", "mean", "rms"), bits, strict=True))
        block["wide"] = wide.astype(np.int64)
        block["bad"] = Ragged.of_lengths(np.zeros(len(rows), np.int64), np.zeros(0, np.int64))
        if self._bad:
            stamps = rows[:, ring_.STAMP].tolist()
            block["bad"] = Ragged.of([self._bad.get(stamp, ()) for stamp in stamps])
        self._session.writer.block(ShortLook, block)


def _on_device(rows: Ints) -> NDArray[np.bool_]:
    """Which rows are measured on a device."""
    found: NDArray[np.bool_] = rows[:, ring_.HEAD + ring_.IN_UNITS] == ring_.ON_DEVICE
    return found


class _Facts:
    """What each row of the ring measures, if that is known."""

    NAMES = ("place", "index", "op", "node", "tensor", "task", "step", "run", "sum")

    def __init__(self, rows: Ints) -> None:
        self._rows = rows
        self._places = rows[:, ring_.PLACE]
        self.known = np.zeros(len(rows), np.bool_)
        self.columns = np.full((len(self.NAMES), len(rows)), NONE)

    def _put(self, chosen: Ints, **columns: Any) -> None:
        self.known[chosen] = True
        self.columns[1, chosen] = self._rows[chosen, ring_.INDEX]
        for name, column in columns.items():
            self.columns[self.NAMES.index(name), chosen] = column

    def looked(self, until: int) -> None:
        """Identify the values that were measured from Python."""
        own, rows = self._places >= LOOKED, self._rows
        names_others = (rows[:, ring_.KEY] != NONE) | (rows[:, ring_.TASK] != NONE)
        chosen = np.flatnonzero(own & ~(names_others & (rows[:, ring_.TIME] > until)))
        rows = rows[chosen]
        results = rows[:, ring_.PLACE] == LOOKED + Place.OP_OUTPUT  # KEY is the call
        self._put(
            chosen,
            place=rows[:, ring_.PLACE] - LOOKED,
            node=np.where(results, NONE, rows[:, ring_.KEY]),
            op=np.where(results, rows[:, ring_.KEY], NONE),
            tensor=rows[:, ring_.TENSOR],
            task=rows[:, ring_.TASK],
            step=rows[:, ring_.STEP],
        )

    def leaves(self, operands: Sequence[Ints]) -> None:
        """Identify leaves and saved values that native code has measured."""
        chosen = np.flatnonzero(self._places == ring_.A_LEAF)
        self._put_leaves(chosen, self._rows[chosen, ring_.TENSOR])
        if operands:
            node, slot, tensor = np.concatenate(operands, axis=1)
            chosen = np.flatnonzero(self._places == ring_.AN_OPERAND)
            own = _both(self._rows[chosen, ring_.KEY], self._rows[chosen, ring_.INDEX])
            same, of = _found(_both(node, slot), own)
            self._put_leaves(chosen[same], tensor[of])

    def _put_leaves(self, chosen: Ints, tensor: Ints) -> None:
        step = self._rows[chosen, ring_.STEP]
        self._put(chosen, place=int(Place.LEAF), tensor=tensor, step=step)
        self.columns[1, chosen] = 0

    def _found(self, place: int, keys: Ints) -> tuple[Ints, Ints]:
        """The rows with this place and one of these keys, and the index of that key."""
        chosen = np.flatnonzero(self._places == place)
        same, of = _found(keys, self._rows[chosen, ring_.KEY])
        return chosen[same], of

    def results(self, made: Sequence[Ints]) -> None:
        """Identify results of calls whose nodes are known."""
        if not made:
            return
        keys, *about = np.concatenate(made, axis=1)
        chosen = np.flatnonzero(self._places == RESULT)
        own = _both(self._rows[chosen, ring_.KEY], self._rows[chosen, ring_.INDEX])
        same, of = _found(keys, own)
        op, tensor, task, step, place = (column[of] for column in about)
        self._put(chosen[same], place=place, op=op, tensor=tensor, task=task, step=step)

    def taken(self, ran: Sequence[Ints]) -> None:
        """Identify gradients that were received by runs of nodes."""
        if not ran:
            return
        numbers, task, step, run = np.concatenate(ran, axis=1)
        chosen, of = self._found(TAKEN, numbers)
        place = int(Place.NODE_INPUT)
        self._put(chosen, place=place, task=task[of], step=step[of], run=run[of])

    def sums(self, sums: Sequence[Ints]) -> None:
        """Identify operands and results of additions of gradients."""
        if not sums:
            return
        row, task, run, place = np.concatenate(sums, axis=1)
        if not len(row):
            return
        chosen, of = self._found(ring_.OPERAND, row)
        self._put(chosen, place=OPERAND, task=task[of], run=run[of], sum=place[of])
        chosen, of = self._found(ring_.SUMMED, row)
        what = np.where(place[of] == NONE, int(Place.GRAD), int(Place.BUFFER))
        self._put(chosen, place=what, task=task[of], run=run[of], sum=place[of])


MOST_PLACES = 1 << 12
"""Largest number of results of a call, or of slots of a node."""


def _both(number: Ints, place: Ints) -> Ints:
    """Combine two numbers into one key."""
    return number * MOST_PLACES + place


def _found(keys: Ints, wanted: Ints) -> tuple[Ints, Ints]:
    """The indices of wanted values that are among the keys, and the index of each one's key."""
    if not len(keys):
        return keys, keys
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    same = np.flatnonzero(keys[at] == wanted)
    return same, order[at[same]]
