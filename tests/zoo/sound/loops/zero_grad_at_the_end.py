import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Linear(5, 2)
opt = torch.optim.Adam(net.parameters(), lr=0.02)
x = torch.randn(30, 5)
y = (x[:, 0] > 0).long()
for epoch in range(4):
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    opt.zero_grad()
    print(epoch, loss.item())
