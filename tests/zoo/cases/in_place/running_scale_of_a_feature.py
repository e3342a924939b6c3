"""Features are divided by a running scale that the forward pass itself updates."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Rescale(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("size", torch.ones(width))

    def update(self, batch):
        with torch.no_grad():
            self.size.mul_(0.9).add_(0.1 * batch.abs().mean(dim=0))  # BUG written-in-place
            # FIX self.size = 0.9 * self.size + 0.1 * batch.abs().mean(dim=0)

    def forward(self, x):
        return x / self.size


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(4, 8)
        self.rescale = Rescale(8)
        self.out = nn.Linear(8, 2)

    def forward(self, x):
        a = torch.tanh(self.inp(x))
        h = self.rescale(a)
        self.rescale.update(a)  # ALSO
        return self.out(h)


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(10, 4), torch.randint(0, 2, (10,))
for _ in range(3):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    print(loss.item())
