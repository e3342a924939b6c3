"""What pictures distinguish: kinds of nodes (by their name), forms of boxes, and marks."""

from __future__ import annotations

import re
from enum import StrEnum


class NodeKind(StrEnum):
    """What a node does, roughly: enough to choose a colour."""

    LEAF = "leaf"
    POINTWISE = "pointwise"
    MATMUL = "matrix product"
    LINALG = "linear algebra"
    REDUCTION = "reduction"
    POOLING = "pooling or resampling"
    VIEW = "view or copy"
    INDEX = "indexing"
    NORMALIZATION = "normalization"
    LOSS = "loss"
    CUSTOM = "custom function"
    OTHER = "other"


class Form(StrEnum):
    """What a box stands for; it decides the outline."""

    FUNCTION = "function"
    OPERATION = "operation"  # a forward call
    LEAF = "leaf"
    DATA = "data"  # an input of a forward call that is no leaf
    SAVED = "saved value"
    FOLDED = "folded"
    KERNEL = "fused kernel"  # calls of a plan in one compiled loop
    MADE = "made"  # only for ties: a call created the node, or it is the same saved value
    ORDER = "order"  # only for arrows: one call came after another, and no more is known


class BoxMark(StrEnum):
    """A mark on a box; formats draw each as a glyph."""

    ROOT = "backward starts here"
    FOCUS = "in focus"
    NAN_BORN = "first NaN produced here"
    INF_BORN = "first Inf produced here"
    NON_FINITE = "not finite"
    FAILED = "raised"
    NOT_RUN = "not run"
    CAPTURED = "gradient returned (inputs=)"
    INSIDE = "ran inside another node"
    HOOKED = "has hooks"
    WRITES = "writes in place"


