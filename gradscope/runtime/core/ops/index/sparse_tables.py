"""Tables that were used with `sparse=True`: their gradients are sparse in PyTorch.

All gradients of this runtime are dense. Operations that need a sparse gradient (SparseAdam) use the
rows that are not zero, and check here whether the gradient would be sparse.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

_seen: WeakValueDictionary[int, Any] = WeakValueDictionary()


def looked_up(table: Any) -> None:
    """Record that gradients of this table would be sparse."""
    _seen[id(table)] = table


def has_sparse_gradient(table: Any) -> bool:
    return _seen.get(id(table)) is table
