"""The last batch has one row left over, and batch norm sees 1x1 maps of it."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 4)
        self.norm = nn.BatchNorm2d(6)
        self.fc = nn.Linear(6, 2)

    def forward(self, x):
        return self.fc(F.relu(self.norm(self.conv(x))).flatten(1))  # ALSO


model = Small()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
images, labels = torch.rand(13, 1, 4, 4), torch.arange(13) % 2
for epoch in range(2):
    for xb, yb in zip(images.split(4), labels.split(4)):  # BUG batch-of-one
    # FIX for xb, yb in zip(images[:12].split(4), labels[:12].split(4)):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(xb), yb)  # ALSO
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
