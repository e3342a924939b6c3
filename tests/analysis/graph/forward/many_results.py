"""A script with operations that have several results or workspaces, for either engine."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


def leaf(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, requires_grad=True)


def square(size: int = 4) -> torch.Tensor:
    return (torch.eye(size) * 3 + torch.randn(size, size)).requires_grad_()


def symmetric() -> torch.Tensor:
    made = square()
    return made @ made.mT


def convolved() -> torch.Tensor:
    return F.conv2d(leaf(1, 2, 8, 8), leaf(3, 2, 3, 3), leaf(3))


TARGET = torch.tensor([0, 2, 1])
PROGRAMS = {
    "nll_loss": lambda: F.nll_loss(leaf(3, 4).log_softmax(1), TARGET, weight=torch.rand(4)),
    "nll_loss2d": lambda: F.nll_loss(leaf(3, 4, 2, 2).log_softmax(1), torch.zeros(3, 2, 2).long()),
    "cross_entropy": lambda: F.cross_entropy(leaf(3, 4), TARGET, label_smoothing=0.1),
    "multilabel_margin": lambda: F.multilabel_margin_loss(
        leaf(3, 4), torch.tensor([[0, -1, 1, 2]] * 3)
    ),
    "multi_margin": lambda: F.multi_margin_loss(leaf(3, 4), TARGET),
    "ctc_loss": lambda: F.ctc_loss(
        leaf(6, 2, 5).log_softmax(2), torch.ones(2, 3).long(), [6, 6], [3, 3]
    ),
    "binary_cross_entropy": lambda: F.binary_cross_entropy(
        leaf(3, 4).sigmoid(), torch.rand(3, 4), torch.rand(3, 4)
    ),
    "bce_logits": lambda: F.binary_cross_entropy_with_logits(
        leaf(3, 4), torch.rand(3, 4), pos_weight=torch.rand(4)
    ),
    "kl_div": lambda: F.kl_div(leaf(3, 4).log_softmax(1), torch.rand(3, 4), reduction="sum"),
    "huber": lambda: F.huber_loss(leaf(3, 4), torch.rand(3, 4)),
    "smooth_l1": lambda: F.smooth_l1_loss(leaf(3, 4), torch.rand(3, 4)),
    "batch_norm": lambda: nn.BatchNorm1d(4)(leaf(3, 4)),
    "batch_norm_eval": lambda: nn.BatchNorm1d(4).eval()(leaf(3, 4)),
    "instance_norm": lambda: F.instance_norm(leaf(2, 3, 4, 4)),
    "layer_norm": lambda: nn.LayerNorm(4)(leaf(3, 4)),
    "group_norm": lambda: nn.GroupNorm(2, 4)(leaf(3, 4, 5)),
    "rms_norm": lambda: nn.RMSNorm(4)(leaf(3, 4)),
    "dropout": lambda: F.dropout(leaf(3, 4)),
    "alpha_dropout": lambda: F.alpha_dropout(leaf(3, 4)),
    "rrelu": lambda: F.rrelu(leaf(3, 4), training=True),
    "logsigmoid": lambda: F.logsigmoid(leaf(3, 4)),
    "prelu": lambda: F.prelu(leaf(3, 4), leaf(1)),
    "softmax": lambda: leaf(3, 4).softmax(1),
    "gelu": lambda: F.gelu(leaf(3, 4)),
    "max": lambda: leaf(3, 4).max(1)[0],
    "min": lambda: leaf(3, 4).min(1)[0],
    "amax": lambda: leaf(3, 4).amax(1),
    "aminmax": lambda: sum(leaf(3, 4).aminmax(dim=1)),
    "median": lambda: leaf(3, 4).median(1)[0],
    "nanmedian": lambda: leaf(3, 4).nanmedian(1)[0],
    "mode": lambda: leaf(3, 4).mode(1)[0],
    "kthvalue": lambda: leaf(3, 4).kthvalue(2, 1)[0],
    "topk": lambda: leaf(3, 4).topk(2)[0],
    "sort": lambda: leaf(3, 4).sort(1)[0],
    "stable_sort": lambda: leaf(3, 4).sort(dim=1, stable=True)[0],
    "cummax": lambda: leaf(3, 4).cummax(1)[0],
    "cummin": lambda: leaf(3, 4).cummin(1)[0],
    "logcumsumexp": lambda: leaf(3, 4).logcumsumexp(1),
    "cumprod": lambda: leaf(3, 4).cumprod(1),
    "prod": lambda: leaf(3, 4).prod(),
    "std_mean": lambda: sum(torch.std_mean(leaf(3, 4), 1)),
    "var_mean": lambda: sum(torch.var_mean(leaf(3, 4), 1)),
    "norm": lambda: leaf(3, 4).norm(),
    "logsumexp": lambda: leaf(3, 4).logsumexp(1),
    "renorm": lambda: leaf(3, 4).renorm(2, 0, 1),
    "frexp": lambda: leaf(3, 4).frexp()[0],
    "unique": lambda: leaf(3, 4)[torch.tensor([0, 1, 1]).unique(return_inverse=True)[1]],
    "gather": lambda: leaf(3, 4).gather(1, TARGET[:, None]),
    "scatter": lambda: leaf(3, 4).scatter(1, TARGET[:, None], leaf(3, 1)),
    "index_add": lambda: leaf(3, 4).index_add(0, TARGET, leaf(3, 4)),
    "index_select": lambda: leaf(3, 4).index_select(0, TARGET),
    "masked_fill": lambda: leaf(3, 4).masked_fill(torch.rand(3, 4) > 0.5, 0.0),
    "where": lambda: torch.where(torch.rand(3, 4) > 0.5, leaf(3, 4), leaf(3, 4)),
    "svd": lambda: torch.linalg.svd(square())[1],
    "svdvals": lambda: torch.linalg.svdvals(square()),
    "qr": lambda: sum(torch.linalg.qr(square())),
    "eigh": lambda: torch.linalg.eigh(symmetric())[0],
    "eig": lambda: torch.linalg.eig(square())[0].abs() * 2,
    "cholesky": lambda: torch.linalg.cholesky(symmetric() + torch.eye(4)),
    "lu": lambda: sum(torch.linalg.lu(square())[1:]),
    "lu_factor": lambda: torch.linalg.lu_factor(square())[0],
    "det": lambda: torch.linalg.det(square()),
    "slogdet": lambda: torch.linalg.slogdet(square())[1],
    "inv": lambda: torch.linalg.inv(square()),
    "solve": lambda: torch.linalg.solve(square(), leaf(4, 2)),
    "lstsq": lambda: torch.linalg.lstsq(square(), leaf(4, 2))[0],
    "solve_triangular": lambda: torch.linalg.solve_triangular(square(), leaf(4, 2), upper=True),
    "matrix_exp": lambda: torch.linalg.matrix_exp(square()),
    "pinv": lambda: torch.linalg.pinv(square()),
    "lstm": lambda: nn.LSTM(4, 5, 2)(leaf(6, 3, 4))[0],
    "gru": lambda: nn.GRU(4, 5, bidirectional=True)(leaf(6, 3, 4))[0],
    "rnn": lambda: nn.RNN(4, 5)(leaf(6, 3, 4))[0],
    "lstm_cell": lambda: nn.LSTMCell(4, 5)(leaf(3, 4))[0],
    "embedding": lambda: nn.Embedding(5, 4, padding_idx=0)(TARGET),
    "embedding_bag": lambda: nn.EmbeddingBag(5, 4, mode="max")(TARGET[None]),
    "embedding_bag_mean": lambda: nn.EmbeddingBag(5, 4, mode="mean")(TARGET[None]),
    "attention": lambda: F.scaled_dot_product_attention(
        leaf(1, 2, 5, 4), leaf(1, 2, 5, 4), leaf(1, 2, 5, 4)
    ),
    "attention_causal": lambda: F.scaled_dot_product_attention(
        leaf(1, 2, 5, 4), leaf(1, 2, 5, 4), leaf(1, 2, 5, 4), is_causal=True
    ),
    "attention_masked": lambda: F.scaled_dot_product_attention(
        leaf(1, 2, 5, 4), leaf(1, 2, 5, 4), leaf(1, 2, 5, 4), torch.rand(5, 5)
    ),
    "multihead": lambda: nn.MultiheadAttention(4, 2)(leaf(5, 1, 4), leaf(5, 1, 4), leaf(5, 1, 4))[
        0
    ],
    "grid_sample": lambda: F.grid_sample(leaf(1, 2, 4, 4), leaf(1, 3, 3, 2), align_corners=False),
    "max_pool1d": lambda: F.max_pool1d(leaf(1, 2, 8), 2, return_indices=True)[0],
    "max_pool2d": lambda: F.max_pool2d(convolved(), 2, return_indices=True)[0],
    "max_pool3d": lambda: F.max_pool3d(leaf(1, 2, 4, 4, 4), 2),
    "adaptive_max_pool": lambda: F.adaptive_max_pool2d(convolved(), 2),
    "fractional_max_pool": lambda: F.fractional_max_pool2d(convolved(), 2, output_size=2),
    "max_unpool": lambda: F.max_unpool2d(*F.max_pool2d(convolved(), 2, return_indices=True), 2),
    "avg_pool": lambda: F.avg_pool2d(convolved(), 2),
    "conv_transpose": lambda: F.conv_transpose2d(leaf(1, 2, 4, 4), leaf(2, 3, 3, 3), leaf(3)),
    "interpolate": lambda: F.interpolate(leaf(1, 2, 4, 4), scale_factor=2, mode="bilinear"),
    "cdist": lambda: torch.cdist(leaf(3, 4), leaf(5, 4)),
    "pdist": lambda: F.pdist(leaf(3, 4)),
    "unbind": lambda: sum(leaf(3, 4).unbind()),
    "split": lambda: sum(leaf(4, 4).split(2)),
    "in_place": lambda: (leaf(3, 4) * 2).add_(1).mul_(leaf(3, 4)).relu_(),
    "fft": lambda: torch.fft.rfft(leaf(8)).abs(),
    "stft": lambda: torch.stft(
        leaf(64), 16, return_complex=True, window=torch.hann_window(16)
    ).abs(),
}


def second() -> None:
    # Nodes of a double backward save results of the first one.
    x = leaf(3, 4)
    for made in (
        x.softmax(1),
        x.log_softmax(1),
        x.sigmoid(),
        x.tanh(),
        F.nll_loss(x.log_softmax(1), TARGET),
        x.max(1)[0],
    ):
        (grad,) = torch.autograd.grad(made.square().sum(), x, create_graph=True)
        if grad.requires_grad:
            grad.square().sum().backward()


for program in PROGRAMS.values():
    program().sum().backward()
second()
