"""Modules against PyTorch's: how they are written, what they compute, what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.runtime.answers.kept import as_pytorch_answered
from tests.runtime.engines import answer

pytestmark = pytest.mark.filterwarnings("ignore")


MODULES = """nn.Linear(3, 4)
nn.Linear(3, 4, bias=False)
nn.ReLU()
nn.ReLU(inplace=True)
nn.Dropout(0.1)
nn.LeakyReLU(0.1)
nn.ELU()
nn.CELU(0.5)
nn.SELU()
nn.GELU()
nn.GELU('tanh')
nn.SiLU()
nn.Mish()
nn.Hardswish()
nn.Hardsigmoid()
nn.Hardtanh()
nn.ReLU6()
nn.Softplus()
nn.Softsign()
nn.Tanhshrink()
nn.Softshrink()
nn.Hardshrink()
nn.LogSigmoid()
nn.Tanh()
nn.Sigmoid()
nn.PReLU()
nn.Threshold(0.1, 20)
nn.Softmax(dim=1)
nn.LogSoftmax(1)
nn.Softmin(0)
nn.GLU()
nn.Flatten()
nn.Unflatten(1, (2, 2))
nn.Identity()
nn.Embedding(3, 4)
nn.Embedding(3, 4, padding_idx=-1)
nn.LayerNorm(4)
nn.LayerNorm((3, 4), bias=False)
nn.BatchNorm1d(4)
nn.BatchNorm2d(4, momentum=None)
nn.BatchNorm3d(4, affine=False, track_running_stats=False)
nn.LazyBatchNorm1d()
nn.InstanceNorm1d(4)
nn.InstanceNorm2d(4, affine=True, track_running_stats=True)
nn.GroupNorm(2, 4, bias=False)
nn.RMSNorm(4)
nn.LocalResponseNorm(2)
nn.CrossMapLRN2d(2)
nn.MSELoss()
nn.CrossEntropyLoss(label_smoothing=0.1)
nn.BCEWithLogitsLoss()
nn.KLDivLoss()
nn.HuberLoss()
nn.HingeEmbeddingLoss(margin=2.0)
nn.TripletMarginLoss(p=3)
nn.MultiMarginLoss(2)
nn.MultiMarginLoss(3)
nn.TripletMarginLoss(margin=-1)
nn.PairwiseDistance()
nn.CosineSimilarity(dim=0)
nn.CTCLoss()
nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.Tanh(), nn.ReLU()))
nn.ModuleList([nn.Linear(1, 1), nn.Linear(1, 1), nn.Linear(1, 2)])
nn.ModuleList()
nn.ModuleDict({'a': nn.Tanh()})
nn.ParameterList([torch.ones(2)])
nn.ParameterDict({'a': torch.ones(2)})
nn.Parameter(torch.ones(2))"""


@as_pytorch_answered({"nn/texts": MODULES.split("\n")})
def test_they_are_written_as_pytorchs(torch: Any, code: str) -> Any:
    return answer(torch, f"repr({code})")


LAYERS = (
    ("nn.Linear(4, 3)", (2, 4)),
    ("nn.Linear(4, 3)", (2, 5, 4)),
    ("nn.LayerNorm(4)", (2, 3, 4)),
    ("nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))", (5, 4)),
    *((code, (2, 4)) for code in MODULES.split("\n")[2:34] if "inplace" not in code),
    ("nn.Dropout(0.3)", (2, 4)),
)


@as_pytorch_answered({"nn/layers": {f"{code}{shape}": (code, shape) for code, shape in LAYERS}})
def test_they_compute_what_pytorchs_do(torch: Any, layer: tuple[str, tuple[int, ...]]) -> Any:
    code, shape = layer
    torch.manual_seed(1)
    module = eval(code, {"nn": torch.nn})
    x = torch.from_numpy(np.random.default_rng(0).normal(size=shape).astype(np.float32))
    out = module(x.requires_grad_(True))
    (out * out).sum().backward()
    return out, x.grad, [p.grad for p in module.parameters()]


LOSSES = """nn.MSELoss()(x, y)
nn.MSELoss(reduction='sum')(x, y)
nn.L1Loss(reduction='none')(x, y)
nn.SmoothL1Loss(beta=0.5)(x, y)
nn.HuberLoss(delta=0.5)(x, y)
nn.CrossEntropyLoss()(x, labels)
nn.CrossEntropyLoss(weight=torch.tensor([1., 2., 3.]), label_smoothing=0.1)(x, labels)
nn.NLLLoss(ignore_index=1)(x.log_softmax(1), labels)
nn.BCELoss()(x.sigmoid(), y.sigmoid())
nn.BCEWithLogitsLoss(pos_weight=torch.tensor(2.))(x, y.sigmoid())
nn.KLDivLoss(reduction='batchmean')(x.log_softmax(1), y.softmax(1))
nn.PoissonNLLLoss(full=True)(x, y.abs())
nn.GaussianNLLLoss()(x, y, y.abs() + 0.1)
nn.HingeEmbeddingLoss()(x, y.sign())
nn.CosineEmbeddingLoss(0.1)(x, y, y[:, 0].sign())
nn.MarginRankingLoss(0.2)(x, y, y.sign())
nn.SoftMarginLoss()(x, y.sign())
nn.MultiLabelSoftMarginLoss()(x, y.sigmoid())
nn.MultiMarginLoss(2, 0.5)(x, labels)
nn.TripletMarginLoss(swap=True)(x, y, x + y)
nn.PairwiseDistance(3, keepdim=True)(x, y)
nn.CosineSimilarity()(x, y)
nn.MSELoss(size_average=False)(x, y)
nn.MSELoss(reduce=False)(x, y)"""


@as_pytorch_answered({"nn/losses": LOSSES.split("\n")})
def test_losses_are_pytorchs(torch: Any, code: str) -> Any:
    rng = np.random.default_rng(0)
    x, y = (torch.from_numpy(rng.normal(size=(4, 3)).astype(np.float32)) for _ in range(2))
    x.requires_grad_(True)
    labels = torch.tensor([0, 2, 1, 1])
    loss = eval(code, {"torch": torch, "nn": torch.nn, "x": x, "y": y, "labels": labels})
    loss.sum().backward()
    return loss, x.grad


FIRST_VALUES = """nn.init.uniform_(t, -1, 2)
nn.init.normal_(t, 1, 2)
nn.init.trunc_normal_(t, std=0.5)
nn.init.constant_(t, 3)
nn.init.ones_(t)
nn.init.zeros_(t)
nn.init.eye_(t)
nn.init.xavier_uniform_(t, gain=2)
nn.init.xavier_normal_(t)
nn.init.kaiming_uniform_(t, a=1)
nn.init.kaiming_uniform_(t, mode='fan_out', nonlinearity='relu')
nn.init.kaiming_normal_(t)
nn.init.sparse_(t, 0.4)
nn.init.calculate_gain('leaky_relu', 0.2)
nn.init.calculate_gain('tanh')
nn.Linear(3, 4).weight
nn.Linear(3, 4).bias
nn.Embedding(5, 3, padding_idx=2).weight
nn.LayerNorm(3).weight
nn.PReLU(3).weight"""


@as_pytorch_answered({"nn/first_values": FIRST_VALUES.split("\n")}, tolerance=0.01)
def test_the_same_seed_gives_the_same_first_values(torch: Any, code: str) -> Any:
    torch.manual_seed(3)
    return eval(code, {"nn": torch.nn, "t": torch.empty(5, 7)})


REFUSED = """nn.Module()(1)
nn.Linear(2, 3)(torch.ones(1, 3))
nn.Sequential(3)
nn.Sequential(nn.Tanh())[3]
nn.ModuleList([3])
nn.Linear(2, 2).register_parameter('bias', 3)
nn.Linear(2, 2).register_parameter('forward', None)
nn.Linear(2, 2).register_parameter('x.y', None)
nn.Linear(2, 2).register_parameter('', None)
nn.Linear(2, 2).register_parameter('x', nn.Linear(1, 1).weight * 2)
nn.Linear(2, 2).register_buffer('weight', None)
nn.Linear(2, 2).add_module('q', 3)
nn.Linear(2, 2).get_submodule('a')
nn.Linear(2, 2).get_parameter('forward')
nn.Linear(2, 2).nothing
setattr(nn.Linear(2, 2), 'weight', 3)
setattr(nn.Sequential(nn.Tanh()), '0', 3)
nn.Tanh().train(3)
nn.Tanh().to(torch.long)
nn.Linear(2, 2).load_state_dict(3)
nn.Parameter(torch.ones(2, dtype=torch.long))
nn.Dropout(2)
nn.Embedding(2, 2, padding_idx=5)
nn.Hardtanh(1, 0)
nn.init.xavier_uniform_(torch.ones(2))
nn.init.kaiming_uniform_(torch.ones(2, 2), mode='x')
nn.init.calculate_gain('x')
nn.init.eye_(torch.ones(2))"""


@as_pytorch_answered({"nn/refusals": REFUSED.split("\n")})
def test_they_refuse_in_pytorchs_words(torch: Any, code: str) -> Any:
    return answer(torch, code)
