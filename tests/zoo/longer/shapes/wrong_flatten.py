import torch
import torch.nn as nn
import torch.nn.functional as F


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(1, 6, 3), nn.Conv2d(6, 16, 3)
        self.f1 = nn.Linear(16 * 5 * 2, 32)
        # FIX self.f1 = nn.Linear(16 * 5 * 5, 32)
        self.f2 = nn.Linear(32, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.c1(x)), 2)
        x = F.relu(self.c2(x))
        x = x.view(-1, 16 * 5 * 2)  # BUG batch-swallowed
        # FIX x = x.flatten(1)
        return self.f2(F.relu(self.f1(x)))


torch.manual_seed(0)
net = LeNet()
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(3):
    x, y = torch.randn(10, 1, 16, 16), torch.randint(0, 10, (10,))
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
