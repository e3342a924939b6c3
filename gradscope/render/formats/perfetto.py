"""Perfetto: the whole trace over time, as protocol buffers for ui.perfetto.dev.

See https://perfetto.dev/docs/reference/trace-packet-proto and …/synthetic-track-event for the
fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

import numpy as np

from gradscope.analysis.lookups import Ids
from gradscope.render.encoding.protobuf import (
    fields,
    fixed64,
    integer,
    key,
    message,
    text,
    varint,
    varints,
)
from gradscope.render.formats import Drawn, Format
from gradscope.render.theme import Theme
from gradscope.scene.readable import plural
from gradscope.scene.timeline.tracks.slices import ABOUT, DEFAULTS, WORDS, Sort
from gradscope.scene.timeline.tracks.tracks import Tracks
from gradscope.trace.schema import NONE

SEQUENCE = integer(10, 1)
"""All packets belong to one sequence, in which names are written once and then have numbers."""
FIRST = SEQUENCE + integer(13, 1)
LATER = SEQUENCE + integer(13, 2)
COUNT, BYTES = 2, 3  # units of CounterDescriptor
MANY = 100_000
PROCESS = 1
"""The track of the first process, for events without a thread."""


class Type(IntEnum):
    """The types of a TrackEvent."""

    BEGIN = 1
    END = 2
    INSTANT = 3
    COUNTER = 4


def write(tracks: Tracks, theme: Theme | None) -> Drawn:  # noqa: ARG001  Perfetto has its own colours
    """The trace as a file of Perfetto."""
    return Drawn(_Writing(tracks).content(), tracks.notes, plural(len(tracks.slices), "slice"))


FORMAT = Format(
    "perfetto",
    ".pftrace",
    "the trace over time, for ui.perfetto.dev",
    write,
    takes="tracks",
    endings=(".pftrace", ".perfetto-trace"),
)


def _packet(*parts: bytes) -> bytes:
    return message(1, b"".join(parts))


class _Writing:
    """Writes one file."""

    def __init__(self, tracks: Tracks) -> None:
        self._tracks = tracks
        self._slices = tracks.slices
        self._flows = self._flow_fields()
        self._uuids: dict[tuple[int, int], int] = {}  # by thread and lane
        self._next_uuid = PROCESS

    def content(self) -> bytes:
        return fields(
            part
            for parts in (
                self._names(),
                self._describe(),
                self._lanes(),
                self._moments(),
                self._levels(),
            )
            for part in parts
        )

    def _uuid(self) -> int:
        self._next_uuid += 1
        return self._next_uuid - 1

    # Names, written once -------------------------------------------------------------------------

    def _names(self) -> Iterator[bytes]:
        """Every text as the name of an event and as a value, because it may be used as either."""
        slices, words = self._slices, self._tracks.words
        used = [np.unique(slices.name), np.unique(self._tracks.moments.name)]
        values = [np.unique(slices.column(name)) for name in ABOUT if name in WORDS]
        names = np.unique(np.concatenate(used)).tolist()
        told = np.unique(np.concatenate([*values, np.unique(self._tracks.moments.note)])).tolist()
        body = [message(1, integer(1, sort + 1) + text(2, sort.title)) for sort in Sort]
        body += [message(2, integer(1, at + 1) + text(2, words[at] or "(unnamed)")) for at in names]
        body += [message(3, integer(1, at + 1) + text(2, name)) for at, name in enumerate(ABOUT)]
        body += [message(3, integer(1, len(ABOUT) + 1) + text(2, "note"))]
        body += [message(29, integer(1, at + 1) + text(2, words[at])) for at in told if at]
        for start in range(0, len(body), MANY):
            yield _packet(
                LATER if start else FIRST, message(12, fields(body[start : start + MANY]))
            )

    # Processes, threads and their lanes ----------------------------------------------------------

    def _describe(self) -> Iterator[bytes]:
        tracks = self._tracks
        of_process = {rank: self._uuid() for rank in tracks.pids}
        several = len(tracks.pids) > 1
        for rank, uuid in of_process.items():
            name = f"{tracks.script} (rank {rank})" if several else tracks.script
            process = message(3, integer(1, tracks.pids[rank]) + text(6, name))
            yield _packet(LATER, message(60, integer(1, uuid) + process))
        for lane in tracks.lanes:
            uuid = self._uuid()
            self._uuids[lane.thread, lane.number] = uuid
            strand = tracks.strand(lane.thread)
            if strand is None:
                parent = next(iter(of_process.values()))
                named = integer(5, parent) + text(2, "steps" if not lane.number else "more steps")
            elif lane.number:
                parent = self._uuids[lane.thread, 0]
                named = integer(5, parent) + text(2, f"{strand.name} (overlapping)")
            else:
                number = strand.native or strand.id + 1
                pid = tracks.pids[strand.process]
                thread = integer(1, pid) + integer(2, number) + text(5, strand.name)
                named = integer(5, of_process[strand.process]) + message(4, thread)
            yield _packet(LATER, message(60, integer(1, uuid) + named))

    # Slices --------------------------------------------------------------------------------------

    def _lanes(self) -> Iterator[bytes]:
        slices = self._slices
        about = self._about()
        begins, ends = varints(slices.begin), varints(slices.end)
        names, sorts = slices.name.tolist(), slices.sort.tolist()
        stamp, event = key(8, 0), key(11, 2)
        heads: dict[tuple[int, int], bytes] = {}
        for lane in self._tracks.lanes:
            track = integer(11, self._uuids[lane.thread, lane.number])
            end = message(11, integer(9, Type.END) + track)
            heads.clear()
            for turn in lane.turns.tolist():
                if turn < 0:
                    yield _packet(stamp, ends[-1 - turn], LATER, end)
                    continue
                kind = names[turn], sorts[turn]
                head = heads.get(kind)
                if head is None:
                    head = heads[kind] = fields(
                        (
                            integer(9, Type.BEGIN),
                            track,
                            integer(10, kind[0] + 1),
                            integer(3, kind[1] + 1),
                        )
                    )
                body = head + self._flows.get(turn, b"") + about[turn]
                yield _packet(stamp, begins[turn], LATER, event, varint(len(body)), body)

    def _about(self) -> list[bytes]:
        """The facts about each slice, as debug annotations."""
        slices = self._slices
        found = [b""] * len(slices)
        for at, name in enumerate(ABOUT):
            if name not in slices.about:
                continue
            column, usual = slices.about[name], DEFAULTS.get(name, NONE)
            known = np.flatnonzero(column != usual)
            values = column[known] + (1 if name in WORDS else 0)
            different, which = np.unique(values, return_inverse=True)
            field = 17 if name in WORDS else 4
            parts = [
                message(4, integer(1, at + 1) + integer(field, value))
                for value in different.tolist()
            ]
            for row, part in zip(known.tolist(), which.reshape(-1).tolist(), strict=True):
                found[row] += parts[part]
        return found

    def _flow_fields(self) -> dict[int, bytes]:
        """For each slice, the arrows that start and end at it."""
        arrows = self._tracks.arrows
        found: dict[int, bytes] = {}
        for number, (tail, head) in enumerate(
            zip(arrows.tail.tolist(), arrows.head.tolist(), strict=True), 1
        ):
            found[tail] = found.get(tail, b"") + fixed64(47, number)
            found[head] = found.get(head, b"") + fixed64(48, number)
        return found

    # Events and counters -------------------------------------------------------------------------

    def _moments(self) -> Iterator[bytes]:
        moments = self._tracks.moments
        columns = (moments.t, moments.thread, moments.name, moments.note)
        for t, thread, name, note in zip(*(each.tolist() for each in columns), strict=True):
            uuid = self._uuids.get((thread, 0), PROCESS)
            body = integer(9, Type.INSTANT) + integer(10, name + 1) + integer(11, uuid)
            if note:
                said = integer(1, len(ABOUT) + 1) + integer(17, note + 1)
                body += message(4, said)
            yield _packet(integer(8, t), LATER, message(11, body))

    def _levels(self) -> Iterator[bytes]:
        for level in self._tracks.levels:
            uuid = self._uuid()
            unit = message(8, integer(3, BYTES if level.is_bytes else COUNT))
            yield _packet(LATER, message(60, integer(1, uuid) + text(2, level.title) + unit))
            yield from _counts(level.t, level.values, uuid)


def _counts(t: Ids, values: Ids, uuid: int) -> Iterator[bytes]:
    stamp, head = key(8, 0), integer(9, Type.COUNTER) + integer(11, uuid) + key(30, 0)
    event = key(11, 2)
    for when, value in zip(varints(t), varints(values), strict=True):
        size = varint(len(head) + len(value))
        yield _packet(stamp, when, LATER, event, size, head, value)
