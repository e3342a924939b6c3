"""Marks of calls: origins of NaN and Inf, and in-place writes."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from gradscope.analysis.graph.forward.calls import ForwardCalls
from gradscope.analysis.graph.forward.select import SelectedCalls
from gradscope.analysis.nonfinite.births import births
from gradscope.scene.graph.marks import BORN, PLACES, Marks
from gradscope.scene.graph.picture import BoxLine, Tone
from gradscope.scene.kinds import BoxMark
from gradscope.trace.schema import NONE, Place


def marks_of_calls(calls: ForwardCalls, selected: SelectedCalls) -> Marks:
    found: dict[int, set[BoxMark]] = defaultdict(set)
    lines: dict[int, list[BoxLine]] = defaultdict(list)
    places = {id: place for place, id in enumerate(calls.id.tolist())}
    for birth in births(calls.trace).births:
        place = places.get(birth.op, NONE)
        if place != NONE and birth.place == Place.OP_OUTPUT:
            found[place].add(BORN[birth.kind])
            lines[place].append(BoxLine(f"{birth.kind} {PLACES[birth.place]}", Tone.ALARM))
    for place in selected.focus:
        found[place].add(BoxMark.FOCUS)
    chosen = selected.places
    for place in chosen[np.isin(calls.id[chosen], sorted(calls.writes))].tolist():
        found[place].add(BoxMark.WRITES)
    return Marks(
        {place: frozenset(marks) for place, marks in found.items()},
        {place: tuple(dict.fromkeys(each)) for place, each in lines.items()},
        None,
    )
