import torch
import torch.nn as nn

torch.manual_seed(0)

model = nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 1))
opt = torch.optim.Adam(model.parameters(), lr=0.01)
criterion = nn.SmoothL1Loss(reduction="none")
weights = torch.rand(25, 1) + 0.5


def weighted(pred, y):
    return criterion(pred, y) * weights  # BUG not-a-scalar
    # FIX return (criterion(pred, y) * weights).mean()


x = torch.randn(25, 4)
y = x.pow(2).sum(dim=1, keepdim=True)
for step in range(3):
    opt.zero_grad()
    loss = weighted(model(x), y)  # ALSO
    loss.backward()  # ALSO
    opt.step()
    print(step, loss.item())
