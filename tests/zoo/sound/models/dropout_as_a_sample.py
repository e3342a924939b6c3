"""Monte Carlo dropout: at the end dropout alone is switched on again, on purpose."""
import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, 1))
opt = torch.optim.Adam(net.parameters(), lr=0.01)
x = torch.randn(30, 3)
for _ in range(3):
    loss = (net(x) - x.prod(dim=1, keepdim=True)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
net.eval()
for module in net.modules():
    if isinstance(module, nn.Dropout):
        module.train()
with torch.no_grad():
    draws = torch.stack([net(x[:4]) for _ in range(5)])
print(loss.item(), draws.std(dim=0).mean().item())
