"""Losses and weights are read after the step."""

import torch
from torch import nn

torch.manual_seed(0)


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.out, self.aux = nn.Linear(8, 1), nn.Linear(8, 1)

    def forward(self, x):
        h = torch.relu(self.body(x))
        return self.out(h), self.aux(h)


net = Two()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(40, 4)
y = x.sum(1, keepdim=True)
history = []
for step in range(6):
    a, b = net(x)
    main, aux = (a - y).pow(2).mean(), (b - y).abs().mean()
    loss = main + 0.3 * aux
    opt.zero_grad()
    loss.backward()
    opt.step()
    history.append((main.item(), aux.detach(), net.body.weight.detach().norm()))
print(history[-1], net.out.weight.detach().flatten()[:3])
