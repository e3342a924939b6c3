"""Reads saved values where PyTorch (before 2.10) shows them only unpacked.

# Note [Unpacking]
Unpacking a saved value calls its unpack hook, if it has one: a checkpoint would compute its forward
again. There is none if no saved-tensor hooks were active on any thread when the node was created,
and the program has not registered hooks on saved values. Both is known only if watching began
before the program could do either: when it imported PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from gradscope.watch.called.results import own_result
from gradscope.watch.listener import FoundSavedValue

if TYPE_CHECKING:
    from gradscope.watch.hooks.of_saved import SavedHooks
    from gradscope.watch.listener import NodeRecord, PythonNodeRecord

PACKED = "saved values of nodes that were created while saved-tensor hooks were active"
CUSTOM = "saved_tensors"
_custom: Any = torch._C._FunctionBase.saved_tensors  # a subclass may have another


class Unpacked:
    """Reads the saved values of nodes for one recording."""

    def __init__(self, hooks: SavedHooks) -> None:
        self._hooks = hooks
        self._packed = 0

    @property
    def left_out(self) -> dict[str, int]:
        """Descriptions of what was not recorded, with their counts."""
        return {PACKED: self._packed} if self._packed else {}

    def may_be_packed(self) -> bool:
        """Whether a hook may pack the values of a node that is being created."""
        return self._hooks.active > 0

    def read(
        self,
        node: Any,
        record: PythonNodeRecord | None,
        slots: Sequence[str],
        record_of: Callable[[Any], NodeRecord | None],
    ) -> list[FoundSavedValue]:
        """The saved values of a node in these slots."""
        if not slots:
            return []
        if record is None or record.packed or self._hooks.registered:
            self._packed += 1
            return []
        kept: list[FoundSavedValue] = []
        for slot in slots:
            custom = slot == CUSTOM
            try:
                with torch._C._DisableTorchDispatch():  # no code of a subclass runs
                    value = _custom.__get__(node) if custom else getattr(node, f"_saved_{slot}")
            except (RuntimeError, NotImplementedError):  # released, written to since, or a wrapper
                continue
            many = value if type(value) is tuple else (value,)
            own = None if custom else own_result(node.name(), slot)
            for place, tensor in enumerate(many):
                if isinstance(tensor, torch.Tensor):  # a custom function may save None
                    of = tensor.grad_fn
                    kept.append(
                        FoundSavedValue(
                            f"{CUSTOM}[{place}]" if custom else slot,
                            tensor,
                            None if of is None else record_of(of),
                            0 if of is None else tensor.output_nr,
                            own,
                            own is None and not custom,
                        )
                    )
        return kept
