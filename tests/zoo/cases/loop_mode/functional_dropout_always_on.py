import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(10, 30)
        self.b = nn.Linear(30, 3)

    def forward(self, x):
        h = F.relu(self.a(x))
        h = F.dropout(h, p=0.4)  # BUG mode-left
        # FIX h = F.dropout(h, p=0.4, training=self.training)
        return self.b(h)


def evaluate(net, x, y):
    net.eval()
    with torch.no_grad():
        right = (net(x).argmax(1) == y).float().mean()
    net.train()
    return right.item()


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=0.01)
x = torch.randn(50, 10)
y = x[:, :3].argmax(1)
for epoch in range(3):
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    print(epoch, loss.item(), evaluate(net, x, y))
