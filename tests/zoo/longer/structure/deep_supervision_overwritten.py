"""Deep supervision: the loss of each stage replaces that of the one before."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Stage(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.ReLU())
        self.exit = nn.Linear(width, classes)

    def forward(self, x):
        x = self.body(x)
        return x, self.exit(x)


class EarlyExit(nn.Module):
    def __init__(self, width=20, classes=3, stages=3):
        super().__init__()
        self.stem = nn.Linear(7, width)
        self.stages = nn.ModuleList(Stage(width, classes) for _ in range(stages))

    def forward(self, x):
        x, outputs = self.stem(x), []
        for stage in self.stages:
            x, logits = stage(x)  # ALSO
            outputs.append(logits)
        return outputs


def supervised(outputs, target, weights=(0.3, 0.3, 1.0)):
    loss = torch.zeros(())
    for weight, logits in zip(weights, outputs):
        loss = weight * F.cross_entropy(logits, target)  # BUG unused
        # FIX loss = loss + weight * F.cross_entropy(logits, target)
    return loss


model = EarlyExit()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
x = torch.randn(42, 7)
y = x[:, :3].argmax(dim=1)
for epoch in range(3):
    for xb, yb in zip(x.split(14), y.split(14)):
        outputs = model(xb)
        loss = supervised(outputs, yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        accuracies = [(o.argmax(1) == yb).float().mean().item() for o in outputs]
    print(epoch, loss.item(), accuracies)
