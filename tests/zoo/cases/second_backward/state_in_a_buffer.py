"""A filter whose estimate is a buffer of the module, updated in each forward."""
import torch
import torch.nn as nn


class Tracker(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.gain = nn.Linear(2 * size, size)
        self.register_buffer("estimate", torch.zeros(1, size))

    def forward(self, seen):
        before = self.estimate.expand_as(seen)
        step = torch.tanh(self.gain(torch.cat([before, seen], dim=1)))
        now = before + step * (seen - before)
        self.estimate = now.mean(dim=0, keepdim=True)  # BUG second-backward
        # FIX self.estimate = now.mean(dim=0, keepdim=True).detach()
        return now


torch.manual_seed(0)
tracker = Tracker(3)
opt = torch.optim.SGD(tracker.parameters(), lr=0.1)
path = torch.cumsum(torch.randn(6, 1, 3) * 0.2, dim=0)
for truth in path:
    noisy = truth + 0.1 * torch.randn(4, 3)
    loss = (tracker(noisy) - truth).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
