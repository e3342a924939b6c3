"""The schedule was meant for epochs: the rate is gone after the first one."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)

EPOCHS = 3
model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 3))
opt = torch.optim.SGD(model.parameters(), lr=0.2)
sched = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.5)
x = torch.randn(40, 6)
y = x[:, :3].argmax(dim=1)

for epoch in range(EPOCHS):
    for xb, yb in zip(x.split(5), y.split(5)):
        opt.zero_grad()
        loss = F.cross_entropy(model(xb), yb)
        loss.backward()
        opt.step()
        sched.step()  # BUG scheduled-at-the-wrong-time
        # FIX
    # ADD sched.step()
    print(epoch, sched.get_last_lr()[0], loss.item())
