import torch
import torch.nn as nn

torch.manual_seed(0)

model = nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 1))
optim = torch.optim.SGD(model.parameters(), lr=0.02)
data = torch.randn(8, 10, 6)


def train_epoch(batches):
    running = 0.0
    for xb in batches:
        yb = xb.abs().sum(dim=1, keepdim=True)
        optim.zero_grad()
        loss = nn.functional.mse_loss(model(xb), yb)
        loss.backward()
        optim.step()
        running += loss  # BUG history-kept
        # FIX running += loss.item()
    return running / len(batches)


for epoch in range(2):
    print(f"epoch {epoch}: {float(train_epoch(data)):.3f}")
