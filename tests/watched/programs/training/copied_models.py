"""Models copied, pickled, saved whole, scripted, and traced between steps."""

import copy
import inspect
import io
import pickle
import sys

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)])
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.calls += 1
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


def saved(model):
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


torch.manual_seed(0)
model, x = Net(), torch.randn(5, 4)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
for copied in (copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each)), saved):
    optimizer.zero_grad()
    model(x).square().sum().backward()
    optimizer.step()
    other = copied(model)
    print(type(other).__name__, int(other.calls), other(x).norm().item().hex())
    print(type(copied(optimizer)).__name__, model.layers[0].weight.grad.norm().item().hex())
graph = torch.fx.symbolic_trace(model.layers[0])
print(graph.code.strip())
if sys.version_info < (3, 14):
    print(torch.jit.trace(model.layers[0], x).graph)
    print(torch.jit.script(model)(x).norm().item().hex())
functions = (torch.Tensor.backward, torch.autograd.grad, torch.nn.Module.__call__, torch.optim.Adam.step)
print(*(inspect.signature(each) for each in functions), sep="\n")
print(*(pickle.loads(pickle.dumps(each)) is each for each in (torch.autograd.backward, torch.nn.functional.relu)))
