import torch
import torch.nn as nn

torch.manual_seed(0)

ACCUMULATE = 4
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
criterion = nn.MSELoss()
x = torch.randn(64, 5)
y = x.prod(dim=1, keepdim=True)

optimizer.zero_grad()
for i, (xb, yb) in enumerate(zip(x.split(4), y.split(4))):
    loss = criterion(model(xb), yb)
    loss.backward()  # BUG not-divided
    # FIX (loss / ACCUMULATE).backward()
    if (i + 1) % ACCUMULATE == 0:
        optimizer.step()
        optimizer.zero_grad()
        print(i, loss.item())
