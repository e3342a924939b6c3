"""torch.func: gradients, jacobians and maps of functions, as on PyTorch."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tests.runtime.autograd.both import runtime

CALLS = """
func.grad(cubes)(x)
func.grad(cubes)(x).requires_grad
func.grad(func.grad(lambda x: x**4))(torch.tensor(2.0))
func.grad(lambda x: func.grad(cubes)(x).sum())(x)
func.grad(lambda x: (weight @ x).sum())(x).requires_grad
func.grad(cubes)(x.clone().requires_grad_()).requires_grad
func.grad_and_value(cubes)(x)
func.grad(lambda a, b: (a * b).sum(), argnums=(0, 1))(x, 2 * x)
func.grad(lambda d: (d["a"] * d["b"]).sum())({"a": x, "b": x + 1})
func.grad(lambda x: (x.sum(), x * 2), has_aux=True)(x)
func.grad(lambda x: x)(x)
func.grad(lambda x: 3.0)(x)
func.vjp(torch.sin, x)[0]
func.vjp(torch.sin, x)[1](torch.ones(3))
func.jvp(torch.sin, (x,), (torch.ones(3),))
func.jacrev(torch.sin)(x)
func.jacfwd(torch.exp)(x)
func.jacrev(lambda a, b: a * b, argnums=(0, 1))(x, x)
func.jacrev(lambda x: {"a": x.sum(), "b": x[:2]})(x)
func.hessian(lambda x: (x.exp() * x[0]).sum())(x)
func.grad(loss)(weights, rows, targets)
func.functional_call(model, {"0.weight": torch.zeros(4, 3)}, rows)
func.functional_call(model, [weights, {}], (rows,))
func.functional_call(model, {"z": rows}, rows, strict=True)
torch.vmap(torch.dot)(rows, rows)
func.vmap(lambda x: x.sum(), in_dims=1)(rows)
func.vmap(lambda x, y: (x + y, x * y), in_dims=(0, None), out_dims=(0, 1))(rows, x)
func.vmap(func.grad(loss), in_dims=(None, 0, 0))(weights, rows, targets)
func.vmap(torch.dot)(rows, rows[:2])
"""


def told(torch: Any, call: str) -> Any:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    func = importlib.import_module(f"{torch.__name__}.func")

    def loss(weights: Any, rows: Any, targets: Any) -> Any:
        return ((func.functional_call(model, weights, (rows,)) - targets) ** 2).mean()

    scope = {
        "torch": torch,
        "func": func,
        "model": model,
        "weights": {name: p.detach() for name, p in model.named_parameters()},
        "x": torch.randn(3),
        "weight": torch.randn(3, 3, requires_grad=True),
        "rows": torch.randn(5, 3),
        "targets": torch.randn(5, 1),
        "cubes": lambda x: (x**3).sum(),
        "loss": loss,
    }
    try:
        return shown(eval(call, scope))
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def shown(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: shown(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [shown(v) for v in value]
    if not hasattr(value, "tolist"):
        return value
    return pytest.approx(value.flatten().tolist(), rel=1e-5, abs=1e-6), tuple(value.shape)


def plain(value: Any) -> Any:
    """The same with numbers instead of what they are compared by."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(plain(v) for v in value)
    return getattr(value, "expected", value)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
@pytest.mark.parametrize("call", CALLS.strip().splitlines())
def test_it_gives_what_pytorch_gives(call: str) -> None:
    import torch as real

    assert plain(told(runtime(), call)) == told(real, call)


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
