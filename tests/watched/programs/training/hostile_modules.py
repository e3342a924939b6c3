"""Modules that compare by value, count their length, and raise where nobody should ask."""

import torch


class Metric(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(3))
        self.register_buffer("total", torch.zeros(()))

    def __eq__(self, other):
        return Metric()

    def __hash__(self):
        return hash(("Metric", float(self.total)))

    def __bool__(self):
        raise RuntimeError("no truth in this")

    def __len__(self):
        raise RuntimeError("no length")

    def __repr__(self):
        raise RuntimeError("no picture")

    @property
    def name(self):
        raise KeyError("no name")

    def forward(self, x):
        out = (x * self.scale).mean()
        self.total += out.detach()
        return out


torch.manual_seed(0)
layer, metric = torch.nn.Linear(4, 3), Metric()
optimizer = torch.optim.SGD([*layer.parameters(), *metric.parameters()], lr=0.1)
for step in range(5):
    loss = metric(torch.tanh(layer(torch.randn(6, 4))))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), metric.scale.grad.norm().item().hex(), metric.total.item().hex())
