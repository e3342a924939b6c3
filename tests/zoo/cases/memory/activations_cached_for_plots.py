import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, padding=1)
        self.conv2 = nn.Conv2d(4, 4, 3, padding=1)
        self.fc = nn.Linear(4, 2)
        self.maps = []

    def forward(self, x):
        h = F.relu(self.conv1(x))
        h = F.relu(self.conv2(h))
        self.maps.append(h)  # BUG history-kept
        # FIX self.maps = [h.detach()]
        return self.fc(h.mean(dim=(2, 3)))


net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(5):
    x = torch.rand(6, 1, 12, 12)
    y = (x.mean(dim=(1, 2, 3)) > 0.5).long()
    loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), net.maps[-1].mean().item())
