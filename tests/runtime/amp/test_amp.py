"""Mixed precision: PyTorch's casts, graphs and values under autocast; scaled losses."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest

import gradscope.runtime as ours

pytestmark = pytest.mark.torch


@pytest.fixture
def engines() -> Any:
    return ours, pytest.importorskip("torch")


def tree(node: Any, depth: int = 8) -> Any:
    """The names of a graph's nodes."""
    if node is None or depth == 0:
        return None
    return type(node).__name__, [tree(following, depth - 1) for following, _ in node.next_functions]


CALLS = """torch.mm(x, x.t())
torch.matmul(x, x.t())
x @ x.t()
x.matmul(v)
torch.bmm(x[None], x.t()[None])
torch.addmm(v, x, x)
torch.baddbmm(x[None], x[None], x[None])
torch.einsum('ij,kj->ik', x, x)
F.linear(x, x, v)
F.linear(x[None], x)
F.scaled_dot_product_attention(x[None], x[None], x[None])
torch.cat([x, h])
torch.stack([h, h])
F.mse_loss(h, x)
F.l1_loss(h, h)
F.cross_entropy(h, t)
F.nll_loss(h, t)
F.binary_cross_entropy_with_logits(h, h.sigmoid())
F.softmax(h, -1)
F.relu(h) + x
h.prod()
x.double() @ x.double()
h * 2
F.layer_norm(h, (4,), v, v)
F.kl_div(h, h.sigmoid())
torch.linalg.inv(h)"""


@pytest.mark.parametrize("code", CALLS.split("\n"))
def test_an_operation_casts_as_pytorchs(code: str, engines: Any) -> None:
    found = []
    for engine in engines:
        engine.manual_seed(3)
        scope = {"torch": engine, "F": engine.nn.functional, "t": engine.tensor([0, 1, 2, 1])}
        x = scope["x"] = engine.randn(4, 4, requires_grad=True)
        scope["v"] = engine.randn(4, requires_grad=True)
        scope["h"] = engine.randn(4, 4).bfloat16().requires_grad_()
        with engine.autocast("cpu", dtype=engine.bfloat16), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = eval(code, scope)
        made.float().sum().backward()
        grad = None if x.grad is None else x.grad.flatten().tolist()
        found.append((str(made.dtype), tree(made.grad_fn), made.float().flatten().tolist(), grad))

    (dtype, graph, values, grad), (their_dtype, their_graph, their_values, their_grad) = found
    assert (dtype, graph) == (their_dtype, their_graph)
    assert values == pytest.approx(their_values, rel=1e-2, abs=1e-2)
    assert grad == (None if their_grad is None else pytest.approx(their_grad, rel=2e-2, abs=2e-2))


def test_a_leaf_is_cast_once_in_a_block(engines: Any) -> None:
    for engine in engines:
        weight = engine.ones(2, 2, requires_grad=True)
        with engine.autocast("cpu"):
            first, second = weight @ weight, weight @ weight
            nodes = {id(f.next_functions[0][0]) for f in (first.grad_fn, second.grad_fn)}
            with engine.autocast("cpu", cache_enabled=False):
                third = weight @ weight
        nodes.add(id(third.grad_fn.next_functions[0][0]))

        assert len(nodes) == 2


def test_blocks_nest_and_decorate(engines: Any) -> None:
    found = []
    for engine in engines:
        x = engine.ones(2, 2)

        @engine.autocast("cpu", dtype=engine.float16)
        def product(x: Any = x) -> Any:
            return x @ x

        with engine.autocast("cpu"):
            with engine.autocast("cpu", enabled=False):
                inner = x @ x
            found.append([str((x @ x).dtype), str(inner.dtype), engine.is_autocast_enabled("cpu")])
        made = product()
        found[-1] += [str(made.dtype), str((x @ x).dtype), engine.is_autocast_enabled("cpu")]
        with pytest.raises(ZeroDivisionError), engine.autocast("cpu"):
            raise ZeroDivisionError
        found[-1].append(engine.is_autocast_enabled("cpu"))

    assert found[0] == found[1]


REFUSED = """torch.autocast(3)
torch.autocast('abacus')
torch.autocast('cpu')(3)
torch.autocast('cpu', dtype=torch.float32)
torch.autocast('cuda')
torch.amp.GradScaler()
torch.amp.GradScaler('cpu', growth_factor=1)
torch.amp.GradScaler('cpu').unscale_(o)
torch.amp.GradScaler('cpu').step(o)
torch.amp.GradScaler('cpu').update()
torch.amp.GradScaler('cpu').scale(3)
torch.amp.GradScaler('cpu').load_state_dict({})"""


@pytest.mark.parametrize("code", REFUSED.split("\n"))
def test_what_makes_no_sense_is_said_in_pytorchs_words(code: str, engines: Any) -> None:
    found = []
    for engine in engines:
        optimizer = engine.optim.SGD([engine.ones(1, requires_grad=True)], 0.1)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                eval(code, {"torch": engine, "o": optimizer})
            except Exception as error:
                found.append((type(error), str(error)))
            else:
                found.append([str(one.message) for one in caught])

    assert found[0] == found[1]


def test_a_scaler_grows_and_shrinks_as_pytorchs(engines: Any) -> None:
    found = []
    for engine in engines:
        parameter = engine.nn.Parameter(engine.ones(3))
        optimizer = engine.optim.SGD([parameter], 0.1)
        scaler = engine.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
        seen = []
        for step in range(6):
            optimizer.zero_grad()
            scaler.scale((parameter**2).sum()).backward()
            if step == 3:
                parameter.grad[0] = float("nan")
            if step % 2:
                scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update(4.0 if step == 4 else None)
            seen += [scaler.state_dict(), parameter.tolist()]
        other = engine.amp.GradScaler("cpu")
        other.load_state_dict(copy.deepcopy(scaler.state_dict()))
        found.append((seen, other.state_dict(), scaler.is_enabled()))

    assert found[0] == found[1]


def test_custom_functions_keep_what_their_forward_had(engines: Any) -> None:
    found = []
    for engine in engines:

        class Doubled(engine.autograd.Function):
            @staticmethod
            @engine.amp.custom_fwd(device_type="cpu", cast_inputs=engine.float32)
            def forward(ctx: Any, x: Any) -> Any:
                return x @ x

            @staticmethod
            @engine.amp.custom_bwd(device_type="cpu")
            def backward(ctx: Any, grad: Any, engine: Any = engine) -> Any:
                return grad * 2.0 * (2 if engine.is_autocast_enabled("cpu") else 1)

        x = engine.ones(2, 2, dtype=engine.bfloat16, requires_grad=True)
        with engine.autocast("cpu"):
            made = Doubled.apply(x)
        made.sum().backward()
        found.append((str(made.dtype), x.grad.tolist()))

    assert found[0] == found[1]


@pytest.mark.filterwarnings("ignore")
def test_the_old_names_are_there(engines: Any) -> None:
    for engine in engines:
        assert not engine.cuda.amp.GradScaler().is_enabled()
        with engine.cuda.amp.autocast():
            assert not engine.is_autocast_enabled("cpu")
        with engine.cpu.amp.autocast():
            assert engine.is_autocast_enabled("cpu")
