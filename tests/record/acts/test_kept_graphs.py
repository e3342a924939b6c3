"""What holds graphs of former steps is told with the line that stores, on both engines."""

from __future__ import annotations

import pytest

from gradscope.analysis.report import inspect
from tests.record.acts.test_acts import lines
from tests.record.running import House
from tests.shared.acts import acts, said

SCRIPT = """\
import collections, gc, weakref
import torch

class Meter:
    def __init__(self):
        self.mean, self.all = None, {"loss": []}

    def add(self, loss):
        self.all["loss"].append(loss)
        self.mean = loss if self.mean is None else 0.9 * self.mean + 0.1 * loss

model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
recent = collections.deque(maxlen=9)
meter, last = Meter(), None

def train(x, log):
    total = 0.0
    for step in range(4):
        out = model(x)
        loss = out.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss
        recent.append((step, out))
        log[step] = loss.item()
        meter.add(loss); keep(out)
    return weakref.ref(loss)

def evaluate(x):
    model.eval()
    scores = [model(x) for _ in range(2)]
    model.train()
    return len(scores)

def keeper():
    seen = []
    def keep(value):
        seen.append(value)
    return keep

keep = keeper()
left = train(torch.ones(5, 3), {})
keep.__closure__[0].cell_contents.clear()
meter.mean = None; meter.all.clear()
recent.clear()
gc.collect()
print(left() is None, evaluate(torch.ones(5, 3)))
"""

TOLD = {
    ("total", "", "step"): (1, 4, [25]),
    ("recent", "deque", "step"): (3, 3, [26]),
    ("all", "dict", "step"): (3, 3, [9]),
    ("mean", "", "step"): (1, 4, [10]),
    ("seen", "list", "step"): (3, 3, [40]),
    ("scores", "list", "evaluation"): (2, 1, [33]),
}


@pytest.mark.parametrize("engine", ["gradscope", pytest.param("torch", marks=pytest.mark.torch)])
def test_names_that_hold_former_graphs_are_told_and_nothing_is_held_by_looking(
    house: House, engine: str
) -> None:
    house.write(SCRIPT)

    ran = house.trace("--on", engine, "script.py")

    trace, told = house.recorded(), {}
    for act in acts(trace, "kept"):
        facts = said(trace, act)
        key = facts["name"], facts.get("container", ""), facts["when"]
        told[key] = facts["many"], facts["steps"], lines(trace, act.stack)
    assert ran.out == "True 2\n"
    assert told == TOLD


ENDED = """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.states = torch.nn.Linear(2, 2), [torch.zeros(1, 2)]

    def forward(self):
        fresh = []
        for state in self.states:
            x = self.cell(state).tanh()
            fresh.append(x)
        self.states = fresh
        return x.sum()

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(2):
    loss = net()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("engine", ["gradscope", pytest.param("torch", marks=pytest.mark.torch)])
def test_what_still_holds_a_former_graph_is_told_where_a_second_backward_ended_it(
    house: House, engine: str
) -> None:
    house.write(ENDED)

    house.trace("--on", engine, "script.py")

    trace = house.recorded()
    told = {
        facts["name"]: lines(trace, act.stack)
        for act in acts(trace, "kept")
        if (facts := said(trace, act))["when"] == "error"
    }
    assert told["states"] == [6, 13, 12]
    (found,) = (each for each in inspect(trace).findings if each.rule == "GS303")
    assert "it reads a tensor kept at script.py:12 with its graph" in found.why
    assert found.fix == "write `fresh.append(x.detach())` instead of `fresh.append(x)`"


THREADS = """\
import threading, torch

def train(number):
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(6):
        x = torch.ones(2, 3)
        for part in range(3):
            x = model(x) * torch.ones(3)
            turn.wait()
            if part == number:  # the others are in the middle of theirs
                losses[number] = x.mean()
                optimizer.zero_grad(); losses[number].backward(); optimizer.step()
            turn.wait()
        losses[number] = x.mean()

losses = {}
turn = threading.Barrier(3)
threads = [threading.Thread(target=train, args=(number,)) for number in range(3)]
for each in threads: each.start()
for each in threads: each.join()
"""


def test_steps_of_several_threads_overlap_and_are_not_checked(house: House) -> None:
    house.write(THREADS)
    house.trace("script.py")

    assert [each.rule for each in inspect(house.recorded()).findings if each.rule == "GS601"] == []
