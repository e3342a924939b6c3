"""Dtype, sizes and strides of saved tensors as one number: there are few combinations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradscope.machine_code.interpreter import as_int, keep
from gradscope.machine_code.language import load, store
from gradscope.watch.native.layout import INLINE
from gradscope.watch.native.walk_memory import (
    AT_SIZES,
    FEW_FORMS,
    FORM_PLACES,
    FORM_ROW,
    FORMS,
    FORMS_MOST,
    FORMS_ROOM,
    FORMS_USED,
    MOST_FORMS,
    MOST_SLOTS,
    NOTHING,
)

Ints = NDArray[np.int64]


def is_form(row: int, dtype: int, sizes: int, dims: int) -> int:
    """Whether a row contains this dtype, sizes and strides."""
    if load(row) != dtype or load(row + 8) != dims:
        return 0
    i = 0
    while i < 8 * dims:
        if load(row + 16 + i) != load(sizes + 8 + i):
            return 0
        if load(row + 16 + 8 * INLINE + i) != load(sizes + 8 + 8 * INLINE + i):
            return 0
        i += 8
    return 1


def place_of_form(graph: int, dtype: int, sizes: int, dims: int) -> int:
    """The cell with the number of this form plus one; or the empty one where it belongs."""
    mixed, i = dtype ^ (dims + 1), 0
    while i < 8 * dims:
        mixed = (mixed * 1000003) ^ load(sizes + 8 + i)
        mixed = (mixed * 1000003) ^ load(sizes + 8 + 8 * INLINE + i)
        i += 8
    last = 2 * load(graph + FORMS_ROOM) - 1
    place = (mixed ^ (mixed >> 17)) & last
    known = load(load(graph + FORM_PLACES) + 8 * place)
    while known != 0:
        if is_form(load(graph + FORMS) + FORM_ROW * (known - 1), dtype, sizes, dims):
            return load(graph + FORM_PLACES) + 8 * place
        place = (place + 1) & last
        known = load(load(graph + FORM_PLACES) + 8 * place)
    return load(graph + FORM_PLACES) + 8 * place


def form_of(graph: int, dtype: int, tensor: int) -> int:
    """The number of a tensor's form; -1: it has too many dims, or there are too many forms."""
    sizes = tensor + load(graph + AT_SIZES)
    dims, number = load(sizes), load(graph + FORMS_USED)
    if dims > INLINE:
        return -1
    place = place_of_form(graph, dtype, sizes, dims)
    if load(place) != 0:
        return load(place) - 1
    if number >= load(graph + FORMS_ROOM):
        return -1
    row, i = load(graph + FORMS) + FORM_ROW * number, 0
    store(row, dtype)
    store(row + 8, dims)
    while i < 8 * INLINE:
        store(row + 16 + i, load(sizes + 8 + i))
        store(row + 16 + 8 * INLINE + i, load(sizes + 8 + 8 * INLINE + i))
        i += 8
    store(place, number + 1)
    store(graph + FORMS_USED, number + 1)
    return number


def lacks_forms(graph: int) -> int:
    """Whether forms of one more node may not fit, and whether room can be added."""
    room = load(graph + FORMS_ROOM)
    return load(graph + FORMS_USED) + MOST_SLOTS > room and room < load(graph + FORMS_MOST)


def more_forms(self: int, given: int) -> int:
    """Move the forms to larger memory: the addresses of rows and of an empty index, the size."""
    graph, other = as_int(self), as_int(given)
    if load(other + 8) > load(graph + FORMS_ROOM):
        former, number, i = load(graph + FORMS), 0, 0
        store(graph + FORMS, load(other))
        store(graph + FORMS_ROOM, load(other + 8))
        store(graph + FORM_PLACES, load(other + 16))
        while i < FORM_ROW * load(graph + FORMS_USED):
            store(load(other) + i, load(former + i))
            i += 8
        while number < load(graph + FORMS_USED):
            row = load(other) + FORM_ROW * number
            number += 1
            store(place_of_form(graph, load(row), row + 8, load(row + 8)), number)
    keep(load(graph + NOTHING))
    return load(graph + NOTHING)


class Forms:
    """The memory for the forms of a graph."""

    def __init__(self, words: Ints) -> None:
        self._words = words
        self._rooms: dict[int, tuple[Ints, Ints]] = {}
        words[FORMS_MOST // 8] = MOST_FORMS
        room = self._made(FEW_FORMS)
        for place, word in zip((FORMS, FORMS_ROOM, FORM_PLACES), room.tolist(), strict=True):
            words[place // 8] = word

    def _made(self, room: int) -> Ints:
        """Memory for more forms, in the format that `more_forms` accepts."""
        rows = np.empty((room, FORM_ROW // 8), np.int64)
        places = np.zeros(2 * room, np.int64)
        address = rows.ctypes.data
        self._rooms[address] = rows, places
        return np.array([address, room, places.ctypes.data], np.int64)

    def grow(self, take_over: Any) -> None:
        """Double the room, if one more node could need it."""
        used, room = (int(self._words[place // 8]) for place in (FORMS_USED, FORMS_ROOM))
        if used + MOST_SLOTS > room and room < MOST_FORMS:
            made = self._made(2 * room)
            take_over(made.ctypes.data)

    def rows(self, since: int) -> Ints:
        """The forms after the first `since`: dtype, dims, sizes, strides."""
        rows, _ = self._rooms[int(self._words[FORMS // 8])]
        return rows[since : int(self._words[FORMS_USED // 8])]
