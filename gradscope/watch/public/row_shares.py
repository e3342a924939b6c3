"""The rows with the largest parts of the gradient of a weight.

# Note [The part of a row]
The gradient of a weight that multiplies a matrix is a sum over the rows of the matrix: of the
product of each row and the gradient of its result. The norm of such a product is the product of
two norms, so the norms of all parts follow from two sums of squares, exactly, and without another
backward. A scale of the loss changes no share.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.watch.in_place.node_runs import RowShares

SAVED_ROWS = {"AddmmBackward0": "mat1", "MmBackward0": "self"}
"""Nodes that multiply a matrix by a weight, and the name under which they save the matrix."""

SHOWN = 3


def row_shares(matrix: Any, grad: Any) -> RowShares | None:
    """The shares of the rows of a matrix; None if they are not known."""
    if not (matrix.ndim == grad.ndim == 2 and len(matrix) == len(grad)):
        return None
    if np.iscomplexobj(matrix):
        return None
    with np.errstate(all="ignore"):
        parts = _squares(matrix) * _squares(grad)
        total = float(parts.sum())
    if not np.isfinite(total) or not total:
        return None
    rows = np.argsort(-parts, kind="stable")[:SHOWN]
    return RowShares(len(parts), tuple(rows.tolist()), tuple((parts[rows] / total).tolist()))


def _squares(rows: Any) -> Any:
    """The sum of the squares of each row."""
    return np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
