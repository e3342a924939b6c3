"""Swapping in averaged weights for evaluation; the backup is no copy."""
import copy

import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
avg = copy.deepcopy(net).requires_grad_(False)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)


def evaluate_with_average(x, y):
    backup = net.state_dict()  # BUG not-a-copy
    # FIX backup = copy.deepcopy(net.state_dict())
    net.load_state_dict(avg.state_dict())
    with torch.no_grad():
        score = (net(x) - y).abs().mean().item()
    net.load_state_dict(backup)
    return score


x = torch.randn(64, 5)
y = x.sum(1, keepdim=True)
for epoch in range(4):
    opt.zero_grad()
    (net(x) - y).pow(2).mean().backward()
    opt.step()
    with torch.no_grad():
        for a, b in zip(avg.parameters(), net.parameters()):
            a.lerp_(b, 0.2)
    print(evaluate_with_average(x, y))
