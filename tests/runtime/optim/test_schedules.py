"""Schedules: PyTorch's rates and momentums for 50 epochs, its states, warnings and refusals."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest

import gradscope.runtime as ours
from tests.runtime.answers.kept import as_pytorch_answered

SCHEDULES = """StepLR(o, 3)
MultiStepLR(o, [2, 5, 5, 20])
ExponentialLR(o, 0.9)
CosineAnnealingLR(o, 4, 0.01)
CosineAnnealingLR(o, 60)
LambdaLR(o, lambda e: 0.95 ** e)
LambdaLR(o, [lambda e: 0.95 ** e, lambda e: 1.0])
MultiplicativeLR(o, lambda e: 0.95)
LinearLR(o, total_iters=20)
LinearLR(o, 1.0, 0.1, 30)
ConstantLR(o)
PolynomialLR(o, 40, 2.0)
CosineAnnealingWarmRestarts(o, 5)
CosineAnnealingWarmRestarts(o, 3, 2, 0.01)
CyclicLR(o, 0.1, 0.5, 4, 7)
CyclicLR(o, [0.1, 0.2], 1.0, 4, mode='triangular2', cycle_momentum=False)
CyclicLR(o, 0.1, 0.5, 5, mode='exp_range', gamma=0.9)
CyclicLR(o, 0.1, 0.5, 5, scale_fn=lambda x: 1 / x, scale_mode='cycle')
OneCycleLR(o, 0.5, 60)
OneCycleLR(o, [0.5, 0.3], epochs=6, steps_per_epoch=10, anneal_strategy='linear', three_phase=True)
SequentialLR(o, [L.ConstantLR(o, 0.1, 2), L.ExponentialLR(o, 0.9)], [2])
SequentialLR(o, [L.LinearLR(o), L.CosineAnnealingLR(o, 5), L.StepLR(o, 4)], [5, 20])
ChainedScheduler([L.ConstantLR(o, 0.1, 20), L.ExponentialLR(o, 0.95)])"""

OPTIMIZERS = {
    "SGD": "SGD(groups, 0.5, momentum=0.9)",
    "Adam": "Adam(groups, 0.5)",
    "tensor": "SGD(groups, torch.tensor(0.5))",
}

REFUSED = """StepLR(3, 1)
LambdaLR(o, [len])
MultiplicativeLR(o, 3)
ConstantLR(o, 2)
LinearLR(o, 0)
LinearLR(o, 1, 2)
CosineAnnealingWarmRestarts(o, 0)
CosineAnnealingWarmRestarts(o, 2, 0)
CosineAnnealingWarmRestarts(o, 2, eta_min='x')
CosineAnnealingWarmRestarts(o, 2).step(-1)
CyclicLR(o, 0.1, 0.2, mode='x')
CyclicLR(o, [0.1], 0.2)
CyclicLR(torch.optim.Adagrad([p]), 0.1, 0.2)
OneCycleLR(o, 1)
OneCycleLR(o, 1, -1)
OneCycleLR(o, 1, epochs=0, steps_per_epoch=1)
OneCycleLR(o, 1, epochs=1, steps_per_epoch=0)
OneCycleLR(o, 1, 10, pct_start=2.0)
OneCycleLR(o, 1, 10, anneal_strategy='x')
SequentialLR(o, [], [])
SequentialLR(o, [L.StepLR(o, 1)], [1])
SequentialLR(o, [L.ReduceLROnPlateau(o)], [])
SequentialLR(o, [3], [])
ChainedScheduler([])
ChainedScheduler([L.ReduceLROnPlateau(o)])
ReduceLROnPlateau(o, factor=1)
ReduceLROnPlateau(o, 'x')
ReduceLROnPlateau(o, threshold_mode='x')
ReduceLROnPlateau(o, min_lr=[1])
StepLR(o, 1, last_epoch=3)"""


ASKED = f"{SCHEDULES} ReduceLROnPlateau("
"""By name; what a plateau does is asked by itself."""


def optimizer_of(engine: Any, kind: str = "SGD") -> Any:
    groups = [{"params": [engine.nn.Parameter(engine.ones(1))]} for _ in range(2)]
    return eval(f"torch.optim.{OPTIMIZERS[kind]}", {"torch": engine, "groups": groups})


def schedule_of(engine: Any, optimizer: Any, code: str) -> Any:
    names = {"L": engine.optim.lr_scheduler, "o": optimizer, "torch": engine}
    names["p"] = optimizer.param_groups[0]["params"][0]
    return eval(f"L.{code}", names)


def rates(optimizer: Any, schedule: Any, epochs: int = 50) -> list[float]:
    """Rates and momentums of each group in each epoch."""
    found = []
    for _ in range(epochs):
        assert [float(lr) for lr in schedule.get_last_lr()] == [
            float(group["lr"]) for group in optimizer.param_groups
        ]
        for group in optimizer.param_groups:
            momentum = group["betas"][0] if "betas" in group else group["momentum"]
            found += [float(group["lr"]), momentum]
        optimizer.step()
        schedule.step()
    return found


@pytest.fixture
def theirs() -> Any:
    return pytest.importorskip("torch")


CALLS = {f"{kind}, {code}": (kind, code) for kind in OPTIMIZERS for code in SCHEDULES.split("\n")}


@as_pytorch_answered({"optim/rates": CALLS})
def test_a_schedule_sets_pytorchs_rates(torch: Any, call: tuple[str, str]) -> Any:
    kind, code = call
    optimizer = optimizer_of(torch, kind)
    try:
        return rates(optimizer, schedule_of(torch, optimizer, code), 30)
    except ValueError as error:  # of a tensor's rate, for some
        return str(error)


def plain(value: Any) -> Any:
    """What a state says, without what cannot be compared."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


