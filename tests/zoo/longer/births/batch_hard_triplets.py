"""Metric learning with batch-hard mining over a matrix of distances."""

import torch
import torch.nn as nn

torch.manual_seed(1)


def pairwise(z):
    diff = z[:, None, :] - z[None, :, :]
    return diff.pow(2).sum(dim=-1).sqrt()  # BUG non-finite
    # FIX return (diff.pow(2).sum(dim=-1) + 1e-12).sqrt()


class BatchHard(nn.Module):
    def __init__(self, margin=0.3):
        super().__init__()
        self.margin = margin

    def forward(self, z, labels):
        distance = pairwise(z)
        same = labels[:, None] == labels[None, :]
        hardest_positive = (distance * same).max(dim=1).values
        hardest_negative = (distance + 1e3 * same).min(dim=1).values
        return torch.relu(hardest_positive - hardest_negative + self.margin).mean()


class Embedder(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))


def batches(n_batches, per_class=4, classes=3):
    centres = torch.randn(classes, 8) * 2
    for _ in range(n_batches):
        labels = torch.arange(classes).repeat_interleave(per_class)
        yield centres[labels] + torch.randn(len(labels), 8), labels


def fit():
    model, criterion = Embedder(), BatchHard()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for number, (x, labels) in enumerate(batches(4)):
        z = model(x)
        loss = criterion(z, labels) + 1e-3 * pairwise(z).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(number, loss.item())


fit()
