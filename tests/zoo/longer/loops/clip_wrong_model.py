"""The gradients of the ema copy are clipped, not those of the model."""
import copy

import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.LSTM(5, 16, batch_first=True)
head = nn.Linear(16, 1)
ema = copy.deepcopy(model)
params = [*model.parameters(), *head.parameters()]
opt = torch.optim.SGD(params, lr=0.5)
for step in range(4):
    x = torch.randn(8, 12, 5)
    out, _ = model(x)
    loss = (head(out[:, -1]) - x.sum((1, 2), keepdim=False)[:, None]).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(ema.parameters(), 1.0)  # BUG clipped-at-the-wrong-time
    # FIX nn.utils.clip_grad_norm_(params, 1.0)
    opt.step()
    with torch.no_grad():
        for a, b in zip(ema.parameters(), model.parameters()):
            a.lerp_(b, 0.1)
