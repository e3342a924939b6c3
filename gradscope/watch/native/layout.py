"""Finds the offsets of fields in PyTorch's nodes, by comparison with known graphs.

# Note [Where things are]
A node of PyTorch is a C++ object, and the offsets of its fields are not part of an API. So a few
known graphs are created at the start, and the values that Python shows of each node are searched in
its memory. An offset counts if it is the only one that fits all nodes; if there is none, or a
second one, the graph is traversed from Python. Memory is read through the system here: an invalid
address raises an error instead of a segmentation fault.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from gradscope.watch.native.versions import DICT, EDGE, OWNER, SHARED, certain
from gradscope.watch.unseen import UnknownBuildError

WORDS = 96
"""Number of words of a node that are read."""

IN_WRAPPER = 16
"""Offset of the node's address in its Python object: after the object head."""

NO_NUMBER = -1
"""Stands for a size that is not known, or not a single number."""

INLINE = 5  # a shape of up to this many numbers is stored inline
_OWN_MEMORY = Path("/proc/self/mem")


class NotFound(UnknownBuildError):  # noqa: N818 -- why the graph is walked from Python
    """This build of PyTorch is not as the traversal expects."""


@dataclass(frozen=True, slots=True)
class NativeLayout:
    """Offsets in bytes in a node, or in an object that one of its words points to."""

    sequence: int
    edges: int  # the first edge; the next word: the end of the last one
    metadata: int  # the metadata, which holds its dict
    inputs: int  # the descriptions of its inputs; the next word: their count
    input_bytes: int  # size of a description, which begins with dtype and device
    shape: int  # in a description: the address of the sizes; the next word: their count
    variable: int  # in an AccumulateGrad


class _Memory:
    """The memory of this process."""

    def __init__(self) -> None:
        try:
            self.file = os.open(_OWN_MEMORY, os.O_RDONLY)
        except OSError as error:
            raise NotFound(f"memory cannot be read: {error}") from None

    def close(self) -> None:
        os.close(self.file)

    def words(self, address: int, count: int) -> tuple[int, ...]:
        """This many words at an address; none if it is not valid."""
        try:
            found = os.pread(self.file, 8 * count, address)
        except (OSError, OverflowError):
            return ()
        return struct.unpack(f"<{count}Q", found) if len(found) == 8 * count else ()


@cache
def layout() -> NativeLayout:
    """The offsets in this build. Raises NotFound if they are not certain.

    `import torch` may still be running, so nothing may be imported here.
    """
    memory = _Memory()
    try:
        with ThreadPoolExecutor(1) as apart:  # each thread numbers its nodes separately
            return apart.submit(certain, _looked_for, memory).result()
    finally:
        memory.close()


