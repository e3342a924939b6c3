"""Attention by blocks against the whole matrix of weights at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradscope.runtime.core.kernels.layers import attention as kernels

CASES = [
    (batch, heads, groups, length, keys, causal, masked)
    for batch, heads, groups in ((1, 1, 1), (3, 4, 2))
    for length, keys in ((7, 7), (150, 90), (70, 150))
    for causal in (False, True)
    for masked in (False, True)
]


def whole(query: Any, key: Any, value: Any, how: kernels.How) -> tuple[Any, Any]:
    """The weights, and what they make of the values; heads are repeated."""
    each = query.shape[1] // key.shape[1]
    key, value = (np.repeat(a, each, axis=1) for a in (key, value))
    found = query @ key.swapaxes(2, 3) * how.scale
    if how.causal:
        found = np.where(np.tri(*found.shape[2:], dtype=bool), found, -np.inf)
    if how.mask is not None:
        found = found + how.mask
    weights = np.exp(found - found.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return weights, weights @ value


@pytest.mark.parametrize(("batch", "heads", "groups", "length", "keys", "causal", "masked"), CASES)
def test_blocks_give_what_the_whole_gives(
    batch: int,
    heads: int,
    groups: int,
    length: int,
    keys: int,
    causal: bool,
    masked: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernels, "BLOCK", 1 << 12)
    rng = np.random.default_rng(0)
    query = rng.normal(size=(batch, length, heads, 8)).transpose(0, 2, 1, 3)
    key, value = (rng.normal(size=(batch, groups, keys, 8)) for _ in range(2))
    mask = rng.normal(size=(heads, 1, keys)) if masked else None
    how = kernels.How(0.3, causal, mask)

    out, logs = kernels.attention(query, key, value, how)

    weights, expected = whole(query, key, value, how)
    np.testing.assert_allclose(out, expected, rtol=1e-10, atol=1e-12)
    assert out.strides == np.empty_like(query).strides

    grad = rng.normal(size=out.shape)
    found = kernels.attention_backward(grad, query, key, value, out, logs, how)

    each = heads // groups
    slopes = grad @ np.repeat(value, each, axis=1).swapaxes(2, 3)
    slopes = weights * (slopes - (grad * expected).sum(-1, keepdims=True)) * how.scale
    np.testing.assert_allclose(found[0], slopes @ np.repeat(key, each, axis=1), atol=1e-10)
    for one, known in zip(
        found[1:], (slopes.swapaxes(2, 3) @ query, weights.swapaxes(2, 3) @ grad), strict=True
    ):
        grouped = known.reshape(batch, groups, each, keys, 8).sum(2)
        np.testing.assert_allclose(one, grouped, atol=1e-10)
