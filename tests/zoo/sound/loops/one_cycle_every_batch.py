import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.1, total_steps=8)
x = torch.randn(32, 4)
y = x.sum(dim=1, keepdim=True)
for epoch in range(2):
    for xb, yb in zip(x.split(8), y.split(8)):
        opt.zero_grad()
        loss = nn.functional.mse_loss(net(xb), yb)
        loss.backward()
        opt.step()
        sched.step()
    print(epoch, loss.item())