MEMBERS: dict[NodeKind, str] = {
    NodeKind.LEAF: "AccumulateGrad",
    NodeKind.POINTWISE: """
        Abs Acos Acosh Add Addcdiv Addcmul Angle Asin Asinh Atan Atan2 Atanh Ceil Celu Clamp
        ClampMax ClampMin Complex ConjPhysical Copysign Cos Cosh Deg2Rad Digamma Div Elu Erf
        Erfc Erfinv Exp Exp2 Expm1 Floor Fmax Fmin Fmod Frac Frexp Gelu Glu Hardshrink Hardsigmoid
        Hardswish Hardtanh Hypot I0 Igamma Igammac Ldexp LeakyRelu Lerp Lgamma Log Log10 Log1P Log2
        LogSigmoid Logaddexp Logaddexp2 Logit Maximum Minimum Mish Mul Mvlgamma NanToNum Neg
        Nextafter Polar Polygamma Pow PreluKernel Rad2Deg Reciprocal Relu Remainder Round
        RreluWithNoise Rsqrt Rsub Sgn Sigmoid Sign Silu Sin Sinc Sinh Softplus Softshrink
        SpecialEntr SpecialErfcx SpecialI0E SpecialI1 SpecialI1E SpecialLogNdtr SpecialNdtri
        SpecialXlog1Py SpecialZeta Sqrt Sub Tan Tanh Threshold Trunc Xlogy""",
    NodeKind.MATMUL: """
        Addbmm Addmm Addmv Addr Baddbmm Bilinear Bmm ConvTbc Convolution CudnnConvolution Dot Einsum
        Ger Kron Linear LinalgMatmul Matmul MkldnnConvolution MkldnnRnnLayer Mm Mv Outer
        ScaledDotProductAttention ScaledDotProductFlashAttentionForCpu Tensordot Trilinear Vdot""",
    NodeKind.LINALG: """
        Cholesky CholeskyInverse CholeskySolve FftC2C FftC2R FftR2C Geqrf LinalgCholeskyEx
        LinalgCross LinalgDet LinalgEig LinalgEigh LinalgHouseholderProduct LinalgInvEx LinalgLstsq
        LinalgLu LinalgLuFactorEx LinalgLuSolve LinalgMatrixExp LinalgPinv LinalgQr LinalgSlogdet
        LinalgSolveEx LinalgSolveTriangular LinalgSvd LuUnpack Ormqr TriangularSolve""",
    NodeKind.REDUCTION: """
        Amax Amin Aminmax Cdist Cummax Cummin Cumprod Cumsum Dist EuclideanDist LinalgVectorNorm
        Logcumsumexp Logsumexp Max Mean MeanDim Median Min Mode Nanmedian Nansum Norm Pdist Prod Std
        StdMean Sum Trace ValueSelectingReduction Var VarMean""",
    NodeKind.POOLING: """
        AdaptiveAvgPool2D AdaptiveAvgPool3D AdaptiveMaxPool2D AdaptiveMaxPool3D AffineGridGenerator
        AvgPool2D AvgPool3D FractionalMaxPool2D FractionalMaxPool3D GridSampler2D
        GridSampler2DDouble GridSampler3D GridSampler3DDouble MaxPool2DWithIndices
        MaxPool3DWithIndices MaxUnpool2D MaxUnpool3D UpsampleBicubic2D UpsampleBicubic2DAa
        UpsampleBilinear2D UpsampleBilinear2DAa UpsampleLanczos2DAa UpsampleLinear1D
        UpsampleNearest1D UpsampleNearest2D UpsampleNearest3D UpsampleNearestExact1D
        UpsampleNearestExact2D UpsampleNearestExact3D UpsampleTrilinear3D""",
    NodeKind.VIEW: """
        Alias AsStrided AsStridedScatter BlockDiag Broadcast Cat ChannelShuffle Chunk Clone Col2Im
        Conj ConstantPadNd Contiguous Copy CopyBackwards CopySlices Detach DiagEmbed Diagonal
        DiagonalScatter Expand Fill Flatten Flip Im2Col Movedim Narrow NarrowCopy NegView
        PackPaddedSequence Pad Permute PixelShuffle PixelUnshuffle ReflectionPad1D ReflectionPad2D
        ReflectionPad3D Repeat ReplicationPad1D ReplicationPad2D ReplicationPad3D Reshape
        ReshapeAlias Roll Rot90 Select SelectScatter Slice SliceScatter Split SplitWithSizes Squeeze
        Stack Swapaxes T Tile ToCopy Transpose Unbind Unfold UnsafeSplit UnsafeSplitWithSizes
        UnsafeView Unsqueeze View ViewAsComplex ViewAsReal Zero""",
    NodeKind.INDEX: """
        Embedding EmbeddingBag EmbeddingBagPerSampleWeights EmbeddingDense Gather Index IndexAdd
        IndexCopy IndexFill IndexPut IndexPutImpl IndexReduce IndexSelect Kthvalue MaskedFill
        MaskedScatter MaskedSelect Put Scatter ScatterAdd ScatterReduce Sort Take TakeAlongDim Topk
        Tril Triu Unique Unique2 UniqueConsecutive UniqueDim Where""",
    NodeKind.NORMALIZATION: """
        BatchNorm CudnnBatchNorm Dropout FusedRmsNorm GroupNorm LayerNorm LogSoftmax
        LogSoftmaxBackwardData NativeBatchNorm NativeDropout NativeGroupNorm NativeLayerNorm Renorm
        RmsNorm SafeSoftmax Softmax SoftmaxBackwardData WeightNormInterface""",
    NodeKind.CUSTOM: "CompiledFunctionBackward",  # of torch.compile, for its own Function
    NodeKind.LOSS: """
        BinaryCrossEntropy BinaryCrossEntropyWithLogits CrossEntropyLoss CtcLoss HuberLoss KlDiv
        L1Loss MseLoss MultiMarginLoss MultilabelMarginLoss NllLoss NllLoss2D NllLossNd SmoothL1Loss
        SoftMarginLoss""",
    # Nodes that the engine uses instead of a derivative, and random numbers, where gradients end.
    NodeKind.OTHER: """
        Bernoulli Binomial Cauchy DelayedError Error Exponential Geometric GraphRoot Identity
        LogNormal Normal NotImplemented Poisson Random Replayed StandardGamma UndefinedGradBackward
        Uniform WarnNotImplemented""",
}
"""Operations by kind, by the names of their nodes without `Backward0`; all others are OTHER. A test
lists operations of the runtime that are missing here."""

KIND_OF = {name.lower(): kind for kind, names in MEMBERS.items() for name in names.split()}

NUMBERED = re.compile(r"(?P<operation>\w+?)Backward\d+(_copy)?$")


def kind_of(node_name: str) -> NodeKind:
    """The kind of a node, by its name; names of user-defined functions have no number."""
    sorted_into = KIND_OF.get(operation_of(node_name))
    if sorted_into is not None:
        return sorted_into
    is_custom = node_name.endswith("Backward") and node_name.isidentifier()
    return NodeKind.CUSTOM if is_custom else NodeKind.OTHER


def kind_of_call(name: str) -> NodeKind:
    """The kind of a forward call such as "relu_", "_softmax", "threshold_backward"."""
    plain = name.strip("_").lower().replace("_", "").removesuffix("backward")
    return KIND_OF.get(plain, NodeKind.OTHER)


def operation_of(node_name: str) -> str:
    """The operation a node differentiates: "tanh" for TanhBackward0 and TanhBackwardBackward0."""
    numbered = NUMBERED.match(node_name)
    name = numbered["operation"] if numbered else node_name
    plain = name.lower().replace("_", "")
    while numbered and plain.endswith("backward"):
        plain = plain.removesuffix("backward")
    return plain
