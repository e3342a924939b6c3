"""What holds graphs of former steps is told with the line that stores, on both engines."""

from __future__ import annotations

import json

import pytest

from tests.record.acts.test_acts import acts, lines
from tests.record.running import House

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
        facts = json.loads(act.facts)
        key = facts["name"], facts["container"], facts["when"]
        told[key] = facts["many"], facts["steps"], lines(trace, act.stack)
    assert ran.out == "True 2\n"
    assert told == TOLD
