import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 1))
seen, norms = [], []
handles = [
    net[1].register_forward_hook(lambda mod, args, out: seen.append(out.detach().abs().mean().item())),
    net[0].weight.register_hook(lambda grad: norms.append(grad.norm().item())),
]
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(20, 4)
for _ in range(3):
    loss = (net(x) - x[:, :1]).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
for handle in handles:
    handle.remove()
print(seen, norms)
