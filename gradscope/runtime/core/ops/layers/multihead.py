"""Multi-head attention, including the projections of inputs and output."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.ops.layers.attention import scaled_dot_product_attention
from gradscope.runtime.core.ops.layers.dropout import dropout
from gradscope.runtime.core.ops.products.linalg import baddbmm, bmm
from gradscope.runtime.core.ops.products.matmul import linear
from gradscope.runtime.core.ops.shape.joining import cat
from gradscope.runtime.core.ops.shape.padding import pad
from gradscope.runtime.core.rows.offered import NN_FUNCTIONS, nn_function
from gradscope.runtime.core.state.warned import warn
from gradscope.runtime.core.tensors.making.factories import zeros, zeros_like


def canonical_mask(
    mask: Any,
    mask_name: str,
    other_type: Any,
    other_name: str,
    target_type: Any,
    check_other: bool = True,
) -> Any:
    """A mask as numbers that are added: for a bool mask, minus infinity where it is True."""
    if mask is None:
        return None
    if mask.dtype is not dtypes.bool_ and not mask.dtype.is_floating_point:
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask.dtype != other_type:
        warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for "
            "both instead."
        )
    if mask.dtype.is_floating_point:
        return mask
    return zeros_like(mask, dtype=target_type).masked_fill_(mask, float("-inf"))


def dtype_of(mask: Any) -> Any:
    """The dtype of a mask, None if there is none."""
    return None if mask is None else mask.dtype


@dataclass(slots=True)
class _Heads:
    """Intermediate state of attention; (batch × heads, length, width) once it is split."""

    query: Any
    key: Any
    value: Any
    mask: Any
    padding: Any


def _check_dims(query, key, value, key_padding_mask, attn_mask, num_heads):
    """Check the dims. Returns whether there is a batch."""
    dims = query.dim()
    if dims not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {dims}-D query tensor"
        )
    what = f"For {'batched' if dims == 3 else 'unbatched'} ({dims}-D) `query`, expected"
    if key.dim() != dims or value.dim() != dims:
        raise AssertionError(
            f"{what} `key` and `value` to be {dims}-D but found {key.dim()}-D and "
            f"{value.dim()}-D tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask.dim() != dims - 1:
        raise AssertionError(
            f"{what} `key_padding_mask` to be `None` or {dims - 1}-D but found "
            f"{key_padding_mask.dim()}-D tensor instead"
        )
    if attn_mask is not None and attn_mask.dim() not in (2, 3):
        raise AssertionError(
            f"{what} `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor "
            "instead"
        )
    if dims == 2 and attn_mask is not None and attn_mask.dim() == 3:
        wanted = (num_heads, query.shape[0], key.shape[0])
        if attn_mask.shape != wanted:
            raise AssertionError(
                f"Expected `attn_mask` shape to be {wanted} but got {attn_mask.shape}"
            )
    return dims == 3


def _apart(projected, count, width):
    """Split projections that were computed as one, each contiguous."""
    split = projected.unflatten(-1, (count, width)).unsqueeze(0)
    return split.transpose(0, -2).squeeze(-2).contiguous()


def _projected(query, key, value, weight, bias):
    """Queries, keys and values by parts of one weight. Equal inputs are projected once."""
    width = query.size(-1)
    if key is not value:
        parts = zip((query, key, value), weight.chunk(3), _chunks(bias), strict=True)
        return [linear(*part) for part in parts]
    if query is key:
        made = _apart(linear(query, weight, bias), 3, width)
        return [made[0], made[1], made[2]]
    own, others = weight.split([width, width * 2])
    own_bias, other_bias = (None, None) if bias is None else bias.split([width, width * 2])
    asked = linear(query, own, own_bias)
    made = _apart(linear(key, others, other_bias), 2, width)
    return [asked, made[0], made[1]]


def _chunks(bias):
    return (None, None, None) if bias is None else bias.chunk(3)


def _projected_apart(inputs, weights, bias):
    """Queries, keys and values by separate weights."""
    width = inputs[0].size(-1)
    names = ("query", "key", "value")
    for name, weight in zip(("q", "k", "v"), weights, strict=True):
        if weight is None:
            raise AssertionError(f"use_separate_proj_weight is True but {name}_proj_weight is None")
    biases = _chunks(bias)
    for name, given, weight in zip(names, inputs, weights, strict=True):
        wanted = (width, given.size(-1))
        if weight.shape != wanted:
            raise AssertionError(
                f"expecting {name} weights shape of {wanted}, but got {weight.shape}"
            )
    for name, vector in zip(names, biases, strict=True):
        if vector is not None and vector.shape != (width,):
            raise AssertionError(
                f"expecting {name} bias shape of {(width,)}, but got {vector.shape}"
            )
    return [linear(*part) for part in zip(inputs, weights, biases, strict=True)]


def _in_heads(inputs, weights, bias, apart):
    if apart:
        return _projected_apart(inputs, weights, bias)
    if weights is None:
        raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    query, key, value = inputs
    return _projected(query, key, value, weights, bias)


def _averaged(weights, batch, num_heads, average):
    """The weights of each sample's heads, or their mean."""
    if weights is None:
        return None
    found = weights.view(batch, num_heads, weights.size(1), weights.size(2))
    return found.mean(dim=1) if average else found


