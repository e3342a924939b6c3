"""Pruning: a hook lets only the large weights learn. The limit is off by the scale of the data."""
import torch
import torch.nn as nn

torch.manual_seed(0)


def prune(layer, keep):
    size = layer.weight.detach().abs()
    limit = size.flatten().kthvalue(int(size.numel() * (1 - keep))).values
    mask = (size > limit * 1000).float()  # ALSO
    # FIX mask = (size > limit).float()
    layer.weight.register_hook(lambda grad: grad * mask)  # BUG zeroed


net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
prune(net[0], keep=0.5)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(40, 6)
y = x[:, :2].sum(dim=1, keepdim=True)
for step in range(4):
    loss = nn.functional.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
