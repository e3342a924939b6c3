import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2))
opt = torch.optim.Adam(net.parameters(), lr=0.01)
x = torch.randn(48, 6)
y = (x.sum(dim=1) > 0).long()
best = None
for epoch in range(3):
    net.train()
    total = 0.0
    for xb, yb in zip(x[:32].split(16), y[:32].split(16)):
        opt.zero_grad()
        loss = F.cross_entropy(net(xb), yb)
        loss.backward()
        opt.step()
        total += loss.item()
    net.eval()
    with torch.no_grad():
        out = net(x[32:])
        valid = F.cross_entropy(out, y[32:]).item()
        right = (out.softmax(dim=1).argmax(dim=1) == y[32:]).float().mean().item()
    if best is None or valid < best[0]:
        best = valid, {name: value.clone() for name, value in net.state_dict().items()}
    print(epoch, total / 2, valid, right)
net.load_state_dict(best[1])
