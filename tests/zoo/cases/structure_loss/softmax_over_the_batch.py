"""Knowledge of class probabilities is matched by a squared error."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)

net = nn.Sequential(nn.Linear(5, 24), nn.ReLU(), nn.Linear(24, 4))
opt = torch.optim.Adam(net.parameters(), lr=0.02)
x = torch.randn(30, 5)
wanted = F.softmax(x @ torch.randn(5, 4), dim=1)


def brier(logits, wanted):
    probs = F.softmax(logits, dim=0)  # BUG wrong-dim
    # FIX probs = F.softmax(logits, dim=1)
    return ((probs - wanted) ** 2).sum(dim=1).mean()


for epoch in range(4):
    opt.zero_grad()
    loss = brier(net(x), wanted)
    loss.backward()
    opt.step()
    print(epoch, loss.item())
