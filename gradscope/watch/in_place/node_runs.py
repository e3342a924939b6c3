"""What is known of one run of a node: copies of its values, and shares of rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class NodeArray(NamedTuple):
    """The values of a tensor, and PyTorch's name of its dtype. bfloat16 is held as float32."""

    values: Any
    dtype: str


@dataclass(slots=True)
class CopiedRun:
    """One run of a node."""

    kind: str  # PyTorch's name of the node
    node: int  # its id in the trace
    stack: int  # the stack that created it
    grads: list[NodeArray | None] = field(default_factory=list)
    shapes: list[tuple[int, ...]] = field(default_factory=list)  # of all incoming gradients
    saved: dict[str, Any] = field(default_factory=dict)
    returned: list[NodeArray | None] = field(default_factory=list)
    unsteady: bool = False  # it was called twice, and did not return the same bits


class RowShares(NamedTuple):
    """The rows with the largest parts of the gradient of a weight, the largest first."""

    many: int  # number of rows
    rows: tuple[int, ...]
    shares: tuple[float, ...]  # in the sum of the squared norms of all parts
