"""Rows of what nodes keep, as a native walk has read it: which tensors they are.

What they say is what `Graphs` makes of what is looked at from Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from gradscope.compiled.statistics import KINDS
from gradscope.record.from_pytorch.tensors import Memory, Tensors
from gradscope.trace.schema import NONE
from gradscope.watch.native.layout import INLINE
from gradscope.watch.native.saved_layout import saved_layout
from gradscope.watch.native.words import A_LEAF, PACKED

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from gradscope.record.session import Session
    from gradscope.watch.native.graph import NativeGraph


class Saved:
    """Knows tensors by their history, as the node's own result, or by their memory."""

    def __init__(self, session: Session, graph: NativeGraph, tensors: Tensors) -> None:
        self._session = session
        self._graph = graph
        self._tensors = tensors
        self._slots: list[int] = []
        self.operands: list[tuple[int, int, int]] = []
        """What nodes keep that no node made: the node, the number of the slot, the tensor."""
        self._dtypes = {
            code: tensors.dtype(getattr(torch, KINDS[kind]))
            for code, kind in saved_layout().plain.kinds.items()
        }
        self._device = tensors.device(torch.device("cpu"))

    def rows(self, seen: NDArray[np.int64]) -> list[tuple[int, int, int, int, int, int]]:
        """Rows of what nodes keep: node, slot, tensor, version, time, and whether it is packed."""
        intern, start, tensors = self._session.writer.intern, self._session.start, self._tensors
        self._slots += [intern(slot) for slot in self._graph.slots[len(self._slots) :]]
        layouts, made = self._graph.layouts, []
        for (node, slot, what, known, own, layout, at, walk, data, size, offset, writes, code,
             dims, _, operand, *numbers) in seen.tolist():  # fmt: skip
            t, tensor, version = max(at - start, 0), known, writes
            if what == PACKED:
                tensor, version = NONE, 0
            elif what != A_LEAF:
                shape, strides = tuple(numbers[:dims]), tuple(numbers[INLINE : INLINE + dims])
                if known < 0 <= own and layouts[layout][0] == shape:
                    tensor = own
                memory = Memory(walk, self._device, data, size, walk - start)
                if tensor >= 0:
                    tensors.complete_at(tensor, strides, memory, version)
                else:
                    text, width = self._dtypes[code]
                    place = 0 if 0 in shape else data + offset * width
                    tensor = tensors.constant_at(
                        place, shape, strides, text, width, memory, version
                    )
            if operand:
                self.operands.append((node, slot, tensor))
            made.append((node, self._slots[slot], tensor, version, t, int(what == PACKED)))
        return made
