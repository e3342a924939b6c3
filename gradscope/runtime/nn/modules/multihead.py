"""Multi-head attention as a module."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.backends import mha
from gradscope.runtime.core.autograd.modes.grad_mode import is_grad_enabled
from gradscope.runtime.core.ops.layers.multihead import canonical_mask, dtype_of
from gradscope.runtime.core.tensors.making.factories import empty
from gradscope.runtime.nn import functional
from gradscope.runtime.nn.init import constant_, xavier_normal_, xavier_uniform_
from gradscope.runtime.nn.modules.linear import NonDynamicallyQuantizableLinear
from gradscope.runtime.nn.modules.module import Module
from gradscope.runtime.nn.parameter import Parameter


class MultiheadAttention(Module):
    """Multi-head attention: each head weights the values by how keys match queries."""

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and "
                f"num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim == self.vdim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        kind = {"device": device, "dtype": dtype}
        apart = not self._qkv_same_embed_dim
        sizes = {"q": embed_dim, "k": self.kdim, "v": self.vdim}
        if apart:
            for name, size in sizes.items():
                weight = Parameter(empty((embed_dim, size), **kind))
                self.register_parameter(f"{name}_proj_weight", weight)
            self.register_parameter("in_proj_weight", None)
        else:
            self.in_proj_weight = Parameter(empty((3 * embed_dim, embed_dim), **kind))
            for name in sizes:
                self.register_parameter(f"{name}_proj_weight", None)
        self.register_parameter(
            "in_proj_bias", Parameter(empty(3 * embed_dim, **kind)) if bias else None
        )
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **kind)
        self.bias_k: Any
        self.bias_v: Any
        if add_bias_kv:
            self.bias_k = Parameter(empty((1, 1, embed_dim), **kind))
            self.bias_v = Parameter(empty((1, 1, embed_dim), **kind))
        else:
            self.bias_k = self.bias_v = None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in (
            self.in_proj_weight,
            self.q_proj_weight,
            self.k_proj_weight,
            self.v_proj_weight,
        ):
            if weight is not None:
                xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            constant_(self.in_proj_bias, 0.0)
            constant_(self.out_proj.bias, 0.0)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                xavier_normal_(bias)

    def __setstate__(self, state: Any) -> None:
        state.setdefault("_qkv_same_embed_dim", True)
        super().__setstate__(state)

    def _plain(self, query: Any, key: Any, value: Any, *masks: Any) -> bool:
        """Whether PyTorch would take its fast path, whose result is contiguous."""
        tensors = [query, self.in_proj_weight, self.in_proj_bias]
        tensors += [self.out_proj.weight, self.out_proj.bias]
        return (
            mha.get_fastpath_enabled()
            and not any(m is not None and m.dtype.is_floating_point for m in masks)
            and query.dim() == 3
            and query is key is value
            and not self.training
            and self.num_heads % 2 == 0
            and self.batch_first
            and self.bias_k is None is self.bias_v
            and not self.add_zero_attn
            and self._qkv_same_embed_dim
            and self.in_proj_bias is not None
            and not (is_grad_enabled() and any(t.requires_grad for t in tensors))
        )

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> Any:
        plain = self._plain(query, key, value, key_padding_mask, attn_mask)
        kind = query.dtype
        padding = canonical_mask(
            key_padding_mask, "key_padding_mask", dtype_of(attn_mask), "attn_mask", kind
        )
        mask = canonical_mask(attn_mask, "attn_mask", None, "", kind, check_other=False)
        turned = self.batch_first and query.dim() == 3
        if turned:
            query, key, value = _turned(query, key, value)
        made, weights = functional.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=padding,
            need_weights=need_weights,
            attn_mask=mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        made = made.transpose(1, 0) if turned else made
        return (made.contiguous() if plain else made), weights


def _turned(query: Any, key: Any, value: Any) -> tuple[Any, Any, Any]:
    """The tensors with the length as first dim. Tensors that are the same object stay so."""
    if key is not value:
        return query.transpose(1, 0), key.transpose(1, 0), value.transpose(1, 0)
    if query is key:
        one = query.transpose(1, 0)
        return one, one, one
    asked, others = query.transpose(1, 0), key.transpose(1, 0)
    return asked, others, others
