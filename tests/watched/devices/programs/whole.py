"""A model that is wholly on the device: its backward runs no node on the thread that calls it."""

import torch
from device import DEVICE, end

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)).to(DEVICE)
x = torch.randn(5, 3).to(DEVICE)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    loss = (net(x) ** 2).mean()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.4f}")
end()
