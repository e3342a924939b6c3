"""The rows of a step while its plan was recorded, and those of its replays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradscope.record.from_runtime.replays.replay_columns import Basis, ColumnPart, Filled
from gradscope.trace.ragged import Ragged
from gradscope.trace.schema import NONE, StepAct

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from weakref import ref

    from gradscope.record.from_runtime.replays.replay_looks import KnownLook
    from gradscope.record.from_runtime.replays.window import WindowMarks
    from gradscope.record.notes.log import Ints


class OptimizerRates(NamedTuple):
    """The row in which an optimizer's step states its learning rates."""

    part: int
    first: int  # the index of its rates among those of the part
    optimizer: ref[Any]
    rates: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Template:
    """The rows of one step."""

    begun: WindowMarks
    ended: WindowMarks
    basis: Basis
    parts: tuple[ColumnPart, ...]
    contexts: dict[int, tuple[int, int, int, int, int]]  # those that calls refer to
    tensors: tuple[int, ...]  # ids that are looked up: of tensors, then of their gradients
    gathering: tuple[int, ...]  # and of the nodes that accumulated these
    storages: tuple[int, ...]  # and of the storages of the tensors
    gathers: dict[int, int]  # ids of their final accumulation nodes, by index of the tensor
    versions: Ints
    grads: tuple[KnownLook, ...]  # each tensor's gradient at the end, if the step created it
    results: tuple[KnownLook, ...]
    calls: Sequence[tuple[int, int]]  # start and end of each call of the plan
    stepped: tuple[OptimizerRates, ...]
    spent: list[int]  # shortest duration of each call in a replay in which it was a separate piece
    many: int  # number of assigned numbers
    steps: tuple[int, ...]  # indices of the times at which a step began
    events: int


@dataclass(slots=True)
class TemplateReplay:
    """One replay, and the amounts by which it shifts numbers."""

    template: Template
    delta: int  # of ids
    found: Ints  # looked-up ids
    known: Any  # whether each of these is already in the trace
    versions: Ints  # the increase of each version
    sequence: int
    span: int
    act: int
    step: int
    skipped: int  # steps that had already begun
    begun: int
    tensors: Sequence[Any]  # until the replay is over
    moments: Any = None  # the times of the template on the clock of the replay
    rates: list[tuple[OptimizerRates, tuple[float, ...]]] = field(
        default_factory=list
    )  # learning rates that differ


def moments(
    template: Template, begun: int, ended: int, pieces: Sequence[Any], times: Sequence[int]
) -> Ints:
    """The times of all events in a replay. See Note [Rows of replays].

    The time of a fused piece is divided in the proportions that its calls had in replays before
    they were fused, or in the template.
    """
    before, after = [template.begun.t], [begun]
    for piece, begin, end in zip(pieces, times, times[1:], strict=False):
        own = slice(piece.first, piece.first + piece.count)
        calls, spent = template.calls[own], template.spent[own]
        if piece.count > 1 and sum(spent):
            parts = begin + (end - begin) * np.cumsum([0, *spent]) // sum(spent)
            before += [moment for call in calls for moment in call]
            after += np.repeat(parts, 2)[1:-1].tolist()
        else:
            before += [calls[0][0], calls[-1][1]]
            after += [begin, end]
    before.append(template.ended.t)
    after.append(ended)
    known = np.maximum.accumulate(np.array(before, np.int64))
    found = np.interp(template.basis.moments, known, np.array(after, np.float64)).astype(np.int64)
    steps = np.arange(len(found))  # all times are distinct
    return np.maximum.accumulate(found - steps) + steps


class TemplateRows:
    """The rows of several replays of one template, created together."""

    def __init__(
        self,
        replays: Sequence[TemplateReplay],
        context: Callable[[tuple[int, int, int, int, int]], int],
    ) -> None:
        self.template = replays[0].template
        self.many = len(replays)
        self.replays = replays
        self._delta = np.array([r.delta for r in replays])
        self._found = np.array([r.found for r in replays], np.int64)
        self._known = np.array([r.known for r in replays], bool)
        self._versions = np.array([r.versions for r in replays], np.int64)
        self._moments = np.array([r.moments for r in replays], np.int64)
        self._by = {
            Filled.NUMBER: self._delta,
            Filled.SEEN: 2 * self._delta,
            Filled.SEQUENCE: np.array([r.sequence for r in replays]),
            Filled.SPAN: np.array([r.span for r in replays]),
            Filled.ACT: np.array([r.act for r in replays]),
            Filled.STEP: np.array([r.step for r in replays]),
        }
        self._context = context

    def of(self, nr: int, part: ColumnPart) -> dict[str, Any]:
        """The columns of one block; `nr`: its index."""
        keep = self._kept(part)
        made: dict[str, Any] = {}
        for column in part.columns:
            values = self._values(column)
            if part.row is StepAct and column.name == "lr":
                self._say_rates(nr, len(column.values), values)
            if column.lengths is None:
                made[column.name] = values if keep is None else values[keep]
                continue
            ragged = Ragged.of_lengths(np.tile(column.lengths, self.many), values)
            made[column.name] = ragged if keep is None else ragged.take(keep)
        return made

    def _say_rates(self, nr: int, count: int, values: Any) -> None:
        """Write the learning rates of optimizers that differ from the template."""
        for place, replay in enumerate(self.replays):
            for stepped, rates in replay.rates:
                if stepped.part == nr:
                    first = place * count + stepped.first
                    values[first : first + len(rates)] = rates

    def _kept(self, part: ColumnPart) -> Any:
        """The rows of tensors that are not in the trace yet; None: all rows."""
        if (part.described < 0).all():
            return None
        known = np.concatenate([self._known, np.zeros((self.many, 1), bool)], axis=1)
        return np.flatnonzero(~known[:, part.described].ravel())

    def _values(self, column: Any) -> Any:
        kind, values = column.kind, column.values
        if kind is Filled.AS_IT_IS:
            return np.tile(values, self.many)
        if kind is Filled.CONTEXT:
            return self._contexts(values)
        if kind is Filled.TIME:
            moved = np.concatenate([self._moments, np.full((self.many, 1), NONE)], axis=1)
            return moved[:, column.places].ravel()
        if kind is Filled.VERSION:
            risen = np.concatenate([self._versions, np.zeros((self.many, 1), np.int64)], axis=1)
            by = 0 if column.rows is None else risen[:, column.rows] * (values >= 0)
            return (values + by).ravel() if column.rows is not None else np.tile(values, self.many)
        moved = values + self._by[kind][:, None] * column.inside
        if len(column.places):
            found = np.concatenate([self._found, np.full((self.many, 1), NONE)], axis=1)
            looked = found[:, column.places]
            if kind is Filled.SEEN:
                looked = 2 * looked + (values & 1)
            moved = np.where(column.places >= 0, looked, moved)
        return moved.ravel()

    def _contexts(self, values: Any) -> Any:
        """The context of each call, with the graph tasks and steps of its own replay."""
        template, first = self.template, self.template.basis.number
        used, at = np.unique(values, return_inverse=True)
        made = np.zeros((self.many, len(used)), np.int64)
        for nr, replay in enumerate(self.replays):
            for place, number in enumerate(used.tolist()):
                thread, module, task, step, phase = template.contexts[number]
                task = task + replay.delta if task >= first else task
                step = step + replay.step if step >= template.basis.step else step
                made[nr, place] = self._context((thread, module, task, step, phase))
        return made[:, at].ravel()
