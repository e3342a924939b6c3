"""A classifier with a warm-up and a cosine, written as a function of the epoch."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

BASE, EPOCHS, WARM_UP = 5e-3, 12, 3


def learning_rate(epoch):
    if epoch < WARM_UP:
        return BASE  # BUG rate-by-a-wrong-factor
        # FIX return 1.0
    done = (epoch - WARM_UP) / (EPOCHS - WARM_UP)
    return BASE * 0.5 * (1 + math.cos(math.pi * done))  # ALSO
    # FIX return 0.5 * (1 + math.cos(math.pi * done))


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 3))
opt = torch.optim.AdamW(net.parameters(), lr=BASE)
sched = torch.optim.lr_scheduler.LambdaLR(opt, lr_lambda=learning_rate)
X = torch.randn(96, 8)
Y = X[:, :3].argmax(1)
for epoch in range(EPOCHS):
    for i in range(0, 96, 32):
        loss = F.cross_entropy(net(X[i : i + 32]), Y[i : i + 32])
        opt.zero_grad()
        loss.backward()
        opt.step()
    sched.step()
print(loss.item(), opt.param_groups[0]["lr"])
