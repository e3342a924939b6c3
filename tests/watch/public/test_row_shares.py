"""Shares of rows in the gradient of a weight."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradscope.watch.public.row_shares import row_shares


def test_the_norm_of_a_part_is_that_of_the_outer_product_of_its_rows() -> None:
    numbers = np.random.default_rng(0)
    matrix, grad = numbers.standard_normal((5, 3)), numbers.standard_normal((5, 2))
    norms = [np.linalg.norm(np.outer(g, x)) ** 2 for g, x in zip(grad, matrix, strict=True)]
    order = np.argsort(norms)[::-1][:3]

    found = row_shares(matrix.astype(np.float32), grad.astype(np.float32))

    assert found is not None
    assert (found.many, found.rows) == (5, tuple(order.tolist()))
    assert found.shares == pytest.approx([norms[row] / sum(norms) for row in order], rel=1e-5)


def test_squares_that_float16_cannot_hold_are_added() -> None:
    found = row_shares(np.full((2, 4), 3e4, np.float16), np.array([[1e-4], [3e-4]], np.float16))

    assert found is not None
    assert found.rows == (1, 0)
    assert found.shares == pytest.approx((0.9, 0.1), rel=1e-2)


@pytest.mark.parametrize(
    ("matrix", "grad"),
    [
        (np.ones((2, 3)), np.zeros((2, 3))),
        (np.ones((2, 3)), np.full((2, 3), np.nan)),
        (np.ones((2, 3)), np.ones((3, 3))),
        (np.ones((2, 3, 4)), np.ones((2, 3, 4))),
        (np.ones((2, 3), np.complex64), np.ones((2, 3), np.complex64)),
    ],
    ids=["only zeros", "NaN", "other rows", "three dims", "complex"],
)
def test_rows_whose_parts_cannot_be_compared_have_no_shares(matrix: Any, grad: Any) -> None:
    assert row_shares(matrix, grad) is None
