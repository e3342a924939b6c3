"""Profilers beside training: torch.profiler, cProfile, tracemalloc, and autograd's own."""
# slow

import cProfile
import tracemalloc

import torch
from torch.profiler import ProfilerActivity, profile, record_function

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(16, 8), torch.randn(16, 1)


def step():
    with record_function("step"):
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


tracemalloc.start()
with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
    losses = [step() for _ in range(3)]
tracemalloc.stop()
names = {event.key for event in prof.key_averages()}
print("step" in names, "aten::addmm" in names, "AddmmBackward0" in names)
plain = cProfile.Profile()
losses.append(plain.runcall(step))
print(any("backward" in str(entry.code) for entry in plain.getstats()))
print(*(each.hex() for each in losses), model[0].weight.grad.norm().item().hex())
