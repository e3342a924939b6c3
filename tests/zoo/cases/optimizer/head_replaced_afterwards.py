"""A new head for a new number of classes, put in after the optimizer was made."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


def backbone(classes):
    return nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, classes))


model = backbone(100)
# ADD model[2] = nn.Linear(24, 3)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)  # ALSO
model[2] = nn.Linear(24, 3)  # BUG replaced
# FIX

x = torch.randn(40, 10)
y = x[:, :3].argmax(dim=1)
for epoch in range(4):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
