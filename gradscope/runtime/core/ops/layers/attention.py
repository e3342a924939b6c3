"""Attention: one operation where PyTorch has one on the CPU, otherwise products and a softmax."""

from __future__ import annotations

import math

import numpy as np

from gradscope.runtime.core.calls.declare import (
    INTERNAL,
    UNKNOWN,
    family,
    joint,
    op,
    outputs,
    tensors,
    w,
)
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.dtypes.names import c_name
from gradscope.runtime.core.kernels.layers import attention as kernels
from gradscope.runtime.core.ops.in_formulas import Scalar
from gradscope.runtime.core.ops.layers.dropout import dropout
from gradscope.runtime.core.ops.layers.softmax import _safe_softmax
from gradscope.runtime.core.ops.layers.standard import wide
from gradscope.runtime.core.ops.products.matmul import matmul
from gradscope.runtime.core.ops.shape.copies import repeat_interleave
from gradscope.runtime.core.rows.offered import nn_function
from gradscope.runtime.core.state.array_calls import layout_only
from gradscope.runtime.core.state.settings import attention_allows
from gradscope.runtime.core.tensors.placement import wrapped_on

HALVES = (dtypes.float16, dtypes.bfloat16)


def _how(query, is_causal, attn_mask, scale):
    given = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    return kernels.How(given, bool(is_causal), attn_mask)


def _attention(query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
    q, k, v, mask = wide(query, key, value, attn_mask)
    made, logs = kernels.attention(q, k, v, _how(query, is_causal, mask, scale))
    return made.astype(query.dtype, copy=False), logs


def _attention_gradients(
    grad_out,
    query,
    key,
    value,
    out,
    logsumexp,
    dropout_p,
    is_causal,
    *,
    attn_mask=None,
    scale=None,
):
    grad, q, k, v, made, mask = wide(grad_out, query, key, value, out, attn_mask)
    how = _how(query, is_causal, mask, scale)
    grads = kernels.attention_backward(grad, q, k, v, made, logsumexp, how)
    return tuple(g.astype(query.dtype, copy=False) for g in grads)


def _once(grads):
    raise RuntimeError(
        "derivative for aten::_scaled_dot_product_flash_attention_for_cpu_backward is not "
        "implemented"
    )


def _attention_backward(
    grads,
    query,
    key,
    value,
    output,
    logsumexp,
    dropout_p,
    is_causal,
    attn_mask,
    scale,
):
    return w._scaled_dot_product_flash_attention_for_cpu_backward(
        grads[0],
        query,
        key,
        value,
        output,
        logsumexp,
        dropout_p,
        is_causal,
        attn_mask=attn_mask,
        scale=scale,
    )


_scaled_dot_product_flash_attention_for_cpu = op(
    "ScaledDotProductFlashAttentionForCpuBackward0",
    _attention,
    UNKNOWN,
    INTERNAL,
    tensors("attn_mask"),
    outputs("output", "logsumexp", without=("logsumexp",)),
    joint(
        "query",
        "key",
        "value",
        by=_attention_backward,
    ),
)
_scaled_dot_product_flash_attention_for_cpu_backward = op(
    "NotImplemented",
    _attention_gradients,
    UNKNOWN,
    INTERNAL,
    tensors("logsumexp", "attn_mask"),
    outputs("grad_query", "grad_key", "grad_value"),
    joint("grad_out", "query", "key", "value", "out", by=_once),
)
family(globals())


@nn_function
def scaled_dot_product_attention(
    query,
    key,
    value,
    attn_mask=None,
    dropout_p=0.0,
    is_causal=False,
    scale=None,
    enable_gqa=False,
):
    """A weighted mean of the values for each query, by how well it matches their keys."""
    _check(query, key, value, attn_mask)
    if 0 in (query.numel(), key.numel(), value.numel()):
        return _of_nothing(query, key, value)
    if attn_mask is not None and attn_mask.dtype is dtypes.bool_:
        attn_mask = _as_numbers(attn_mask, query)
    if _chosen_way(query, key, value, attn_mask, dropout_p, enable_gqa) == "flash":
        return _scaled_dot_product_flash_attention_for_cpu(
            query, key, value, float(dropout_p), is_causal, attn_mask=attn_mask, scale=scale
        )[0]
    return _attention_math(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


@layout_only
def _check(query, key, value, mask):
    kinds = {t._array.dtype for t in (query, key, value)}
    if len(kinds) > 1:
        names = [c_name(t._array) for t in (query, key, value)]
        raise RuntimeError(
            f"Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{names[0]} key.dtype: {names[1]} and value.dtype: {names[2]} instead."
        )
    dims = [t.dim() for t in (query, key, value)]
    if min(dims) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{dims[0]} key.dim: {dims[1]} and value.dim: {dims[2]} instead."
        )
    if mask is not None and mask._array.dtype not in (np.bool_, np.float32, *kinds):
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
            f"attn_mask.dtype: {c_name(mask._array)} and  query.dtype: {c_name(query._array)} "
            "instead."
        )


