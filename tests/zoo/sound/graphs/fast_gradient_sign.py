import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 2))
opt = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(3):
    x = torch.randn(16, 6)
    y = (x[:, 0] > 0).long()
    probe = x.clone().requires_grad_(True)
    (grad,) = torch.autograd.grad(nn.functional.cross_entropy(net(probe), y), probe)
    shifted = x + 0.1 * grad.sign()
    loss = nn.functional.cross_entropy(net(x), y) + nn.functional.cross_entropy(net(shifted), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
