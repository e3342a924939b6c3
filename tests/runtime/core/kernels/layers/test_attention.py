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


TILED = [
    # batch, heads, heads of keys, queries, keys, numbers
    (2, 2, 2, 64, 64, 32),
    (1, 6, 2, 45, 90, 9),
    (2, 3, 1, 131, 37, 50),
    (1, 1, 1, 33, 32, 8),
]


def both(arrays: Any, how: kernels.How, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """Results and gradients by tiles, and by products of whole matrices."""
    grad, *given = arrays
    found = []
    for tiles in (True, False):
        monkeypatch.setattr(kernels, "_wins", lambda *_, tiles=tiles: tiles)
        out, logs = kernels.attention(*given, how)
        found.append((out, logs, *kernels.attention_backward(grad, *given, out, logs, how)))
    return found[0], found[1]


def numbers(case: tuple[int, ...], dtype: Any, apart: int = 1) -> list[Any]:
    """A gradient, queries, keys and values, whose numbers lie so far apart."""
    batch, heads, groups, length, keys, width = case
    rng = np.random.default_rng(0)
    shapes = [
        (batch, n, k, width * apart) for n, k in ((length, heads),) * 2 + ((keys, groups),) * 2
    ]
    made = [rng.normal(size=shape).astype(dtype) for shape in shapes]
    return [a[..., ::apart].transpose(0, 2, 1, 3) for a in made]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", TILED)
def test_tiles_make_what_products_do(
    case: tuple[int, ...], dtype: Any, causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    how = kernels.How(0.4, causal)
    for apart in (1, 2):
        for found, known in zip(*both(numbers(case, dtype, apart), how, monkeypatch), strict=True):
            scale = np.abs(known).max()
            near = 5e-6 if dtype is np.float32 else 1e-13
            np.testing.assert_allclose(found / scale, known / scale, atol=near)
            assert found.strides == known.strides


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_not_finite_comes_through_tiles(
    dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    grad, query, key, value = numbers((1, 2, 2, 64, 70, 16), dtype)
    query[0, 0, 3, 2], query[0, 1, 40, 1], value[0, 0, 0, 5] = np.nan, np.inf, -np.inf
    with np.errstate(all="ignore"):
        found, known = both((grad, query, key, value), kernels.How(0.3, False), monkeypatch)

    for one, other in zip(found, known, strict=True):
        np.testing.assert_array_equal(np.isfinite(one), np.isfinite(other))
