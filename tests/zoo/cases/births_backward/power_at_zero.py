import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(8)


class GeMPool(nn.Module):
    """Generalised mean pooling over the pixels of a feature map."""

    def __init__(self, p=3.0):
        super().__init__()
        self.p = nn.Parameter(torch.tensor(p))

    def forward(self, x):
        pooled = x.pow(self.p).mean(dim=(2, 3))
        return pooled.pow(1.0 / self.p)  # BUG non-finite
        # FIX return pooled.clamp_min(1e-6).pow(1.0 / self.p)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 3)
        self.pool = GeMPool()
        self.fc = nn.Linear(6, 2)

    def forward(self, x):
        return self.fc(self.pool(F.relu(self.conv(x))))


model = Net()
images = torch.rand(5, 1, 8, 8)
images[3] = 0.0  # a black frame
model.conv.bias.data.fill_(-0.05)
target = torch.tensor([0, 1, 0, 1, 1])
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
for step in range(3):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images), target)
    loss.backward()
    optimizer.step()
    print(step, loss.item())
