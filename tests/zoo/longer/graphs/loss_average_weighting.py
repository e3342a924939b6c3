"""Two losses, each divided by its own running average."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Balancer:
    def __init__(self, beta=0.9):
        self.beta, self.avg = beta, {}

    def __call__(self, **losses):
        total = 0.0
        for name, value in losses.items():
            old = self.avg.get(name, value.detach())
            self.avg[name] = self.beta * old + (1 - self.beta) * value  # BUG carried-over
            # FIX self.avg[name] = self.beta * old + (1 - self.beta) * value.detach()
            total = total + value / self.avg[name]
        return total


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 20), nn.Mish(), nn.Linear(20, 4))
opt = torch.optim.Adam(net.parameters())
balance = Balancer()
for it in range(5):
    x = torch.randn(24, 6)
    out = net(x)
    loss = balance(rec=F.mse_loss(out, x[:, :4]), sparse=out.abs().mean())
    opt.zero_grad()
    loss.backward(retain_graph=True)
    # FIX loss.backward()
    opt.step()
