"""A classifier fine-tuned in bfloat16, whose weights are too coarse for its learning rate."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
dtype = torch.bfloat16  # ALSO
# FIX dtype = torch.float32
model = nn.Sequential(nn.Linear(12, 24, dtype=dtype), nn.GELU(), nn.Linear(24, 3, dtype=dtype))
opt = torch.optim.AdamW(model.parameters(), lr=2e-5)  # BUG rounded-away
# FIX opt = torch.optim.AdamW(model.parameters(), lr=2e-5)
data, labels = torch.randn(24, 12), torch.randint(0, 3, (24,))
for epoch in range(2):
    for x, y in zip(data.split(8), labels.split(8)):
        loss = F.cross_entropy(model(x.to(dtype)).float(), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
