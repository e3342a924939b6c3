"""torch.func against PyTorch's: derivatives of derivatives, nests of tensors, vmap by a loop."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import gradscope.runtime as ours
from tests.runtime.nn.test_rnn import rounded

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

SETUP = """
x = torch.tensor([0.5, -1.0, 2.0])
A = torch.arange(6.0).view(2, 3) / 5
batch = torch.arange(12.0).view(4, 3) / 7
params = {'w': A.clone(), 'b': torch.ones(2)}
def loss(p, x): return ((p['w'] @ x + p['b']) ** 2).sum()
def cube(x): return (x ** 3).sum()
def wave(x): return A @ x.sin()
def pair(x, y): return x * y, (x + y).sin()
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
weights = dict(net.named_parameters())
def energy(x): return F.functional_call(net, weights, (x,)).squeeze()
"""

QUESTIONS = """F.grad(cube)(x)
F.grad(F.grad(cube.__call__))(torch.tensor(2.0))
F.grad(lambda t: F.grad(lambda s: s.sin() * t)(t))(torch.tensor(0.3))
F.grad(loss)(params, x)
F.grad(loss, argnums=(0, 1))(params, x)
F.grad_and_value(cube)(x)
F.grad(lambda x: (cube(x), x * 2), has_aux=True)(x)
F.vjp(wave, x)[1](torch.ones(2))
F.vjp(pair, x, x * 2)[1]((torch.ones(3), torch.ones(3)))
F.jvp(wave, (x,), (torch.ones(3),))
F.jvp(pair, (x, x), (torch.ones(3), x))
F.jacrev(wave)(x)
F.jacfwd(wave)(x)
F.jacrev(pair, argnums=1)(x, x)
F.jacfwd(pair, argnums=(0, 1))(x, x)
F.hessian(cube)(x)
F.hessian(energy)(x)
F.jacfwd(F.jacrev(cube))(x)
F.jacrev(loss)(params, x)
F.vmap(cube)(batch)
F.vmap(wave)(batch)
F.vmap(F.grad(energy))(batch)
F.vmap(F.grad(loss), in_dims=(None, 0))(params, batch)
F.vmap(lambda a, b: a @ b, in_dims=(0, 1), out_dims=1)(batch[:, None], batch.t())
F.vmap(pair, in_dims=(0, None))(batch, x)
F.vmap(F.vmap(lambda a, b: a * b, (None, 0)), (0, None))(x, x)
torch.vmap(lambda x: x.sum())(batch)
F.jacrev(energy)(x).requires_grad
F.jvp(F.grad(lambda x: cube(x) * x.sin().sum()), (x,), (torch.ones(3),))
F.jvp(F.grad_and_value(lambda x: (cube(x), x.sin()), has_aux=True), (x,), (x,))
F.jvp(lambda x: F.vjp(wave, x)[1](torch.ones(2)), (x,), (torch.ones(3),))
F.jvp(F.jacrev(wave), (x,), (x,))
F.jvp(F.grad(cube), (x,), (x.clone().requires_grad_(),))[1].requires_grad
F.jvp(F.grad(cube), (x,), (x,))[1].requires_grad
F.vmap(lambda x: F.jvp(F.grad(energy), (x,), (torch.ones(3),))[1])(batch)
F.grad(cube)(x).requires_grad
F.grad(energy)(x).grad_fn is None
F.functional_call(net, {'0.weight': torch.ones(4, 3)}, x)
F.functional_call(net, ({'0.weight': torch.ones(4, 3)}, {'2.bias': torch.zeros(1)}), x)
F.functional_call(net, {'0.weight': torch.ones(4, 3), 'z': x}, x, strict=True)
F.functional_call(net, ({'0.weight': x}, {'0.weight': x}), x)
F.functional_call(net, 3, x)
F.grad(wave)(x)
F.grad(cube, argnums=1)(x)
F.grad(cube)(3)
F.vmap(cube)(torch.tensor(1.0))
F.vmap(pair)(batch, x)
F.vmap(lambda x: x + torch.rand(3))(batch)
F.vmap(lambda x: torch.rand(3), randomness='same')(batch).std(0)
F.jvp(wave, x, x)
F.stack_module_state([net, net])[0]['0.weight'].shape"""


def answer(engine: Any, code: str) -> Any:
    func = importlib.import_module(f"{engine.__name__}.func")
    scope = {"torch": engine, "nn": engine.nn, "F": func}
    exec(SETUP, scope)
    try:
        return plain(eval(code, scope))
    except (RuntimeError, ValueError, TypeError, AttributeError) as error:
        return type(error).__name__, str(error).split("\n")[0]


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list) and not hasattr(value, "numel"):
        return [plain(item) for item in value]
    return rounded(value.detach().tolist()) if hasattr(value, "detach") else value


@pytest.mark.parametrize("code", QUESTIONS.split("\n"))
def test_it_answers_as_pytorchs(code: str) -> None:
    found, expected = answer(ours, code), answer(torch, code)

    if isinstance(expected, tuple):
        assert found[0] == expected[0]
    elif isinstance(expected, dict | list):
        assert repr(near(found)) == repr(near(expected))
    else:
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)


def near(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: near(item) for key, item in value.items()}
    if isinstance(value, list):
        return [near(item) for item in value]
    return round(value, 3) + 0.0 if isinstance(value, float) else value


def test_an_outer_backward_goes_through_a_gradient() -> None:
    weight = ours.ones(3, requires_grad=True)

    slope = ours.func.grad(lambda x: (weight * x**2).sum())(ours.tensor([1.0, 2.0, 3.0]))
    slope.sum().backward()

    assert weight.grad.tolist() == [2.0, 4.0, 6.0]


def test_tensors_are_put_back_when_a_call_fails() -> None:
    module = ours.nn.Linear(2, 2)
    before = module.weight

    with pytest.raises(RuntimeError):
        ours.func.functional_call(module, {"weight": ours.ones(2, 3)}, ours.ones(1, 2))

    assert module.weight is before
