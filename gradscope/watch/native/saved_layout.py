"""Finds offsets in saved values (`SavedVariable`) and in autograd metadata, from known ones.

See Note [Where things are] in layout.py. Offsets in tensors themselves are found by `watch/values`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from gradscope.watch.native.layout import IN_WRAPPER, NotFound, _Memory
from gradscope.watch.native.versions import certain
from gradscope.watch.values.layout import LayoutPlaces, found as found_in_tensors

WORDS_OF_SAVED, WORDS_OF_HISTORY, WORDS_OF_COUNTER, WORDS_OF_TENSOR = 24, 24, 6, 24
HALF = 0xFFFFFFFF
ADDRESS = 1 << 16
"""Smallest valid address."""


@dataclass(frozen=True, slots=True)
class Half:
    """A half word: the offset of its word in bytes, and the number of bits before it."""

    word: int
    shift: int


Byte = Half
"""A byte: the offset of its word, and the number of bits before it."""


@dataclass(frozen=True, slots=True)
class SavedLayout:
    """Offsets in bytes in a saved value, in a tensor, or in an object their words point to."""

    tensor: int  # in a saved value: its tensor
    hooks: int  # in a saved value: the hook that packed it; 0: none
    undefined: int  # represents an undefined tensor
    history: int  # in a tensor; 0: it has none, and needs no gradient
    node: int  # in autograd metadata; 0: it is a leaf, or needs no gradient
    needs: Byte  # in autograd metadata: whether a leaf needs a gradient
    output: Half  # in autograd metadata: the index of the node's output
    counter: int  # in a tensor: its version counter; 0: none
    version: Half  # in a version counter
    plain: LayoutPlaces


def pointer(kept: Any) -> int:
    """The address of the C++ object of a Python object."""
    return int(ctypes.c_int64.from_address(id(kept) + IN_WRAPPER).value)


@cache
def saved_layout() -> SavedLayout:
    """The offsets in this build. Raises NotFound if they are not certain."""
    memory = _Memory()
    try:
        with ThreadPoolExecutor(1) as apart:  # each thread numbers its nodes separately
            return apart.submit(certain, _looked_for, memory).result()
    finally:
        memory.close()


def _looked_for(memory: _Memory) -> SavedLayout:
    with torch.enable_grad():
        return _found(memory)


def _found(memory: _Memory) -> SavedLayout:
    nodes, known, packed, without = _known_kept()
    look = [memory.words(pointer(each), WORDS_OF_SAVED) for each, _ in known]
    if not all(look):
        raise NotFound("what nodes keep is not where it was expected")
    wanted = [None if each is None else each._cdata for _, each in known]
    tensor = _only("kept tensors", look, lambda words, at, n: wanted[n] in {None, words[at]})
    plain = [memory.words(pointer(each), WORDS_OF_SAVED) for each in without]
    hooked = [memory.words(pointer(each), WORDS_OF_SAVED) for each in packed]
    hooks = [
        at
        for at in range(WORDS_OF_SAVED)
        if not any(words[at] for words in (*look, *plain)) and all(w[at] > ADDRESS for w in hooked)
    ]
    if len(hooks) != 1:
        raise NotFound(f"what packs kept values is at {len(hooks)} places")
    undefined = {memory.words(pointer(each), WORDS_OF_SAVED)[tensor] for each in without}
    del nodes, known  # which hold the saved values
    if len(undefined) != 1:
        raise NotFound(f"no tensor looks in {len(undefined)} ways")
    history, node, needs, output = _history(memory)
    counter, version = _counter(memory)
    return SavedLayout(
        8 * tensor, 8 * hooks[0], undefined.pop(), 8 * history, 8 * node, needs, output,
        8 * counter, version, found_in_tensors(),
    )  # fmt: skip


def _known_kept() -> tuple[list[Any], list[tuple[Any, Any]], list[Any], list[Any]]:
    """Known nodes, and their saved values: with their tensors, packed by hooks, and none.

    A node saves a copy of its own result, which is not known (None).
    """
    x, y = torch.ones(2, 3, requires_grad=True), torch.ones(2, 3, requires_grad=True)
    constant, made = torch.ones(2, 3), x.exp()
    product, other, third = (x * made).grad_fn, (y * constant).grad_fn, (constant * y).grad_fn
    kept = [
        (product._raw_saved_self, x), (product._raw_saved_other, made),
        (made.grad_fn._raw_saved_result, None), (other._raw_saved_other, constant),
        (third._raw_saved_self, constant),
    ]  # fmt: skip
    without = [other._raw_saved_self, third._raw_saved_other]
    packed, nodes = [], [product, made.grad_fn, other, third]
    for one, other_one in ((x, made), (made, constant), (constant, y)):
        node = (one * other_one).grad_fn
        nodes.append(node)
        for slot, needed in ((node._raw_saved_self, other_one), (node._raw_saved_other, one)):
            if needed.requires_grad:
                slot.register_hooks(_as_it_is, _as_it_is)
                packed.append(slot)
    return nodes, kept, packed, without


def _as_it_is(value: Any) -> Any:
    return value


def _history(memory: _Memory) -> tuple[int, int, Byte, Half]:
    """Offsets of autograd metadata in a tensor, and of node, flag and output index in it."""
    x = torch.ones(4, 3, requires_grad=True)
    made = [x.exp(), *torch.var_mean(x, 1), *x.chunk(4), x.t(), *x.unbind(1), x @ x.t()]
    tensors = [x, *made]
    free = [torch.ones(3), torch.ones(2, 2, dtype=torch.int64), torch.zeros(3, 4)]
    look = [memory.words(each._cdata, WORDS_OF_TENSOR) for each in tensors]
    without = [memory.words(each._cdata, WORDS_OF_TENSOR) for each in free]
    nodes = [0] + [pointer(each.grad_fn) for each in made]
    numbers = [each.output_nr for each in tensors]

    def behind(at: int) -> list[tuple[int, ...]]:
        return [memory.words(words[at], WORDS_OF_HISTORY) for words in look]

    places = []
    for at in range(WORDS_OF_TENSOR):
        if any(words[at] for words in without) or not all(w[at] > ADDRESS for w in look):
            continue
        there = behind(at)
        if not all(there):
            continue
        places += [
            (at, node)
            for node in range(WORDS_OF_HISTORY)
            if [words[node] for words in there] == nodes
        ]
    if len(places) != 1:
        raise NotFound(f"histories are at {len(places)} places")
    history, node = places[0]
    needs = _byte(memory, history)
    return history, node, needs, _half("outputs", behind(history), numbers)


def _byte(memory: _Memory, history: int) -> Byte:
    """The byte of autograd metadata that is 1 if a leaf requires grad, and otherwise 0."""
    needing = [torch.ones(n, requires_grad=True) for n in (1, 2, 3)]
    _ = needing[0] * 2  # it has a node that accumulates its gradient
    others = [torch.ones(6)[n:] for n in (1, 2)] + [torch.ones(6).view(2, 3)]

    def behind(tensor: Any) -> tuple[int, ...]:
        return memory.words(memory.words(tensor._cdata, WORDS_OF_TENSOR)[history], WORDS_OF_HISTORY)

    there, wanted = [behind(each) for each in (*needing, *others)], [1] * 3 + [0] * len(others)
    turned = torch.ones(3)
    for needed in (1, 0, 1, 0):  # padding bytes keep their values
        turned.requires_grad_(bool(needed))
        there.append(behind(turned))
        wanted.append(needed)
    if not all(there):
        raise NotFound("histories are not where they were expected")
    found = [
        Byte(8 * at, shift)
        for at in range(WORDS_OF_HISTORY)
        for shift in range(0, 64, 8)
        if [words[at] >> shift & 0xFF for words in there] == wanted
    ]
    if len(found) != 1:
        raise NotFound(f"needs of gradients are at {len(found)} places")
    return found[0]


def _counter(memory: _Memory) -> tuple[int, Half]:
    """The offset of the version counter in a tensor, and of the version in it."""
    tensors, many = [], [5, 9, 14, 3]
    for times in many:
        tensor = torch.ones(3)
        for _ in range(times):
            tensor.add_(1)
        tensors.append(tensor)
    look = [memory.words(each._cdata, WORDS_OF_TENSOR) for each in tensors]
    found = []
    for at in range(WORDS_OF_TENSOR):
        there = [memory.words(words[at], WORDS_OF_COUNTER) for words in look]
        if all(there) and all(words[at] > ADDRESS for words in look):
            found += [(at, half) for half in _halves(there, many)]
    if len(found) != 1:
        raise NotFound(f"versions are at {len(found)} places")
    return found[0]


def _halves(there: Sequence[tuple[int, ...]], wanted: Sequence[int]) -> list[Half]:
    """Half words that have the requested value in all objects."""
    return [
        Half(8 * at, shift)
        for at in range(len(there[0]))
        for shift in (0, 32)
        if all(words[at] >> shift & HALF == n for words, n in zip(there, wanted, strict=True))
    ]


def _half(what: str, there: Sequence[tuple[int, ...]], wanted: Sequence[int]) -> Half:
    places = _halves(there, wanted)
    if len(places) != 1:
        raise NotFound(f"{what} are at {len(places)} places")
    return places[0]


def _only(
    what: str, look: Sequence[tuple[int, ...]], fits: Callable[[tuple[int, ...], int, int], bool]
) -> int:
    """The only offset that fits all objects."""
    places = [
        at for at in range(len(look[0])) if all(fits(words, at, n) for n, words in enumerate(look))
    ]
    if len(places) != 1:
        raise NotFound(f"{what} are at {len(places)} places")
    return places[0]
