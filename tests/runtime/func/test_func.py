"""torch.func: gradients, jacobians and maps of functions, nests of tensors, modules called."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import pytest

from tests.runtime.both import runtime

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
values = {name: p.detach() for name, p in weights.items()}
targets = torch.arange(4.0).view(4, 1)
def error(p, x, y): return ((F.functional_call(net, p, (x,)) - y) ** 2).mean()
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
F.jvp(lambda s: F.jvp(wave, (s,), (s * s,)), (x,), (torch.ones(3),))
F.jvp(lambda s: F.jvp(lambda r: F.jvp(cube, (r,), (x,))[1], (s,), (x,))[1], (x,), (x,))
F.jvp(F.grad(lambda s: F.jvp(cube, (s,), (x,))[1]), (x,), (torch.ones(3),))
F.jvp(lambda t: F.jvp(wave, (x,), (t,))[1], (x,), (torch.ones(3),))
F.jvp(lambda s: F.jvp(pair, (s, x), (x, s), has_aux=True), (x,), (x,), has_aux=False)
F.jvp(lambda s: F.jvp(wave, (s,), (s,))[1], (x,), (x,))[1].requires_grad
F.linearize(wave, x)[0], F.linearize(wave, x)[1](torch.ones(3))
F.linearize(lambda a, b: {'s': a * b, 't': a.sin()}, x, x + 1)[1](x, x)
F.vjp(lambda s: (wave(s), s * 2), x, has_aux=True)[2].requires_grad
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
F.vmap(functools.partial(cube))(torch.tensor(1.0))
F.vmap(net)(torch.tensor(1.0))
F.vmap(pair)(batch, x)
F.vmap(lambda x: x + torch.rand(3))(batch)
F.vmap(lambda x: torch.rand(3), randomness='same')(batch).std(0)
F.jvp(wave, x, x)
F.stack_module_state([net, net])[0]['0.weight'].shape
F.grad(lambda x: F.grad(cube)(x).sum())(x)
F.grad(lambda x: (weights['0.weight'] @ x).sum())(x).requires_grad
F.grad(cube)(x.clone().requires_grad_()).requires_grad
F.grad(lambda x: 3.0)(x)
F.vjp(torch.sin, x)[0]
F.jacrev(lambda a, b: a * b, argnums=(0, 1))(x, x)
F.jacrev(lambda x: {'a': x.sum(), 'b': x[:2]})(x)
F.grad(error)(values, batch, targets)
F.functional_call(net, [weights, {}], (batch,))
F.functional_call(net, {'z': x}, batch, strict=True)
torch.vmap(torch.dot)(batch, batch)
F.vmap(cube, in_dims=1)(batch)
F.vmap(lambda x, y: (x + y, x * y), in_dims=(0, None), out_dims=(0, 1))(batch, x)
F.vmap(F.grad(error), in_dims=(None, 0, 0))(values, batch, targets)
F.vmap(torch.dot)(batch, batch[:2])"""


def answer(torch: Any, code: str) -> Any:
    func = importlib.import_module(f"{torch.__name__}.func")
    scope = {"torch": torch, "nn": torch.nn, "F": func, "functools": functools}
    exec(SETUP, scope)
    try:
        return plain(eval(code, scope))
    except (RuntimeError, ValueError, TypeError, AttributeError) as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def plain(value: Any) -> Any:
    """Lists of numbers in place of tensors."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if hasattr(value, "detach"):
        return tuple(value.shape), value.detach().flatten().tolist()
    return tuple(plain(item) for item in value) if isinstance(value, tuple) else value


def near(value: Any) -> Any:
    """The same, for numbers that are equal but for rounding."""
    if isinstance(value, dict):
        return {key: near(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(near(item) for item in value)
    return pytest.approx(value, rel=1e-4, abs=1e-5) if isinstance(value, list) else value


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("code", QUESTIONS.splitlines())
def test_it_answers_as_pytorchs(code: str) -> None:
    import torch

    assert answer(runtime(), code) == near(answer(torch, code))


def test_an_outer_backward_goes_through_a_gradient(torch: Any) -> None:
    func = importlib.import_module(f"{torch.__name__}.func")
    weight = torch.ones(3, requires_grad=True)

    slope = func.grad(lambda x: (weight * x**2).sum())(torch.tensor([1.0, 2.0, 3.0]))
    slope.sum().backward()

    assert weight.grad.tolist() == [2.0, 4.0, 6.0]


def test_a_module_is_as_before_after_a_call_with_other_parameters(torch: Any) -> None:
    func = importlib.import_module(f"{torch.__name__}.func")
    model = torch.nn.Linear(2, 2)
    before = dict(model.named_parameters())

    with pytest.raises(RuntimeError):
        func.functional_call(model, {"weight": torch.ones(2, 5)}, (torch.ones(2),))
    assert all(model.get_parameter(name) is p for name, p in before.items())


def test_parameters_that_are_tied_are_replaced_together(torch: Any) -> None:
    func = importlib.import_module(f"{torch.__name__}.func")
    model = torch.nn.Sequential(
        torch.nn.Linear(2, 2, bias=False), torch.nn.Linear(2, 2, bias=False)
    )
    model[1].weight = model[0].weight
    zeros = {"0.weight": torch.zeros(2, 2)}

    assert func.functional_call(model, zeros, torch.ones(2)).tolist() == [0.0, 0.0]
    found = func.functional_call(model[1], {"weight": torch.eye(2)}, torch.ones(2))
    assert found.tolist() == [1.0, 1.0]


def test_states_of_several_modules_are_stacked(torch: Any) -> None:
    func = importlib.import_module(f"{torch.__name__}.func")
    models = [torch.nn.BatchNorm1d(3) for _ in range(2)]
    parameters, buffers = func.stack_module_state(models)

    assert {n: tuple(p.shape) for n, p in parameters.items()} == {"weight": (2, 3), "bias": (2, 3)}
    assert parameters["weight"].requires_grad
    assert tuple(buffers["running_mean"].shape) == (2, 3)


def test_backward_is_refused_inside_of_a_transform(torch: Any) -> None:
    func, x = torch.func, torch.ones(3, requires_grad=True)

    def loss(row: Any) -> Any:
        value = (row * x).sum()
        value.backward()
        return value

    for transformed in (
        lambda: func.vmap(loss)(torch.ones(2, 3)),
        lambda: func.grad(loss)(torch.ones(3)),
        lambda: func.vjp(loss, torch.ones(3)),
        lambda: func.jacrev(loss)(torch.ones(3)),
    ):
        with pytest.raises(RuntimeError, match="called inside a functorch transform"):
            transformed()
    loss(torch.ones(3))
    assert x.grad.tolist() == [1, 1, 1]