@pytest.mark.torch
@pytest.mark.parametrize("code", SCHEDULES.split("\n"))
def test_a_schedules_state_goes_both_ways(code: str, theirs: Any) -> None:
    states, expected, gone_on = [], [], []
    for engine in (ours, theirs):
        optimizer = optimizer_of(engine)
        schedule = schedule_of(engine, optimizer, code)
        rates(optimizer, schedule, 7)
        states.append((copy.deepcopy(schedule.state_dict()), optimizer.state_dict()))
        expected.append(rates(optimizer, schedule, 10))
    for engine, (state, options) in zip((theirs, ours), states, strict=True):
        optimizer = optimizer_of(engine)
        schedule = schedule_of(engine, optimizer, code)
        optimizer.load_state_dict({**options, "state": {}})
        schedule.load_state_dict(state)
        gone_on.append(rates(optimizer, schedule, 10))

    assert plain(states[0][0]) == plain(states[1][0])
    assert gone_on[0] == pytest.approx(expected[0], rel=1e-14)
    assert gone_on[1] == pytest.approx(expected[0], rel=1e-14)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("code", SCHEDULES.split("\n")[:14])
def test_a_jump_to_an_epoch_uses_the_closed_form(code: str, theirs: Any) -> None:
    found = []
    for engine in (ours, theirs):
        optimizer = optimizer_of(engine)
        schedule = schedule_of(engine, optimizer, code)
        for epoch in (3, 17, 5):
            schedule.step(epoch)
            found.append(schedule.get_last_lr())

    assert found[:3] == [pytest.approx(one, rel=1e-14) for one in found[3:]]


def test_every_schedule_has_kept_answers() -> None:
    found = vars(ours.optim.lr_scheduler)
    kinds = {
        name for name, kind in found.items() if isinstance(kind, type) and hasattr(kind, "step")
    }
    offered = {name for name in kinds if name[0] != "_"} - {"LRScheduler", "Optimizer"}

    assert sorted(name for name in offered if f"{name}(" not in ASKED) == []


@as_pytorch_answered({"optim/schedules_refused": REFUSED.split("\n")})
def test_a_schedule_refuses_in_pytorchs_words(torch: Any, code: str) -> Any:
    with pytest.raises((ValueError, TypeError, KeyError)) as refused:
        schedule_of(torch, optimizer_of(torch), code)
    return refused.type.__name__, str(refused.value)


WARNED = """s.step()
s.get_lr()
o.step(); s.step(); s.step(3)
setattr(o, 'step', lambda: None); s.step()
o.step(); s.step()"""


@as_pytorch_answered({"optim/schedules_warned": WARNED.split("\n")})
def test_a_schedule_warns_in_pytorchs_words(torch: Any, code: str) -> Any:
    optimizer = optimizer_of(torch)
    schedule = schedule_of(torch, optimizer, "StepLR(o, 2)")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(code, {"s": schedule, "o": optimizer, "setattr": setattr})
    return [(one.category.__name__, str(one.message)) for one in caught]


PLATEAUS = (
    "patience=1",
    "mode='max', cooldown=2, patience=0",
    "factor=0.5, min_lr=0.2, patience=0",
    "threshold_mode='abs', threshold=0.5, patience=0, min_lr=[0.1, 0.2]",
)


@as_pytorch_answered({"optim/plateaus": PLATEAUS})
def test_a_plateau_lowers_the_rate_when_pytorchs_does(torch: Any, options: str) -> Any:
    optimizer = optimizer_of(torch)
    schedule = schedule_of(torch, optimizer, f"ReduceLROnPlateau(o, {options})")
    seen = []
    for measure in (3, 2, 2, 2, 2, 1, 1, 1, 1, 1):
        schedule.step(measure)
        seen.append(schedule.get_last_lr())
    return seen, schedule.state_dict()
