"""Modes that see each call: a TorchDispatchMode that counts, a TorchFunctionMode, a default device."""

from collections import Counter

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


class Count(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls[str(func)] += 1
        return func(*args, **(kwargs or {}))


class Names(TorchFunctionMode):
    seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(getattr(func, "__name__", "?"))
        return func(*args, **(kwargs or {}))


torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.LayerNorm(4))
with Count() as count:
    model(torch.randn(2, 4)).square().sum().backward()
print(sorted(count.calls.items()))
with Names():
    torch.relu(torch.ones(3)) + 1
print(Names.seen)
with torch.device("cpu"), torch.inference_mode():
    print(model(torch.ones(1, 4)).is_inference())
print(model[0].weight.grad.norm().item().hex())
