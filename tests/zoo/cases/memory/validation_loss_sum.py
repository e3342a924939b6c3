"""Validation in eval mode but with gradients, summed up."""
import torch
import torch.nn as nn


def run(model, data, opt=None):
    model.train(opt is not None)
    total = 0
    for x, y in data:
        loss = nn.functional.cross_entropy(model(x), y)
        if opt is not None:
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        else:
            total += loss  # BUG graph-unused
            # FIX total += loss.item()
    return float(total) / len(data)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 40), nn.ReLU(), nn.Dropout(0.1), nn.Linear(40, 3))
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
train = [(torch.randn(16, 8), torch.randint(0, 3, (16,))) for _ in range(4)]
val = [(torch.randn(16, 8), torch.randint(0, 3, (16,))) for _ in range(4)]
for epoch in range(3):
    run(model, train, opt)
    print(run(model, val))
