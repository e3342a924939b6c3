"""Operations whose results may differ between runs with equal inputs, and why."""

from __future__ import annotations

RANDOM = frozenset({
    "bernoulli", "dropout", "exponential", "feature_dropout", "geometric", "log_normal",
    "multinomial", "native_dropout", "normal", "poisson", "rand", "rand_like", "randint",
    "randint_like", "randn", "randn_like", "random", "randperm", "rrelu", "uniform",
})  # fmt: skip
"""Operations that draw random numbers, without `_` at the end."""

ATOMIC = frozenset({
    "IndexPutBackward", "bincount", "ctc_loss", "embedding_bag", "EmbeddingBagBackward",
    "grid_sampler_2d", "GridSampler2DBackward", "GridSampler3DBackward", "histc",
    "IndexAddBackward", "index_add", "index_put", "index_reduce", "put", "scatter_add",
    "scatter_reduce", "UpsampleBilinear2DBackward", "UpsampleBicubic2DBackward",
    "UpsampleLinear1DBackward", "UpsampleTrilinear3DBackward", "AvgPool3DBackward",
    "AdaptiveAvgPool2DBackward", "AdaptiveAvgPool3DBackward", "AdaptiveMaxPool2DBackward",
    "FractionalMaxPool2DBackward", "MaxPool3DWithIndicesBackward", "ReflectionPad1DBackward",
    "ReflectionPad2DBackward", "ReplicationPad1DBackward", "ReplicationPad2DBackward",
    "CtcLossBackward", "NllLoss2DBackward", "cumsum", "GatherBackward", "TakeBackward",
})  # fmt: skip
"""Operations that add from several threads in an order that is not fixed, on some devices."""


DRAWS = "it draws random numbers"


def known(name: str, module: str) -> str:
    """Why an operation, or the node of one, may differ between runs; "" if nothing is known."""
    stem = name.partition(".")[0].rstrip("0123456789_")
    if stem in RANDOM or "(Dropout" in module:
        return DRAWS
    if stem in ATOMIC or stem.removesuffix("Backward") in ATOMIC:
        return "on some devices its threads add in an order that is not fixed"
    return ""
