"""A run that goes on from a checkpoint: what it lacks is named, and a whole one has no finding."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradscope.analysis.likeness.laws.resume import Resumed, StepStates, resumed
from gradscope.errors import UsageError
from gradscope.trace.schema import Act, Place, StepAct, Tensor, Value
from tests.analysis.likeness.engines import on_gradscope, on_pytorch
from tests.shared.by_hand import trace_of

Record = Callable[[Callable[[Any], Any]], Any]
STEPS, CUT = 4, 2
EVERYTHING = frozenset({"model", "optimizer", "scheduler", "random", "data"})


@pytest.fixture(params=["gradscope", "torch"])
def record(request: pytest.FixtureRequest) -> Record:
    """Records a program at level `values`, on both engines."""
    if request.param == "torch":
        pytest.importorskip("torch")
        return lambda program: on_pytorch(program, "values")
    return lambda program: on_gradscope(program, "values")


def halved(step: int) -> float:
    return float(0.5**step)


class Job:
    """A training with dropout, momentum and a schedule, which can be stopped and resumed."""

    def __init__(self, torch: Any) -> None:
        nn = torch.nn
        torch.manual_seed(0)
        self.torch = torch
        self.model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, halved)
        self.begin = 0

    def run(self, until: int) -> None:
        for step in range(self.begin, until):
            x = self.torch.from_numpy(np.full((3, 4), step + 1, np.float32))
            self.optimizer.zero_grad()
            self.model(x).square().mean().backward()
            self.optimizer.step()
            self.scheduler.step()

    def save(self) -> dict[str, Any]:
        return copy.deepcopy(
            {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "scheduler": self.scheduler.state_dict(),
                "random": self.torch.get_rng_state(),
            }
        )

    def load(self, state: dict[str, Any], parts: frozenset[str]) -> None:
        for part in ("model", "optimizer", "scheduler"):
            if part in parts:
                getattr(self, part).load_state_dict(state[part])
        if "optimizer" not in parts and "scheduler" in parts:  # as a scheduler's next step would
            for group in self.optimizer.param_groups:
                group["lr"] = state["scheduler"]["_last_lr"][0]
        if "random" in parts:
            self.torch.set_rng_state(state["random"])
        self.begin = CUT if "data" in parts else 0


def law(record: Record, parts: frozenset[str]) -> Resumed:
    """The law for a run that restores these parts of its checkpoint."""

    def whole(torch: Any) -> None:
        Job(torch).run(STEPS)

    def rest(torch: Any) -> None:
        job = Job(torch)
        job.load(state, parts)
        job.run(job.begin + STEPS - CUT)

    state: dict[str, Any] = {}

    def stopped(torch: Any) -> None:
        job = Job(torch)
        job.run(CUT)
        state.update(job.save())

    record(stopped)
    return resumed(record(whole), record(rest))


def test_a_run_that_restores_everything_does_the_same(record: Record) -> None:
    found = law(record, EVERYTHING)

    assert found.lost == ()
    assert (found.offset, found.steps) == (CUT, STEPS - CUT)
    assert found.hashes >= 4  # those of the first steps of a run are always measured
    assert found.values >= (STEPS - CUT) * 7
    assert found.loads


@pytest.mark.parametrize(
    ("part", "named"),
    [
        ("model", "parameters"),
        ("optimizer", "optimizer state"),
        ("scheduler", "learning rate"),
        ("random", "random state"),
        ("data", "data"),
    ],
)
def test_what_is_not_restored_is_named(record: Record, part: str, named: str) -> None:
    found = law(record, EVERYTHING - {part})

    assert found.lost
    assert any(each.what.startswith(named) for each in found.lost)
    assert len(found.lost) == 1
    assert found.lost[0].step in (CUT, CUT + 1)


def test_a_longer_second_run_is_refused() -> None:
    def program(steps: int) -> Callable[[Any], None]:
        return lambda torch: Job(torch).run(steps)

    with pytest.raises(UsageError, match="must be the run that was resumed"):
        resumed(on_gradscope(program(1), "values"), on_gradscope(program(2), "values"))


def test_a_parameter_has_the_value_before_a_step_though_it_is_measured_after_the_one_before() -> (
    None
):
    def value(id: int, step: int, t: int, norm: float) -> Value:
        return Value(id=id, place=Place.LEAF, tensor=1, step=step, t=t, norm=norm)

    trace = trace_of(
        Tensor(1, requires_grad=True, name="weight"),
        *(
            row
            for n in (0, 1)
            for row in (Act(id=n, kind="step", step=n, t=10 + 10 * n), StepAct(n))
        ),
        value(0, 0, 5, 1.0),
        value(1, 0, 11, 2.0),
        value(2, 1, 21, 3.0),
    )

    before = [StepStates(trace).leaves(step, trained=True)["weight"][-1] for step in (0, 1)]

    assert before == ["1.0", "2.0"]
