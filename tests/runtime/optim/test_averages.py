"""Averaged weights, clipped gradients, and functions on lists of tensors: as PyTorch's."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import gradscope.runtime as ours

pytestmark = pytest.mark.torch


@pytest.fixture
def engines() -> Any:
    return ours, pytest.importorskip("torch")


AVERAGES = """AveragedModel(m)
AveragedModel(m, avg_fn=S.get_ema_avg_fn(0.9))
AveragedModel(m, multi_avg_fn=S.get_ema_multi_avg_fn(0.9), use_buffers=True)
AveragedModel(m, multi_avg_fn=S.get_swa_multi_avg_fn())"""


@pytest.mark.parametrize("code", AVERAGES.split("\n"))
def test_weights_are_averaged_as_pytorchs(code: str, engines: Any) -> None:
    found = []
    for engine in engines:
        engine.manual_seed(0)
        model = engine.nn.Sequential(engine.nn.Linear(3, 2), engine.nn.BatchNorm1d(2)).double()
        swa = engine.optim.swa_utils
        averaged = eval(f"S.{code}", {"S": swa, "m": model})
        optimizer = engine.optim.SGD(model.parameters(), 0.1)
        data = [engine.randn(6, 3).double() for _ in range(4)]
        for x in data:
            optimizer.zero_grad()
            model(x).pow(3).sum().backward()
            optimizer.step()
            averaged.update_parameters(model)
        swa.update_bn(data, averaged)
        state = averaged.state_dict()
        found.append({name: value.flatten().tolist() for name, value in state.items()})

    assert list(found[0]) == list(found[1])
    for name, values in found[0].items():
        assert values == pytest.approx(found[1][name], rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("options", ["0.05", "0.05, 5", "[0.05], 5, 'linear'", "0.05, 0"])
def test_the_rate_for_averages_is_pytorchs(options: str, engines: Any) -> None:
    found = []
    for engine in engines:
        optimizer = engine.optim.SGD([engine.nn.Parameter(engine.ones(1))], 0.5)
        schedule = eval(f"S.SWALR(o, {options})", {"S": engine.optim.swa_utils, "o": optimizer})
        seen = []
        for _ in range(15):
            optimizer.step()
            schedule.step()
            seen += schedule.get_last_lr()
        state = schedule.state_dict()
        found.append((pytest.approx(seen, rel=1e-13), state.keys()))

    assert found[0][0].expected == found[1][0]
    assert found[0][1] == found[1][1]


CLIPS = """clip_grad_norm_(p, 1.0)
clip_grad_norm_(p, 1.0, 1)
clip_grad_norm_(p, 1.0, float('inf'), foreach=True)
clip_grad_norm_(p, 1.0, 0.5)
clip_grad_norm_(p[0], 1e3)
clip_grad_norm_([], 1.0)
clip_grad_norm_((q for q in []), 1.0)
clip_grad_norm_(iter(p), 0.1)
clip_grad_norm_(p, 1.0, error_if_nonfinite=True)
clip_grad_norm(p, 1.0)
clip_grad_value_(p, 0.3)
clip_grad_value_(p, 0.3, foreach=True)
get_total_norm([q.grad for q in p[:2]], 3)
clip_grads_with_norm_(p, 1.0, p[0].grad.norm())"""


@pytest.mark.parametrize("big", [1.0, float("inf")])
@pytest.mark.parametrize("code", CLIPS.split("\n"))
def test_gradients_are_clipped_as_pytorchs(code: str, big: float, engines: Any) -> None:
    found = []
    for engine in engines:
        engine.manual_seed(0)
        p = [engine.nn.Parameter(engine.randn(n)) for n in (3, 40, 2)]
        for q in p[:2]:
            q.grad = engine.randn(q.shape)
        p[0].grad[0] = big
        utils = engine.nn.utils
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                made = eval(f"U.{code}", {"U": utils, "p": p})
                norm = None if made is None else made.item()
            except RuntimeError as error:
                norm = str(error)
        grads = [value for q in p[:2] for value in q.grad.tolist()]
        writes = [q.grad._version for q in p[:2]]
        said = [(one.category, str(one.message)) for one in caught]
        found.append((norm, grads, writes, said))

    (norm, grads, *rest), (their_norm, their_grads, *others) = found
    assert rest == others
    if isinstance(norm, float):
        assert norm == pytest.approx(their_norm, rel=1e-6, nan_ok=True)
    else:
        assert norm == their_norm
    assert grads == pytest.approx(their_grads, rel=1e-6, nan_ok=True)


LISTS = """add(a, 1.5)
add(a, b, alpha=2)
add_(a, [1.0, 2.0])
sub(a, b)
mul_(a, b)
mul(a, torch.tensor(3.0))
div_(a, 2.0)
div(a, b)
maximum(a, b)
minimum(a, 0.1)
clamp_min_(a, 0.2)
clamp_max(a, [0.1, 0.2])
pow(b, 2)
lerp(a, b, 0.3)
lerp_(a, b, [a[0] * 0 + 0.2, a[1] * 0 + 0.7])
addcmul(a, b, b)
addcmul_(a, b, b, value=0.5)
addcdiv(a, b, b, [0.1, 0.2])
addcdiv_(a, b, b, scalars=torch.tensor([0.1, 0.2]))
norm(a)
norm(a, 1)
norm(a, float('inf'))
max(a)
zero_(a)
copy_(a, b)
clone(a)
sqrt(b)
neg_(a)
exp_(a)
reciprocal(b)
sigmoid(a)
add([], 1)
add(a, b[:1])"""


@pytest.mark.parametrize("code", LISTS.split("\n"))
def test_functions_on_lists_are_pytorchs(code: str, engines: Any) -> None:
    found = []
    for engine in engines:
        engine.manual_seed(0)
        a = [engine.randn(2), engine.randn(3, 2)]
        b = [engine.rand(2) + 0.1, engine.rand(3, 2) + 0.1]
        try:
            made = eval(f"torch._foreach_{code}", {"torch": engine, "a": a, "b": b})
        except RuntimeError as error:
            found.append([type(error)])
        else:
            values = [v for t in [*made, *a] for v in t.flatten().tolist()]
            found.append([type(made), [t._version for t in a], pytest.approx(values, rel=1e-6)])

    ours_found, theirs_found = found
    assert ours_found[:2] == theirs_found[:2]
    assert len(ours_found) == 1 or ours_found[2].expected == theirs_found[2]
