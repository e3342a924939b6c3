"""A learning rate that is lowered when validation stops getting better."""
import torch
from torch import nn

torch.manual_seed(0)
x, noise = torch.randn(128, 6), 0.1 * torch.randn(128)
y = x @ torch.tensor([1.0, -2.0, 0.5, 0.0, 3.0, 1.0]) + noise
train, valid = (x[:96], y[:96]), (x[96:], y[96:])
model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max", patience=0, factor=0.1)  # BUG scheduled-at-the-wrong-time
# FIX scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="min", patience=2, factor=0.1)

for epoch in range(12):
    model.train()
    for i in range(0, 96, 32):
        loss = nn.functional.mse_loss(model(train[0][i : i + 32]).squeeze(1), train[1][i : i + 32])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        score = nn.functional.mse_loss(model(valid[0]).squeeze(1), valid[1])
    scheduler.step(score)  # ALSO
    print(epoch, loss.item(), score.item(), optimizer.param_groups[0]["lr"])
