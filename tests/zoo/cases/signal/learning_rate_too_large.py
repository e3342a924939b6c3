"""Adam with the step size of another optimizer: each step overwrites the weights."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


def fit(model, x, y, optimizer, steps=5):
    for i in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()  # ALSO
        print(i, loss.item())


x = torch.randn(60, 8)
y = x[:, :4].argmax(dim=1)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
fit(model, x, y, torch.optim.Adam(model.parameters(), lr=1.0))  # BUG update-ratio
# FIX fit(model, x, y, torch.optim.Adam(model.parameters(), lr=0.01))
