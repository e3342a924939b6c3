"""Normalizations as modules: what they compute, keep, count, load and refuse is PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.runtime.answers.kept import as_pytorch_answered
from tests.runtime.engines import ENGINES, answer

pytestmark = pytest.mark.filterwarnings("ignore")

CALLS = (
    ("nn.BatchNorm1d(3)", (4, 3)),
    ("nn.BatchNorm1d(3, momentum=None)", (4, 3, 5)),
    ("nn.BatchNorm2d(3, affine=False)", (2, 3, 4, 2)),
    ("nn.BatchNorm2d(3, track_running_stats=False)", (2, 3, 4, 2)),
    ("nn.BatchNorm2d(3, bias=False)", (2, 3, 4, 2)),
    ("nn.BatchNorm3d(3, eps=0.1, momentum=0.5)", (2, 3, 2, 2, 2)),
    ("nn.LazyBatchNorm1d()", (4, 3)),
    ("nn.LazyBatchNorm2d(affine=False)", (2, 3, 4, 2)),
    ("nn.InstanceNorm1d(3)", (2, 3, 5)),
    ("nn.InstanceNorm1d(3)", (3, 5)),
    ("nn.InstanceNorm2d(3, affine=True, track_running_stats=True)", (2, 3, 4, 2)),
    ("nn.InstanceNorm3d(7)", (2, 3, 2, 2, 2)),
    ("nn.LazyInstanceNorm1d()", (2, 3, 5)),
    ("nn.GroupNorm(3, 6)", (2, 6, 4)),
    ("nn.GroupNorm(1, 6, affine=False)", (2, 6)),
    ("nn.RMSNorm(5)", (2, 3, 5)),
    ("nn.RMSNorm((3, 5), eps=0.1, elementwise_affine=False)", (2, 3, 5)),
    ("nn.LocalResponseNorm(3)", (2, 6, 4)),
    ("nn.LocalResponseNorm(2, alpha=0.1, k=2.0)", (2, 6, 2, 3)),
    ("nn.CrossMapLRN2d(3)", (2, 6, 2, 3)),
)


@as_pytorch_answered({"nn/norms": {f"{code}{shape}": (code, shape) for code, shape in CALLS}})
def test_two_steps_and_an_evaluation_are_pytorchs(torch: Any, call: Any) -> Any:
    return steps(torch, *call)


def steps(engine: Any, code: str, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """What a module is called and keeps; its results, gradients and state after each call."""
    engine.manual_seed(0)
    module = eval(code, {"nn": engine.nn})
    numbers: list[Any] = []
    names: list[Any] = []
    for step in range(3):
        if step == 2:
            module.eval()
        values = np.random.default_rng(step).normal(1, 2, shape).astype(np.float32)
        x = engine.from_numpy(values).requires_grad_(True)
        out = module(x)
        (out * out * out).sum().backward()
        state = module.state_dict()
        names += [repr(module), list(state), type(out.grad_fn).__name__]
        names += [b._version for b in module.buffers()]
        grads = [p.grad for p in module.parameters()]
        numbers += [t.detach().numpy().copy() for t in (out, x.grad, *grads, *state.values())]
    return names, numbers


REFUSED = """nn.BatchNorm1d(3)(torch.ones(2, 3, 4, 5))
nn.BatchNorm2d(3)(torch.ones(2, 3, 4))
nn.BatchNorm3d(3)(torch.ones(2, 3, 4))
nn.BatchNorm1d(3)(torch.ones(1, 3))
nn.BatchNorm1d(3)(torch.ones(2, 4))
nn.InstanceNorm1d(3)(torch.ones(2, 3, 4, 5))
nn.InstanceNorm2d(3, affine=True)(torch.ones(2, 4, 4, 5))
nn.GroupNorm(2, 5)
nn.GroupNorm(2, 4)(torch.ones(2, 6, 3))
nn.RMSNorm(4)(torch.ones(2, 3))
nn.CrossMapLRN2d(2)(torch.ones(2, 3))
nn.BatchNorm1d(3).load_state_dict({'weight': torch.ones(3)})
nn.InstanceNorm1d(3, affine=True).load_state_dict({'weight': torch.ones(4)})"""


@as_pytorch_answered({"nn/norms_refused": REFUSED.split("\n")})
def test_what_they_refuse_is_pytorchs(torch: Any, code: str) -> Any:
    return answer(torch, code)


@pytest.mark.torch
def test_statistics_of_a_first_version_are_counted_from_zero() -> None:
    counts = []
    for engine in ENGINES:
        old = engine.nn.BatchNorm1d(3).state_dict()
        del old["num_batches_tracked"]
        old._metadata.clear()
        module = engine.nn.BatchNorm1d(3)
        module(engine.ones(2, 3))
        module.load_state_dict(old)
        counts.append(module.num_batches_tracked.item())

    assert counts[0] == counts[1]


LAYOUTS = """F.layer_norm(x.transpose(0, 1), (5,))
F.rms_norm(x.transpose(0, 1), (5,))
F.softmax(x.transpose(0, 2), 1)
F.log_softmax(x.transpose(0, 2), 1)
F.batch_norm(x.transpose(1, 2), None, None, training=True)
F.batch_norm(y.permute(0, 3, 1, 2), None, None, training=True)
F.batch_norm(y.permute(1, 2, 3, 0), None, None, training=True)
F.group_norm(x.transpose(1, 2), 1)
F.group_norm(y.permute(0, 3, 1, 2), 1)
F.gelu(x.transpose(0, 1))
F.silu(x.transpose(0, 1))
F.dropout(x.transpose(0, 1))
F.dropout(x.permute(2, 0, 1)[:, 1:])
F.dropout(x[:, :1].expand(3, 4, 5))"""


@as_pytorch_answered({"nn/layouts": LAYOUTS.split("\n")})
def test_results_lie_in_memory_as_pytorchs(torch: Any, code: str) -> Any:
    """Views and draws of random numbers further on depend on it, and so do their nodes."""
    torch.manual_seed(0)
    x, y = (torch.ones(*size).requires_grad_() for size in ((3, 4, 5), (2, 3, 4, 5)))
    out = eval(code, {"F": torch.nn.functional, "x": x, "y": y})
    return out.stride(), type(out.grad_fn).__name__, out
