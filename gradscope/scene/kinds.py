"""Which family of operations a node belongs to."""

from __future__ import annotations

import re
from enum import StrEnum


class Kind(StrEnum):
    """What a node does, roughly: enough for a colour that helps to find one's way."""

    LEAF = "leaf"
    POINTWISE = "pointwise"
    MATMUL = "matrix product"
    REDUCTION = "reduction"
    VIEW = "view or copy"
    INDEX = "indexing"
    NORMALIZATION = "normalization"
    LOSS = "loss"
    CUSTOM = "custom function"
    OTHER = "other"


MEMBERS: dict[Kind, str] = {
    Kind.MATMUL: (
        "Mm Bmm Addmm Addmv Addbmm Baddbmm Mv Dot Vdot Outer Ger Matmul Linear Convolution "
        "ConvolutionBackward Einsum Bilinear ScaledDotProductAttention Addr LinalgMatmul "
        "MkldnnConvolution CudnnConvolution Kron Tensordot"
    ),
    Kind.REDUCTION: (
        "Sum Mean Prod Amax Amin Max Min Var Std VarMean StdMean Norm LinalgVectorNorm "
        "Logsumexp Cumsum Cumprod Nansum Median Mode Logcumsumexp Aminmax Trace Cummax Cummin "
        "MaxPool2DWithIndices AvgPool2D AdaptiveAvgPool2D MeanDim"
    ),
    Kind.VIEW: (
        "View Reshape Transpose T Permute Expand Unsqueeze Squeeze Slice Select Split Chunk "
        "Unbind Narrow Clone ToCopy Copy CopySlices AsStrided Diagonal Alias Cat Stack Repeat "
        "Flatten UnsafeView Unfold Swapaxes Movedim Detach Roll Flip Pad ConstantPadNd "
        "ReshapeAlias CopyBackwards SplitWithSizes UnsafeSplit Contiguous Broadcast Tile"
    ),
    Kind.INDEX: (
        "Index IndexSelect Gather Scatter Embedding IndexPut Take MaskedSelect MaskedFill Where "
        "IndexAdd ScatterAdd EmbeddingBag Sort Topk Tril Triu TakeAlongDim IndexCopy IndexFill "
        "Kthvalue MaskedScatter"
    ),
    Kind.NORMALIZATION: (
        "Softmax LogSoftmax NativeBatchNorm NativeLayerNorm NativeGroupNorm CudnnBatchNorm "
        "NativeDropout Renorm LayerNorm BatchNorm GroupNorm RmsNorm FusedRmsNorm Dropout"
    ),
    Kind.LOSS: (
        "NllLoss NllLoss2D NllLossNd MseLoss L1Loss BinaryCrossEntropy CrossEntropyLoss KlDiv "
        "BinaryCrossEntropyWithLogits HuberLoss SmoothL1Loss SoftMarginLoss CtcLoss"
    ),
}

_KIND_OF = {name.lower(): kind for kind, names in MEMBERS.items() for name in names.split()}

NUMBERED = re.compile(r"^_?(?P<operation>\w+?)Backward(?P<number>\d+)$")
CUSTOM = re.compile(r"Backward$")


def kind_of(node_name: str) -> Kind:
    """The family of a node, by its name: PyTorch numbers its own, and not those users write."""
    if node_name == "AccumulateGrad":
        return Kind.LEAF
    numbered = NUMBERED.match(node_name)
    if numbered:
        operation = numbered["operation"].lower().replace("_", "")
        return _KIND_OF.get(operation, Kind.POINTWISE)
    known = _KIND_OF.get(node_name.lower().replace("_", ""))
    if known:
        return known
    return Kind.CUSTOM if CUSTOM.search(node_name) else Kind.OTHER
