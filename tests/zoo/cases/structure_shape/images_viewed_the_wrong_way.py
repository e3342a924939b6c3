"""Channels-last images are turned channels-first by view."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


def to_chw(batch):
    n, h, w, c = batch.shape
    return batch.view(n, c, h, w)  # BUG mixed-up-elements
    # FIX return batch.permute(0, 3, 1, 2)


class Colour(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3)
        self.fc = nn.Linear(6, 3)

    def forward(self, images):
        h = F.relu(self.conv(to_chw(images)))  # ALSO
        return self.fc(h.mean(dim=(2, 3)))


images = torch.rand(18, 6, 6, 3)
labels = images.mean(dim=(1, 2)).argmax(dim=1)
model = Colour()
opt = torch.optim.Adam(model.parameters(), lr=0.02)
for epoch in range(4):
    opt.zero_grad()
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    opt.step()
    print(epoch, loss.item())
