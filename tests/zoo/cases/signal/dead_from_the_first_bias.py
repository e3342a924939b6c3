"""A deep network with its own initialization."""
import torch
from torch import nn

torch.manual_seed(0)


def init(m):
    if isinstance(m, nn.Linear):
        nn.init.normal_(m.weight, std=0.02)
        nn.init.constant_(m.bias, -1.0)  # BUG dead
        # FIX nn.init.zeros_(m.bias)


layers = []
for i in range(4):
    layers += [nn.Linear(20 if i == 0 else 64, 64), nn.ReLU()]
net = nn.Sequential(*layers, nn.Linear(64, 2))
net[:8].apply(init)
# FIX
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
x, y = torch.randn(64, 20), torch.randint(0, 2, (64,))
for epoch in range(6):
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
