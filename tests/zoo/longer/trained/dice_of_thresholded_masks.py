"""Segmentation with a Dice loss on thresholded predictions."""

import torch
import torch.nn as nn

torch.manual_seed(2)


class UNetLike(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.mid = nn.Conv2d(width, width, 3, padding=1)
        self.up = nn.Upsample(scale_factor=2)
        self.out = nn.Conv2d(width + 1, 1, 1)

    def forward(self, x):
        h = torch.relu(self.mid(self.down(x)))
        return self.out(torch.cat([self.up(h), x], dim=1))


class DiceLoss(nn.Module):
    def __init__(self, smooth=1.0):
        super().__init__()
        self.smooth = smooth

    def forward(self, logits, target):
        predicted = (torch.sigmoid(logits) > 0.5).float()  # BUG graph-cut
        # FIX predicted = torch.sigmoid(logits)
        overlap = (predicted * target).sum(dim=(1, 2, 3))
        size = predicted.sum(dim=(1, 2, 3)) + target.sum(dim=(1, 2, 3))
        return (1 - (2 * overlap + self.smooth) / (size + self.smooth)).mean()


def blobs(n):
    images = torch.zeros(n, 1, 8, 8)
    for i in range(n):
        r, c = torch.randint(1, 6, (2,)).tolist()
        images[i, 0, r : r + 2, c : c + 2] = 1.0
    return images + 0.1 * torch.randn_like(images), images


net = UNetLike()
criterion = DiceLoss()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
images, masks = blobs(6)
for step in range(3):
    optimizer.zero_grad()
    loss = criterion(net(images), masks)
    loss.backward()
    optimizer.step()
    print(step, loss.item())
