import torch
import torch.nn as nn

torch.manual_seed(5)


def standardise(table):
    mean = table.mean(dim=0)
    std = table.std(dim=0)
    return (table - mean) / std  # BUG non-finite
    # FIX return (table - mean) / std.clamp_min(1e-6)


def load():
    table = torch.rand(30, 5) * 10
    table[:, 3] = 1.0  # an indicator that is always set
    price = table[:, :3].sum(dim=1, keepdim=True) + 0.1 * torch.randn(30, 1)
    return table, (price - price.mean()) / price.std()


features, price = load()
features = standardise(features)
regressor = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(regressor.parameters(), lr=0.01)
criterion = nn.MSELoss()

for epoch in range(4):
    optimizer.zero_grad()
    loss = criterion(regressor(features), price)
    loss.backward()
    optimizer.step()
    print(f"epoch {epoch}: {loss.item():.3f}")
