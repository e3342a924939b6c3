"""A table is standardised in NumPy; one column is constant in the training split."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class TableDataset(Dataset):
    def __init__(self, features, targets):
        self.features = torch.from_numpy(features.astype(np.float32))  # BUG non-finite
        self.targets = torch.from_numpy(targets.astype(np.float32))

    def __len__(self):
        return len(self.features)

    def __getitem__(self, index):
        return self.features[index], self.targets[index]


def standardise(table, eps=0.0):  # ALSO
# FIX def standardise(table, eps=1e-8):
    mean, std = table.mean(axis=0), table.std(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (table - mean) / (std + eps)  # ALSO


def load(rows=60):
    rng = np.random.default_rng(0)
    table = rng.normal(size=(rows, 5))
    table[:, 3] = 1.0
    targets = table[:, 0] * 2 - table[:, 1]
    return standardise(table), targets


class Regressor(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


def train(epochs=2):
    torch.manual_seed(0)
    dataset = TableDataset(*load())
    loader = DataLoader(dataset, batch_size=20)
    model = Regressor(5)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    criterion = nn.SmoothL1Loss()
    for epoch in range(epochs):
        for features, targets in loader:
            optimizer.zero_grad()
            loss = criterion(model(features), targets)
            loss.backward()
            optimizer.step()
        print(f"{epoch=} {loss.item()=:.4f}")


train()
