"""Records what the outermost module was called with: where it is in memory, and its bits."""

from __future__ import annotations

import sys
from itertools import chain, islice
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from gradscope.record.process.ranks import this_process
from gradscope.trace.schema import NONE, GivenAct
from gradscope.watch.in_place.by_identity import held_in, is_a

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gradscope.record.acts.notes import ActNotes

COLUMNS = "many", "first", "apart", "row", "whole", "digests"
FRAMES = 3
MOST = 4
"""Largest number of tensors that are recorded of a call."""

HASHED = 1 << 16
"""Number of bytes of a tensor that are read, from its first row on."""

LOOKED_AT = 64
"""Largest number of arguments, and of items of containers, that are looked at."""


class GivenActs:
    """Records tensors that are passed to the outermost module; in a program of several ranks."""

    def __init__(self, torch: Any, acts: ActNotes, *, reads: bool) -> None:
        self._torch, self._acts = torch, acts
        self._plain = (torch.Tensor, torch.nn.Parameter)
        self._reads = reads  # also values
        self.wanted = this_process().is_one_of_several

    def given(self, module: Any, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Called before the outermost module is called with these arguments."""
        acts = self._acts
        stack = acts.session.sites.of_several(sys._getframe(1), FRAMES)
        if acts.is_too_many(GivenAct, stack):
            return
        arguments = islice(chain(given, named.values()), LOOKED_AT)
        tensors = [each for one in arguments for each in self._tensors(one)][:MOST]
        rows = [self._row(each) for each in tensors]
        columns: dict[str, Any] = dict(zip(COLUMNS, zip(*rows, strict=True), strict=False))
        act = GivenAct(**columns, grad=self._torch.is_grad_enabled())
        acts.note(act, None, module=module, stack=stack)

    def _tensors(self, argument: Any) -> Iterator[Any]:
        containers = (list, tuple, dict)
        inside = held_in(argument)[:LOOKED_AT] if is_a(argument, containers) else [argument]
        for each in inside:
            plain = type(each) in self._plain and not each.requires_grad and each.dim()
            if plain and self._acts.look.address(each):
                yield each

    def _row(self, tensor: Any) -> tuple[int, ...]:
        shape = tuple(tensor.shape)
        return (
            shape[0],
            tensor.storage_offset(),
            tensor.stride(0),
            int(np.prod(shape[1:], dtype=np.int64)),
            tensor.untyped_storage().nbytes() // tensor.element_size(),
            self._digest(tensor, shape) if self._reads else NONE,
        )

    def _digest(self, tensor: Any, shape: tuple[int, ...]) -> int:
        if tensor.device.type != "cpu" or 0 in shape:
            return NONE
        memory = self._acts.look.memory(tensor)
        if memory is None:
            return NONE
        size = tensor.element_size()
        steps = [each * size for each in tensor.stride()]
        whole: Any = np.ndarray((*shape, size), np.uint8, memory, 0, (*steps, 1))
        rows = -(-HASHED // max(whole[0].size, 1))
        return crc32(np.ascontiguousarray(whole[:rows]).tobytes())
