"""A slow copy of a small network, which is validated instead of the network."""
import copy

import torch
from torch import nn

torch.manual_seed(0)


def network():
    return nn.Sequential(
        nn.Linear(5, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1)
    )


class Slow:
    def __init__(self, model, rate=0.1):
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self.rate = rate

    @torch.no_grad()
    def follow(self, model):
        new = dict(model.named_parameters())
        # ADD self.model.load_state_dict(dict(model.named_buffers()), strict=False)
        for name, value in self.model.named_parameters():
            value.mul_(1 - self.rate).add_(new[name], alpha=self.rate)  # BUG statistics-not-averaged


x = 3 + 2 * torch.randn(60, 5)
y = x[:, :2].sum(1, keepdim=True)
model = network()
slow = Slow(model)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(3):
    model.train()
    for part in torch.randperm(60).split(20):
        loss = nn.functional.mse_loss(model(x[part]), y[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        slow.follow(model)
    with torch.no_grad():
        print(epoch, loss.item(), nn.functional.mse_loss(slow.model(x), y).item())
