"""Validation calls torch.no_grad() instead of entering it."""

import torch
import torch.nn as nn

torch.manual_seed(0)


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 8, 5, padding=2)
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        return self.head(torch.relu(self.conv(x)).mean(dim=2))


def validate(model, batches):
    model.eval()
    torch.no_grad()  # BUG no-effect
    # FIX torch.set_grad_enabled(False)
    predictions, errors = [], []
    for x, y in batches:
        output = model(x)
        predictions.append(output)
        errors.append((output - y).abs().mean())
    # ADD torch.set_grad_enabled(True)
    model.train()
    return torch.cat(predictions), torch.stack(errors).mean().item()


def train_epoch(model, optimizer, batches):
    for x, y in batches:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


series = torch.randn(48, 1, 16).cumsum(dim=2)
pairs = [(s, s[:, 0, -1:]) for s in series.split(8)]
model = Forecaster()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(3):
    train_loss = train_epoch(model, optimizer, pairs[:4])
    predictions, mae = validate(model, pairs[4:])
    print(epoch, train_loss, mae)