def _whole_mask(mask, query, key, num_heads):
    """The mask with three dims."""
    if mask is None:
        return None
    length, batch, source = query.shape[0], query.shape[1], key.shape[0]
    if mask.dim() not in (2, 3):
        raise RuntimeError(f"attn_mask's dimension {mask.dim()} is not supported")
    sizes = {2: (length, source), 3: (batch * num_heads, length, source)}
    wanted = sizes[mask.dim()]
    if mask.shape != wanted:
        raise RuntimeError(
            f"The shape of the {mask.dim()}D attn_mask is {mask.shape}, but should be {wanted}."
        )
    return mask.unsqueeze(0) if mask.dim() == 2 else mask


def _with_bias(heads, bias_k, bias_v, static_k, static_v):
    """Append the bias key and value, the same for all samples."""
    if bias_k is None and bias_v is None:
        return
    if bias_v is None:
        raise AssertionError("bias_k is set but bias_v is None")
    if bias_k is None:
        raise AssertionError("bias_v is set but bias_k is None")
    for name, static in (("key", static_k), ("value", static_v)):
        if static is not None:
            raise AssertionError(f"bias cannot be added to static {name}.")
    batch = heads.query.shape[1]
    heads.key = cat([heads.key, bias_k.repeat(1, batch, 1)])
    heads.value = cat([heads.value, bias_v.repeat(1, batch, 1)])
    _seen(heads)


def _seen(heads):
    """Extend the masks by one visible key."""
    if heads.mask is not None:
        heads.mask = pad(heads.mask, (0, 1))
    if heads.padding is not None:
        heads.padding = pad(heads.padding, (0, 1))


def _split(heads, num_heads, static_k, static_v):
    """Split into a matrix for every head of every sample."""
    length, batch, width = heads.query.shape
    count, each = batch * num_heads, width // num_heads
    heads.query = heads.query.view(length, count, each).transpose(0, 1)
    for name, short, static in (("key", "k", static_k), ("value", "v", static_v)):
        given = getattr(heads, name)
        if static is None:
            made = given.view(given.shape[0], count, each).transpose(0, 1)
        else:
            for dim, wanted in ((0, count), (2, each)):
                if static.size(dim) != wanted:
                    raise AssertionError(
                        f"expecting static_{short}.size({dim}) of {wanted}, "
                        f"but got {static.size(dim)}"
                    )
            made = static
        setattr(heads, name, made)


def _with_zeros(heads):
    """Append a key and value of zeros."""
    for name in ("key", "value"):
        given = getattr(heads, name)
        shape = (given.size(0), 1, given.size(2))
        nothing = zeros(shape, dtype=given.dtype, device=given.device)
        setattr(heads, name, cat([given, nothing], dim=1))
    _seen(heads)


def _one_mask(heads, batch, num_heads):
    """Merge the attention mask with the padding mask."""
    padding, source = heads.padding, heads.key.size(1)
    if padding is None:
        return heads.mask
    for dim, wanted in enumerate((batch, source)):
        if padding.shape[dim] != wanted:
            raise AssertionError(
                f"Expected key_padded_mask.shape[{dim}] to be {wanted}, "
                f"but got {padding.shape[dim]}"
            )
    spread = padding.view(batch, 1, 1, source).expand(-1, num_heads, -1, -1)
    spread = spread.reshape(batch * num_heads, 1, source)
    return spread if heads.mask is None else heads.mask + spread


