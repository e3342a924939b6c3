"""Optimizers and schedules: PyTorch's steps, states and words; writes that are counted."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import gradscope.runtime as ours
from gradscope.runtime.core import probe
from tests.runtime.answers.kept import as_pytorch_answered

OPTIMIZERS = """SGD(p, 0.1)
SGD(p, 0.1, momentum=0.9)
SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01)
SGD(p, 0.1, momentum=0.9, dampening=0.1, maximize=True)
Adam(p, 0.01)
Adam(p, 0.01, amsgrad=True, weight_decay=0.1)
AdamW(p, 0.01, betas=(0.8, 0.9))
RMSprop(p, 0.01)
RMSprop(p, 0.01, momentum=0.9, centered=True, weight_decay=0.1)
Adagrad(p, 0.1, lr_decay=0.1)
SGD(p, 0.1, momentum=0.9, foreach=True)
Adadelta(p, 0.5, weight_decay=0.1)
Adamax(p, 0.01, weight_decay=0.1, maximize=True)
NAdam(p, 0.01, weight_decay=0.1)
NAdam(p, 0.01, weight_decay=0.1, decoupled_weight_decay=True)
RAdam(p, 0.01, weight_decay=0.1, betas=(0.9, 0.9))
ASGD(p, 0.01, t0=2, weight_decay=0.1)
Rprop(p, 0.01)
Adafactor(p, 0.01, weight_decay=0.1)
Muon([w for w in p if w.ndim == 2], 0.01)
LBFGS(p, 0.5, max_iter=3, history_size=2)"""

REFUSED = """SGD([], 0.1)
SGD(p[0], 0.1)
SGD(p, -1)
SGD([p[0] * 1], 0.1)
SGD([3], 0.1)
SGD(p, 0.1, nesterov=True)
SGD(p, 0.1, momentum=-1)
SGD([{'params': p}, {'params': p}], 0.1)
SGD([{'params': {p[0]}}], 0.1)
SGD({'params': p}, 0.1)
Adam(p, betas=(1.0, 0.9))
Adam(p, eps=-1)
RMSprop(p, alpha=-1)
Adam(p, torch.ones(1), foreach=True)
Adam(p, torch.ones(2))
Adam(p, betas=(torch.tensor(0.9), 0.9))
Adam(p, fused=True, differentiable=True)
Adam(p, fused=True, foreach=True)
Adadelta(p, rho=2)
NAdam(p, momentum_decay=-1)
Rprop(p, etas=(1.5, 2))
Adafactor(p, d=0.5)
Adafactor(p, eps=(-1.0, 0.1))
Muon(p)
Muon([torch.nn.Parameter(torch.ones(2, 2))], adjust_lr_fn='x')
SparseAdam(p, lr=0.0)
LBFGS([{'params': p[:1]}, {'params': []}])
SGD([{'params': [('a', p[0])]}, {'params': [torch.nn.Parameter(torch.ones(1))]}])
SGD([('a', p[0]), torch.nn.Parameter(torch.ones(1))])
Optimizer(p, {}).step()
SGD(p, 0.1).load_state_dict({'param_groups': [], 'state': {}})
SGD(p, 0.1).load_state_dict({'param_groups': [{'params': [0, 1, 2]}], 'state': {}})"""


def trained(engine: Any, code: str, steps: int = 5) -> Any:
    """A model and its optimizer after some steps."""
    engine.manual_seed(1)
    nn = engine.nn
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    x, y = engine.randn(16, 4), engine.randn(16, 1)
    optimizer = eval(f"optim.{code}", {"optim": engine.optim, "p": model.parameters()})

    def closure() -> Any:
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)
    return model, optimizer


@as_pytorch_answered({"optim/steps": OPTIMIZERS.split("\n")})
def test_an_optimizer_takes_pytorchs_steps(torch: Any, code: str) -> Any:
    model, optimizer = trained(torch, code)
    return {
        "weights": list(model.parameters()),
        "writes": [p._version for p in model.parameters()],
        "states": {k: sorted(state) for k, state in optimizer.state_dict()["state"].items()},
        "text": repr(optimizer),
    }


def test_every_optimizer_has_kept_answers() -> None:
    asked = {code.partition("(")[0] for code in OPTIMIZERS.split("\n")} | {"SparseAdam"}
    kinds = {name: kind for name, kind in vars(ours.optim).items() if isinstance(kind, type)}
    offered = {name for name, kind in kinds.items() if issubclass(kind, ours.optim.Optimizer)}

    assert sorted(offered - asked - {"Optimizer"}) == []


@as_pytorch_answered({"optim/sparse_adam": {"minimize": False, "maximize": True}})
def test_sparse_adam_changes_the_rows_that_were_looked_up(torch: Any, maximize: bool) -> Any:
    torch.manual_seed(1)
    table = torch.nn.Embedding(6, 3, sparse=True, padding_idx=1)
    bags = torch.nn.EmbeddingBag(6, 3, sparse=True, mode="sum")
    params = [table.weight, bags.weight]
    optimizer = torch.optim.SparseAdam(params, lr=0.1, maximize=maximize)
    for i in range(4):
        optimizer.zero_grad()
        looked_up = table(torch.tensor([0, 2, 2, i]))
        summed = bags(torch.tensor([[i, 5]]))
        (looked_up.pow(2).sum() + summed.exp().sum()).backward()
        optimizer.step()
    state = optimizer.state_dict()["state"]
    moments = [state[nr][name] for nr in state for name in ("exp_avg", "exp_avg_sq")]
    steps = [state[nr]["step"] for nr in state]
    return params, [p.grad.to_dense() for p in params], moments, steps, [p._version for p in params]


@as_pytorch_answered({"optim/refusals": REFUSED.split("\n")})
def test_an_optimizer_refuses_in_pytorchs_words(torch: Any, code: str) -> Any:
    p = [torch.nn.Parameter(torch.ones(2))]
    with pytest.raises((ValueError, TypeError, RuntimeError)) as refused:
        eval(f"optim.{code}", {"optim": torch.optim, "p": p, "torch": torch})
    return refused.type.__name__, str(refused.value)


@pytest.mark.parametrize("code", OPTIMIZERS.split("\n"))
def test_an_optimizer_that_was_saved_goes_on_where_it_was(code: str) -> None:
    model, optimizer = trained(ours, code)
    again = copy.deepcopy(model)
    other = eval(f"optim.{code}", {"optim": ours.optim, "p": again.parameters()})
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))

    for one, taking in ((model, optimizer), (again, other)):

        def closure(one: Any = one, taking: Any = taking) -> Any:
            taking.zero_grad()
            loss = one(ours.ones(2, 4)).sum()
            loss.backward()
            return loss

        taking.step(closure)

    assert [p.tolist() for p in again.parameters()] == [p.tolist() for p in model.parameters()]


def test_parameters_are_written_in_place_and_stay_leaves() -> None:
    parameter = ours.nn.Parameter(ours.ones(2))
    kept = parameter.detach()
    parameter.grad = ours.ones(2)

    ours.optim.SGD([parameter], 0.5).step()

    assert kept.tolist() == [0.5, 0.5]
    assert parameter._version == 1
    assert parameter.is_leaf


def test_a_closure_computes_the_loss_with_gradients_on() -> None:
    parameter = ours.nn.Parameter(ours.ones(1))
    optimizer = ours.optim.SGD([parameter], 0.1)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (parameter * 2).sum()
        loss.backward()
        return loss

    with ours.no_grad():
        loss = optimizer.step(closure)

    assert loss.item() == 2
    assert parameter.item() == pytest.approx(0.8)


def test_groups_have_rates_of_their_own() -> None:
    one, other = (ours.nn.Parameter(ours.zeros(1)) for _ in range(2))
    one.grad = other.grad = ours.ones(1)

    ours.optim.SGD([{"params": [one]}, {"params": [other], "lr": 10.0}], lr=1.0).step()

    assert (one.item(), other.item()) == (-1, -10)


class Watcher:
    """A probe that keeps what it is told of optimizers."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def step_begins(self, optimizer: Any) -> None:
        self.told.append(type(optimizer).__name__)

    def step_ends(self, *, nested: bool) -> None:
        self.told.append("end" + " of a part" * nested)

    def __getattr__(self, name: str) -> Any:
        return lambda *args: 0


def test_the_probe_is_told_of_a_step_also_of_a_users_own_optimizer() -> None:
    class Failing(ours.optim.Optimizer):
        def step(self, closure: Any = None) -> None:
            raise ZeroDivisionError

    watcher = Watcher()
    parameter = ours.nn.Parameter(ours.ones(1))

    with probe.watching(watcher):
        ours.optim.SGD([parameter], 0.1).step()
        with pytest.raises(ZeroDivisionError):
            Failing([parameter], {}).step()

    assert watcher.told == ["SGD", "end", "Failing", "end"]


def test_hooks_are_called_before_and_after_a_step() -> None:
    seen: list[str] = []
    optimizer = ours.optim.SGD([ours.nn.Parameter(ours.ones(1))], 0.1)
    optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append("before"))
    handle = optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("after"))

    optimizer.step()
    handle.remove()
    optimizer.step()

    assert seen == ["before", "after", "before"]
