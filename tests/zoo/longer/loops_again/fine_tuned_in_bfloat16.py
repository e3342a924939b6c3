"""A classifier fine-tuned in bfloat16, whose weights are too coarse for its learning rate."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 3))
model = model.to(torch.bfloat16)  # ALSO
# FIX model = model.float()
opt = torch.optim.AdamW(model.parameters(), lr=2e-5)  # BUG rounded-away
# FIX opt = torch.optim.AdamW(model.parameters(), lr=2e-5)
data, labels = torch.randn(24, 12), torch.randint(0, 3, (24,))
for epoch in range(2):
    for x, y in zip(data.split(8), labels.split(8)):
        logits = model(x.to(model[0].weight.dtype)).float()
        loss = F.cross_entropy(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
