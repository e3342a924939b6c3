"""Which tables were looked up with `sparse=True`: there PyTorch's gradient holds only some rows.

All gradients of this runtime are dense. What may be done with a sparse one only (SparseAdam) is
done with the rows that are not zero, and asks here whether the gradient would be sparse.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

_seen: WeakValueDictionary[int, Any] = WeakValueDictionary()


def looked_up(table: Any) -> None:
    """Remember that this table's gradients would be sparse."""
    _seen[id(table)] = table


def has_sparse_gradient(table: Any) -> bool:
    return _seen.get(id(table)) is table
