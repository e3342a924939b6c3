"""The runtime on NumPy alone: `GRADSCOPE_PLAIN=1`."""

from __future__ import annotations

import math
import os
import subprocess
import sys

PROGRAM = """
import sys
sys.modules["numba"] = sys.modules["llvmlite"] = None
import gradscope
import gradscope.runtime as torch
from gradscope.runtime import nn

def say(name, *values):
    print(name, *(f"{float(value):.9g}" for value in values))

torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(3, 48, 3, padding=1), nn.BatchNorm2d(48), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(48, 64, 3, padding=1), nn.GELU(), nn.Conv2d(64, 64, 3, groups=64), nn.SiLU(),
    nn.Upsample(scale_factor=2, mode="bilinear"), nn.AvgPool2d(2), nn.Flatten(),
    nn.Linear(64 * 14 * 14, 32), nn.LayerNorm(32), nn.Dropout(), nn.Linear(32, 10),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
images, labels = torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))

def step(images, labels):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    return loss

captured = gradscope.capture(step)
say("losses", *[captured(images, labels) for _ in range(25)])
compiled = torch.compile(model.eval())
say("model", *[compiled(images).sum() for _ in range(4)])

matrix = torch.randn(512, 512, requires_grad=True)
(matrix @ matrix).softmax(-1).square().sum().backward()
say("product", matrix.grad.norm())
query = torch.randn(2, 4, 128, 32, requires_grad=True)
nn.functional.scaled_dot_product_attention(query, query, query).square().sum().backward()
say("attention", query.grad.norm())
lstm = nn.LSTM(64, 128)
lstm(torch.randn(20, 16, 64))[0].square().sum().backward()
say("lstm", lstm.weight_ih_l0.grad.norm())
say("solved", torch.linalg.inv(torch.eye(300) + torch.randn(300, 300) / 40).norm())
say("drawn", torch.randperm(100_000)[-1], torch.poisson(torch.rand(300, 300) * 4).sum())
say("waiting", torch.empty(100_000, dtype=torch.float64).exponential_().sum())
where = torch.rand(2, 64, 64, 2) * 2 - 1
say("grid", nn.functional.grid_sample(torch.randn(2, 8, 64, 64), where).norm())
places = torch.randint(0, 9, (100_000,))
say("added", torch.zeros(9).index_add(0, places, torch.randn(100_000)).norm())
say("erfc", torch.erfc(torch.randn(100_000)).sum())
print(captured.report())
print(compiled.report())
"""


def test_a_program_runs_without_a_compiler() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "GRADSCOPE_PLAIN": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    *said, step, stop, ran, model, model_stop, model_ran = ended.stdout.splitlines()

    numbers = {name: [float(each) for each in values] for name, *values in map(str.split, said)}
    assert len(numbers) == 11
    assert all(math.isfinite(each) and each for values in numbers.values() for each in values)
    assert numbers["losses"][-1] < numbers["losses"][0] / 2

    assert (step, model) == ("step: 0 plans", "Sequential: 0 plans")
    assert stop == model_stop == "not replayed: GRADSCOPE_PLAIN=1 turns off compiled code"
    assert (ran, model_ran) == ("25 calls ran without replay", "4 calls ran without replay")