@cache
def in_custom() -> int:
    """The offset of the node's address in the Python object of a custom function."""

    class Known(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:  # noqa: ARG004 -- as PyTorch has it
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:  # noqa: ARG004 -- likewise
            return grad

    def look() -> int:
        with torch.enable_grad():
            known = Known.apply(torch.ones(1, requires_grad=True))  # it owns the node
            return _place_of_node(memory, known.grad_fn)

    memory = _Memory()
    try:
        with ThreadPoolExecutor(1) as apart:  # each thread numbers its nodes separately
            return apart.submit(look).result()
    finally:
        memory.close()


def _place_of_node(memory: _Memory, node: Any) -> int:
    """The offset of a node's address in its Python object."""
    own = id(node.metadata)  # created when it is first requested
    where = layout()

    def is_node(address: int) -> bool:
        look = memory.words(address, where.inputs // 8)
        if not look or look[where.sequence // 8] != node._sequence_nr():
            return False
        return memory.words(look[where.metadata // 8] + DICT, 1) == (own,)

    words = memory.words(id(node), type(node).__basicsize__ // 8)
    places = [at for at, word in enumerate(words) if is_node(word)]
    if len(places) != 1:
        raise NotFound(f"the node of a custom function is at {len(places)} places")
    return 8 * places[0]


def _looked_for(memory: _Memory) -> NativeLayout:
    with torch.enable_grad():
        inputs = _known_nodes()
    nodes = list(inputs)
    look = {node: memory.words(_address(memory, node), WORDS) for node in nodes}
    if not all(look.values()) or not all(_is_owned(memory, node, look[node]) for node in nodes):
        raise NotFound("nodes are not where they were expected")
    inner = [node for node in nodes if node.next_functions]

    def edges_at(node: Any, at: int) -> bool:
        return _has_edges(memory, node, look[node], at)

    def dict_at(node: Any, at: int) -> list[int]:
        wanted = id(node.metadata)
        return [n for n, word in enumerate(memory.words(look[node][at], 8)) if word == wanted]

    metadata = _only("metadata", inner, lambda node, at: bool(dict_at(node, at)))
    dicts = {place for node in inner for place in dict_at(node, metadata)}
    if dicts != {DICT // 8}:
        raise NotFound(f"dicts of nodes are not at {DICT}")
    at, shape = _inputs(memory, inputs, look)
    accumulates = [node for node in nodes if getattr(node, "variable", None) is not None]
    return NativeLayout(
        8 * _only("numbers", inner, lambda node, at: look[node][at] == node._sequence_nr()),
        8 * _only("edges", inner, edges_at),
        8 * metadata,
        8 * at,
        _input_bytes(memory, inputs, look, at, shape),
        8 * shape,
        8 * _only("leaves", accumulates, lambda node, at: look[node][at] == node.variable._cdata),
    )


def _known_nodes() -> dict[Any, list[Any]]:
    """Nodes with one and several inputs and edges, of several dtypes and devices.

    With the tensors whose gradients their inputs receive.
    """
    made: list[Any] = []
    for count, dtype in enumerate((torch.float32, torch.float64)):
        x = torch.ones((count + 3, 7), dtype=dtype, requires_grad=True)
        y = torch.ones((7, 3), dtype=dtype, requires_grad=True)
        made += [x.exp(), x.t(), x.sum()]
        made.append(made[-3] @ y)
        one, two, three = parts = made[-1].split([1, 1, count + 1])
        made += [*parts, one.sin(), two.neg(), *three.unbind(1)]
        made += [one.sin() * 2, made[-1].cos(), torch.cat([x.t(), y], dim=1)]
        made += made[-1].split([1, 2, x.shape[0]], dim=1)
        made.append(made[-1].tanh())
    elsewhere = torch.empty((5, 7), device="meta", requires_grad=True)
    made.append(elsewhere.view(7, 5))
    inputs: dict[Any, list[Any]] = {}
    for tensor in made:
        node = tensor.grad_fn
        inputs.setdefault(node, []).append(tensor)
        for leaf, _ in node.next_functions:
            if getattr(leaf, "variable", None) is not None:
                inputs[leaf] = [leaf.variable]
    for node in inputs:
        _ = node.metadata  # created when it is first requested
    return inputs


def _address(memory: _Memory, node: Any) -> int:
    words = memory.words(id(node) + IN_WRAPPER, 1)
    return words[0] if words else 0


def _is_owned(memory: _Memory, node: Any, look: Sequence[int]) -> bool:
    """Whether a node holds its own address and that of its counts where they are expected."""
    if not SHARED:
        return True
    return memory.words(id(node) + IN_WRAPPER, 2) == tuple(look[OWNER // 8 - 1 : OWNER // 8 + 1])


def _only(what: str, nodes: Sequence[Any], fits: Callable[[Any, int], bool]) -> int:
    """The only offset that fits all nodes."""
    places = [at for at in range(1, WORDS - 2) if all(fits(node, at) for node in nodes)]
    if len(places) != 1 or not nodes:
        raise NotFound(f"{what} are at {len(places)} places")
    return places[0]


def _has_edges(memory: _Memory, node: Any, look: Sequence[int], at: int) -> bool:
    edges = node.next_functions
    if look[at + 1] - look[at] != EDGE * len(edges):
        return False
    size = EDGE // 8
    words = memory.words(look[at], size * len(edges))
    numbers = (nr & 0xFFFFFFFF for nr in words[size - 1 :: size])
    return list(zip(words[::size], numbers, strict=True)) == [
        (0 if following is None else _address(memory, following), nr) for following, nr in edges
    ]


def _has_shape(memory: _Memory, address: int, at: int, shape: Sequence[int]) -> bool:
    """Whether the description of an input has this shape inline at this offset."""
    words = memory.words(address + 8 * at, 2 + INLINE)
    if not words or words[0] != address + 8 * at + 16 or words[1] & 0xFFFFFFFF != len(shape):
        return False
    return words[2 : 2 + len(shape)] == tuple(shape)


def _inputs(
    memory: _Memory, inputs: dict[Any, list[Any]], look: dict[Any, tuple[int, ...]]
) -> tuple[int, int]:
    """The offset of descriptions of inputs, and that of the shape in them."""
    found = {
        (at, shape)
        for at in range(1, WORDS - 2)
        for shape in range(1, 8)
        if all(
            look[node][at + 1] & 0xFFFFFFFF == len(tensors)
            and _has_shape(memory, look[node][at], shape, tensors[0].shape)
            for node, tensors in inputs.items()
        )
    }
    if len(found) != 1:
        raise NotFound(f"inputs are at {len(found)} places")
    at, shape = found.pop()
    kinds: dict[Any, set[int]] = {}
    for node, (first, *_) in inputs.items():
        kinds.setdefault((first.dtype, first.device), set()).update(memory.words(look[node][at], 1))
    if len(kinds) != sum(map(len, kinds.values())) or len(set().union(*kinds.values())) != len(
        kinds
    ):
        raise NotFound("dtypes and devices are not told apart by one word")
    return at, shape


def _input_bytes(
    memory: _Memory,
    inputs: dict[Any, list[Any]],
    look: dict[Any, tuple[int, ...]],
    at: int,
    shape: int,
) -> int:
    """The size of the description of an input."""
    several = [node for node, tensors in inputs.items() if len(tensors) > 1]
    sizes = [
        size
        for size in range(8, 512, 8)
        if all(
            _has_shape(memory, look[node][at] + size * place, shape, tensor.shape)
            for node in several
            for place, tensor in enumerate(inputs[node])
        )
    ]
    if len(sizes) != 1 or not several:
        raise NotFound(f"descriptions of inputs take {sizes} bytes")
    return sizes[0]


@cache
def kinds_of_inputs() -> dict[int, tuple[Any, Any]]:
    """Dtype and device, by the word with which the description of an input begins."""
    memory, at, found = _Memory(), layout().inputs // 8, {}

    def look() -> None:
        for dtype in DTYPES_WITH_GRADIENT:
            for device in ("cpu", "meta"):
                leaf = torch.empty(2, dtype=dtype, device=device, requires_grad=True)
                given = leaf.view(2)
                words = memory.words(_address(memory, given.grad_fn), at + 1)
                found[memory.words(words[at], 1)[0]] = given.dtype, given.device

    try:
        with torch.enable_grad(), ThreadPoolExecutor(1) as apart:
            apart.submit(look).result()
    finally:
        memory.close()
    return found


DTYPES_WITH_GRADIENT = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128,
)  # fmt: skip


def described_at(address: int, where: NativeLayout) -> tuple[tuple[int, ...], Any, Any]:
    """Shape, dtype and device in the description at an address, where Python does not show them.

    A shape that is not stored inline is unknown: nested tensors have a tensor in its place.
    """
    words = (ctypes.c_int64 * (where.input_bytes // 8)).from_address(address)
    at, (dtype, device) = where.shape // 8, kinds_of_inputs().get(words[0], (None, None))
    many = words[at + 1] & 0xFFFFFFFF
    if words[at] != address + where.shape + 16 or many > INLINE:
        return (NO_NUMBER,), dtype, device
    sizes = words[at + 2 : at + 2 + many]
    return tuple(max(size, NO_NUMBER) for size in sizes), dtype, device
