import torch
import torch.nn as nn

torch.manual_seed(0)
trunk, left, right = nn.Linear(4, 12), nn.Linear(12, 1), nn.Linear(12, 1)
opt = torch.optim.SGD([p for m in (trunk, left, right) for p in m.parameters()], lr=0.05)
x = torch.randn(20, 4)
for _ in range(3):
    h = torch.tanh(trunk(x))
    a = (left(h) - x[:, :1]).pow(2).mean()
    b = (right(h) - x[:, 1:2]).abs().mean()
    opt.zero_grad()
    a.backward(retain_graph=True)
    b.backward()
    opt.step()
    print(a.item(), b.item())
