"""Weights are kept on the unit sphere; `.data` slips past autograd's checks."""
import torch
import torch.nn as nn

torch.manual_seed(1)

proj = nn.Linear(6, 6, bias=False)
head = nn.Linear(6, 1)
opt = torch.optim.SGD([*proj.parameters(), *head.parameters()], lr=0.05)
x = torch.randn(20, 6)
y = x[:, :1] * x[:, 1:2]


def renormalize(w):
    w.data.div_(w.data.norm(dim=1, keepdim=True))  # BUG written-unseen


# ADD renormalize(proj.weight)
for step in range(4):
    h = torch.tanh(proj(x))
    h = torch.tanh(proj(h))
    renormalize(proj.weight)  # ALSO
    # FIX
    loss = (head(h) - y).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    # ADD renormalize(proj.weight)
    print(step, loss.item())
