"""A regression trained by SGD with momentum in bfloat16, with steps that are smaller than its values are apart."""

import torch
import torch.nn as nn

torch.manual_seed(0)
dtype = torch.bfloat16  # ALSO
# FIX dtype = torch.float32
net = nn.Sequential(nn.Linear(8, 32, dtype=dtype), nn.Tanh(), nn.Linear(32, 1, dtype=dtype))
opt = torch.optim.SGD(net.parameters(), lr=1e-4, momentum=0.5)  # BUG rounded-away
# FIX opt = torch.optim.SGD(net.parameters(), lr=1e-4, momentum=0.5)
x = torch.randn(64, 8)
y = x[:, :1].sin()
for step in range(6):
    opt.zero_grad()
    loss = (net(x.to(dtype)).float() - y).pow(2).mean()
    loss.backward()
    opt.step()
    print(step, round(loss.item(), 4))
