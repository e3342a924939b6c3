"""A classifier with an auxiliary loss: features of two views are to be alike."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 12))
        self.classify = nn.Linear(12, 4)
        self.register_buffer("centres", torch.zeros(4, 12))

    def forward(self, x):
        z = self.features(x)
        return self.classify(F.relu(z)), z


def update_centres(net, z, y, rate=0.3):
    with torch.no_grad():
        for c in y.unique():
            net.centres[c] += rate * (z[y == c].mean(0) - net.centres[c])


def centre_distance(z, y, centres):
    return (z - centres[y]).pow(2).sum(1).mean()


net = Net()
optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
x, y = torch.randn(48, 10), torch.randint(0, 4, (48,))
for epoch in range(4):
    for xb, yb in zip(x.split(16), y.split(16)):
        logits, z = net(xb + 0.05 * torch.randn_like(xb))
        features = z.detach()  # ALSO
        update_centres(net, features, yb)
        pull = centre_distance(z.detach(), yb, net.centres)  # BUG graph-cut
        # FIX pull = centre_distance(z, yb, net.centres)
        smooth = F.cross_entropy(logits, yb, label_smoothing=0.1)
        loss = smooth + 0.05 * pull
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item(), pull.item())
