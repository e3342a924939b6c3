import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)

net = nn.Sequential(
    nn.Linear(6, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Dropout(0.5), nn.Linear(24, 2)
)
opt = torch.optim.Adam(net.parameters(), lr=0.01)


def run(x, y, train):
    # ADD net.train(train)
    with torch.set_grad_enabled(train):
        loss = F.cross_entropy(net(x), y)  # BUG mode-left
    if train:
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


x = torch.randn(60, 6)
y = (x[:, 0] * x[:, 1] > 0).long()
for epoch in range(4):
    train = run(x[:40], y[:40], True)
    valid = run(x[40:], y[40:], False)  # ALSO
    print(f"{epoch}: {train:.3f} {valid:.3f}")
