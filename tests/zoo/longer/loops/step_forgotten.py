"""A regression that never gets better: nobody steps."""
import torch
import torch.nn as nn


def fit(model, data, epochs=3):
    opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(epochs):
        for x, y in data:
            opt.zero_grad(set_to_none=True)
            loss = nn.functional.smooth_l1_loss(model(x), y)
            loss.backward()  # BUG never-stepped
            # ADD opt.step()
        print(loss.item())


torch.manual_seed(0)
batches = [(x, x[:, :2] * 3) for x in torch.randn(4, 16, 5)]
fit(nn.Sequential(nn.Linear(5, 20), nn.ReLU(), nn.Linear(20, 2)), batches)