def _weighed(heads, dropout_p, is_causal):
    """The result of the heads, and their weights."""
    query = heads.query * math.sqrt(1.0 / float(heads.query.shape[2]))
    if is_causal and heads.mask is None:
        raise AssertionError("FIXME: is_causal not implemented for need_weights")
    if heads.mask is None:
        found = bmm(query, heads.key.transpose(-2, -1))
    else:
        found = baddbmm(heads.mask, query, heads.key.transpose(-2, -1))
    weights = NN_FUNCTIONS["softmax"](found, dim=-1)
    if dropout_p > 0.0:
        weights = dropout(weights, p=dropout_p)
    return bmm(weights, heads.value), weights


def _fused(heads, batch, num_heads, dropout_p, is_causal):
    """The result of the heads, without weights."""
    mask, source = heads.mask, heads.key.size(1)
    if mask is not None and mask.size(0) == 1 and mask.dim() == 3:
        mask = mask.unsqueeze(0)
    elif mask is not None:
        mask = mask.view(batch, num_heads, -1, source)
    query, key, value = (
        t.view(batch, num_heads, t.size(1), t.size(2))
        for t in (heads.query, heads.key, heads.value)
    )
    return scaled_dot_product_attention(query, key, value, mask, dropout_p, is_causal)


def _check_sizes(query, key, value, embed_dim_to_check, num_heads, apart):
    width = query.shape[2]
    if width != embed_dim_to_check:
        raise AssertionError(
            f"was expecting embedding dimension of {embed_dim_to_check}, but got {width}"
        )
    if width % num_heads:
        raise AssertionError(f"embed_dim {width} not divisible by num_heads {num_heads}")
    if apart and key.shape[:2] != value.shape[:2]:
        raise AssertionError(
            f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
        )
    if not apart and key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")


def _masks(query, key_padding_mask, attn_mask, need_weights, is_causal):
    """Both masks as numbers, and whether the attention can be treated as causal."""
    kind = query.dtype
    padding = canonical_mask(
        key_padding_mask, "key_padding_mask", dtype_of(attn_mask), "attn_mask", kind
    )
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module "
            "method `generate_square_subsequent_mask` to create this mask."
        )
    if is_causal and padding is None and not need_weights:
        return padding, None, True
    mask = canonical_mask(attn_mask, "attn_mask", None, "", kind, check_other=False)
    return padding, mask, is_causal and padding is None


@nn_function
def multi_head_attention_forward(
    query,
    key,
    value,
    embed_dim_to_check,
    num_heads,
    in_proj_weight,
    in_proj_bias,
    bias_k,
    bias_v,
    add_zero_attn,
    dropout_p,
    out_proj_weight,
    out_proj_bias,
    training=True,
    key_padding_mask=None,
    need_weights=True,
    attn_mask=None,
    use_separate_proj_weight=False,
    q_proj_weight=None,
    k_proj_weight=None,
    v_proj_weight=None,
    static_k=None,
    static_v=None,
    average_attn_weights=True,
    is_causal=False,
):
    """Multi-head attention and its weights; inputs are (length, batch, width)."""
    is_batched = _check_dims(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not is_batched:
        query, key, value = (t.unsqueeze(1) for t in (query, key, value))
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    padding, mask, is_causal = _masks(query, key_padding_mask, attn_mask, need_weights, is_causal)
    apart = use_separate_proj_weight
    _check_sizes(query, key, value, embed_dim_to_check, num_heads, apart)
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if apart else in_proj_weight
    parts = _in_heads((query, key, value), weights, in_proj_bias, apart)
    length, batch, width = query.shape
    mask = _whole_mask(mask, query, key, num_heads)
    heads = _Heads(parts[0], parts[1], parts[2], mask, padding)
    _with_bias(heads, bias_k, bias_v, static_k, static_v)
    _split(heads, num_heads, static_k, static_v)
    if add_zero_attn:
        _with_zeros(heads)
    heads.mask = _one_mask(heads, batch, num_heads)
    dropout_p = dropout_p if training else 0.0
    found = None
    if need_weights:
        made, found = _weighed(heads, dropout_p, is_causal)
        made = made.transpose(0, 1).reshape(length * batch, width)
    else:
        made = _fused(heads, batch, num_heads, dropout_p, is_causal)
        made = made.permute(2, 0, 1, 3).reshape(batch * length, width)
    made = linear(made, out_proj_weight, out_proj_bias)
    made = made.view(length, batch, made.size(1))
    found = _averaged(found, batch, num_heads, average_attn_weights)
    if is_batched:
        return made, found
    return made.squeeze(1), None if found is None else found.squeeze(0)
