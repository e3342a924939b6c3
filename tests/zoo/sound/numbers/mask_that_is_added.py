import math

import torch
import torch.nn as nn

torch.manual_seed(0)
q, k, out = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 2)
opt = torch.optim.Adam([p for m in (q, k, out) for p in m.parameters()], lr=0.01)
x = torch.randn(5, 7, 6)
mask = torch.arange(7) < torch.tensor([7, 3, 5, 2, 6]).unsqueeze(1)
y = (x[:, 0, 0] > 0).long()
for _ in range(3):
    scores = q(x) @ k(x).transpose(1, 2) / math.sqrt(6)
    scores = scores + torch.log(mask.float()).unsqueeze(1)
    pooled = (scores.softmax(dim=-1) @ x).mean(dim=1)
    loss = nn.functional.cross_entropy(out(pooled), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
