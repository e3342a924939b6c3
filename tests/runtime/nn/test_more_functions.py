"""Losses of sequences and labels, bags, distances, random slopes: against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradscope.runtime as ours
from tests.runtime.answers.kept import as_pytorch_answered
from tests.runtime.engines import answer, graph

pytestmark = pytest.mark.filterwarnings("ignore")

LENGTHS = "[6, 5, 3], [3, 1, 2]"
FUNCTIONS = (
    f"F.ctc_loss(steps.log_softmax(2), labels, {LENGTHS})",
    f"F.ctc_loss(steps, torch.tensor([1, 2, 2, 3, 1, 1]), {LENGTHS}, reduction='none')",
    "F.ctc_loss(steps, labels, [6, 5, 3], [3, 3, 3], zero_infinity=True, reduction='sum')",
    "F.ctc_loss(steps[:, 0], labels[0], torch.tensor(6), torch.tensor(3))",
    "nn.CTCLoss(blank=3)(steps.log_softmax(2), labels % 3, [6, 6, 6], [2, 3, 1])",
    "F.embedding_bag(bag, table, torch.tensor([0, 2, 2, 5]))",
    "F.embedding_bag(bag, table, torch.tensor([0, 2, 2, 5]), mode='max', padding_idx=1)",
    "F.embedding_bag(bag.view(2, 3), table, mode='sum', per_sample_weights=factors.view(2, 3))",
    "F.embedding_bag(bag, table, torch.tensor([0, 2, 6]), include_last_offset=True, mode='sum')",
    "F.embedding_bag(bag, table, torch.tensor([0, 3]), mode='sum', scale_grad_by_freq=True)",
    "nn.EmbeddingBag(4, 3, mode='sum', padding_idx=-1)(bag.view(3, 2)) * factors[:3, None]",
    "F.bilinear(x, y, cube)",
    "nn.Bilinear(4, 4, 2)(x, y)",
    "torch.cdist(x, y)",
    "torch.cdist(x[None], steps[:, :, :4], p=1.)",
    "torch.cdist(x, y, p=3.)",
    "torch.cdist(x, y, compute_mode='use_mm_for_euclid_dist')",
    "F.pdist(x, 1.)",
    "F.alpha_dropout(x, 0.4, True)",
    "F.feature_alpha_dropout(steps, 0.4, True)",
    "F.dropout1d(x, 0.5)",
    "torch.native_dropout(x, 0.5, True)[0]",
    "F.rrelu(x, training=True)",
    "nn.RReLU(0.1, 0.3).eval()(x)",
    "F.gumbel_softmax(x, 0.7)",
    "F.gumbel_softmax(x, hard=True) * y[:3]",
    "F.multilabel_margin_loss(x, torch.tensor([[1, 2, -1, 0], [0, -1, 3, 3], [3, 2, 1, 0]]))",
    "F.multilabel_margin_loss(x[0], torch.tensor([1, 2, -1, 0]), reduction='none')",
    "F.triplet_margin_with_distance_loss(x, y, x * y, swap=True)",
    "F.linear_cross_entropy(x, y, torch.tensor([0, 2, 1]), linear_bias=factors[:3])",
    "nn.LinearCrossEntropyLoss(4, 3)(x, torch.tensor([0, 2, 1]))",
    ("F.linear_cross_entropy(x, y, torch.tensor([0, 2, 1]), linear_bias=factors[:3], "
    "options=nn.LinearCrossEntropyOptions(batch_chunk_size=2))"),
    ("F.linear_cross_entropy(x, y, torch.tensor([0, 2, 1]), weight=factors[:3].detach().exp(), "
    "ignore_index=2, reduction='none', options=nn.LinearCrossEntropyOptions(batch_chunk_size=2))"),
    ("nn.LinearCrossEntropyLoss(4, 3, reduction='sum', options=nn.LinearCrossEntropyOptions())("
    "x[0], torch.tensor(2))"),
    "nn.AdaptiveLogSoftmaxWithLoss(4, 9, [2, 5])(x, torch.tensor([0, 7, 3])).loss",
    "nn.AdaptiveLogSoftmaxWithLoss(4, 9, [2, 5]).log_prob(x)",
)  # fmt: skip


def computed(engine: Any, code: str) -> tuple[list[str], list[Any]]:
    """The graph of an expression, its value, and the gradients of what went in."""
    source = np.random.default_rng(0)
    shapes = {"steps": (6, 3, 5), "x": (3, 4), "y": (3, 4), "table": (4, 3), "cube": (2, 4, 4)}
    shapes["factors"] = (6,)
    leaves = {
        name: engine.from_numpy(source.normal(size=shape).astype(np.float32)).requires_grad_(True)
        for name, shape in shapes.items()
    }
    labels = engine.tensor([[1, 2, 2], [3, 1, 1], [1, 2, 1]])
    scope = {"torch": engine, "nn": engine.nn, "F": engine.nn.functional, "labels": labels}
    engine.manual_seed(5)
    out = eval(code, {**scope, **leaves, "bag": engine.tensor([3, 1, 0, 2, 2, 1])})
    nodes = graph([out])
    (out * out).sum().backward()
    grads = [leaf.grad for leaf in leaves.values() if leaf.grad is not None]
    return nodes, [t.detach().numpy() for t in (out, *grads)]


@as_pytorch_answered({"nn/more_functions": FUNCTIONS})
def test_they_are_pytorchs(torch: Any, code: str) -> Any:
    return computed(torch, code)


QUESTIONS = """F.ctc_loss(torch.ones(5, 2, 4), torch.tensor([[1, 2], [3, 1]]), [6, 4], [2, 1])
F.ctc_loss(torch.ones(5, 2, 4), torch.tensor([[1, 2], [3, 1]]), [5, 4], [3, 1])
F.ctc_loss(torch.ones(5, 2, 4), torch.tensor([1, 2, 3, 1]), [5, 4], [2, 1])
F.ctc_loss(torch.ones(5, 2, 4), torch.tensor([[1, 2], [3, 1]]), [5], [2, 1])
F.ctc_loss(torch.ones(5, 2, 4), torch.tensor([[1, 2], [3, 1]]), [5, 4], [2, 1], blank=9)
F.ctc_loss(torch.ones(5, 2, 4), torch.tensor([[1, 2], [3, 1]]), [0, 4], [0, 1], reduction='none')
F.ctc_loss(torch.ones(5, 2, 4).half(), torch.tensor([[1, 2], [3, 1]]), [5, 4], [2, 1])
F.embedding_bag(torch.tensor([1]), torch.ones(3, 2))
F.embedding_bag(torch.tensor([1]), torch.ones(3, 2), torch.tensor([1]))
F.embedding_bag(torch.tensor([5]), torch.ones(3, 2), torch.tensor([0]))
F.embedding_bag(torch.tensor([1]), torch.ones(3, 2), torch.tensor([0]), mode='x')
F.embedding_bag(torch.tensor([1]), torch.ones(3, 2), torch.tensor([0]), padding_idx=9)
F.embedding_bag(torch.tensor([1, 0]), torch.ones(3, 2), torch.tensor([0]), max_norm=1.)
F.embedding(torch.tensor([1, 0]), torch.ones(3, 2), max_norm=1.)
F.bilinear(torch.ones(3, 4), torch.ones(2, 5), torch.ones(2, 4, 5))
F.bilinear(torch.ones(3, 4), torch.ones(3, 4), torch.ones(2, 4, 5))
nn.Bilinear(0, 2, 3)
nn.Bilinear(2, 2, 3, bias=False)
nn.EmbeddingBag(4, 3, max_norm=2., padding_idx=1)
nn.EmbeddingBag(4, 3, padding_idx=9)
nn.AlphaDropout(0.2)
nn.RReLU(0.1, 0.2, True)
nn.AdaptiveLogSoftmaxWithLoss(4, 9, [5, 2])
nn.AdaptiveLogSoftmaxWithLoss(4, 9, [2, 5])(torch.ones(1, 4), torch.tensor([9]))
nn.AdaptiveLogSoftmaxWithLoss(4, 9, [2, 5]).predict(torch.ones(2, 4))
nn.LinearCrossEntropyLoss(4, 3)
nn.LinearCrossEntropyOptions(acc_policy='x')
nn.LinearCrossEntropyOptions(chunking_method='aspect_ratio:0')
nn.LinearCrossEntropyOptions(batch_chunk_size=0)
nn.LinearCrossEntropyOptions(acc_dtype=torch.int64)
nn.LinearCrossEntropyOptions()._adjust(100, 8, 1000, torch.bfloat16, torch.device('cpu'))
nn.LinearCrossEntropyOptions()._adjust(100, 8, 30, torch.float32, torch.device('cpu'))
nn.LinearCrossEntropyOptions(batch_chunk_size=300)._adjust(100, 8, 30, torch.float32)
nn.LinearCrossEntropyOptions(3, 3, 'aspect_ratio')._adjust(100, 8, 1000, torch.float32)
torch.cdist(torch.ones(3), torch.ones(3, 3))
torch.cdist(torch.ones(3, 3), torch.ones(3, 2))
torch.cdist(torch.ones(3, 3), torch.ones(3, 3), -1.)
torch.cdist(torch.ones(0, 3), torch.ones(2, 3)).shape
F.pdist(torch.ones(3))
F.dropout1d(torch.ones(3), 0.5)
F.rrelu(torch.ones(3), 0.5, 0.1)
F.multilabel_margin_loss(torch.ones(2, 3), torch.tensor([[1, 9, -1], [1, 1, 1]]))
F.multi_margin_loss(torch.ones(5, 3), torch.tensor([1, 2]))
nn.PReLU(3).weight._version
nn.PReLU(3).reset_parameters()"""


ROUNDED = {
    "a bag": "F.embedding_bag(places, table, mode='sum')",
    "a weighted bag": "F.embedding_bag(places, table, mode='sum', per_sample_weights=factors)",
    "a bag with padding": "F.embedding_bag(places, table, mode='sum', padding_idx=1)",
    "of rows in pieces": "F.embedding_bag(places, table.t().contiguous().t(), mode='sum')",
    "a mean": "F.embedding_bag(places, table)",
    "bilinear": "F.bilinear(factors, factors, cube)",
    "bilinear's slope": "torch.autograd.grad(F.bilinear(factors, factors, cube).sum(), cube)[0]",
    "of a broadcast": "torch.autograd.grad((table[:, None] * cube.sum(0)).sum(), cube)[0]",
    "of a long broadcast": "torch.autograd.grad((one + zeros).sum(), one)[0]",
}
"""Sums in half precision: where they are rounded, and how."""


@as_pytorch_answered({"nn/rounded": {name: name for name in ROUNDED}})
def test_sums_in_half_precision_are_rounded_where_pytorchs_are(torch: Any, name: str) -> Any:
    def made(dtype: str) -> list[str]:
        def numbers(*shape: int) -> Any:
            count = torch.arange(float(torch.zeros(shape).numel()))
            return ((count * 0.77).sin() * 9).view(shape).to(getattr(torch, dtype))

        known = {
            "torch": torch, "F": torch.nn.functional, "table": numbers(9, 5),
            "places": torch.arange(25).view(5, 5) * 7 % 9, "factors": numbers(5, 5),
            "cube": numbers(4, 5, 5).requires_grad_(), "one": numbers(1).requires_grad_(),
            "zeros": torch.zeros(5000, 3, dtype=getattr(torch, dtype)),
        }  # fmt: skip
        return [repr(each) for each in eval(ROUNDED[name], known).flatten().tolist()]

    return {dtype: made(dtype) for dtype in ("bfloat16", "float16")}


@as_pytorch_answered({"nn/more_questions": QUESTIONS.split("\n")}, tolerance=100)
def test_they_answer_as_pytorchs(torch: Any, code: str) -> Any:
    return answer(torch, code)


def test_pieces_of_a_batch_are_for_one_backward_unless_asked_for_more(torch: Any) -> None:
    x = torch.ones(3, 4, requires_grad=True)

    def loss(*, again: bool = False, label_smoothing: float = 0.0) -> Any:
        return torch.nn.functional.linear_cross_entropy(
            x, torch.eye(4), torch.tensor([0, 1, 1]), label_smoothing=label_smoothing,
            options=torch.nn.LinearCrossEntropyOptions(again, 2),
        )  # fmt: skip

    once, twice = loss(), loss(again=True)
    for each in (once, twice, twice):
        each.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="chunked backward called twice"):
        once.backward()
    with pytest.warns(UserWarning, match="``options`` ignored; chunked path needs reduction in"):
        loss(label_smoothing=0.1)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("F.ctc_loss(x, t.tensor([[1]]), [2], [1])", "_ctc_loss_backward is not implemented"),
        ("t.cdist(x[0], x[1])", "the derivative for '_cdist_backward' is not implemented"),
    ],
)
def test_a_second_derivative_that_pytorch_lacks_is_refused(code: str, text: str) -> None:
    x = ours.rand(2, 1, 3).requires_grad_(True)
    out = eval(code, {"F": ours.nn.functional, "t": ours, "x": x})
    (slope,) = ours.autograd.grad(out.sum(), x, create_graph=True)

    with pytest.raises((RuntimeError, NotImplementedError), match=text):
        slope.sum().backward()