def _of_nothing(query, key, value):
    """Zeros with the history of all three inputs."""
    shape = (*query.shape[:-1], value.shape[-1])
    zeros = wrapped_on(np.zeros(shape, query._array.dtype), query.device)
    return zeros + (query.sum() + key.sum() + value.sum()) * Scalar(0)


def _as_numbers(mask, like):
    """A bool mask as numbers that are added: zero, and minus infinity."""
    kind = like._array.dtype
    return wrapped_on(
        np.where(mask._array, np.zeros((), kind), np.array(-np.inf, kind)), like.device
    )


def _chosen_way(*call):
    """The attention backend: one operation if possible and allowed."""
    flash, several = attention_allows("flash"), attention_allows("math")
    if flash and _in_one(*call):
        return "flash"
    if several:
        return "math"
    raise RuntimeError(
        "No available kernel.  Aborting execution."
        if flash
        else "No viable backend for scaled_dot_product_attention was found. This is likely due to "
        "turning off both the math kernel and the fused kernels."
    )


@layout_only
def _in_one(query, key, value, mask, dropout_p, enable_gqa):
    """Whether PyTorch uses its single operation for the CPU."""
    shapes = [t._array.shape for t in (query, key, value)]
    if dropout_p > 0 or any(len(shape) != 4 for shape in shapes):
        return False
    (batch, heads, length, width), others = shapes[0], shapes[1:]
    if any((shape[0], shape[3]) != (batch, width) for shape in others):
        return False
    groups = others[0][1]
    shared = enable_gqa and groups and heads % groups == 0
    if groups != others[1][1] or (groups != heads and not shared):
        return False
    if any(t._array.dtype.kind not in "fV" for t in (query, key, value)):
        return False
    if any(t._array.shape[3] > 1 and t.stride(3) != 1 for t in (query, key, value)):
        return False
    if mask is None:
        return True
    sizes = (batch, heads, length, others[0][2])
    fits = mask.dim() in (2, 4) and all(
        own in (1, size) for own, size in zip(mask.shape[::-1], sizes[::-1], strict=False)
    )
    return fits and not mask.requires_grad


def _attention_math(query, key, value, mask, dropout_p, is_causal, *, scale=None, enable_gqa=False):
    """Attention as products and a softmax."""
    kind = query.dtype
    if kind in HALVES:
        query, key, value = (t.to(dtypes.float32) for t in (query, key, value))
    given = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    factor = math.sqrt(abs(given))
    query = query * Scalar(-factor if given < 0 else factor)
    if is_causal:
        if mask is not None:
            raise RuntimeError(
                "_scaled_dot_product_attention: Explicit attn_mask should not be set when "
                "is_causal=True"
            )
        mask = _causal(query, key)
    if enable_gqa:
        key, value = _repeated(query, key, value)
    found = matmul(query, key.transpose(-2, -1) * Scalar(factor))
    if mask is not None:
        found = found.add_(mask if kind not in HALVES else mask.to(found.dtype))
    found = _safe_softmax(found, -1)
    if dropout_p > 0:
        found = _dropped(found, dropout_p)
    made = matmul(found, value)
    return made if made.dtype is kind else made.to(kind)


def _dropped(weights, dropout_p):
    if not 0 <= dropout_p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {dropout_p:g}")
    return dropout(weights, dropout_p)


def _causal(query, key):
    seen = np.tri(query.shape[-2], key.shape[-2], dtype=bool)
    return _as_numbers(wrapped_on(seen, query.device), query)


def _repeated(query, key, value):
    """Keys and values repeated for each head of the queries."""
    heads = [t.size(-3) for t in (query, key, value)]
    if heads[0] % heads[1] or heads[0] % heads[2]:
        raise RuntimeError("Number of heads in key and value must divide the number of heads in ")
    return (
        repeat_interleave(key, heads[0] // heads[1], -3),
        repeat_interleave(value, heads[0] // heads[2], -3),
    )
