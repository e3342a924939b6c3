"""One small training, recorded on either engine at any level, that answers are asked about."""

from __future__ import annotations

import gc
import importlib
import tempfile
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import gradscope
from gradscope.trace.load_save import load
from gradscope.trace.trace import Trace

ENGINES = ["gradscope", pytest.param("torch", marks=pytest.mark.torch)]
BOTH = pytest.mark.parametrize("engine", ENGINES)
PROGRAM = """\
torch.manual_seed(0)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(8, 16)
        self.head = torch.nn.Linear(16, 1)
    def forward(self, x):
        hidden = torch.tanh(self.body(x))
        hidden.register_hook(watched)
        return self.head(hidden) + self.head(hidden * 2)
def watched(grad):
    print("")
def halved(grad):
    return grad * 0.5
net = Net()
net.body.weight.register_hook(halved)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
losses = []
for step in range(4):
    x = torch.ones(32, 8)
    loss = ((net(x) - 1) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    losses.append(loss)
"""


@cache
def a_training(engine: str, level: str = "engine", program: str = PROGRAM) -> Trace:
    """The trace of it, read from a file as `inspect` reads it."""
    name = {"gradscope": "gradscope.runtime", "torch": "torch"}[engine]
    torch = importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        script, trace = Path(folder, "train.py"), Path(folder, "trace.json")
        script.write_text(program, encoding="utf-8")  # lines of it are read
        module = ModuleType("train")  # whose names no collection takes before the recording ends
        vars(module)["torch"] = torch
        with gradscope.record(trace, level=level, on=engine):
            exec(compile(program, str(script), "exec"), vars(module))
            gc.collect()
        return load(trace)
